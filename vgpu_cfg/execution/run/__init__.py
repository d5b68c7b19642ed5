"""Which changes may begin now and what is known meanwhile: needs, caps, waves, turns, interrupts."""

from __future__ import annotations
