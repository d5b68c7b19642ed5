"""Facts from checks of a VM, for the checks that follow, and figures compared with those of an earlier run.

A figure that was better in the earlier run shows a loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpu_cfg.knowledge.verify_failures import FAILURES, VerifyCode
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.model.verification import (
    UNITS,
    Baseline,
    CheckResult,
    CheckState,
    FailedCheck,
    Figure,
    PastRun,
    Thresholds,
    Verification,
)
from vgpu_cfg.parsers.guest_system import Interface
from vgpu_cfg.parsers.nvidia.guest_gpus import GuestGpus
from vgpu_cfg.parsers.rdma.devices import Gid, RdmaDevice


class RdmaNic(Frozen):
    """A NIC that carries RDMA: its interface, its device with the port, and their observed values.

    `gid` is the RoCE v2 one with the NIC's IPv4 address. `port_rate_gbps` is the port's reported rate,
    `model_rate_gbps` the rate of its model's ports. `line_rate_gbps` is the required rate, if known:
    measurements are compared with it, not with the port's report.
    """

    interface: str
    address: str = ""
    mtu: int | None = None
    device: str = ""
    port: int = 1
    gid: int | None = None
    port_rate_gbps: float | None = None
    model_rate_gbps: float | None = None
    line_rate_gbps: float | None = None


class Learned(Frozen):
    """The observations of one guest. `gpus` is None until its driver answered; `boot_id` is its boot."""

    gpus: GuestGpus | None = None
    interfaces: tuple[Interface, ...] = ()
    devices: tuple[RdmaDevice, ...] = ()
    gids: tuple[Gid, ...] = ()
    rdma: tuple[RdmaNic, ...] = ()
    boot_id: str = ""

    def interface_of(self, nic: GuestNic) -> Interface | None:
        """Return the interface of a planned NIC: by MAC, name or address, or as the one of its driver."""
        for interface in self.interfaces:
            if nic.mac and interface.mac == nic.mac:
                return interface
        for interface in self.interfaces:
            if nic.name and interface.name == nic.name:
                return interface
        for interface in self.interfaces:
            if set(nic.addresses) & set(interface.addresses):
                return interface
        driven = [interface for interface in self.interfaces if nic.driver and interface.driver == nic.driver]
        return driven[0] if len(driven) == 1 and not (nic.mac or nic.name) else None


def figures_of(results: Sequence[CheckResult]) -> tuple[Figure, ...]:
    """Return the figures that a run measured."""
    return tuple(
        Figure(check=one.check, subject=one.subject.name, name=name, value=value)
        for one in results
        for name, value in one.measured.items()
        if name in UNITS and value > 0
    )


def baseline_of(found: Verification) -> Baseline:
    """Return what later runs are held against."""
    return Baseline(
        plan=found.plan, server=found.server, begun=found.begun, figures=figures_of(found.results)
    )


def past_run(found: Verification) -> PastRun:
    """Return a run's entry for a history."""
    return PastRun(
        plan=found.plan,
        server=found.server,
        begun=found.begun,
        seconds=found.seconds,
        is_quick=found.is_quick,
        passes=found.passes,
        counts={state: len(found.in_state(state)) for state in CheckState},
        failed=tuple(
            FailedCheck(code=one.code, check=one.check, subject=one.subject.name) for one in found.failed
        ),
        figures=figures_of(found.results),
    )


def held_against(
    baseline: Baseline, results: Sequence[CheckResult], thresholds: Thresholds
) -> tuple[CheckResult, ...]:
    """Return the results; one that passed and is below its earlier figure fails.

    A figure that was measured then and not now is not proven; other failures stay unchanged.
    """
    before = {(one.check, one.subject, one.name): one.value for one in baseline.figures}
    return tuple(_held(one, _own(before, one), baseline, thresholds) for one in results)


def _own(before: Mapping[tuple[str, str, str], float], result: CheckResult) -> dict[str, float]:
    key = (result.check, result.subject.name)
    return {name: value for (*whose, name), value in before.items() if tuple(whose) == key}


def _held(
    result: CheckResult, before: Mapping[str, float], baseline: Baseline, thresholds: Thresholds
) -> CheckResult:
    if not before or result.state not in (CheckState.PASSED, CheckState.SKIPPED):
        return result
    day = f"{baseline.begun:%Y-%m-%d}"
    gone = [name for name in before if name not in result.measured]
    if gone:
        words = ", ".join(f"{before[name]:.1f} {UNITS.get(name, name)}" for name in gone)
        why = f"the baseline from {day} contains {words}, which this run did not measure"
        return result.model_copy(update={"state": CheckState.UNPROVEN, "why": why})
    for name, then in before.items():
        now = result.measured[name]
        if now < (1 - thresholds.loss) * then:
            failure = FAILURES[VerifyCode.BEHIND_BASELINE]
            unit = UNITS.get(name, name)
            return result.model_copy(
                update={
                    "state": CheckState.FAILED,
                    "code": failure.code.value,
                    "observed": f"{now:.1f} {unit}, {1 - now / then:.1%} less than on {day}",
                    "expected": f"at least {(1 - thresholds.loss) * then:.1f} of {then:.1f} {unit}",
                    "meaning": failure.meaning,
                    "remedy": failure.remedy,
                    "measured": {**result.measured, f"{name}_before": then},
                }
            )
    return result
