"""The changes in a part of a plan, and the prerequisites of power-ons other than their VMs' own changes.

A part of a plan has the changes of the chosen VMs and their prerequisites. GPUs are freed before power-ons,
and larger vGPUs start first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from vgpu_cfg.changes.base import all_needed, of_kind
from vgpu_cfg.changes.change import Change, CreateVm, PowerOffVm, PowerOnVm
from vgpu_cfg.changes.plan import StartQueue
from vgpu_cfg.model.wording import counted, listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.start_queues import (
    BoardStarts,
    Start,
    StartOrder,
    make_queue,
    order_starts,
    power_on_tiers,
)
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm
from vgpu_cfg.planning.vms.new_vms import with_needs


def order_power_ons(
    changes: Sequence[Change],
    resolved_vms: Mapping[str, ResolvedVm],
    freeing: Mapping[str, Sequence[str]],
    states: Sequence[HostState],
    findings: Findings,
) -> tuple[list[Change], list[StartQueue]]:
    """Let every power-on wait for changes that free its GPU and, on one host, for larger vGPUs.

    If that could strand a VM, those of the board start one by one: the second list names them. `freeing`
    names, per host moid, the changes that free GPUs there; `states` are the hosts before any VM of the plan
    was put on them.
    """
    by_moid = {state.host.moid: state for state in states}
    needs: dict[str, list[str]] = {}
    contests: list[StartQueue] = []
    for host_moid, group in _starts(changes, resolved_vms).items():
        by_vm = {start.vm: change_id for start, change_id in group}
        for found in order_starts(by_moid[host_moid], [start for start, _ in group]):
            if found.order is StartOrder.ONE_BY_ONE:
                contests.append(make_queue(found))
                continue
            if found.order is StartOrder.UNKNOWN:
                _report(found, resolved_vms, findings)
            for before, after in pairwise(power_on_tiers(found.starts)):
                for name in after:
                    needs.setdefault(by_vm[name], []).extend(by_vm[one] for one in before)
        for _, change_id in group:
            needs.setdefault(change_id, []).extend(freeing.get(host_moid, ()))
    passed = {
        change.id: freeing[change.host_moid]
        for change in changes
        if change.takes_gpus and change.host_moid is not None and change.host_moid in freeing
    }
    ordered: list[Change] = []
    own = {change.id: change.subject.name for change in changes}
    for change in changes:
        wanted = [*needs.get(change.id, ()), *passed.get(change.id, ())]
        others = tuple(one for one in wanted if own.get(one) != change.subject.name)
        ordered.append(with_needs(change, others) if others else change)
    return ordered, contests


def _starts(
    changes: Iterable[Change], resolved_vms: Mapping[str, ResolvedVm]
) -> dict[str, list[tuple[Start, str]]]:
    """List per host the VMs with vGPUs that are powered on, with the id of the change."""
    found: dict[str, list[tuple[Start, str]]] = {}
    for change in of_kind(changes, PowerOnVm):
        resolved = resolved_vms.get(change.vm.name)
        if change.host_moid and resolved and resolved.fit and resolved.fit.variant:
            start = Start(resolved.name, resolved.fit.variant)
            found.setdefault(change.host_moid, []).append((start, change.id))
    return found


def _report(found: BoardStarts, resolved_vms: Mapping[str, ResolvedVm], findings: Findings) -> None:
    """Name one of the VMs that could be left without a GPU: of the smallest vGPUs, which start last."""
    last = min(found.starts, key=lambda start: (start.size, start.vm))
    counts: dict[str, int] = {}
    for start in sorted(found.starts, key=lambda one: one.size, reverse=True):
        counts[start.text] = counts.get(start.text, 0) + 1
    kinds = listed((f"{counted(count, 'VM')} with {words}" for words, count in counts.items()), shown=6)
    message = (
        f"{kinds} fit together on {found.host.host.name}, but no known power-on order starts all of them "
        f"regardless of which GPUs ESXi selects"
    )
    remedy = (
        "separate them with `place.hosts`, leave a GPU free, or set checks: "
        f"{{{Code.POWER_ON_ORDER}: warning}} to try anyway"
    )
    findings.add_vm(Code.POWER_ON_ORDER, resolved_vms[last.vm].desired, message, remedy)


def check_left_out(
    contests: Iterable[StartQueue],
    changes: Iterable[Change],
    resolved_vms: Mapping[str, ResolvedVm],
    findings: Findings,
) -> None:
    """Warn where VMs start without others that could then find no GPU."""
    started = {change.subject.name for change in of_kind(changes, PowerOnVm)}
    for queue in contests:
        others = sorted(queue.starts.keys() - started)
        for name in sorted(queue.starts.keys() & started) if others else ():
            message = (
                f"ESXi selects its GPU, so if it starts before {listed(others, shown=6)}, it may use a GPU "
                "that they need"
            )
            remedy = "start them together, or start the VMs with larger vGPUs first"
            findings.add_vm(Code.ONLY_MAY_STRAND, resolved_vms[name].desired, message, remedy)


def only_chosen(changes: Sequence[Change], chosen: set[str]) -> list[Change]:
    """Keep the changes to the chosen VMs, their needs, and rules whose VMs will all exist.

    A VM that must be powered off for a chosen one keeps all of its changes, so that it is not left off. Hosts
    were chosen before anything was planned for them.
    """
    changes = list(_overrides_of_chosen(changes, chosen))
    kept = {change.id for change in changes if change.subject.kind not in ("vm", "cluster")}
    needs = {change.id: change.needs for change in changes}
    while True:
        chosen_vms = {
            change.id for change in changes if change.subject.kind == "vm" and change.subject.name in chosen
        }
        kept = all_needed(kept | chosen_vms, needs)
        powered_off = {one.subject.name for one in of_kind(changes, PowerOffVm) if one.id in kept}
        if powered_off <= chosen:
            break
        chosen = chosen | powered_off
    made = {change.subject.name for change in of_kind(changes, CreateVm) if change.id in kept}
    for change in changes:
        if change.ruled and all(vm.moid or vm.name in made for vm in change.ruled):
            kept.add(change.id)
    return [change for change in changes if change.id in kept]


def report_included(changes: Iterable[Change], chosen: set[str], findings: Findings) -> None:
    """Warn of VMs that `--only` does not select, and that are powered off because a selected one needs it."""
    for change in of_kind(changes, PowerOffVm):
        if change.subject.name not in chosen:
            message = (
                "included, although not selected, because a selected VM gets its GPU only after this VM is "
                "powered off"
            )
            remedy = "select VMs on other GPUs, or wait until this VM can be powered off"
            findings.add(Code.ONLY_MAY_STRAND, change.subject, message, remedy)


def _overrides_of_chosen(changes: Sequence[Change], chosen: set[str]) -> Iterator[Change]:
    """Yield the changes; of clusters' overrides only those of the chosen VMs."""
    made_by = {change.vm.name: change.id for change in of_kind(changes, CreateVm)}
    for change in changes:
        kept = change.part_for(chosen, made_by)
        if kept is not None:
            yield kept
