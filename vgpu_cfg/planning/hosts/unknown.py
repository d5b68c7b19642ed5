"""What is not known of a host: what it is, how it is found out, and what it could come to at most."""

from __future__ import annotations

from vgpu_cfg.changes.plan import UnknownHost, UnknownSetting
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.observed.host_facts import NO_LOCKDOWN, SHELL_GROUPS
from vgpu_cfg.planning.host_settings.resolved_host import DISTURBS, Drift, ResolvedHost
from vgpu_cfg.planning.hosts.phases import Phases, make_phases
from vgpu_cfg.planning.hosts.sequence import filled

OPEN_SHELL = "`plan --open-shell` asks, as `apply` does"


def unknown_of(resolved: ResolvedHost) -> UnknownHost | None:
    """Return what is not known of a host that was compared, None where all is."""
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
        return "the findings say what keeps it from being read"
    if access.ssh == "off":
        return "give `access: {ssh: open-and-close}`, and `plan --open-shell` asks"
    if facts.lockdown not in ("", NO_LOCKDOWN):
        return "end lockdown mode for as long as it takes to ask"
    if access.ssh == "on" and not facts.is_ssh_running:
        return "start the host's SSH service, and plan again"
    return OPEN_SHELL
