"""How contexts of the config file become questions: each with its own server, limits and login."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from vgpu_cfg.cli.flows.flow import server_of
from vgpu_cfg.cli.output.answers import Answer
from vgpu_cfg.cli.several.asking import Question, Told, ask_all
from vgpu_cfg.errors import VgpuCfgError
from vgpu_cfg.settings.connection import Connection, FetchedLogins, is_same_server
from vgpu_cfg.settings.contexts import servers_of_contexts
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.cli.options.hosts import HostChoice
    from vgpu_cfg.model.desired import DesiredPlan


def ask_contexts(
    flags: ConnectionFlags, ask: Callable[[Connection], Answer], *, plan: DesiredPlan | None = None
) -> tuple[Told, ...]:
    """Ask every context that is meant, side by side, and return what each answered, or why it did not.

    A `plan` that is asked about may name a datacenter. Passwords are fetched one after the other, before the
    first is asked: two prompts never stand beside each other.
    Raises DocumentError and NotFound where no context is meant, Interrupted on Ctrl-C.
    """
    _refuse_what_is_one_servers(flags)
    fetched: FetchedLogins = {}
    known: dict[str, Connection] = {}
    questions: list[Question] = []
    failed: dict[str, Told] = {}
    servers = servers_of_contexts(flags.contexts)
    for name, server in servers.items():
        try:
            connection = server_of(replace(flags, context=name, contexts=()), plan).with_login(fetched)
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
                f"{other} and {name} are of one vCenter, and it would be counted twice: name one of them",
                param_hint="--context",
            )


def _refuse_what_is_one_servers(flags: ConnectionFlags) -> None:
    """Raise BadParameter for what the command line can only mean of one server."""
    said = {
        "--server": flags.server,
        "--thumbprint": flags.thumbprint,
        "--from": flags.recording,
    }
    for option, value in said.items():
        if value is not None:
            raise typer.BadParameter(
                "it means one vCenter: leave it out where --context names several", param_hint=option
            )
