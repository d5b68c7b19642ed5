"""A VM or template as observed: its power state, its owner mark, its devices."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from urllib.parse import quote, unquote

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen, moment_of
from vgpu_cfg.model.identity import PlanIdentity, is_id
from vgpu_cfg.model.observed.managed_object import ManagedObject

OWN_PREFIX = "vgpu_cfg."
"""The prefix of vgpu-cfg's own extraConfig keys; a running VM accepts them."""

MARK_PLAN_KEY = "vgpu_cfg.plan"
MARK_VM_KEY = "vgpu_cfg.vm"
NAMESPACED_NAME_KEY = "vmservice.namespacedName"
"""VM Operator's extraConfig key of a VM's namespace and name in its Supervisor."""
"""The extraConfig pair of the owner mark: written with the clone, and checked before every write.

The first holds the plan's name and, after it, what `OwnerMark.text` adds; the second the VM's name.
"""

AFFINITY_KEY = "numa.nodeAffinity"
"""The extraConfig key that ties a VM to NUMA nodes, as in "0,1"."""


SettingValue = bool | int | str
"""The value of a row of the table of VM settings."""


class PowerState(StrEnum):
    """vim `VirtualMachinePowerState`, in this project's spelling."""

    ON = "poweredOn"
    OFF = "poweredOff"
    SUSPENDED = "suspended"

    @property
    def word(self) -> str:
        """The word for it that readers use: on, off, suspended."""
        return self.value.removeprefix("powered").lower()


class TemplateSeen(Frozen):
    """A template as it was when a VM was cloned from it; `version` is its configuration's change version."""

    name: str
    instance_uuid: str
    version: str


class OwnerMark(Frozen):
    """The owner mark in a VM's extraConfig: the owning plan, and the VM that it was written for.

    `plan` and `vm` are names, labels for people. `id` is the plan's, `instance_uuid` that of the VM, by which
    clones are detected: a clone inherits extraConfig but gets its own instance UUID. `made_by` is
    the vCenter account, `made_at` the time. `is_imported`: the VM existed before the plan, and
    its deletion has not been allowed since. `keys` are those that the plan file stated of it when it was
    marked. `disks` are the UUIDs of the disks that are the plan's, None if none were recorded yet;
    `new_disks` are the sizes, in MiB, of those that the request makes which writes the mark: they have no
    UUIDs before. `nics` are the MACs of the plan's virtual NICs, None as above; `new_nics` counts those whose
    MACs the request does not know, and `other_nics` are the MACs of those that others had added by then.
    `pci` are the plan's vGPUs and passed-through functions in words (`planning.estate.devices`).
    The VM was cloned from `template`, None if unknown.
    A mark of version 0.1.0 has the two names and nothing else.
    """

    plan: str
    vm: str
    id: str = ""
    instance_uuid: str = ""
    made_by: str = ""
    made_at: datetime | None = None
    is_imported: bool = False
    keys: tuple[str, ...] = ()
    disks: tuple[str, ...] | None = None
    new_disks: tuple[int, ...] = ()
    nics: tuple[str, ...] | None = None
    new_nics: int = 0
    other_nics: tuple[str, ...] = ()
    pci: tuple[str, ...] | None = None
    template: TemplateSeen | None = None

    @property
    def pairs(self) -> dict[str, str]:
        """The mark as extraConfig: "demo id=... uuid=... at=... by=...", and the VM's name."""
        return {MARK_PLAN_KEY: self.text, MARK_VM_KEY: self.vm}

    @property
    def text(self) -> str:
        """The value of `vgpu_cfg.plan`. The account is last because it may contain spaces."""
        if not self.id:
            return f"{self.plan}{self._words}"
        at = "" if self.made_at is None else f" at={self.made_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        imported = " imported=yes" if self.is_imported else ""
        keys = f" keys={','.join(map(_quoted, self.keys))}" if self.keys else ""
        by = f" by={self.made_by}" if self.made_by else ""
        seen = "" if self.template is None else ",".join(map(_quoted, self.template.model_dump().values()))
        came = f" template={seen}" if seen else ""
        return (
            f"{self.plan} id={self.id} uuid={self.instance_uuid}{at}{imported}{keys}{self._words}{came}{by}"
        )

    @property
    def _words(self) -> str:
        """The words of the devices that are the plan's, one for each kind that is recorded."""
        disks = (*(self.disks or ()), *(f"+{size}" for size in self.new_disks))
        nics = [mac.replace(":", "") for mac in (*(self.nics or ()), *self.other_nics)]
        own = len(self.nics or ())
        count = (f"+{self.new_nics}",) if self.new_nics else ()
        words = {
            "disks": disks if disks or self.disks is not None else None,
            "nics": (*nics[:own], *count, *(f"-{mac}" for mac in nics[own:])) if self.has_nics else None,
            "pci": None if self.pci is None else _counted_words(self.pci),
        }
        return "".join(f" {key}={','.join(told) or '-'}" for key, told in words.items() if told is not None)

    @property
    def has_nics(self) -> bool:
        """Whether it says which virtual NICs are the plan's."""
        return self.nics is not None or self.new_nics > 0

    @classmethod
    def parse(cls, text: str, vm: str) -> OwnerMark:
        """Parse a mark. Invalid IDs and times, for example after an edit, are omitted."""
        plan, _, rest = text.partition(" ")
        rest, _, made_by = f" {rest}".partition(" by=")
        words = dict(word.split("=", maxsplit=1) for word in rest.split() if "=" in word)
        plan_id, instance_uuid = words.get("id", ""), words.get("uuid", "")
        told = [word for word in words.get("disks", "").split(",") if word]
        disks = tuple(word.lower() for word in told if word[0] not in "+-")
        new = tuple(int(word[1:]) for word in told if word[0] == "+" and word[1:].isdecimal())
        recorded = disks if disks or told == ["-"] else None
        nics = words.get("nics", "").split(",")
        pci = words.get("pci")
        mark = cls(
            plan=plan,
            vm=vm,
            disks=recorded,
            new_disks=new,
            nics=tuple(_colons(word) for word in nics if _MAC.fullmatch(word)) if "nics" in words else None,
            new_nics=sum(int(word) for word in nics if _COUNT.fullmatch(word)),
            other_nics=tuple(_colons(word[1:]) for word in nics if _MAC_OF_OTHERS.fullmatch(word)),
            pci=None if pci is None else _each_word(pci),
        )
        if not (is_id(plan_id) and instance_uuid):
            return mark
        return mark.model_copy(
            update={
                "id": plan_id.lower(),
                "instance_uuid": instance_uuid.lower(),
                "made_by": made_by.strip(),
                "made_at": moment_of(words.get("at", "")),
                "is_imported": "imported" in words,
                "keys": tuple(unquote(key) for key in words.get("keys", "").split(",") if key),
                "template": _template_of(words.get("template", "")),
            }
        )

    def naming(self, asked: OwnerMark, before: OwnerMark | None) -> OwnerMark:
        """Return it with the devices that `asked` names, and those of `before` of kinds that it does not."""
        kinds = (("disks", "new_disks"), ("nics", "new_nics", "other_nics"), ("pci",))
        told: dict[str, object] = {}
        for keys in kinds:
            is_told = (
                any(getattr(asked, key) not in (None, 0, ()) for key in keys) or getattr(asked, keys[0]) == ()
            )
            source = asked if is_told or before is None else before
            told |= {key: getattr(source, key) for key in keys}
        return self.model_copy(update=told)

    def is_named(self, plan: PlanIdentity) -> bool:
        """Whether it names a plan: by its id, or by its name where it holds no id."""
        return self.id == plan.id if self.id else self.plan == plan.name


_PLAIN = ".:_-"
"""The characters that are not escaped in a mark's keys, in addition to letters and digits."""

_MAC = re.compile(r"[0-9a-f]{12}", re.IGNORECASE)
_MAC_OF_OTHERS = re.compile(rf"-{_MAC.pattern}", re.IGNORECASE)
_COUNT = re.compile(r"\+\d{1,2}")
_TIMES = re.compile(r"(\d{1,3})\*")


def _quoted(word: str) -> str:
    return quote(word, safe=_PLAIN)


def _template_of(text: str) -> TemplateSeen | None:
    parts = [unquote(part) for part in text.split(",")]
    return TemplateSeen(name=parts[0], instance_uuid=parts[1], version=parts[2]) if len(parts) == 3 else None


def _colons(digits: str) -> str:
    return ":".join(re.findall("..", digits.lower()))


def _counted_words(words: Iterable[str]) -> tuple[str, ...]:
    """Write equal words once, with their count: an extraConfig value is not to grow long."""
    counts = Counter(quote(word, safe=f"{_PLAIN}/@") for word in words)
    return tuple(f"{count}*{word}" if count > 1 else word for word, count in sorted(counts.items()))


def _each_word(text: str) -> tuple[str, ...]:
    """Read counted words back."""
    found: list[str] = []
    for word in text.split(","):
        times = _TIMES.match(word)
        name = unquote(word[times.end() :] if times else word)
        found += [name] * (int(times[1]) if times else 1) if name not in ("", "-") else []
    return tuple(found)


class VgpuDevice(Frozen):
    """A vGPU of a VM. `key` is vSphere's device key, never a slot.

    `group_key` is that of its device group. `migrates` is vSphere's word on whether vMotion can
    move it; None if unknown (before API 7.0.2). `numa_node` is the virtual one, None for none.
    """

    key: int
    profile: str
    group_key: int | None = None
    migrates: bool | None = None
    numa_node: int | None = None


SubIds = tuple[int | None, int | None, int | None]
"""The restriction of an allowed device: subsystem vendor ID, subsystem ID, revision; None: any."""


class DvxDevice(Frozen):
    """An Enhanced DirectPath device of a VM (vim `DvxBackingInfo`, API 8.0.0.1).

    No key of a plan file asks for one, so it stays where it is. `params` are its vendor's own settings.
    `group_key` is that of its device group.
    """

    key: int
    device_class: str
    params: Mapping[str, str] = Field(default_factory=dict)
    group_key: int | None = None


class PassthroughDevice(Frozen):
    """A passed-through PCI function of a VM, fixed (`pci_id`) or dynamic (`allowed`, `label`).

    `assigned_id` is the function that a dynamic one holds while its VM runs.
    `allowed` are (vendor ID, device ID) pairs; `sub_ids`, if any is restricted further, as many of
    (subsystem vendor id, subsystem id, revision), None: any. `is_nic`: the hosts list
    such functions as network controllers. `group_key` is that of its device group.
    """

    key: int
    pci_id: str | None = None
    system_id: str | None = None
    allowed: tuple[tuple[int, int], ...] = ()
    sub_ids: tuple[SubIds, ...] = ()
    label: str | None = None
    assigned_id: str | None = None
    numa_node: int | None = None
    is_nic: bool = False
    group_key: int | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether it names one function of one host."""
        return self.pci_id is not None

    @property
    def text(self) -> str:
        """Its address, or the functions that may be assigned: "passthrough of any 10de:20f1"."""
        if self.pci_id is not None:
            return f"passthrough {self.pci_id}"
        return any_text(self.allowed, self.sub_ids, self.label)


def any_text(allowed: Sequence[tuple[int, int]], sub_ids: Sequence[SubIds], label: str | None) -> str:
    """Spell a device of which its ids and its label alone are known."""
    return f"passthrough of any {_ids_text(allowed, sub_ids)}" + (f" with label {label}" if label else "")


def _ids_text(allowed: Sequence[tuple[int, int]], sub_ids: Sequence[SubIds]) -> str:
    """Format the allowed devices of Dynamic DirectPath: "10de:20f1", "10de:20f1 (subsystem 10de:145f)"."""
    words = []
    for index, (vendor, device) in enumerate(allowed):
        sub_vendor, sub_device, revision = sub_ids[index] if index < len(sub_ids) else (None, None, None)
        said = f"{vendor:04x}:{device:04x}"
        if sub_vendor is not None or sub_device is not None:
            said += f" (subsystem {_hex(sub_vendor)}:{_hex(sub_device)})"
        words.append(said if revision is None else f"{said} (revision {revision:02x})")
    return ", ".join(words)


def _hex(number: int | None) -> str:
    return "any" if number is None else f"{number:04x}"


class VirtualNic(Frozen):
    """A virtual NIC of a VM; `network` is the network's moid, the portgroup key where distributed.

    Of one with `kind` "sriov" `function` is the PCI address of the physical function whose virtual one
    it is, None where vSphere chooses. `dvx_class` is the device class of one that is backed by DVX in place
    of a function. `group_key` is that of its device group.
    """

    key: int
    kind: str
    network: str = ""
    mac: str = ""
    function: str | None = None
    dvx_class: str = ""
    group_key: int | None = None


class VirtualDisk(Frozen):
    """A disk of a VM, known by its UUID; its key is only its place on a controller.

    `uuid` is that of its backing, in small letters, "" if it was not read.
    `file` is its path with the datastore, as `[vsan] a/a.vmdk`.
    `datastore_moid` is the datastore of that file.
    `first_class_id` is the id of a first-class disk (vim `VirtualDisk.vDiskId`), "" for others.
    `lun_uuid` is the LUN of a raw device mapping, "" for others.
    `is_shared`: several VMs can write to it (vim `VirtualDiskSharing`).
    `has_parent`: it is a delta of another disk: of a linked clone, or after a snapshot.
    `policy` is the id of its storage policy, "" for none, None if it was not read.
    """

    key: int
    capacity_mib: int
    controller_key: int
    uuid: str = ""
    file: str = ""
    datastore_moid: str = ""
    first_class_id: str = ""
    lun_uuid: str = ""
    is_shared: bool = False
    has_parent: bool = False
    policy: str | None = None

    @property
    def identity(self) -> str:
        """The disk's identity: its UUID, otherwise its file, otherwise its slot."""
        return self.uuid or self.file or str(self.key)


class DiskController(Frozen):
    """A disk controller of a VM; `kind` is "scsi", "nvme", "sata" or "ide"."""

    key: int
    kind: str


class GuestNicSeen(Frozen):
    """A NIC as reported by VMware Tools (vim `GuestNicInfo`), with addresses in CIDR notation if known."""

    mac: str
    addresses: tuple[str, ...] = ()
    network: str = ""


class GuestSeen(Frozen):
    """A guest as reported by VMware Tools (vim `GuestInfo`)."""

    tools_running: bool = False
    host_name: str = ""
    address: str = ""
    nics: tuple[GuestNicSeen, ...] = ()


class VmDetail(Frozen):
    """Details read only for relevant VMs: those on GPU hosts, the plan's own, and templates.

    `extra_config` holds the keys this tool checks or writes (`numa.*`, `pciPassthru*`, `vgpu_cfg.*`,
    and those the plan names), not all. `memory_reservation_mib` is the reservation as set.
    `device_groups` maps the keys that devices name to the groups' names. `cores_per_numa_node` is 0
    if ESXi determines the virtual NUMA nodes; None if the API does not report it. `cpu_mhz` is the VM's
    recent CPU usage, at most `max_cpu_mhz` (vim quickStats.overallCpuUsage, maxCpuUsage);
    these and `uptime_seconds` are None if vCenter does not report them. `options` holds what else the rows of
    the table of VM settings read, by their keys; a row that vCenter does not report is absent.
    `tags` are the names of its tags by category, of the categories that a reading asked for; None where it
    asked for none of this VM. `attributes` are its custom attributes by name, `tpm_key` is the device key of
    its virtual TPM.
    `option_names` are the extraConfig keys that `extra_config` lacks, if the reading requested them.
    `tools_status` is vim `VirtualMachineToolsVersionStatus`, "" if unknown. `home_policy` is the ID
    of the storage policy of its home, "" for none, None where it was not read. `media` names the USB
    devices and the images that are connected to it.
    """

    change_version: str = ""
    hardware_version: int | None = None
    guest_id: str = ""
    firmware: str = ""
    cpus: int = 0
    cores_per_socket: int = 1
    memory_mib: int = 0
    memory_reservation_mib: int = 0
    memory_reservation_locked: bool = False
    extra_config: Mapping[str, str] = Field(default_factory=dict)
    option_names: tuple[str, ...] = ()
    vgpus: tuple[VgpuDevice, ...] = ()
    device_groups: Mapping[int, str] = Field(default_factory=dict)
    cores_per_numa_node: int | None = None
    passthrough: tuple[PassthroughDevice, ...] = ()
    dvx: tuple[DvxDevice, ...] = ()
    nics: tuple[VirtualNic, ...] = ()
    disks: tuple[VirtualDisk, ...] = ()
    controllers: tuple[DiskController, ...] = ()
    options: Mapping[str, SettingValue] = Field(default_factory=dict)
    attributes: Mapping[str, str] = Field(default_factory=dict)
    tags: Mapping[str, tuple[str, ...]] | None = None
    tpm_key: int | None = None
    resource_pool_moid: str = ""
    datastore_moids: tuple[str, ...] = ()
    snapshot_moid: str | None = None
    cpu_mhz: int | None = None
    max_cpu_mhz: int | None = None
    uptime_seconds: int | None = None
    guest: GuestSeen | None = None
    tools_status: str = ""
    home_policy: str | None = None
    media: tuple[str, ...] = ()

    @property
    def reserved_mib(self) -> int:
        """The memory that is reserved while it runs."""
        return max(self.memory_reservation_mib, self.memory_mib if self.memory_reservation_locked else 0)

    @property
    def passthrough_gpus(self) -> tuple[PassthroughDevice, ...]:
        """The passed-through devices that are no NICs."""
        return tuple(device for device in self.passthrough if not device.is_nic)

    @property
    def passthrough_nics(self) -> tuple[PassthroughDevice, ...]:
        """The passed-through NICs."""
        return tuple(device for device in self.passthrough if device.is_nic)

    @property
    def own_nics(self) -> tuple[VirtualNic, ...]:
        """The virtual NICs that a plan file has words for: none by DVX."""
        return tuple(nic for nic in self.nics if not nic.dvx_class)

    @property
    def mixed_groups(self) -> tuple[int, ...]:
        """The keys of its device groups that are no NVLink peers: of one vGPU, or of other devices, too."""
        sizes = Counter(device.group_key for device in self.vgpus)
        return tuple(key for key in sorted(self.device_groups) if sizes[key] < 2 or self.other_members(key))

    def without_groups(self, keys: Collection[int | None]) -> VmDetail:
        """Return it as if these device groups, with all their members, were gone."""
        return self.model_copy(
            update={
                "device_groups": {key: name for key, name in self.device_groups.items() if key not in keys},
                "vgpus": tuple(one for one in self.vgpus if one.group_key not in keys),
                "passthrough": tuple(one for one in self.passthrough if one.group_key not in keys),
                "dvx": tuple(one for one in self.dvx if one.group_key not in keys),
                "nics": tuple(one for one in self.nics if one.group_key not in keys),
            }
        )

    def without_devices(self, keys: Collection[int]) -> VmDetail:
        """Return it as if these vGPUs, functions and NICs were gone, and their device groups."""
        members: list[VgpuDevice | PassthroughDevice] = [*self.vgpus, *self.passthrough]
        detail = self.without_groups({one.group_key for one in members if one.key in keys} - {None})
        return detail.model_copy(
            update={
                "vgpus": tuple(one for one in detail.vgpus if one.key not in keys),
                "passthrough": tuple(one for one in detail.passthrough if one.key not in keys),
                "nics": tuple(one for one in detail.nics if one.key not in keys),
            }
        )

    def other_members(self, group_key: int) -> tuple[PassthroughDevice | DvxDevice | VirtualNic, ...]:
        """List the members of a device group that are no vGPUs."""
        devices: list[PassthroughDevice | DvxDevice | VirtualNic] = [*self.passthrough, *self.dvx, *self.nics]
        return tuple(device for device in devices if device.group_key == group_key)


class VmOrigin(Frozen):
    """A VM's creator and creation time; empty and None if vCenter does not report them."""

    made_at: datetime | None = None
    made_by: str = ""


class Manager(Frozen):
    """A product that manages a VM: `product` is its name, `group` the namespace or deployment of the VM.

    `is_agent` is true of the agents that vCenter itself starts, stops and replaces with their host.
    """

    product: str
    group: str = ""
    is_agent: bool = False

    @property
    def words(self) -> str:
        """Return "VM Operator, namespace ml" for people."""
        return ", ".join(filter(None, (self.product, self.group)))

    @property
    def owner(self) -> str:
        """Return "namespace ml", the product if it has no such part."""
        return self.group or self.product


class Vm(ManagedObject):
    """A VM or template. `detail` is None where only the first, light pass read it.

    `manager` is the product that manages it, None where none is known to, and of this tool's own VMs.
    `called` is its name in vCenter where `name` is that of a plan that knows it by another.
    `origin` is read of VMs that carry the plan's mark and that the plan file does not name, and None else.
    """

    folder_moid: str | None = None
    host_moid: str | None = None
    power_state: PowerState = PowerState.OFF
    is_template: bool = False
    instance_uuid: str = ""
    called: str = ""
    mark: OwnerMark | None = None
    manager: Manager | None = None
    detail: VmDetail | None = None
    origin: VmOrigin | None = None

    @property
    def is_on(self) -> bool:
        """Whether it runs."""
        return self.power_state is PowerState.ON

    def is_of(self, plan: PlanIdentity) -> bool:
        """Whether its mark names a plan and was written for this very VM; a copy's was not."""
        return (
            self.mark is not None and self.mark.is_named(plan) and not self.is_template and not self.is_copy
        )

    @property
    def is_copy(self) -> bool:
        """Whether its mark was written for another VM: it came with a clone, or with a restored backup."""
        mark = self.mark
        return mark is not None and bool(mark.id) and mark.instance_uuid != self.instance_uuid.lower()
