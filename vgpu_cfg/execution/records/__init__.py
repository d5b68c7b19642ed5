"""The records of a run: locks, journal, and marks on hosts."""

from __future__ import annotations
