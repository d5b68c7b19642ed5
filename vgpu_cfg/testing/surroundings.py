"""Isolation of a user's tests from this machine: its settings, its contexts, its state folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vgpu_cfg.errors import VgpuCfgError

WIDTH = 100
_PREFIX = "VGPU_CFG_"


@contextmanager
def surroundings(folder: Path) -> Iterator[None]:
    """Hide all of the user's settings for a while; files are kept below `folder`, and no lab waits.

    Raises AssertionError, with what `vgpu-cfg` would print, in place of an error of the tool's.
    """
    __tracebackhide__ = True
    before = {name: value for name, value in os.environ.items() if name.startswith(_PREFIX)}
    own = {"STATE_FOLDER": str(folder), "CONFIG": str(folder / "config.yaml"), "LAB_SPEED": "0"}
    for name in before:
        del os.environ[name]
    os.environ.update({f"{_PREFIX}{name}": value for name, value in own.items()})
    try:
        with told():
            yield
    finally:
        for name in [name for name in os.environ if name.startswith(_PREFIX)]:
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def told() -> Iterator[None]:
    """Raise AssertionError, with what `vgpu-cfg` would print, in place of an error of the tool's."""
    __tracebackhide__ = True
    try:
        yield
    except VgpuCfgError as error:
        from vgpu_cfg.render.layout.lines import plain
        from vgpu_cfg.render.text.errors import render_error

        raise AssertionError(plain(render_error(error, WIDTH))) from None
