"""A request to a VM: vSphere's ConfigSpec as plain values, device by device.

Each describes its manual steps and the privileges it needs. Options of govc are those of its release 0.56;
requests that it cannot express are left to the vSphere Client.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.by_hand import Part, command
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.privileges import Need, Needed
from vgpu_cfg.changes.tables import VmRows
from vgpu_cfg.changes.values import Edit, extra_config_path, is_nothing, table_rows, wire_text
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.vm import (
    OWN_PREFIX,
    PassthroughDevice,
    SettingValue,
    VgpuDevice,
    VmDetail,
    any_text,
)

PVRDMA_PROTOCOL = "rocev2"
"""Of `VirtualVmxnet3VrdmaOption.deviceProtocol` (rocev1 or rocev2), the one that current hosts use."""
_SIZES = {"cpus": "cpus", "memory": "memory_mib", "memory_reservation": "memory_reservation_mib"}
"""The keys of a VM's sizes in a request, and in a reading."""
_SUB_IDS = ("subVendorId", "subDeviceId", "revisionId")
AS_BEFORE = "if no command is listed, restore the values in the “before” column"


class DeviceBase(Frozen):
    """A request's action on one device of a VM."""

    is_of_gpu: ClassVar[bool] = False
    """Whether it may add or take away a vGPU or a function."""

    @property
    def removes(self) -> int | None:
        """The key of the device that it takes away, None for none."""
        return None

    @property
    def new_mac(self) -> str | None:
        """The MAC of the virtual NIC that it adds, "" if vSphere chooses it; None if it adds none."""
        return None

    @property
    def macs(self) -> Mapping[int, str]:
        """The MACs that it gives to virtual NICs which are there, by the NICs' keys."""
        return {}

    @property
    def new_disk_mib(self) -> int | None:
        """The size of the disk that it adds, None if it adds none."""
        return None

    @property
    def lacks_system(self) -> str:
        """The address of the function whose host it must name and cannot yet; "" for none."""
        return ""

    def made(self, key: int, nics: Collection[tuple[int, int]] = ()) -> VgpuDevice | PassthroughDevice | None:
        """Return the vGPU or function that it adds, under a key; `nics` are the ids of functions of NICs."""
        return None

    @property
    def need(self) -> Need:
        """Return the privileges the account needs on the VM."""
        return privileges.CHANGE_DEVICES

    @property
    def network_moid(self) -> str:
        """The network that it ties the VM to, "" for none."""
        return ""

    def govc(self, name: str, index: int) -> Iterator[str]:
        """Yield the command line of govc that does it to a VM, if there is one; `index` counts devices."""
        yield from ()

    @abstractmethod
    def leaves(self, at: str) -> dict[str, str]:
        """Return the fields of its VirtualDeviceSpec that a plan decides, by their paths below `at`.

        The other values a server needs (keys, units, whether a NIC is connected) follow from the kind of
        device.
        """

    @abstractmethod
    def client(self) -> str:
        """Return the steps for the vSphere Client; "" if govc does it all."""


class NicBacking(Frozen):
    """The network that a vNIC is tied to, with what its backing needs."""

    network_moid: str
    network_name: str
    portgroup_key: str | None = None
    switch_uuid: str | None = None

    def leaves(self, at: str) -> dict[str, str]:
        """Return the fields of a NIC's backing, by their paths below `at`."""
        if self.portgroup_key is not None:
            return {f"{at}.backing.port.portgroupKey": self.portgroup_key}
        return {f"{at}.backing.network": self.network_moid, f"{at}.backing.deviceName": self.network_name}


def _node(at: str, numa_node: int | None) -> dict[str, str]:
    return {} if numa_node is None else {f"{at}.numaNode": str(numa_node)}


def _mac(at: str, mac: str | None) -> dict[str, str]:
    return {} if mac is None else {f"{at}.macAddress": mac}


def _size(at: str, size_mib: int) -> dict[str, str]:
    return {f"{at}.capacityInKB": str(size_mib << 10)}


def _mac_text(mac: str | None) -> str:
    return f", MAC address {mac}" if mac is not None else ""


class NewVgpu(DeviceBase):
    """Add a vGPU of a profile.

    With `uvm` its unified memory is turned on once its key can be read back: the extraConfig key
    `pciPassthru<n>.cfg.enable_uvm` with n = key - 13000 becomes "1". `group` is the key of its group in
    `VmSpec.device_groups`, `sequence` its place there. `numa_node` is the virtual NUMA node that the guest
    sees, None for none.
    """

    is_of_gpu = True

    kind: Literal["new_vgpu"] = "new_vgpu"
    profile: str
    uvm: bool = False
    group: int | None = None
    sequence: int | None = None
    numa_node: int | None = None

    @property
    def text(self) -> str:
        """The text for a reader."""
        return f"{self.profile}, unified memory" if self.uvm else self.profile

    def made(self, key: int, nics: Collection[tuple[int, int]] = ()) -> VgpuDevice:
        return VgpuDevice(key=key, profile=self.profile)

    def govc(self, name: str, index: int) -> Iterator[str]:
        if self.group is None:
            yield command("govc", "gpu.vm.add", "-vm", name, "-profile", self.profile)

    def leaves(self, at: str) -> dict[str, str]:
        return {f"{at}.backing.vgpu": self.profile} | _node(at, self.numa_node)

    def client(self) -> str:
        return ""


class NewPassthrough(DeviceBase):
    """Add a fixed passthrough of one PCI function of the VM's host; `numa_node` as of `NewVgpu`.

    An empty `system_id` is read from the host when the device is made: the host reports it only after it has
    handed out a first device.
    """

    is_of_gpu = True

    kind: Literal["new_passthrough"] = "new_passthrough"
    pci_id: str
    system_id: str
    vendor_id: int
    device_id: int
    device_name: str = ""
    numa_node: int | None = None

    @property
    def text(self) -> str:
        """The text for a reader."""
        return self.made(0).text

    @property
    def lacks_system(self) -> str:
        return "" if self.system_id else self.pci_id

    def made(self, key: int, nics: Collection[tuple[int, int]] = ()) -> PassthroughDevice:
        is_nic = (self.vendor_id, self.device_id) in nics
        return PassthroughDevice(key=key, pci_id=self.pci_id, system_id=self.system_id, is_nic=is_nic)

    def govc(self, name: str, index: int) -> Iterator[str]:
        yield command("govc", "device.pci.add", "-vm", name, self.pci_id)

    def leaves(self, at: str) -> dict[str, str]:
        return {f"{at}.backing.id": self.pci_id} | _node(at, self.numa_node)

    def client(self) -> str:
        return ""


class NewDynamicPassthrough(DeviceBase):
    """Add a Dynamic DirectPath device: any function with these ids and, if given, this label.

    `sub_ids`, if not empty, narrow each of `allowed`: subsystem vendor id, subsystem id, revision, None for
    any. `numa_node`, `group` and `sequence` as of `NewVgpu`.
    """

    is_of_gpu = True

    kind: Literal["new_dynamic_passthrough"] = "new_dynamic_passthrough"
    allowed: tuple[tuple[int, int], ...]
    sub_ids: tuple[tuple[int | None, int | None, int | None], ...] = ()
    label: str | None = None
    numa_node: int | None = None
    group: int | None = Field(default=None, exclude_if=is_nothing)
    sequence: int | None = Field(default=None, exclude_if=is_nothing)

    @property
    def text(self) -> str:
        """The text for a reader."""
        if self.group is None:
            return self.made(0).text
        return f"{any_text(self.allowed, (), self.label)}, in the GPU's device group"

    def made(self, key: int, nics: Collection[tuple[int, int]] = ()) -> PassthroughDevice:
        return PassthroughDevice(
            key=key,
            allowed=self.allowed,
            sub_ids=self.sub_ids,
            label=self.label,
            is_nic=any(ids in nics for ids in self.allowed),
        )

    def leaves(self, at: str) -> dict[str, str]:
        leaves = {f"{at}.backing.customLabel": self.label} if self.label else {}
        for vendor, model in self.allowed:
            leaves[f"{at}.backing.allowedDevice[{model}].vendorId"] = str(vendor)
            leaves[f"{at}.backing.allowedDevice[{model}].deviceId"] = str(model)
        for (_, model), ids in zip(self.allowed, self.sub_ids, strict=False):
            for name, value in zip(_SUB_IDS, ids, strict=True):
                if value is not None:
                    leaves[f"{at}.backing.allowedDevice[{model}].{name}"] = str(value)
        return leaves | _node(at, self.numa_node)

    def client(self) -> str:
        ids = ", ".join(f"{vendor:04x}:{model:04x}" for vendor, model in self.allowed)
        label = f" with the hardware label {self.label}" if self.label else ""
        return f"add a PCI device by Dynamic DirectPath IO, {ids}{label}"


class NewNic(DeviceBase):
    """Add a vmxnet3 NIC."""

    kind: Literal["new_nic"] = "new_nic"
    backing: NicBacking
    mac: str | None = None

    @property
    def new_mac(self) -> str:
        return self.mac or ""

    @property
    def network_moid(self) -> str:
        return self.backing.network_moid

    def govc(self, name: str, index: int) -> Iterator[str]:
        mac = ("-net.address", self.mac) if self.mac is not None else ()
        network = ("-net", self.backing.network_name, "-net.adapter", "vmxnet3")
        yield command("govc", "vm.network.add", "-vm", name, *network, *mac)

    def leaves(self, at: str) -> dict[str, str]:
        return self.backing.leaves(at) | _mac(at, self.mac)

    def client(self) -> str:
        return ""


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
    def text(self) -> str:
        """The text for a reader."""
        return f"virtual function of {self.function} on {self.backing.network_name}"

    @property
    def new_mac(self) -> str:
        return self.mac or ""

    @property
    def network_moid(self) -> str:
        return self.backing.network_moid

    def leaves(self, at: str) -> dict[str, str]:
        physical = {f"{at}.sriovBacking.physicalFunctionBacking.id": self.function}
        mtu = {f"{at}.allowGuestOSMtuChange": wire_text(self.allow_mtu_change)}
        return self.backing.leaves(at) | _mac(at, self.mac) | physical | mtu

    def client(self) -> str:
        mtu = ", Guest OS MTU Change allowed" if self.allow_mtu_change else ""
        return (
            f"add a network adapter of type SR-IOV passthrough on {self.backing.network_name}, "
            f"physical function {self.function}{_mac_text(self.mac)}{mtu}"
        )


class NewPvrdmaNic(DeviceBase):
    """Add a paravirtual RDMA NIC (PVRDMA, RoCE version 2); its network is a distributed portgroup."""

    kind: Literal["new_pvrdma_nic"] = "new_pvrdma_nic"
    backing: NicBacking
    mac: str | None = None

    @property
    def new_mac(self) -> str:
        return self.mac or ""

    @property
    def network_moid(self) -> str:
        return self.backing.network_moid

    def leaves(self, at: str) -> dict[str, str]:
        protocol = {f"{at}.deviceProtocol": PVRDMA_PROTOCOL}
        return self.backing.leaves(at) | _mac(at, self.mac) | protocol

    def client(self) -> str:
        network = self.backing.network_name
        return (
            f"add a network adapter of type PVRDMA on {network}, device protocol RoCE v2{_mac_text(self.mac)}"
        )


class EditNic(DeviceBase):
    """Tie an existing NIC to another network, or give it a MAC."""

    kind: Literal["edit_nic"] = "edit_nic"
    key: int
    backing: NicBacking
    mac: str | None = None

    @property
    def macs(self) -> Mapping[int, str]:
        return {} if self.mac is None else {self.key: self.mac}

    @property
    def network_moid(self) -> str:
        return self.backing.network_moid

    @property
    def need(self) -> Need:
        return privileges.EDIT_NIC

    def leaves(self, at: str) -> dict[str, str]:
        return self.backing.leaves(at) | _mac(at, self.mac)

    def client(self) -> str:
        return f"connect the network adapter with key {self.key} to {self.backing.network_name}"


class PolicyRef(Frozen):
    """A storage policy: the id that is sent, and the name that a reader knows."""

    id: str
    name: str


def policy_leaves(at: str, policy: PolicyRef | None, field: str = "profile") -> dict[str, str]:
    """Return the field that names a storage policy, below `at`."""
    path = f"{at}.{field}" if at else field
    return {} if policy is None else {f"{path}[*].profileId": policy.id}


class NewDisk(DeviceBase):
    """Add a thin disk on a controller of the kind "scsi" or "nvme" (made where there is none)."""

    kind: Literal["new_disk"] = "new_disk"
    size_mib: int
    controller: str = "scsi"
    policy: PolicyRef | None = Field(default=None, exclude_if=is_nothing)

    @property
    def new_disk_mib(self) -> int:
        return self.size_mib

    @property
    def need(self) -> Need:
        return privileges.ADD_DISK

    def govc(self, name: str, index: int) -> Iterator[str]:
        new_disk = ("-name", f"{name}/disk-{index}", "-size", f"{self.size_mib}M")
        yield command("govc", "vm.disk.create", "-vm", name, *new_disk)

    def leaves(self, at: str) -> dict[str, str]:
        thin = {f"{at}.backing.thinProvisioned": "true"}
        return _size(at, self.size_mib) | thin | policy_leaves(at, self.policy)

    def client(self) -> str:
        if self.policy is None:
            return ""
        return f"assign the storage policy {self.policy.name} to the new {self.size_mib} MiB disk"


class NewTpm(DeviceBase):
    """Add a virtual TPM 2.0."""

    kind: Literal["new_tpm"] = "new_tpm"

    @property
    def need(self) -> Need:
        return privileges.NEW_TPM

    def leaves(self, at: str) -> dict[str, str]:
        return {f"{at}.operation": "add"}

    def client(self) -> str:
        return "add a Trusted Platform Module"


class GrowDisk(DeviceBase):
    """Grow an existing disk."""

    kind: Literal["grow_disk"] = "grow_disk"
    key: int
    size_mib: int

    @property
    def need(self) -> Need:
        return privileges.GROW_DISK

    def govc(self, name: str, index: int) -> Iterator[str]:
        disk = ("-disk.key", self.key, "-size", f"{self.size_mib}M")
        yield command("govc", "vm.disk.change", "-vm", name, *disk)

    def leaves(self, at: str) -> dict[str, str]:
        return _size(at, self.size_mib)

    def client(self) -> str:
        return ""


class SetDiskPolicy(DeviceBase):
    """Give an existing disk another storage policy; of a clone, a disk of its template."""

    kind: Literal["set_disk_policy"] = "set_disk_policy"
    key: int
    policy: PolicyRef

    @property
    def need(self) -> Need:
        return privileges.DISK_POLICY

    def leaves(self, at: str) -> dict[str, str]:
        return policy_leaves(at, self.policy)

    def client(self) -> str:
        return f"assign the storage policy {self.policy.name} to the disk with key {self.key}"


class RemoveDevice(DeviceBase):
    """Remove a device by its key; `was` describes it for a reader. A disk's file stays."""

    is_of_gpu = True

    kind: Literal["remove_device"] = "remove_device"
    key: int
    was: str
    is_disk: bool = Field(default=False, exclude_if=is_nothing)

    @property
    def removes(self) -> int:
        return self.key

    @property
    def need(self) -> Need:
        return privileges.DETACH_DISK if self.is_disk else privileges.CHANGE_DEVICES

    def leaves(self, at: str) -> dict[str, str]:
        return {f"{at}.operation": "remove"}

    def client(self) -> str:
        return f"remove {self.was}"


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
    """A request to a VM as plain values: anything not named stays unchanged.

    settings: values by the key of their row in the table of VM settings (`planning.vms.table`), those that
        the ConfigSpec itself carries.
    extra_config: pairs; an empty value deletes the key.
    devices: edits; removals come first, since additions may need the memory they free.
    change_version: makes vCenter refuse the change if the VM has changed meanwhile.
    device_groups: the vendor's device groups that are added, by a key of this spec alone.
    home_policy: the storage policy of the VM's home: its configuration, logs and swap files.
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

    def applied(self, detail: VmDetail, nics: Collection[tuple[int, int]]) -> VmDetail:
        """Return a VM with the sizes, vGPUs and functions that it has then; new ones get keys below zero."""
        gone = {one.removes for one in self.devices}
        made = [new for key, one in enumerate(self.devices, 1) if (new := one.made(-key, nics)) is not None]
        vgpus = (*detail.vgpus, *(one for one in made if isinstance(one, VgpuDevice)))
        passthrough = (*detail.passthrough, *(one for one in made if isinstance(one, PassthroughDevice)))
        sizes = {_SIZES[key]: value for key, value in self.settings.items() if key in _SIZES}
        return detail.model_copy(
            update={
                "vgpus": tuple(one for one in vgpus if one.key not in gone),
                "passthrough": tuple(one for one in passthrough if one.key not in gone),
                **sizes,
            }
        )

    @property
    def disk_policies(self) -> tuple[SetDiskPolicy, ...]:
        """The policies of disks that are there, or that a clone copies."""
        return tuple(one for one in self.devices if isinstance(one, SetDiskPolicy))

    def leaves(self) -> dict[str, str]:
        """Return the values sent for extraConfig, devices and their groups: each path with its value.

        Paths are those of the ConfigSpec without `device`, with the number of the device in the place of the
        list's: `deviceChange[1].backing.vgpu`.
        """
        leaves = {extra_config_path(key): value for key, value in self.extra_config.items()}
        for number, device in enumerate(self.devices, 1):
            leaves |= device.leaves(f"deviceChange[{number}]")
        groups = sorted(self.device_groups.items())
        return leaves | {f"deviceGroups.deviceGroup[{key}].deviceGroupName": name for key, name in groups}

    def by_hand(
        self,
        name: str,
        edits: tuple[Edit, ...],
        rows: VmRows,
        *,
        undo: VmSpec | None = None,
        heading: str = "",
    ) -> tuple[Part, ...]:
        """Return the manual steps for all of it; `undo` is the reverse request."""
        unset = (f"{row.name.rstrip(':')}: {row.undo}" for row, _ in rows(self.settings) if row.undo)
        left = "; ".join(self._for_client(rows))
        return (
            Part(
                heading=heading,
                what=f"Set the values below on {name}. "
                f"{('It may be running.' if self._is_live(rows) else 'It must be off.')} "
                f"{(f'In the vSphere Client: {left}.' if left else '')}".rstrip(),
                client=f"{name} > Actions > Edit Settings > Virtual Hardware; names with a dot are under "
                "VM Options > Advanced > Configuration Parameters",
                commands=tuple(self.govc(name, rows)),
                expected="every task completes without error",
                verify=(command("govc", "vm.info", "-e", name), command("govc", "device.ls", "-vm", name)),
                undo=(*(undo.govc(name, rows) if undo is not None else ()), *unset, AS_BEFORE),
                rows=table_rows(edits),
            ),
        )

    def govc(self, name: str, rows: VmRows) -> Iterator[str]:
        """Yield the command lines of the request, as far as govc has words for it."""
        lines = govc_flags(self.settings, rows)
        if self.extra_config:
            pairs = (word for key, value in self.extra_config.items() for word in ("-e", f"{key}={value}"))
            lines.setdefault("vm.change", []).extend(pairs)
        yield from (command("govc", verb, "-vm", name, *flags) for verb, flags in lines.items())
        for index, device in enumerate(self.devices, 1):
            yield from device.govc(name, index)

    def privileges(
        self, moid: str, at: Places, *, is_first: bool = False, is_copy: bool = False
    ) -> Iterator[Needed]:
        """Yield the privileges on a VM, or on the folder of a new one: made from nothing, or a copy."""
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

    def _is_live(self, rows: VmRows) -> bool:
        """Whether a running VM takes all of it: settings whose rows say so, and this tool's own pairs."""
        is_own = all(key.startswith(OWN_PREFIX) for key in self.extra_config)
        is_of_policies = all(device.need is privileges.DISK_POLICY for device in self.devices)
        return (
            is_of_policies
            and not self.device_groups
            and is_own
            and all(row.is_live for row, _ in rows(self.settings))
        )

    def _for_client(self, rows: VmRows) -> Iterator[str]:
        """Yield the steps for the vSphere Client: govc cannot do them, or needs a name not yet known."""
        yield from filter(None, (device.client() for device in self.devices))
        if self.home_policy is not None:
            yield f"set the VM home storage policy to {self.home_policy.name} (Edit VM Storage Policies)"
        yield from (f"add the device group {name} as a PCI device" for name in self.device_groups.values())
        for row, value in rows(self.settings):
            if by_hand := row.client(value):
                yield f"set {by_hand}"


def govc_flags(settings: Mapping[str, SettingValue], rows: VmRows) -> dict[str, list[str]]:
    """Return the flags of govc's commands that set these, as far as govc has words for them."""
    lines: dict[str, list[str]] = {}
    for row, value in rows(settings):
        if words := row.govc(value):
            lines.setdefault(words[0], []).extend(words[1:])
    return lines
