"""Creation, change and power of VMs, and the check of each result."""

from __future__ import annotations
