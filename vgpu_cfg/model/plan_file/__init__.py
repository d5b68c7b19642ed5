"""The plan file's format: its keys and their types, what is refused for now, and the JSON schema."""

from __future__ import annotations

from vgpu_cfg.model.plan_file.entries import (
    DeviceEntry,
    DiskEntry,
    FileHeader,
    GpuEntry,
    NetworkEntry,
    NicEntry,
    PlaceEntry,
    PlanFile,
    ProtectEntry,
    Scratch,
    Server,
    VmEntry,
    VmKeys,
)
from vgpu_cfg.model.plan_file.not_yet import NOT_YET_KEYS, NOT_YET_VALUES
from vgpu_cfg.model.plan_file.schema import plan_file_schema
from vgpu_cfg.model.plan_file.values import check_vm_name, parse_mac

__all__ = [
    "NOT_YET_KEYS",
    "NOT_YET_VALUES",
    "DeviceEntry",
    "DiskEntry",
    "FileHeader",
    "GpuEntry",
    "NetworkEntry",
    "NicEntry",
    "PlaceEntry",
    "PlanFile",
    "ProtectEntry",
    "Scratch",
    "Server",
    "VmEntry",
    "VmKeys",
    "check_vm_name",
    "parse_mac",
    "plan_file_schema",
]
