"""Joint training of guests: containers, data, the mesh, the launcher, monitoring."""

from __future__ import annotations
