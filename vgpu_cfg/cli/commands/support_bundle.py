"""`vgpu-cfg support-bundle`: the files that a vendor requires when a GPU is returned, in one archive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vgpu_cfg.cli.options.shared import connected, planned
from vgpu_cfg.settings.flags import ConnectionFlags


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "support-bundle",
        epilog="vgpu-cfg support-bundle gpu:esx-01/0000:17:00.0 --plan plan.yaml\n\n"
        "vgpu-cfg support-bundle gpu:esx-01/17:00.0 --plan plan.yaml --scrub -o rma.tar.gz",
    )(support_bundle)


@connected()
@planned
def support_bundle(
    gpu: Annotated[str, typer.Argument(metavar="GPU", help="gpu:HOST/PCI, one GPU.", show_default=False)],
    *,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="PLAN",
            help="The plan file whose `access` logs in to the host and its BMC.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="The archive to write.", show_default=False),
    ] = None,
    scrub: Annotated[
        bool, typer.Option("--scrub", help="Replace names and addresses of the site; serials are kept.")
    ] = False,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
) -> None:
    """Collect a GPU's serial, nvidia-smi, Xids, host and BMC logs, and history for an RMA. Read-only."""
    from rich.text import Text

    from vgpu_cfg.cli.flows.bundle_flow import collect, save
    from vgpu_cfg.cli.flows.preparing.request import read_request
    from vgpu_cfg.cli.output import show
    from vgpu_cfg.render.layout.lines import fold

    request = read_request(plan, variables, variable_files) if plan is not None else None
    bundle = collect(connection, gpu, request)
    path = out or Path(f"support-{bundle.pci_id.replace(':', '-')}.tar.gz")
    told = [Text(line) for line in save(bundle, path, scrub=scrub)]
    show.lines(lambda width: [line for text in told for line in fold(text, width, hang=2)])
