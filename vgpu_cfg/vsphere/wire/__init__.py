"""How vCenter is reached and asked: HTTPS, a login, bulk reads, within limits, and what its faults mean."""

from __future__ import annotations
