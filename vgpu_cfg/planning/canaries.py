"""Canaries of a run: the changes that go first, those that wait for them, and the verdict on the first ones.

A change that the first ones need never waits. Whether they are as planned shows in a reading made since, and
in the changes that would still be made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vgpu_cfg.changes.base import all_needed, of_kind
from vgpu_cfg.changes.change import Change, ChangeHost, ExitMaintenance
from vgpu_cfg.changes.plan import Canary, Plan, StartQueue
from vgpu_cfg.model.observed.inventory import Connection, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.estate.ownership import own_vms


def plan_canaries(
    changes: Sequence[Change], of_hosts: Sequence[Canary], contests: Sequence[StartQueue], vms: int
) -> tuple[Canary, ...]:
    """Return the canaries of a plan: `of_hosts` as far as they are among its changes, and so many VMs."""
    needs = {change.id: (*change.needs, *change.behind) for change in changes}
    of_hosts = [_narrowed(canary, needs) for canary in of_hosts]
    waiting = frozenset(change_id for canary in of_hosts for change_id in canary.held)
    # A VM of a canary may need a change of a host that waits: then it is not waited for.
    of_hosts = [
        canary.model_copy(
            update={"first": tuple(one for one in canary.first if not all_needed([one], needs) & waiting)}
        )
        for canary in of_hosts
    ]
    of_hosts = [canary for canary in of_hosts if canary.first and canary.held]
    of_vms = _Choice(changes, needs, of_hosts, contests).of_vms(vms) if vms else None
    return (*of_hosts, of_vms) if of_vms is not None else tuple(of_hosts)


def _narrowed(canary: Canary, known: Collection[str]) -> Canary:
    """Leave out changes that the plan has not."""
    kept = {name: tuple(one for one in getattr(canary, name) if one in known) for name in ("first", "held")}
    return canary.model_copy(update=kept)


@dataclass(frozen=True, slots=True)
class _Choice:
    """Chooses the VMs that go first. A VM that is only switched off and on for its host is not among them.

    `needs` names the needs of each change, including those added by the order.
    """

    changes: Sequence[Change]
    needs: Mapping[str, Collection[str]]
    of_hosts: Sequence[Canary]
    contests: Sequence[StartQueue]

    def of_vms(self, count: int) -> Canary | None:
        own = self._own_changes()
        changed = [name for name, ones in own.items() if not any(one.deletes for one in ones)]
        names = changed[:count]
        first = self._first(own, names)
        while more := self._drawn_in(own, names, first):
            names += [name for name in changed if name in more]
            first = self._first(own, names)
        free = first | all_needed((one for canary in self.of_hosts for one in canary.first), self.needs)
        held = {
            name: [change.id for change in ones if change.id not in free]
            for name, ones in own.items()
            if name not in names
        }
        others = tuple(name for name, ones in held.items() if ones)
        if not names or not others:
            return None
        return Canary(
            names=tuple(names),
            others=others,
            first=tuple(change.id for change in self.changes if change.id in first),
            held=tuple(one for ones in held.values() for one in ones),
        )

    def _own_changes(self) -> dict[str, list[Change]]:
        """Return the changes to each VM that is new, changed or deleted, in the plan's order."""
        own: dict[str, list[Change]] = {}
        for change in self.changes:
            if change.subject.kind == "vm":
                own.setdefault(change.subject.name, []).append(change)
        for_hosts = {one for canary in self.of_hosts for one in (*canary.first, *canary.held)}
        return {name: ones for name, ones in own.items() if any(one.id not in for_hosts for one in ones)}

    def _first(self, own: dict[str, list[Change]], names: Iterable[str]) -> set[str]:
        return all_needed((change.id for name in names for change in own[name]), self.needs)

    def _drawn_in(
        self, own: dict[str, list[Change]], names: Sequence[str], first: Collection[str]
    ) -> set[str]:
        """Name the VMs that must start before those that go first, or that are in a queue with one."""
        started = {name for name, ones in own.items() if any(one.starts and one.id in first for one in ones)}
        queued = {vm for queue in self.contests if queue.starts.keys() & {*names} for vm in queue.starts}
        return ((started | queued) & own.keys()) - {*names}


def problems_of(canary: Canary, plan: Plan, after: Inventory, left: Plan) -> tuple[str, ...]:
    """Say what of a canary is not as planned; `left` is the plan made for `after`."""
    return tuple(dict.fromkeys(_problems(canary, plan, after, left)))


def upgraded_hosts(canary: Canary, plan: Plan) -> dict[str, str]:
    """Return by moid the names of a canary's hosts whose NVIDIA driver was changed."""
    return {
        change.host.moid: change.host.name
        for change in of_kind(plan.changes, ChangeHost)
        if change.id in canary.first and any(target.setting == "driver" for target in change.settings)
    }


def _problems(canary: Canary, plan: Plan, after: Inventory, left: Plan) -> Iterator[str]:
    done = [change for change in plan.changes if change.id in canary.first]
    held = {one.host.moid for one in of_kind(done, ExitMaintenance) if one.is_held}
    for moid, name in {
        one.host_moid: one.subject.name for one in done if one.subject.kind == "host" and one.host_moid
    }.items():
        yield from _of_host(name, after.host_by_moid.get(moid), is_held=moid in held)
    own = own_vms(plan.desired, after)
    places = {placement.vm: placement.host_moid for placement in plan.placements}
    for vm in (change.starts for change in done):
        if vm is not None:
            found = after.vm_by_moid.get(vm.moid or "") or own.get(vm.name)
            yield from _of_vm(vm.name, found, places.get(vm.name), after)
    for change in left.changes:
        if change.subject.kind in ("host", "vm") and change.subject.name in canary.names:
            yield f"{change.subject.name}: {change.id} would be planned again"
    for error in left.errors:
        if error.subject.name in canary.names:
            yield f"{error.subject.name}: {error.code} {error.message}"


def _of_host(name: str, host: Host | None, *, is_held: bool) -> Iterator[str]:
    if host is None:
        yield f"{name}: no longer in vCenter"
    elif host.connection is not Connection.CONNECTED:
        yield f"{name}: {host.connection.words}"
    elif host.is_in_maintenance_mode and not is_held:
        yield f"{name}: in maintenance mode"


def _of_vm(name: str, vm: Vm | None, planned: str | None, after: Inventory) -> Iterator[str]:
    if vm is None:
        yield f"{name}: no longer in vCenter"
    elif not vm.is_on:
        yield f"{name}: not running"
    elif planned is not None and vm.host_moid != planned:
        names = [
            after.host_by_moid[one].name for one in (vm.host_moid or "", planned) if one in after.host_by_moid
        ]
        yield f"{name}: runs on {', planned for '.join(names)}"
