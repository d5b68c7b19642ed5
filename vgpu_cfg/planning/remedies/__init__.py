"""Why something has no place or did not start, and what would help."""

from __future__ import annotations
