"""The content of a vCenter: properties become hosts, VMs and networks as plain values."""

from __future__ import annotations
