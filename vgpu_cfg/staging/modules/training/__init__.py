"""How guests train together: containers, data, the mesh, the launcher, watching."""

from __future__ import annotations
