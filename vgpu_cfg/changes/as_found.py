"""What becomes of a plan file that takes in what was found: its new text, and what could not be written."""

from __future__ import annotations

from vgpu_cfg.model.frozen import Frozen


class Left(Frozen):
    """A difference of a VM that was not written into the file, and why."""

    vm: str
    what: str
    why: str


class AsFound(Frozen):
    """The text of the file with what was found of `vms`; `lines` are what a diff shows of it."""

    text: str
    lines: tuple[str, ...] = ()
    vms: tuple[str, ...] = ()
    left: tuple[Left, ...] = ()
