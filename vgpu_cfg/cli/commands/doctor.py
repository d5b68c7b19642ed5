"""`vgpu-cfg doctor` and `trial`: the health of a vCenter's GPUs, and tests of vgpu-cfg's assumptions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vgpu_cfg.cli.options.shared import (
    DryRunOption,
    OutputFormat,
    OutputOption,
    YesOption,
    bare,
    connected,
    planned,
    refuse_of_several,
    steps_of,
)
from vgpu_cfg.planning.doctor.trials import Step
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.cli.flows.preparing.request import PlanRequest

DEFAULT_MINUTES = 20


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        epilog="vgpu-cfg doctor --server vc01.example.com  # the state of all GPUs\n\n"
        "vgpu-cfg doctor --server lab:mixed-fleet -v  # every affected object\n\n"
        "vgpu-cfg doctor --html health.html --server vc01.example.com  # as a page\n\n"
        "vgpu-cfg doctor --from vcenter.json --exit-code  # offline, for CI\n\n"
        "vgpu-cfg doctor --save site/ --server vc01.example.com  # keep the verdicts for plans\n\n"
        "vgpu-cfg doctor --bundle gpu:esx-01/17:00.0 --plan plan.yaml --scrub -o rma.tar.gz  # for an RMA"
    )(doctor)
    app.command(
        epilog="vgpu-cfg trial --server vc01.example.com  # show its steps\n\n"
        "vgpu-cfg trial --steps objects,vm --in training --datastore vsan --server vc01.example.com"
        "  # with a VM\n\n"
        "vgpu-cfg trial --steps gpu --in training --profile grid_a100-8c --server lab:two-a100"
        "  # with a vGPU\n\n"
        "vgpu-cfg trial --clean --server vc01.example.com  # remove leftovers"
    )(trial)


@connected(recordings=True, quotas=True)
@planned
def doctor(
    *,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 10 if anything is broken, at risk or wasted.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Also write an HTML page with every finding."),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            metavar="FILE|FOLDER",
            help="Save the verdicts on vgpu-cfg's assumptions. Keep the file next to the plans "
            "that will use it.",
            show_default=False,
        ),
    ] = None,
    evidence: Annotated[
        Path | None,
        typer.Option(
            "--evidence",
            metavar="FOLDER",
            help="Save these verdicts and a recording, both without names or secrets, ready to send.",
            show_default=False,
        ),
    ] = None,
    bundle: Annotated[
        str | None,
        typer.Option(
            "--bundle",
            metavar="GPU",
            help="For an RMA, specify gpu:HOST/PCI to collect the GPU's serial number, nvidia-smi output, "
            "Xids, host and BMC logs, and history instead.",
            show_default=False,
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="PLAN",
            help="With --bundle: the plan file that provides `access` to the host and its BMC, and the "
            "list of downloads.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="With --bundle: the archive to write.", show_default=False
        ),
    ] = None,
    scrub: Annotated[
        bool,
        typer.Option(
            "--scrub", help="With --bundle: replace the site's names and addresses; keep serial numbers."
        ),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show every affected object and the command for it.")
    ] = False,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
) -> None:
    """Check a vCenter's GPU hosts and GPU VMs for faults, risks and waste. Read-only."""
    if bundle is not None:
        from vgpu_cfg.cli.flows.preparing.request import read_request

        others = {"--from": connection.recording, "--html": html, "--save": save, "--evidence": evidence}
        refuse_of_several(others, "cannot be combined with --bundle")
        request = read_request(plan, variables, variable_files) if plan is not None else None
        _collect(connection, bundle, request, out, scrub=scrub)
        return
    of_a_bundle = {
        "--plan": plan,
        "--out": out,
        "--scrub": scrub,
        "--set": variables,
        "--vars": variable_files,
    }
    refuse_of_several(of_a_bundle, "requires --bundle")
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.cli.commands.explain import server_words
    from vgpu_cfg.cli.flows.doctor_flow import read_to_examine, save_evidence, save_found
    from vgpu_cfg.cli.flows.flow import EXIT_DIFFERENCES, quotas_of
    from vgpu_cfg.cli.kept.whole_file import refuse_unwritable, write_page
    from vgpu_cfg.cli.options.typed import completed_command
    from vgpu_cfg.cli.output import show
    from vgpu_cfg.knowledge.beliefs import Trial
    from vgpu_cfg.planning.doctor.examine import examine
    from vgpu_cfg.render.data.upkeep import health_data
    from vgpu_cfg.settings.connection import resolve_connection

    if html is not None:
        refuse_unwritable(html, "--html")
    if save is not None:
        refuse_unwritable(save / "vcenter" if save.is_dir() else save, "--save")
    server = resolve_connection(connection)
    if evidence is not None and server.recording is not None:
        raise typer.BadParameter("this is already a recording", param_hint="--evidence")
    observed = read_to_examine(server)
    health = examine(observed, load_catalog(), server_words(connection), quotas_of(server))
    found = (replace(one, command=completed_command(one.command)) for one in health.ailments)
    health = replace(health, ailments=tuple(found))
    if html is not None:
        from vgpu_cfg.render.page.estate import render_health_page

        write_page(html, render_health_page(health, health_data(health, observed)))
    if output is OutputFormat.JSON:
        show.data(health_data(health, observed))
    else:
        from vgpu_cfg.render.text.doctor import render_health

        show.lines(lambda width: render_health(health, observed.vcenter.address, width, with_all=verbose))
    saved = save_found(save, observed, (health.tried, Trial.READING)) if save is not None else None
    if evidence is not None:
        save_evidence(evidence, server, health.tried, saved)
    if exit_code and health.ailments:
        raise typer.Exit(EXIT_DIFFERENCES)


def _collect(
    flags: ConnectionFlags, gpu: str, request: PlanRequest | None, out: Path | None, *, scrub: bool
) -> None:
    """Write the files that a vendor requires when a GPU is returned, in one archive."""
    from rich.text import Text

    from vgpu_cfg.cli.flows.bundle_flow import collect, save
    from vgpu_cfg.cli.output import show
    from vgpu_cfg.render.layout.lines import fold

    bundle = collect(flags, gpu, request)
    path = out or Path(f"support-{bundle.pci_id.replace(':', '-')}.tar.gz")
    told = [Text(line) for line in save(bundle, path, scrub=scrub)]
    show.lines(lambda width: [line for text in told for line in fold(text, width, hang=2)])


@connected()
def trial(
    *,
    steps: Annotated[
        str,
        typer.Option(
            "--steps", metavar="STEPS", help=f"Steps to run, separated by commas: {', '.join(Step)}."
        ),
    ] = Step.OBJECTS.value,
    in_: Annotated[
        str | None,
        typer.Option("--in", metavar="FOLDER", help="The folder for temporary VMs.", show_default=False),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(help="Clone VMs from this template; if omitted, create empty VMs.", show_default=False),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="The cluster for temporary VMs.", show_default=False, callback=bare("cluster")),
    ] = None,
    datastore: Annotated[
        str | None, typer.Option(help="The datastore for temporary VMs.", show_default=False)
    ] = None,
    network: Annotated[
        str | None, typer.Option(help="Connect their NICs to this network.", show_default=False)
    ] = None,
    spec: Annotated[
        str | None,
        typer.Option(
            help=("Customize a guest with this specification; requires --template."), show_default=False
        ),
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="The vGPU profile for the gpu step.", show_default=False)
    ] = None,
    move_to: Annotated[
        str | None,
        typer.Option(
            "--move-to",
            metavar="HOST",
            help="Move the step's VM to this host with vMotion.",
            show_default=False,
            callback=bare("host"),
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="PLAN",
            help="For the shell step: the plan file that provides `access` to the hosts.",
            show_default=False,
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            metavar="FILE|FOLDER",
            help="Save the verdicts, like `doctor --save`.",
            show_default=False,
        ),
    ] = None,
    max_minutes: Annotated[
        int, typer.Option("--max-minutes", min=4, max=600, help="The maximum duration, including cleanup.")
    ] = DEFAULT_MINUTES,
    clean: Annotated[
        bool, typer.Option("--clean", help="Only remove expired objects from earlier trials.")
    ] = False,
    all_: Annotated[
        bool,
        typer.Option(
            "--all", help=("With --clean: also remove objects that have not expired or are no longer marked.")
        ),
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
) -> None:
    """Test vgpu-cfg's assumptions about a vCenter with temporary objects, shown first and removed later."""
    from vgpu_cfg.cli.flows import trial_flow

    if all_ and not clean:
        raise typer.BadParameter("requires --clean", param_hint="--all")
    chosen = steps_of(steps)
    if in_ is None and not clean and any(step.makes_vms for step in chosen):
        raise typer.BadParameter("temporary VMs require --in FOLDER", param_hint="--steps")
    if spec is not None and template is None:
        raise typer.BadParameter("requires --template", param_hint="--spec")
    if (Step.GPU in chosen) != (profile is not None) or (move_to is not None and profile is None):
        raise typer.BadParameter(
            "the gpu step requires a profile; the other steps do not accept one", param_hint="--profile"
        )
    if (Step.SHELL in chosen) != (plan is not None):
        raise typer.BadParameter(
            "the shell step requires a plan file; the other steps do not accept one", param_hint="--plan"
        )
    how = trial_flow.How(max_minutes, yes=yes, dry_run=dry_run, output=output, save=save, plan=plan)
    where = {"folder": in_, "template": template, "cluster": cluster, "datastore": datastore}
    if clean:
        trial_flow.clean(connection, how, with_all=all_)
    else:
        place = trial_flow.Place(
            {key: value for key, value in where.items() if value}, network, profile, move_to, spec
        )
        trial_flow.trial(connection, chosen, place, how)
