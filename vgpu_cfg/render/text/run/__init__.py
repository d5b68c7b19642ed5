"""A run on a terminal, during it and at its end."""

from __future__ import annotations
