"""How it reads on a terminal."""

from __future__ import annotations
