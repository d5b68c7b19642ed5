"""What a run leaves for others to read."""

from __future__ import annotations
