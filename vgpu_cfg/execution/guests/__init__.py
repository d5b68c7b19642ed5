"""Guest setup and the evaluation of guest reports."""

from __future__ import annotations
