"""Hosts that are down: they do not respond, or a plan has them in maintenance mode and has not returned them.

A host that the plan took down itself counts as no lost one: the plan waits for it. vCenter shows the VMs of a
lost host as they were, and no call reaches them.

Belief: lost-host-vm-states, lost-host-rejects-calls.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from vgpu_cfg.changes.change import ExitMaintenance, ManualStep
from vgpu_cfg.changes.values import HostRef, Subject
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.host_facts import HostMark
from vgpu_cfg.model.observed.inventory import Connection, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions


@dataclass(frozen=True, slots=True)
class Intent:
    """The intended action on VMs, and its words for one whose host does not respond."""

    done: str
    again: str
    meanwhile: str


DELETED = Intent("deleted", "delete the VM again", "the VM is not deleted")
GIVEN_UP = Intent("released", "run `forget` again", "vgpu-cfg still manages the VM")
TAKEN_IN = Intent("imported", "import the VM again", "its owner mark is unchanged")


def lost_host(vm: Vm, observed: Inventory, plan: PlanIdentity) -> Host | None:
    """Return the host of a VM where that does not respond, None where it does."""
    host = observed.host_by_moid.get(vm.host_moid or "")
    if host is None or host.connection is Connection.CONNECTED:
        return None
    facts = observed.facts.hosts.get(host.moid)
    mark = facts.mark if facts is not None else None
    is_taken_down = mark is not None and mark.maintenance and mark.is_of(plan)
    return None if is_taken_down else host


def can_go(
    leaving: Iterable[Vm],
    observed: Inventory,
    plan: PlanIdentity,
    findings: Findings,
    intent: Intent = DELETED,
) -> tuple[list[Vm], list[ManualStep]]:
    """Return, of VMs, the reachable ones for an intent, and the steps for the others."""
    going: list[Vm] = []
    kept: dict[str, list[str]] = {}
    for vm in leaving:
        host = lost_host(vm, observed, plan)
        if host is None:
            going.append(vm)
            continue
        kept.setdefault(host.moid, []).append(vm.name)
        subject = Subject(kind="vm", name=vm.name, moid=vm.moid)
        message = f"host {host.name} {host.connection.words}: {intent.meanwhile}"
        remedy = f"reconnect {host.name}, then {intent.again}"
        findings.add(Code.KEPT_WITH_ITS_HOST, subject, message, remedy)
    return going, [_step_before(intent, observed.host_by_moid[moid], names) for moid, names in kept.items()]


def _step_before(intent: Intent, host: Host, names: list[str]) -> ManualStep:
    text = (
        f"Power on {host.name}, restore its network, or reconnect it in vCenter: "
        f"{listed(names, shown=8)} "
        f"cannot be {intent.done} while the host {host.connection.words}."
    )
    return step_of_return(host, text, f"{host.name} is connected in vCenter")


def step_of_return(host: Host, text: str, proof: str) -> ManualStep:
    """Make the manual step for a host that does not respond; the next planning detects it."""
    return ManualStep(
        id=f"bring back {host.name}",
        subject=Subject(kind="host", name=host.name, moid=host.moid),
        text=text,
        proof=proof,
        is_shown=True,
        host_moid=host.moid,
    )


def exit_id(host: str) -> str:
    """Return the id of the change by which a host comes back."""
    return f"leave maintenance {host}"


def way_back(host: str) -> str:
    """Return the commands that return a host in its present state, without the rest of its plan."""
    return f"`{shlex.join(['vgpu-cfg', 'uncordon', f'host:{host}', '--restore'])}`"


def report_left(host: Host, mark: HostMark, findings: Findings, remedy: str) -> None:
    """Report that a host is in maintenance mode for a plan, and why."""
    subject = Subject(kind="host", name=host.name, moid=host.moid)
    message = f"in maintenance mode for plan {mark.plan} since {mark.since:%Y-%m-%d %H:%M}"
    why = mark.reason or "no reason recorded"
    findings.add(Code.STANDS_WAITING, subject, f"{message}: {why}", remedy)


def bring_back(host: Host, findings: Findings) -> tuple[ExitMaintenance, ...]:
    """Return what gives a host back that a plan has down, as far as it can be; a finding says so."""
    mark = host.mark
    if mark is None or not mark.maintenance:
        return ()
    if host.connection is not Connection.CONNECTED:
        report_left(
            host,
            mark,
            findings,
            f"the host {host.connection.words}; reconnect the host, then rerun this command",
        )
        return ()
    if host.is_in_maintenance_mode:  # else only the mark is left
        report_left(host, mark, findings, "the host will be returned to service in its current state")
    subject = Subject(kind="host", name=host.name, moid=host.moid)
    ref = HostRef(name=host.name, moid=host.moid)
    return (ExitMaintenance(id=exit_id(host.name), subject=subject, host=ref, host_moid=host.moid),)


def bring_all_back(
    plan: PlanIdentity, observed: Inventory, options: PlanOptions, findings: Findings
) -> list[ExitMaintenance]:
    """Return what gives the hosts back that a plan has down and `only` selects; the others are named."""
    chosen = [host for host in observed.hosts if options.selects("", host.name)]
    report_all_left(plan, observed, {host.moid for host in chosen}, findings)
    own = (host for host in chosen if host.mark is not None and host.mark.is_of(plan))
    return [change for host in own for change in bring_back(host, findings)]


def report_all_left(
    plan: PlanIdentity, observed: Inventory, known: Collection[str], findings: Findings
) -> None:
    """Name the hosts that a plan has down, but for those in `known`."""
    for host in observed.hosts:
        is_up = host.connection is Connection.CONNECTED and not host.is_in_maintenance_mode
        mark = None if is_up or host.moid in known else host.mark
        if mark is not None and mark.maintenance and mark.is_of(plan):
            remedy = (
                f"to exit maintenance mode, run {way_back(host.name)}; `apply` continues if `hosts` "
                "includes the host"
            )
            report_left(host, mark, findings, remedy)
