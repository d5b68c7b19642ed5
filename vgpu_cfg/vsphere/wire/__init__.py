"""Access to vCenter: HTTPS, a login, bulk reads, limits, and the meaning of its faults."""

from __future__ import annotations
