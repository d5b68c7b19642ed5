"""GPU access of a guest: driver, license, and containers."""

from __future__ import annotations
