"""Under which headings help lists the commands."""

from __future__ import annotations

PLAN = "Plan and run"
LOOK = "Look"
CHECK = "Check and explain"
HAND = "Hand over"
LAB = "Lab"
