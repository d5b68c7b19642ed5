"""From `moved` to which name a VM had before: ranges written out, chains followed to their ends."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from vgpu_cfg.documents import Part, build, did_you_mean
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.plan_file import MovedEntry, check_vm_name
from vgpu_cfg.model.ranges import read_members


@dataclass(slots=True)
class MovedExpansion:
    """The present names of VMs by former ones, and the faults."""

    names: dict[str, str] = field(default_factory=dict)
    faults: list[DocumentFault] = field(default_factory=list)


def expand_moved(part: Part | None, vms: Collection[str]) -> MovedExpansion:
    """Read which VMs of the plan, `vms` by name, had another name before.

    A name that went on to a third is followed to its end, so that lines may be added and never changed.
    """
    out = MovedExpansion()
    if part is None:
        return out
    if not isinstance(part.data, list):
        hint = "example: moved: [{from: hvd-01, to: trn-01}]"
        out.faults.append(part.fault((), "'moved' must be a list", hint))
        return out
    steps: dict[str, str] = {}
    places: dict[str, Part] = {}
    for index in range(len(part.data)):
        item = part.child(index)
        for before, after in _pairs(item, out):
            if before in steps:
                message = f"{before!r} is listed twice under `moved`"
                out.faults.append(item.fault(("from",), message, "keep only one of the items"))
                continue
            steps[before], places[before] = after, item
    if not out.faults:
        _follow(steps, places, vms, out)
    return out


def _pairs(item: Part, out: MovedExpansion) -> Iterator[tuple[str, str]]:
    """Yield the names of an item, before and after; none where something is wrong with it."""
    try:
        entry = build(item.document, MovedEntry, loc=item.loc, data=item.data)
    except DocumentError as error:
        out.faults += error.faults
        return
    names: list[list[str]] = []
    for key, text in (("from", entry.from_), ("to", entry.to)):
        try:
            names.append([member.name for member in read_members(text)])
            for name in names[-1]:
                check_vm_name(name)
        except ValueError as error:
            out.faults.append(item.refused((key,), error))
            return
    before, after = names
    if len(before) != len(after):
        message = f"{entry.from_!r} has {len(before)} names, but {entry.to!r} has {len(after)}"
        out.faults.append(
            item.fault(
                ("to",), message, "ranges in an item are matched in order, so their lengths must be equal"
            )
        )
        return
    yield from zip(before, after, strict=True)


def _follow(
    steps: dict[str, str], places: dict[str, Part], vms: Collection[str], out: MovedExpansion
) -> None:
    known = set(vms)
    for before, item in places.items():
        end, seen = steps[before], {before}
        while end in steps and end not in seen:
            seen.add(end)
            end = steps[end]
        if end in seen:
            message = f"the `moved` items for {before!r} form a loop"
            hint = "use each name once. To swap names, first rename one VM to a third name in a separate plan"
            out.faults.append(item.fault(("from",), message, hint))
        elif before in known:
            message = f"{before!r} is still in `vms`"
            hint = (
                "list a renamed VM only under its new name: remove its old item from `vms`, or remove this "
                "item"
            )
            out.faults.append(item.fault(("from",), message, hint))
        elif end not in known:
            message = f"{end!r} is not in `vms`"
            hint = did_you_mean(end, known) or (
                f"if the VM was renamed again, add an item from {end!r}; otherwise add the VM to `vms`, "
                "or remove this item"
            )
            out.faults.append(item.fault(("to",), message, hint))
        else:
            out.names[before] = end
