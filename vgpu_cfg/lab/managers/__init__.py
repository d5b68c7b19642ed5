"""The managed objects that are no inventory: sessions, views, searches, privileges, what a host offers."""

from __future__ import annotations

from vgpu_cfg.lab.managers.methods import METHODS, UNLOCKED

__all__ = ["METHODS", "UNLOCKED"]
