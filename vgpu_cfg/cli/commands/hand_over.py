"""`vgpu-cfg hand-over`: the list of a plan's hosts in the formats of other tools."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vgpu_cfg.cli.options.shared import OutputFormat, OutputOption, PlanArgument, connected, planned
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from collections.abc import Mapping


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


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="vgpu-cfg hand-over plan.yaml --format horovod > hostfile  # a host file\n\n"
        "vgpu-cfg hand-over plan.yaml --format torchrun --to scripts  # scripts\n\n"
        "vgpu-cfg hand-over plan.yaml --format ansible --login ubuntu --identity-file ~/.ssh/id_ed25519"
        "  # an inventory"
    )(hand_over)


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
            help="Path to the account's private key, as written to the files.",
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
