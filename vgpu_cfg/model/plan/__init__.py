"""What a plan is made of, what a VM or a host is asked to become, and what became of it."""

from __future__ import annotations
