"""What a VM's guest is given, and what is waited for in it."""

from __future__ import annotations

from typing import Literal

from vgpu_cfg.changes.base import ChangeBase
from vgpu_cfg.changes.values import VmRef
from vgpu_cfg.model.guests.guest import (
    GuestSpec,
)


class AwaitCustomization(ChangeBase):
    """Wait until vCenter tells how a guest's customisation has ended, which its first start begins."""

    kind: Literal["await_customization"] = "await_customization"
    vm: VmRef
    wait_seconds: int


class StageGuest(ChangeBase):
    """Bring the named modules into a VM's guest, see that they are there, and mark the VM with them.

    With `with_clone` cloud-init brings all of it at the first boot, and this change waits for its report.
    `rest` are modules that another change brings once this one is done: what nobody may read in the VM's
    configuration, and what rests on that. `peers` are the VMs whose guests' host keys are written; `after`
    names changes that must have ended before, well or not: by then those guests have told theirs.
    """

    kind: Literal["stage_guest"] = "stage_guest"
    vm: VmRef
    spec: GuestSpec
    modules: tuple[str, ...]
    with_clone: bool = False
    rest: tuple[str, ...] = ()
    peers: tuple[VmRef, ...] = ()
    after: tuple[str, ...] = ()
