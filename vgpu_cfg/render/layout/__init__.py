"""How lines are laid out and values worded, alike in every face."""

from __future__ import annotations
