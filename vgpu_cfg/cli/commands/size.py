"""Estimate a model's requirements before purchase."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vgpu_cfg.cli.options.shared import OutputFormat, OutputOption, connected, planned
from vgpu_cfg.planning.sizing.standing import Model, Optimizer, Precision, Sharding
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpu_cfg.model.observed.inventory import Host


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="vgpu-cfg size --parameters 7e9 --workers 8  # a model of 7 billion parameters\n\n"
        "vgpu-cfg size --parameters 1.3e9 --sequence 2048 --batch 4 --workers 4 --board A100"
        "  # on one board\n\n"
        "vgpu-cfg size --parameters 70e9 --workers 64 --precision fp8 --sharding fsdp  # sharded\n\n"
        "vgpu-cfg size --framebuffer 40GiB --workers 4  # by GPU memory\n\n"
        "vgpu-cfg size a100 --server lab:mixed-fleet  # room for more"
    )(size)


@connected(recordings=True)
@planned
def size(
    of: Annotated[
        str | None,
        typer.Argument(
            metavar="[PLAN|CLUSTER]",
            help="Instead of a model: show rack space and power for the hosts of this plan or cluster.",
            show_default=False,
        ),
    ] = None,
    *,
    parameters: Annotated[
        float | None,
        typer.Option(
            "--parameters", min=1e6, max=1e13, help="Number of parameters (7e9).", show_default=False
        ),
    ] = None,
    framebuffer: Annotated[
        str | None,
        typer.Option(
            "--framebuffer",
            help="Instead of --parameters: the framebuffer each worker needs (40GiB).",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option("--workers", min=1, max=100_000, help="Number of workers, each with one GPU or vGPU."),
    ] = 1,
    precision: Annotated[
        Precision, typer.Option("--precision", help="The numeric format for training.")
    ] = Precision.BF16,
    optimizer: Annotated[Optimizer, typer.Option("--optimizer", help="The optimizer.")] = Optimizer.ADAMW,
    sharding: Annotated[
        Sharding,
        typer.Option("--sharding", help="The states that replicas share. `fsdp` is the same as `zero3`."),
    ] = Sharding.NONE,
    lora: Annotated[
        int,
        typer.Option(
            "--lora",
            metavar="RANK",
            min=0,
            max=4096,
            help="Train only LoRA adapters of this rank. 0 trains all parameters.",
        ),
    ] = 0,
    sequence: Annotated[int, typer.Option("--sequence", min=1, help="Tokens per sequence.")] = 4096,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Sequences per replica and step.")] = 1,
    boards: Annotated[
        list[str] | None, typer.Option("--board", help="Only boards that match, by key or name.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every candidate.")] = False,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
) -> None:
    """Estimate the GPUs, step time, rack space and power that a model needs."""
    if of is not None:
        if parameters is not None or framebuffer is not None or boards:
            raise typer.BadParameter(
                "can be combined only with --output and the connection options", param_hint="OF"
            )
        _show_room(of, connection, variables, variable_files, output)
        return
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.catalog.servers import load_board_power, load_servers
    from vgpu_cfg.cli.options.profiles import matching_boards
    from vgpu_cfg.cli.output import show
    from vgpu_cfg.planning.sizing.candidates import size_framebuffer, size_model
    from vgpu_cfg.render.data.pool import size_data
    from vgpu_cfg.render.text.pool.fit import render_size

    if (parameters is None) == (framebuffer is None):
        raise typer.BadParameter("specify --parameters or --framebuffer", param_hint="--parameters")
    catalog = load_catalog()
    wanted = {board.key: board for pattern in boards or ("*",) for board in matching_boards(pattern, catalog)}
    power, servers = load_board_power(), load_servers()
    model = None
    if parameters is not None:
        model = Model(round(parameters), precision, optimizer, sequence, batch, sharding, lora)
        found = size_model(model, workers, wanted.values(), power, servers)
    else:
        found = size_framebuffer(_mib(framebuffer or ""), workers, wanted.values(), power, servers)
    if output is OutputFormat.JSON:
        show.data(size_data(model, workers, found))
        return
    show.lines(lambda width: render_size(model, workers, found, width, with_all=verbose))


def _show_room(
    of: str,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
    output: OutputFormat,
) -> None:
    """Show the room's requirements for the hosts of a cluster, or of the clusters of a plan's VMs."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.catalog.servers import load_board_power, load_servers
    from vgpu_cfg.cli.flows import flow
    from vgpu_cfg.cli.flows.preparing.request import read_request
    from vgpu_cfg.cli.options.hosts import wanted_hosts
    from vgpu_cfg.cli.output import show
    from vgpu_cfg.planning.sizing.standing import standing_hosts
    from vgpu_cfg.render.data.pool import room_data
    from vgpu_cfg.render.text.pool.fit import render_room
    from vgpu_cfg.settings.connection import resolve_connection

    if Path(of).is_file():
        request = read_request(Path(of), variables, variable_files)
        desired, observed = flow.read_of(request, connection)
        clusters = list(dict.fromkeys(name for vm in desired.vms for name in vm.clusters))
    else:
        observed, clusters = flow.read_all(resolve_connection(connection)), [of.removeprefix("cluster:")]
    is_wanted = wanted_hosts(observed, hosts=(), clusters=clusters)
    hosts: Sequence[Host] = [host for host in observed.hosts if is_wanted(host.name)]
    found = standing_hosts(hosts, load_catalog(), load_board_power(), load_servers())
    address = observed.vcenter.address
    if output is OutputFormat.JSON:
        show.data(room_data(found, clusters, address))
    else:
        show.lines(lambda width: render_room(found, clusters, address, width))


def _mib(text: str) -> int:
    from vgpu_cfg.model.plan_file.values import parse_size

    try:
        return parse_size(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--framebuffer") from None
