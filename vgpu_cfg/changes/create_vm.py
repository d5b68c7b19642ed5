"""A VM is made: cloned from a template or made from nothing, with everything it needs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from vgpu_cfg.changes.base import ChangeBase
from vgpu_cfg.changes.customization import Customization
from vgpu_cfg.changes.values import VmRef, is_nothing
from vgpu_cfg.changes.vm_spec import VmSpec
from vgpu_cfg.model.frozen import Frozen


class CloneFrom(Frozen):
    """Clone a template; `snapshot_moid` is set for a linked clone."""

    kind: Literal["clone"] = "clone"
    template: VmRef
    snapshot_moid: str | None = None


class MakeFromScratch(Frozen):
    """Create an empty VM with EFI firmware."""

    kind: Literal["scratch"] = "scratch"
    guest_id: str


class Location(Frozen):
    """Where a new VM goes: managed object ids, with the names a reader knows."""

    folder_moid: str
    folder_path: str
    host_moid: str
    host_name: str
    resource_pool_moid: str
    datastore_moid: str
    datastore_name: str


class CreateVm(ChangeBase):
    """Clone or create a VM with everything it needs in one ConfigSpec, powered off.

    With `customization` its guest is customised at its first start.
    """

    kind: Literal["create_vm"] = "create_vm"
    vm: VmRef
    source: Annotated[CloneFrom | MakeFromScratch, Field(discriminator="kind")]
    location: Location
    spec: VmSpec
    customization: Customization | None = Field(default=None, exclude_if=is_nothing)
