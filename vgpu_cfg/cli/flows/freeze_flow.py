"""Freeze a vCenter for all vgpu-cfg and thaw it, list the locks of runs, and remove those of a dead run.

Freezes are recorded in vCenter's events. Locks are shown, asked about, and read again before they are
removed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows.flow import server_of
from vgpu_cfg.cli.flows.running.run_flow import ask
from vgpu_cfg.cli.options.running import refuse_unstated
from vgpu_cfg.cli.options.shared import OutputFormat
from vgpu_cfg.cli.output import show, show_history
from vgpu_cfg.errors import Locked, NotFound, NotPermitted, VCenterError
from vgpu_cfg.model.choices import Occasion
from vgpu_cfg.model.frozen import moment_of
from vgpu_cfg.model.locks import MOST_SIGNS, Freeze, KeptFreeze
from vgpu_cfg.model.runs import RunEntry, RunResult
from vgpu_cfg.settings.connection import resolve_connection
from vgpu_cfg.settings.environment import state_folder
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.cli.compose import Estate
    from vgpu_cfg.cli.flows.preparing.request import PlanRequest
    from vgpu_cfg.model.locks import Locks
    from vgpu_cfg.ports import LockKeeper


def list_locks(flags: ConnectionFlags, output: OutputFormat, request: PlanRequest | None) -> None:
    """Show the owners of locks, at a plan's vCenter if there is one; nothing is changed."""
    connection = server_of(flags, request.desired if request is not None else None)
    with compose.connect_reader(connection) as reader:
        found = reader.read_locks()
    if found is not None:
        show_history.locks(found, output, server=connection.server)


def unlock(
    flags: ConnectionFlags, start: str, output: OutputFormat, *, force: bool, yes: bool, dry_run: bool
) -> None:
    """Remove the locks of one run, by its id or the beginning of it; vCenter's events then record the run.

    Nothing is done if they are removed already. Raises NotFound for an unknown id, Locked if the run was
    active lately and `force` is not given, or if changes are frozen, NotPermitted if the account may not
    remove them: then events do not record the run either.
    """
    from vgpu_cfg.execution import refuse_frozen, remove_locks

    connection = resolve_connection(flags)
    with compose.connect_writer(connection) as estate:
        found = estate.locks.read()
        run = _chosen(found, start)
        if not run:
            _refuse_unknown(found, start, connection.server, estate)
            show_history.removed(start, (), output)
            return
        is_json = output is OutputFormat.JSON
        if dry_run and is_json:
            show_history.locks(found, output, server=connection.server)
            return
        if not is_json or not yes:
            show_history.of_run(found, run, to_people=is_json)
        refuse_frozen(found)
        _refuse_alive(found, run, force=force)
        refuse_missing(estate.locks, to="remove locks", to_remove=True)
        if dry_run:
            return
        count = len(found.of_run(run))
        ask(f"Remove {'this lock' if count == 1 else f'these {count} locks'}?", yes=yes)
        found = estate.locks.read()  # an answer may take a night
        refuse_frozen(found)
        _refuse_alive(found, run, force=force)
        removed = remove_locks(run, found, estate.locks, estate.run_log, estate.clock, show.say)
    show_history.removed(run, removed, output)


def _chosen(found: Locks, start: str) -> str:
    """Return the run that is meant, empty if no run of this id holds a lock."""
    runs = [run for run in found.runs if run.startswith(start)]
    if start in runs or len(runs) < 2:
        return start if start in runs else "".join(runs)
    raise NotFound(
        f"{len(runs)} runs with locks have an ID that begins with {start!r}",
        subject=found.server,
        remedy=f"enter more characters: {', '.join(runs)}",
    )


def _refuse_unknown(found: Locks, start: str, server: str, estate: Estate) -> None:
    """Raise NotFound unless vCenter's events list the run: then its locks are removed already."""
    if estate.run_log.has_run(start):
        return
    raise NotFound(
        f"no run with the ID {start!r} holds a lock",
        subject=server,
        remedy=f"runs with locks: {', '.join(found.runs)}"
        if found.runs
        else "nothing to do: no run holds a lock",
    )


def refuse_missing(keeper: LockKeeper, *, to: str, to_remove: bool) -> None:
    """Raise NotPermitted if the account lacks a privilege for alarms."""
    missing = keeper.missing_privileges(to_remove=to_remove)
    if missing:
        raise NotPermitted(
            f"the account lacks {', '.join(missing)}, required to {to}",
            subject=keeper.place,
            remedy="grant it on that object, or use an account that has it",
        )


def _refuse_alive(found: Locks, run: str, *, force: bool) -> None:
    from vgpu_cfg.execution import has_ended, this_machine

    folder = state_folder() / "locks"
    holders = [lock.holder for lock in found.of_run(run) if lock.holder is not None]
    if force or not holders or found.is_silent(run) or has_ended(folder, holders[0], this_machine()):
        return
    seconds = round((found.now - found.beat_of(run)).total_seconds())
    raise Locked(
        f"run {run} was active {seconds} s ago and may still be in progress",
        subject=f"run {run}",
        remedy="stop it on the machine that runs it (Ctrl-C, or cancel its job). If you are sure that its "
        "process has ended, add --force to remove its locks now",
    )


def freeze(
    flags: ConnectionFlags,
    until: str,
    occasion: Occasion,
    output: OutputFormat,
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    """Keep a freeze in vCenter, or only show it. Runs that hold locks continue, and are shown.

    Raises Locked if a freeze is in force, NotPermitted if the account may create no alarms.
    """
    from vgpu_cfg.execution import refuse_frozen, this_machine, this_user

    moment = moment_of(until)
    if moment is None:
        raise typer.BadParameter(f"{until!r} is not a date such as 2027-01-07", param_hint="--until")
    if not occasion.reason:
        raise typer.BadParameter("specify a short reason", param_hint="--reason")
    connection = resolve_connection(flags)
    refuse_unstated(connection, occasion)
    with compose.connect_writer(connection) as estate:
        found = estate.locks.read()
        made = Freeze(
            until=moment,
            reason=occasion.reason,
            change=occasion.change,
            user=this_user(),
            machine=this_machine(),
            since=found.now,
        )
        if moment <= found.now:
            message = f"{until} is in the past: vCenter's time is {found.now:%Y-%m-%d %H:%M} UTC"
            raise typer.BadParameter(message, param_hint="--until")
        if (over := len(made.text) - MOST_SIGNS) > 0:
            raise typer.BadParameter(f"it is {over} characters too long", param_hint="--reason")
        refuse_frozen(found)
        refuse_missing(estate.locks, to="freeze a vCenter", to_remove=False)
        if dry_run:
            shown = KeptFreeze(moid="", freeze=made, account=connection.user)
            show_history.freeze(found.model_copy(update={"freezes": (shown,)}), output)
            return
        ask(f"Freeze {found.server} until {until}?", yes=yes or not sys.stdin.isatty())
        for ended in found.freezes:
            estate.locks.remove(ended.moid)
        is_first = estate.locks.freeze(made)
        found = estate.locks.read()
        if not is_first:
            refuse_frozen(found)
            message = "another freeze is being started or ended"
            raise Locked(message, subject=found.server, remedy="run the same command again")
        _record(estate, "freeze", occasion, made)
    show_history.freeze(found, output)


def thaw(
    flags: ConnectionFlags, occasion: Occasion, output: OutputFormat, *, yes: bool, dry_run: bool
) -> None:
    """Show the freeze, ask, and end it. Nothing is done if there is none.

    Raises NotPermitted if the account may remove no alarms.
    """
    from vgpu_cfg.execution import this_machine, this_user

    connection = resolve_connection(flags)
    refuse_unstated(connection, occasion)
    with compose.connect_writer(connection) as estate:
        found = estate.locks.read()
        if found.freezes:
            if dry_run:
                show_history.freeze(found, output)
                return
            if output is OutputFormat.TEXT or not yes:
                show_history.freeze(found, OutputFormat.TEXT, sys.stderr if output == "json" else None)
            refuse_missing(estate.locks, to="end a freeze", to_remove=True)
            ask("End this freeze?", yes=yes)
        ended: list[KeptFreeze] = []
        for kept in found.freezes:
            estate.locks.remove(kept.moid)
            ended.append(kept)
        if ended:
            author = Freeze(
                until=found.now, reason="", user=this_user(), machine=this_machine(), since=found.now
            )
            _record(estate, "freeze --thaw", occasion, author)
    show_history.thawed(ended, output)


def _record(estate: Estate, command: str, occasion: Occasion, author: Freeze) -> None:
    """Record a command as an event of vCenter, which `history` shows; report if that fails."""
    entry = RunEntry(
        run=estate.run,
        at=author.since,
        began_at=author.since,
        command=command,
        occasion=occasion,
        user=author.user,
        machine=author.machine,
        changes=1,
        done=1,
        result=RunResult.DONE,
    )
    try:
        estate.run_log.write(entry.text)
    except VCenterError as error:
        show.say(f"`{command}` was not recorded as a vCenter event: {error.message}")
