"""How a host is taken out of service, changed, restarted and read back, with its networks and its shell."""

from __future__ import annotations
