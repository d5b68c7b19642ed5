"""How a host is taken out of service, changed, restarted and read back."""

from __future__ import annotations
