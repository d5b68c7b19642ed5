"""How a command answers."""

from __future__ import annotations
