"""What is read of a host only where a plan prepares it: options, modules, switches, marks."""

from __future__ import annotations
