"""The privileges an account needs at vCenter for a plan, by command, and the roles that give exactly these.

The needs come from the plan's changes and the command, or, for any vCenter, from the plan file alone: more
than any run has.

vCenter gives an account one role per object, and a role on an object replaces those inherited from above
(vSphere Security 8.0, "Hierarchical Inheritance of Permissions"). So each object's role has all that is
needed there, with Read-only's privileges, and objects that need the same share a role. The folders right
below a datacenter and the resource pool that every cluster has accept no permission of their own (PowerCLI
reference, New-VIPermission): their needs are given on the datacenter, on the cluster.

Belief: roles-replace-inherited, no-permission-on-own-folders.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar, assert_never

from vgpu_cfg.changes import privileges as table
from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import CreateVm
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.privileges import READ_ONLY, Need, Needed, Place
from vgpu_cfg.model.desired import DesiredPlan, TemplateSource
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.cordon import CORDON_ATTRIBUTE, HOME_ATTRIBUTE
from vgpu_cfg.model.observed.host_facts import HostAttribute
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.vms.settings.table import rows_of


class Command(StrEnum):
    """A command, or several that need the same."""

    READ = "read"
    APPLY = "apply"
    VERIFY = "verify"
    DESTROY = "destroy"
    IMPORT = "import"
    FORGET = "forget"
    CORDON = "cordon"
    DRAIN = "drain"
    UNCORDON = "uncordon"

    @property
    def reads_host_facts(self) -> bool:
        """Whether it reads facts of the hosts that the plan prepares; destroying concerns VMs."""
        return self is not Command.DESTROY


@dataclass(frozen=True, slots=True)
class Asked:
    """The purpose of the question: present changes of commands, first of all `apply` by `plan`.

    `hosts` are the moids of those that the plan prepares, `shells` of those whose shell is opened to be read.
    """

    plan: Plan
    others: Mapping[Command, Plan]
    observed: Inventory
    hosts: tuple[str, ...]
    shells: tuple[str, ...]


_OF_CLONES = frozenset({table.CLONE_TEMPLATE, table.CLONE_VM, table.CREATE_FROM_EXISTING, table.NEW_TPM})
_OF_SCRATCH = frozenset({table.CREATE, table.FIRST_TPM})
_OF_TPMS = frozenset({table.NEW_TPM, table.FIRST_TPM})
_OF_SWITCHES = frozenset(
    {table.MAKE_SWITCH, table.EDIT_SWITCH, table.SWITCH_MEMBERS, table.MAKE_PORTGROUP, table.EDIT_PORTGROUP}
)
_OF_IMAGES = frozenset({table.EDIT_IMAGE, table.REMEDIATE})
_OF_ATTRIBUTES = frozenset({table.SET_ATTRIBUTES, table.DEFINE_ATTRIBUTES})


def needs_of(command: Command, asked: Asked) -> tuple[Needed, ...]:
    """Return a command's needs, each need once per object; reading is part of every command."""
    return tuple(dict.fromkeys((*_reading(command, asked), *_of(command, asked), *_for_dead(command, asked))))


def needs_of_run(plan: Plan, observed: Inventory) -> tuple[Needed, ...]:
    """Return the needs of carrying a plan out: its changes, and those of the run itself."""
    logged_at = observed.datacenter_moid(plan.target.datacenter) or observed.vcenter.root_folder_moid
    return (*needs_of_changes(plan, observed), *_of_run(logged_at, observed))


def _of_run(logged_at: str, observed: Inventory) -> Iterator[Needed]:
    """Yield the needs of locking the objects, and of recording the run in vCenter's events."""
    yield _lock(observed)
    yield Needed(table.LOG_EVENT, logged_at)


def _for_dead(command: Command, asked: Asked) -> Iterator[Needed]:
    """Yield the needs of a run that finds the lock of a dead one; it is not checked for them before."""
    if command not in (Command.READ, Command.VERIFY):
        yield Needed(table.LOG_FOR_DEAD, asked.observed.vcenter.root_folder_moid)


def needs_of_shells(hosts: Iterable[str], observed: Inventory) -> Iterator[Needed]:
    """Yield the needs of locking hosts, by their moids, and of opening their shells for a while."""
    yield _lock(observed)
    for moid in hosts:
        yield Needed(table.OPEN_SHELL, moid)
        yield _definition(observed, "HostSystem", HostAttribute.MARK)


def _of(command: Command, asked: Asked) -> Iterator[Needed]:
    match command:
        case Command.READ:
            return
        case Command.APPLY:
            yield from needs_of_run(asked.plan, asked.observed)
            yield from needs_of_shells(asked.shells, asked.observed)
        case Command.VERIFY:
            yield from _verification(asked)
        case Command.DESTROY:
            yield from needs_of_run(asked.others[command], asked.observed)
            yield from _end_of_new(asked)
        case Command.IMPORT | Command.FORGET:
            yield from needs_of_run(asked.others[command], asked.observed)
        case Command.CORDON | Command.DRAIN | Command.UNCORDON:
            yield from _upkeep(command, asked)
            yield from _of_run(asked.observed.vcenter.root_folder_moid, asked.observed)
        case _:
            assert_never(command)


def _reading(command: Command, asked: Asked) -> Iterator[Needed]:
    root = asked.observed.vcenter.root_folder_moid
    yield Needed(table.READING, root)
    for moid in asked.hosts if command.reads_host_facts else ():
        yield Needed(table.READ_MODULES, moid)
        yield Needed(table.READ_PACKAGES, moid)
    if _edits_images(asked.plan.desired) and command.reads_host_facts:
        yield Needed(table.READ_IMAGE, root)
    if any(vm.vtpm for vm in asked.plan.desired.vms):
        yield Needed(table.READ_KEY_PROVIDERS, root)
    if any(vm.storage_policies for vm in asked.plan.desired.vms):
        yield Needed(table.READ_STORAGE_POLICIES, root)
    if any(vm.guest is not None and vm.guest.spec for vm in asked.plan.desired.vms):
        yield Needed(table.READ_CUSTOMIZATION_SPECS, root)
    for moid in _datastores(asked):
        yield Needed(table.READ_LOG, moid)


def _datastores(asked: Asked) -> Iterator[str]:
    for change in of_kind(asked.plan.changes, CreateVm):
        yield change.location.datastore_moid
    for vm in asked.observed.vms:
        if vm.is_of(asked.plan.desired.identity) and vm.detail is not None:
            yield from vm.detail.datastore_moids


def _verification(asked: Asked) -> Iterator[Needed]:
    by_password = {
        vm.name for vm in asked.plan.desired.vms if vm.guest is not None and vm.guest.login.password
    }
    for name, moid in _vms(asked).items():
        if name in by_password:
            yield Needed(table.RUN_IN_GUESTS, moid)
            yield Needed(table.PUT_INTO_GUESTS, moid)


def _vms(asked: Asked) -> dict[str, str]:
    """Return the plan's VMs by name: each one's moid, or that of the folder that it will be made in."""
    plan = asked.plan.desired
    names = {vm.name for vm in plan.vms}
    found = {vm.name: vm.moid for vm in asked.observed.vms if vm.name in names and vm.is_of(plan.identity)}
    made = of_kind(asked.plan.changes, CreateVm)
    return found | {change.vm.name: change.location.folder_moid for change in made}


def _end_of_new(asked: Asked) -> Iterator[Needed]:
    """Yield the needs of removing again objects that `apply` would make now."""
    for change in of_kind(asked.plan.changes, CreateVm):
        yield Needed(table.POWER_OFF, change.location.folder_moid)
        yield Needed(table.DELETE, change.location.folder_moid)
    for needed in needs_of_changes(asked.plan, asked.observed):
        if needed.need is table.EDIT_CLUSTER:
            yield needed


def _upkeep(command: Command, asked: Asked) -> Iterator[Needed]:
    """Yield what work on the plan's hosts takes: those that it prepares or places VMs on."""
    observed = asked.observed
    hosts = dict.fromkeys([*asked.hosts, *(one.host_moid for one in asked.plan.placements)])
    yield _definition(observed, "HostSystem", CORDON_ATTRIBUTE)
    for host in hosts:
        yield Needed(table.CORDON, host)
    if command is Command.CORDON:
        return
    yield _definition(observed, "VirtualMachine", HOME_ATTRIBUTE)
    own = _vms(asked)
    for host in hosts:
        there = {vm.moid for vm in observed.vms_by_host.get(host, ()) if not vm.is_template}
        there.update(own[one.vm] for one in asked.plan.placements if one.host_moid == host and one.vm in own)
        for moid in sorted(there):
            yield from (Needed(need, moid) for need in _OF_MOVED)


_OF_MOVED: tuple[Need, ...] = (
    table.SET_ATTRIBUTES,
    table.MIGRATE,
    table.MIGRATE_RUNNING,
    table.POWER_OFF,
    table.POWER_ON,
)


def _lock(observed: Inventory) -> Needed:
    return Needed(table.LOCK, observed.vcenter.lock_home_moid)


def _definition(observed: Inventory, kind: str, name: str) -> Needed:
    return Needed(table.DEFINE_ATTRIBUTES, observed.vcenter.root_folder_moid, frozenset({(kind, name)}))


def needs_of_changes(plan: Plan, observed: Inventory) -> tuple[Needed, ...]:
    """Return the needs of the plan's changes, each need once per object.

    For a VM yet to be made the folder it will be in is checked, for a switch yet to be made its datacenter.
    """
    made = (found for change in plan.changes if (found := change.home()) is not None)
    places = Places(observed, {(kind, name): moid for kind, name, moid in made}, rows_of)
    return tuple(dict.fromkeys(needed for change in plan.changes for needed in change.privileges(places)))


def could_need(command: Command, desired: DesiredPlan) -> tuple[Need, ...]:
    """Return the needs that a command could come to with a plan file, reading among them."""
    return tuple(dict.fromkeys((*_of_file_reading(command, desired), *_of_file_of(command, desired))))


def _of_file_of(command: Command, desired: DesiredPlan) -> Iterator[Need]:
    match command:
        case Command.READ:
            return
        case Command.APPLY:
            yield from _of_vms(desired)
            yield from _of_hosts(desired)
            yield from table.OF_RUNS
        case Command.VERIFY:
            if _takes_passwords(desired):
                yield from table.TO_VERIFY
        case Command.DESTROY:
            yield from (*table.TO_DESTROY, *table.OF_RUNS)
        case Command.IMPORT:
            yield from (table.ADVANCED, *table.OF_RUNS)
        case Command.FORGET:
            yield from (table.ADVANCED, table.EDIT_CLUSTER, *table.OF_RUNS)
        case Command.CORDON:
            yield from (table.CORDON, table.DEFINE_ATTRIBUTES, *table.OF_RUNS)
        case Command.DRAIN | Command.UNCORDON:
            yield from (*table.TO_WORK_ON_HOSTS, *table.OF_RUNS)
        case _:
            assert_never(command)


def _of_file_reading(command: Command, desired: DesiredPlan) -> Iterator[Need]:
    yield table.READING
    yield table.READ_LOG
    if desired.hosts and command.reads_host_facts:
        yield from (table.READ_MODULES, table.READ_PACKAGES)
        if _edits_images(desired):
            yield table.READ_IMAGE
    if any(vm.vtpm for vm in desired.vms):
        yield table.READ_KEY_PROVIDERS
    if any(vm.storage_policies for vm in desired.vms):
        yield table.READ_STORAGE_POLICIES
    if any(isinstance(vm.source, TemplateSource) and vm.source.library is not None for vm in desired.vms):
        yield table.READ_LIBRARY
    if any(vm.guest is not None and vm.guest.spec for vm in desired.vms):
        yield table.READ_CUSTOMIZATION_SPECS


def _of_vms(desired: DesiredPlan) -> Iterator[Need]:
    if not desired.vms:
        return
    sources = {vm.source.kind for vm in desired.vms if vm.source is not None}
    applies: Mapping[frozenset[Need], bool] = {
        _OF_CLONES: "template" in sources,
        _OF_SCRATCH: "scratch" in sources,
        _OF_TPMS: any(vm.vtpm for vm in desired.vms),
        frozenset({table.CUSTOMIZE}): any(vm.guest is not None and vm.guest.spec for vm in desired.vms),
        frozenset({table.DISK_POLICY}): any(vm.storage_policies for vm in desired.vms),
        _OF_ATTRIBUTES: any(vm.attributes for vm in desired.vms),
        frozenset({table.SET_TAGS}): any(vm.tags for vm in desired.vms),
        frozenset({table.GUEST_OPERATIONS}): _takes_passwords(desired),
    }
    for need in table.OF_VMS:
        if all(holds for needs, holds in applies.items() if need in needs):
            yield need


def _of_hosts(desired: DesiredPlan) -> Iterator[Need]:
    has_switches = any(network.switch for network in desired.networks)
    for need in table.OF_HOSTS:
        if need in _OF_IMAGES and not _edits_images(desired):
            continue
        if (desired.hosts and need not in _OF_SWITCHES) or (has_switches and need in _OF_SWITCHES):
            yield need
    if has_switches:
        yield table.HOST_NETWORK


def _edits_images(desired: DesiredPlan) -> bool:
    return any(entry.driver is not None and entry.driver.by == "image" for entry in desired.hosts)


def _takes_passwords(desired: DesiredPlan) -> bool:
    return any(vm.guest is not None and vm.guest.login.password for vm in desired.vms)


@dataclass(frozen=True, slots=True)
class Target:
    """An object that a role is given on; `path` is what an admin types, `moid` is "" for a kind of object."""

    place: Place
    moid: str
    path: str
    propagates: bool


@dataclass(frozen=True, slots=True)
class Reason:
    """A privilege of a role: which commands need it for what; `without` is "" where it is required."""

    privilege: str
    commands: tuple[StrEnum, ...]
    uses: tuple[str, ...]
    without: str
    is_recalled: bool


@dataclass(frozen=True, slots=True)
class Role:
    """Privileges under a name, and where they are given; `name` is "" for vCenter's own Read-only."""

    name: str
    reasons: tuple[Reason, ...]
    targets: tuple[Target, ...]

    @property
    def privileges(self) -> tuple[str, ...]:
        """All that the role holds, what Read-only has among it."""
        return tuple(dict.fromkeys((*READ_ONLY, *(reason.privilege for reason in self.reasons))))


_Use = TypeVar("_Use", bound=StrEnum)
Uses = Mapping[Command, Iterable[Needed]]
_Found = tuple[StrEnum, Need]


def make_roles(name: str, uses: Uses, observed: Inventory, plan: PlanIdentity) -> tuple[Role, ...]:
    """Return the roles for what commands need, the root folder's first; their names begin with `name`."""
    found: dict[Target, list[_Found]] = defaultdict(list)
    reaching: set[str] = set()
    for command, needed in uses.items():
        for one in needed:
            moid, reaches_down = given_on(one, observed, plan)
            place, path = describe(moid, observed)
            found[Target(place, moid, path, propagates=False)].append((command, one.need))
            if reaches_down:
                reaching.add(moid)
    given = {replace(target, propagates=target.moid in reaching): rows for target, rows in found.items()}
    return tuple(_roles(name, given))


def make_roles_of_kinds(name: str, uses: Mapping[_Use, Iterable[Need]]) -> tuple[Role, ...]:
    """Return a role for each kind of object, whatever there is of it."""
    found: dict[Place, list[_Found]] = defaultdict(list)
    for command, needs in uses.items():
        for need in needs:
            found[need.place].append((command, need))
    given = {
        Target(
            place,
            "",
            place.value,
            propagates=place is Place.FOLDER or any(need.propagates for _, need in rows),
        ): rows
        for place, rows in found.items()
    }
    return tuple(_roles(name, given))


def _roles(name: str, given: Mapping[Target, Sequence[_Found]]) -> Iterator[Role]:
    """Yield a role for each set of privileges; objects that need the same ones share it."""
    alike: dict[frozenset[str], list[Target]] = defaultdict(list)
    for target, rows in given.items():
        privileges = frozenset(privilege for _, need in rows for privilege in need.privileges)
        alike[privileges - frozenset(READ_ONLY)].append(target)
    taken: dict[str, int] = defaultdict(int)
    for privileges, targets in sorted(alike.items(), key=lambda item: (_order(item[1][0]), sorted(item[0]))):
        targets.sort(key=_order)
        if not privileges:
            yield Role("", (), tuple(targets))
            continue
        kind = targets[0].place.name.lower()
        taken[kind] += 1
        number = f"-{taken[kind]}" if taken[kind] > 1 else ""
        rows = [row for target in targets for row in given[target]]
        reasons = tuple(_reason(privilege, rows) for privilege in sorted(privileges))
        yield Role(f"{name}-{kind}{number}", reasons, tuple(targets))


_PLACES = tuple(Place)


def _order(target: Target) -> tuple[int, str]:
    return _PLACES.index(target.place), target.path


def _reason(privilege: str, rows: Sequence[_Found]) -> Reason:
    naming = [(command, need) for command, need in rows if privilege in need.privileges]
    needs = tuple(dict.fromkeys(need for _, need in naming))
    return Reason(
        privilege,
        tuple(dict.fromkeys(command for command, _ in naming)),
        tuple(need.what for need in needs),
        needs[0].without if all(need.is_optional for need in needs) else "",
        all(privilege in need.recalled for need in needs),
    )


def given_on(needed: Needed, observed: Inventory, plan: PlanIdentity) -> tuple[str, bool]:
    """Return the object that a role is given on for a need, and whether it must propagate.

    Needs of the plan's own VMs are given on their folder: those that are made there next need the same.
    """
    moid, reaches_down = needed.moid, needed.need.propagates
    vm = observed.vm_by_moid.get(moid)
    if vm is not None and vm.is_of(plan) and vm.folder_moid is not None:
        moid = vm.folder_moid
    folder = observed.folder_by_moid.get(moid)
    if folder is not None:
        reaches_down = True
        if folder.is_root:
            moid = next((one.moid for one in observed.datacenters if one.name == folder.datacenter), moid)
    for cluster in observed.clusters:
        if moid == cluster.resource_pool_moid:
            return cluster.moid, True
    return moid, reaches_down


def describe(moid: str, observed: Inventory) -> tuple[Place, str]:
    """Return what kind of object a moid names, and its path."""
    if moid == observed.vcenter.root_folder_moid:
        return Place.ROOT, "/"
    if moid == observed.vcenter.lock_home_moid:
        return Place.FOLDER, observed.vcenter.alarm_folder
    vm = observed.vm_by_moid.get(moid)
    if vm is not None:
        return Place.TEMPLATE if vm.is_template else Place.VM, vm.inventory_path or vm.name
    for place, objects in (
        (Place.HOST, observed.hosts),
        (Place.CLUSTER, observed.clusters),
        (Place.FOLDER, observed.folders),
        (Place.POOL, observed.resource_pools),
        (Place.DATACENTER, observed.datacenters),
        (Place.DATASTORE, observed.datastores),
        (Place.NETWORK, observed.networks),
    ):
        for found in objects:
            if found.moid == moid:
                return place, found.inventory_path or found.name
    for switch in observed.facts.switches:
        if switch.moid == moid:
            return Place.SWITCH, switch.name
    return Place.SWITCH, moid
