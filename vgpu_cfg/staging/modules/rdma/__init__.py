"""How a guest gets at its NICs for RDMA."""

from __future__ import annotations
