"""Hosts: out of service, changes, restarts, readback, networks and the shell."""

from __future__ import annotations
