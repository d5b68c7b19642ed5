"""Hosts that a plan has taken into maintenance mode and not given back: which they are, and the way back."""

from __future__ import annotations

import shlex
from collections.abc import Collection

from vgpu_cfg.changes.change import ExitMaintenance
from vgpu_cfg.changes.values import HostRef, Subject
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.host_facts import HostMark
from vgpu_cfg.model.observed.inventory import Connection, Host, Inventory
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions


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
            host, mark, findings, f"the host {host.connection.words}; reconnect it, then rerun this command"
        )
        return ()
    if host.is_in_maintenance_mode:  # else only the mark is left
        report_left(host, mark, findings, "the host will be returned to use in its current state")
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
            remedy = f"to end it, run {way_back(host.name)}; `apply` continues if `hosts` includes the host"
            report_left(host, mark, findings, remedy)
