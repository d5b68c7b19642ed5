"""`--change` and `--reason`: what a run is made for, on every command that changes something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from vgpu_cfg.cli.options.shared import adding
from vgpu_cfg.model.occasion import LONGEST_CHANGE, LONGEST_REASON, Occasion, fault_of

_OPTIONS: dict[str, Any] = {
    "change": Annotated[
        str | None,
        typer.Option(
            "--change",
            metavar="ID",
            help="The change that this is for, as your own system names it.",
            show_default=False,
            rich_help_panel="Run",
        ),
    ],
    "reason": Annotated[
        str | None,
        typer.Option(
            "--reason",
            metavar="TEXT",
            help="Why, in words; no secrets, since many can read it.",
            show_default=False,
            rich_help_panel="Run",
        ),
    ],
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
