"""What may begin now, and what is known while a run goes on."""

from __future__ import annotations
