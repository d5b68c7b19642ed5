"""What preparing one host takes, and the host as it will be then; nothing is put in line here."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vgpu_cfg.catalog import ProfileEntry
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Connection, Host, Inventory, ProfileInfo
from vgpu_cfg.model.plan.change import Impact, ManualStep
from vgpu_cfg.planning.findings.checks import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.findings.wording import is_at_least, version_tuple
from vgpu_cfg.planning.host_settings.case import Gap, GapKind, HostCase
from vgpu_cfg.planning.hosts.compare import compare_host
from vgpu_cfg.planning.hosts.evacuate import Evacuation, plan_evacuation, plan_graphics_pause
from vgpu_cfg.planning.hosts.gap_checks import check_bios, check_restarts
from vgpu_cfg.planning.hosts.host_checks import (
    check_disruption,
    check_driver_owner,
    check_maintenance,
    check_nodes,
    check_other_plan,
    check_owners,
    check_reachable,
    check_standing,
    check_taken_back,
)
from vgpu_cfg.planning.hosts.sequence import is_by_hand
from vgpu_cfg.planning.hosts.stretches import Stretches, make_stretches


@dataclass(slots=True)
class HostWork:
    """What is to be done on one host that has something to change."""

    case: HostCase
    stretches: Stretches
    evacuation: Evacuation
    prelude: list[Gap]
    is_held: bool


@dataclass(slots=True)
class JudgedHost:
    """What came of one host: as it will be (None: as it was read), and what is to be done for that.

    `step` is the switching on by hand that a cold boot waits for.
    """

    case: HostCase
    host: Host | None = None
    work: HostWork | None = None
    step: ManualStep | None = None
    is_in_sync: bool = False


class HostJudge:
    """Compares hosts one by one; what it finds goes where the caller says."""

    def __init__(self, desired: DesiredPlan, observed: Inventory, options: PlanOptions) -> None:
        """`observed` has the plan's own changes to DRS and vCenter in it."""
        self.desired, self.observed, self.options = desired, observed, options

    def judge(self, case: HostCase, findings: Findings) -> JudgedHost:
        """Compare one host with the wishes of its case, and judge what that takes."""
        result = JudgedHost(case)
        self._judge(case, findings, result)
        return result

    def _judge(self, case: HostCase, findings: Findings, result: JudgedHost) -> None:
        if case.wishes or case.view.facts.mark is not None:
            check_standing(case, self.desired.name, findings)
        if not check_reachable(case, self.desired.name, findings):
            self._wait_for_power(case, result)
            return
        compare_host(case, findings, supposes=self.options.supposes)
        check_owners(case, findings)
        check_driver_owner(case, case.gaps, findings)
        check_nodes(case, findings)
        check_taken_back(case, findings)
        if case.is_checked_only:
            _report_differences(case, findings)
            result.is_in_sync = _is_in_sync(case)
            return
        check_other_plan(case, self.desired.name, findings)
        _see_at_cold_boot(case)
        check_bios(case, findings)
        check_restarts(case, findings)
        is_held = check_maintenance(case, findings)
        mark = case.view.facts.mark
        is_left = mark is not None and mark.plan == self.desired.name
        if not case.gaps and not is_left:
            result.is_in_sync = _is_in_sync(case)
            return
        if case.is_blocked:
            return
        prelude = [gap for gap in case.gaps if is_by_hand(case, gap) and _comes_first(gap)]
        stretches = make_stretches(
            case.view,
            [gap for gap in case.gaps if gap not in prelude],
            case.right,
        )
        is_allowed = check_disruption(case, stretches, findings)
        evacuation = Evacuation()
        if not is_held and (stretches.needs_empty_host or stretches.touches_graphics):
            if stretches.needs_empty_host:
                evacuation = plan_evacuation(case, self.desired, self.observed, self.options, findings)
            else:
                evacuation = plan_graphics_pause(case, self.desired, self.observed, self.options, findings)
        result.host = self._shown(case)
        if is_allowed and evacuation.is_possible:
            result.work = HostWork(case, stretches, evacuation, prelude, is_held)

    def _shown(self, case: HostCase) -> Host:
        """Return the host as it will be once it is prepared."""
        host = case.view.host
        for gap in case.gaps:
            host = gap.setting.show(host, gap.wish)
        if host is not case.view.host:
            host = _with_profiles(case, host)
        mark = case.view.facts.mark
        if mark is not None and mark.maintenance:
            host = host.model_copy(update={"is_in_maintenance_mode": False})
        if host.system_id is None and any(device.passthrough_active for device in host.pci_devices):
            # It is told once a first device is handed out, and asked for when a VM is made.
            host = host.model_copy(update={"system_id": ""})
        return host

    def _wait_for_power(self, case: HostCase, result: JudgedHost) -> None:
        mark = case.view.facts.mark
        if mark is None or not mark.maintenance or mark.plan != self.desired.name or mark.restart == "reboot":
            return
        told = mark.reason if mark.reason.startswith(f"power {case.name} on") else ""
        result.step = ManualStep(
            id=f"cold boot {case.name}",
            subject=case.subject,
            text=told or f"power {case.name} on by hand: this plan shut it down for a cold boot",
            proof=f"{case.name} is connected in vCenter",
            is_shown=True,
            impact=Impact.HOST_COLD_BOOT,
            host_moid=case.view.host.moid,
        )
        host = case.view.host
        update = {"is_in_maintenance_mode": False, "connection": Connection.CONNECTED}
        result.host = host.model_copy(update=update)


def _is_in_sync(case: HostCase) -> bool:
    """Whether everything that is asked of a host was told, and is so."""
    return bool(case.wishes) and not (case.gaps or case.is_blocked or case.has_refusals)


def _with_profiles(case: HostCase, host: Host) -> Host:
    """Add what the catalogue knows of the host's boards: the driver's list was read before the change."""
    told = {profile.name: profile for profile in host.profiles or ()}
    names: dict[str, None] = dict.fromkeys((*told, *host.creatable_profiles))
    for gpu in host.gpus:
        board = case.view.boards.get(gpu.pci_id)
        if gpu.is_passthrough or board is None:
            continue
        of_gpu = [one for one in board.profiles if gpu.sharing in (None, one.profile.sharing)]
        if not any(one.name in names for one in of_gpu):
            names |= dict.fromkeys(one.name for one in of_gpu if _is_known(one, host))
    profiles = tuple(told.get(name) or ProfileInfo(name=name) for name in names)
    return host.model_copy(update={"profiles": profiles, "creatable_profiles": tuple(names)})


def _report_differences(case: HostCase, findings: Findings) -> None:
    for gap in case.gaps:
        shown = gap.reading.configured or "unset"
        what = f"{gap.setting.title} {gap.wish.device}".rstrip()
        message = f"{what} is {shown}, and the plan asks for {gap.wish.value or 'none'}"
        if gap.kind is GapKind.PENDING:
            message = f"{what} is set to {shown}, and waits for a restart"
        remedy = "give the entry `mode: enforce` to have it changed"
        findings.add(Code.SETTING_DIFFERS, case.subject, message, remedy)


def _comes_first(gap: Gap) -> bool:
    """Whether a step by hand is done before the tool takes the host down."""
    return gap.impact is Impact.HOST_REBOOT or gap.is_to_be_seen


def _see_at_cold_boot(case: HostCase) -> None:
    """Leave to a cold boot of the plan what needs a look into the BIOS: somebody stands there anyway."""
    if any(gap.impact is Impact.HOST_COLD_BOOT for gap in case.gaps):
        case.gaps = [
            replace(gap, impact=Impact.HOST_COLD_BOOT) if gap.is_to_be_seen and is_by_hand(case, gap) else gap
            for gap in case.gaps
        ]


def _is_known(profile: ProfileEntry, host: Host) -> bool:
    """Whether the host's release knows a profile."""
    least = profile.mig.min_esxi if profile.mig is not None else None
    return is_at_least(host.version, version_tuple(least or ""))
