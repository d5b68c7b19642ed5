"""How a VM is made, changed and switched, and whether it shows what was asked for."""

from __future__ import annotations
