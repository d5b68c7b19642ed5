"""The state of a simulated VM: checked settings as plain values; devices as pyvmomi values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from vgpu_cfg.lab.state.guest import Guest
from vgpu_cfg.lab.state.managed import Managed

PowerState = Literal["poweredOn", "poweredOff", "suspended"]
LINGERS = "lab.lingers"
"""In `VirtualMachine.extra`: on which GPUs its host still shows a VM that was stopped, and until when."""
Firmware = Literal["bios", "efi"]


KEPT_BY_SNAPSHOTS = (
    "cpus", "cores_per_socket", "memory_mib", "memory_reservation_mib", "memory_reservation_locked",
    "cpu_reservation_mhz", "latency_sensitivity", "cpu_hot_add", "memory_hot_add", "firmware", "secure_boot",
    "boot_delay_ms", "hardware_version", "guest_id", "annotation", "extra_config", "extra", "device_groups",
    "home_policy", "disk_policies",
)  # fmt: skip
"""The parts of a VM that a snapshot keeps, next to its devices."""


@dataclass(slots=True, kw_only=True)
class Snapshot(Managed):
    """A snapshot; `parent` is the VM. `previous` is the snapshot before it.

    `kept` are settings of the VM by their names here; `was_on` where its memory was kept, too.
    """

    wsdl_type: ClassVar[str] = "VirtualMachineSnapshot"
    moid_prefix: ClassVar[str] = "snapshot"

    number: int
    created: float
    description: str = ""
    previous: str | None = None
    kept: dict[str, Any] = field(default_factory=dict)
    was_on: bool = False


@dataclass(slots=True, kw_only=True)
class VirtualMachine(Managed):
    """A VM or a template. `parent` is its folder; `host` where it runs or is registered.

    `made_devices` is None until the first request: then `seed` (the estate's short form) makes them. Read
    devices through `devices`; replace the dict's values, never change them in place. `extra` holds ConfigSpec
    fields that are not checked, by path (`cpuAllocation`, `flags`, …). `change_version` is empty until the
    first change: renderers call `current_change_version`.
    """

    wsdl_type: ClassVar[str] = "VirtualMachine"
    moid_prefix: ClassVar[str] = "vm"

    uuid: str
    instance_uuid: str
    host: str | None = None
    resource_pool: str | None = None
    host_is_chosen: bool = False
    """The lab chose the host: a power-on may choose another of the cluster."""
    tools_installed: bool = True
    is_template: bool = False
    power_state: PowerState = "poweredOff"
    boot_time: float | None = None
    created: float = 0.0
    change_version: str = ""
    cpu_mhz: int | None = None
    """Its CPU use while it runs; None for a quarter of its CPUs."""
    cpus: int = 1
    cores_per_socket: int = 1
    memory_mib: int = 4096
    memory_reservation_mib: int = 0
    memory_reservation_locked: bool = False
    cpu_reservation_mhz: int = 0
    latency_sensitivity: str = "normal"
    """vim `LatencySensitivity.level`."""
    cpu_hot_add: bool = False
    memory_hot_add: bool = False
    firmware: Firmware = "efi"
    secure_boot: bool = False
    boot_delay_ms: int = 0
    hardware_version: int = 19
    guest_id: str = "ubuntu64Guest"
    annotation: str = ""
    extra_config: dict[str, str] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    datastore: str = ""
    """Moid of the datastore that holds the VM's home."""
    home: str = ""
    """Folder of the VM's files on it."""
    snapshots: list[str] = field(default_factory=list)
    current_snapshot: str | None = None
    device_groups: dict[int, str] = field(default_factory=dict)
    home_policy: str = ""
    """Id of the storage policy of the VM's home."""
    disk_policies: dict[int, str] = field(default_factory=dict)
    """Ids of those of its disks, by their keys."""
    customization: Any = None
    """The customization of its guest at its next start (vim `CustomizationSpec`)."""
    log: list[str] = field(default_factory=list)
    """Last lines of vmware.log worth telling."""
    seed: Callable[[], dict[int, Any]] | None = field(default=None, repr=False)
    made_devices: dict[int, Any] | None = field(default=None, repr=False)
    made_guest: Guest | None = field(default=None, repr=False)
    """None if it has no settings, and was not yet used: see `guest.making`."""

    @property
    def devices(self) -> dict[int, Any]:
        """The devices by key (pyvmomi `VirtualDevice` values), made on first use."""
        if self.made_devices is None:
            self.made_devices = self.seed() if self.seed is not None else {}
        return self.made_devices

    @property
    def is_on(self) -> bool:
        """Whether it runs."""
        return self.power_state == "poweredOn"

    def current_change_version(self) -> str:
        """Return what ConfigInfo.changeVersion shows."""
        return self.change_version or "2026-01-05T08:00:00.000000Z"
