"""How a run reads, while it goes on and at its end."""

from __future__ import annotations
