"""How a change becomes a call: requests in vSphere's words, tasks, and what must be sent along."""

from __future__ import annotations
