"""What each host could be prepared into for the plan's VMs, with what it brings and what that disturbs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.desired import DesiredHosts, DesiredPlan
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.plan.change import Impact, Severity
from vgpu_cfg.model.plan_words import GpuUse
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.host_settings.case import DISTURBS, HostCase
from vgpu_cfg.planning.host_settings.entry import HostSetting, Wish
from vgpu_cfg.planning.hosts.compare import wishes_of
from vgpu_cfg.planning.hosts.derive import Preparation, derived_entry
from vgpu_cfg.planning.hosts.judge import HostJudge, JudgedHost

Wishes = Mapping[str, tuple[HostSetting, Wish]]
"""What is asked of a host, by the wish's id."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """A host prepared in one way: as it would be (`host`), what is asked of it then, and what that costs.

    A host that is so already (`is_so`) costs 0. The cost orders by what is disturbed beyond what the plan
    file asks anyway; what cannot be carried out (`is_refused`) costs more than all that can.
    """

    preparation: Preparation
    host: Host
    wishes: Wishes
    disturbs: Impact = Impact.NONE
    is_so: bool = False
    is_refused: bool = False

    @property
    def cost(self) -> int:
        """Its place in the order of what it disturbs."""
        if self.is_so:
            return 0
        return 1 + DISTURBS.index(self.disturbs) + (len(DISTURBS) if self.is_refused else 0)


class Alternatives:
    """The hosts that may be prepared for the VMs (`prepare: from_vms`), and into what each could be.

    What is asked here is asked quietly: only `unclear` keeps findings, of hosts whose VMs leave open how
    GPUs are to be shared.
    """

    def __init__(
        self,
        cases: Iterable[HostCase],
        judge: HostJudge,
        desired: DesiredPlan,
        observed: Inventory,
        catalog: Catalog,
        findings: Findings,
    ) -> None:
        """Take of the plan's `findings` what is relaxed; nothing is added to them."""
        self.cases = {case.view.host.moid: case for case in cases if is_derivable(case)}
        self.unclear = Findings(findings.relaxed, findings.lines)
        self._judge, self._relaxed = judge, findings.relaxed
        self._desired, self._observed, self._catalog = desired, observed, catalog
        self._known: dict[str, tuple[JudgedHost, int]] = {}

    def as_stated(self) -> dict[str, Host]:
        """Return the hosts as they will be with what the plan file itself asks of them."""
        found = {moid: self._as_stated(case)[0] for moid, case in self.cases.items()}
        return {moid: judged.host for moid, judged in found.items() if judged.host is not None}

    def all(self) -> dict[str, tuple[Alternative, ...]]:
        """Return what each host could be prepared into for all VMs that may run there, the cheapest first.

        Where two cost the same, the one that brings less comes first.
        """
        found = {moid: tuple(sorted(self._of(case), key=_order)) for moid, case in self.cases.items()}
        return {moid: ways for moid, ways in found.items() if ways}

    def of(
        self, moid: str, preparation: Preparation, names: Collection[str] | None = None
    ) -> Alternative | None:
        """Return a host prepared in one way for these VMs, or for all that may run there.

        None where they need nothing of it, or where the host cannot be prepared.
        """
        case = self.cases[moid]
        entry = self._derived(case, preparation, Findings(), names)
        return self._alternative(case, preparation, entry)

    def _of(self, case: HostCase) -> Iterator[Alternative]:
        whole = self._derived(case, Preparation.ALL, self.unclear)
        derived = whole.gpus[: len(whole.gpus) - len(case.entry.gpus)]
        optional = [Preparation(0)]
        if any(rule.use is GpuUse.PASSTHROUGH for rule in derived):
            optional += [one | Preparation.PASSTHROUGH for one in optional]
        if any(rule.sharing is not None for rule in derived):
            optional += [one | Preparation.OTHER_MODE for one in optional]
        for left_out in optional:
            preparation = Preparation.ALL & ~left_out
            entry = self._derived(case, preparation, Findings()) if left_out else whole
            found = self._alternative(case, preparation, entry)
            if found is not None and not found.is_so:
                yield found

    def _derived(
        self,
        case: HostCase,
        preparation: Preparation,
        findings: Findings,
        names: Collection[str] | None = None,
    ) -> DesiredHosts:
        return derived_entry(case, self._desired, self._observed, self._catalog, findings, names, preparation)

    def _alternative(
        self, case: HostCase, preparation: Preparation, entry: DesiredHosts
    ) -> Alternative | None:
        if entry is case.entry:
            return None
        wishes = _merged(entry, case)
        if wishes.keys() == case.wishes.keys():
            return None
        before, errors_before = self._as_stated(case)
        judged, errors = self._tried(case, wishes)
        had = {gap.wish.id for gap in before.case.gaps}
        more = [gap for gap in judged.case.gaps if gap.wish.id not in had]
        if not more:
            host = before.host if before.host is not None else case.view.host
            return Alternative(preparation, host, wishes, is_so=True)
        if judged.host is None:
            return None
        anyway = max((DISTURBS.index(gap.impact) for gap in before.case.gaps), default=0)
        disturbs = max((gap.impact for gap in more), key=DISTURBS.index)
        if DISTURBS.index(disturbs) <= anyway:
            disturbs = Impact.NONE
        return Alternative(preparation, judged.host, wishes, disturbs, is_refused=errors > errors_before)

    def _as_stated(self, case: HostCase) -> tuple[JudgedHost, int]:
        moid = case.view.host.moid
        if moid not in self._known:
            self._known[moid] = self._tried(case, case.wishes) if _is_asked(case) else (JudgedHost(case), 0)
        return self._known[moid]

    def _tried(self, case: HostCase, wishes: Wishes) -> tuple[JudgedHost, int]:
        """Judge a host with wishes, for once; and count the errors that this finds."""
        findings = Findings(self._relaxed)
        judged = self._judge.judge(replace(case, wishes=dict(wishes), gaps=[], right=[]), findings)
        return judged, sum(found.severity is Severity.ERROR for found in findings.diagnostics())


def is_derivable(case: HostCase) -> bool:
    """Whether a host may be prepared for the VMs."""
    return case.entry.prepare == "from_vms" and not case.is_checked_only


def _is_asked(case: HostCase) -> bool:
    """Whether the plan file asks something of a host, or an earlier run left something on it."""
    return bool(case.wishes) or case.view.facts.mark is not None


def _merged(entry: DesiredHosts, case: HostCase) -> Wishes:
    """Return the wishes of an entry with what follows from the VMs marked; the plan file's own stay."""
    wishes: dict[str, tuple[HostSetting, Wish]] = {}
    for setting, wish in wishes_of(entry, case.view):
        note = wish.note or "the VMs need it"
        derived = (setting, replace(wish, is_derived=True, note=note))
        wishes[wish.id] = case.wishes.get(wish.id, derived)
    return wishes


def _order(one: Alternative) -> tuple[int, int]:
    return one.cost, len(one.preparation)
