"""What may begin now, and what is known while a run goes on? Needs, caps, waves, turns, interrupts."""

from __future__ import annotations
