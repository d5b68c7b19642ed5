"""Every module of the bundle that the lab's guests play: importing this one fills the table."""

from __future__ import annotations

from vgpu_cfg.lab.guest.staging import modules_gpu, modules_rdma, modules_system, modules_training
from vgpu_cfg.lab.guest.staging.work import MODULES

__all__ = [
    "MODULES",
    "modules_gpu",
    "modules_rdma",
    "modules_system",
    "modules_training",
]
