"""What must come true before a VM is powered on besides its own changes: freed GPUs, larger vGPUs first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from vgpu_cfg.model.change import Change, PowerOnVm
from vgpu_cfg.planning.case import Case
from vgpu_cfg.planning.checks import Code
from vgpu_cfg.planning.findings import Findings
from vgpu_cfg.planning.host_state import HostState
from vgpu_cfg.planning.new_vms import with_needs
from vgpu_cfg.planning.power_order import Start, power_on_tiers, simulate_starts


def order_power_ons(
    changes: Sequence[Change],
    cases: Mapping[str, Case],
    freeing: Mapping[str, Sequence[str]],
    states: Sequence[HostState],
    findings: Findings,
) -> list[Change]:
    """Let every power-on wait for what frees its GPU and, on one host, for larger vGPUs.

    `freeing` names, per host moid, the changes that free GPUs there; `states` are the hosts
    before any VM of the plan was put on them.
    """
    starts = _starts(changes, cases)
    needs: dict[str, list[str]] = {}
    for host_moid, group in starts.items():
        by_vm = {start.vm: change_id for start, change_id in group}
        tiers = power_on_tiers([start for start, _ in group])
        for before, after in pairwise(tiers):
            for name in after:
                needs.setdefault(by_vm[name], []).extend(by_vm[one] for one in before)
        for _, change_id in group:
            needs.setdefault(change_id, []).extend(freeing.get(host_moid, ()))
        _check_policy(host_moid, [start for start, _ in group], cases, states, findings)
    passed = {
        change.id: freeing[change.host_moid]
        for change in changes
        if isinstance(change, PowerOnVm) and change.host_moid is not None and change.host_moid in freeing
    }
    ordered: list[Change] = []
    own = _own_changes(changes)
    for change in changes:
        wanted = [*needs.get(change.id, ()), *passed.get(change.id, ())]
        others = tuple(one for one in wanted if own.get(one) != change.subject.name)
        ordered.append(with_needs(change, others) if others else change)
    return ordered


def _starts(changes: Iterable[Change], cases: Mapping[str, Case]) -> dict[str, list[tuple[Start, str]]]:
    """List per host the VMs with vGPUs that are powered on, with the id of the change."""
    found: dict[str, list[tuple[Start, str]]] = {}
    for change in changes:
        case = cases.get(change.subject.name)
        if isinstance(change, PowerOnVm) and change.host_moid and case and case.fit and case.fit.variant:
            start = Start(case.name, case.fit.variant)
            found.setdefault(change.host_moid, []).append((start, change.id))
    return found


def _own_changes(changes: Iterable[Change]) -> dict[str, str]:
    return {change.id: change.subject.name for change in changes}


def _check_policy(
    host_moid: str,
    starts: Sequence[Start],
    cases: Mapping[str, Case],
    states: Sequence[HostState],
    findings: Findings,
) -> None:
    state = next((one for one in states if one.host.moid == host_moid), None)
    stranded = simulate_starts(state, starts)[1] if state is not None else None
    if state is None or stranded is None:
        return
    policy = state.host.assignment_policy or "performance"
    message = (
        f"on {state.host.name} it fits, but policy {policy} may spread the vGPUs so that no GPU is left for "
        "it"
    )
    is_mig = any(need.is_mig for start in starts for need in start.variant)
    remedy = (
        "give the larger profiles to another host, or to a plan of their own that is applied first"
        if is_mig
        else "set the host's assignment policy to consolidation, or power the VMs on by hand in another order"
    )
    findings.add_vm(Code.POWER_ON_ORDER, cases[stranded].desired, message, remedy)
