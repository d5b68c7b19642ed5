"""What a vCenter was seen to hold: hosts with what was read of them, VMs, rules."""

from __future__ import annotations
