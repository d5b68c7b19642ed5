"""How vCenter is reached and asked."""

from __future__ import annotations
