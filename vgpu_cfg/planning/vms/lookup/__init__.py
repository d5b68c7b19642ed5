"""The names, devices and needs of the plan's VMs: all of them looked up before placement."""

from __future__ import annotations
