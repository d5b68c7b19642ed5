"""Which files of a folder are plans, and what no two of them may both claim."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from vgpu_cfg.documents import Document, read_document
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.plan_loading.sources import includes_of

_SUFFIXES = (".yaml", ".yml")


def find_plans(folder: Path) -> tuple[Path, ...]:
    """Return the plan files of a folder by name, without included and unrelated files.

    A plan has `vms`, `training`, or `version` with `name` at its top level, and no other file of the folder
    includes it. An unreadable file counts as one: else its plan would be missing unnoticed. Folders in it and
    hidden files are left alone. Raises DocumentError if there is none.
    """
    files = sorted(
        path
        for path in folder.iterdir()
        if path.suffix in _SUFFIXES and not path.name.startswith(".") and path.is_file()
    )
    included: set[Path] = set()
    plans: list[Path] = []
    for path in files:
        try:
            document = read_document(path, lenient=True)
        except DocumentError:
            plans.append(path)
            continue
        included |= {(path.parent / text).resolve() for _, text in includes_of(document)}
        if _is_plan(document):
            plans.append(path)
    plans = [path for path in plans if path.resolve() not in included]
    if not plans:
        hint = "a plan requires `version` and `name`"
        fault = DocumentFault(str(folder), 1, 1, "this folder contains no plan files", hint)
        raise DocumentError([fault], remedy="specify the folder with the plan files, or a plan file")
    return tuple(plans)


def _is_plan(document: Document) -> bool:
    keys = document.data.keys()
    is_estate = "about" in keys  # of a lab
    return not is_estate and ("vms" in keys or "training" in keys or {"version", "name"} <= keys)


def find_clashes(plans: Mapping[Path, DesiredPlan]) -> dict[Path, DocumentError]:
    """Return the faults of plans that claim the same VM of one vCenter, or have the same id."""
    faults: dict[Path, list[DocumentFault]] = {}
    vms: dict[tuple[str, str | None, str, str], tuple[Path, str]] = {}
    ids: dict[str, Path] = {}
    for path, plan in plans.items():
        other = ids.setdefault(plan.id, path) if plan.id else path
        if other != path:
            _tell(faults, (path, ""), (other, ""), f"the ID {plan.id}", "each plan requires a unique ID")
        for vm in plan.vms:
            key = (plan.vcenter, plan.datacenter, vm.folder or "", vm.name)
            first, origin = vms.setdefault(key, (path, vm.origin))
            if first != path:
                hint = "remove the VM from one of the plans, or rename it"
                _tell(faults, (path, vm.origin), (first, origin), f"the VM {vm.name}", hint)
    return {path: DocumentError(found) for path, found in faults.items()}


def _tell(
    faults: dict[Path, list[DocumentFault]],
    one: tuple[Path, str],
    other: tuple[Path, str],
    what: str,
    hint: str,
) -> None:
    """Write down at both plans that the other has the same."""
    for (path, origin), (second, place) in ((one, other), (other, one)):
        line, column = _position(origin)
        message = f"{what} is also used by {place or second}"
        faults.setdefault(path, []).append(DocumentFault(str(path), line, column, message, hint))


def _position(origin: str) -> tuple[int, int]:
    """Read line and column out of `file:line:column`; the beginning of the file where there are none."""
    parts = origin.rsplit(":", 2)
    return (int(parts[1]), int(parts[2])) if len(parts) == 3 else (1, 1)
