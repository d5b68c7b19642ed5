"""What vCenter remembers: who made a VM, why its last task failed, and who changed what."""

from __future__ import annotations
