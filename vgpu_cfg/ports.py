"""The ports of this project: the interfaces of planning and execution to the outside, as Protocols.

Each has more than one implementation: a Transport is HTTPS, the lab in process,
a recorder, a player or a fault injector; a reader and a writer use any of
them. Read-only commands get no writer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Literal, Protocol

from vgpu_cfg.changes.change import (
    ChangeNetwork,
    CreateVm,
    RemoveRule,
    RemoveVmGroup,
    SetClusterOption,
    SetHostRule,
    SetImage,
    SetRule,
    SetVCenterOption,
)
from vgpu_cfg.changes.kinds.change_host import HostWrite
from vgpu_cfg.changes.kinds.move_vm import Destination
from vgpu_cfg.changes.kinds.restart_host import BmcRef
from vgpu_cfg.changes.kinds.vm_spec import VmSpec
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.guests.guest import GuestBundle, GuestSpec
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.locks import Freeze, LockHolder, LockName, Locks
from vgpu_cfg.model.observed.cordon import MaintenanceEntry
from vgpu_cfg.model.observed.drs import ClusterTies
from vgpu_cfg.model.observed.gpu_use import UseReading
from vgpu_cfg.model.observed.host_facts import DepotLook, EstateFacts, FactGroup, HostAttribute, ShellFacts
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.observed.own_items import CustomizationSeen, HostAlarm, SeenLicence
from vgpu_cfg.model.observed.past import Past, PastScope
from vgpu_cfg.model.observed.vm import SettingValue, Vm
from vgpu_cfg.model.plan_file import AccessEntry, LoginEntry
from vgpu_cfg.model.reservations import Reservation

ImageAction = tuple[Literal["validate", "commit", "check", "apply"], str]
"""An action, and the draft that it is about, "" for the image itself."""


class Transport(Protocol):
    """The wire: one request, one answer, as bytes."""

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request and return (status, headers, body).

        `path` may be a complete https URL if the server itself specified another host for it.
        Raises `Unreachable` or `CertificateRejected` where no answer came, `NotSent` where the server has
        seen nothing of the request.
        """
        ...

    def close(self) -> None:
        """Let go of connections and files."""
        ...


class HostScope(Frozen):
    """Some hosts: those of a cluster (name, glob or path, None for all clusters) whose names match a glob.

    Without globs all of the cluster's.
    """

    cluster: str | None = None
    names: tuple[str, ...] = ()


class ReadScope(Frozen):
    """The scope of a reading. VMs on hosts with GPUs are always read in detail."""

    plan: PlanIdentity | None = None
    """The plan whose VMs are read in detail wherever they are."""
    datacenter: str | None = None
    vm_names: frozenset[str] = frozenset()
    """VMs that are read in detail, too; `template_names` likewise."""
    template_names: frozenset[str] = frozenset()
    extra_config_keys: frozenset[str] = frozenset()
    """extraConfig keys to read from each VM in addition to vgpu-cfg's own."""
    hosts: tuple[HostScope, ...] = ()
    """Hosts whose VMs are read in detail, too."""
    everything: bool = False
    """Read all VMs in detail."""
    system_ids: bool = False
    """Ask hosts with a function in passthrough for their system ids: fixed passthrough needs them."""
    key_providers: bool = False
    """Ask for vCenter's key providers, which a virtual TPM needs: one call."""
    storage_policies: frozenset[str] = frozenset()
    """Policies whose datastores are asked for; with any, those of the VMs in `vm_names` are read."""
    vm_globs: tuple[str, ...] = ()
    """VMs whose names, or with `folder_globs` whose folders, match are read in detail, too."""
    folder_globs: tuple[str, ...] = ()
    option_names: bool = False
    """Keep of such VMs what other extraConfig pairs are called."""
    tag_categories: frozenset[str] = frozenset()
    """Categories of the tags that are read, with the VMs that have them; none asks nothing of REST."""
    library_items: frozenset[tuple[str, str]] = frozenset()
    """Items (library, name) whose templates are read in detail; none asks nothing of REST."""
    for_planning: bool = True
    """Ask what only placing VMs needs, as the newest hardware version: two calls per ESXi build."""
    several_vgpus: bool = True
    """With that, ask how many vGPUs a VM may have; else it may have one."""
    kinds_of: frozenset[str] | None = None
    """Prefixes of profiles: kinds of hosts without them are asked only if their GPUs hold something."""
    kinds: bool = True
    """Ask kinds of hosts for profiles and device groups now; else `read_kinds` does so later."""
    counters: bool = False
    """Read vCenter's performance counters."""
    locks: bool = False
    """Read what runs have locked and plans have reserved: one call."""
    timed: bool = True
    """Ask for vCenter's time; else only if anything is reserved."""
    customization_specs: frozenset[str] = frozenset()
    """Specifications that are read."""
    roles: bool = False
    """Keep which roles the account has on each object: known privileges are not asked for."""


class InventoryReader(Protocol):
    """Reads a vCenter in bulk; cannot write. Every method raises `VCenterError`."""

    def read_inventory(self, scope: ReadScope) -> Inventory:
        """Read hosts, GPUs, VMs and the objects that VMs can be placed on."""
        ...

    def read_kinds(self) -> tuple[Host, ...]:
        """Return the hosts from the last reading, with the facts of their kinds and builds, by its scope."""
        ...

    def read_part(self, scope: ReadScope, vm_moids: Iterable[str]) -> Inventory:
        """Read some VMs and their hosts again, as `read_inventory` does; the rest is as it was read last.

        All objects are read if the same scope was not read before, or if those of the VMs are unclear.
        """
        ...

    def read_vms(
        self, moids: Iterable[str], extra_config_keys: frozenset[str] = frozenset()
    ) -> tuple[Vm, ...]:
        """Reread some VMs in detail, in one round trip; deleted VMs are omitted."""
        ...

    def read_vms_on(self, host_moid: str) -> tuple[Vm, ...]:
        """Read the VMs that are on a host now, in detail, in one round trip; none where it has gone."""
        ...

    def read_gpu_holders(self, host_moids: Iterable[str]) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """Return per host, per GPU address, the moids of the VMs that hold it now."""
        ...

    def read_vms_and_holders(
        self, moids: Iterable[str], host_moids: Iterable[str], extra_config_keys: frozenset[str] = frozenset()
    ) -> tuple[tuple[Vm, ...], Mapping[str, Mapping[str, tuple[str, ...]]]]:
        """Do what `read_vms` and `read_gpu_holders` do, in one round trip for both."""
        ...

    def read_facts(self, host_moids: Sequence[str], groups: frozenset[FactGroup]) -> EstateFacts:
        """Read what preparing these hosts needs, of them and their clusters; never their shells.

        Facts that a host does not report are listed in its `unread`; only a lost connection raises an error.
        """
        ...

    def read_host(self, moid: str, groups: frozenset[FactGroup]) -> tuple[Host | None, EstateFacts]:
        """Read one host as `read_hosts` and `read_facts` do, but for vCenter's options, in one reading."""
        ...

    def read_hosts(self, moids: Iterable[str]) -> tuple[Host, ...]:
        """Reread some hosts, in one or two round trips; removed hosts are omitted.

        A host that does not answer is returned with what vCenter still knows of it.
        """
        ...

    def read_ties(self, cluster_moid: str) -> ClusterTies:
        """Read the rules and VM groups of a cluster again, in one round trip; none where it has gone."""
        ...

    def read_portgroups(self, switch_moid: str) -> Mapping[str, str]:
        """Read the portgroups of a distributed switch, moids by name, in one round trip."""
        ...

    def read_past(self, scope: PastScope) -> Past:
        """Read vCenter's events about some VMs, hosts and clusters, in few round trips.

        `unread` lists events that it does not keep or that the account cannot read.
        """
        ...

    def read_maintenance(self, host_moids: Sequence[str]) -> Mapping[str, MaintenanceEntry]:
        """Return the user and run that put hosts into maintenance mode, according to vCenter's events."""
        ...

    def read_depots(self, wanted: Mapping[str, Sequence[str]]) -> Mapping[str, Mapping[str, DepotLook]]:
        """Return each host's contents of its depots, by moid; nothing is changed."""
        ...

    def read_gpu_use(self, hosts: Sequence[Host], days: float | None = None) -> UseReading:
        """Read how the GPUs of hosts are used now and, with `days`, were used.

        The answer lists values that cannot be measured; only a lost connection raises an error.
        """
        ...

    def read_licences(self) -> Mapping[str, tuple[SeenLicence, ...]] | None:
        """Return the names of vCenter's licenses by host; None if they are not reported."""
        ...

    def read_alarms(self, host_moids: Sequence[str]) -> Mapping[str, tuple[HostAlarm, ...]]:
        """Return the triggered alarms of hosts by moid; a host whose alarms are unreadable is omitted."""
        ...

    def read_locks(self) -> Locks | None:
        """Read the locks of runs, of whatever plans; None where that is not known."""
        ...

    def read_attached_tags(self, vm_moids: Sequence[str]) -> Mapping[str, frozenset[str]]:
        """Return the ids of the tags that VMs have, of whatever category, in one round trip."""
        ...

    def read_customization(self, vm_moid: str) -> CustomizationSeen:
        """Return how far the customisation of a VM's guest is, in one round trip."""
        ...

    def read_missing_privileges(self, needed: Mapping[str, Sequence[str]]) -> Mapping[str, tuple[str, ...]]:
        """Return, per entity moid, those of the needed privileges that the account lacks."""
        ...

    def read_defined_attributes(self) -> frozenset[tuple[str, str]]:
        """Return the custom attributes that are defined, each with a type of objects that can have it."""
        ...


class RunLog(Protocol):
    """Records runs in vCenter itself."""

    def name_calls(self, name: str) -> None:
        """Give the calls that follow a name, by which vCenter's own log can be searched."""
        ...

    def write(self, text: str, datacenter_moid: str | None = None) -> None:
        """Leave an event at a datacenter, or at the root folder. Raises `VCenterError`."""
        ...

    def has_run(self, start: str) -> bool:
        """Whether vCenter's events list a run whose id begins so. Raises `VCenterError`."""
        ...


class LockKeeper(Protocol):
    """Stores the locks of runs: each can exist only once. Every method raises `VCenterError`.

    `beat_seconds` is the period of a run's heartbeat.
    """

    beat_seconds: float

    @property
    def server(self) -> str:
        """How the vCenter is addressed."""
        ...

    @property
    def place(self) -> str:
        """The folder of the locks, in words."""
        ...

    def read(self) -> Locks:
        """Read all locks, of whatever runs."""
        ...

    def missing_privileges(self, *, to_remove: bool = False) -> tuple[str, ...]:
        """Return the privileges that the account lacks to create locks, or to remove some."""
        ...

    def make(self, name: LockName, holder: LockHolder) -> str | None:
        """Make a lock and return its moid; None where one of that name exists. Raises `NotPermitted`."""
        ...

    def freeze(self, freeze: Freeze) -> bool:
        """Keep a freeze; False where one exists. Raises `NotPermitted`."""
        ...

    def beat(self, moid: str, name: LockName, holder: LockHolder, beats: int) -> bool:
        """Say that the run goes on, for the so-manieth time; False where the lock has gone."""
        ...

    def remove(self, moid: str) -> None:
        """Remove a lock, if it is there. Raises `NotPermitted`."""
        ...

    def running_tasks(self, account: str) -> tuple[str, ...]:
        """Name the tasks that an account has begun, and that go on."""
        ...


class TaskState(StrEnum):
    """vim `TaskInfoState`."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCESS = "success"
    ERROR = "error"

    @property
    def is_over(self) -> bool:
        """Whether the task has ended."""
        return self in (TaskState.SUCCESS, TaskState.ERROR)


class TaskUpdate(Frozen):
    """The result of a task. `error` is vCenter's own text, `fault` the name of its type.

    `taken_by` is the moid of the object that already has the requested name, if the fault contains it.
    """

    task: str
    state: TaskState
    progress: int | None = None
    result_moid: str | None = None
    fault: str = ""
    error: str = ""
    taken_by: str = ""


class ChangeWriter(Protocol):
    """Starts vCenter tasks; each method returns the task's moid at once.

    Every method raises `VCenterError` where vCenter refuses the call itself.
    """

    def create_vm(self, change: CreateVm, instance_uuid: str | None = None) -> str:
        """Clone or create, with an instance UUID where one is given; the task's result is the new VM."""
        ...

    def upgrade_vm(self, moid: str, hardware_version: int) -> str:
        """Raise the hardware version."""
        ...

    def reconfigure_vm(self, moid: str, spec: VmSpec) -> str:
        """Reconfigure with one ConfigSpec."""
        ...

    def power_on_vm(self, moid: str, host_moid: str | None = None) -> str:
        """Power on; on a specific host, if one is given and the cluster accepts it."""
        ...

    def power_off_vm(self, moid: str) -> str:
        """Power off, hard."""
        ...

    def shut_down_guest(self, moid: str) -> bool:
        """Ask the guest to shut down; False where its tools do not run. Starts no task."""
        ...

    def destroy_vm(self, moid: str) -> str:
        """Delete with all disks."""
        ...

    def rename_vm(self, moid: str, name: str) -> str:
        """Give a VM another name; its files keep theirs."""
        ...

    def move_vm_to_folder(self, moid: str, folder_moid: str) -> str:
        """Move a VM to another folder of its datacenter."""
        ...

    def relocate_vm(self, moid: str, destination: Destination) -> str:
        """Move a VM to another host, pool or datastore; one that runs moves as it runs."""
        ...

    def set_rule(self, change: SetRule, vm_moids: Sequence[str]) -> str:
        """Create or edit an anti-affinity rule."""
        ...

    def set_host_rule(self, change: SetHostRule, vm_moids: Sequence[str]) -> str:
        """Create or edit a VM group, and the rule from it to a host group."""
        ...

    def set_overrides(self, cluster_moid: str, overrides: Mapping[str, Mapping[str, SettingValue]]) -> str:
        """Set a cluster's overrides for individual VMs: by moid, values by key of the VMs' table."""
        ...

    def set_attributes(self, moid: str, values: Mapping[str, str]) -> None:
        """Set custom attributes of a VM; those that are not defined are, first. Starts no task."""
        ...

    def set_tags(self, moid: str, detach: Sequence[str], attach: Sequence[str]) -> None:
        """Take tags from a VM, then give it others, by their ids. Starts no task."""
        ...

    def set_host_attributes(self, host_moid: str, values: Mapping[str, str]) -> None:
        """Set custom attributes of a host, or clear them with an empty text. Starts no task."""
        ...

    def set_reservation(self, reservation: Reservation | None, alarm: str) -> bool:
        """Create, change or remove a reservation; `alarm` is the existing one. False if it has changed."""
        ...

    def remove_rule(self, change: RemoveRule) -> str:
        """Remove a rule."""
        ...

    def remove_vm_group(self, change: RemoveVmGroup) -> str:
        """Remove a VM group."""
        ...

    def wait_for_tasks(self, tasks: Sequence[str], timeout_seconds: float) -> tuple[TaskUpdate, ...]:
        """Wait for news of any of the tasks, in one WaitForUpdatesEx.

        A task is reported as often as its state changes; an ended one may be asked for again. When time ran
        out those are reported that have come further, in one call for all of them.
        """
        ...


class HostWriter(Protocol):
    """Changes hosts, clusters, networks and vCenter itself. Methods that return a text started that task.

    Every method raises `VCenterError` where vCenter refuses the call, and `NotOffered` where
    the server or the host lacks the method, so that another way can be taken.
    """

    def set_host_attribute(self, host_moid: str, attribute: HostAttribute, text: str | None) -> None:
        """Keep a text on the host as a custom attribute, or clear it; the attribute is made if need be."""
        ...

    def remember(self, host_moid: str, texts: Mapping[str, str]) -> None:
        """Store values from a host's shell as custom attributes by name; an empty text clears one."""
        ...

    def raise_alarm(self, host_moid: str, plan: str, reason: str) -> None:
        """Make this plan's own alarm on the host, which warns while the host is in maintenance mode."""
        ...

    def clear_alarm(self, host_moid: str, plan: str) -> None:
        """Remove this plan's alarm from the host, if it is there."""
        ...

    def enter_maintenance(self, host_moid: str, vsan: str | None, timeout_seconds: int) -> str:
        """Enter maintenance mode; DRS moves running VMs, powered-off ones stay."""
        ...

    def exit_maintenance(self, host_moid: str, timeout_seconds: int) -> str:
        """Leave maintenance mode."""
        ...

    def reboot_host(self, host_moid: str) -> str:
        """Reboot a host in maintenance mode; the task ends before the host is back."""
        ...

    def shut_down_host(self, host_moid: str) -> str:
        """Shut a host in maintenance mode down."""
        ...

    def write_host(self, host_moid: str, write: HostWrite, secrets: Mapping[str, str]) -> str | None:
        """Carry out a write that goes through vCenter; a task's moid where it starts one.

        A `ShellWrite` is none of these: ValueError.
        """
        ...

    def control_service(
        self, host_moid: str, service: str, action: Literal["start", "stop", "restart"]
    ) -> None:
        """Start, stop or restart a service of the host."""
        ...

    def set_cluster_option(self, change: SetClusterOption) -> str:
        """Set or remove one option of a cluster's DRS, keeping the others."""
        ...

    def set_vcenter_option(self, change: SetVCenterOption) -> None:
        """Set one advanced setting of vCenter."""
        ...

    def draft_image(self, change: SetImage) -> str:
        """Make a draft of a cluster's image with the change's components, and return its id.

        A draft that an interrupted run left is replaced; another one of the account is kept: StalePlan.
        """
        ...

    def drop_draft(self, cluster_moid: str, draft: str) -> None:
        """Delete a draft."""
        ...

    def begin_image_task(self, cluster_moid: str, action: ImageAction, body: Mapping[str, object]) -> str:
        """Begin a task of Lifecycle Manager, which `read_image_task` follows, and return its id."""
        ...

    def read_image_task(self, task: str) -> TaskUpdate:
        """Return what became of a task; one that has ended with errors in its result has failed."""
        ...

    def running_image_tasks(self, cluster_moid: str) -> tuple[str, ...]:
        """Return Lifecycle Manager's running tasks of a cluster, of all accounts."""
        ...

    def change_network(self, change: ChangeNetwork) -> str:
        """Make or change a distributed switch or portgroup."""
        ...


class ShellResult(Frozen):
    """The result of a command in a host's shell: its exit status and output."""

    status: int
    stdout: str = ""
    stderr: str = ""


class HostShell(Protocol):
    """One host's shell. Arguments are data: the shell does not interpret them.

    Every method raises `HostShellError`.
    """

    def run(self, arguments: Sequence[str], *, timeout_seconds: float = 60.0) -> ShellResult:
        """Run one command and wait for it; a status other than 0 is returned, not raised."""
        ...

    def read_facts(self, groups: frozenset[FactGroup], nic_pci_ids: Sequence[str]) -> ShellFacts:
        """Query nvidia-smi and mlxconfig; `unread` lists values that a tool does not report."""
        ...

    def close(self) -> None:
        """Log out."""
        ...


class HostShells(Protocol):
    """Logs in to hosts."""

    def connect(self, host_name: str, access: AccessEntry) -> HostShell:
        """Log in, as the plan file says. Raises `HostShellError` where that fails."""
        ...


class ServerPower(Protocol):
    """The power of one server, as its management controller has it. Raises `BmcError`, `Unreachable`."""

    def is_off(self) -> bool:
        """Whether the server is off: not on its way down, nor on its way up."""
        ...

    def switch_on(self) -> None:
        """Switch it on; it returns before the server has booted."""
        ...


class ServerPowers(Protocol):
    """Speaks to servers' management controllers."""

    def connect(self, bmc: BmcRef) -> ServerPower:
        """Find the server that a BMC manages. Raises `BmcError`, `Unreachable`, `CertificateRejected`."""
        ...


class GuestTarget(Frozen):
    """A VM whose guest is to be reached: by vCenter (`moid`), or by ssh at one of `addresses`, best first.

    `name` is the plan's name of the VM. `host_key` is the one by which its guest is known, as
    `model.guests.host_keys` says it. `prefers_ssh`: try SSH first if a login allows both.
    """

    name: str
    moid: str
    addresses: tuple[str, ...] = ()
    host_key: str = ""
    prefers_ssh: bool = False


class GuestShell(Protocol):
    """A way into one guest, with root's rights. Arguments are data, as of `HostShell`.

    Every method raises `GuestError`, of which `GuestNotReady` may pass; no message holds a secret.
    """

    def run(
        self, arguments: Sequence[str], *, timeout_seconds: float = 60.0, stdin: bytes = b""
    ) -> ShellResult:
        """Run one command and wait for it; a status other than 0 is returned, not raised."""
        ...

    def start(self, arguments: Sequence[str]) -> None:
        """Start one command that continues after disconnection; its output is discarded."""
        ...

    def write_file(self, path: str, content: bytes, mode: int) -> None:
        """Write a file of root's, with these permissions from its first byte on; folders are made."""
        ...

    def read_file(self, path: str) -> bytes | None:
        """Return a file's content, None where there is none."""
        ...

    def close(self) -> None:
        """Log out."""
        ...


class GuestShells(Protocol):
    """Logs in to guests."""

    def connect(self, target: GuestTarget, login: LoginEntry) -> GuestShell:
        """Log in, by guest operations where the login has a password, else by ssh.

        If the first method fails, the other is tried if the login allows it. Raises `GuestError`.
        """
        ...


class GuestStager(Protocol):
    """Converts a guest's specification into its files. Raises `GuestError` if it cannot be delivered."""

    def seed(self, spec: GuestSpec) -> Mapping[str, str]:
        """Return the extraConfig for a clone whose cloud-init stages the modules that the spec permits."""
        ...

    def bundle(
        self, spec: GuestSpec, modules: Sequence[str], run: str, host_keys: Mapping[str, str]
    ) -> GuestBundle:
        """Return what stages the named modules of a guest that runs; `run` names the attempt.

        `host_keys` says by which host key each VM's guest is known.
        """
        ...

    def mark(self, spec: GuestSpec, modules: Sequence[str], before: str, host_keys: Mapping[str, str]) -> str:
        """Return the mark after these modules were staged, `before` being the one until now."""
        ...

    def former_host_key(self, vm: str, mark: str) -> str:
        """Return the public host key that was derived for a VM from keys before those of now.

        The mark identifies it: "" if its guest has no such keys.
        """
        ...


class MakeId(Protocol):
    """Generates new unique IDs: of plans, and the instance UUIDs of VMs."""

    def __call__(self) -> str:
        """Return a UUID, in small letters."""
        ...


class Clock(Protocol):
    """The clock; planning does not use it."""

    def now(self) -> datetime:
        """Return the time, with its zone."""
        ...


class RunClock(Clock, Protocol):
    """A clock that can also let time pass; a simulated one jumps."""

    def pause(self, seconds: float) -> None:
        """Return after so many seconds."""
        ...
