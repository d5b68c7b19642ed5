"""What a vCenter holds: properties as they are read become hosts, VMs and networks as plain values."""

from __future__ import annotations
