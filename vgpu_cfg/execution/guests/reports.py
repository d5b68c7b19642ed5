"""Evaluation of a guest's report: progress, completion, failure, or a pending manual step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from vgpu_cfg.errors import NotConfirmed
from vgpu_cfg.execution.run.session import PLAN_AGAIN
from vgpu_cfg.execution.run.step import NeedsManualStep
from vgpu_cfg.model.guests.guest import GuestReport, GuestSpec, ModuleState

REPORT_FILE = "/var/lib/vgpu-cfg/report.json"
LOG_FILE = "/var/log/vgpu-cfg.log"
FIRST_RUN = "first"
"""The word of the attempt that cloud-init makes at the first boot."""
LONGEST_WHY = 200

_FINISHED = ("present", "done", "warned")
_REMEDIES: Mapping[str, str] = MappingProxyType(
    {
        "network": "compare the NICs in the plan file with `ip -br link` in the guest",
        "time": "check whether the guest can reach the servers in `guest.time` on UDP port 123",
        "driver": "set `guest.driver` to a package from a branch that the host driver supports",
        "licence": "get a new token from the license portal, and check the guest's clock",
        "ofed": "set `guest.ofed` to a package for this distribution and kernel, or to `inbox`",
        "containers": (
            "check whether the guest can reach its package sources and has enough free disk space"
        ),
        "toolkit": "check whether the guest can reach the toolkit's package source",
        "registry": "check the password in `training.registry` and the connection to the registry",
        "image": ("check the image name, the connection to its registry, and the guest's free disk space"),
        "shared-folder": "check whether the head exports the folder and the guest can reach it",
    }
)


def is_over(report: GuestReport) -> bool:
    """Whether the guest does nothing more by itself."""
    return report.state in ("done", "hand", "failed")


def progress_of(report: GuestReport, spec: GuestSpec) -> str:
    """Say how far a guest is: "driver (7 of 18)"."""
    reported = {one.name for one in report.modules}
    names: list[str] = [one.kind for one in spec.modules if one.kind in reported]
    finished = {one.name for one in report.modules if one.state in _FINISHED}
    at = next((one.name for one in report.modules if one.name in names and one.name not in finished), "")
    if not at:
        return f"{len(finished & set(names))} of {len(names)} modules"
    verb = "restart required: " if report.state == "reboot" else ""
    return f"{verb}{at} ({names.index(at) + 1} of {len(names)})"


def finished_in(report: GuestReport, spec: GuestSpec, modules: Iterable[str]) -> tuple[str, ...]:
    """Name those of the modules that the guest has as the plan wants them."""
    reported = {one.name: one for one in report.modules}
    return tuple(name for name in modules if _is_finished(reported.get(name), spec, name))


def check_done(report: GuestReport, spec: GuestSpec, modules: Iterable[str]) -> None:
    """See that a guest has all of the modules.

    Raises NotConfirmed where one failed or is missing, NeedsManualStep where the rest is manual.
    """
    wanted = tuple(modules)
    stopped = report.first_in("failed" if report.state == "failed" else "hand")
    name, why = (stopped.name, stopped.why) if stopped is not None else ("the guest", "")
    if report.state == "hand":
        raise NeedsManualStep(
            f"{spec.vm}: {name} requires a manual step: {why or 'no details are available'}",
            subject=spec.vm,
            remedy=f"{why or f'see {LOG_FILE} in the guest'}; then run the same command again",
        )
    if report.state == "failed":
        raise NotConfirmed(
            f"{spec.vm}: {name} could not be set up in the guest: {why or 'no reason given'}",
            subject=spec.vm,
            remedy=_remedy(name) + f"; for details, see {LOG_FILE} in the guest; then {PLAN_AGAIN}",
        )
    finished = finished_in(report, spec, wanted)
    missing = [name for name in wanted if name not in finished]
    if missing:
        raise NotConfirmed(
            f"{spec.vm}: the guest reports that setup is complete, but {', '.join(missing)} is missing",
            subject=spec.vm,
            remedy=f"see {LOG_FILE} in the guest; then {PLAN_AGAIN}",
        )


def summary_of(report: GuestReport, modules: Iterable[str]) -> str:
    """Summarize the result of a completed staging, and the warnings of its modules."""
    reported = {one.name: one.state for one in report.modules}
    names = tuple(modules)
    there = sum(reported.get(name) == "present" for name in names)
    words = [f"{len(names) - there} set up, {there} already present"]
    words += [f"{one.name}: warning: {one.why}" for one in report.modules if one.state == "warned"]
    return "; ".join(words)


def _is_finished(reported: ModuleState | None, spec: GuestSpec, name: str) -> bool:
    module = spec.module(name)
    if reported is None or module is None:
        return False
    return reported.state in _FINISHED and reported.digest == module.digest


def _remedy(name: str) -> str:
    return _REMEDIES.get(name, f"find out why {name} does not work in the guest")
