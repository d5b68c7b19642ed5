"""The ways to prepare each host for the plan's VMs, with their benefits and disturbances."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts, DesiredPlan
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.plan_values import GpuUse
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostSetting
from vgpu_cfg.planning.host_settings.resolved_host import DISTURBS, Drift, ResolvedHost
from vgpu_cfg.planning.hosts.assess import AssessedHost, HostAssessor
from vgpu_cfg.planning.hosts.compare import desired_settings_of
from vgpu_cfg.planning.hosts.derive import Preparation, derived_entry

DesiredSettings = Mapping[str, tuple[HostSetting, DesiredSetting]]
"""A host's requests, by the id of the desired setting."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """A host prepared in one way: its result (`host`), its requests then, and their cost.

    One in this state already (`is_so`) costs 0. The cost orders by the disturbances beyond the plan file's
    own requests; impossible requests (`is_refused`) cost more than all possible ones.
    """

    preparation: Preparation
    host: Host
    desired_settings: DesiredSettings
    disturbs: Impact = Impact.NONE
    is_so: bool = False
    is_refused: bool = False

    @property
    def cost(self) -> int:
        """Its place in the order of disturbance."""
        if self.is_so:
            return 0
        return 1 + DISTURBS.index(self.disturbs) + (len(DISTURBS) if self.is_refused else 0)


class Alternatives:
    """The hosts that may be prepared for the VMs (`prepare: from_vms`), and the possible results of each.

    These requests are quiet: only `unclear` keeps findings, of hosts whose VMs leave the sharing of GPUs
    open.
    """

    def __init__(
        self,
        resolved_hosts: Iterable[ResolvedHost],
        assessor: HostAssessor,
        desired: DesiredPlan,
        observed: Inventory,
        catalog: Catalog,
        findings: Findings,
    ) -> None:
        """Use the relaxations in the plan's `findings`; nothing is added to them."""
        self.resolved_hosts = {
            resolved.view.host.moid: resolved for resolved in resolved_hosts if is_derivable(resolved)
        }
        self.unclear = Findings(findings.relaxed)
        self._assessor, self._relaxed = assessor, findings.relaxed
        self._desired, self._observed, self._catalog = desired, observed, catalog
        self._known: dict[str, tuple[AssessedHost, int]] = {}

    def as_stated(self) -> dict[str, Host]:
        """Return the hosts as they will be with the plan file's own requests."""
        found = {moid: self._as_stated(resolved)[0] for moid, resolved in self.resolved_hosts.items()}
        return {moid: assessed.host for moid, assessed in found.items() if assessed.host is not None}

    def all(self) -> dict[str, tuple[Alternative, ...]]:
        """Return the possible results of each host for all VMs that may run there, the cheapest first.

        If two cost the same, the one that brings less comes first.
        """
        found = {
            moid: tuple(sorted(self._of(resolved), key=lambda one: (one.cost, len(one.preparation))))
            for moid, resolved in self.resolved_hosts.items()
        }
        return {moid: ways for moid, ways in found.items() if ways}

    def of(
        self, moid: str, preparation: Preparation, names: Collection[str] | None = None
    ) -> Alternative | None:
        """Return a host prepared in one way for these VMs, or for all that may run there.

        None where they need nothing of it, or where the host cannot be prepared.
        """
        resolved = self.resolved_hosts[moid]
        entry = self._derived(resolved, preparation, Findings(), names)
        return self._alternative(resolved, preparation, entry)

    def _of(self, resolved: ResolvedHost) -> Iterator[Alternative]:
        whole = self._derived(resolved, Preparation.ALL, self.unclear)
        derived = whole.gpus[: len(whole.gpus) - len(resolved.entry.gpus)]
        optional = [Preparation(0)]
        if any(rule.use is GpuUse.PASSTHROUGH for rule in derived):
            optional += [one | Preparation.PASSTHROUGH for one in optional]
        if any(rule.sharing is not None for rule in derived):
            optional += [one | Preparation.OTHER_MODE for one in optional]
        for left_out in optional:
            preparation = Preparation.ALL & ~left_out
            entry = self._derived(resolved, preparation, Findings()) if left_out else whole
            found = self._alternative(resolved, preparation, entry)
            if found is not None and not found.is_so:
                yield found

    def _derived(
        self,
        resolved: ResolvedHost,
        preparation: Preparation,
        findings: Findings,
        names: Collection[str] | None = None,
    ) -> DesiredHosts:
        return derived_entry(
            resolved, self._desired, self._observed, self._catalog, findings, names, preparation
        )

    def _alternative(
        self, resolved: ResolvedHost, preparation: Preparation, entry: DesiredHosts
    ) -> Alternative | None:
        if entry is resolved.entry:
            return None
        desired_settings = _merged(entry, resolved)
        if desired_settings.keys() == resolved.desired_settings.keys():
            return None
        before, errors_before = self._as_stated(resolved)
        assessed, errors = self._tried(resolved, desired_settings)
        had = {drift.desired.id for drift in _lacking(before)}
        more = [drift for drift in _lacking(assessed) if drift.desired.id not in had]
        if not more:
            host = before.host if before.host is not None else resolved.view.host
            return Alternative(preparation, host, desired_settings, is_so=True)
        if assessed.host is None:
            return None
        anyway = max((DISTURBS.index(drift.impact) for drift in before.resolved.drifts), default=0)
        disturbs = max((drift.impact for drift in more), key=DISTURBS.index)
        if DISTURBS.index(disturbs) <= anyway:
            disturbs = Impact.NONE
        return Alternative(
            preparation, assessed.host, desired_settings, disturbs, is_refused=errors > errors_before
        )

    def _as_stated(self, resolved: ResolvedHost) -> tuple[AssessedHost, int]:
        moid = resolved.view.host.moid
        if moid not in self._known:
            self._known[moid] = (
                self._tried(resolved, resolved.desired_settings)
                if _is_requested(resolved)
                else (AssessedHost(resolved), 0)
            )
        return self._known[moid]

    def _tried(self, resolved: ResolvedHost, desired_settings: DesiredSettings) -> tuple[AssessedHost, int]:
        """Assess a host with these settings, once, and count the errors that this finds."""
        findings = Findings(self._relaxed)
        assessed = self._assessor.assess(
            replace(resolved, desired_settings=dict(desired_settings), drifts=[], right=[], unknown=[]),
            findings,
        )
        return assessed, sum(found.severity is Severity.ERROR for found in findings.diagnostics())


def is_derivable(resolved: ResolvedHost) -> bool:
    """Whether a host may be prepared for the VMs."""
    return resolved.entry.prepare == "from_vms" and not resolved.is_checked_only


def _is_requested(resolved: ResolvedHost) -> bool:
    """Whether the plan file asks something of a host, or an earlier run left something on it."""
    return bool(resolved.desired_settings) or resolved.view.facts.mark is not None


def _merged(entry: DesiredHosts, resolved: ResolvedHost) -> DesiredSettings:
    """Return an entry's desired settings with what follows from the VMs marked; the plan file's own stay."""
    desired_settings: dict[str, tuple[HostSetting, DesiredSetting]] = {}
    for setting, desired in desired_settings_of(entry, resolved.view):
        note = desired.note or "required by the VMs"
        derived = (setting, replace(desired, is_derived=True, note=note))
        desired_settings[desired.id] = resolved.desired_settings.get(desired.id, derived)
    return desired_settings


def _lacking(assessed: AssessedHost) -> list[Drift]:
    """Return a host's certain or possible deviations: a way that is known to be open is the better one."""
    return [*assessed.resolved.drifts, *assessed.resolved.unknown]
