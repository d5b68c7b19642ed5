"""`vgpu-cfg export`: a plan file for VMs and hosts that are there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from vgpu_cfg.cli.options.shared import (
    OutputFormat,
    OutputOption,
    UpdateOptions,
    YesOption,
    connected,
    planned,
)
from vgpu_cfg.settings.flags import ConnectionFlags


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="vgpu-cfg export --server vc01.example.com --cluster gpu -o gpu.yaml  # a cluster\n\n"
        "vgpu-cfg export --server lab:two-a100 --vm 'train-*' --template ubuntu-22.04-efi  # some VMs\n\n"
        "vgpu-cfg export --from vcenter.json  # offline\n\n"
        "vgpu-cfg export --init --server lab:two-a100 -o first.yaml  # a first plan file"
    )(export)


@connected(recordings=True)
@planned
def export(
    *,
    clusters: Annotated[
        list[str] | None,
        typer.Option("--cluster", metavar="WHAT", help="Only objects in these clusters (gpu*)."),
    ] = None,
    folders: Annotated[
        list[str] | None,
        typer.Option(
            "--folder", help="Only VMs in or below folders that match this glob, such as students/ml26."
        ),
    ] = None,
    vms: Annotated[
        list[str] | None,
        typer.Option("--vm", metavar="WHAT", help="Only these VMs (train-*), or those of KIND:NAME."),
    ] = None,
    hosts: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="WHAT", help="Only these hosts (esx-0*) and their VMs."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            help="The plan's name; the default is the plan that owns the VMs, or `exported`.",
            show_default=False,
        ),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option("--template", help="The template for recreating VMs that are lost.", show_default=False),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="Where to write the plan file.", show_default=False),
    ] = None,
    init: Annotated[
        bool,
        typer.Option(
            "--init",
            help="Write a first plan file instead, with a template and a free vGPU of this vCenter; "
            "and a config file, if there is none.",
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    update: Annotated[
        Path | None,
        typer.Option(
            "--update",
            metavar="PLAN",
            help="Write the current state of the VMs named with --vm into this plan file; keep its comments.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --update: show the changed lines; write nothing.")
    ] = False,
    yes: YesOption = False,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
) -> None:
    """Write a plan file that describes existing VMs and hosts; applying it changes nothing."""
    if init:
        beside = (clusters, folders, vms, hosts, name, template, update, connection.recording, force or None)
        if to is None or any(one is not None for one in beside):
            raise typer.BadParameter("requires -o and a vCenter, and no other option", param_hint="--init")
        if to.exists():
            raise typer.BadParameter(f"{to} already exists", param_hint="-o")
        from vgpu_cfg.cli.flows.files import init_flow

        init_flow.write_first(to, connection)
        return
    if update is not None:
        others = (clusters, folders, hosts, name, template, to, force or None)
        if not vms or any(one is not None for one in others):
            raise typer.BadParameter("requires --vm and no other filter", param_hint="--update")
        chosen = UpdateOptions(tuple(vms), yes=yes, dry_run=dry_run, output=output)
        _update(update, chosen, connection, variables, variable_files)
        return
    if dry_run or yes or variables or variable_files or output is not OutputFormat.TEXT:
        message = "--dry-run, --yes, --set, --vars and --output require --update"
        raise typer.BadParameter(message, param_hint="export")
    from vgpu_cfg.cli.flows.files import export_flow
    from vgpu_cfg.cli.kept.whole_file import write_whole
    from vgpu_cfg.cli.output import show
    from vgpu_cfg.planning.exporting.selection import Choice

    if to is not None and to.exists() and not force:
        raise typer.BadParameter(f"{to} already exists; add --force to overwrite it", param_hint="-o")
    choice = Choice(tuple(clusters or ()), tuple(folders or ()), tuple(vms or ()), tuple(hosts or ()))
    found = export_flow.export(connection, choice, name=_plan_name(name), template=template or "")
    if to is None:
        sys.stdout.write(found.text)
        return
    write_whole(to, found.text, force=force)
    following = f"import {to} --dry-run" if found.strangers else f"plan {to}"
    show.say(f"{to}: {found.what}. Next: vgpu-cfg {following}")


def _update(
    path: Path,
    options: UpdateOptions,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
) -> None:
    """Write the findings into a plan file; exit with the code of differences if some remain."""
    from vgpu_cfg.cli.flows import flow
    from vgpu_cfg.cli.flows.files import export_flow

    if not export_flow.update(path, connection, variables, variable_files, options):
        raise typer.Exit(flow.EXIT_DIFFERENCES)


def _plan_name(name: str | None) -> str:
    from vgpu_cfg.model.plan_file.values import check_plan_name

    try:
        return check_plan_name(name) if name else ""
    except ValueError as error:
        raise typer.BadParameter(str(error).replace("\n", "; "), param_hint="--name") from error
