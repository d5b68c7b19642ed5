"""The file next to plan files with the site's pins of downloads, which `validate --pin` writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from vgpu_cfg.documents import build, dump, read_document
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.guests.downloads import PIN_FILE, check_pin

_ABOUT = (
    "# Checksums, digests and versions of guests' downloads. Keep this file next to the plan files, and\n"
    "# commit it. To renew it: vgpu-cfg validate PLAN --pin\n"
)


class PinFile(Frozen):
    """The file's content: the pin of each address, image or package."""

    version: Literal[1] = 1
    downloads: Mapping[Annotated[str, Field(max_length=2000)], Annotated[str, AfterValidator(check_pin)]] = (
        Field(default_factory=dict, max_length=1000)
    )


def pin_file_of(plan: Path) -> Path:
    """Return the place of the pins of a plan file's folder."""
    target = plan.resolve() if plan.is_symlink() else plan
    return target.with_name(PIN_FILE)


def read_pins(path: Path) -> Mapping[str, str]:
    """Return a folder's pins, none if it has no such file. Raises DocumentError with all its faults."""
    return dict(build(read_document(path), PinFile).downloads) if path.exists() else {}


def pins_text(pins: Mapping[str, str]) -> str:
    """Write a file: a line for each pin, so that versions can be compared."""
    return _ABOUT + dump({"version": 1, "downloads": dict(sorted(pins.items()))})
