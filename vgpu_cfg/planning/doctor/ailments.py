"""Faults, risks and waste of an estate: their kinds, each with its level, summary and cost, and findings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class Level(StrEnum):
    """How bad a kind is, the worst first."""

    BROKEN = "broken"
    """It does not work now, or will not start again."""
    RISK = "risk"
    """It works, and the next maintenance, failure or power cycle shows that it should not be so."""
    WASTE = "waste"
    """Capacity that no VM can use."""


_B, _R, _W = tuple(Level)


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
        "no host of the cluster offers the VM's profile",
        "the VM cannot start",
    )
    FIRMWARE = "firmware", _B, "GPU VM with BIOS firmware", "it cannot be powered on again"
    MEMORY = (
        "memory-reservation",
        _B,
        "GPU VM without full memory reservation",
        ("it cannot be powered on again"),
    )
    MMIO = "mmio", _B, "64-bit MMIO too small", "it cannot be powered on again, or its GPU does not work"
    HARDWARE = "hardware-version", _B, "hardware version does not fit", "it cannot be powered on again"
    CPUS = "viommu", _B, "vCPUs that require a virtual IOMMU", "it cannot be powered on again"
    PASSTHROUGH = "passthrough-device", _B, "passthrough device not available", "the VM cannot start"
    GRAPHICS = "graphics-type", _B, "graphics type is not sharedDirect", "no vGPU can start on these GPUs"
    NO_DRIVER = "no-driver", _B, "GPUs without a host driver", "no vGPU can start on these GPUs"
    TOO_LARGE = "too-large", _B, "VM larger than any host of its cluster", "it cannot be powered on"
    NESTED = "nested", _B, "nested virtualization on a GPU VM", "it cannot be powered on with a GPU"
    LATENCY = (
        "latency",
        _B,
        "latency sensitivity high without a full CPU reservation",
        ("the VM cannot be powered on"),
    )
    TWIN_DEVICE = (
        "device-twice",
        _B,
        "one device assigned to several VMs",
        "only one of the VMs can run at a time",
    )

    MAINTENANCE = "maintenance", _R, "host in maintenance mode", "its GPUs take no VMs"
    PENDING = (
        "pending",
        _R,
        "host setting that waits for a restart",
        ("the configuration is not yet in effect"),
    )
    UNFINISHED = "unfinished", _R, "work on a host that was not finished", "the host is prepared in part"
    LOCK = "lock", _R, "lock of a run that no longer responds", "other runs wait for it"
    RESERVATION = "reservation", _R, "reservation that has ended or is unreadable", "its GPUs stay unused"
    NO_RESTART = "no-restart", _R, "VM that no other host can take", "it stays down if its host fails"
    NO_SPARE = (
        "no-spare",
        _R,
        "cluster without room for the VMs of one host",
        ("no host can be emptied for maintenance, and VMs stay down after a host failure"),
    )
    HA_OFF = "ha-off", _R, "vSphere HA does not restart GPU VMs", "they stay down after a host failure"
    DRS_OFF = (
        "drs-off",
        _R,
        "DRS is off in a cluster of GPU VMs",
        ("VMs are neither placed at power-on nor moved for maintenance"),
    )
    NO_EVACUATION = (
        "no-evacuation",
        _R,
        "DRS does not move vGPU VMs for maintenance",
        ("entering maintenance mode waits until the VMs are moved manually"),
    )
    DRS_MOVES = (
        "drs",
        _R,
        "DRS may move VMs that are bound to a NUMA node",
        ("memory and GPU are on different sockets afterwards"),
    )
    NUMA_STALE = (
        "numa-stale",
        _R,
        "VM bound to another NUMA node than its GPU's",
        ("each transfer crosses the sockets"),
    )
    NUMA_WIDE = (
        "numa-wide",
        _R,
        "VM larger than the NUMA node that it is bound to",
        ("part of its memory is remote"),
    )
    HOT_ADD = "hot-add", _R, "hot-add on a GPU VM", "hides NUMA nodes from the guest, or is refused with GPUs"
    DRIVERS = (
        "mixed-drivers",
        _R,
        "host drivers differ in a cluster",
        ("vMotion is refused, and a guest driver may not match after a restart"),
    )
    OLD_VCENTER = "old-vcenter", _R, "ESXi is newer than vCenter", "VMware does not support this combination"
    OLD_ESXI = "old-esxi", _R, "ESXi without general support", "it gets no security fixes"
    OLD_DRIVER = "old-driver", _R, "host driver of a branch that has ended", "it gets no security fixes"
    DAEMONS = (
        "mixed-daemons",
        _R,
        "NVIDIA's management daemon is missing on hosts of a cluster",
        ("NVLink device groups are not offered there"),
    )
    BUILDS = "mixed-builds", _R, "ESXi builds differ in a cluster", "VMs may not move to older hosts"
    LICENCE = "licence", _R, "host without a permanent license", "hosts disconnect when the license expires"
    NETWORK = (
        "network",
        _R,
        "host without a network of its cluster's GPU VMs",
        "VMs cannot move or restart there",
    )
    STORAGE = (
        "storage",
        _R,
        "host without a datastore of its cluster's GPU VMs",
        ("VMs cannot move or restart there"),
    )
    LOCAL_DISK = (
        "local-datastore",
        _R,
        "GPU VM on a datastore that only one host has",
        ("it cannot move or restart on another host"),
    )
    DATASTORE_FULL = "datastore-full", _R, "datastore nearly full", "VMs stop when they write"
    SNAPSHOT = (
        "snapshot",
        _R,
        "GPU VM with a snapshot",
        ("its disks cannot grow, and a revert may restore devices that no longer exist"),
    )
    MEDIA = "media", _R, "GPU VM with a connected USB device or image", "vMotion is refused or loses it"
    NO_VMOTION_VM = (
        "plugin-parameter",
        _R,
        "vGPU parameter that rules out vMotion",
        ("the VM must be off for maintenance of its host"),
    )
    SUSPENDED = "suspended", _R, "suspended GPU VM", "it resumes only if the same GPU capacity is free"
    COPIED_MARK = "copied-mark", _R, "copy of a VM that a plan owns", "it looks like the plan's VM"
    RULE = "rule", _R, "DRS rule that is not or cannot be met", "VMs that must be apart fail together"
    MAC = "mac", _R, "two VMs with one MAC address", "both lose their network while both run"
    ATS = "ats", _R, "ATS chain with a missing link", "GPUDirect RDMA runs at about half its bandwidth"
    FAR = "far", _R, "GPU and NIC of a VM on different NUMA nodes", "GPUDirect RDMA crosses the sockets"
    OVER_RESERVED = (
        "over-reserved",
        _R,
        "DirectPath profile with more reserved than free",
        ("VMs that have a reservation cannot start"),
    )
    FEWER_GPUS = (
        "fewer-gpus",
        _R,
        "host with fewer GPUs than equal hosts of its cluster",
        ("a GPU may have failed or lost its slot"),
    )
    NO_GROUPS = (
        "no-device-groups",
        _R,
        "host without the device groups that equal hosts offer",
        ("NVLink VMs cannot start there"),
    )
    NVSWITCH_SPLIT = (
        "nvswitch-passthrough",
        _R,
        "GPU of an NVSwitch board passed through",
        ("the other GPUs of the board may lose NVLink"),
    )
    CORDON = "cordon", _R, "cordoned host or GPU", "it takes no new VMs"
    NO_VMOTION = (
        "no-vmotion",
        _R,
        "vMotion of vGPU VMs is disabled in vCenter",
        ("VMs must be powered off for maintenance of their host"),
    )
    TOOLS = "tools", _R, "VMware Tools not running", "the guest cannot be shut down cleanly"

    STRANDED = "stranded", _W, "GPU memory that no profile can use", "paid for, and unusable"
    LOCKED_SIZE = "locked-size", _W, "GPU locked to one small profile size", "other sizes cannot use the rest"
    NVLINK = "nvlink", _W, "idle GPU whose NVLink peer is used alone", "no VM can have the linked pair"
    MIG_UNUSED = "mig-unused", _W, "GPU in MIG mode that no VM uses", "time-sliced profiles cannot use it"
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
        ("VMs cannot be bound to the right node"),
    )
    IDLE = "idle", _W, "running VM that hardly uses its GPU", "its GPU is not available to others"


@dataclass(frozen=True, slots=True)
class Ailment:
    """Something that is wrong: `subject` is `vm:NAME`, `host:NAME`, `gpu:HOST/PCI` or `cluster:NAME`, say.

    `says` gives the finding, `command` a command to type, `owner` the owner; each is empty if unknown.
    """

    kind: Kind
    subject: str
    says: str
    command: str = ""
    owner: str = ""

    @property
    def name(self) -> str:
        """The subject without its kind."""
        return self.subject.partition(":")[2] or self.subject
