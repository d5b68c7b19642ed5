"""The facts of a host that are read only if a plan prepares it: options, modules, switches, marks."""

from __future__ import annotations
