"""Which edits give a VM exactly its GPUs, NICs and disks."""

from __future__ import annotations
