"""The wanted state of a guest, module by module, and its own report."""

from __future__ import annotations
