"""The readings of `metrics` for one answer: the pool with its use, the drift of plan files, the last runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from vgpu_cfg.cli.flows import flow
from vgpu_cfg.cli.flows.history import look_back
from vgpu_cfg.cli.flows.preparing.request import read_request
from vgpu_cfg.cli.flows.status_flow import look
from vgpu_cfg.settings.connection import resolve_connection
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.execution import PastRun
    from vgpu_cfg.model.locks import Locks
    from vgpu_cfg.render.metrics import LastRun, PlanState, Site

RUNS_SINCE = timedelta(days=90)
"""So far back runs are looked for."""


def read_metrics(flags: ConnectionFlags, plans: Sequence[Path], *, days: float, idle_below: float) -> Site:
    """Read vCenter once, and once for each plan file. Raises `VgpuCfgError`."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.planning.pool.spare import spare_states
    from vgpu_cfg.planning.pool.summary import read_pool
    from vgpu_cfg.planning.pool.use import owner_of
    from vgpu_cfg.render.metrics import Site

    connection = resolve_connection(flags)
    observed = flow.read_all(connection, use_days=days, with_licences=True, with_locks=True)
    spares = spare_states(flow.quotas_of(connection), observed, load_catalog())
    history = look_back(flags, age=RUNS_SINCE)
    if history.failure is not None:
        raise history.failure
    return Site(
        pool=read_pool(observed, load_catalog(), idle_below=idle_below),
        read_at=observed.read_at,
        owners={
            (host.moid, vm.name): (vm.mark.plan if vm.mark else "", owner_of(vm))
            for host in observed.hosts
            for vm in observed.vms_by_host.get(host.moid, ())
        },
        licences=tuple(
            (host.name, licence)
            for host in observed.hosts
            if host.gpus
            for licence in (observed.licences or {}).get(host.moid, ())
        ),
        maintenance={host.name: host.is_in_maintenance_mode for host in observed.hosts if host.gpus},
        cordons=tuple((host.name, one.pci_id) for host in observed.hosts for one in host.cordons),
        spares={one.cluster: one.count for one in spares},
        locks=tuple(_locks(observed.locks)) if observed.locks is not None else (),
        plans=tuple(_state(path, flags) for path in plans),
        runs=tuple(_newest(history.runs)),
    )


def _locks(locks: Locks) -> Iterator[tuple[str, str, str, datetime]]:
    for run in locks.runs:
        holder = locks.of_run(run)[0].holder
        if holder is not None:
            yield run, holder.command, holder.plan, locks.beat_of(run)


def _state(path: Path, flags: ConnectionFlags) -> PlanState:
    from vgpu_cfg.changes.severity import Severity
    from vgpu_cfg.planning.findings.options import PlanOptions
    from vgpu_cfg.planning.sync import is_in_sync
    from vgpu_cfg.render.metrics import PlanState

    answer, differences = look(read_request(path, {}, ()), flags, PlanOptions(allow_power_cycle=True))
    counts = Counter(found.severity for found in answer.plan.diagnostics)
    return PlanState(
        name=answer.plan.desired.name,
        differences=len(differences),
        findings={severity: counts[severity] for severity in Severity},
        is_in_sync=is_in_sync(answer.plan),
        expires={
            vm.name: datetime.combine(vm.expires, time.max, UTC)
            for vm in answer.plan.desired.vms
            if vm.expires is not None
        },
    )


def _newest(runs: Sequence[PastRun]) -> list[LastRun]:
    """Return the newest run of each plan; runs come newest first.

    A run known only from a lock may be a question that waits for its answer, or a look into shells.
    """
    from vgpu_cfg.render.metrics import LastRun

    found: dict[str, LastRun] = {}
    for run in runs:
        at = run.ended_at or run.began_at
        if run.entry.digest and run.entry.plan and run.entry.plan not in found and at is not None:
            result = "" if run.entry.result is None else str(run.entry.result)
            found[run.entry.plan] = LastRun(run.entry.plan, run.entry.command, at, result)
    return list(found.values())
