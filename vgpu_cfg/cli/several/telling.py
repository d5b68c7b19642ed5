"""How the answers of several are printed: one after the other, then their sums; failures on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from vgpu_cfg.cli.options.shared import OutputFormat
from vgpu_cfg.cli.output import show
from vgpu_cfg.cli.output.answers import Answer
from vgpu_cfg.cli.several.asking import Told
from vgpu_cfg.errors import DocumentError, DocumentFault, VgpuCfgError, worst_exit_code
from vgpu_cfg.render.views.several import OneOfSeveral, Several

if TYPE_CHECKING:
    from rich.text import Text


def tell_all(told: Sequence[Told], noun: str, command: str, output: OutputFormat) -> int:
    """Print all answers and their sums; return the exit code of the worst.

    `noun` says what each of them is: a context or a plan. Where something is wrong with this program itself,
    that is raised once everything else is told.
    """
    view = _view(told, noun, command)
    if output is OutputFormat.JSON:
        from vgpu_cfg.render.data.several import several_data

        answers = [one.answer.data() if one.answer is not None else None for one in told]
        show.data(several_data(view, answers))
    else:
        show.lines(lambda width: _lines(told, view, width))
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
