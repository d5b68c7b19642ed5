"""What a host and a GPU hold: slots, slices, NVLink sets, NUMA nodes, NIC functions, memory."""

from __future__ import annotations
