"""The version of vgpu-cfg, and nothing else: importing the package costs nothing."""

from __future__ import annotations

__version__ = "0.2.0"
