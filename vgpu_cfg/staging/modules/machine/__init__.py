"""Name, logins, network and limits of a guest, whatever its purpose."""

from __future__ import annotations
