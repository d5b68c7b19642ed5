"""Which running VMs could make room by going to another host, and in which order."""

from __future__ import annotations
