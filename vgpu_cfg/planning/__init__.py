"""What must change: pure functions from desired and observed to a plan; no network, no clock, no pyvmomi."""

from __future__ import annotations
