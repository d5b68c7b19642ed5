"""How text that goes into a guest is put together: jinja2 templates, and the filters that quote for them."""

from __future__ import annotations

import shlex
from functools import cache
from typing import TYPE_CHECKING

from vgpu_cfg.errors import GuestError

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, **values: object) -> str:
    """Fill in a template of `staging/templates`; a value that it names and does not get is an error."""
    return environment().get_template(template).render(values)


def quote_sh(value: object) -> str:
    """Quote one word for a POSIX shell, whatever stands in it; a NUL byte cannot stand in one."""
    text = str(value)
    if "\0" in text:
        raise GuestError(
            "a text for the guest's shell holds a NUL byte", subject=repr(text), remedy="remove it"
        )
    return shlex.quote(text)


def quote_systemd(value: object) -> str:
    """Quote one word of a unit's Exec line so that systemd expands nothing in it (systemd.service(5)).

    A unit cannot carry control characters: those are refused.
    """
    text = str(value)
    if any(ord(sign) < 0x20 or ord(sign) == 0x7F for sign in text):
        raise GuestError(
            "a text for a systemd unit holds a control character", subject=repr(text), remedy="remove it"
        )
    for sign, escaped in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$")):
        text = text.replace(sign, escaped)
    return f'"{text}"'


@cache
def environment() -> Environment:
    """Return the environment of the templates in this package."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(  # noqa: S701 - autoescape is for HTML; the filters quote for sh and systemd
        loader=PackageLoader("vgpu_cfg.staging"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"sh": quote_sh, "systemd": quote_systemd}
    return made
