"""Which changes may begin now and what is known meanwhile: needs, caps, waves, start queues, interrupts."""

from __future__ import annotations
