"""Hosts and VMs that go first: who they are, what waits for them, and whether they came out as planned."""

from __future__ import annotations
