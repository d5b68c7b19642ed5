"""The command that says what a model would take before anything is bought."""

from __future__ import annotations

from typing import Annotated

import typer

from vgpu_cfg.cli.options.shared import OutputFormat, OutputOption
from vgpu_cfg.planning.sizing.memory import Model, Optimizer, Precision


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="vgpu-cfg size --parameters 7e9 --workers 8\n\n"
        "vgpu-cfg size --parameters 1.3e9 --sequence 2048 --batch 4 --workers 4 --board A100\n\n"
        "vgpu-cfg size --framebuffer 40GiB --workers 4"
    )(size)


def size(
    *,
    parameters: Annotated[
        float | None,
        typer.Option("--parameters", min=1e6, max=1e13, help="The model's (7e9).", show_default=False),
    ] = None,
    framebuffer: Annotated[
        str | None,
        typer.Option("--framebuffer", help="Or what each worker needs (40GiB).", show_default=False),
    ] = None,
    workers: Annotated[
        int, typer.Option("--workers", min=1, max=100_000, help="Workers, each with one GPU or vGPU.")
    ] = 1,
    precision: Annotated[
        Precision, typer.Option("--precision", help="The format that is computed in.")
    ] = Precision.BF16,
    optimizer: Annotated[
        Optimizer, typer.Option("--optimizer", help="What is remembered of each parameter.")
    ] = Optimizer.ADAMW,
    sequence: Annotated[int, typer.Option("--sequence", min=1, help="Tokens of a sequence.")] = 4096,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Sequences of a replica in a step.")] = 1,
    boards: Annotated[
        list[str] | None, typer.Option("--board", help="Only boards that match, by key or name.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every candidate.")] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Estimate which profiles or GPUs a model takes, how long a step lasts, and what it takes of the room."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.catalog.servers import load_board_power, load_servers
    from vgpu_cfg.cli.options.profiles import matching_boards
    from vgpu_cfg.cli.output import show
    from vgpu_cfg.planning.sizing.candidates import size_framebuffer, size_model
    from vgpu_cfg.render.data.sizing import size_data
    from vgpu_cfg.render.text.sizing import render_size

    if (parameters is None) == (framebuffer is None):
        raise typer.BadParameter("say --parameters or --framebuffer", param_hint="--parameters")
    catalog = load_catalog()
    wanted = {board.key: board for pattern in boards or ("*",) for board in matching_boards(pattern, catalog)}
    power, servers = load_board_power(), load_servers()
    model = None
    if parameters is not None:
        model = Model(round(parameters), precision, optimizer, sequence, batch)
        found = size_model(model, workers, wanted.values(), power, servers)
    else:
        found = size_framebuffer(_mib(framebuffer or ""), workers, wanted.values(), power, servers)
    if output is OutputFormat.JSON:
        show.data(size_data(model, workers, found))
        return
    show.lines(lambda width: render_size(model, workers, found, width, with_all=verbose))


def _mib(text: str) -> int:
    from vgpu_cfg.model.plan_file.values import parse_size

    try:
        return parse_size(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--framebuffer") from None
