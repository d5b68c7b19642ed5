"""How a plan reads: what it disturbs, its changes with like ones folded, and what to type."""

from __future__ import annotations
