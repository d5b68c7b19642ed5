"""RDMA access of a guest through its NICs."""

from __future__ import annotations
