"""The capacity of a host and a GPU: slots, slices, NVLink sets, NUMA nodes, NIC functions, memory."""

from __future__ import annotations
