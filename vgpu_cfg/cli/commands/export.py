"""`vgpu-cfg export` and `hand-over`: a plan file for existing VMs, and a plan's hosts for other tools."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vgpu_cfg.cli.options.shared import (
    OutputFormat,
    OutputOption,
    PlanArgument,
    UpdateOptions,
    YesOption,
    connected,
    planned,
)
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from collections.abc import Mapping


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        epilog="vgpu-cfg export --server vc01.example.com --cluster gpu -o gpu.yaml  # a cluster\n\n"
        "vgpu-cfg export --server lab:two-a100 --vm 'train-*' --template ubuntu-22.04-efi  # some VMs\n\n"
        "vgpu-cfg export --from vcenter.json  # offline\n\n"
        "vgpu-cfg export --init --server lab:two-a100 -o first.yaml  # a first plan file"
    )(export)
    app.command(
        epilog="vgpu-cfg hand-over plan.yaml --format horovod > hostfile  # a host file\n\n"
        "vgpu-cfg hand-over plan.yaml --format torchrun --to scripts  # scripts\n\n"
        "vgpu-cfg hand-over plan.yaml --format ansible --login ubuntu --identity-file ~/.ssh/id_ed25519"
        "  # an inventory"
    )(hand_over)


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
        typer.Option("--vm", metavar="WHAT", help="Only these VMs (train-*), or VMs of KIND:NAME."),
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
        typer.Option("--template", help="The template for recreating lost VMs.", show_default=False),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="Where to write the plan file.", show_default=False),
    ] = None,
    init: Annotated[
        bool,
        typer.Option(
            "--init",
            help="Instead, write a first plan file with a template and a free vGPU from this vCenter, and "
            "a config file if none exists.",
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    update: Annotated[
        Path | None,
        typer.Option(
            "--update",
            metavar="PLAN",
            help="Update this plan file with the current state of the VMs specified with --vm; keep its "
            "comments.",
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
            raise typer.BadParameter(
                "requires -o and a vCenter, and accepts no other option", param_hint="--init"
            )
        if to.exists():
            raise typer.BadParameter(f"{to} already exists", param_hint="-o")
        from vgpu_cfg.cli.flows.files import export_flow

        export_flow.write_first(to, connection)
        return
    if update is not None:
        others = (clusters, folders, hosts, name, template, to, force or None)
        if not vms or any(one is not None for one in others):
            raise typer.BadParameter("requires --vm and accepts no other filter", param_hint="--update")
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
    following = f"vgpu-cfg import {to} --dry-run" if found.strangers else f"vgpu-cfg plan {to}"
    if found.others:
        following = (
            f"export the VMs of each plan ({', '.join(found.others)}) to its own file, with --vm, because "
            "`import` refuses other plans' VMs; then the rest"
        )
    show.say(f"{to}: {found.what}. Next: {following}")


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


class ExportFormat(StrEnum):
    """Whose format is written."""

    HOROVOD = "horovod"
    MPI = "mpi"
    TORCHRUN = "torchrun"
    TF_CONFIG = "tf-config"
    SLURM = "slurm"
    KUBERNETES = "kubernetes"
    ANSIBLE = "ansible"
    SKYPILOT = "skypilot"
    DSTACK = "dstack"


@connected(recordings=True)
@planned
def hand_over(
    path: PlanArgument,
    *,
    format_: Annotated[
        ExportFormat,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help=f"The target tool: {', '.join(ExportFormat)}.",
            show_default=False,
        ),
    ],
    to: Annotated[
        Path | None, typer.Option("--to", help="Write the files to this folder.", show_default=False)
    ] = None,
    login: Annotated[
        str | None,
        typer.Option("--login", help="The guest account to use instead of the plan's.", show_default=False),
    ] = None,
    identity_file: Annotated[
        str | None,
        typer.Option(
            "--identity-file",
            help="Path to the account's private key, as it will appear in the files.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=1,
            max=65535,
            help="Rendezvous port, for torchrun and tf-config.",
            show_default=False,
        ),
    ] = None,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
) -> None:
    """Write the plan's VMs as a host file, inventory or pool for another tool."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.cli.flows import flow
    from vgpu_cfg.cli.flows.preparing.request import read_request
    from vgpu_cfg.cli.kept.whole_file import write_whole
    from vgpu_cfg.cli.output import show
    from vgpu_cfg.model.ranges import fold_names
    from vgpu_cfg.planning.guests.host_list import make_host_list
    from vgpu_cfg.render.data.documents import hand_over_data
    from vgpu_cfg.staging.export import FORMATS, ExportOptions

    if port is not None and format_ not in (ExportFormat.TORCHRUN, ExportFormat.TF_CONFIG):
        raise typer.BadParameter("requires --format torchrun or tf-config", param_hint="--port")
    if to is not None and to.exists() and not to.is_dir():
        raise typer.BadParameter(f"{to} is a file; specify a folder", param_hint="--to")
    desired, observed = flow.read_of(read_request(path, variables, variable_files), connection)
    options = ExportOptions(login or "", identity_file or "", port)
    hosts = make_host_list(desired, observed, load_catalog())
    exported = FORMATS[format_.value].write(hosts, options)
    if output is OutputFormat.JSON:
        show.data(hand_over_data(format_.value, hosts, exported.files, exported.notes))
    elif to is None:
        _print(exported.files)
    if to is not None:
        to.mkdir(parents=True, exist_ok=True)
        for name, text in exported.files.items():
            write_whole(to / name, text)
            show.say(f"{to / name}: written")
    if output is OutputFormat.JSON:
        return
    if hosts.absent:
        names = fold_names(hosts.absent)
        show.say(f"NOTE   not created yet; details are from the plan file: {names}")
    if hosts.lost:
        show.say(f"NOTE   on an unresponsive host; data may be outdated: {fold_names(hosts.lost)}")
    for note in exported.notes:
        show.say(f"NOTE   {note}")


def _print(files: Mapping[str, str]) -> None:
    """Print one file unchanged; several each under its name, as `head` does."""
    for index, (name, text) in enumerate(files.items()):
        if len(files) > 1:
            sys.stdout.write(f"{chr(10) if index else ''}==> {name} <==\n")
        sys.stdout.write(text)
