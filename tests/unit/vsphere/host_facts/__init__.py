"""What is read of a host only where a plan prepares it."""

from __future__ import annotations
