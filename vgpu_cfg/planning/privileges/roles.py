"""The roles for the needs, and their objects: exactly that, and no more.

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
from typing import TypeVar

from vgpu_cfg.changes.privileges import READ_ONLY, Need, Needed, Place
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.privileges.of_commands import Command


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
