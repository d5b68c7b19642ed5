"""Each kind of change with its relatives in one file: its definition and its description."""

from __future__ import annotations
