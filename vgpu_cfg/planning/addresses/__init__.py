"""Which address, MAC and driver each NIC has in its guest, and which the pools still have."""

from __future__ import annotations
