"""The whole of a simulated vCenter: managed objects by moid, containment, the counter that orders changes.

Other modules read attributes freely, and after a change of any attribute call `touch`, since that is visible
to the property collector, the store and the waiting clients.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar

from vgpu_cfg.lab.estates.guests import InternetPart
from vgpu_cfg.lab.state.cluster import Cluster, Group, Rule, VmOverride
from vgpu_cfg.lab.state.host import (
    BiosFacts,
    Gpu,
    Host,
    HostDriver,
    Nic,
    NumaNode,
    Passthrough,
    PciDevice,
    VgpuUse,
)
from vgpu_cfg.lab.state.managed import Entry, Managed
from vgpu_cfg.lab.state.roles import Permission, Role
from vgpu_cfg.lab.state.vm import KEPT_BY_SNAPSHOTS, Snapshot, VirtualMachine

__all__ = [
    "CHILD_TYPES",
    "Alarm",
    "AlarmState",
    "BiosFacts",
    "Cluster",
    "Datacenter",
    "Datastore",
    "DirectPathProfile",
    "DistributedSwitch",
    "Folder",
    "Gpu",
    "Group",
    "Host",
    "HostDriver",
    "KeyProvider",
    "LabState",
    "Managed",
    "Network",
    "Nic",
    "NumaNode",
    "Passthrough",
    "PciDevice",
    "ResourcePool",
    "Rule",
    "Snapshot",
    "StoragePod",
    "Task",
    "VgpuUse",
    "VirtualMachine",
    "VmOverride",
]

ManagedT = TypeVar("ManagedT", bound=Managed)

CHILD_TYPES = {
    "vm": ("Folder", "VirtualMachine", "VirtualApp"),
    "host": ("Folder", "ComputeResource"),
    "datastore": ("Folder", "Datastore", "StoragePod"),
    "network": ("Folder", "Network", "DistributedVirtualSwitch"),
}
"""The content of a datacenter's folders, by the kind of folder."""

UPLINK_NAMES = ("Uplink 1", "Uplink 2", "Uplink 3", "Uplink 4")
"""The uplinks that the vSphere Client gives a new switch; that the API alone does so is unproven."""


@dataclass(slots=True, kw_only=True)
class Folder(Managed):
    """A folder; `children` are moids in order. `child_types` as vim `Folder.childType`."""

    wsdl_type: ClassVar[str] = "Folder"
    moid_prefix: ClassVar[str] = "group"

    child_types: tuple[str, ...]
    children: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class StoragePod(Folder):
    """A datastore cluster; Storage DRS moves nothing in the lab."""

    wsdl_type: ClassVar[str] = "StoragePod"
    moid_prefix: ClassVar[str] = "group-p"


@dataclass(slots=True, kw_only=True)
class Datacenter(Managed):
    """A datacenter with its four root folders (moids)."""

    wsdl_type: ClassVar[str] = "Datacenter"
    moid_prefix: ClassVar[str] = "datacenter"

    vm_folder: str = ""
    host_folder: str = ""
    datastore_folder: str = ""
    network_folder: str = ""


@dataclass(slots=True, kw_only=True)
class Alarm(Managed):
    """An alarm definition: `spec` is the vim `AlarmSpec`, `parent` the entity it is defined on.

    `modified` is when it was made or changed last, by whom `user` says. `triggered` maps the moids of
    entities to the status and the moment of their state.
    """

    wsdl_type: ClassVar[str] = "Alarm"
    moid_prefix: ClassVar[str] = "alarm"

    spec: Any
    modified: float
    user: str = ""
    triggered: dict[str, AlarmState] = field(default_factory=dict)


@dataclass(slots=True)
class AlarmState:
    """An alarm's state of one entity: vim `ManagedEntityStatus`, since when, and whether it is seen."""

    status: str
    since: float
    acknowledged: bool = False


@dataclass(frozen=True, slots=True)
class KeyProvider:
    """A key provider of vCenter; `kind` is vim `KmipClusterInfo.KmsManagementType`."""

    name: str
    kind: str
    is_default: bool


@dataclass(frozen=True, slots=True)
class StoragePolicy:
    """A VM storage policy; `datastores` are the names of those that fit it."""

    id: str
    name: str
    description: str
    datastores: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DirectPathProfile:
    """A DirectPath profile of a vGPU type; `reserved` are units that are promised to others, by host name."""

    id: str
    name: str
    vgpu: str
    reserved: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class ResourcePool(Managed):
    """A resource pool. `owner` is its cluster, `parent` the pool above it or the cluster.

    `cpu` and `memory` are vim `ResourceAllocationInfo` with the set values; they are not checked.
    """

    wsdl_type: ClassVar[str] = "ResourcePool"
    moid_prefix: ClassVar[str] = "resgroup"

    owner: str
    cpu: Any = None
    memory: Any = None
    pools: list[str] = field(default_factory=list)
    vms: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Datastore(Managed):
    """A datastore; `kind` as vim `DatastoreSummary.type`.

    `files` maps the paths of uploaded files to their bytes as Latin-1 text; a folder's path ends in "/".
    `left` maps those of unregistered VMs to the former VMs, as JSON.
    """

    wsdl_type: ClassVar[str] = "Datastore"
    moid_prefix: ClassVar[str] = "datastore"

    kind: str = "vsan"
    capacity_mib: int = 0
    free_mib: int = 0
    accessible: bool = True
    in_maintenance: bool = False
    hosts: list[str] = field(default_factory=list)
    vms: dict[str, None] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The datastore's URL."""
        return f"ds:///vmfs/volumes/{self.moid}/"


@dataclass(slots=True, kw_only=True)
class DistributedSwitch(Managed):
    """A distributed switch. `uplink_portgroup` is made with it.

    Every member has a port for each of `uplink_names`; `uplinks` says by host which NIC is at which
    port (vmnic → port key). `config_version` counts its reconfigurations.
    """

    wsdl_type: ClassVar[str] = "VmwareDistributedVirtualSwitch"
    moid_prefix: ClassVar[str] = "dvs"

    uuid: str
    mtu: int = 1500
    portgroups: list[str] = field(default_factory=list)
    uplink_portgroup: str = ""
    hosts: list[str] = field(default_factory=list)
    config_version: int = 1
    uplink_names: tuple[str, ...] = UPLINK_NAMES
    discovery: tuple[str, str] = ("cdp", "listen")
    """vim `LinkDiscoveryProtocolConfig`: its protocol and its operation."""
    uplinks: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Network(Managed):
    """A portgroup. `switch` is the distributed switch's moid, empty for a standard portgroup.

    A distributed portgroup's key is its moid. Its type on the wire comes from `type_on_wire`. `vlan` 0 is
    none; a portgroup with `trunk` lets ranges of VLANs through instead. `ports` and the rest are a
    distributed portgroup's: vim `DVPortgroupConfigInfo`. `settings` is a vim `VmwarePortConfigPolicy` with
    all set values but the VLAN: teaming, security, shaping.
    """

    wsdl_type: ClassVar[str] = "Network"
    moid_prefix: ClassVar[str] = "network"

    switch: str = ""
    vlan: int = 0
    trunk: tuple[tuple[int, int], ...] = ()
    is_uplink: bool = False
    ports: int = 128
    auto_expand: bool = True
    binding: str = "earlyBinding"
    description: str = ""
    config_version: int = 0
    settings: Any = None
    hosts: list[str] = field(default_factory=list)
    vms: dict[str, None] = field(default_factory=dict)

    @property
    def is_distributed(self) -> bool:
        """Whether it belongs to a distributed switch."""
        return bool(self.switch)


@dataclass(slots=True, kw_only=True)
class PastEvent(Managed):
    """An event that happened. `kind` is its wsdl type, `key` its number, `chain_id` that of what caused it.

    `entities` are the moids of all that it names, first the one that it is about. `values` are its other
    fields, as pyvmomi values.
    """

    wsdl_type: ClassVar[str] = "Event"
    moid_prefix: ClassVar[str] = "event"

    kind: str
    key: int
    chain_id: int
    at: float
    user: str
    entities: tuple[str, ...]
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Task(Managed):
    """A task. `name` is the method (`PowerOnVM_Task`), `parent` unused.

    Times are seconds of the lab's clock. `due` is when it ends; `result` a moid or a plain
    value, `fault` the pyvmomi fault it ended with. `arguments` wait in it until it runs.
    """

    wsdl_type: ClassVar[str] = "Task"
    moid_prefix: ClassVar[str] = "task"

    subject: str
    """Moid the method was called on."""
    work: str
    """The performer: the wsdl type that the method is declared on."""
    entity: str
    """Moid that TaskInfo names."""
    entity_name: str
    description_id: str
    event_chain_id: int = 0
    state: Literal["queued", "running", "success", "error"] = "queued"
    progress: int | None = None
    cancelable: bool = False
    cancelled: bool = False
    is_blocked: bool = False
    """Its work was tried and must wait for something to change; `due` is when it gives up."""
    queued_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    due: float = 0.0
    result: Any = None
    fault: Any = None
    user: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class LabState:
    """Every object by moid, the change counter, and the removed ones (moid → revision).

    `touch` after each change; `add` and `remove` touch by themselves. `root` is the root folder.
    """

    estate: str
    instance_uuid: str = ""
    version: str = "8.0.3"
    build: str = "24022515"
    api_version: str = "8.0.3.0"
    objects: dict[str, Managed] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    revision: int = 0
    last_number: int = 0
    root: str = ""
    tasks: list[str] = field(default_factory=list)
    """Recent tasks, oldest first (moids)."""
    events: list[str] = field(default_factory=list)
    """The events, oldest first (moids)."""
    last_event: int = 0
    diary: list[Entry] = field(default_factory=list)
    """The diary of objects."""
    open_tasks: dict[str, None] = field(default_factory=dict)
    """Tasks queued or running."""
    custom_values: dict[str, Any] = field(default_factory=dict)
    tagging: dict[str, Any] = field(default_factory=dict)
    libraries: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, bool | int | str] = field(default_factory=dict)
    """Advanced settings of vCenter itself."""
    licences: tuple[str, ...] = ()
    """Licence keys that it knows."""
    licence_ends: dict[str, float] = field(default_factory=dict)
    """When those end that do, by key."""
    extensions: tuple[str, ...] = ()
    """The keys of the extensions that are registered with it."""
    statistics_level: int = 1
    """The level of all intervals that it keeps performance counters in."""
    key_providers: tuple[KeyProvider, ...] = ()
    direct_path: tuple[DirectPathProfile, ...] = ()
    storage_policies: tuple[StoragePolicy, ...] = ()
    customization_specs: dict[str, Any] = field(default_factory=dict)
    """Its customization specifications (vim `CustomizationSpecItem`), by name."""
    leaving: dict[str, float] = field(default_factory=dict)
    """Hosts that will reboot, and when they are gone (moid → seconds of the lab's clock)."""
    booting: dict[str, float] = field(default_factory=dict)
    """Hosts that come up, and when."""
    waking: dict[str, float] = field(default_factory=dict)
    """VMs in whose guests something happens next, and when."""
    internet: InternetPart = field(default_factory=InternetPart)
    alarms: list[str] = field(default_factory=list)
    roles: dict[int, Role] = field(default_factory=dict)
    """Custom roles, by their ids."""
    permissions: list[Permission] = field(default_factory=list)
    restarts: int = 0
    """How often vCenter itself was restarted."""
    away_until: float = 0.0
    """When vCenter answers again after the last restart (seconds of the lab's clock)."""
    starting_until: float = 0.0
    """When vCenter is up again behind its web front."""
    lies: frozenset[str] = frozenset()
    """The beliefs that are false here, by their IDs."""

    def denies(self, belief: str) -> bool:
        """Whether a belief is false here; `estates.lies` describes how the lab behaves then."""
        return belief in self.lies

    def new_moid(self, prefix: str) -> str:
        """Return a moid that was never used: `vm-7` for `vm`, `group-v8` for `group-v`."""
        self.last_number += 1
        return f"{prefix}{'' if '-' in prefix else '-'}{self.last_number}"

    def add(self, thing: ManagedT) -> ManagedT:
        """Take an object in, and count that as a change of it."""
        self.objects[thing.moid] = thing
        self.touch(thing)
        return thing

    def remove(self, thing: Managed) -> None:
        """Forget an object and the alarms on it; clients that refer to it get ManagedObjectNotFound."""
        for alarm in [self.get(moid, Alarm) for moid in self.alarms]:
            alarm.triggered.pop(thing.moid, None)
            if alarm.parent == thing.moid:
                self.alarms.remove(alarm.moid)
                self.remove(alarm)
        del self.objects[thing.moid]
        self.revision += 1
        self.removed[thing.moid] = self.revision

    def touch(self, *things: Managed) -> None:
        """Note that objects changed. All of one call share one revision."""
        self.revision += 1
        for thing in things:
            thing.revision = self.revision

    def count_as_unchanged(self) -> None:
        """Let everything that is there be as the estate made it."""
        self.revision = 0
        for thing in self.objects.values():
            thing.revision = 0

    def get(self, moid: str | None, kind: type[ManagedT]) -> ManagedT:
        """Return an object of a kind; KeyError where there is none, a bug where it is another kind."""
        found = self.objects[moid or ""]
        if not isinstance(found, kind):
            raise TypeError(f"{moid} is a {type(found).__name__}, not a {kind.__name__}")
        return found

    def find(self, moid: str | None, kind: type[ManagedT]) -> ManagedT | None:
        """Return an object of a kind, None where there is none."""
        found = self.objects.get(moid or "")
        return found if isinstance(found, kind) else None

    def all(self, kind: type[ManagedT]) -> list[ManagedT]:
        """Return all objects of a kind, oldest first."""
        return [thing for thing in self.objects.values() if isinstance(thing, kind)]

    @property
    def default_key_provider(self) -> KeyProvider | None:
        """The default key provider."""
        return next((provider for provider in self.key_providers if provider.is_default), None)

    def datacenter_of(self, thing: Managed) -> Datacenter | None:
        """Return the datacenter above an object."""
        at: Managed | None = thing
        while at is not None and not isinstance(at, Datacenter):
            at = self.objects.get(at.parent or "")
        return at

    def cluster_of(self, host: Host) -> Cluster:
        """Return the cluster (or standalone compute resource) of a host."""
        return self.get(host.parent, Cluster)


def type_on_wire(thing: Managed) -> str:
    """Return the wsdl type of an object, which for some depends on more than its class."""
    match thing:
        case Network() if thing.is_distributed:
            return "DistributedVirtualPortgroup"
        case Cluster() if thing.is_standalone:
            return "ComputeResource"
        case _:
            return thing.wsdl_type


def below(state: LabState, container: Managed, *, recursive: bool) -> Iterator[Managed]:
    """Yield what lies in a container, depth first, each object once."""
    seen: set[str] = {container.moid}
    stack = list(reversed(children_of(container)))
    while stack:
        moid = stack.pop()
        thing = state.objects.get(moid)
        if thing is None or moid in seen:
            continue
        seen.add(moid)
        yield thing
        if recursive:
            stack.extend(reversed(children_of(thing)))


def children_of(thing: Managed) -> list[str]:
    """Return the moids of what an object contains, as the inventory tree has it."""
    match thing:
        case Folder():
            return list(thing.children)
        case Datacenter():
            return [thing.vm_folder, thing.host_folder, thing.datastore_folder, thing.network_folder]
        case Cluster():
            return [*thing.hosts, thing.resource_pool]
        case ResourcePool():
            return [*thing.pools, *thing.vms]
        case Host():
            return list(thing.vms)
        case _:
            return []


def take_snapshot(
    state: LabState,
    vm: VirtualMachine,
    name: str,
    at: float,
    description: str = "",
    *,
    with_memory: bool = False,
) -> Snapshot:
    """Add a snapshot, which the VM then follows; the content of disks is not kept."""
    made = Snapshot(
        moid=state.new_moid("snapshot"),
        name=name,
        parent=vm.moid,
        number=1 + max((state.get(moid, Snapshot).number for moid in vm.snapshots), default=0),
        created=at,
        description=description,
        previous=vm.current_snapshot,
        kept={name: copy.copy(getattr(vm, name)) for name in KEPT_BY_SNAPSHOTS}
        | {"made_devices": dict(vm.devices)},
        was_on=with_memory and vm.is_on,
    )
    state.add(made)
    vm.snapshots.append(made.moid)
    vm.current_snapshot = made.moid
    return made
