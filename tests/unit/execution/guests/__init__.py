"""How a guest is set up."""

from __future__ import annotations
