"""How does a change become a call? Requests in vSphere's words, tasks, and what is sent along."""

from __future__ import annotations
