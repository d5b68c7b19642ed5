"""What does vCenter remember of a VM? Who made it, and why its last task failed."""

from __future__ import annotations
