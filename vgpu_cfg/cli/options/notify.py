"""`--notify`: who is called when a long command has ended, or waits for an answer."""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from vgpu_cfg.cli.notice import BELL, calling
from vgpu_cfg.cli.options.shared import adding

_OPTIONS: dict[str, Any] = {
    "notify": Annotated[
        str | None,
        typer.Option(
            "--notify",
            metavar="CMD",
            help="Run this at the end, and where an answer is needed, with a sentence added; or: bell.",
            show_default=False,
            rich_help_panel="Run",
        ),
    ],
}


def notified(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--notify`; the command itself is told nothing of it."""

    @functools.wraps(command)
    def run(*args: Any, notify: str | None, **kwargs: Any) -> None:
        with calling(_checked(notify), shlex.join(["vgpu-cfg", *sys.argv[1:3]])):
            command(*args, **kwargs)

    def gather(values: dict[str, Any]) -> dict[str, Any]:
        return values

    return adding(_OPTIONS, gather)(run)


def _checked(notify: str | None) -> str | None:
    """Return a command line that has words. Raises BadParameter for others."""
    try:
        if notify is None or notify == BELL or shlex.split(notify):
            return notify
        fault = "it names no command"
    except ValueError as error:
        fault = str(error)
    raise typer.BadParameter(fault, param_hint="--notify")
