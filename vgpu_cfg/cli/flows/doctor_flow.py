"""Read the data that judge the health of an estate and the status of a plan; nothing here can write.

If a plan differs, vCenter's events name the author. Without a plan file, `status` reads marks,
locks, reservations, and runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows.flow import Planned, locate, plan_with
from vgpu_cfg.cli.flows.preparing.request import PlanRequest
from vgpu_cfg.cli.output import show
from vgpu_cfg.documents import PRIVATE
from vgpu_cfg.errors import VCenterError
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.changes.suggestion import Difference
    from vgpu_cfg.cli.flows.history import History
    from vgpu_cfg.knowledge.beliefs import Trial
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.model.observed.inventory import Inventory
    from vgpu_cfg.model.verdicts import VerdictFile
    from vgpu_cfg.planning.doctor.ours import Ours, Ran
    from vgpu_cfg.planning.doctor.tried import Tried
    from vgpu_cfg.planning.findings.options import PlanOptions
    from vgpu_cfg.ports import InventoryReader
    from vgpu_cfg.settings.connection import Connection
    from vgpu_cfg.settings.secrets import SecretStore

READ_AGE = timedelta(days=30)
"""So old may be the last run of a plan; vCenter keeps events for 30 days by default (recalled)."""


def read_to_examine(connection: Connection, *, with_images: bool = False) -> Inventory:
    """Read the whole estate, with the facts of hosts with GPUs: about one round trip for each of those.

    `with_images` adds the images of clusters, by four round trips each. The settings of the VMkernel are read
    only of hosts on which a VM has a GPU and an RDMA NIC.
    """
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.model.observed.host_facts import EstateFacts, FactGroup
    from vgpu_cfg.model.wording import counted
    from vgpu_cfg.planning.doctor.vms import NESTED_KEY
    from vgpu_cfg.planning.rdma.chain import hosts_with_pairs
    from vgpu_cfg.planning.remedies.start_conditions import KEYS
    from vgpu_cfg.ports import ReadScope

    scope = ReadScope(
        datacenter=connection.datacenter,
        locks=True,
        system_ids=True,
        key_providers=True,
        extra_config_keys=KEYS | {NESTED_KEY},
    )
    with show.working(connection.server) as tell, compose.connect_reader(connection) as reader:
        tell("reading hosts and VMs")
        observed = reader.read_inventory(scope)
        hosts = [host.moid for host in observed.hosts if host.gpus]
        tell(f"reading {counted(len(hosts), 'host')} with GPUs")
        groups = {FactGroup.BASE, FactGroup.SOFTWARE} | ({FactGroup.IMAGE} if with_images else set())
        facts = reader.read_facts(hosts, frozenset(groups)) if hosts else EstateFacts()
        pairs = hosts_with_pairs(observed, load_catalog())
        if pairs:
            kernels = reader.read_facts(pairs, frozenset({FactGroup.BASE, FactGroup.KERNEL}))
            merged = {
                moid: found.model_copy(
                    update={
                        "kernel": kernels.hosts[moid].kernel,
                        "groups": found.groups | kernels.hosts[moid].groups,
                    }
                )
                if moid in kernels.hosts
                else found
                for moid, found in facts.hosts.items()
            }
            facts = facts.model_copy(update={"hosts": merged})
        tell("reading licenses")
        licences = reader.read_licences()
        observed = observed.model_copy(update={"facts": facts, "licences": licences})
        return with_entries(observed, reader)


def with_entries(observed: Inventory, reader: InventoryReader) -> Inventory:
    """Add the users and runs that took unmarked hosts into maintenance mode, by vCenter's events."""
    from vgpu_cfg.model.observed.host_facts import HostFacts

    moids = [host.moid for host in observed.hosts if host.is_in_maintenance_mode and host.mark is None]
    found = reader.read_maintenance(moids) if moids else {}
    known = observed.facts.hosts
    hosts = {
        moid: known.get(moid, HostFacts()).model_copy(update={"entered": one}) for moid, one in found.items()
    }
    facts = observed.facts.model_copy(update={"hosts": {**known, **hosts}})
    return observed.model_copy(update={"facts": facts})


def save_found(path: Path, observed: Inventory, *found_by: tuple[Iterable[Tried], Trial]) -> VerdictFile:
    """Add verdicts, each with how they were tried, to the file of their vCenter; return its content.

    In a folder it gets the name that plans read. If only the time differs, it stays. Raises DocumentError for
    a file that cannot be written, or for an unusable earlier one.
    """
    from vgpu_cfg.cli.kept.whole_file import write_whole
    from vgpu_cfg.plan_loading.side_files import read_verdicts, verdicts_text
    from vgpu_cfg.planning.doctor.tried import merged, verdicts_of

    found = reduce(merged, (verdicts_of(observed, tried, by) for tried, by in found_by))
    file = path / found.file_name if path.is_dir() else path
    before = read_verdicts(file) if file.is_file() else found
    if before.file_name == found.file_name:
        found = merged(before, found)
    if not file.is_file() or found.model_copy(update={"vcenter": before.vcenter}) != before:
        write_whole(file, verdicts_text(found), mode=0o644)
    show.say(f"{file}: verdicts for build {found.vcenter.build}; commit this file")
    if file.name != found.file_name:
        show.say(f"rename it to {found.file_name}; plans ignore files with other names")
    return found


def save_evidence(
    folder: Path, connection: Connection, tried: Iterable[Tried], saved: VerdictFile | None
) -> None:
    """Record the vCenter without its names, and keep the recording with the verdicts that it gives.

    Anybody gets these verdicts from the recording. Those of trials come from `saved`, without the objects.
    """
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.cli.kept.whole_file import write_whole
    from vgpu_cfg.plan_loading.side_files import verdicts_text
    from vgpu_cfg.planning.doctor.patient import Patient
    from vgpu_cfg.planning.doctor.tried import try_beliefs, verdicts_of
    from vgpu_cfg.settings.connection import resolve_connection
    from vgpu_cfg.settings.flags import ConnectionFlags

    folder.mkdir(exist_ok=True)
    recording = folder / "recording.json.gz"
    with show.working(connection.server) as tell:
        tell("recording")
        compose.record(connection, recording, anonymous=True)
    try:
        played = read_to_examine(resolve_connection(ConnectionFlags(recording=recording)))
    except VCenterError as error:
        message = f"the recording without names cannot be replayed: {error.message}"
        remedy = "report this message; your verdicts are not affected"
        raise VCenterError(message, subject=str(recording), remedy=remedy) from error
    again = try_beliefs(Patient(played, load_catalog()))
    found = verdicts_of(played, again)
    rows = dict(found.beliefs)
    for key, row in saved.beliefs.items() if saved else ():
        if row.by != "reading":
            rows[key] = row.model_copy(update={"seen": ""})
    found = found.model_copy(update={"beliefs": dict(sorted(rows.items()))})
    write_whole(folder / "verdicts.yaml", verdicts_text(found), mode=PRIVATE)
    show.say(f"{folder}: verdicts.yaml and {recording.name} ({recording.stat().st_size // 1024} KiB)")
    lost = [one.belief for one, other in zip(tried, again, strict=True) if one.verdict is not other.verdict]
    if lost:
        show.say(f"replaying the recording changes the verdict on {', '.join(lost)}")


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


def look_around(connection: Connection, server: Sequence[str] = ()) -> Ours:
    """List everything of this program at a vCenter; `server` are the words that name it to a command."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.cli.flows.history import History, look_back
    from vgpu_cfg.planning.doctor import ours
    from vgpu_cfg.planning.pool.reservations import now_of
    from vgpu_cfg.ports import ReadScope

    is_live = connection.recording is None
    connection = connection.with_login({}) if is_live else connection
    scope = ReadScope(datacenter=connection.datacenter, locks=True, for_planning=False, kinds=False)
    with compose.connect_reader(connection) as reader:
        observed = with_entries(reader.read_inventory(scope), reader)
    found = History((), connection.server, ("a recording contains no runs, locks or reservations",))
    if is_live:
        found = look_back(ConnectionFlags(), age=READ_AGE, at=connection)
    now = now_of(observed)
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
