"""Which ideas, alone or together, leave a plan without an error: each answer is tried by planning again.

What needs nobody's leave goes first, then what disturbs least. The search is bounded by work, never by
time, so that it finds the same on every machine.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field

from vgpu_cfg.documents import changed_lines
from vgpu_cfg.late_dataclasses import dataclass
from vgpu_cfg.model.plan.change import Plan
from vgpu_cfg.model.plan.suggestion import Fix, FixKind, Suggestion
from vgpu_cfg.suggestions.candidate import Candidate, Cost
from vgpu_cfg.suggestions.disturbance import disturbed
from vgpu_cfg.suggestions.proposals import propose
from vgpu_cfg.suggestions.situation import Situation
from vgpu_cfg.suggestions.trial import PlanSource, Trial, attempt

MOST_TRIALS = 150
FEWEST_TRIALS = 12
_WORK = 30_000
"""VMs of the plan and of the estate, hosts ten times, that all trials together may look at."""
_MOST_PARTS = 8

_IN_FILE = frozenset({FixKind.FILE})
_WITH_LEAVE = frozenset({FixKind.FILE, FixKind.LEAVE, FixKind.FLAG})
_OUTSIDE = frozenset({FixKind.FILE, FixKind.OUTSIDE})
_ANY = frozenset(FixKind)


@dataclass(frozen=True, slots=True)
class Found:
    """Ideas that work together, and what came of them."""

    candidates: tuple[Candidate, ...]
    trial: Trial


def suggest(source: PlanSource) -> Suggestion:
    """Find what lets a plan be carried out; without an error there is nothing to find."""
    search = Search(source)
    fixes = [_told(one, search.text) for one in search.run()]
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
    _ideas: dict[frozenset[str], tuple[Candidate, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.text = self.source.text

    def run(self) -> list[Found]:
        """Return what works, what asks least first.

        First what the file can say by itself. Where that is not enough, what it can say with its author's
        leave, and what can be done outside: each where it is enough, both together only where neither is.
        """
        whole = self.attempt(())
        if whole is None or not whole.plan.errors:
            return []
        found = [self.find(_IN_FILE)]
        if found == [None]:
            found = [self.find(_WITH_LEAVE), self.find(_OUTSIDE)]
        if not any(found):
            found = [self.find(_ANY)]
        return [one for one in found if one is not None]

    def attempt(self, candidates: Collection[Candidate]) -> Trial | None:
        """Plan again, once for the same ideas; None beyond the limit, too."""
        key = _key(candidates)
        if key not in self._known:
            if self.tried >= self.most:
                return None
            trial = attempt(self.source, self.text, sorted(candidates, key=lambda one: (one.order, one.says)))
            if not self.tried and trial is not None:
                self.most = _most_trials(trial)
            self.tried += 1
            self._known[key] = trial
        return self._known[key]

    def find(self, kinds: Collection[FixKind]) -> Found | None:
        """Find what works, first without what is expected to cost most; None where nothing does."""
        for most in (Cost.MOVE, Cost.WORK, Cost.HARDWARE):
            found = self._find(kinds, most)
            if found is not None:
                return found
        return None

    def _find(self, kinds: Collection[FixKind], most: Cost) -> Found | None:
        """Add one idea after the other, each time the one that leaves the least; None where some is left.

        Where none leaves less, one will do that leaves other errors than were met before: behind what
        stands in the way first, something else may stand. It ends where more VMs are left than the parts to
        come could place, each as many as the best one did.
        """
        chosen: tuple[Candidate, ...] = ()
        trial = self.attempt(chosen)
        met: set[str] = set()
        gain = 0
        while trial is not None and trial.plan.errors:
            met |= _codes(trial.plan)
            step = self._best(chosen, trial, kinds, most, met) if len(chosen) < _MOST_PARTS else None
            if step is None:
                return None
            gain = max(gain, _left(trial.plan)[0] - _left(step[1].plan)[0])
            chosen, trial = step
            if 0 < gain * (_MOST_PARTS - len(chosen)) < _left(trial.plan)[0]:
                return None
        return None if trial is None else self._pruned(chosen, trial)

    def _best(
        self,
        chosen: tuple[Candidate, ...],
        trial: Trial,
        kinds: Collection[FixKind],
        most: Cost,
        met: Collection[str],
    ) -> tuple[tuple[Candidate, ...], Trial] | None:
        known = _key(chosen)
        if known not in self._ideas:
            drawn = propose(Situation(trial, self.source.catalog))
            self._ideas[known] = tuple(sorted(drawn, key=lambda one: one.order))
        ideas = [
            one
            for one in self._ideas[known]
            if one.kind in kinds and one.cost <= most and one.key not in known
        ]
        best: tuple[tuple[Candidate, ...], Trial] | None = None
        beside: tuple[tuple[Candidate, ...], Trial] | None = None
        least = _left(trial.plan)
        for idea in ideas:
            after = self.attempt((*chosen, idea))
            if after is None:
                continue
            if _left(after.plan) >= least:
                if beside is None and _is_beside(trial.plan, after.plan, met):
                    beside = (*chosen, idea), after
                continue
            best, least = ((*chosen, idea), after), _left(after.plan)
            if not after.plan.errors:
                break
        return best or beside

    def _pruned(self, chosen: tuple[Candidate, ...], trial: Trial) -> Found:
        """Leave out what is not needed after all, what weighs most first."""
        found = Found(chosen, trial)
        for one in sorted(chosen, key=lambda each: each.order, reverse=True):
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
        return None if trial is None or trial.plan.errors else Found(candidates, trial)


def _told(found: Found, text: str) -> Fix:
    return Fix(
        parts=tuple(one.part for one in sorted(found.candidates, key=lambda each: each.order)),
        lines=changed_lines(text, found.trial.text),
        text=found.trial.text if found.trial.text != text else "",
        disturbs=disturbed(found.trial.plan, found.trial.observed),
    )


def _codes(plan: Plan) -> set[str]:
    return {found.code for found in plan.errors}


def _is_beside(before: Plan, after: Plan, met: Collection[str]) -> bool:
    """Whether other errors stand in the way than did before, and hardly more of them."""
    return bool(_codes(after) - set(met)) and len(after.errors) <= len(before.errors) + 1


def _key(candidates: Collection[Candidate]) -> frozenset[str]:
    return frozenset(one.key for one in candidates)


def _left(plan: Plan) -> tuple[int, int]:
    """Return how much is still wrong: VMs without a place and errors, then errors alone."""
    placed = len(plan.placements)
    return len(plan.desired.vms) - placed + len(plan.errors), len(plan.errors)


def _most_trials(trial: Trial) -> int:
    size = len(trial.plan.desired.vms) + len(trial.observed.vms) + 10 * len(trial.observed.hosts)
    return max(FEWEST_TRIALS, min(MOST_TRIALS, _WORK // max(1, size)))
