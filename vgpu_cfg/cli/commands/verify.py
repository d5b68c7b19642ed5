"""`vgpu-cfg verify`: check inside hosts and guests that a plan's results hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from vgpu_cfg.cli.options.old_words import as_named
from vgpu_cfg.cli.options.running import notified
from vgpu_cfg.cli.options.shared import (
    CommandOptions,
    PlanArgument,
    ReportFormat,
    ReportOption,
    connected,
    planned,
)
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.cli.flows.preparing.request import PlanRequest
    from vgpu_cfg.cli.flows.verify_flow import Wanted
    from vgpu_cfg.model.verification import Baseline, CheckResult, PastRun, Thresholds, Verification

EXIT_FAILED, EXIT_UNPROVEN = 8, 9
"""No errors of the tool: see docs/reference/exit-codes.md."""
EXIT_LEFT_OVER = 6
"""As of a run of which only a part was done."""
_BRANCH_DIGITS = 3


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="vgpu-cfg verify plan.yaml --report verified.html  # all checks, as a page\n\n"
        "vgpu-cfg verify plan.yaml --only licence --all  # one check\n\n"
        "vgpu-cfg verify plan.yaml --vm hvd-02 --quick  # one VM\n\n"
        "vgpu-cfg verify plan.yaml --only 'bandwidth*' --threshold gpu_memory=0.8  # with a threshold\n\n"
        "vgpu-cfg verify plan.yaml --target-branch R595  # before a driver upgrade\n\n"
        "vgpu-cfg verify plan.yaml --watch --metrics /var/lib/node_exporter/watch.prom  # until Ctrl-C"
    )(verify)


@connected()
@planned
@notified
def verify(
    path: PlanArgument,
    *,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="CHECKS", help="Only these checks: licence,ats or bandwidth*."),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Also check the licenses of other VMs on the plan's hosts.")
    ] = False,
    hosts: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="WHAT", help="Only these hosts (esx-0*) and their VMs."),
    ] = None,
    vms: Annotated[
        list[str] | None,
        typer.Option("--vm", metavar="WHAT", help="Only these VMs (hvd-*) and their hosts."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Skip bandwidth measurements.")] = False,
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            "--threshold",
            metavar="NAME=SHARE",
            help="Change a threshold: host_memory, gpu_memory, busbw as a share of the line rate; or "
            "seconds=10, line_gbps=25, clock_seconds=5, licence_hours=2, loss=10%.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE.html", help="Also write an HTML page to keep or print."),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save", metavar="FILE.json", help="Save the measurements for later use with --baseline."
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline",
            metavar="FILE.json",
            help="Fail if a measurement is worse than in this file (written by --save).",
        ),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="FILE.jsonl", help="Append a summary line for this run to a file."),
    ] = None,
    parallel: Annotated[
        int,
        typer.Option("--parallel", min=1, max=64, help="Maximum number of machines to check in parallel."),
    ] = 8,
    target_branch: Annotated[
        str | None,
        typer.Option(
            "--target-branch",
            metavar="R595",
            help="Skip all checks; show which components are compatible with a host driver of this branch.",
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Check only the health of GPUs, NICs, guests and hosts; report signs of failing hardware.",
        ),
    ] = False,
    every: Annotated[
        float | None,
        typer.Option(
            "--every",
            metavar="SECONDS",
            min=30,
            help="With --watch: keep checking until Ctrl-C; print only changes.",
        ),
    ] = None,
    metrics: Annotated[
        Path | None,
        typer.Option(
            "--metrics",
            metavar="FILE.prom",
            help="With --watch: also write metrics for the text-file collector.",
        ),
    ] = None,
    template: Annotated[
        list[str] | None,
        typer.Option(
            "--template",
            metavar="NAME",
            help="Skip the VMs; boot and inspect a temporary clone of each of these templates.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --template: show the clone; create nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Create the clone without asking.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also show skipped checks.")] = False,
    output: ReportOption = ReportFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
) -> None:
    """Verify that hosts and guests are ready for training; exit 8 if a check fails, 9 if one cannot run."""
    from vgpu_cfg.cli.flows.preparing.request import read_request
    from vgpu_cfg.cli.flows.verify_flow import Wanted, verify_plan
    from vgpu_cfg.cli.kept.baselines import add_to_history, read_baseline, read_history
    from vgpu_cfg.verification import Choice, watch_choice

    globs = _globs(only)
    request = read_request(path, variables, variable_files)
    for option, is_given in {"--yes": yes, "--dry-run": dry_run}.items():
        if is_given and not template:
            raise typer.BadParameter("requires --template; all other checks are read-only", param_hint=option)
    if template:
        options = CommandOptions(connection, variables, variable_files)
        _show_templates(request, options, path, tuple(template), output, yes=yes, dry_run=dry_run)
        return
    if watch:
        _watch(
            request,
            connection,
            Wanted(watch_choice(parallel, _thresholds(request, [])), tuple(vms or ()), tuple(hosts or ())),
            every,
            metrics,
            output,
        )
    if every is not None or metrics is not None:
        raise typer.BadParameter(
            "requires --watch", param_hint="--every" if every is not None else "--metrics"
        )
    if target_branch is not None:
        _show_target(request, connection, target_branch, tuple(vms or ()), tuple(hosts or ()), output, report)
        return
    choice = Choice(globs, quick, parallel, _thresholds(request, threshold or []))
    before = read_baseline(baseline, request.desired.name) if baseline is not None else None
    earlier = (
        read_history(history, request.desired.name) if history is not None and report is not None else ()
    )
    wanted = Wanted(choice, tuple(vms or ()), tuple(hosts or ()), all_, before)
    from vgpu_cfg.cli.kept.whole_file import refuse_unwritable
    from vgpu_cfg.cli.output import show

    for option, written in (("--report", report), ("--save", save), ("--history", history)):
        if written is not None:
            refuse_unwritable(written, option)
    options = CommandOptions(connection, variables, variable_files)
    make = options.command("apply", path)
    found = verify_plan(request, connection, wanted, _progress(), make_command=make)
    code = EXIT_FAILED if found.failed else 0 if found.passes else EXIT_UNPROVEN
    if report is not None:
        _write(report, found, code, before, earlier)
    if history is not None:
        add_to_history(history, found)
        show.say(f"{history}: one line added")
    if save is not None:
        _save(save, found)
    again = [f"--only={','.join(dict.fromkeys(one.check for one in found.failed))}"] if found.failed else []
    _show(found, output, options.command("verify", path, *again) if again else "", verbose=verbose)
    if code:
        raise typer.Exit(code)


def _watch(
    request: PlanRequest,
    connection: ConnectionFlags,
    wanted: Wanted,
    every: float | None,
    metrics: Path | None,
    output: ReportFormat,
) -> NoReturn:
    """Watch once, or until Ctrl-C; ends with the exit code of the last watch."""
    from vgpu_cfg.cli.flows.upkeep_flow import watches
    from vgpu_cfg.cli.kept.whole_file import refuse_unwritable, write_whole
    from vgpu_cfg.cli.notice import tell_news
    from vgpu_cfg.cli.output import show
    from vgpu_cfg.render.data.verification import watch_data, watch_metrics
    from vgpu_cfg.render.text.verification import render_watch
    from vgpu_cfg.render.views.verification import needs_action, sentence

    if output is ReportFormat.JUNIT:
        raise typer.BadParameter("--watch supports only text and json", param_hint="--output")
    if metrics is not None:
        refuse_unwritable(metrics, "--metrics")
    code = 0
    for number, found in enumerate(watches(request, connection, wanted, every=every)):
        is_news = bool(found.new or found.gone or found.cordoned)
        tell_news(sentence(found) if is_news else "")
        if metrics is not None:
            write_whole(metrics, watch_metrics(found), mode=0o644)
        if output is ReportFormat.JSON:
            show.data(watch_data(found))
        elif is_news or not number:
            show.lines(partial(render_watch, found))
        code = EXIT_FAILED if needs_action(found) else EXIT_UNPROVEN if found.unread else 0
    raise typer.Exit(code)


def check_targets(options: CommandOptions, path: Path, targets: list[str], output: ReportFormat) -> NoReturn:
    """Check cordoned hosts and GPUs; exit 8 if a check fails, 9 if one cannot run."""
    from vgpu_cfg.cli.flows.preparing.request import read_request
    from vgpu_cfg.cli.flows.verify_flow import Wanted, verify_plan
    from vgpu_cfg.verification.watching import health_choice

    request = read_request(path, options.variables, options.variable_files)
    wanted = Wanted(health_choice(_thresholds(request, [])), targets=tuple(targets))
    found = verify_plan(request, options.connection, wanted, _progress())
    first, *others = targets
    again = options.command("cordon", Path(first), *others, "--check", f"--plan={path}")
    flags = options.connection
    here = flags if flags.server or flags.context else replace(flags, server=found.server)
    end = CommandOptions(here).command("uncordon", Path(first), *others)
    _show(found, output, end if found.passes else again, verbose=False)
    raise typer.Exit(0 if found.passes else EXIT_FAILED if found.failed else EXIT_UNPROVEN)


def _globs(only: list[str] | None) -> tuple[str, ...]:
    """Divide globs at commas; refuse one that matches no check."""
    from vgpu_cfg.documents import did_you_mean
    from vgpu_cfg.verification import CHECKS
    from vgpu_cfg.verification.table import unknown_globs

    globs = tuple(as_named(word) for text in only or () for word in text.split(",") if word)
    if only and not globs:
        raise typer.BadParameter("specify at least one check, such as licence,ats", param_hint="--only")
    keys = [check.key for check in CHECKS]
    for glob in unknown_globs(globs, keys):
        hint = did_you_mean(glob, keys, noun="checks") or f"valid names: {', '.join(keys)}"
        raise typer.BadParameter(f"no check matches {glob}; {hint}", param_hint="--only")
    return globs


def _thresholds(request: PlanRequest, given: list[str]) -> Thresholds:
    """Put together the thresholds: the command line goes before the plan file, that before the catalogue."""
    from pydantic import ValidationError

    from vgpu_cfg.catalog.thresholds import load_thresholds
    from vgpu_cfg.model.verification import Thresholds

    stated = (
        request.desired.verify.model_dump(exclude_none=True, exclude={"watch"})
        if request.desired.verify is not None
        else {}
    )
    values: dict[str, object] = {**load_thresholds().model_dump(), **stated}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or name not in Thresholds.model_fields:
            known = ", ".join(Thresholds.model_fields)
            raise typer.BadParameter(
                f"{text!r} is not NAME=SHARE with one of {known}", param_hint="--threshold"
            )
        values[name] = _share(value) if value.endswith("%") else value
    try:
        return Thresholds.model_validate(values)
    except ValidationError as error:
        wrong = error.errors()[0]
        hint = (
            "for 10 seconds, use seconds=10" if wrong["loc"][0] == "seconds" else "for 80 %, use 0.8 or 80%"
        )
        raise typer.BadParameter(
            f"{wrong['loc'][0]}: {wrong['msg'].lower()}; {hint}", param_hint="--threshold"
        ) from error


def _share(text: str) -> str:
    number = text.removesuffix("%")
    return str(float(number) / 100) if number.replace(".", "", 1).isdigit() else text


def _show_target(
    request: PlanRequest,
    connection: ConnectionFlags,
    branch: str,
    vms: tuple[str, ...],
    hosts: tuple[str, ...],
    output: ReportFormat,
    report: Path | None,
) -> None:
    """Show each VM's stack next to a branch; exit 8 if a document excludes a part, 9 if none names any."""
    from vgpu_cfg.cli.flows.verify_flow import plan_branch
    from vgpu_cfg.cli.kept.whole_file import refuse_unwritable, write_page
    from vgpu_cfg.cli.output import show
    from vgpu_cfg.render.data.verification import branch_plan_data

    number = branch.removeprefix("R").removeprefix("r")
    if not (number.isascii() and number.isdecimal() and len(number) == _BRANCH_DIGITS):
        raise typer.BadParameter(f"{branch!r} is not a branch such as R595", param_hint="--target-branch")
    if output is ReportFormat.JUNIT:
        raise typer.BadParameter("--target-branch supports only text and json", param_hint="--output")
    if report is not None:
        refuse_unwritable(report, "--report")
    found = plan_branch(request, connection, number, vms=vms, hosts=hosts)
    if report is not None:
        from vgpu_cfg.render.page.verification import render_branch_page

        write_page(report, render_branch_page(found, branch_plan_data(found)))
    if output is ReportFormat.JSON:
        show.data(branch_plan_data(found))
    else:
        from vgpu_cfg.render.text.estate.templates import render_branch_plan

        show.lines(lambda width: render_branch_plan(found, width))
    if found.lacks:
        raise typer.Exit(EXIT_FAILED)
    if not found.is_known:
        raise typer.Exit(EXIT_UNPROVEN)


def _show_templates(
    request: PlanRequest,
    options: CommandOptions,
    path: Path,
    globs: tuple[str, ...],
    output: ReportFormat,
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    """Look into a clone of each template; exit 8 if one lacks a required part, 6 if a clone is left."""
    from vgpu_cfg.cli.flows.running.run_flow import ApplyOptions
    from vgpu_cfg.cli.flows.running.template_flow import look_at_templates, show_clones
    from vgpu_cfg.cli.options.shared import OutputFormat
    from vgpu_cfg.cli.output import show
    from vgpu_cfg.render.text.estate.templates import render_template_looks

    if output is not ReportFormat.TEXT:
        raise typer.BadParameter("--template supports only text", param_hint="--output")
    how = ApplyOptions(path=path, yes=yes, parallel=1, per_host=1, output=OutputFormat.TEXT, options=options)
    if dry_run:
        show_clones(request, options.connection, globs, how)
        return
    found = look_at_templates(request, options.connection, globs, how)
    show.lines(lambda width: render_template_looks(found, width))
    if found.left_over:
        raise typer.Exit(EXIT_LEFT_OVER)
    if found.lacks:
        raise typer.Exit(EXIT_FAILED)


def _progress() -> Callable[[CheckResult], None]:
    """Report failures as they come, on a terminal that shows standard error."""
    import sys

    from vgpu_cfg.cli.output import show
    from vgpu_cfg.model.verification import CheckState

    def on_result(result: CheckResult) -> None:
        if sys.stderr.isatty() and result.state is not CheckState.SKIPPED:
            show.say(f"{result.subject.name}: {result.title}: {result.state.value.replace('_', ' ')}")

    return on_result


def _save(path: Path, found: Verification) -> None:
    """Keep the figures if nothing failed: others would be compared with faulty ones."""
    from vgpu_cfg.cli.kept.baselines import write_baseline
    from vgpu_cfg.cli.output import show

    if found.failed:
        show.say(f"the measurements were not saved to {path} because of failed checks ({len(found.failed)})")
    elif not write_baseline(path, found):
        show.say(f"nothing was saved to {path}: this run made no measurements")
    else:
        show.say(f"{path}: measurements saved; compare a later run with --baseline={path}")


def _write(
    path: Path, found: Verification, code: int, baseline: Baseline | None, earlier: tuple[PastRun, ...]
) -> None:
    from vgpu_cfg.cli.kept.whole_file import write_page
    from vgpu_cfg.render.data.verification import verification_data
    from vgpu_cfg.render.page.verification import render_verification_page
    from vgpu_cfg.render.views.verification import view_report
    from vgpu_cfg.verification import past_run

    view = view_report(found, past_run(found), exit_code=code, baseline=baseline, earlier=earlier)
    write_page(path, render_verification_page(found, verification_data(found), view))


def _show(found: Verification, output: ReportFormat, next_command: str, *, verbose: bool) -> None:
    from vgpu_cfg.cli.output import show

    if output is ReportFormat.JUNIT:
        show.report_verification(found)
        return
    if output is ReportFormat.JSON:
        from vgpu_cfg.render.data.verification import verification_data

        show.data(verification_data(found))
        return
    from vgpu_cfg.render.text.verification import render_verification

    show.lines(lambda width: render_verification(found, width, next_command=next_command, with_all=verbose))
