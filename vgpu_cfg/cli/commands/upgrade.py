"""`vgpu-cfg upgrade`: plan a driver or ESXi upgrade of a whole vCenter over maintenance windows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vgpu_cfg.cli.options.shared import ClustersOption, HostsOption, OutputFormat, OutputOption, connected
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.model.observed.inventory import Inventory
    from vgpu_cfg.planning.upgrade.assess import Assessment, Target
    from vgpu_cfg.planning.upgrade.waves import Played


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="vgpu-cfg upgrade --driver 595.71 --window 'Sat 06:00-14:00 Europe/Berlin' "
        "--server vc01.example.com  # waves by windows\n\n"
        "vgpu-cfg upgrade --driver 595.71 --depot /vmfs/volumes/vsan/NVD-AIE-800_595.71.03.zip "
        "--write upgrade/ --server vc01.example.com  # write plan files\n\n"
        "vgpu-cfg upgrade --fixed-in 580.95.05 --fixed-in 570.195.03 --cluster 'gpu*' --max-hosts-down 2"
        "  # a security fix\n\n"
        "vgpu-cfg upgrade --esxi 24674464 --from vcenter.json --output json  # ESXi, offline"
    )(upgrade)


def _checked_window(text: str) -> str:
    from vgpu_cfg.model.plan_file.host_values import check_window

    try:
        return check_window(text) if text else text
    except ValueError as error:
        raise typer.BadParameter(str(error).replace("\n", "; ")) from error


@connected(recordings=True, quotas=True)
def upgrade(
    *,
    driver: Annotated[
        str,
        typer.Option(
            "--driver",
            metavar="VERSION",
            help="The target driver for all hosts.",
            show_default=False,
        ),
    ] = "",
    fixed: Annotated[
        list[str] | None,
        typer.Option(
            "--fixed-in",
            metavar="VERSION",
            help="The fixed driver version for a branch, from a security bulletin; can be repeated, once "
            "per branch.",
        ),
    ] = None,
    esxi: Annotated[
        str,
        typer.Option(
            "--esxi", metavar="BUILD", help="The target ESXi build for all hosts.", show_default=False
        ),
    ] = "",
    hosts: HostsOption = None,
    clusters: ClustersOption = None,
    window: Annotated[
        str,
        typer.Option(
            "--window",
            help="When hosts may be disrupted: 'Sat 06:00-14:00 Europe/Berlin'; by default, at any time.",
            show_default=False,
            callback=_checked_window,
        ),
    ] = "",
    max_down: Annotated[
        int,
        typer.Option(
            "--max-hosts-down", min=1, help="Maximum number of hosts per cluster that may be down at once."
        ),
    ] = 1,
    depots: Annotated[
        list[str] | None,
        typer.Option(
            "--depot",
            metavar="PATH",
            help="An offline bundle on a datastore that all hosts can read, for the plan files.",
        ),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(
            "--write",
            metavar="FOLDER",
            help="Write a plan file for each wave and a notice for each owner to this folder.",
        ),
    ] = None,
    rehearse: Annotated[
        bool,
        typer.Option(
            "--rehearse",
            help="Rehearse the waves on a copy of the lab, and compare each forecast with the actual time.",
        ),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show all hosts and VMs, and the notices to their owners.")
    ] = False,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
) -> None:
    """Plan a driver or ESXi upgrade of GPU hosts over maintenance windows. Read-only."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.cli.flows.doctor_flow import read_to_examine
    from vgpu_cfg.cli.flows.flow import quotas_of
    from vgpu_cfg.cli.flows.upgrade_flow import past_times, write_upgrade
    from vgpu_cfg.cli.options.hosts import wanted_hosts
    from vgpu_cfg.cli.output import show
    from vgpu_cfg.planning.doctor.patient import Patient
    from vgpu_cfg.planning.upgrade.assess import assess
    from vgpu_cfg.planning.upgrade.waves import Installation, make_waves, with_spares
    from vgpu_cfg.render.data.upkeep import upgrade_data
    from vgpu_cfg.render.text.estate.upgrade import render_rehearsal, render_upgrade
    from vgpu_cfg.settings.connection import resolve_connection

    target = _target(driver, fixed or [], esxi)
    connected_to = resolve_connection(connection)
    if rehearse and not (connected_to.is_lab and connected_to.recording is None):
        raise typer.BadParameter("works only in the lab", param_hint="--rehearse")

    def look() -> tuple[Inventory, Assessment]:
        observed = read_to_examine(connected_to, with_images=True)
        is_wanted = wanted_hosts(observed, hosts=hosts or (), clusters=clusters or ())
        patient = Patient(observed, load_catalog())
        wanted = [host for host in patient.gpu_hosts if is_wanted(host.name)]
        return observed, assess(patient, target, wanted, max_down=max_down)

    observed, found = look()
    times = past_times(observed.vcenter)
    try:
        waves = make_waves(found, window, times, observed.read_at)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--window") from error
    waves = with_spares(waves, quotas_of(connected_to), observed, load_catalog())
    server = connected_to.server if connected_to.recording is None else observed.vcenter.address
    how = Installation(server, window, times, tuple(depots or ()))
    if write is not None:
        write_upgrade(write, found, waves, how)
    played: tuple[Played, ...] = ()
    if rehearse:
        from vgpu_cfg.cli.flows.upgrade_flow import rehearse as play

        played = play(connected_to.lab_estate, look, how)
    if output is OutputFormat.JSON:
        show.data(upgrade_data(found, waves, times, window, observed, played))
        return
    if rehearse:
        show.lines(lambda width: render_rehearsal(played, width))
        return
    show.lines(lambda width: render_upgrade(found, waves, times, server, width, with_all=verbose))


def _target(driver: str, fixed: list[str], esxi: str) -> Target:
    from vgpu_cfg.planning.host_settings.gpus.driver import branch_of
    from vgpu_cfg.planning.upgrade.assess import Target

    for name, value in (("--driver", driver), *(("--fixed-in", one) for one in fixed)):
        if value and (not branch_of(value) or not value.replace(".", "").isdecimal()):
            raise typer.BadParameter(f"{value!r} is not a driver version, such as 595.71", param_hint=name)
    if esxi and not esxi.isdecimal():
        raise typer.BadParameter(f"{esxi!r} is not a build number, such as 24674464", param_hint="--esxi")
    if not (driver or fixed or esxi):
        raise typer.BadParameter("specify --driver, --fixed-in or --esxi")
    return Target(driver, esxi, tuple(fixed))
