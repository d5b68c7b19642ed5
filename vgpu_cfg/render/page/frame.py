"""The frame of every page with a picture: one file with style, script and data that loads nothing else.

The policy in its head lets a browser run exactly the style and the script in it, and reach no address. Its
data are JSON, in which names always stay text.

Times on a page are in UTC, since it is read elsewhere and later.
"""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from vgpu_cfg import __version__
from vgpu_cfg.model.wording import shown

if TYPE_CHECKING:
    from jinja2 import Environment

Tone: TypeAlias = Literal["", "good", "bad", "warn"]


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure at the top of a page: its subject, and a note in small print; `tone` colors it."""

    value: str
    title: str
    about: str = ""
    tone: Tone = ""

    @classmethod
    def of(cls, count: str, about: str = "") -> Self:
        """Divide a count at its noun: "3 VMs"."""
        value, _, title = count.partition(" ")
        return cls(value, title, about)


def render_frame(  # noqa: PLR0913 - what stands on every page
    kind: str,
    *,
    title: str,
    about: str,
    tiles: tuple[Tile, ...],
    body: str,
    data: dict[str, Any],
    shared: tuple[str, ...] = (),
    more: dict[str, Any] | None = None,
) -> str:
    """Write a page of `kind`, drawn by `kind`.css and `kind`.js in `body`, a template, from `data`.

    `shared` names the styles and scripts that it has in common with others, which come first, `more` the
    template's values in addition to the frame's own.
    """
    from markupsafe import Markup

    names = ("frame", *shared, kind)
    styles, script = ("\n".join(_asset(f"{name}.{end}") for name in names) for end in ("css", "js"))
    # Made of our own files and of JSON without a "<"; nothing else here is taken as HTML.
    return (
        page_environment()
        .get_template(body)
        .render(
            **(more or {}),
            title=title,
            about=about,
            tiles=tiles,
            version=__version__,
            styles=Markup(styles),  # noqa: S704  # our own file
            script=Markup(script),  # noqa: S704  # our own file
            data=Markup(data_text(data)),  # noqa: S704  # no "<" is left in it
            policy=f"default-src 'none'; style-src {_hash(styles)}; script-src {_hash(script)}; "
            "base-uri 'none'; form-action 'none'",
        )
    )


@cache
def page_environment() -> Environment:
    """Return the environment that writes pages: text stays text, and a missing value is an error."""
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


def data_text(data: dict[str, Any]) -> str:
    """Write JSON that ends no element of HTML and begins none."""
    written = json.dumps(data, separators=(",", ":")).replace("\x7f", "\\u007f")
    return written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return (files("vgpu_cfg.render.page") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the name of an inline text in a policy: CSP level 3, 2.3.1 "hash-source"."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def moment_words(moment: datetime) -> str:
    """Say a moment to the minute."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M UTC}"
