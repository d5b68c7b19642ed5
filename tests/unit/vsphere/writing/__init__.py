"""How a change becomes a call."""

from __future__ import annotations
