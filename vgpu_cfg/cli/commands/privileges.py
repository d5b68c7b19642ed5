"""`vgpu-cfg privileges`: what each command needs of vCenter for a plan, and the roles that hold just that."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vgpu_cfg.cli.options.shared import (
    AllowOption,
    CommandOptions,
    MoveOption,
    PowerCycleOption,
    connected,
    planned,
    steps_of,
)
from vgpu_cfg.planning.privileges import Command
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.planning.privileges import Role

EXIT_UNPROVEN = 9
"""The account has all known privileges, and errors hide further ones that `apply` needs."""


class RoleFormat(StrEnum):
    """The command's output format on standard output."""

    TEXT = "text"
    JSON = "json"
    GOVC = "govc"
    POWERCLI = "powercli"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="vgpu-cfg privileges plan.yaml  # list them\n\n"
        "vgpu-cfg privileges plan.yaml --for apply --output govc > roles.sh  # roles by govc\n\n"
        "vgpu-cfg privileges plan.yaml --any-state --output powercli > roles.ps1  # by PowerCLI\n\n"
        "vgpu-cfg privileges --trial objects --output govc > trial.sh  # for trials"
    )(privileges)


@connected(recordings=True)
@planned
def privileges(
    path: Annotated[
        Path | None, typer.Argument(metavar="PLAN", help="The plan file.", show_default=False)
    ] = None,
    *,
    trial: Annotated[
        str | None,
        typer.Option(
            "--trial",
            metavar="STEPS",
            help="Without a plan: list the privileges for these steps of `trial`, separated by commas.",
            show_default=False,
        ),
    ] = None,
    for_: Annotated[
        list[Command] | None,
        typer.Option(
            "--for", help="Only list privileges for this command; can be repeated.", show_default=False
        ),
    ] = None,
    any_state: Annotated[
        bool,
        typer.Option(
            "--any-state",
            help="List all privileges that the plan file could require, without contacting a vCenter.",
        ),
    ] = False,
    required: Annotated[bool, typer.Option("--required", help="Omit optional privileges.")] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Exit with 5 if the account lacks a privilege, or with 9 if this cannot be fully "
            "determined.",
        ),
    ] = False,
    allow_power_cycle: PowerCycleOption = False,
    allow_move: MoveOption = False,
    allow: AllowOption = None,
    output: Annotated[
        RoleFormat,
        typer.Option(
            "--output", help="Print text, JSON, or a script that creates the roles: govc, powercli."
        ),
    ] = RoleFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
) -> None:
    """List the vCenter privileges that a plan requires, with their objects, and generate the roles."""
    from vgpu_cfg.cli.flows.preparing.request import read_request
    from vgpu_cfg.cli.flows.roles import WhatFor, roles_for, roles_of_file, roles_of_trial

    if (path is None) == (trial is None):
        raise typer.BadParameter("specify either a plan file or the steps of a trial", param_hint="--trial")
    if check and (trial is not None or any_state or connection.recording is not None):
        raise typer.BadParameter("a vCenter is needed to check the account", param_hint="--check")
    if path is None:
        steps = steps_of(trial or "")
        _show(roles_of_trial(steps), output, "trial", "any vCenter", steps)
        return
    request = read_request(path, variables, variable_files)
    asked = WhatFor(tuple(for_ or Command), is_bare=required, is_checked=check)
    if any_state:
        roles, server, is_whole = roles_of_file(request.desired, asked), "any state", True
    else:
        options = CommandOptions(
            connection, variables, variable_files, allow_power_cycle, allow_move, allow=tuple(allow or ())
        ).plan_options
        roles, server, is_whole = roles_for(request, connection, options, asked)
    _show(roles, output, request.desired.name, server, asked.commands)
    if check and not is_whole:
        raise typer.Exit(EXIT_UNPROVEN)


def _show(
    roles: Sequence[Role], output: RoleFormat, name: str, server: str, commands: Sequence[StrEnum]
) -> None:
    from vgpu_cfg.cli.output import show
    from vgpu_cfg.render.data.documents import privileges_data
    from vgpu_cfg.render.text.estate.privileges import govc_script, powercli_script, render_privileges

    title = f"Privileges for {name}: {', '.join(commands)}"
    match output:
        case RoleFormat.TEXT:
            show.lines(lambda width: render_privileges(roles, name, server, commands, width))
        case RoleFormat.JSON:
            show.data(privileges_data(roles, name, server))
        case RoleFormat.GOVC:
            sys.stdout.write(govc_script(roles, title=title))
        case RoleFormat.POWERCLI:
            sys.stdout.write(powercli_script(roles, title=title))
