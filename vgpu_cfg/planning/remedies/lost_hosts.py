"""What becomes of the plan's VMs on a host that does not respond: where they could start, and who does what.

The plan changes nothing there. Whether such a host is dead, or runs on without vCenter, no API tells; a VM
that ran on two hosts would ruin its disks, so what starts it elsewhere is vSphere HA or a person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Cluster, Connection, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.plan.change import HostRef, ManualStep, Subject
from vgpu_cfg.model.plan.lost import LostHost, LostVm
from vgpu_cfg.planning.capacity.hardware import highest_version
from vgpu_cfg.planning.estate.lost import step_of_return
from vgpu_cfg.planning.estate.ownership import assess_ownership
from vgpu_cfg.planning.expand.ranges import fold_names
from vgpu_cfg.planning.findings.checks import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.placement.candidates import Ranked, make_query
from vgpu_cfg.planning.placement.demand import Demand
from vgpu_cfg.planning.placement.placers import PLACERS
from vgpu_cfg.planning.placement.startable import place_startable
from vgpu_cfg.planning.remedies.failures import report_failures
from vgpu_cfg.planning.vms.lookup.baseline import make_baseline
from vgpu_cfg.planning.vms.lookup.gpu_match import own_gpus
from vgpu_cfg.planning.vms.lookup.moving import is_restarted_by_ha, why_tied
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm
from vgpu_cfg.planning.vms.lookup.shapes import line_of, make_shape
from vgpu_cfg.planning.vms.lookup.vm_resolver import VmResolver


def find_lost(
    desired: DesiredPlan, observed: Inventory, catalog: Catalog, wants_vm: Callable[[str], bool]
) -> tuple[LostHost, ...]:
    """Say what a plan says of those of its VMs that are wanted by name and on hosts that do not respond."""
    resolver = VmResolver(desired, observed, catalog, Findings())
    folders = resolver.folders()
    owned = assess_ownership(desired, observed, folders, Findings())
    return assess_lost(resolver, [vm for vm in resolver.lost_vms(folders, owned) if wants_vm(vm.name)])


def assess_lost(resolver: VmResolver, lost: Sequence[ResolvedVm]) -> tuple[LostHost, ...]:
    """Say of the plan's VMs on hosts that do not respond whether each could start elsewhere now."""
    elsewhere = _Elsewhere(resolver).look(lost) if lost else {}
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
        message = f"it {one.connection.words}, and VMs of the plan are on it: {'; '.join(told_of(one))}"
        findings.add(Code.HOST_LOST, subject, message, _remedy(one))


def steps_of_lost(lost: Sequence[LostHost], hosts: Mapping[str, Host]) -> list[ManualStep]:
    """Return the step by hand of each such host."""
    return [
        step_of_return(
            hosts[one.host.moid],
            " ".join(_step_words(one)),
            f"{one.host.name} is connected in vCenter, or its VMs are on another host there",
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


class _Elsewhere:
    """Tries places for VMs as things are now: what the plan is about to do has not happened."""

    def __init__(self, resolver: VmResolver) -> None:
        self._resolver = resolver
        self._quiet = Findings()
        self._baseline = make_baseline(
            resolver.hosts, resolver.observed, (), (), resolver.reader, self._quiet
        )

    def look(self, lost: Sequence[ResolvedVm]) -> dict[str, tuple[str, str]]:
        """Return, by VM, the host that it could start on, else why none; those that ran choose first."""
        found: dict[str, tuple[str, str]] = {}
        for is_on in (True, False):
            group = [one for one in lost if one.existing is not None and one.existing.is_on is is_on]
            found |= dict(self._place(group))
        return found

    def _place(self, group: Sequence[ResolvedVm]) -> Iterator[tuple[str, tuple[str, str]]]:
        asking: list[ResolvedVm] = []
        for resolved in group:
            as_new, why_not = self._as_new(resolved)
            if as_new is not None:
                asking.append(as_new)
            else:
                yield resolved.name, ("", why_not)
        demands = [Demand(one.name, line_of(one), one.shape) for one in asking if one.shape is not None]
        placed = place_startable(self._baseline.states, demands, PLACERS, {one.name for one in asking})
        for one in asking:
            if (fit := placed.fits.get(one.name)) is not None:
                yield one.name, (self._baseline.hosts[fit.host].name, "")
                continue
            told = Findings()
            report_failures(placed, [one], self._baseline, told)
            yield one.name, ("", _first(told))
        self._baseline.states = placed.hosts

    def _as_new(self, resolved: ResolvedVm) -> tuple[ResolvedVm | None, str]:
        """Return a VM as one that needs a place for what it has, None and why where it cannot go anywhere."""
        existing = resolved.existing
        if existing is None or existing.detail is None or resolved.host is None:
            return None, "its configuration could not be read"
        if resolved.host.connection is Connection.DISCONNECTED:
            return None, "somebody disconnected the host, and what ran there may run on"
        if why_tied(resolved.base):
            return None, f"a device of {resolved.host.name} is handed through to it by its address"
        told = Findings()
        ranked = self._candidates(resolved, resolved.host, told)
        if not ranked:
            return None, _first(told)
        base = existing.detail
        one = replace(
            resolved,
            existing=None,
            host=None,
            gpus=own_gpus(base),
            cpus=base.cpus,
            memory_mib=base.memory_mib,
        )
        one.shape = make_shape(one, ranked, self._resolver.reader)
        return one, ""

    def _candidates(self, resolved: ResolvedVm, host: Host, told: Findings) -> Ranked:
        """Return the hosts that reach a VM's files and networks: its own cluster's, then the file's."""
        observed, base = self._resolver.observed, resolved.base
        own = observed.cluster_of(host)
        clusters = dict.fromkeys(one for one in (own, *resolved.clusters) if isinstance(one, Cluster))
        keys = {network.portgroup_key or network.moid: network.moid for network in observed.networks}
        query = make_query(
            clusters,
            resolved.desired.place,
            frozenset(keys[nic.network] for nic in base.nics if nic.network in keys),
            frozenset(base.datastore_moids),
        )
        ranked = self._resolver.candidates.of(query, resolved.desired, told)
        return tuple(pair for pair in ranked if _runs(self._resolver.hosts[pair[0]], base.hardware_version))


def _runs(host: Host, version: int | None) -> bool:
    newest = highest_version(host)
    return version is None or newest is None or version <= newest


def _first(told: Findings) -> str:
    found = told.diagnostics()
    return found[0].text if found else "no other host runs its hardware version"


def told_of(lost: LostHost) -> Iterator[str]:
    """Yield what is known of the VMs, like ones together."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for vm in lost.vms:
        groups.setdefault((vm.power_state.word, vm.could_start_on, vm.why_not), []).append(vm.name)
    for (state, target, why_not), names in groups.items():
        place = f"could start on {target} now" if target else f"cannot start elsewhere now ({why_not})"
        yield f"{fold_names(names)}, last known {state}, {place}"


def _remedy(lost: LostHost) -> str:
    names = fold_names(vm.name for vm in lost.vms)
    return f"step `bring back {lost.host.name}` says how; until then `apply` leaves {names} alone"


def _step_words(lost: LostHost) -> Iterator[str]:
    """Yield the sentences of the step: how the host comes back, what HA does, how else VMs start."""
    name = lost.host.name
    if lost.connection is Connection.DISCONNECTED:
        yield (
            f"Connect {name} again in vCenter: somebody disconnected it, and its VMs may run on there "
            "without vCenter. They are the plan's as before then."
        )
        return
    yield (
        f"Find out at its console or its management controller whether {name} is dead or only cut off. Power "
        "it on, or give it its network back: its VMs are the plan's as before then."
    )
    restarted = [vm.name for vm in lost.vms if vm.is_restarted_by_ha]
    if restarted:
        yield (
            f"vSphere HA is on: once it takes {name} for dead, it starts {fold_names(restarted)} on hosts "
            "with room for them by itself; wait for that first."
        )
    movable = [vm for vm in lost.vms if vm.could_start_on]
    if movable:
        places = ", ".join(f"{vm.name} on {vm.could_start_on}" for vm in movable)
        yield (
            f"If {name} stays down: see to it that it is off and stays off, since a VM that runs on two "
            "hosts ruins its disks. Then remove the host from vCenter's inventory, which leaves the VMs' "
            f"files, and register their .vmx files elsewhere: {places}. `apply` goes on with them."
        )
    rest = [vm.name for vm in lost.vms if not vm.could_start_on]
    if rest:
        yield f"{fold_names(rest)} cannot start elsewhere as things are."
