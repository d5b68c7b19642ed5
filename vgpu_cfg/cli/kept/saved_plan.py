"""A plan written down for review: how it is saved, read again, and held against a new planning."""

from __future__ import annotations

import json
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vgpu_cfg.cli.kept.whole_file import write_whole
from vgpu_cfg.documents import MOST_DATA_BYTES, PRIVATE, read_bytes
from vgpu_cfg.errors import DocumentError, DocumentFault, StalePlan
from vgpu_cfg.model.wording import as_json, counted
from vgpu_cfg.settings.environment import state_folder
from vgpu_cfg.settings.journals import journal_settings

if TYPE_CHECKING:
    from vgpu_cfg.changes.change import Change
    from vgpu_cfg.changes.plan import Plan
    from vgpu_cfg.changes.values import Edit


def save_plan(plan: Plan, path: Path) -> None:
    """Write a plan down for review, with the digest that `apply` will hold it to."""
    write_whole(path, as_json(plan.as_saved(), indent=2) + "\n", mode=PRIVATE)


def load_plan_json(path: Path) -> tuple[Plan, bytes]:
    """Read a saved plan; return it with the file's bytes.

    Raises DocumentError for a file that is none, or was edited.
    """
    from pydantic import ValidationError

    from vgpu_cfg.changes.plan import Plan

    try:
        raw = read_bytes(path, MOST_DATA_BYTES)
        text = raw.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the file is not UTF-8 text"
        fault = DocumentFault(str(path), 1, 1, f"cannot read the file: {reason}")
        raise DocumentError(
            [fault], remedy=f"check the path, or create the file with {_saving(path)}"
        ) from error
    try:
        content = json.loads(text)
        digest = content.pop("digest", None) if isinstance(content, dict) else None
        _check_format(content, path)
        plan = Plan.model_validate_json(json.dumps(content))
    except RecursionError as error:
        fault = DocumentFault(str(path), 1, 1, "not a saved plan: nested too deeply")
        raise DocumentError([fault], remedy=f"save it again with {_saving(path)}") from error
    except json.JSONDecodeError as error:
        fault = DocumentFault(str(path), error.lineno, error.colno, f"not valid JSON: {error.msg}")
        raise DocumentError([fault], remedy=f"save it again with {_saving(path)}") from error
    except ValidationError as error:
        message = f"not a saved plan: {error.errors()[0]['msg']} at {_place(error)}"
        fault = DocumentFault(str(path), 1, 1, message)
        raise DocumentError([fault], remedy=f"save it again with {_saving(path)}") from error
    except ValueError as error:
        fault = DocumentFault(str(path), 1, 1, "not a saved plan: it contains a number that is too long")
        raise DocumentError([fault], remedy=f"save it again with {_saving(path)}") from error
    if digest != plan.digest:
        lacks = "it has no digest" if digest is None else "its digest does not match its changes"
        fault = DocumentFault(str(path), 1, 1, f"the saved plan was edited: {lacks}")
        raise DocumentError([fault], remedy="change the plan file instead, and save the plan again")
    return plan, raw


def _saving(path: Path) -> str:
    return f"`vgpu-cfg plan PLAN -o {shlex.quote(str(path))}`"


def _check_format(content: object, path: Path) -> None:
    """Refuse a plan that was saved in another format: its content would be misread."""
    from vgpu_cfg.changes.plan import PLAN_FORMAT

    found = content.get("format") if isinstance(content, dict) else None
    if isinstance(found, int) and found != PLAN_FORMAT:
        age = "an older" if found < PLAN_FORMAT else "a newer"
        message = (
            f"the plan was saved by {age} version (format {found}); this version reads format {PLAN_FORMAT}"
        )
        fault = DocumentFault(str(path), 1, 1, message)
        raise DocumentError([fault], remedy=f"save it again with {_saving(path)}, and review the new plan")


def _place(error: object) -> str:
    first = error.errors()[0]  # type: ignore[attr-defined]  # any kind of object
    return ".".join(str(part) for part in first["loc"]) or "the top level"


def _refuse_more_disturbed(reviewed: Plan, plan: Plan) -> None:
    """Refuse if the same changes need approval for something that the reviewed plan did not list.

    A plan that was saved before these were listed has none; then the approval itself decides.
    """
    known = {(one.change, one.experience, one.subject) for one in reviewed.disturbed}
    new = [
        one.subject.name
        for one in plan.disturbed
        if one.needs is not None and (one.change, one.experience, one.subject) not in known
    ]
    if known and new:
        from vgpu_cfg.model.ranges import fold_names

        raise StalePlan(
            f"the reviewed plan {reviewed.digest} does not allow for the disruption of {fold_names(new)}",
            subject=plan.target.address,
            remedy="save it again with `vgpu-cfg plan PLAN`, then review and apply it",
        )


def _is_rest(plan: Plan, reviewed: Plan) -> bool:
    """Whether a plan has no change that was not reviewed, and puts no VM on another host.

    Values that the plan file leaves to vgpu-cfg may differ: they follow from the GPUs that ESXi chose. So may
    the number of steps on a host: a host that was reviewed to reboot may have to reboot in another order.
    """
    known = {_step(change) for change in reviewed.changes}
    made = {change.makes.name for change in reviewed.changes if change.makes is not None}
    edits = {value for change in reviewed.changes for edit in change.edits for value in _values(change, edit)}
    places = {(one.vm, one.host_moid) for one in reviewed.placements}
    return all((one.vm, one.host_moid) in places for one in plan.placements) and all(
        (_step(change) in known or change.subject.name in made)
        and all(edits & _values(change, edit) for edit in change.edits)
        for change in plan.changes
    )


def _step(change: Change) -> str:
    return f"{change.kind} {change.subject.name}" if change.subject.kind == "host" else change.id


def _values(change: Change, edit: Edit) -> set[tuple[str, str, str | None]]:
    """Return what an edit sets, and, for a default, that it is one."""
    values = {(change.subject.name, edit.key, edit.after)}
    return {*values, (change.subject.name, f"default {edit.key}", None)} if edit.is_default else values


def _only_brings_back(plan: Plan) -> bool:
    """Whether a plan only returns hosts to service, as after a run that was killed after its report."""
    return all(change.face.brings_back and change.subject.kind == "host" for change in plan.changes)


def _is_unfinished(reviewed: Plan) -> bool:
    """Whether the last run of a reviewed plan, by the journals in reach, did not complete it."""
    from vgpu_cfg.execution import exit_code_of, find_journals, read_journal

    folders = [state_folder() / "journals", journal_settings().folder]
    journals = [path for one in folders if one is not None for path in find_journals(one, reviewed.name)]
    found = []
    for path in journals:
        with suppress(DocumentError):
            record = read_journal(path, with_plan=False)
            if reviewed.digest in (record.header.digest, record.header.reviewed):
                found.append(record)
    last = max(found, key=lambda record: record.header.started_at, default=None)
    return last is not None and (last.report is None or exit_code_of(last.report) != 0)


def check_reviewed(reviewed: Plan | None, plan: Plan) -> str:
    """Refuse a new planning that differs from the reviewed one, and would change something.

    The rest of a reviewed plan after an interrupted or failed run does not differ. Return the digest of the
    reviewed plan of which this is the rest, "" for a whole one.

    Raises StalePlan.
    """
    if reviewed is None or not plan.changes:
        return ""
    is_whole = plan.makes_the_same(reviewed)
    if is_whole or (_is_rest(plan, reviewed) and (_only_brings_back(plan) or _is_unfinished(reviewed))):
        _refuse_more_disturbed(reviewed, plan)
        return "" if is_whole else reviewed.digest
    before = {change.id for change in reviewed.changes}
    now = {change.id for change in plan.changes}
    if before == now:
        detail = "the changes are the same, but would now be made differently or elsewhere"
    else:
        gone, new = len(before - now), len(now - before)
        detail = f"no longer needed: {counted(gone, 'change')}; new: {new}"
    if reviewed.unknown and not plan.unknown:
        raise StalePlan(
            f"the reviewed plan {reviewed.digest} was created without access to the hosts' shells, which "
            f"are now open: {detail}",
            subject=plan.target.address,
            remedy="save it again with `vgpu-cfg plan PLAN --open-shell`, then review and apply it",
        )
    raise StalePlan(
        f"the reviewed plan {reviewed.digest} is out of date: {detail}",
        subject=plan.target.address,
        remedy="save it again with `vgpu-cfg plan PLAN`, then review and apply it",
    )
