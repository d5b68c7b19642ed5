"""`vgpu-cfg metrics`: the estate as Prometheus' metrics, once or until the command is stopped."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from vgpu_cfg.cli.options.shared import connected
from vgpu_cfg.settings.flags import ConnectionFlags

_LOOPBACK = "127.0.0.1"
_PLACE = re.compile(r"(?:(?P<address>[^:\[\]]+|\[[0-9a-fA-F:.]+\]):)?(?P<port>\d{1,5})")
_LAST_PORT = 65_535


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="vgpu-cfg metrics --once --server lab:two-a100  # print once\n\n"
        "vgpu-cfg metrics --listen 9478 --server vc01.example.com  # serve\n\n"
        "vgpu-cfg metrics --once --to /var/lib/node_exporter/vgpu.prom --server vc01.example.com"
        "  # write a file"
    )(metrics)


@connected()
def metrics(
    plans: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PLAN...]", help="Plan files to report drift for.", show_default=False),
    ] = None,
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Print the metrics once, in Prometheus format.")
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="FILE",
            help="With --once: write them to this file atomically, for the text-file collector.",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="[ADDRESS:]PORT",
            help="Serve /metrics until Ctrl-C; the default address is 127.0.0.1.",
        ),
    ] = None,
    every: Annotated[
        float,
        typer.Option(
            "--every", min=1, help=("With --listen: minimum number of seconds between vCenter reads.")
        ),
    ] = 60.0,
    days: Annotated[
        float,
        typer.Option(
            "--days", min=0.05, max=365, help="Number of days over which mean GPU usage is calculated."
        ),
    ] = 7.0,
    idle_below: Annotated[
        float,
        typer.Option("--idle-below", metavar="PERCENT", min=0, max=100, help="Same as for inventory."),
    ] = 1.0,
    connection: ConnectionFlags,
) -> None:
    """Export capacity, usage, drift and the latest runs as Prometheus metrics."""
    if once == (listen is not None):
        raise typer.BadParameter("specify either --once or --listen", param_hint="--once")
    if to is not None and not once:
        raise typer.BadParameter("requires --once", param_hint="--to")
    address, port = _place(listen) if listen is not None else ("", 0)
    from vgpu_cfg.cli.flows import metrics_flow
    from vgpu_cfg.cli.flows.metrics_flow import read_metrics
    from vgpu_cfg.cli.output import show
    from vgpu_cfg.render.metrics import Site

    def read() -> Site:
        return read_metrics(connection, plans or (), days=days, idle_below=idle_below)

    if once:
        text = metrics_flow.as_text(read())
        if to is None:
            metrics_flow.write(text)
        else:
            from vgpu_cfg.cli.kept.whole_file import write_whole

            write_whole(to, text, mode=0o644)
            show.say(f"{to}: written")
        return
    import threading

    collector = metrics_flow.SiteCollector(read, every_seconds=every)
    with metrics_flow.listening(collector, address, port) as at:
        show.say(f"listening at http://{address}:{at}/metrics; press Ctrl-C to stop")
        threading.Event().wait()


def _place(text: str) -> tuple[str, int]:
    """Read where to listen. Raises BadParameter."""
    found = _PLACE.fullmatch(text)
    if found is None or int(found["port"]) > _LAST_PORT:
        message = f"{text!r} is neither a port such as 9478 nor an address and port such as 10.0.0.5:9478"
        raise typer.BadParameter(message, param_hint="--listen")
    return (found["address"] or _LOOPBACK).strip("[]"), int(found["port"])
