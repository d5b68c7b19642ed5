"""What vCenter remembers of a VM: who made it, and why its last task failed."""

from __future__ import annotations
