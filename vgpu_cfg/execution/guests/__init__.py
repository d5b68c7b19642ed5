"""How a guest is set up, and what its report amounts to."""

from __future__ import annotations
