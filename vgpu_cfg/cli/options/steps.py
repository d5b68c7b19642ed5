"""The steps of a trial as they are typed."""

from __future__ import annotations

import typer

from vgpu_cfg.planning.doctor.trials import Step


def steps_of(text: str) -> tuple[Step, ...]:
    """Return the steps that are named, in their order. Raises BadParameter for another name."""
    named = {word.strip() for word in text.split(",")}
    if unknown := sorted(named - set(Step)):
        raise typer.BadParameter(f"{unknown[0]!r} is not one of {', '.join(Step)}", param_hint="--steps")
    return tuple(step for step in Step if step in named)
