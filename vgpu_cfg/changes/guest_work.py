"""Work in a guest that applying modules would end: containers, processes on the GPU, connections."""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.changes.change import StageGuest
from vgpu_cfg.model.guests.base import Ends
from vgpu_cfg.model.guests.guest import (
    BEGUN,
    GUEST_MARK_KEY,
    REPORT_KEY,
    is_expected,
    parse_mark,
    parse_report,
)
from vgpu_cfg.model.observed.vm import Vm


def ended_in(change: StageGuest, vm: Vm | None) -> Mapping[str, frozenset[Ends]]:
    """Return what a change ends in its guest, by the module that does; `vm` is as it was read.

    Nothing in a guest that is new, starts in this run, or was never set up whole: no work can run there. What
    the guest reports to have is not applied again. If the VM's settings were not read, all of it counts.
    """
    if vm is None or not vm.is_on or change.with_clone or f"power on {change.vm.name}" in change.needs:
        return {}
    settings = vm.detail.extra_config if vm.detail is not None else {}
    mark = settings.get(GUEST_MARK_KEY, "")
    if BEGUN in mark.split():
        return {}
    report, marked = parse_report(settings.get(REPORT_KEY, "")), parse_mark(mark)
    return {
        module.kind: module.ends
        for module in change.spec.modules
        if module.kind in change.modules and module.ends and not is_expected(module, report, marked)
    }


def ended_text(ended: Mapping[str, frozenset[Ends]]) -> str:
    """Say what ends, and by which modules: "containers (site)"."""
    by_what: dict[Ends, list[str]] = {}
    for kind, what in ended.items():
        for one in sorted(what):
            by_what.setdefault(one, []).append(kind)
    return ", ".join(f"{what} ({', '.join(kinds)})" for what, kinds in by_what.items())
