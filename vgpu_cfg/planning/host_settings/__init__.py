"""The table of host settings: reading, comparison, writing, verification and description of each."""

from __future__ import annotations
