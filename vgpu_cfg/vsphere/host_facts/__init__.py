"""What is read of a host only where a plan prepares it? Options, modules, switches, marks."""

from __future__ import annotations
