"""How a VM is made, changed and switched."""

from __future__ import annotations
