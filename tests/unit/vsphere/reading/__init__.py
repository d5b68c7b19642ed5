"""What a vCenter holds."""

from __future__ import annotations
