"""The options that many commands share, and what their words choose."""

from __future__ import annotations
