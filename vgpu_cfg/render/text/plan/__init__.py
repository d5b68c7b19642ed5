"""A plan on a terminal: disruptions, changes with like ones folded, and the command to type."""

from __future__ import annotations
