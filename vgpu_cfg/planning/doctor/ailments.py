"""Faults, risks and waste of an estate: their kinds, each with its level, summary and cost, and findings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self

from vgpu_cfg.model.wording import as_counted


class Level(StrEnum):
    """How bad a kind is, the worst first."""

    BROKEN = "broken"
    """It does not work now, or will not start again."""
    RISK = "risk"
    """It works, and the next maintenance, failure or power cycle shows that it should not be so."""
    WASTE = "waste"
    """Capacity that no VM can use."""
    WAITING = "waiting"
    """It goes on by itself, at a time, or with a command: `status` lists it, `doctor` does not."""


_B, _R, _W, _N = tuple(Level)
HEALTH = (_B, _R, _W)
"""The levels that `doctor` has."""


class Kind(StrEnum):
    """The kinds of ailments in the order in which they are shown, each with its level, summary and cost."""

    level: Level
    summary: str
    cost: str

    def __new__(cls, key: str, level: Level = _B, summary: str = "", cost: str = "") -> Self:
        """Make a member whose value is its key. The defaults let `Kind("snapshot")` look one up."""
        made = str.__new__(cls, key)
        made._value_ = key
        made.level, made.summary, made.cost = level, summary, cost
        return made

    HOST_LOST = "host-lost", _B, "host not connected", "vCenter cannot start, migrate or monitor its VMs"
    DATASTORE_LOST = (
        "datastore-lost",
        _B,
        "datastore not accessible",
        "VMs on it cannot start, and running ones stop",
    )
    NOT_OFFERED = (
        "profile-not-offered",
        _B,
        "no host in the cluster supports the VM's profile",
        "the VM cannot start",
    )
    FIRMWARE = "firmware", _B, "GPU VM with BIOS firmware", "the VM cannot be powered on again"
    MEMORY = (
        "memory-reservation",
        _B,
        "GPU VM without full memory reservation",
        ("the VM cannot be powered on again"),
    )
    MMIO = "mmio", _B, "64-bit MMIO too small", "the VM cannot be powered on again, or its GPU does not work"
    HARDWARE = "hardware-version", _B, "hardware version not supported", "the VM cannot be powered on again"
    CPUS = "viommu", _B, "vCPU count that needs a virtual IOMMU", "the VM cannot be powered on again"
    PASSTHROUGH = "passthrough-device", _B, "passthrough device not available", "the VM cannot start"
    GRAPHICS = (
        "graphics-type",
        _B,
        "graphics type is not sharedDirect",
        "VMs with vGPUs cannot start on these GPUs",
    )
    NO_DRIVER = "no-driver", _B, "GPUs without a host driver", "VMs with vGPUs cannot start on these GPUs"
    SRIOV_OFF = (
        "sriov-off",
        _B,
        "SR-IOV seems to be off in the BIOS",
        ("VMs with vGPUs or SR-IOV NICs cannot start on the host"),
    )
    TOO_LARGE = "too-large", _B, "VM larger than any host in its cluster", "the VM cannot be powered on"
    NESTED = "nested", _B, "nested virtualization on a GPU VM", "the VM cannot be powered on with a GPU"
    LATENCY = (
        "latency",
        _B,
        "high latency sensitivity without a full CPU reservation",
        ("the VM cannot be powered on"),
    )
    TWIN_DEVICE = (
        "device-twice",
        _B,
        "one device assigned to several VMs",
        "only one of the VMs can run at a time",
    )
    INCOMPLETE = "incomplete", _B, "incomplete run", "the plan is only partly applied"
    DEVICE_GONE = (
        "device-gone",
        _B,
        "VM without a device that its plan assigned",
        "training on the VM may fail or run slower",
    )

    MAINTENANCE = "maintenance", _R, "host in maintenance mode", "VMs cannot use the host's GPUs"
    PENDING = (
        "pending",
        _R,
        "host setting pending restart",
        ("the setting is not in effect yet"),
    )
    UNFINISHED = "unfinished", _R, "unfinished work on a host", "the host is only partly prepared"
    LOCK = "lock", _R, "lock held by a run that is no longer responding", "it blocks other runs"
    FREEZE = "freeze", _R, "changes are frozen", "vgpu-cfg makes no changes until the freeze ends"
    RESERVATION = "reservation", _R, "expired or unreadable reservation", "its GPUs remain unused"
    LICENCES = (
        "licenses",
        _R,
        "not enough vGPU licenses",
        "unlicensed vGPUs run at reduced performance",
    )
    NO_RESTART = (
        "no-restart",
        _R,
        "VM that cannot run on any other host",
        "the VM stays down if its host fails",
    )
    NO_SPARE = (
        "no-spare",
        _R,
        "cluster without failover capacity for one host",
        ("no host can be evacuated for maintenance, and VMs stay down after a host failure"),
    )
    HA_OFF = "ha-off", _R, "vSphere HA does not restart GPU VMs", "these VMs stay down after a host failure"
    DRS_OFF = (
        "drs-off",
        _R,
        "DRS is off in a cluster with GPU VMs",
        ("DRS neither places VMs at power-on nor migrates them for maintenance"),
    )
    NO_EVACUATION = (
        "no-evacuation",
        _R,
        "DRS does not migrate vGPU VMs for maintenance",
        ("hosts cannot enter maintenance mode until the VMs are migrated manually"),
    )
    DRS_MOVES = (
        "drs",
        _R,
        "DRS may migrate VMs pinned to a NUMA node",
        ("after a migration, memory and GPU may be on different sockets"),
    )
    NUMA_STALE = (
        "numa-stale",
        _R,
        "VM not pinned to its GPU's NUMA node",
        ("all transfers cross sockets"),
    )
    NUMA_WIDE = (
        "numa-wide",
        _R,
        "VM larger than the NUMA node it is pinned to",
        ("part of its memory is remote"),
    )
    HOT_ADD = "hot-add", _R, "hot-add on a GPU VM", "hot-add hides NUMA nodes or prevents power-on with GPUs"
    DRIVERS = (
        "mixed-drivers",
        _R,
        "different host drivers in a cluster",
        ("vMotion fails, and a guest driver may not match after a restart"),
    )
    OLD_VCENTER = "old-vcenter", _R, "ESXi is newer than vCenter", "VMware does not support this combination"
    OLD_ESXI = "old-esxi", _R, "ESXi version past end of general support", "it receives no security fixes"
    FAULTY_DRIVER = "faulty-driver", _R, "host driver with a known fault", "hosts or VMs stop"
    GUEST_DRIVER = (
        "guest-driver",
        _R,
        "guest driver that the host driver does not support",
        ("the VM's vGPUs may not work after its next restart"),
    )
    OLD_DRIVER = "old-driver", _R, "host driver branch past end of life", "it receives no security fixes"
    DAEMONS = (
        "mixed-daemons",
        _R,
        "NVIDIA's management daemon is not installed on all hosts of a cluster",
        ("NVLink device groups are unavailable on hosts without it"),
    )
    BUILDS = "mixed-builds", _R, "different ESXi builds in a cluster", "VMs may not migrate to older hosts"
    LICENCE = "licence", _R, "host without a permanent license", "hosts disconnect when the license expires"
    LICENCE_ENDS = (
        "license-ends",
        _R,
        "license about to end",
        ("hosts disconnect, and vGPUs without a license run at reduced performance"),
    )
    NETWORK = (
        "network",
        _R,
        "host without a network that GPU VMs in its cluster use",
        "VMs cannot migrate to or restart on the host",
    )
    STORAGE = (
        "storage",
        _R,
        "host without a datastore that GPU VMs in its cluster use",
        ("VMs cannot migrate to or restart on the host"),
    )
    LOCAL_DISK = (
        "local-datastore",
        _R,
        "GPU VM on a datastore that only one host can access",
        ("the VM cannot migrate to or restart on another host"),
    )
    DATASTORE_FULL = "datastore-full", _R, "datastore nearly full", "VMs stop on their next write"
    SNAPSHOT = (
        "snapshot",
        _R,
        "GPU VM with a snapshot",
        ("the VM's disks cannot be extended, and reverting may restore devices that no longer exist"),
    )
    MEDIA = (
        "media",
        _R,
        "GPU VM with a connected USB device or image",
        "vMotion fails or disconnects the device",
    )
    NO_VMOTION_VM = (
        "plugin-parameter",
        _R,
        "vGPU parameter that prevents vMotion",
        ("the VM must be powered off for host maintenance"),
    )
    SUSPENDED = "suspended", _R, "suspended GPU VM", "the VM resumes only if the same GPU capacity is free"
    RULE_LEFT = (
        "rule-left",
        _R,
        "DRS rule left by a plan that has no VMs",
        "the rule may affect VMs added to it later",
    )
    EXPIRED = (
        "expired",
        _R,
        "VM past its expiry date",
        "the VM uses GPUs until `apply --expired` shuts it down",
    )
    COPIED_MARK = "copied-mark", _R, "copy of a plan's VM", "the copy may be mistaken for the plan's VM"
    RULE = (
        "rule",
        _R,
        ("DRS rule violated or impossible to satisfy"),
        "VMs that should be separate may fail together",
    )
    MAC = "mac", _R, "two VMs with the same MAC address", "both VMs lose their network connection"
    ATS = "ats", _R, "ATS chain with a missing link", "GPUDirect RDMA runs at about half its bandwidth"
    FAR = "far", _R, "GPU and NIC of a VM on different NUMA nodes", "GPUDirect RDMA crosses sockets"
    OVER_RESERVED = (
        "over-reserved",
        _R,
        "DirectPath profile with insufficient capacity for its reservations",
        ("VMs with a reservation cannot start"),
    )
    FEWER_GPUS = (
        "fewer-gpus",
        _R,
        "host with fewer GPUs than identical hosts in its cluster",
        ("a GPU may have failed or been removed"),
    )
    NO_GROUPS = (
        "no-device-groups",
        _R,
        "host missing device groups that identical hosts have",
        ("NVLink VMs cannot start on the host"),
    )
    NVSWITCH_SPLIT = (
        "nvswitch-passthrough",
        _R,
        "NVSwitch GPU in passthrough mode",
        ("the board's other GPUs may lose NVLink"),
    )
    CORDON = "cordon", _R, "cordoned host or GPU", "no new VMs are placed on it"
    NO_VMOTION = (
        "no-vmotion",
        _R,
        "vMotion of vGPU VMs is disabled in vCenter",
        ("VMs must be powered off for host maintenance"),
    )
    TOOLS = "tools", _R, "VMware Tools not running", "the guest cannot be shut down cleanly"

    STRANDED = "stranded", _W, "GPU memory that no profile can use", "wasted capacity"
    LOCKED_SIZE = (
        "locked-size",
        _W,
        "GPU locked to one small profile size",
        "other profile sizes cannot use the rest of the GPU",
    )
    NVLINK = "nvlink", _W, "idle GPU whose NVLink peer is in use", "the linked pair is unavailable to VMs"
    MIG_UNUSED = "mig-unused", _W, "unused GPU in MIG mode", "time-sliced profiles cannot use the GPU"
    PASSTHROUGH_UNUSED = (
        "passthrough-unused",
        _W,
        "passthrough GPU without a running VM",
        ("vGPUs cannot use it"),
    )
    NUMA_UNKNOWN = (
        "numa-unknown",
        _W,
        "host that does not report the NUMA node of its GPUs",
        ("VMs cannot be pinned to the correct node"),
    )
    IDLE = "idle", _W, "running VM that barely uses its GPU", "other VMs cannot use this GPU"

    RUNNING = "running", _N, "run in progress", "the run's plan, hosts and clusters are locked until it ends"
    WINDOW = "window", _N, "work waiting for a maintenance window", "run `apply` in the window to continue"
    STEP = "step", _N, "run waiting for a manual step", "after the step, run `apply` to continue"
    EXPIRES = (
        "expires",
        _N,
        "VM that expires within a week",
        "`apply --expired` shuts the VM down after that date",
    )


@dataclass(frozen=True, slots=True)
class Ailment:
    """Something that is wrong: `subject` is `vm:NAME`, `host:NAME`, `gpu:HOST/PCI` or `cluster:NAME`, say.

    `says` gives the finding, `command` a command to type, `owner` the owner; each is empty if unknown.
    `since` is when it began, None if unknown.
    """

    kind: Kind
    subject: str
    says: str
    command: str = ""
    owner: str = ""
    since: datetime | None = None

    @property
    def name(self) -> str:
        """The subject without its kind."""
        return self.subject.partition(":")[2] or self.subject


@dataclass(frozen=True, slots=True)
class Group:
    """The ailments of one kind."""

    kind: Kind
    ailments: tuple[Ailment, ...]


def grouped(ailments: Iterable[Ailment]) -> tuple[Group, ...]:
    """Return ailments by kind, in their order."""
    by_kind: dict[Kind, list[Ailment]] = {}
    for one in ailments:
        by_kind.setdefault(one.kind, []).append(one)
    return tuple(Group(kind, tuple(found)) for kind, found in by_kind.items())


def worst_first(found: Iterable[Ailment]) -> tuple[Ailment, ...]:
    """Return each ailment once, in the order of kinds."""
    order = {kind: number for number, kind in enumerate(Kind)}
    return tuple(sorted(dict.fromkeys(found), key=lambda one: (order[one.kind], as_counted(one.subject))))
