"""One command for several vCenters or plans: asked side by side, printed one after the other, then summed.

Each question has a thread of its own, fails for itself, and Ctrl-C ends all: a reading waits for its
vCenter most of the time. Writes belong to a run, which is one thread. Contexts of the config file, or the
plans of a folder, become questions, each with its own server, limits and login.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING

import typer

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows.flow import meant_at, plan_with, refusal_of, server_of
from vgpu_cfg.cli.flows.preparing.request import PlanRequest, read_request, refuse_unknown_profiles
from vgpu_cfg.cli.options.shared import CommandOptions, OutputFormat
from vgpu_cfg.cli.output import answers, show
from vgpu_cfg.cli.output.answers import Answer
from vgpu_cfg.errors import DocumentError, DocumentFault, Interrupted, VgpuCfgError, worst_exit_code
from vgpu_cfg.plan_loading.folder import find_clashes, find_plans
from vgpu_cfg.render.views.several import OneOfSeveral, Several
from vgpu_cfg.settings.connection import Connection, FetchedLogins, is_same_server, servers_of_contexts
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from rich.text import Text

    from vgpu_cfg.changes.plan import Plan
    from vgpu_cfg.cli.options.hosts import HostChoice
    from vgpu_cfg.model.desired import DesiredPlan

MOST_AT_ONCE = 8
"""The most questions at once: each holds its reading in memory."""
TURN_SECONDS = 1.0
"""So long is waited for an answer until Ctrl-C is looked for again."""
LOGOUT_SECONDS = 3.0
"""So long after Ctrl-C the others may take to log out."""
Requests = Mapping[Path, PlanRequest | VgpuCfgError]


@dataclass(frozen=True, slots=True)
class Question:
    """A named question to a server. `ask` is called in a thread of its own."""

    name: str
    server: str
    ask: Callable[[], Answer]


@dataclass(frozen=True, slots=True)
class Told:
    """The result of a question: an answer, or its error."""

    name: str
    server: str
    answer: Answer | None = None
    error: Exception | None = None


def ask_all(questions: Sequence[Question]) -> tuple[Told, ...]:
    """Ask all of them and return what came of each, in their order.

    Raises Interrupted on Ctrl-C, once the others have logged out or have taken too long to.
    """
    waiting: SimpleQueue[int] = SimpleQueue()
    for number in range(len(questions)):
        waiting.put(number)
    ended: SimpleQueue[tuple[int, Told]] = SimpleQueue()
    stopped = Event()

    def work() -> None:
        with compose.beside_others(stopped):
            while not stopped.is_set():
                try:
                    number = waiting.get_nowait()
                except Empty:
                    return
                ended.put((number, _told(questions[number])))

    # A thread that cannot be stopped keeps no command from ending.
    threads = [Thread(target=work, daemon=True) for _ in range(min(len(questions), MOST_AT_ONCE))]
    found: dict[int, Told] = {}
    try:
        for thread in threads:
            thread.start()
        while len(found) < len(questions):
            # A signal just before the wait does not end it: Python looks for it at the next turn.
            with suppress(Empty):
                number, told = ended.get(timeout=TURN_SECONDS)
                found[number] = told
    except KeyboardInterrupt:
        while not ended.empty():
            number, told = ended.get()
            found[number] = told
        stopped.set()
        deadline = time.monotonic() + LOGOUT_SECONDS
        for thread in threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))
        left = [one.name for number, one in enumerate(questions) if number not in found]
        raise Interrupted(
            "stopped before all vCenters were read",
            subject=", ".join(left),
            remedy="rerun the command",
        ) from None
    return tuple(found[number] for number in range(len(questions)))


def _told(question: Question) -> Told:
    try:
        return Told(question.name, question.server, question.ask())
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not hide what the others answer
        return Told(question.name, question.server, error=error)


def tell_all(
    told: Sequence[Told],
    noun: str,
    command: str,
    output: OutputFormat,
    lines: Callable[[int], Iterable[Text]] | None = None,
) -> int:
    """Print all answers and their sums; return the exit code of the worst.

    `noun` is the kind of each: a context or a plan. `lines` lays them out as one instead. An error of this
    program itself is raised once everything else is printed.
    """
    view = _view(told, noun, command)
    if output is OutputFormat.JSON:
        from vgpu_cfg.render.data.documents import several_data

        answers = [one.answer.data() if one.answer is not None else None for one in told]
        show.data(several_data(view, answers))
    else:
        show.lines(lines or (lambda width: _lines(told, view, width)))
    sys.stdout.flush()
    faults_told: set[tuple[DocumentFault, ...]] = set()
    for row in view.rows:
        if row.error is None:
            continue
        # What is wrong with a file that several include is told once; in JSON each error is of its own plan.
        if isinstance(row.error, DocumentError) and output is not OutputFormat.JSON:
            if row.error.faults in faults_told:
                continue
            faults_told.add(row.error.faults)
        show.error(row.error, output, of=f"{noun} {row.name}")
    for one in told:
        if one.error is not None and not isinstance(one.error, VgpuCfgError):
            raise one.error
    return worst_exit_code(row.exit_code for row in view.rows)


def _view(told: Sequence[Told], noun: str, command: str) -> Several:
    from vgpu_cfg.planning.pool.summary import add_up

    answers = [one.answer for one in told if one.answer is not None]
    pools = [answer.pool for answer in answers if answer.pool]
    return Several(noun, command, tuple(_row(one) for one in told), add_up(pools) if pools else ())


def _row(one: Told) -> OneOfSeveral:
    match one.answer:
        case None:
            error = one.error if isinstance(one.error, VgpuCfgError) else None
            return OneOfSeveral(one.name, one.server, error=error, exit_code=error.exit_code if error else 1)
        case Answer() as answer:
            return OneOfSeveral(one.name, one.server, answer.figures, answer.refusal, answer.exit_code)


def _lines(told: Sequence[Told], view: Several, width: int) -> Iterator[Text]:
    from vgpu_cfg.render.text.several import heading, render_sums

    for one in told:
        if one.answer is not None:
            yield from heading(view.noun, one.name, width)
            yield from one.answer.lines(width)
    yield from render_sums(view, width)


def ask_contexts(
    flags: ConnectionFlags, ask: Callable[[Connection], Answer], *, plan: DesiredPlan | None = None
) -> tuple[Told, ...]:
    """Ask every selected context or server, side by side, and return the answer of each, or its error.

    A `plan` may name a datacenter. Passwords are fetched one after the other, before the first question: two
    prompts never appear at once. Raises DocumentError and NotFound if no context is selected, Interrupted on
    Ctrl-C.
    """
    _refuse_what_is_one_servers(flags)
    fetched: FetchedLogins = {}
    known: dict[str, Connection] = {}
    questions: list[Question] = []
    failed: dict[str, Told] = {}
    servers = servers_of_contexts(flags.contexts) if flags.contexts else {one: one for one in flags.servers}
    for name, server in servers.items():
        try:
            one = replace(flags, contexts=(), servers=())
            one = replace(one, context=name) if flags.contexts else replace(one, server=name)
            connection = server_of(one, plan).with_login(fetched)
        except VgpuCfgError as error:
            failed[name] = Told(name, server, error=error)
        else:
            _refuse_twice(name, connection, known)
            known[name] = connection
            questions.append(Question(name, server, _asking(ask, connection)))
    told = {one.name: one for one in ask_all(questions)} | failed
    return tuple(told[name] for name in servers)


def refuse_vain(choice: HostChoice, told: Sequence[Told]) -> None:
    """Raise NotFound for globs of hosts that name nothing anywhere, unless one has not answered."""
    if all(one.error is None for one in told):
        choice.refuse_vain(", ".join(one.name for one in told))


def _asking(ask: Callable[[Connection], Answer], connection: Connection) -> Callable[[], Answer]:
    return lambda: ask(connection)


def _refuse_twice(name: str, connection: Connection, known: Mapping[str, Connection]) -> None:
    """Raise BadParameter where two contexts are of one vCenter: sums would count it twice."""
    for other, its in known.items():
        is_apart = connection.datacenter and its.datacenter and connection.datacenter != its.datacenter
        if is_same_server(connection.server, its.server) and not is_apart:
            raise typer.BadParameter(
                (
                    f"{other} and {name} are contexts of the same vCenter, so it would be counted twice; "
                    "specify only one of them"
                ),
                param_hint="--context",
            )


def _refuse_what_is_one_servers(flags: ConnectionFlags) -> None:
    """Raise BadParameter for options that apply to one server only."""
    server = flags.server or (flags.servers if flags.contexts or flags.context else ()) or None
    said = {"--server": server, "--thumbprint": flags.thumbprint, "--from": flags.recording}
    for option, value in said.items():
        if value is not None:
            raise typer.BadParameter(
                "applies to a single vCenter; omit it when --context selects several", param_hint=option
            )


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
            questions.append(Question(str(path), server.server, _question_at(ask, request, server)))
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


def _question_at(
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
