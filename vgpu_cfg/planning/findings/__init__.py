"""The findings of planning: the codes, their severity, and the plan file's changes to it."""

from __future__ import annotations
