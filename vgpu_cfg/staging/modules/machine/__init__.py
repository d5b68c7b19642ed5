"""How a guest is named, logged in to, networked and limited, whatever it is for."""

from __future__ import annotations
