"""Servers' management controllers (BMC): how the power of a server is asked for and switched on."""

from __future__ import annotations
