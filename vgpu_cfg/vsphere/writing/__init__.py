"""Turning changes into calls: requests in vSphere's words, tasks, and required fields."""

from __future__ import annotations
