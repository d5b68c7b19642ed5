"""A VM is deleted."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vgpu_cfg.changes.base import ChangeBase
from vgpu_cfg.changes.values import VmRef, is_nothing


class DestroyVm(ChangeBase):
    """Delete a powered-off VM with its disks; where `instance_uuid` is given, only the VM that has it.

    `disks` are the identities of those disks (`VirtualDisk.identity`): a VM with another one is not deleted.
    `others` are the files of those among them that the plan did not make, and that are named for deletion.
    """

    kind: Literal["destroy_vm"] = "destroy_vm"
    vm: VmRef
    instance_uuid: str = Field(default="", exclude_if=is_nothing)
    disks: tuple[str, ...] = ()
    others: tuple[str, ...] = Field(default=(), exclude_if=is_nothing)
