"""The table of VM settings: the wanted value of each, its comparison, and its edits."""

from __future__ import annotations
