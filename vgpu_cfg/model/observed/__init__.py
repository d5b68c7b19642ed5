"""The observed contents of a vCenter: hosts with their facts, VMs, rules."""

from __future__ import annotations
