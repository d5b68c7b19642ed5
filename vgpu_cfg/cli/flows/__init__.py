"""How a command goes from a plan file to a plan, a run or a verification, and what it needs on the way."""

from __future__ import annotations
