"""Under which headings help lists the commands."""

from __future__ import annotations

PLAN = "Plan and run"
LOOK = "Look"
HOSTS = "Work on hosts"
CHECK = "Check and explain"
HAND = "Hand over"
LAB = "Lab"
