"""A verification as one page to keep or to print: no script, no address of elsewhere, light and dark."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from vgpu_cfg.model.signs import shown
from vgpu_cfg.model.verification import Verification
from vgpu_cfg.render.layout.lines import duration
from vgpu_cfg.render.views.verification import (
    STATE_WORDS,
    count_states,
    parts_of,
    result_text,
    verdict_text,
)

if TYPE_CHECKING:
    from jinja2 import Environment


def render_verification_page(found: Verification) -> str:
    """Write the page; whatever stands in names and outputs is text in it."""
    return (
        page_environment()
        .get_template("verify.html.j2")
        .render(
            found=found,
            parts=parts_of(found),
            verdict=verdict_text(found),
            counts=count_states(found.results) or "nothing",
            took=duration(found.seconds),
            state_text=STATE_WORDS,
            result_text=result_text,
        )
    )


@cache
def page_environment() -> Environment:
    """Return what pages are written with: text stays text, and what is missing is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("vgpu_cfg.render"),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=lambda value: shown(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
