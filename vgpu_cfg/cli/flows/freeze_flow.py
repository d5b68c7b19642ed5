"""Freeze a vCenter for all vgpu-cfg, and thaw it: both are recorded in vCenter's events."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows.running.run_flow import ask
from vgpu_cfg.cli.flows.running.unlock_flow import refuse_missing
from vgpu_cfg.cli.kept.occasions import refuse_unstated
from vgpu_cfg.cli.options.shared import OutputFormat
from vgpu_cfg.cli.output import show, show_history
from vgpu_cfg.errors import Locked, VCenterError
from vgpu_cfg.model.choices import Occasion
from vgpu_cfg.model.frozen import moment_of
from vgpu_cfg.model.locks import MOST_SIGNS, Freeze, KeptFreeze
from vgpu_cfg.model.runs import RunEntry, RunResult
from vgpu_cfg.settings.connection import resolve_connection
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.cli.compose import Estate


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
