"""Options of commands that change something: `--change` and `--reason`, `--notify`, and `--rotate`."""

from __future__ import annotations

import functools
import re
import shlex
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vgpu_cfg.cli.notice import BELL, calling
from vgpu_cfg.cli.options.shared import adding
from vgpu_cfg.model.choices import LONGEST_CHANGE, LONGEST_REASON, Occasion, fault_of

if TYPE_CHECKING:
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.settings.connection import Connection

_OPTIONS: dict[str, Any] = {
    "change": Annotated[
        str | None,
        typer.Option(
            "--change",
            metavar="ID",
            help="The change ID in your change management system.",
            show_default=False,
            rich_help_panel="Run",
        ),
    ],
    "reason": Annotated[
        str | None,
        typer.Option(
            "--reason",
            metavar="TEXT",
            help="The reason for the run. Do not include secrets; many people can read it.",
            show_default=False,
            rich_help_panel="Run",
        ),
    ],
}
_NOTIFY_OPTIONS: dict[str, Any] = {
    "notify": Annotated[
        str | None,
        typer.Option(
            "--notify",
            metavar="CMD",
            help=(
                "Run this command at the end and when input is required, with a message as its last "
                "argument. Use `bell` for the terminal bell."
            ),
            show_default=False,
            rich_help_panel="Run",
        ),
    ]
}


def occasioned(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--change` and `--reason`; the command gets `occasion: Occasion`."""

    def gather(values: dict[str, Any]) -> dict[str, Any]:
        return {
            "occasion": Occasion(
                change=_checked("--change", values["change"], LONGEST_CHANGE),
                reason=_checked("--reason", values["reason"], LONGEST_REASON),
            )
        }

    return adding(_OPTIONS, gather, handed="occasion")(command)


def _checked(option: str, text: str | None, longest: int) -> str:
    if text is None:
        return ""
    fault = fault_of(text, longest)
    if fault:
        raise typer.BadParameter(fault, param_hint=option)
    return text.strip()


def notified(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--notify`; the command itself does not see it."""

    @functools.wraps(command)
    def run(*args: Any, notify: str | None, **kwargs: Any) -> None:
        with calling(_notify_checked(notify), shlex.join(["vgpu-cfg", *sys.argv[1:3]])):
            command(*args, **kwargs)

    def gather(values: dict[str, Any]) -> dict[str, Any]:
        return values

    return adding(_NOTIFY_OPTIONS, gather)(run)


def _notify_checked(notify: str | None) -> str | None:
    """Return a command line that has words. Raises BadParameter for others."""
    try:
        if notify is None or notify == BELL or shlex.split(notify):
            return notify
        fault = "no command given"
    except ValueError as error:
        fault = str(error)
    raise typer.BadParameter(fault, param_hint="--notify")


class Rotation(StrEnum):
    """The parts of guests that can be replaced, different or not."""

    KEYS = "keys"
    LICENCE = "licence"
    REGISTRY = "registry"


RotateOption = Annotated[
    list[Rotation] | None,
    typer.Option(
        "--rotate",
        help="Replace the plan's keys, license tokens or registry password in its guests.",
        show_default=False,
        rich_help_panel="Approvals and scope",
    ),
]


def rotated(rotate: list[Rotation] | None, desired: DesiredPlan) -> tuple[str, ...]:
    """Return what `--rotate` named, each once. Raises BadParameter for what no guest of the plan has."""
    guests = [vm.guest for vm in desired.vms if vm.guest is not None]
    has = {
        Rotation.KEYS: bool(guests),
        Rotation.LICENCE: any(guest.licence is not None for guest in guests),
        Rotation.REGISTRY: desired.training is not None and desired.training.registry is not None,
    }
    for one in rotate or ():
        if not has[one]:
            raise typer.BadParameter(f"no guest in the plan uses {_NAMES[one]}", param_hint="--rotate")
    return tuple(dict.fromkeys(one.value for one in rotate or ()))


_NAMES = {
    Rotation.KEYS: "keys, because the plan does not set up any guests",
    Rotation.LICENCE: "a license token; set one with `guest.licence`",
    Rotation.REGISTRY: "a registry password; set one with `training.registry`",
}


def stand_in(connection: Connection) -> Occasion:
    """Return a placeholder for a change in a displayed command, if a context requires one."""
    return Occasion("ID" if any(context.is_required for context in connection.requiring) else "")


def refuse_unstated(connection: Connection, occasion: Occasion) -> None:
    """Raise BadParameter where a context of the server asks for a change that was not named.

    Every context of the server counts, however it was named. To be called before anything is read.
    """
    from vgpu_cfg.settings.environment import config_file

    for context in connection.requiring:
        asked = f"the context {context.name} in {config_file()}"
        form = f", matching {context.pattern}" if context.pattern else ""
        if not occasion.change:
            if context.is_required:
                message = f"{asked} requires a change ID; add --change ID{form}"
                raise typer.BadParameter(message, param_hint="--change")
        elif context.pattern and re.fullmatch(context.pattern, occasion.change) is None:
            raise typer.BadParameter(
                f"{occasion.change!r} does not match the change pattern {context.pattern} of {asked}",
                param_hint="--change",
            )
