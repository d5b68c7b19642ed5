"""The downloads of a plan's guests: listed without a vCenter, and pinned by reading them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vgpu_cfg.cli.output import show
from vgpu_cfg.errors import Unreachable
from vgpu_cfg.model.guests.downloads import TOOLKIT, Download, short_pin
from vgpu_cfg.planning.guests.specs import guest_specs, list_downloads

if TYPE_CHECKING:
    from vgpu_cfg.model.desired import DesiredPlan


def downloads_of(desired: DesiredPlan) -> tuple[Download, ...]:
    """List what staging would download for a plan file, whatever the guests have already."""
    return list_downloads(guest_specs(desired, {}), desired)


def pin(path: Path, desired: DesiredPlan) -> tuple[DesiredPlan, int]:
    """Read each download, write the pins next to the plan file, and report each difference.

    Returns the plan with the pins, and the number of downloads that could not be read: their pins stay.
    """
    from vgpu_cfg.cli.kept.whole_file import write_whole
    from vgpu_cfg.contact.downloads import Reader
    from vgpu_cfg.plan_loading.side_files import pin_file_of, pins_text

    reader = Reader(desired.site.certificates if desired.site is not None else ())
    pins, failed = dict(desired.downloads), 0
    for one in downloads_of(desired.model_copy(update={"downloads": {}})):
        key = one.package if one.package == TOOLKIT else one.address
        try:
            found = reader.pin_of(one)
        except Unreachable as error:
            failed += 1
            show.say(f"{key}: not pinned: {error.message}")
            continue
        before = pins.get(key) or one.version or one.pin
        if found and found != before:
            show.say(f"{key}: {short_pin(found)}{f', was {short_pin(before)}' if before else ''}")
        if found:
            pins[key] = found
    file = pin_file_of(path)
    if pins:
        write_whole(file, pins_text(pins))
        show.say(f"{file}: written")
    return desired.model_copy(update={"downloads": pins}), failed
