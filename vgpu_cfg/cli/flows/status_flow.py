"""How `status` looks: it plans, and where something differs it asks vCenter's events who did it.

Without a plan file it reads marks, locks, reservations, and runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows.flow import Planned, locate, plan_with
from vgpu_cfg.cli.flows.preparing.request import PlanRequest
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.changes.suggestion import Difference
    from vgpu_cfg.cli.flows.history import History
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.planning.doctor.ours import Ours, Ran
    from vgpu_cfg.planning.findings.options import PlanOptions
    from vgpu_cfg.settings.connection import Connection
    from vgpu_cfg.settings.secrets import SecretStore


def look(
    request: PlanRequest, flags: ConnectionFlags, options: PlanOptions
) -> tuple[Planned, tuple[Difference, ...]]:
    """Look at the objects of a plan file at its server; see `look_at`."""
    connection, desired = locate(request, flags)
    return look_at(connection, desired, options, request.secrets())


def look_at(
    connection: Connection, desired: DesiredPlan, options: PlanOptions, secrets: SecretStore
) -> tuple[Planned, tuple[Difference, ...]]:
    """Read the estate and plan for it; return the plan, and what differs with who brought it about.

    Nothing is changed, and nothing more is asked where nothing differs.
    """
    from vgpu_cfg.planning.drift import differences_of, past_scope, with_authors

    with compose.connect_reader(connection) as reader:
        planned = plan_with(reader, desired, connection, options, secrets, only_plan=True)
        differences = differences_of(planned.plan)
        scope = past_scope(differences, planned.observed)
        if not scope.is_empty:
            differences = with_authors(differences, reader.read_past(scope))
    return planned, differences


READ_AGE = timedelta(days=30)
"""So old may be the last run of a plan; vCenter keeps events for 30 days by default (recalled)."""


def look_around(connection: Connection, server: Sequence[str] = ()) -> Ours:
    """List everything of this program at a vCenter; `server` are the words that name it to a command."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.cli.flows.doctor_flow import with_entries
    from vgpu_cfg.cli.flows.history import History, look_back
    from vgpu_cfg.planning.doctor import ours
    from vgpu_cfg.ports import ReadScope

    is_live = connection.recording is None
    connection = connection.with_login({}) if is_live else connection
    scope = ReadScope(datacenter=connection.datacenter, locks=True, for_planning=False, kinds=False)
    with compose.connect_reader(connection) as reader:
        observed = with_entries(reader.read_inventory(scope), reader)
    found = History((), connection.server, ("a recording contains no runs, locks or reservations",))
    if is_live:
        found = look_back(ConnectionFlags(), age=READ_AGE, at=connection)
    now = observed.locks.now if observed.locks is not None else observed.read_at
    failure = f"runs could not be read: {found.failure.message}" if found.failure is not None else ""
    notes = [*found.notes, *filter(None, [failure])]
    return ours.look_around(observed, load_catalog(), [*_runs(found, now)], server, notes)


def _runs(found: History, now: datetime) -> Iterator[Ran]:
    """Yield runs; the last of each plan, and the last with a journal, with the plan that it ran."""
    from vgpu_cfg.changes.report import in_place
    from vgpu_cfg.errors import DocumentError
    from vgpu_cfg.execution import read_journal
    from vgpu_cfg.planning.doctor.ours import Ran
    from vgpu_cfg.planning.hosts.window import windows_of

    read: set[str] = set()
    for run in found.runs:
        plan = run.entry.plan_id or run.entry.plan
        windows: tuple[str, ...] = ()
        expires = None
        if plan and plan not in read and run.journal is not None:
            try:
                record = read_journal(run.journal)
            except DocumentError:
                record = None  # `look_back` reports it
            if record is not None and record.plan is not None:
                read.add(plan)
                done = in_place(record.outcomes)
                windows = windows_of((one for one in record.plan.changes if one.id not in done), now)
                expires = record.header.expires
        yield Ran(run.entry, run.began_at, run.ended_at, windows, expires)
