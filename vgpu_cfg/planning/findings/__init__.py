"""What planning can find: the codes, what each weighs, and what the plan file makes of them."""

from __future__ import annotations
