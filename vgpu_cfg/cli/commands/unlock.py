"""`vgpu-cfg unlock`: which runs have locked something, and how the locks of a dead one are removed."""

from __future__ import annotations

from typing import Annotated

import typer

from vgpu_cfg.cli.options.shared import DryRunOption, OutputFormat, OutputOption, YesOption, connected
from vgpu_cfg.settings.flags import ConnectionFlags


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="vgpu-cfg unlock --server vc01.example.com  # list locks\n\n"
        "vgpu-cfg unlock 6392edd69034 --server vc01.example.com  # remove those of a run"
    )(unlock)


@connected()
def unlock(
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="The run whose locks to remove; omit it to list all locks."),
    ] = None,
    *,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help=("Remove the locks of a run even if it was active recently; only use this if it has ended."),
        ),
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
) -> None:
    """Remove locks left by an interrupted run; without a run, list all locks."""
    from vgpu_cfg.cli.flows.running import unlock_flow

    if run is None:
        unlock_flow.list_locks(connection, output)
    else:
        unlock_flow.unlock(connection, run, output, force=force, yes=yes, dry_run=dry_run)
