"""What does a vCenter hold? Properties as they are read become hosts, VMs and networks as plain values."""

from __future__ import annotations
