"""How hosts are cordoned and given back: read, plan, carry out under one lock of the vCenter, tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows.flow import locked, refuse_errors, refuse_missing_privileges
from vgpu_cfg.cli.flows.run_flow import ApplyOptions, Work, ask, carry_out, read_back_of
from vgpu_cfg.cli.options.shared import CommandOptions, OutputFormat
from vgpu_cfg.cli.output import show
from vgpu_cfg.errors import NotConfirmed
from vgpu_cfg.model.observed.cordon import MOST_CHARACTERS
from vgpu_cfg.settings.connection import resolve_connection
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.model.observed.inventory import Inventory
    from vgpu_cfg.model.plan.change import Plan

_LOCK = "hosts"
"""The name under which one run at a time works on the hosts of a vCenter."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What is asked of hosts: `plan_for` says what that comes to, `verb` what was typed.

    `question` is asked before what disturbs, "" where nothing does.
    """

    verb: str
    plan_for: Callable[[Inventory], Plan]
    question: str = ""


def cordon(flags: ConnectionFlags, targets: Sequence[str], reason: str, output: OutputFormat) -> int:
    """Keep new VMs off hosts and GPUs."""
    from vgpu_cfg.planning.upkeep.cordon import make_cordon_plan
    from vgpu_cfg.planning.upkeep.targets import targets_of

    reason = checked_reason(reason)
    work = Upkeep("cordon", lambda seen: make_cordon_plan(targets_of(targets, seen), seen, reason))
    return _work(work, flags, output)


def uncordon(flags: ConnectionFlags, targets: Sequence[str], output: OutputFormat) -> int:
    """Give hosts and GPUs back."""
    from vgpu_cfg.planning.upkeep.cordon import make_uncordon_plan
    from vgpu_cfg.planning.upkeep.targets import targets_of

    work = Upkeep("uncordon", lambda seen: make_uncordon_plan(targets_of(targets, seen), seen))
    return _work(work, flags, output)


def checked_reason(text: str) -> str:
    """Return a reason on one line. Raises BadParameter for one that is empty, or too long to be kept."""
    reason = " ".join(text.split())
    if not reason:
        raise typer.BadParameter("say why, in a few words", param_hint="--reason")
    if len(reason) > _MOST_REASON:
        raise typer.BadParameter(
            f"it has {len(reason)} characters, and {_MOST_REASON} are kept", param_hint="--reason"
        )
    return reason


_MOST_REASON = MOST_CHARACTERS - 135
"""What the address, the account and the time leave of a cordon's text."""


def _work(asked: Upkeep, flags: ConnectionFlags, output: OutputFormat) -> int:
    from vgpu_cfg.execution import exit_code_of
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.ports import ReadScope

    connection = resolve_connection(flags)
    how = ApplyOptions(
        path=Path(), yes=True, parallel=8, per_host=2, output=output, options=CommandOptions(flags)
    )
    with compose.connect_writer(connection) as estate:
        scope = ReadScope(datacenter=connection.datacenter)
        observed = estate.reader.read_inventory(scope)
        one_at_a_time = DesiredPlan(name=_LOCK, vcenter=connection.server)
        with locked(one_at_a_time, observed, estate):
            plan = asked.plan_for(observed)
            refuse_errors(plan)
            if not plan.changes:
                show.upkeep(plan, None, output)
                return 0
            refuse_missing_privileges(plan, observed, estate.reader)
            if asked.question:
                ask(asked.question, yes=how.yes)
            work = Work(
                plan,
                observed,
                asked.plan_for,
                lambda: estate.reader.read_inventory(scope),
                asked.question,
                asked.verb,
            )
            report, journal = carry_out(work, estate, how)
            after = read_back_of(work)
            show.upkeep(plan, report, output, journal=journal)
            left = asked.plan_for(after) if after is not None else None
            if not exit_code_of(report) and left is not None and left.changes:
                first = left.changes[0]
                raise NotConfirmed(
                    f"every change was made, and {first.id} would be made again",
                    subject=f"{first.subject.kind} {first.subject.name}",
                    remedy="look at the custom attributes of the host in vCenter for who else sets them",
                )
            return exit_code_of(report)
