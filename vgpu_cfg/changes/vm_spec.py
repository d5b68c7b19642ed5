"""What a VM is asked to become: vSphere's ConfigSpec as plain values, device by device.

Each tells how it is done by hand and which privileges it takes. Options of govc are those of its release
0.52; what it cannot say is left to the vSphere Client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.need import Need, Needed
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.values import is_nothing
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.vm import SettingValue


class DeviceBase(Frozen):
    """What a request does to one device of a VM."""

    is_of_gpu: ClassVar[bool] = False
    """Whether it may add or take away a GPU."""

    @property
    def need(self) -> Need:
        """What the account must be allowed on the VM."""
        return privileges.CHANGE_DEVICES

    @property
    def network_moid(self) -> str:
        """The network that it ties the VM to, "" for none."""
        return ""


class NicBacking(Frozen):
    """The network that a vNIC is tied to, with what its backing needs."""

    network_moid: str
    network_name: str
    portgroup_key: str | None = None
    switch_uuid: str | None = None


class NewVgpu(DeviceBase):
    """Add a vGPU of a profile.

    With `uvm` its unified memory is turned on once its key can be read back: the extraConfig
    key `pciPassthru<n>.cfg.enable_uvm` with n = key - 13000 is to be "1". `group` is the key in
    `VmSpec.device_groups` of the group that it is a member of, `sequence` its place there.
    `numa_node` is the virtual NUMA node that the guest is told, None for none.
    """

    is_of_gpu = True

    kind: Literal["new_vgpu"] = "new_vgpu"
    profile: str
    uvm: bool = False
    group: int | None = None
    sequence: int | None = None
    numa_node: int | None = None


class NewPassthrough(DeviceBase):
    """Add a fixed passthrough of one PCI function of the VM's host; `numa_node` as of `NewVgpu`.

    An empty `system_id` is asked of the host when the device is made: it tells none before it has handed out
    a first device.
    """

    is_of_gpu = True

    kind: Literal["new_passthrough"] = "new_passthrough"
    pci_id: str
    system_id: str
    vendor_id: int
    device_id: int
    device_name: str = ""
    numa_node: int | None = None


class NewDynamicPassthrough(DeviceBase):
    """Add a Dynamic DirectPath device: any function with these ids and, if given, this label.

    `sub_ids`, where not empty, narrow each of `allowed`: subsystem vendor id, subsystem id, revision, None
    where any will do. `numa_node`, `group` and `sequence` as of `NewVgpu`.
    """

    is_of_gpu = True

    kind: Literal["new_dynamic_passthrough"] = "new_dynamic_passthrough"
    allowed: tuple[tuple[int, int], ...]
    sub_ids: tuple[tuple[int | None, int | None, int | None], ...] = ()
    label: str | None = None
    numa_node: int | None = None
    group: int | None = Field(default=None, exclude_if=is_nothing)
    sequence: int | None = Field(default=None, exclude_if=is_nothing)


class NewNic(DeviceBase):
    """Add a vmxnet3 NIC."""

    kind: Literal["new_nic"] = "new_nic"
    backing: NicBacking
    mac: str | None = None

    @property
    def network_moid(self) -> str:
        return self.backing.network_moid


class NewSriovNic(DeviceBase):
    """Add a NIC that is a virtual function of the physical one at the PCI address `function`.

    `allow_mtu_change` lets the guest raise its MTU, as it must for jumbo frames.
    """

    kind: Literal["new_sriov_nic"] = "new_sriov_nic"
    backing: NicBacking
    function: str
    mac: str | None = None
    allow_mtu_change: bool = True

    @property
    def network_moid(self) -> str:
        return self.backing.network_moid


class NewPvrdmaNic(DeviceBase):
    """Add a paravirtual RDMA NIC (PVRDMA, RoCE version 2); its network is a distributed portgroup."""

    kind: Literal["new_pvrdma_nic"] = "new_pvrdma_nic"
    backing: NicBacking
    mac: str | None = None

    @property
    def network_moid(self) -> str:
        return self.backing.network_moid


class EditNic(DeviceBase):
    """Tie an existing NIC to another network, or give it a MAC."""

    kind: Literal["edit_nic"] = "edit_nic"
    key: int
    backing: NicBacking
    mac: str | None = None

    @property
    def network_moid(self) -> str:
        return self.backing.network_moid

    @property
    def need(self) -> Need:
        return privileges.EDIT_NIC


class PolicyRef(Frozen):
    """A storage policy: the id that is sent, and the name that a reader knows."""

    id: str
    name: str


class NewDisk(DeviceBase):
    """Add a thin disk on a controller of the kind "scsi" or "nvme" (made where there is none)."""

    kind: Literal["new_disk"] = "new_disk"
    size_mib: int
    controller: str = "scsi"
    policy: PolicyRef | None = Field(default=None, exclude_if=is_nothing)

    @property
    def need(self) -> Need:
        return privileges.ADD_DISK


class NewTpm(DeviceBase):
    """Add a virtual TPM 2.0."""

    kind: Literal["new_tpm"] = "new_tpm"

    @property
    def need(self) -> Need:
        return privileges.NEW_TPM


class GrowDisk(DeviceBase):
    """Grow an existing disk."""

    kind: Literal["grow_disk"] = "grow_disk"
    key: int
    size_mib: int

    @property
    def need(self) -> Need:
        return privileges.GROW_DISK


class SetDiskPolicy(DeviceBase):
    """Give an existing disk another storage policy; of a clone, a disk of its template."""

    kind: Literal["set_disk_policy"] = "set_disk_policy"
    key: int
    policy: PolicyRef

    @property
    def need(self) -> Need:
        return privileges.DISK_POLICY


class RemoveDevice(DeviceBase):
    """Remove a device by its key; `was` says what it was, for a reader. A disk's file stays."""

    is_of_gpu = True

    kind: Literal["remove_device"] = "remove_device"
    key: int
    was: str
    is_disk: bool = Field(default=False, exclude_if=is_nothing)

    @property
    def need(self) -> Need:
        return privileges.DETACH_DISK if self.is_disk else privileges.CHANGE_DEVICES


DeviceEdit = Annotated[
    NewVgpu
    | NewPassthrough
    | NewDynamicPassthrough
    | NewNic
    | NewSriovNic
    | NewPvrdmaNic
    | EditNic
    | NewDisk
    | NewTpm
    | GrowDisk
    | SetDiskPolicy
    | RemoveDevice,
    Field(discriminator="kind"),
]


class VmSpec(Frozen):
    """A request to a VM as plain values: what is not named is left as it is.

    `settings` holds values by the key of their row in the table of VM settings (`planning.vms.table`), those
    that the ConfigSpec itself carries. In `extra_config` an empty value deletes the key. Removals stand first
    in `devices`, since the memory they free may be what the additions need.
    `change_version` makes vCenter refuse the change where the VM has moved on.
    `device_groups` names the vendor's device groups that are added, by a key of this spec alone.
    `home_policy` is the storage policy of the VM's home: its configuration, logs and swap files.
    """

    settings: Mapping[str, SettingValue] = Field(default_factory=dict)
    extra_config: Mapping[str, str] = Field(default_factory=dict)
    devices: tuple[DeviceEdit, ...] = ()
    device_groups: Mapping[int, str] = Field(default_factory=dict)
    change_version: str | None = None
    home_policy: PolicyRef | None = Field(default=None, exclude_if=is_nothing)

    @property
    def is_empty(self) -> bool:
        """Whether it would change nothing."""
        return self == VmSpec(change_version=self.change_version)

    def privileges(
        self, moid: str, at: Places, *, is_first: bool = False, is_copy: bool = False
    ) -> Iterator[Needed]:
        """Yield what it takes on a VM, or on the folder of a new one: made from nothing, or a copy."""
        for row, _ in at.vm_rows(self.settings):
            if row.privilege:
                yield Needed(privileges.OF_SETTINGS[row.privilege], moid)
        if self.extra_config:
            yield Needed(privileges.ADVANCED, moid)
        for device in self.devices:
            need = device.need
            if need is privileges.NEW_TPM and is_first:
                need = privileges.FIRST_TPM
            if not (need is privileges.DISK_POLICY and is_copy):
                yield Needed(need, moid)
            if device.network_moid:
                yield Needed(privileges.ASSIGN_NETWORK, device.network_moid)
