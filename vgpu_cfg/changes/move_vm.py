"""A VM gets another name or another place; what it is stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from vgpu_cfg.changes.base import ChangeBase
from vgpu_cfg.changes.values import VmRef, is_nothing
from vgpu_cfg.model.frozen import Frozen


class RenameVm(ChangeBase):
    """Give a VM its name, in one task; `vm` has the new one. Its files keep their names."""

    kind: Literal["rename_vm"] = "rename_vm"
    vm: VmRef


class MoveVmToFolder(ChangeBase):
    """Move a VM to another folder of its datacenter, in one task; nothing of it changes on its host."""

    kind: Literal["move_vm_to_folder"] = "move_vm_to_folder"
    vm: VmRef
    folder_moid: str
    source_moid: str


class Destination(Frozen):
    """Where a VM is moved: its pool and its datastore stay as they are where none is named.

    `kept_disks` maps the keys of the disks that are not the plan's to the datastores on which they stay.
    """

    host_moid: str
    host_name: str
    resource_pool_moid: str | None = None
    datastore_moid: str | None = None
    kept_disks: Mapping[int, str] = Field(default_factory=dict, exclude_if=is_nothing)


class RelocateVm(ChangeBase):
    """Move a VM to another host, pool or datastore, in one task: as it runs by vMotion, else while it is off.

    `is_running` says which was planned, and the other is not done instead. `stun_ms` is how long vMotion is
    expected to stop the VM, None where nobody tells. `windows` are those of the hosts that it leaves and
    comes to, and it is not begun where one closes within `takes_seconds`. Where `source_moid` names a host,
    the VM is moved from there only: from anywhere else somebody else has moved it.
    """

    kind: Literal["relocate_vm"] = "relocate_vm"
    vm: VmRef
    destination: Destination
    source_moid: str | None = None
    is_running: bool = False
    stun_ms: int | None = None
    windows: tuple[str, ...] = ()
    takes_seconds: int = Field(default=0, exclude_if=is_nothing)
