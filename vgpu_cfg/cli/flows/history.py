"""The sources of runs: journals of this machine and of a shared folder, vCenter's events, and locks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from vgpu_cfg.errors import NotFound, VCenterError
from vgpu_cfg.settings.connection import Connection, resolve_connection
from vgpu_cfg.settings.environment import state_folder
from vgpu_cfg.settings.journals import journal_settings

if TYPE_CHECKING:
    from vgpu_cfg.cli.flows.preparing.request import PlanRequest
    from vgpu_cfg.execution import PastRun, Wanted
    from vgpu_cfg.model.runs import RunEntry
    from vgpu_cfg.settings.flags import ConnectionFlags
    from vgpu_cfg.vsphere.wire.session import Session

HERE, SHARED, VCENTER, LOCKS = "here", "folder", "vCenter", "locks"


@dataclass(frozen=True, slots=True)
class History:
    """Runs, the newest first, of a server ("" for none named); `notes` are the sources that were not read.

    `failure` is why vCenter's events could not be read.
    """

    runs: tuple[PastRun, ...]
    server: str
    notes: tuple[str, ...]
    failure: VCenterError | None = None


def look_back(
    flags: ConnectionFlags,
    request: PlanRequest | None = None,
    *,
    plan: str = "",
    age: timedelta | None = None,
    most: int | None = None,
    at: Connection | None = None,
) -> History:
    """Return the runs that are known of, of a plan file or of a plan's name, and no older than `age`.

    `at` is the vCenter, if it has been decided.

    Raises NotFound for a server or a context that is not there.
    """
    from vgpu_cfg.execution import Wanted, joined, runs_of_entries
    from vgpu_cfg.vsphere.history.collectors import RunEntryReader

    connection = at or _connection(flags, request)
    wanted = Wanted(
        address=connection.server if connection else "",
        plan=request.desired.name if request else plan,
        plan_id=request.desired.id if request else "",
        since=None if age is None else datetime.now(UTC) - age,
        most=most,
    )
    notes: list[str] = []
    failure = None
    locked: Sequence[RunEntry] = ()
    entries: Sequence[RunEntry] = ()
    if connection is None:
        notes.append("no vCenter specified, so no events were read; add --server or --context")
    else:
        try:
            with _session(connection) as session:
                reader = RunEntryReader(session)
                wanted = replace(wanted, instance_uuid=reader.instance_uuid)
                # The locks first: whoever removes one has left an entry before.
                locked = _locked(session, notes)
                entries, unclear = reader.read_entries(age)
                notes += _unclear(unclear)
        except VCenterError as error:
            failure = error
    told = (*runs_of_entries(entries, VCENTER), *runs_of_entries(locked, LOCKS))
    found = [run for run in told if wanted.means(run)]
    for folder, place in journal_folders():
        found += _journals(folder, place, wanted, notes)
    return History(tuple(joined(found)[:most]), wanted.address, tuple(notes), failure)


def _connection(flags: ConnectionFlags, request: PlanRequest | None) -> Connection | None:
    """Return how to reach the vCenter; None where nothing names one."""
    from vgpu_cfg.cli.flows.flow import locate

    if request is not None:
        return locate(request, flags)[0]
    try:
        return resolve_connection(flags)
    except NotFound:
        if flags.server or flags.context:
            raise
        return None


@contextmanager
def _session(connection: Connection) -> Iterator[Session]:
    """Log in, to read and not to write."""
    from vgpu_cfg.cli.compose import make_transport, open_session

    with open_session(connection, make_transport(connection), reads_only=True) as session:
        yield session


def _locked(session: Session, notes: list[str]) -> Sequence[RunEntry]:
    """Return the runs in locks, active or dead; two round trips."""
    from vgpu_cfg.model.runs import entry_of_lock
    from vgpu_cfg.vsphere.reading.locks import read_held

    try:
        held = read_held(session)
    except VCenterError as error:
        notes.append(f"cannot read run locks: {error.message}")
        return ()
    return [entry for lock in held if (entry := entry_of_lock(lock)) is not None]


def journal_folders() -> Sequence[tuple[Path, str]]:
    """Return the folders with journals, each with its name for people."""
    shared = journal_settings().folder
    own = (state_folder() / "journals", HERE)
    return (own,) if shared is None else (own, (shared, SHARED))


def _journals(folder: Path, place: str, wanted: Wanted, notes: list[str]) -> Sequence[PastRun]:
    from vgpu_cfg.execution import runs_of_journals

    if place == SHARED and not folder.is_dir():
        notes.append(f"the shared folder {folder} does not exist, so its journals were not read")
        return ()
    try:
        found = runs_of_journals(folder, place, wanted)
    except OSError as error:
        notes.append(f"the journals in {folder} could not be read: {error.strerror or error}")
        return ()
    if found.unread:
        more = f" (and {len(found.unread) - 1} more in the same folder)" if len(found.unread) > 1 else ""
        notes.append(f"{found.unread[0]} cannot be read as a journal{more}")
    return found.runs


def _unclear(count: int) -> list[str]:
    if not count:
        return []
    which = "1 run entry" if count == 1 else f"{count} run entries"
    return [f"{which} in vCenter's events cannot be read: truncated, or written by a later version"]
