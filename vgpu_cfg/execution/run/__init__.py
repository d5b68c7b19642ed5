"""The order of changes and the state of a run: needs, caps, waves, start queues, interrupts."""

from __future__ import annotations
