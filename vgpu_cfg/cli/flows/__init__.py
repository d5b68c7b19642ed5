"""The flows of commands from a plan file to a plan, a run or a verification, and their preparations."""

from __future__ import annotations
