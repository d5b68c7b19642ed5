"""How a command goes from a plan file to what it needs."""

from __future__ import annotations
