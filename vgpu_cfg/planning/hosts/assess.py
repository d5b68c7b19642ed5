"""The work to prepare one host, the host as it will be then, its unknown settings, and the values to keep.

Nothing is ordered here. An unknown setting is reported with its kind, how to read it, and its largest impact.
The values to keep from a host's shell are determined after the shells were read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from vgpu_cfg.catalog import Board, Catalog, ProfileEntry
from vgpu_cfg.changes.change import ColdBootHost, ManualStep
from vgpu_cfg.changes.plan import UnknownHost, UnknownSetting
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import HostRef, Impact
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.host_facts import NO_LOCKDOWN, SHELL_GROUPS
from vgpu_cfg.model.observed.inventory import Connection, Host, Inventory, ProfileInfo
from vgpu_cfg.model.wording import is_at_least, version_tuple
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings, Objection
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.host_settings.resolved_host import (
    DISTURBS,
    Drift,
    DriftKind,
    ResolvedHost,
    resolve_hosts,
)
from vgpu_cfg.planning.hosts.compare import compare_host, desired_settings_of, to_remember
from vgpu_cfg.planning.hosts.derive import derived_entry
from vgpu_cfg.planning.hosts.evacuate import Evacuation, plan_evacuation, plan_graphics_pause
from vgpu_cfg.planning.hosts.host_checks import (
    absence_of,
    check_bios,
    check_disruption,
    check_maintenance,
    check_nodes,
    check_other_plan,
    check_owners,
    check_package_owner,
    check_reachable,
    check_restarts,
    check_standing,
    check_taken_back,
)
from vgpu_cfg.planning.hosts.packages import check_depots, check_image
from vgpu_cfg.planning.hosts.sequence import (
    IN_BIOS,
    Phases,
    bmc_of,
    check_bmc,
    cold_boot_id,
    filled,
    is_by_hand,
    make_phases,
)

OPEN_SHELL = "to read values over SSH, use `plan --open-shell` or `apply`"


@dataclass(slots=True)
class HostWork:
    """The work on one host that has something to change.

    `is_blocked` if an error prevents it: it is shown, and the plan refused.
    """

    resolved: ResolvedHost
    phases: Phases
    evacuation: Evacuation
    manual_first: list[Drift]
    is_held: bool
    is_blocked: bool = False


@dataclass(slots=True)
class AssessedHost:
    """The result for one host: as it will be (None: as it was read), and the work for that.

    For placing VMs, `unknown` settings count as wanted. `step` is the manual power-on that a cold boot waits
    for. `absence` is why nothing is done there; whether a VM needs the host is known later.
    """

    resolved: ResolvedHost
    host: Host | None = None
    work: HostWork | None = None
    step: ManualStep | ColdBootHost | None = None
    absence: Objection | None = None
    unknown: UnknownHost | None = None
    is_in_sync: bool = False


class HostAssessor:
    """Compares hosts one by one; findings go to the caller's collection."""

    def __init__(self, desired: DesiredPlan, observed: Inventory, options: PlanOptions) -> None:
        """`observed` has the plan's own changes to DRS and vCenter in it."""
        self.desired, self.observed, self.options = desired, observed, options

    def assess(self, resolved: ResolvedHost, findings: Findings) -> AssessedHost:
        """Compare one host with its desired state, and return the necessary work."""
        result = AssessedHost(resolved)
        if resolved.desired_settings or resolved.view.facts.mark is not None:
            check_standing(resolved, self.desired.identity, findings)
        if not check_reachable(resolved, self.desired.identity, findings):
            result.absence = absence_of(resolved, self.desired.identity)
            self._wait_for_power(resolved, result)
            return result
        compare_host(resolved, findings)
        result.unknown = unknown_of(resolved)
        check_owners(resolved, findings)
        check_package_owner(resolved, resolved.drifts, findings)
        check_image(resolved, findings)
        check_depots(resolved, findings)
        check_nodes(resolved, findings)
        check_taken_back(resolved, findings)
        if resolved.is_checked_only:
            _report_differences(resolved, findings)
            result.is_in_sync = _is_in_sync(resolved)
            return result
        result.absence = check_other_plan(resolved, self.desired.identity)
        _see_at_cold_boot(resolved)
        check_bios(resolved, findings)
        check_restarts(resolved, findings)
        is_held = check_maintenance(resolved, findings)
        mark = resolved.view.facts.mark
        is_left = mark is not None and mark.is_of(self.desired.identity)
        if not resolved.drifts and not is_left:
            result.is_in_sync = _is_in_sync(resolved)
            if resolved.unknown and not resolved.is_blocked:
                result.host = self._shown(resolved)
            return result
        if result.absence is not None:
            return result
        if resolved.is_blocked:
            findings = Findings()  # one error stands against it already
        manual_first = [
            drift for drift in resolved.drifts if is_by_hand(resolved, drift) and _comes_first(drift)
        ]
        phases = make_phases(
            resolved.view, [drift for drift in resolved.drifts if drift not in manual_first], resolved.right
        )
        if not is_held and any(drift.restarts for drift in manual_first):
            self._warn_of_who_stays(resolved, findings)
        is_allowed = check_disruption(resolved, phases, findings)
        check_bmc(resolved, boots_cold=any(phases.cold), findings=findings)
        evacuation = Evacuation()
        if not is_held and (phases.needs_empty_host or phases.touches_graphics):
            if phases.needs_empty_host:
                evacuation = plan_evacuation(resolved, self.desired, self.observed, self.options, findings)
            else:
                evacuation = plan_graphics_pause(
                    resolved, self.desired, self.observed, self.options, findings
                )
        if not resolved.is_blocked:
            result.host = self._shown(resolved)
        is_blocked = resolved.is_blocked or not (is_allowed and evacuation.is_possible)
        result.work = HostWork(resolved, phases, evacuation, manual_first, is_held, is_blocked)
        return result

    def _warn_of_who_stays(self, resolved: ResolvedHost, findings: Findings) -> None:
        """Report the VMs that must leave before a manual step that takes the host down."""
        found = Findings()
        plan_evacuation(resolved, self.desired, self.observed, self.options, found)
        for one in found.diagnostics():
            if one.code == Code.HOST_NOT_EMPTIED:
                message = f"before the manual step: {one.message}"
                findings.add(Code.HOST_NOT_EMPTIED, resolved.subject, message, one.remedy, Severity.WARNING)

    def _shown(self, resolved: ResolvedHost) -> Host:
        """Return the host as it will be once it is prepared."""
        host = resolved.view.host
        for drift in (*resolved.drifts, *resolved.unknown):
            host = drift.setting.show(host, drift.desired)
        if host is not resolved.view.host:
            host = with_profiles(resolved.view.boards, host)
        mark = resolved.view.facts.mark
        if mark is not None and mark.maintenance:
            host = host.model_copy(update={"is_in_maintenance_mode": False})
        if host.system_id is None and any(device.passthrough_active for device in host.pci_devices):
            # It is told once a first device is handed out, and asked for when a VM is made.
            host = host.model_copy(update={"system_id": ""})
        return host

    def _wait_for_power(self, resolved: ResolvedHost, result: AssessedHost) -> None:
        mark = resolved.view.facts.mark
        is_own = mark is not None and mark.is_of(self.desired.identity)
        if mark is None or not is_own or not mark.maintenance or mark.restart == "reboot":
            return
        bmc = bmc_of(resolved.entry, resolved.name)
        host = resolved.view.host
        reported = mark.reason if mark.reason.startswith(f"power {resolved.name} on") else ""
        common: dict[str, Any] = {
            "id": cold_boot_id(resolved.name),
            "subject": resolved.subject,
            "impact": Impact.HOST_COLD_BOOT,
            "host_moid": host.moid,
        }
        if bmc is not None and IN_BIOS not in reported:
            ref = HostRef(name=host.name, moid=host.moid)
            result.step = ColdBootHost(host=ref, bmc=bmc, **common)
        else:
            result.step = ManualStep(
                text=reported or f"power {resolved.name} on manually: this plan shut it down for a cold boot",
                proof=f"{resolved.name} is connected in vCenter",
                is_shown=True,
                **common,
            )
        update = {"is_in_maintenance_mode": False, "connection": Connection.CONNECTED}
        result.host = host.model_copy(update=update)


def _is_in_sync(resolved: ResolvedHost) -> bool:
    """Whether every request for a host was read, and is fulfilled."""
    return bool(resolved.desired_settings) and not (
        resolved.drifts or resolved.unknown or resolved.is_blocked or resolved.has_refusals
    )


def with_profiles(boards: Mapping[str, Board], host: Host) -> Host:
    """Add the catalog's profiles of the host's boards: the driver's list was read before the change."""
    reported = {profile.name: profile for profile in host.profiles or ()}
    names: dict[str, None] = dict.fromkeys((*reported, *host.creatable_profiles))
    for gpu in host.gpus:
        board = boards.get(gpu.pci_id)
        if gpu.is_passthrough or board is None:
            continue
        of_gpu = [one for one in board.profiles if gpu.sharing in (None, one.profile.sharing)]
        if not any(one.name in names for one in of_gpu):
            names |= dict.fromkeys(one.name for one in of_gpu if _is_known(one, host))
    profiles = tuple(reported.get(name) or ProfileInfo(name=name) for name in names)
    return host.model_copy(update={"profiles": profiles, "creatable_profiles": tuple(names)})


def _report_differences(resolved: ResolvedHost, findings: Findings) -> None:
    for drift in resolved.drifts:
        shown = drift.reading.configured or "unset"
        what = f"{drift.setting.title} {drift.desired.device}".rstrip()
        message = f"{what} is {shown}, but the plan requires {drift.desired.value or 'none'}"
        if drift.kind is DriftKind.PENDING:
            message = f"{what} is set to {shown}, pending a restart"
        remedy = "to change it, set `mode: enforce` in the entry"
        findings.add(Code.SETTING_DIFFERS, resolved.subject, message, remedy)


def _comes_first(drift: Drift) -> bool:
    """Whether a manual step is done before the tool takes the host down."""
    return drift.impact is Impact.HOST_REBOOT or drift.is_to_be_seen


def _see_at_cold_boot(resolved: ResolvedHost) -> None:
    """Leave BIOS checks to a cold boot of the plan: an admin is on site then anyway."""
    if any(drift.impact is Impact.HOST_COLD_BOOT for drift in resolved.drifts):
        resolved.drifts = [
            replace(drift, impact=Impact.HOST_COLD_BOOT)
            if drift.is_to_be_seen and is_by_hand(resolved, drift)
            else drift
            for drift in resolved.drifts
        ]


def _is_known(profile: ProfileEntry, host: Host) -> bool:
    """Whether the host's release knows a profile."""
    least = profile.mig.min_esxi if profile.mig is not None else None
    return is_at_least(host.version, version_tuple(least or ""))


def unknown_of(resolved: ResolvedHost) -> UnknownHost | None:
    """Return the unknown settings of a compared host, None if there are none."""
    if not resolved.unknown:
        return None
    settings = tuple(_setting(resolved, drift) for drift in resolved.unknown)
    remedy = _remedy(resolved)
    if resolved.is_checked_only:
        return UnknownHost(host=resolved.ref, settings=settings, is_checked_only=True, remedy=remedy)
    without, with_all = (
        make_phases(resolved.view, drifts, resolved.right)
        for drifts in (resolved.drifts, [*resolved.drifts, *resolved.unknown])
    )
    return UnknownHost(
        host=resolved.ref,
        settings=settings,
        impact=max((drift.impact for drift in resolved.unknown), key=DISTURBS.index, default=Impact.NONE),
        reboots=max(0, _warm(with_all) - _warm(without)),
        cold_boots=max(0, sum(with_all.cold) - sum(without.cold)),
        remedy=remedy,
    )


def _warm(phases: Phases) -> int:
    return len(phases.cold) - sum(phases.cold)


def _setting(resolved: ResolvedHost, drift: Drift) -> UnknownSetting:
    setting, desired = drift.setting, drift.desired
    return UnknownSetting(
        setting=setting.key,
        title=setting.title,
        device=desired.device,
        wanted=desired.value,
        why=drift.reading.unread,
        is_of_shell=bool(setting.facts & SHELL_GROUPS) and resolved.view.facts.shell is None,
        verify=filled(resolved, drift, setting.how(resolved.view, desired).verify),
    )


def _remedy(resolved: ResolvedHost) -> str:
    access, facts = resolved.entry.access, resolved.view.facts
    if facts.shell is not None or not any(drift.setting.facts & SHELL_GROUPS for drift in resolved.unknown):
        return "the findings explain why the value could not be read"
    if access.ssh == "off":
        return "set `access: {ssh: open-and-close}`, then use `plan --open-shell`"
    if facts.lockdown not in ("", NO_LOCKDOWN):
        return "disable lockdown mode while settings are read"
    if access.ssh == "on" and not facts.is_ssh_running:
        return "start the host's SSH service, then run `plan` again"
    return OPEN_SHELL


def to_keep(
    desired: DesiredPlan, observed: Inventory, catalog: Catalog, options: PlanOptions
) -> Mapping[str, Mapping[str, str]]:
    """Return, by host moid, the custom attributes that are to change, and their texts.

    A host whose shell was not read, or that is only checked, keeps its own.
    """
    found: dict[str, Mapping[str, str]] = {}
    today = observed.read_at.date()
    for resolved in resolve_hosts(desired, observed, catalog, options, Findings()):
        if resolved.view.facts.shell is None or resolved.is_checked_only:
            continue
        entry = resolved.entry
        if entry.prepare == "from_vms":
            entry = derived_entry(resolved, desired, observed, catalog, Findings())
        texts = to_remember(desired_settings_of(entry, resolved.view), resolved.view, today)
        if texts:
            found[resolved.view.host.moid] = texts
    return found
