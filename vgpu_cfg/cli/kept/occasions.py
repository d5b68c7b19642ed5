"""Check that a run has an occasion if a context of its vCenter requires one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import typer

from vgpu_cfg.model.choices import Occasion
from vgpu_cfg.settings.folders import config_file

if TYPE_CHECKING:
    from vgpu_cfg.settings.connection import Connection


def stand_in(connection: Connection) -> Occasion:
    """Return a placeholder for a change in a displayed command, if a context requires one."""
    return Occasion("ID" if any(context.is_required for context in connection.requiring) else "")


def refuse_unstated(connection: Connection, occasion: Occasion) -> None:
    """Raise BadParameter where a context of the server asks for a change that was not named.

    Every context of the server counts, however it was named. To be called before anything is read.
    """
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
