"""What vCenter remembers of a VM."""

from __future__ import annotations
