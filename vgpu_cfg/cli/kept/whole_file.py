"""Files of a given name, written completely or not at all, and the pages that commands write with it.

A page shows the same values as the output that it is written next to, for a browser.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vgpu_cfg.documents import pass_on, probe_written, put_whole, take_name
from vgpu_cfg.errors import DocumentError, DocumentFault

if TYPE_CHECKING:
    from vgpu_cfg.changes.plan import Plan
    from vgpu_cfg.changes.report import Event, Report
    from vgpu_cfg.changes.suggestion import Difference, Suggestion
    from vgpu_cfg.model.observed.inventory import Inventory
    from vgpu_cfg.planning.upkeep.absence import Absence


def write_whole(path: Path, text: str, *, force: bool = True, mode: int | None = None) -> None:
    """Write a file, with the rights that the umask leaves unless a `mode` is given.

    A link to a file is replaced, not followed; a terminal or a pipe is written to. Without `force` a file
    that is there stays. Raises DocumentError where that cannot be.
    """

    def put(draft: Path) -> None:
        if force:
            draft.replace(path)
        else:
            take_name(draft, path)

    try:
        if path.exists() and not path.is_file():
            pass_on(path, text)
        else:
            put_whole(path, text, put, mode=mode)
    except OSError as error:
        fault = DocumentFault(str(path), 1, 1, f"cannot write the file: {error.strerror or error}")
        raise DocumentError([fault], remedy="specify a file in a writable folder") from error


def refuse_unwritable(path: Path, option: str) -> None:
    """Find out before any work whether a file can be written; nothing is left behind.

    Raises typer.BadParameter, which names the option.
    """
    import typer

    try:
        probe_written(path)
    except OSError as error:
        raise typer.BadParameter(f"cannot write {path}: {error.strerror}", param_hint=option) from error


def write_page(path: Path, text: str) -> None:
    """Write a web page, and say so. Raises DocumentError where that cannot be."""
    from vgpu_cfg.cli.output import show

    write_whole(path, text)
    show.say(f"{path}: web page written")


def plan(path: Path, made: Plan, observed: Inventory, fixes: Suggestion | None) -> None:
    """Write a plan with the estate before and after it."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.render.data.documents import plan_data
    from vgpu_cfg.render.page.plan import render_plan_page
    from vgpu_cfg.render.views.pictures.plan_picture import view_plan_picture

    picture = view_plan_picture(made, observed, load_catalog())
    write_page(path, render_plan_page(made, plan_data(made, fixes), picture))


def absence(path: Path, found: Absence, told: dict[str, Any], observed: Inventory) -> None:
    """Write what becomes of VMs without something, with the estate before and after."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.render.page.estate import render_absence_page
    from vgpu_cfg.render.views.pictures.plan_picture import view_absence_picture

    write_page(path, render_absence_page(found, told, view_absence_picture(found, observed, load_catalog())))


def status(path: Path, made: Plan, observed: Inventory, differences: tuple[Difference, ...]) -> None:
    """Write the state of a plan's hosts and VMs."""
    from vgpu_cfg.render.data.documents import status_data
    from vgpu_cfg.render.page.plan import render_status_page
    from vgpu_cfg.render.views.status import view_status

    view = view_status(made, observed, differences)
    write_page(path, render_status_page(view, status_data(view)))


def run(path: Path, made: Plan, ended: Report, after: Inventory | None, events: Sequence[Event]) -> None:
    """Write a run as it was."""
    from vgpu_cfg.render.data.documents import report_data
    from vgpu_cfg.render.page.plan import render_run_page

    write_page(path, render_run_page(made, ended, report_data(made, ended, after), events))
