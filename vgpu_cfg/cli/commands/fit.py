"""`vgpu-cfg fit` and `size`: how many more VMs fit, and the hardware that a model requires."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vgpu_cfg.cli.options.shared import (
    ClustersOption,
    HostsOption,
    OutputFormat,
    OutputOption,
    bare,
    connected,
    planned,
    refuse_of_several,
)
from vgpu_cfg.planning.sizing import Model, Optimizer, Precision, Sharding
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpu_cfg.changes.plan import LostHost
    from vgpu_cfg.cli.output.answers import Answer
    from vgpu_cfg.cli.several import Told
    from vgpu_cfg.model.desired import DesiredPlan, DesiredVm
    from vgpu_cfg.model.observed.inventory import Host, Inventory
    from vgpu_cfg.model.plan_file import GpuEntry
    from vgpu_cfg.planning.pool.shapes import Fits
    from vgpu_cfg.settings.connection import Connection
    from vgpu_cfg.suggestions.added_hosts import Grown

_MODEL = re.compile(r"(?<![^-_])(\d+(?:\.\d+)?)([mbt])(?![^-_])", re.IGNORECASE)
"""A model by its parameters, as people call them: 7B, llama-70b."""
_TIMES = {"M": 1e6, "B": 1e9, "T": 1e12}
_ALLOWED = "allowed"
"""The figure of how many may be taken, which an answer has where shares or reservations limit it."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        epilog="vgpu-cfg fit nvidia_l40s-12c --server lab:mixed-fleet  # one profile\n\n"
        "vgpu-cfg fit grid_a100-1-5c --server lab:mig-a100 --cluster gpu  # in one cluster\n\n"
        "vgpu-cfg fit --plan examples/full-vgpu.yaml --vm train-01  # copies of a VM\n\n"
        "vgpu-cfg fit nvidia_l40s-12c --server lab:mixed-fleet --add '2 x esx-l40s-01, mixed size'"
        "  # with more hosts\n\n"
        "vgpu-cfg fit --without host:esx-a100-01 --server lab:mixed-fleet --html without.html"
        "  # without a host\n\n"
        "vgpu-cfg fit nvidia_l40s-12c --context 'prod-*'  # several vCenters"
    )(fit)
    app.command(
        epilog="vgpu-cfg size 7B --workers 8  # a model of 7 billion parameters\n\n"
        "vgpu-cfg size --parameters 1.3e9 --sequence 2048 --batch 4 --workers 4 --board A100"
        "  # on one board\n\n"
        "vgpu-cfg size --parameters 70e9 --workers 64 --precision fp8 --sharding fsdp  # sharded\n\n"
        "vgpu-cfg size --framebuffer 40GiB --workers 4  # by GPU memory\n\n"
        "vgpu-cfg size a100 --server lab:mixed-fleet  # room for more"
    )(size)


@connected(recordings=True, several=True, quotas=True)
@planned
def fit(
    profile: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROFILE]",
            help="The vGPU profile, or the GPU memory: 10GiB, 10c, or 3g.20gb.",
            show_default=False,
        ),
    ] = None,
    *,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="Count VMs from this plan file instead.", show_default=False)
    ] = None,
    vm: Annotated[
        str | None,
        typer.Option(
            "--vm", help="The VM or line in the plan file.", show_default=False, callback=bare("vm")
        ),
    ] = None,
    clusters: ClustersOption = None,
    hosts: HostsOption = None,
    add: Annotated[
        list[str] | None,
        typer.Option(
            "--add",
            metavar="HOSTS",
            help="Assume these additional hosts: '2 x esx-01 with 4 x L40S, mixed size'.",
        ),
    ] = None,
    without: Annotated[
        str | None,
        typer.Option(
            "--without",
            metavar="KIND:NAME",
            help="Instead of a profile: show how VMs are affected if this host, cluster, GPU or NIC is lost.",
            show_default=False,
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help=(
                "With --without: also write an HTML page of the estate now, during maintenance, and "
                "after a failure."
            ),
        ),
    ] = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 10 if no additional VM fits or is allowed.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show every host, even those without a matching board.")
    ] = False,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
) -> None:
    """Show how many more VMs fit on each host, by profile or plan file, and what limits them."""
    from vgpu_cfg.cli.flows import flow
    from vgpu_cfg.cli.flows.preparing.request import read_request
    from vgpu_cfg.cli.options.hosts import HostChoice, wanted_hosts
    from vgpu_cfg.cli.several import ask_contexts, refuse_vain, tell_all

    if connection.contexts:
        refuse_of_several({"--add": add, "--without": without})
    if without is not None:
        if profile or plan or vm or add or hosts or clusters or exit_code or connection.quotas:
            raise typer.BadParameter("can be combined only with --output and --html", param_hint="--without")
        from vgpu_cfg.cli.flows.upkeep_flow import show_absence

        show_absence(connection, without, output, html)
        return
    if html is not None:
        raise typer.BadParameter("requires --without", param_hint="--html")
    if (profile is None) == (plan is None):
        raise typer.BadParameter("specify a profile, or use --plan FILE --vm NAME", param_hint="PROFILE")
    wanted: _OfGpu | _OfVm
    if plan is None:
        if vm is not None or variables or variable_files:
            raise typer.BadParameter("--vm, --set and --vars require --plan", param_hint="--vm")
        wanted = _OfGpu(profile or "", _gpu(profile or ""))
    else:
        question = read_request(plan, variables, variable_files)
        wanted = _OfVm(question.desired, _vm_of(question.desired, vm, plan))
    added = tuple(add or ())
    if connection.contexts:
        choice = HostChoice(hosts or (), clusters or ())

        def ask(server: Connection) -> Answer:
            return _answer(wanted, server, choice.at, added, verbose=verbose)

        told = ask_contexts(connection, ask, plan=wanted.plan)
        refuse_vain(choice, told)
        if any(_ALLOWED in one.answer.figures for one in told if one.answer is not None):
            told = tuple(_with_allowed(one) for one in told)
        code = tell_all(told, "context", "fit", output)
        found = sum(_allowed(one.answer) for one in told if one.answer is not None)
        raise typer.Exit(code or (flow.EXIT_DIFFERENCES if exit_code and not found else 0))

    def wants(observed: Inventory) -> Callable[[str], bool]:
        return wanted_hosts(observed, hosts=hosts or (), clusters=clusters or ())

    answer = _answer(wanted, flow.server_of(connection, wanted.plan), wants, added, verbose=verbose)
    answer.tell(output)
    if exit_code and not _allowed(answer):
        raise typer.Exit(flow.EXIT_DIFFERENCES)


def _allowed(answer: Answer) -> int:
    return answer.figures.get(_ALLOWED, answer.figures["fit"])


def _with_allowed(one: Told) -> Told:
    """Give an unlimited answer the figure, too: next to others that have one."""
    if one.answer is None:
        return one
    figures = {**one.answer.figures, _ALLOWED: _allowed(one.answer)}
    return replace(one, answer=replace(one.answer, figures=figures))


@dataclass(frozen=True, slots=True)
class _OfGpu:
    """A request for a profile, or for GPU memory, and its text."""

    text: str
    gpu: GpuEntry
    plan: None = None


@dataclass(frozen=True, slots=True)
class _OfVm:
    """A request for a VM of a plan file."""

    plan: DesiredPlan
    line: DesiredVm


def _answer(
    wanted: _OfGpu | _OfVm,
    server: Connection,
    wants: Callable[[Inventory], Callable[[str], bool]],
    added: tuple[str, ...],
    *,
    verbose: bool,
) -> Answer:
    """Read a vCenter and count. Raises DoesNotFit where the VM cannot be there whatever the room."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.cli.flows import flow
    from vgpu_cfg.cli.output import answers
    from vgpu_cfg.errors import DoesNotFit
    from vgpu_cfg.planning.pool.shapes import CurrentHosts
    from vgpu_cfg.planning.remedies.lost_hosts import find_lost

    lost: tuple[LostHost, ...] = ()
    match wanted:
        case _OfGpu(request, gpu):
            observed = flow.read_all(server, for_planning=True, reservations=True)
            quotas = flow.quotas_of(server)

            def fits_in(estate: Inventory) -> Fits:
                return CurrentHosts(estate, load_catalog()).fit_gpu(gpu, wants_host, quotas)

        case _OfVm(plan, line):
            desired = flow.meant_at(server, plan)
            observed = flow.read_at(server, desired, reservations=True)
            request = f"{line.line} of {desired.name}"
            alike = {one.name for one in desired.vms if one.line == line.line}
            lost = find_lost(desired, observed, load_catalog(), alike.__contains__)

            def fits_in(estate: Inventory) -> Fits:
                return CurrentHosts(estate, load_catalog()).fit_vm(desired, line, wants_host)

    grown = _grown(observed, added)
    wants_host = wants(grown.observed)
    found = fits_in(grown.observed)
    for error in found.errors:
        raise DoesNotFit(
            f"{error.code} {error.message}",
            subject=f"{error.subject.kind} {error.subject.name}",
            remedy=error.remedy or f"see docs/reference/checks/{error.code}.md",
        )
    as_it_is = fits_in(observed).total if added else None
    return answers.fits(grown, request, found, wants_host, lost=lost, as_it_is=as_it_is, verbose=verbose)


def _grown(observed: Inventory, asked: tuple[str, ...]) -> Grown:
    """Return the estate with the hosts of --add."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.suggestions.added_hosts import add_hosts

    try:
        return add_hosts(observed, asked, load_catalog())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--add") from error


def _gpu(name: str) -> GpuEntry:
    """Return a GPU of a size, or of a profile of the catalog. Raises NotFound with those that are close."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.errors import NotFound
    from vgpu_cfg.model.plan_file import GpuEntry
    from vgpu_cfg.model.plan_file.entries import gpu_of_size
    from vgpu_cfg.model.plan_file.values import gpu_item, parse_size

    if "memory" in gpu_item(name):
        return GpuEntry(memory=parse_size(name))
    if sized := gpu_of_size(name):
        return sized

    catalog = load_catalog()
    entries = catalog.by_profile(name)
    if not entries:
        close, whole = catalog.suggest(name), catalog.whole_profile(name)
        remedy = f"did you mean {' or '.join(close)}?" if close else "`vgpu-cfg profiles` lists them all"
        if whole:
            remedy = (
                f"{name} is a board: run `vgpu-cfg fit {whole}` for whole GPUs, or `vgpu-cfg profiles {name}`"
                " for its profiles"
            )
        raise NotFound(f"no board supports the profile {name!r}", subject="catalogue", remedy=remedy)
    return GpuEntry(profile=(entries[0].profile,))


def _vm_of(desired: DesiredPlan, name: str | None, path: Path) -> DesiredVm:
    """Return the VM that is named by itself or by its line; the only line where none is named."""
    from vgpu_cfg.documents import did_you_mean

    lines = dict.fromkeys(vm.line for vm in desired.vms)
    if name is None and len(lines) == 1:
        return desired.vms[0]
    for vm in desired.vms:
        if name in (vm.name, vm.line):
            return vm
    if name is None:
        raise typer.BadParameter(f"select one of {', '.join(lines) or 'no VMs'}", param_hint="--vm")
    known = [*lines, *(vm.name for vm in desired.vms)]
    hint = did_you_mean(name, known, noun="VMs") or f"it has {', '.join(lines)}"
    raise typer.BadParameter(f"{path} contains no VM named {name!r}; {hint}", param_hint="--vm")


@connected(recordings=True)
@planned
def size(
    of: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL|PLAN|CLUSTER]",
            help="A model's size (7B), or a plan or cluster: show rack space and power for its hosts.",
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
            help="Instead of --parameters: the framebuffer each worker requires (40GiB).",
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
        typer.Option("--sharding", help="States to shard across replicas. `fsdp` is the same as `zero3`."),
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
        list[str] | None, typer.Option("--board", help="Only boards whose key or name matches.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every candidate.")] = False,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
) -> None:
    """Estimate the GPUs, step time, rack space and power that a model requires."""
    is_model = of is not None and parameters is None and framebuffer is None and not Path(of).exists()
    is_offline = connection.server is None and connection.context is None
    if of is not None and is_model and (size := (_MODEL.search if is_offline else _MODEL.fullmatch)(of)):
        parameters, of = float(size[1]) * _TIMES[size[2].upper()], None
    elif of is not None and is_model and of.endswith("iB"):
        framebuffer, of = of, None
    if of is not None:
        if parameters is not None or framebuffer is not None or boards:
            raise typer.BadParameter(
                "can be combined only with --output and the connection options", param_hint="OF"
            )
        _show_room(of, connection, variables, variable_files, output)
        return
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.catalog.servers import load_board_power, load_servers
    from vgpu_cfg.cli.options.hosts import matching_boards
    from vgpu_cfg.cli.output import show
    from vgpu_cfg.planning.sizing import size_framebuffer, size_model
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
    from vgpu_cfg.planning.sizing import standing_hosts
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
