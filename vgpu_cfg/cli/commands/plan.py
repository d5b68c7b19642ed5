"""The commands that work on a plan file: validate, plan, apply, status and destroy."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vgpu_cfg.cli.options.running import RotateOption, notified, occasioned, rotated
from vgpu_cfg.cli.options.shared import (
    AllowDestroyOption,
    AllowOption,
    CommandOptions,
    DeleteOption,
    DryRunOption,
    MoveOption,
    OnlyOption,
    OutputFormat,
    OutputOption,
    ParallelOption,
    PerHostOption,
    PlanArgument,
    PlanFormat,
    PlanOutputOption,
    PlansArgument,
    PowerCycleOption,
    ReportFormat,
    ReportOption,
    SignersOption,
    YesOption,
    connected,
    planned,
    refuse_of_several,
)
from vgpu_cfg.errors import Unreachable
from vgpu_cfg.model.choices import PARALLEL, PER_HOST, Occasion
from vgpu_cfg.model.runs import OnFailure
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.changes.plan import Plan
    from vgpu_cfg.cli.flows.preparing.request import PlanRequest
    from vgpu_cfg.cli.flows.running.run_flow import ApplyOptions
    from vgpu_cfg.cli.output import answers
    from vgpu_cfg.settings.connection import Connection
    from vgpu_cfg.settings.secrets import SecretStore

_SaveOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="PLAN.json", help="Save the plan to review and apply it."),
]
_SignOption = Annotated[
    Path | None,
    typer.Option("--sign", metavar="KEY", help="Sign the saved plan with this SSH key.", show_default=False),
]
_ExitCodeOption = Annotated[
    bool,
    typer.Option(
        "--exit-code", help="Exit with 10 if there are differences, or with 9 if some values are unknown."
    ),
]
_OpenShellOption = Annotated[
    bool,
    typer.Option(
        "--open-shell",
        help="Start the hosts' SSH services for reading, if the plan file allows it; stop them afterwards.",
    ),
]
_DoneOption = Annotated[
    list[str] | None,
    typer.Option(
        "--done",
        metavar="STEP",
        help="Confirm that this manual step is complete, if vgpu-cfg cannot detect it.",
    ),
]
_ExpiredOption = Annotated[
    bool,
    typer.Option(
        "--expired",
        help="Only shut down VMs whose `expires` time has passed; change nothing else.",
        rich_help_panel="Approvals and scope",
    ),
]
_RollbackOption = Annotated[
    bool,
    typer.Option(
        "--rollback-on-failure",
        help="If a change fails, undo this run's changes as far as possible.",
        rich_help_panel="Run",
    ),
]
_StopOption = Annotated[
    bool,
    typer.Option(
        "--stop-on-failure",
        help="After the first failure, do not start new work; only finish work on hosts that are out of "
        "service.",
        rich_help_panel="Run",
    ),
]
_CanaryOption = Annotated[
    int,
    typer.Option(
        "--canary",
        metavar="N",
        min=0,
        help="Create and verify the first N VMs; then ask before continuing.",
        show_default=False,
        rich_help_panel="Run",
    ),
]
_SuggestOption = Annotated[
    Path | None,
    typer.Option("--suggest", metavar="FILE", help="If the plan is rejected, write a corrected plan file."),
]
_PlanPageOption = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Also write an HTML page: the estate before and after, and every change.",
    ),
]
_RunPageOption = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Also write an HTML page: the timeline of the run and the remaining work.",
    ),
]
_StatusPageOption = Annotated[
    Path | None,
    typer.Option(
        "--html", metavar="FILE", help="Also write an HTML page: what differs, who changed it and when."
    ),
]
_VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also show settings that already match.")
]
_PlansToLookAt = Annotated[
    Path | None,
    typer.Argument(
        metavar="PLAN",
        help="The plan file, or a folder of plans; omit it to show everything that vgpu-cfg manages.",
        show_default=False,
    ),
]
_PlansToCheck = Annotated[
    Path | None,
    typer.Argument(metavar="PLAN", help="The plan file, or a folder of plans.", show_default=False),
]
_DownloadsOption = Annotated[
    bool,
    typer.Option(
        "--downloads", help="Also list the guests' downloads with their addresses, pinned checksums, and VMs."
    ),
]
_PinOption = Annotated[
    bool,
    typer.Option(
        "--pin",
        help="Fetch these downloads, and write their checksums, digests, and versions to "
        "downloads.lock.yaml next to the plan file.",
    ),
]
_NAME_ONE = "applies to a single plan; specify one file from the folder"


class SchemaOf(StrEnum):
    """The documents that `validate --schema` describes."""

    PLAN_FILE = "plan-file"
    PLAN_JSON = "plan-json"


def register(app: typer.Typer) -> None:
    """Add the commands, in the order in which a newcomer meets them."""
    app.command(
        epilog="vgpu-cfg validate examples/full-vgpu.yaml  # one file\n\n"
        "vgpu-cfg validate site/  # a folder\n\n"
        "vgpu-cfg validate plan.yaml --downloads  # guest downloads\n\n"
        "vgpu-cfg validate --schema plan-file > plan.schema.json  # for editors"
    )(validate)
    app.command(
        epilog="vgpu-cfg plan examples/four-10c.yaml  # show the changes\n\n"
        "vgpu-cfg plan plan.yaml --set net=prod -o plan.json  # save for review"
        "\n\nvgpu-cfg plan site/ --exit-code  # a folder, for CI"
    )(plan)
    app.command(
        epilog="vgpu-cfg apply plan.yaml  # show, ask and run\n\n"
        "vgpu-cfg apply plan.json --yes --parallel 16  # a reviewed plan"
    )(apply)
    app.command(
        epilog="vgpu-cfg status plan.yaml --exit-code  # drift, for CI\n\n"
        "vgpu-cfg status plan.yaml --context 'prod-*'  # several vCenters"
        "\n\nvgpu-cfg status --server vc01.example.com --server vc02.example.com  # everything it manages"
    )(status)
    app.command(
        epilog="vgpu-cfg destroy plan.yaml --dry-run  # show only\n\n"
        "vgpu-cfg destroy plan.yaml --only hvd-01  # one VM"
    )(destroy)


@planned
def validate(
    path: _PlansToCheck = None,
    *,
    schema: Annotated[
        SchemaOf | None,
        typer.Option(
            "--schema", help="Print the JSON schema of plan files, or of the plan.json that `plan -o` saves."
        ),
    ] = None,
    downloads: _DownloadsOption = False,
    pin: _PinOption = False,
    output: ReportOption = ReportFormat.TEXT,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
) -> None:
    """Check a plan file offline and report every error with its line."""
    if schema is not None:
        _print_schema(schema)
        return
    if path is None:
        raise typer.BadParameter("specify a plan file, or a folder of plans", param_hint="PLAN")
    from vgpu_cfg.cli.flows.preparing.request import read_request, refuse_unknown_profiles
    from vgpu_cfg.cli.output import answers, show

    listing = {"--downloads": downloads, "--pin": pin}
    if output is ReportFormat.JUNIT and any(listing.values()):
        raise typer.BadParameter("cannot be combined with --output junit", param_hint=" or ".join(listing))
    if path.is_dir():
        from vgpu_cfg.cli.several import read_plans, tell_all, validate_plans

        refuse_of_several({"--output": output is ReportFormat.JUNIT, **listing}, _NAME_ONE)
        requests = read_plans(path, variables, variable_files)
        told = validate_plans(requests)
        raise typer.Exit(tell_all(told, "plan", "validate", OutputFormat(output.value)))
    desired = read_request(path, variables, variable_files).desired
    refuse_unknown_profiles(desired)
    if output is ReportFormat.JUNIT:
        show.report_file(desired)
        return
    if not (downloads or pin):
        answers.validated(path, desired).tell(OutputFormat(output.value))
        return
    from vgpu_cfg.cli.flows.files import downloads_flow

    failed = 0
    if pin:
        desired, failed = downloads_flow.pin(path, desired)
    listed = downloads_flow.downloads_of(desired)
    answers.validated(path, desired, listed).tell(OutputFormat(output.value))
    if failed:
        raise typer.Exit(Unreachable.exit_code)


def _print_schema(document: SchemaOf) -> None:
    import json

    if document is SchemaOf.PLAN_JSON:
        from vgpu_cfg.changes.schema import plan_json_schema

        made = plan_json_schema()
    else:
        from vgpu_cfg.model.plan_file import plan_file_schema

        made = plan_file_schema()
    typer.echo(json.dumps(made, indent=2))


@connected(recordings=True, quotas=True)
@planned
def plan(
    path: PlansArgument,
    *,
    out: _SaveOption = None,
    sign: _SignOption = None,
    exit_code: _ExitCodeOption = False,
    allow_power_cycle: PowerCycleOption = False,
    allow_move: MoveOption = False,
    allow: AllowOption = None,
    delete: DeleteOption = None,
    allow_destroy: AllowDestroyOption = 0,
    only: OnlyOption = None,
    rotate: RotateOption = None,
    open_shell: _OpenShellOption = False,
    suggest: _SuggestOption = None,
    html: _PlanPageOption = None,
    verbose: _VerboseOption = False,
    output: PlanOutputOption = PlanFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
) -> None:
    """Show what would change, and why. Read-only."""
    from vgpu_cfg.cli.flows import flow
    from vgpu_cfg.cli.flows.preparing.request import proposed, sign_plan
    from vgpu_cfg.cli.flows.suggestion import find_fixes, write_suggestion
    from vgpu_cfg.cli.kept import whole_file
    from vgpu_cfg.cli.kept.saved_plan import save_plan
    from vgpu_cfg.cli.kept.whole_file import refuse_unwritable
    from vgpu_cfg.cli.options.running import stand_in
    from vgpu_cfg.cli.output import show

    names = tuple(delete or ())
    if html is not None:
        refuse_unwritable(html, "--html")
    if sign is not None and out is None:
        raise typer.BadParameter("requires -o: only a saved plan can be signed", param_hint="--sign")
    if path.is_dir():
        from vgpu_cfg.cli.several import ask_plans, plan_answer, read_plans, tell_all

        of_one_plan = {
            "--out": out,
            "--delete": names,
            "--only": only,
            "--rotate": rotate,
            "--open-shell": open_shell,
            "--suggest": suggest,
            "--html": html,
            "--output": output in (PlanFormat.MARKDOWN, PlanFormat.JUNIT),
        }
        refuse_of_several(of_one_plan, _NAME_ONE)
        shown = CommandOptions(
            connection,
            variables,
            variable_files,
            allow_power_cycle,
            allow_move,
            allow_destroy=allow_destroy,
            allow=tuple(allow or ()),
        )

        def code_of(made: Plan) -> int:
            return flow.exit_code_of_differences(made) if exit_code else 0

        def ask(request: PlanRequest, server: Connection) -> answers.Answer:
            occasioned = replace(shown, occasion=stand_in(server))
            return plan_answer(request, server, occasioned, code_of, verbose=verbose)

        told = ask_plans(read_plans(path, variables, variable_files), connection, ask)
        raise typer.Exit(tell_all(told, "plan", "plan", OutputFormat(output.value)))
    request = flow.read_to_ask(path, variables, variable_files, connection)
    if out is not None:
        request = proposed(request, out)
    server = flow.server_of(connection, request.desired)
    options = CommandOptions(
        connection,
        variables,
        variable_files,
        allow_power_cycle,
        allow_move,
        names,
        tuple(only or ()),
        stand_in(server),
        allow_destroy,
        rotate=rotated(rotate, request.desired),
        allow=tuple(allow or ()),
    )
    answer = flow.plan_once(
        request, connection, options.plan_options, open_shell=open_shell, only_plan=html is None
    )
    made = answer.plan
    is_fixable = bool(made.errors) and request.reviewed is None
    is_asked = output is not PlanFormat.JUNIT or suggest is not None or html is not None
    fixes = find_fixes(request, server, answer) if is_fixable and is_asked else None
    if out is not None:
        save_plan(made, out)
    if html is not None:
        whole_file.plan(html, made, answer.observed, fixes)
    next_command = options.command("apply", out or path)
    if output in (PlanFormat.MARKDOWN, PlanFormat.JUNIT):
        show.report_plan(made, output, command=next_command, fixes=fixes)
    else:
        show.plan(made, OutputFormat(output.value), command=next_command, verbose=verbose, fixes=fixes)
    is_written = suggest is not None and write_suggestion(suggest, fixes, path)
    if fixes is not None and output is PlanFormat.TEXT:
        command = options.command("plan", path, f"--suggest={path.stem}-fixed{path.suffix}")
        show.fixes(fixes, command=command, is_written=str(suggest) if is_written else "")
    flow.refuse_errors(made, fixes)
    if sign is not None and out is not None:
        show.say(f"{sign_plan(out, sign)}: signed with {sign}")
    if exit_code:
        raise typer.Exit(flow.exit_code_of_differences(made))


@connected(quotas=True)
@planned
@occasioned
@notified
def apply(
    path: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan file, or a reviewed plan.json.")],
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    allow_power_cycle: PowerCycleOption = False,
    allow_move: MoveOption = False,
    allow: AllowOption = None,
    delete: DeleteOption = None,
    allow_destroy: AllowDestroyOption = 0,
    only: OnlyOption = None,
    rotate: RotateOption = None,
    done: _DoneOption = None,
    expired: _ExpiredOption = False,
    require_signature: SignersOption = None,
    parallel: ParallelOption = PARALLEL,
    per_host: PerHostOption = PER_HOST,
    rollback_on_failure: _RollbackOption = False,
    stop_on_failure: _StopOption = False,
    canary: _CanaryOption = 0,
    html: _RunPageOption = None,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
    occasion: Occasion,
) -> None:
    """Apply a plan: show it, ask for confirmation, run it, and verify the result."""
    from vgpu_cfg.cli.flows import flow
    from vgpu_cfg.cli.flows.running import apply_flow
    from vgpu_cfg.cli.flows.running.run_flow import ApplyOptions
    from vgpu_cfg.cli.kept.whole_file import refuse_unwritable

    names = tuple(delete or ())
    if html is not None:
        refuse_unwritable(html, "--html")
    request = flow.read_to_ask(path, variables, variable_files, connection)
    options = CommandOptions(
        connection,
        variables,
        variable_files,
        allow_power_cycle,
        allow_move,
        names,
        tuple(only or ()),
        occasion,
        allow_destroy,
        on_failure=_on_failure(rolls_back=rollback_on_failure, stops=stop_on_failure),
        rotate=rotated(rotate, request.desired),
        canary=canary,
        signers=require_signature,
        expired=expired,
        allow=tuple(allow or ()),
    )
    how = ApplyOptions(
        path=path,
        yes=yes,
        parallel=parallel,
        per_host=per_host,
        output=output,
        options=options,
        done=tuple(done or ()),
        html=html,
    )
    if expired:
        _refuse_beside_expired(options, how)
    if dry_run:
        apply_flow.show_only(request, connection, options.plan_options, how)
        return
    if expired:
        raise typer.Exit(apply_flow.shut_down_expired(request, connection, options.plan_options, how))
    raise typer.Exit(apply_flow.apply(request, connection, options.plan_options, how))


def _refuse_beside_expired(options: CommandOptions, how: ApplyOptions) -> None:
    """Raise BadParameter for what says how VMs are made or changed: an expired one is only shut down."""
    beside = {
        "--delete": options.delete,
        "--allow-destroy": options.allow_destroy,
        "--allow-power-cycle": options.allow_power_cycle,
        "--allow-move": options.allow_move,
        "--allow": options.allow,
        "--rotate": options.rotate,
        "--canary": options.canary,
        "--done": how.done,
        "--rollback-on-failure": options.on_failure is OnFailure.ROLL_BACK,
    }
    for hint, is_given in beside.items():
        if is_given:
            raise typer.BadParameter(
                "cannot be combined with --expired, which only shuts VMs down", param_hint=hint
            )


def _on_failure(*, rolls_back: bool, stops: bool) -> OnFailure:
    if rolls_back:
        return OnFailure.ROLL_BACK
    return OnFailure.STOP if stops else OnFailure.GO_ON


@connected(recordings=True, several=True, servers=True, quotas=True)
@planned
def status(
    path: _PlansToLookAt = None,
    *,
    exit_code: _ExitCodeOption = False,
    html: _StatusPageOption = None,
    verbose: _VerboseOption = False,
    output: ReportOption = ReportFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
) -> None:
    """Show a plan's VMs, their drift, and who changed them; without a plan, everything vgpu-cfg manages."""
    from vgpu_cfg.cli.flows import flow
    from vgpu_cfg.cli.flows.doctor_flow import look, look_at
    from vgpu_cfg.cli.flows.preparing.request import read_request
    from vgpu_cfg.cli.kept import whole_file
    from vgpu_cfg.cli.kept.whole_file import refuse_unwritable
    from vgpu_cfg.cli.output import answers, show
    from vgpu_cfg.cli.several import ask_contexts, ask_plans, read_plans, tell_all
    from vgpu_cfg.planning.findings.options import PlanOptions

    if html is not None:
        refuse_unwritable(html, "--html")
    options = PlanOptions(allow_power_cycle=True)

    def code_of(made: Plan) -> int:
        return flow.exit_code_of_differences(made) if exit_code else 0

    def ask(request: PlanRequest, secrets: SecretStore, server: Connection) -> answers.Answer:
        found, differences = look_at(server, flow.meant_at(server, request.desired), options, secrets)
        code = code_of(found.plan)
        return answers.status(found.plan, found.observed, differences, verbose=verbose, exit_code=code)

    of_one = {"--html": html, "--output": output is ReportFormat.JUNIT}
    if path is None:
        of_a_plan = {
            "--output": output is ReportFormat.JUNIT,
            "--set": variables,
            "--vars": variable_files,
            "--quotas": connection.quotas,
        }
        refuse_of_several(of_a_plan, "requires a plan file")
        raise typer.Exit(
            _without_plan(
                connection,
                OutputFormat(output.value),
                html,
                verbose=verbose,
                exit_code=exit_code,
            )
        )
    if path.is_dir():
        refuse_of_several(of_one, _NAME_ONE)
        requests = read_plans(path, variables, variable_files)
        told = ask_plans(requests, connection, lambda one, server: ask(one, one.secrets(), server))
        raise typer.Exit(tell_all(told, "plan", "status", OutputFormat(output.value)))
    request = read_request(path, variables, variable_files)
    if connection.is_of_several:
        refuse_of_several(of_one)
        secrets = request.secrets()
        told = ask_contexts(connection, lambda server: ask(request, secrets, server), plan=request.desired)
        raise typer.Exit(tell_all(told, "context", "status", OutputFormat(output.value)))
    answer, differences = look(request, connection, options)
    made = answer.plan
    if html is not None:
        whole_file.status(html, made, answer.observed, differences)
    if output is ReportFormat.JUNIT:
        show.report_status(made, answer.observed)
    else:
        answers.status(made, answer.observed, differences, verbose=verbose).tell(OutputFormat(output.value))
    raise typer.Exit(code_of(made))


def _without_plan(
    flags: ConnectionFlags,
    output: OutputFormat,
    html: Path | None,
    *,
    verbose: bool,
    exit_code: bool,
) -> int:
    """Report everything of this program at one vCenter or several; return the exit code."""
    from vgpu_cfg.cli.commands.explain import server_words
    from vgpu_cfg.cli.flows.doctor_flow import look_around
    from vgpu_cfg.cli.flows.flow import EXIT_DIFFERENCES, EXIT_UNKNOWN
    from vgpu_cfg.cli.kept.whole_file import write_page
    from vgpu_cfg.cli.options.typed import completed_command
    from vgpu_cfg.cli.output import answers
    from vgpu_cfg.cli.several import ask_contexts, tell_all
    from vgpu_cfg.planning.doctor.ailments import Level
    from vgpu_cfg.planning.doctor.ours import Ours, together
    from vgpu_cfg.render.text.doctor import render_ours
    from vgpu_cfg.settings.connection import resolve_connection

    def answer(found: Ours, words: Sequence[str]) -> answers.Answer:
        is_wrong = any(one.kind.level is not Level.WAITING for one in found.ailments)
        code = EXIT_DIFFERENCES if is_wrong else EXIT_UNKNOWN if found.notes else 0
        command = completed_command(shlex.join(["vgpu-cfg", "doctor", *words]))
        return answers.ours(found, next_command=command, verbose=verbose, exit_code=code if exit_code else 0)

    if flags.is_of_several:
        refuse_of_several({"--html": html})
        all_of_them: dict[str, Ours] = {}

        def ask(server: Connection) -> answers.Answer:
            words = ["--server", server.server]
            all_of_them[server.server] = look_around(server, words)
            return answer(all_of_them[server.server], words)

        told = ask_contexts(flags, ask)
        silent = [f"{one.name}: {one.error}" for one in told if one.error is not None]
        whole = together([all_of_them[one.server] for one in told if one.error is None], silent)
        command = "vgpu-cfg doctor --server ADDRESS"
        return tell_all(
            told,
            "context",
            "status",
            output,
            lambda width: render_ours(whole, width, next_command=command, with_all=verbose),
        )
    words = server_words(flags)
    found = look_around(resolve_connection(flags), words)
    if html is not None:
        from vgpu_cfg.render.data.upkeep import ours_data
        from vgpu_cfg.render.page.estate import render_ours_page

        write_page(html, render_ours_page(found, ours_data(found)))
    told_alone = answer(found, words)
    told_alone.tell(output)
    return told_alone.exit_code


@connected()
@planned
@occasioned
@notified
def destroy(
    path: PlanArgument,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    delete: DeleteOption = None,
    allow_destroy: AllowDestroyOption = 0,
    only: OnlyOption = None,
    require_signature: SignersOption = None,
    parallel: ParallelOption = PARALLEL,
    per_host: PerHostOption = PER_HOST,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
    variables: dict[str, str],
    variable_files: tuple[Path, ...],
    occasion: Occasion,
) -> None:
    """Delete the VMs that the plan lists and owns, together with their rules."""
    from vgpu_cfg.cli.flows import flow
    from vgpu_cfg.cli.flows.preparing.request import read_request
    from vgpu_cfg.cli.flows.running import apply_flow
    from vgpu_cfg.cli.flows.running.run_flow import ApplyOptions
    from vgpu_cfg.cli.output import show

    request = read_request(path, variables, variable_files)
    names, globs = tuple(delete or ()), tuple(only or ())
    options = CommandOptions(
        connection,
        variables,
        variable_files,
        delete=names,
        only=globs,
        occasion=occasion,
        allow_destroy=allow_destroy,
        signers=require_signature,
    )
    if dry_run:
        made = flow.plan_destroy_once(request, connection, options.plan_options)
        show.plan(made, output, command=options.command("destroy", path), verbose=False)
        flow.refuse_errors(made)
        return
    how = ApplyOptions(
        path=path, yes=yes, parallel=parallel, per_host=per_host, output=output, options=options
    )
    raise typer.Exit(apply_flow.destroy(request, connection, options.plan_options, how))
