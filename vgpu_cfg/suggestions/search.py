"""Ideas that, alone or together, leave a plan without an error: each is tried by planning again.

Ideas without need for approval go first, then by disturbance: the rows of DISRUPTION, and running VMs on
hosts with manual steps. The search is bounded by work, never by time, so that it finds the same on every
machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import ManualStep
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.suggestion import Fix, FixKind, FixPart, OtherVm, Suggestion
from vgpu_cfg.documents import changed_lines
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.vms.lookup.moving import running_vms
from vgpu_cfg.render.views.plan import disruption_rows
from vgpu_cfg.suggestions.acts import is_added, words_of_hosts
from vgpu_cfg.suggestions.candidate import MOST_PARTS, Candidate, Cost, PlanSource, Trial, attempt
from vgpu_cfg.suggestions.others import Assessor
from vgpu_cfg.suggestions.proposals import propose
from vgpu_cfg.suggestions.proposals.room import move_together
from vgpu_cfg.suggestions.situation import Situation

MOST_TRIALS = 100
FEWEST_TRIALS = 6
_WORK = 8_500
"""VMs of the plan and of the estate, hosts ten times, that the trials after the first few may look at."""
_MOST_BESIDE = 2
"""How many ideas are followed that leave as much as there was, if it is something else."""

_IN_FILE = frozenset({FixKind.FILE})
_WITH_LEAVE = frozenset({FixKind.FILE, FixKind.LEAVE, FixKind.FLAG})
_OUTSIDE = frozenset({FixKind.FILE, FixKind.OUTSIDE})
_ANY = frozenset(FixKind)
_CHEAPER = (Cost.MOVE, Cost.WORK)
_HARDWARE = (Cost.HARDWARE,)

Left = tuple[int, int, int]
_Step = tuple[tuple[Candidate, ...], Trial]


@dataclass(frozen=True, slots=True)
class _Way:
    """How a search goes on: with which ideas, past which codes, and whether it may turn to other errors."""

    kinds: Collection[FixKind]
    most: Cost
    met: frozenset[str] = frozenset()
    can_turn: bool = True

    def past(self, codes: Iterable[str]) -> _Way:
        return replace(self, met=self.met.union(codes))


@dataclass(frozen=True, slots=True)
class Found:
    """Ideas that work together, what came of them, and what becomes of VMs that are not the plan's."""

    candidates: tuple[Candidate, ...]
    trial: Trial
    others: tuple[OtherVm, ...] = ()


def suggest(source: PlanSource) -> Suggestion:
    """Find what lets a plan be carried out; without an error there is nothing to find."""
    search = Search(source)
    fixes = [fix_of(one, search.text) for one in search.run()]
    return Suggestion(
        fixes=tuple(dict.fromkeys(fixes)), tried=search.tried, is_complete=search.tried < search.most
    )


@dataclass(slots=True)
class Search:
    """One search. `most` bounds how many plans it makes, `tried` counts them."""

    source: PlanSource
    text: str = ""
    tried: int = 0
    most: int = MOST_TRIALS
    _known: dict[frozenset[str], Trial | None] = field(default_factory=dict)
    _lefts: dict[frozenset[str], Left] = field(default_factory=dict)
    _assessor: Assessor = field(init=False)
    _ideas: dict[frozenset[str], tuple[Candidate, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.text = self.source.text

    def run(self) -> list[Found]:
        """Return the working ideas, the least demanding first.

        First edits of the file alone, unless a power cycle needs approval anyway. If these do not suffice,
        edits with the author's approval, and acts outside: each if it suffices, both together only if neither
        does. Moves that help only together count as one act. Hardware is bought only if nothing else is
        enough.
        """
        whole = self.attempt(())
        if whole is None or not whole.plan.errors:
            return []
        self._assessor = Assessor(whole, self.source.catalog)
        needs_leave = Code.POWER_CYCLE_NOT_ALLOWED in _codes(whole.plan)
        found = [] if needs_leave else [self._find(whole, _IN_FILE)]
        if not any(found):
            found = [self._find(whole, _WITH_LEAVE), self._find(whole, _OUTSIDE) or self._moved(whole)]
        for kinds, costs in ((_ANY, _CHEAPER), (_OUTSIDE, _HARDWARE), (_ANY, _HARDWARE)):
            if not any(found):
                found = [self._find(whole, kinds, costs)]
        return [one for one in found if one is not None]

    def attempt(self, candidates: Collection[Candidate]) -> Trial | None:
        """Plan again, once for the same ideas; None beyond the limit, too."""
        key = _key(candidates)
        if key not in self._known:
            if self.tried >= self.most:
                return None
            self.source.progress(f"looking for a fix: {self.tried} of at most {self.most} plans tried")
            trial = attempt(self.source, self.text, tuple(candidates))
            if not self.tried and trial is not None:
                self.most = _most_trials(trial)
            self.tried += 1
            self._known[key] = trial
        return self._known[key]

    def _moved(self, whole: Trial) -> Found | None:
        ideas = move_together(Situation(whole, self.source.catalog), self.source.options, self.most)
        return next((found for idea in ideas if (found := self._working((idea,))) is not None), None)

    def _find(
        self, whole: Trial, kinds: Collection[FixKind], costs: Sequence[Cost] = _CHEAPER
    ) -> Found | None:
        """Find a working set, first without the presumably most expensive ideas; None if there is none."""
        for most in costs:
            found = self._find_from((), whole, _Way(kinds, most))
            if found is not None:
                return found
        return None

    def _find_from(self, chosen: tuple[Candidate, ...], trial: Trial, way: _Way) -> Found | None:
        """Add one idea after the other, each time the one that leaves the least; None if some is left.

        If none leaves less, one that leaves other errors than before will do: the first obstacle may hide
        another. It ends if more VMs are left than the parts to come could place, each as many as the best one
        did.
        """
        gain = 0
        while not self._works(chosen, trial):
            way = way.past(_codes(trial.plan))
            best, beside = self._steps(chosen, trial, way) if len(chosen) < MOST_PARTS else (None, [])
            if best is None:
                others = beside[: _MOST_BESIDE if way.can_turn else 0]
                found = (self._find_from(*step, replace(way, can_turn=False)) for step in others)
                return next((one for one in found if one is not None), None)
            left = self._left(chosen, trial)[0], self._left(*best)[0]
            gain = max(gain, left[0] - left[1])
            (chosen, trial), way = best, replace(way, can_turn=True)
            if 0 < gain * (MOST_PARTS - len(chosen)) < left[1]:
                return None
        return self._pruned(chosen, trial)

    def _left(self, candidates: Collection[Candidate], trial: Trial) -> Left:
        """Return the remaining faults, the worst first.

        VMs without a place and errors; then errors, other VMs that are in the way, and those that would be
        stranded at their new place; last the other VMs' losses.
        """
        key = _key(candidates)
        if key not in self._lefts:
            plan, assessor = trial.plan, self._assessor
            wrong, stuck, lost = len(plan.errors), assessor.in_the_way(trial), 0
            if not wrong + stuck:
                others = assessor.others(trial, candidates)
                stuck = sum(one.is_stranded for one in others) + assessor.uncertain(trial, candidates)
                lost = sum(one.weight for one in others)
            unplaced = len(plan.desired.vms) - len(plan.placements)
            self._lefts[key] = (unplaced + wrong, wrong + stuck, lost)
        return self._lefts[key]

    def _works(self, candidates: Collection[Candidate], trial: Trial) -> bool:
        return self._left(candidates, trial)[1] == 0

    def _steps(
        self, chosen: tuple[Candidate, ...], trial: Trial, way: _Way
    ) -> tuple[_Step | None, list[_Step]]:
        """Return the next idea, which leaves the least, and those that only leave something else."""
        known = _key(chosen)
        if known not in self._ideas:
            drawn = propose(Situation(trial, self.source.catalog))
            self._ideas[known] = tuple(sorted(drawn, key=lambda one: one.order))
        said = {one.says for one in chosen}
        ideas = [
            one
            for one in self._ideas[known]
            if one.kind in way.kinds and one.cost <= way.most and one.says not in said
        ]
        best: _Step | None = None
        beside: list[_Step] = []
        least = self._left(chosen, trial)
        for idea in ideas:
            together = (*chosen, idea)
            after = self.attempt(together)
            if after is None:
                continue
            left = self._left(together, after)
            if left < least:
                best, least = (together, after), left
                if not any(left[1:]):
                    break
            elif _is_beside(trial.plan, after.plan, way.met):
                beside.append((together, after))
        return best, sorted(beside, key=lambda step: self._left(*step))

    def _pruned(self, chosen: tuple[Candidate, ...], trial: Trial) -> Found:
        """Leave out unnecessary parts: all edits of the file, then the heaviest first."""
        found = self._found(chosen, trial)
        acts = tuple(one for one in chosen if not one.edits)
        found = (self._working(acts) if acts else None) or found
        for one in sorted(found.candidates, key=lambda each: each.order, reverse=True):
            rest = tuple(other for other in found.candidates if other is not one)
            found = (self._working(rest) if rest else None) or found
        for one in found.candidates:
            narrow = one.narrowed(found.trial.plan) if one.narrowed is not None else None
            if narrow is not None:
                others = tuple(narrow if each is one else each for each in found.candidates)
                found = self._working(others) or found
        return found

    def _working(self, candidates: tuple[Candidate, ...]) -> Found | None:
        trial = self.attempt(candidates)
        return self._found(candidates, trial) if trial and self._works(candidates, trial) else None

    def _found(self, candidates: tuple[Candidate, ...], trial: Trial) -> Found:
        return Found(candidates, trial, self._assessor.others(trial, candidates))


def fix_of(found: Found, text: str) -> Fix:
    return Fix(
        parts=tuple(_parts(sorted(found.candidates, key=lambda each: each.order[0]))),
        lines=changed_lines(text, found.trial.text),
        text=found.trial.text if found.trial.text != text else "",
        disturbs=tuple(disturbed(found.trial.plan, found.trial.observed)),
        others=found.others,
    )


def _parts(candidates: Sequence[Candidate]) -> Iterator[FixPart]:
    """Yield the displayed parts; hosts like the same one are added up."""
    hosts: Counter[str] = Counter()
    for one in candidates:
        hosts[one.hosts[1]] += one.hosts[0]
    for one in candidates:
        _, like = one.hosts
        if not like:
            yield one.part
        elif count := hosts.pop(like, 0):
            yield replace(one, says=words_of_hosts(count, like)).part


def _codes(plan: Plan) -> set[str]:
    return {found.code for found in plan.errors}


def _is_beside(before: Plan, after: Plan, met: Collection[str]) -> bool:
    """Whether there are other errors than before, and hardly more of them."""
    return bool(_codes(after) - set(met)) and len(after.errors) <= len(before.errors) + 1


def _key(candidates: Collection[Candidate]) -> frozenset[str]:
    return frozenset(one.key for one in candidates)


def _most_trials(trial: Trial) -> int:
    size = len(trial.plan.desired.vms) + len(trial.observed.vms) + 10 * len(trial.observed.hosts)
    return min(MOST_TRIALS, FEWEST_TRIALS + _WORK // max(1, size))


def disturbed(plan: Plan, observed: Inventory) -> Iterator[str]:
    """Yield the disturbed objects and the effects, hosts first; nothing of hosts still to be bought."""
    changes = tuple(one for one in plan.changes if not is_added(one.subject.moid or ""))
    reached = tuple(one for one in plan.disturbed if not is_added(one.subject.moid or ""))
    shown = plan.model_copy(update={"changes": changes, "disturbed": reached})
    yield from (f"{who}: {how}" for who, how in disruption_rows(shown))
    by_hand = {change.host_moid or change.subject.moid for change in of_kind(changes, ManualStep)}
    own = {vm.name for vm in plan.desired.vms}
    for host in observed.hosts:
        others = [vm.name for vm in running_vms(host, observed) if vm.name not in own]
        if host.moid in by_hand:
            there = f"; other VMs on this host: {fold_names(others)}" if others else ""
            yield f"{host.name}: manual steps{there}"
