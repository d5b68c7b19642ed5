"""HTML pages that need no other files."""

from __future__ import annotations
