"""vCenter's history: the creator of a VM, the failure of its last task, and changes with their authors."""

from __future__ import annotations
