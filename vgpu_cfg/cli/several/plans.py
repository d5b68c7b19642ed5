"""How the plans of a folder become questions, each to the vCenter that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows.flow import meant_at, plan_with, refusal_of, server_of
from vgpu_cfg.cli.flows.preparing.request import PlanRequest, read_request, refuse_unknown_profiles
from vgpu_cfg.cli.options.shared import CommandOptions
from vgpu_cfg.cli.output import answers
from vgpu_cfg.cli.output.answers import Answer
from vgpu_cfg.cli.several.asking import Question, Told, ask_all
from vgpu_cfg.errors import VgpuCfgError
from vgpu_cfg.plan_loading.folder import find_clashes, find_plans
from vgpu_cfg.settings.connection import Connection, FetchedLogins
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.changes.plan import Plan

Requests = Mapping[Path, PlanRequest | VgpuCfgError]


def read_plans(folder: Path, variables: dict[str, str], variable_files: tuple[Path, ...]) -> Requests:
    """Read every plan of a folder; return the question of each, or its faults.

    A claim of two of them is a fault of both. Raises DocumentError if no file is a plan.
    """
    found: dict[Path, PlanRequest | VgpuCfgError] = {}
    for path in find_plans(folder):
        try:
            found[path] = read_request(path, variables, variable_files)
        except VgpuCfgError as error:
            found[path] = error
    desired = {path: one.desired for path, one in found.items() if isinstance(one, PlanRequest)}
    return found | find_clashes(desired)


def validate_plans(requests: Requests) -> tuple[Told, ...]:
    """Return the validation of each plan by itself, without a server."""
    return tuple(_validated(path, request) for path, request in requests.items())


def _validated(path: Path, request: PlanRequest | VgpuCfgError) -> Told:
    if isinstance(request, VgpuCfgError):
        return Told(str(path), "", error=request)
    desired = request.desired
    try:
        refuse_unknown_profiles(desired)
    except VgpuCfgError as error:
        return Told(str(path), desired.vcenter, error=error)
    return Told(str(path), desired.vcenter, answers.validated(path, desired))


def ask_plans(
    requests: Requests, flags: ConnectionFlags, ask: Callable[[PlanRequest, Connection], Answer]
) -> tuple[Told, ...]:
    """Ask the vCenter of every plan, side by side, and return what each answered, or why it did not.

    Passwords are fetched one after the other, before the first is asked. Raises Interrupted on Ctrl-C.
    """
    _refuse_another_server(flags)
    fetched: FetchedLogins = {}
    questions: list[Question] = []
    failed: dict[str, Told] = {}
    for path, request in requests.items():
        if not isinstance(request, PlanRequest):
            failed[str(path)] = Told(str(path), "", error=request)
            continue
        try:
            server = server_of(flags, request.desired).with_login(fetched)
        except VgpuCfgError as error:
            failed[str(path)] = Told(str(path), request.desired.vcenter, error=error)
        else:
            questions.append(Question(str(path), server.server, _asking(ask, request, server)))
    told = {one.name: one for one in ask_all(questions)} | failed
    return tuple(told[str(path)] for path in requests)


def plan_answer(
    request: PlanRequest,
    server: Connection,
    options: CommandOptions,
    code_of: Callable[[Plan], int],
    *,
    verbose: bool,
) -> Answer:
    """Plan for one file of a folder, and find what would help where it is refused."""
    from vgpu_cfg.cli.flows.suggestion import find_fixes

    desired = meant_at(server, request.desired)
    with compose.connect_reader(server) as reader:
        secrets = request.secrets()
        found = plan_with(reader, desired, server, options.plan_options, secrets, only_plan=True)
    fixes = find_fixes(request, server, found) if found.plan.errors else None
    path = request.path
    return answers.plan(
        found.plan,
        command=options.command("apply", path),
        fix_command=options.command("plan", path, f"--suggest={path.stem}-fixed{path.suffix}"),
        verbose=verbose,
        exit_code=code_of(found.plan),
        fixes=fixes,
        refusal=refusal_of(found.plan, fixes),
    )


def _asking(
    ask: Callable[[PlanRequest, Connection], Answer], request: PlanRequest, server: Connection
) -> Callable[[], Answer]:
    return lambda: ask(request, server)


def _refuse_another_server(flags: ConnectionFlags) -> None:
    """Raise BadParameter where the command line names a server: each plan of a folder names its own."""
    said = {
        "--server": flags.server,
        "--context": flags.context or flags.contexts,
        "--thumbprint": flags.thumbprint,
        "--from": flags.recording,
    }
    for option, value in said.items():
        if value:
            raise typer.BadParameter("each plan in a folder specifies its own vCenter", param_hint=option)
