"""Documents in Markdown."""

from __future__ import annotations
