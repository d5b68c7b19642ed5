"""Compute the changes: pure functions from desired and observed to a plan, without I/O or pyvmomi."""

from __future__ import annotations
