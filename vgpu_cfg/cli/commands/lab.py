"""`vgpu-cfg lab`: the simulated vCenter, served to others, listed and reset."""

from __future__ import annotations

from typing import Annotated

import typer

from vgpu_cfg.cli.options.shared import OutputFormat, OutputOption
from vgpu_cfg.settings.connection import LAB_ADDRESS, LAB_PORT

app = typer.Typer(
    help="A simulated vCenter with GPUs, for learning and rehearsal: --server lab:two-a100.",
    no_args_is_help=True,
)


def register(within: typer.Typer) -> None:
    """Add the commands of the lab, as a group."""
    within.add_typer(app, name="lab")


@app.command(name="list", epilog="vgpu-cfg inventory --server lab:mixed-fleet  # hosts, GPUs and NICs")
def list_estates(*, output: OutputOption = OutputFormat.TEXT) -> None:
    """List the built-in estates."""
    from vgpu_cfg.cli import labs
    from vgpu_cfg.cli.output import show

    show.estates(labs.lab_estates(), output)


@app.command(epilog="vgpu-cfg lab serve two-a100 --port 8989  # for govc")
def serve(
    estate: Annotated[str, typer.Argument(help="A built-in estate or an estate file.")] = "two-a100",
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 selects a free one.")] = LAB_PORT,
    address: Annotated[str, typer.Option(help="The address to listen on.")] = LAB_ADDRESS,
    ssh: Annotated[
        bool, typer.Option("--ssh", help="Also provide SSH access to the hosts' shells on loopback.")
    ] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Serve the lab over HTTPS to any vSphere client, such as govc, until Ctrl-C."""
    from vgpu_cfg.cli import labs
    from vgpu_cfg.cli.output import show

    with labs.serve_lab(estate, address, port, with_ssh=ssh) as served:
        show.served(served, output)
        served.wait()


@app.command(
    epilog="vgpu-cfg lab hand bare esx-r12-03.lab esx-r12-04.lab --bios sriov=on --power-on"
    "  # set up servers\n\n"
    "vgpu-cfg lab hand two-hosts-roce esx-roce-02.lab --fail  # a host fails"
)
def hand(
    estate: Annotated[str, typer.Argument(help="A built-in estate or an estate file.")],
    hosts: Annotated[list[str], typer.Argument(metavar="HOST...", help="The servers.")],
    *,
    bios: Annotated[
        list[str] | None,
        typer.Option(metavar="FACT=on|off", help="Set sriov, above_4g or iommu in the BIOS."),
    ] = None,
    power_on: Annotated[bool, typer.Option("--power-on", help="Power the servers on.")] = False,
    fail: Annotated[bool, typer.Option("--fail", help="Cut the servers' power.")] = False,
    cut_off: Annotated[
        bool, typer.Option("--cut-off", help="Disconnect the servers from vCenter; they keep running.")
    ] = False,
    reconnect: Annotated[bool, typer.Option("--reconnect", help="Reconnect the servers to vCenter.")] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Simulate on-site work: set BIOS options of servers that are off, power them on, or make them fail."""
    from vgpu_cfg.cli import labs
    from vgpu_cfg.cli.output import show

    facts: dict[str, bool] = {}
    for setting in bios or ():
        name, _, value = setting.partition("=")
        if name not in ("sriov", "above_4g", "iommu") or value not in ("on", "off"):
            raise typer.BadParameter(
                f"{setting!r} is not valid; use sriov, above_4g or iommu with =on or =off",
                param_hint="--bios",
            )
        facts[name] = value == "on"
    asked: dict[labs.ServerAct, bool] = {
        "fail": fail,
        "cut_off": cut_off,
        "reconnect": reconnect,
        "power_on": power_on,
    }
    acts = tuple(act for act, is_asked in asked.items() if is_asked)
    if not facts and not acts:
        raise typer.BadParameter(
            "nothing to do: specify --bios, --power-on, --fail, --cut-off or --reconnect"
        )
    labs.operate_servers(estate, tuple(hosts), facts, acts)
    show.servers_operated(tuple(hosts), facts, acts, output)


@app.command(
    epilog="vgpu-cfg lab restart two-a100 --away 120 --starting 60 --forget-tasks  # vCenter restarts"
)
def restart(
    estate: Annotated[str, typer.Argument(help="A built-in estate or an estate file.")],
    *,
    away: Annotated[
        float, typer.Option(min=0, help="Duration of the vCenter downtime, in lab seconds.")
    ] = 60.0,
    starting: Annotated[
        float,
        typer.Option(min=0, help="Number of additional seconds during which vCenter returns HTTP 503."),
    ] = 30.0,
    forget_tasks: Annotated[
        bool, typer.Option("--forget-tasks", help="Discard all tasks instead of resuming them.")
    ] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Restart the lab's vCenter: sessions end, and it is unavailable for a while; hosts and VMs run on."""
    from vgpu_cfg.cli import labs
    from vgpu_cfg.cli.output import show

    labs.restart_lab(estate, away, starting, forgets_tasks=forget_tasks)
    show.was_restarted(estate, away, starting, output, forgets_tasks=forget_tasks)


@app.command(epilog="vgpu-cfg lab reset two-a100  # back to its original state")
def reset(
    estates: Annotated[list[str] | None, typer.Argument(help="Estates to reset.", show_default="all")] = None,
    *,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Reset estates to their initial state."""
    from vgpu_cfg.cli import labs
    from vgpu_cfg.cli.output import show

    show.were_reset(labs.reset_labs(tuple(estates or ())), output)
