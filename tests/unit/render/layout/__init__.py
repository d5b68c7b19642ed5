"""How lines are laid out."""

from __future__ import annotations
