"""How a VM's guest stands: what is to be brought into it, and what failed or waits there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpu_cfg.changes.change import StageGuest
from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.guests.guest import (
    GUEST_MARK_KEY,
    REPORT_KEY,
    GuestReport,
    outdated,
    parse_mark,
    parse_report,
)
from vgpu_cfg.model.observed.vm import Vm


@dataclass(frozen=True, slots=True)
class GuestStatus:
    """How a guest stands. `state` is "staged", "outdated", "not staged", "needs a manual step" or "failed".

    `modules` are those that are to be brought, `module` and `why` what failed or waits in the guest's own
    words. `address` and `host_name` are what its tools tell.
    """

    state: str
    modules: tuple[str, ...] = ()
    module: str = ""
    why: str = ""
    address: str = ""
    host_name: str = ""


def guest_status(vm: Vm, desired: DesiredVm | None, change: StageGuest | None) -> GuestStatus | None:
    """Return how a VM's guest stands; None where the plan stages none. `change` is what the plan would do."""
    is_staged = desired is not None and desired.guest is not None and desired.guest.is_staged
    if vm.detail is None or desired is None or not is_staged or "guest" in desired.ignore:
        return None
    options, seen = vm.detail.extra_config, vm.detail.guest
    mark = parse_mark(options.get(GUEST_MARK_KEY, ""))
    modules = outdated(change.spec.modules, mark, {}) if change is not None else ()
    if change is not None and not modules:
        modules = change.modules
    state = "staged" if mark and not modules else "outdated" if mark else "not staged"
    report = parse_report(options.get(REPORT_KEY, ""))
    found = _trouble(report, modules)
    return GuestStatus(
        state=found[0] or state,
        modules=tuple(modules),
        module=found[1],
        why=found[2],
        address=seen.address if seen is not None else "",
        host_name=seen.host_name if seen is not None else "",
    )


def staged_status(vm: Vm, change: StageGuest) -> GuestStatus:
    """Return how a guest stands after a run that was to stage it."""
    detail = vm.detail
    options = detail.extra_config if detail is not None else {}
    modules = outdated(change.spec.modules, parse_mark(options.get(GUEST_MARK_KEY, "")), {})
    found = _trouble(parse_report(options.get(REPORT_KEY, "")), modules)
    state = found[0] or ("outdated" if modules else "staged")
    seen = detail.guest if detail is not None else None
    return GuestStatus(
        state,
        modules,
        found[1],
        found[2],
        seen.address if seen is not None else "",
        seen.host_name if seen is not None else "",
    )


def _trouble(report: GuestReport | None, modules: Sequence[str]) -> tuple[str, str, str]:
    """Return state, module and reason of what failed in a guest, if it is still to be brought."""
    for state, word in (("failed", "failed"), ("hand", "needs a manual step")):
        found = report.first_in(state) if report is not None else None
        if found is not None and found.name in modules:
            return word, found.name, found.why
    return "", "", ""
