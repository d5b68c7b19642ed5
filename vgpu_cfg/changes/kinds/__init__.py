"""Each kind of change, with its relatives in one file: what it is, and how it describes itself."""

from __future__ import annotations
