"""How it reads as a page of HTML that needs nothing from elsewhere."""

from __future__ import annotations
