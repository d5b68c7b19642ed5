"""The plan's VMs on a host that does not respond: where they could start, and the steps.

The plan changes nothing there. No API shows whether such a host is dead, or runs on without vCenter; a VM
that ran on two hosts would ruin its disks, so only vSphere HA or a person starts it elsewhere.

Belief: ha-never-restarts-directpath-io, ha-restarts-vgpu-vms, removed-host-leaves-files,
dead-hosts-vms-register-elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.change import ManualStep
from vgpu_cfg.changes.plan import LostHost, LostVm
from vgpu_cfg.changes.values import HostRef, Subject
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Cluster, Connection, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.planning.estate.down_hosts import step_of_return
from vgpu_cfg.planning.estate.ownership import assess_ownership
from vgpu_cfg.planning.estate.protection import Protection
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.placement.candidates import make_query
from vgpu_cfg.planning.vms.lookup.moving import is_restarted_by_ha, why_tied
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm
from vgpu_cfg.planning.vms.lookup.vm_resolver import VmResolver

if TYPE_CHECKING:
    from vgpu_cfg.planning.moves.places import Places


def find_lost(
    desired: DesiredPlan, observed: Inventory, catalog: Catalog, wants_vm: Callable[[str], bool]
) -> tuple[LostHost, ...]:
    """Return a plan's view of those of its VMs that are wanted by name and on hosts that do not respond."""
    resolver = VmResolver(desired, observed, catalog, Findings())
    folders = resolver.folders()
    owned = assess_ownership(desired, observed, folders, Findings())
    return assess_lost(resolver, [vm for vm in resolver.lost_vms(folders, owned) if wants_vm(vm.name)])


def assess_lost(resolver: VmResolver, lost: Sequence[ResolvedVm]) -> tuple[LostHost, ...]:
    """Say of the plan's VMs on hosts that do not respond whether each could start elsewhere now."""
    elsewhere = _elsewhere(resolver, lost)
    by_host: dict[str, list[LostVm]] = {}
    for one in lost:
        if one.host is not None and one.existing is not None:
            vm = _lost_vm(one, one.existing, one.host, resolver, *elsewhere[one.name])
            by_host.setdefault(one.host.moid, []).append(vm)
    hosts = resolver.observed.host_by_moid
    return tuple(
        LostHost(
            host=HostRef(name=hosts[moid].name, moid=moid),
            connection=hosts[moid].connection,
            vms=tuple(there),
        )
        for moid, there in sorted(by_host.items(), key=lambda item: (hosts[item[0]].name, item[0]))
    )


def report_lost(lost: Sequence[LostHost], findings: Findings) -> None:
    """Report each such host with the plan's VMs on it."""
    for one in lost:
        subject = Subject(kind="host", name=one.host.name, moid=one.host.moid)
        message = f"the host {one.connection.words}, and VMs in the plan are on it: {'; '.join(told_of(one))}"
        findings.add(Code.HOST_LOST, subject, message, _remedy(one))


def steps_of_lost(lost: Sequence[LostHost], hosts: Mapping[str, Host]) -> list[ManualStep]:
    """Return the manual step of each such host."""
    return [
        step_of_return(
            hosts[one.host.moid],
            " ".join(_step_words(one)),
            f"{one.host.name} is connected in vCenter, or its VMs are on another host in vCenter",
        )
        for one in lost
    ]


def _lost_vm(
    resolved: ResolvedVm, existing: Vm, host: Host, resolver: VmResolver, target: str, why_not: str
) -> LostVm:
    return LostVm(
        name=resolved.name,
        moid=existing.moid,
        power_state=existing.power_state,
        could_start_on=target,
        why_not=why_not,
        is_restarted_by_ha=(
            existing.is_on
            and host.connection is Connection.NOT_RESPONDING
            and is_restarted_by_ha(existing, resolved.base, resolver.observed.cluster_of(host))
        ),
    )


def _elsewhere(resolver: VmResolver, lost: Sequence[ResolvedVm]) -> dict[str, tuple[str, str]]:
    """Return, by VM, the host that it could start on as things are now, else why there is none."""
    from vgpu_cfg.planning.moves.places import find_places

    why_not: dict[str, str] = {}
    asking: list[tuple[ResolvedVm, Vm]] = []
    allowed: dict[str, tuple[str, ...]] = {}
    for one in lost:
        vm, host = one.existing, one.host
        if vm is None or vm.detail is None or host is None:
            why_not[one.name] = "its configuration could not be read"
        elif host.connection is Connection.DISCONNECTED:
            why_not[one.name] = "a user disconnected the host; its VMs may still be running"
        else:
            allowed[vm.moid], reason = _allowed(one, host, resolver)
            why_not[one.name] = why_tied(vm.detail) or reason
            asking.append((one, vm))
    vms = [vm for _, vm in asking]
    places = find_places(vms, resolver.observed, resolver.catalog, Protection(), allowed=allowed)
    for one, vm in asking:
        why_not[one.name] = why_not[one.name] or _why_not(one, vm, places)
    targets = {one.vm: one.host_name for one in places.placements.values()}
    return {one.name: (targets.get(one.name, ""), why_not[one.name]) for one in lost}


def _allowed(resolved: ResolvedVm, host: Host, resolver: VmResolver) -> tuple[tuple[str, ...], str]:
    """Return the hosts that a VM may go to, by moid, its own cluster's, then the file's; or why none."""
    observed, base, told = resolver.observed, resolved.base, Findings()
    own = observed.cluster_of(host)
    clusters = dict.fromkeys(one for one in (own, *resolved.clusters) if isinstance(one, Cluster))
    reached = observed.networks_of(base), frozenset(base.datastore_moids)
    query = make_query(clusters, resolved.desired.place, *reached)
    ranked = resolver.candidates.of(query, resolved.desired, told)
    return tuple(resolver.hosts[index].moid for index, _ in ranked), _first(told)


def _why_not(resolved: ResolvedVm, vm: Vm, places: Places) -> str:
    """Say why a VM has no place; if hosts could run it but for others there, name these."""
    from vgpu_cfg.planning.remedies.refusals import explain_refusal

    if vm.moid not in places.placed.failed:
        return places.why_not.get(vm.moid, "")
    found, told = explain_refusal(places.placed.hosts, places.movables[vm.moid].shape, {}), Findings()
    told.refuse_vm(found.code, resolved.desired, found.message, hindrances=found.hindrances)
    return _first(told)


def _first(told: Findings) -> str:
    return next((found.text for found in told.diagnostics()), "")


def told_of(lost: LostHost) -> Iterator[str]:
    """Yield the known facts of the VMs, similar ones together."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for vm in lost.vms:
        groups.setdefault((vm.power_state.word, vm.could_start_on, vm.why_not), []).append(vm.name)
    for (state, target, why_not), names in groups.items():
        place = f"could now start on {target}" if target else f"cannot currently start elsewhere ({why_not})"
        yield f"{fold_names(names)}, last known to be {state}, {place}"


def _remedy(lost: LostHost) -> str:
    names = fold_names(vm.name for vm in lost.vms)
    return f"see step `bring back {lost.host.name}`; until then, `apply` leaves {names} unchanged"


def _step_words(lost: LostHost) -> Iterator[str]:
    """Yield the sentences of the step: how the host comes back, what HA does, how else VMs start."""
    name = lost.host.name
    if lost.connection is Connection.DISCONNECTED:
        yield (
            f"Reconnect {name} in vCenter: a user disconnected it, and its VMs may still be running on it. "
            "After that, the plan manages them again."
        )
        return
    yield (
        f"Use its console or management controller to determine whether {name} has failed or is only "
        "disconnected. Power it on, or restore its network; the plan then manages its VMs again."
    )
    restarted = [vm.name for vm in lost.vms if vm.is_restarted_by_ha]
    if restarted:
        yield (
            f"vSphere HA is on: when it declares {name} failed, it restarts {fold_names(restarted)} on "
            "hosts with enough capacity. Wait for this restart first."
        )
    movable = [vm for vm in lost.vms if vm.could_start_on]
    if movable:
        places = ", ".join(f"{vm.name} on {vm.could_start_on}" for vm in movable)
        yield (
            f"If {name} cannot be recovered, make sure that it remains powered off: a VM that runs on two "
            "hosts corrupts its disks. Then remove the host from vCenter's inventory (the VMs' files are "
            f"kept), and register their .vmx files on other hosts: {places}. `apply` continues "
            "with these VMs."
        )
    rest = [vm.name for vm in lost.vms if not vm.could_start_on]
    if rest:
        yield f"{fold_names(rest)} cannot currently start on another host."
