"""Terminal output."""

from __future__ import annotations
