"""The commands that look at an estate or at the catalog: inventory and profiles."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vgpu_cfg.cli.options.shared import (
    ClustersOption,
    HostsOption,
    OutputFormat,
    OutputOption,
    connected,
    refuse_of_several,
)
from vgpu_cfg.model.choices import UseBy, UseSort
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.model.observed.inventory import Inventory


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        epilog="vgpu-cfg inventory --server lab:mixed-fleet  # hosts, GPUs and NICs\n\n"
        "vgpu-cfg inventory --gpus --from vcenter.json  # each GPU, offline\n\n"
        "vgpu-cfg inventory --reservations --server vc01.example.com  # reserved GPUs\n\n"
        "vgpu-cfg inventory --html estate.html --from vcenter.json  # as a page\n\n"
        "vgpu-cfg inventory --from new.json --compare vcenter.json  # changes since a recording\n\n"
        "vgpu-cfg inventory --gpus --context 'prod-*'  # several vCenters\n\n"
        "vgpu-cfg inventory --hours 90d --by attribute:CostCentre --csv --server vc01.example.com"
        "  # for billing\n\n"
        "vgpu-cfg inventory --record vcenter.json --server vc01.example.com  # record for offline work"
    )(inventory)
    app.command(
        epilog="vgpu-cfg profiles --board A100  # the profiles of a board\n\n"
        "vgpu-cfg profiles grid_a100-1-5c  # one profile\n\n"
        "vgpu-cfg profiles --mig  # MIG-backed profiles"
    )(profiles)


@connected(recordings=True, several=True, quotas=True)
def inventory(
    *,
    hosts: HostsOption = None,
    clusters: ClustersOption = None,
    gpus: Annotated[
        bool, typer.Option("--gpus", help="Show the GPUs as a pool: slots used, free, and stranded.")
    ] = False,
    idle_below: Annotated[
        float | None,
        typer.Option(
            "--idle-below",
            metavar="PERCENT",
            min=0,
            max=100,
            help="With --gpus: list VMs as idle if they use less than this share of their GPUs, or of "
            "their CPUs if GPU use is not measured (1).",
        ),
    ] = None,
    days: Annotated[
        float | None,
        typer.Option(
            "--days",
            metavar="DAYS",
            min=0.05,
            max=365,
            help="With --gpus: number of days over which GPU use is measured (7).",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="WHAT",
            help="With --gpus: gpu (default), vm, plan or owner. With --hours: plan (default), folder, vm, "
            "owner, or attribute:NAME.",
            show_default=False,
        ),
    ] = None,
    sort: Annotated[
        UseSort | None,
        typer.Option("--sort", help="With --gpus: sort usage by this value, highest first."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="With --gpus: show live usage in the terminal until Ctrl-C.")
    ] = False,
    reservations: Annotated[
        bool,
        typer.Option(
            "--reservations", help="Show which plans reserve GPUs, for how long, and what remains free."
        ),
    ] = False,
    hours: Annotated[
        str | None,
        typer.Option(
            "--hours",
            metavar="WHEN",
            help="Report the GPU-hours that VMs have used since this time: 7d, 12h, 2w or 2026-11-01.",
        ),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="With --hours: print comma-separated values.")] = False,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            metavar="FILE",
            help="Record vCenter's responses, without secrets, for offline planning and tests.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="With --record: overwrite the file.")] = False,
    compare: Annotated[
        Path | None,
        typer.Option("--compare", metavar="OLD", help="Show what has changed since this recording."),
    ] = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="With --compare: exit with 10 if anything changed.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Also write an HTML page with every GPU drawn to scale."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every row.")] = False,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
) -> None:
    """Show hosts, GPUs, NICs and NUMA nodes, which VMs use them, and what is free."""
    from vgpu_cfg.cli.flows import flow
    from vgpu_cfg.cli.kept.whole_file import refuse_unwritable
    from vgpu_cfg.cli.options.hosts import HostChoice, wanted_hosts
    from vgpu_cfg.cli.output import answers
    from vgpu_cfg.planning.pool.use import USE_DAYS
    from vgpu_cfg.settings.connection import Connection, resolve_connection

    of_use = {"--idle-below": idle_below, "--days": days, "--sort": sort, "--watch": watch or None}
    _refuse_without("--gpus", gpus, of_use | {"--quotas": connection.quotas})
    _refuse_without("--hours", hours, {"--csv": csv or None})
    _refuse_without("--record", record, {"--force": force or None})
    _refuse_without("--gpus or --hours", gpus or hours, {"--by": by})
    _refuse_without("--compare", compare, {"--exit-code": exit_code or None})
    if watch and (output is OutputFormat.JSON or not sys.stdout.isatty()):
        raise typer.BadParameter("requires a terminal; omit it for a single reading", param_hint="--watch")
    if connection.contexts:
        refuse_of_several(
            {
                "--compare": compare,
                "--html": html,
                "--watch": watch,
                "--reservations": reservations,
                "--hours": hours,
                "--record": record,
            }
        )
    if hours is not None or record is not None:
        alone = {"--from": connection.recording, "--gpus": gpus, "--host": hosts, "--cluster": clusters}
        alone |= {"--html": html, "--reservations": reservations, "--compare": compare}
        refuse_of_several(alone, f"cannot be combined with {'--hours' if hours else '--record'}")
        if hours is not None:
            _show_hours(connection, hours, by or "plan", output, csv=csv)
        if record is not None:
            _record(connection, record, force=force)
        return
    use_by = _use_by(by)
    if compare is not None:
        if gpus or hosts or clusters or html or reservations:
            raise typer.BadParameter(
                "compares the whole site; omit --gpus, --host, --cluster and --html", param_hint="--compare"
            )
        _compare(connection, compare, output, exit_code=exit_code)
        return
    if html is not None:
        refuse_unwritable(html, "--html")
    if reservations:
        if gpus or hosts:
            raise typer.BadParameter("cannot be combined with --gpus and --host", param_hint="--reservations")
        _show_reservations(connection, tuple(clusters or ()), output, html)
        return

    def wanted(observed: Inventory) -> Callable[[str], bool]:
        return wanted_hosts(observed, hosts=hosts or (), clusters=clusters or ())

    def read(server: Connection) -> Inventory:
        if not gpus:
            with_chains = html is not None or verbose or output is OutputFormat.JSON
            return flow.read_all(server, with_chains=with_chains)
        use_days = USE_DAYS if days is None else days
        is_page = html is not None
        kinds_of = None if is_page or verbose else frozenset[str]()
        return flow.read_all(server, use_days=use_days, with_chains=is_page, kinds_of=kinds_of)

    def answer(server: Connection, observed: Inventory, wants_host: Callable[[str], bool]) -> answers.Answer:
        if not gpus:
            return answers.inventory(observed, wants_host, verbose=verbose)
        return answers.pool(
            observed,
            wants_host,
            quotas=flow.quotas_of(server),
            idle_below=idle_below,
            by=use_by,
            sort=sort,
            verbose=verbose,
        )

    if connection.contexts:
        from vgpu_cfg.cli.several import ask_contexts, refuse_vain, tell_all

        choice = HostChoice(hosts or (), clusters or ())

        def ask(server: Connection) -> answers.Answer:
            observed = read(server)
            return answer(server, observed, choice.at(observed))

        told = ask_contexts(connection, ask)
        refuse_vain(choice, told)
        raise typer.Exit(tell_all(told, "context", "inventory", output))
    server = resolve_connection(connection)
    if watch:
        answers.watch_use(lambda: read(server), wanted, use_by, sort or UseSort.USE, verbose=verbose)
    observed = read(server)
    if html is not None:
        _write_page(html, observed, wanted(observed))
    answer(server, observed, wanted(observed)).tell(output)


def _refuse_without(needed: str, needed_value: object, said: Mapping[str, object]) -> None:
    """Raise BadParameter for an option that was said and is about another one, which was not."""
    for hint, value in said.items():
        if value is not None and not needed_value:
            raise typer.BadParameter(f"requires {needed}", param_hint=hint)


def _compare(flags: ConnectionFlags, old: Path, output: OutputFormat, *, exit_code: bool) -> None:
    from vgpu_cfg.cli.flows import flow
    from vgpu_cfg.cli.output import answers

    before = flow.read_site(ConnectionFlags(recording=old))
    is_same = answers.site_changes(before, flow.read_site(flags), output)
    if exit_code and not is_same:
        raise typer.Exit(flow.EXIT_DIFFERENCES)


def _record(flags: ConnectionFlags, path: Path, *, force: bool) -> None:
    from vgpu_cfg.cli.flows import flow

    if path.exists() and not force:
        message = f"{path} already exists; add --force to overwrite it"
        raise typer.BadParameter(message, param_hint="--record")
    flow.record(flags, path)


def _use_by(word: str | None) -> UseBy:
    try:
        return UseBy(word or UseBy.GPU)
    except ValueError as error:
        message = f"{word!r} is not one of {', '.join(UseBy)}"
        raise typer.BadParameter(message, param_hint="--by") from error


def _show_hours(flags: ConnectionFlags, since: str, by: str, output: OutputFormat, *, csv: bool) -> None:
    from vgpu_cfg.cli.flows.flow import read_hours
    from vgpu_cfg.cli.options.shared import age_of
    from vgpu_cfg.cli.output import answers

    if csv and output is OutputFormat.JSON:
        raise typer.BadParameter("specify either --csv or --output json", param_hint="--csv")
    try:
        found, server = read_hours(flags, age_of(since, "--hours"), by)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--by") from error
    answers.hours(found, by, server, output, as_csv=csv)


def _write_page(path: Path, observed: Inventory, wants_host: Callable[[str], bool]) -> None:
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.cli.kept.whole_file import write_page
    from vgpu_cfg.render.page.estate import render_inventory_page
    from vgpu_cfg.render.views.pictures.estate_map import view_map

    write_page(path, render_inventory_page(view_map(observed, load_catalog(), wants_host=wants_host)))


def _show_reservations(
    flags: ConnectionFlags, clusters: tuple[str, ...], output: OutputFormat, html: Path | None
) -> None:
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.cli.flows.flow import read_all
    from vgpu_cfg.cli.kept.whole_file import write_page
    from vgpu_cfg.cli.output import answers
    from vgpu_cfg.errors import NotFound
    from vgpu_cfg.planning.estate.named import cluster_globs
    from vgpu_cfg.planning.findings.options import matches_any
    from vgpu_cfg.planning.pool.reservations import read_calendar
    from vgpu_cfg.render.data.pool import reservations_data
    from vgpu_cfg.render.page.estate import render_reservations_page
    from vgpu_cfg.settings.connection import resolve_connection

    observed = read_all(resolve_connection(flags), reservations=True)
    server = observed.vcenter.address
    if observed.reservations is None:
        message = "a recording does not contain reservations"
        raise NotFound(message, subject=server, remedy="run the command against the vCenter itself")
    globs = cluster_globs(clusters, observed)
    found = read_calendar(
        observed,
        load_catalog(),
        observed.reservations,
        lambda name: not globs or matches_any(name, globs),
    )
    if html is not None:
        write_page(html, render_reservations_page(found, server, reservations_data(found, server)))
    answers.reservations(found, server, output)


def profiles(
    names: Annotated[list[str] | None, typer.Argument(help="Profiles or boards to show.")] = None,
    *,
    board: Annotated[list[str] | None, typer.Option(help="Only boards whose key or name matches.")] = None,
    mig: Annotated[bool, typer.Option("--mig", help="Only MIG-backed profiles.")] = False,
    time_sliced: Annotated[bool, typer.Option("--time-sliced", help="Only time-sliced profiles.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Only profiles that use the entire framebuffer of a GPU.")
    ] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """List the vGPU profiles in the catalog: boards, sizes, and how many fit on a GPU."""
    from vgpu_cfg.cli.options.hosts import boards_without_profiles, select_profiles
    from vgpu_cfg.cli.output import show

    if mig and time_sliced:
        raise typer.BadParameter("a profile is either MIG-backed or time-sliced", param_hint="--mig")
    entries = select_profiles(
        tuple(names or ()), boards=tuple(board or ()), mig=mig, time_sliced=time_sliced, full=full
    )
    is_filtered = mig or time_sliced or full
    others = [] if is_filtered else boards_without_profiles(names or (), board or ())
    show.profiles(entries, others, output)
