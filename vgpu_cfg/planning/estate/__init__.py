"""The meaning of a plan file's names in one vCenter, and the plan's own objects there."""

from __future__ import annotations
