"""Whether guests have the keys that the plan has, or others, and what may be done about it without leave.

The mark of a guest tells which seed its keys follow from, as a fingerprint. Keys change only where
`--rotate keys` says so, never because they are others where the plan is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from vgpu_cfg.model.guests.base import PLAN_KEYS
from vgpu_cfg.model.guests.guest import BEGUN, GUEST_MARK_KEY, fingerprint_of, parse_mark
from vgpu_cfg.model.guests.modules import UsersModule
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.inventory import Inventory

if TYPE_CHECKING:
    from vgpu_cfg.planning.findings.options import PlanOptions

KEYS = "keys"
"""The word of `--rotate` for a plan's own keys."""
_KEYED = ("users", "ssh-mesh")
"""The modules that bring the plan's keys into a guest, where their word in its mark has a fingerprint."""
_CARRIED = "keys="
"""What the word of a mark begins with that says which keys a clone carries, before any module is staged."""


class Held(Enum):
    """Which keys a guest has, beside those that the plan has where it is made."""

    NONE = auto()
    """None of the plan's, or none that anybody must care for: it is off, and others have taken the plan's."""
    UNSEEN = auto()
    """Some; the plan's cannot be read here."""
    SAME = auto()
    FORMER = auto()
    """Others, which the plan's are to replace."""
    FOREIGN = auto()
    """Others, and nobody gave leave to replace them."""


@dataclass(frozen=True, slots=True)
class KeysOfGuests:
    """What a plan's keys are held against: `now` and `former` are the words of marks for its seeds.

    `now` is "" where the seed cannot be read. `is_changing`: there is leave to replace other keys;
    `is_taken`: a guest of the plan has those of now.
    """

    now: str
    former: frozenset[str]
    is_changing: bool
    is_taken: bool

    @classmethod
    def of(cls, options: PlanOptions, plan: PlanIdentity, observed: Inventory) -> KeysOfGuests:
        """Gather what is known of the plan's seeds, and whether any guest has the first of them."""
        now = word_of_keys(options.fingerprints[PLAN_KEYS]) if PLAN_KEYS in options.fingerprints else ""
        return cls(
            now=now,
            former=frozenset(word_of_keys(one) for one in options.former_keys),
            is_changing=KEYS in options.rotate,
            is_taken=any(now in keys_in(mark) for mark in marks_of(plan, observed).values()),
        )

    def held_by(self, mark: str, *, is_on: bool) -> Held:
        """Say which keys a guest has by its mark."""
        held = keys_in(mark)
        if not held:
            return Held.NONE
        if not self.now:
            return Held.UNSEEN
        others = held - {self.now}
        if not others:
            return Held.SAME
        if self.is_changing or (self.is_taken and others <= self.former):
            return Held.FORMER
        return Held.FOREIGN if is_on or not self.is_taken else Held.NONE

    def reaches(self, mark: str) -> bool:
        """Whether the key is at hand by which this tool would log in to a guest."""
        return keys_in(mark) <= {self.now, *self.former}

    def is_over(self, marks: Iterable[str]) -> bool:
        """Whether every guest has the keys of now, so that nobody needs those before them."""
        return not any(BEGUN in mark.split() or keys_in(mark) - {self.now} for mark in marks)


def keys_in(mark: str) -> frozenset[str]:
    """Return the words for the seeds from which a guest's keys follow; after a broken run they may be two."""
    staged = parse_mark(mark)
    words = [staged[kind].fingerprint for kind in _KEYED if kind in staged]
    words += [word.removeprefix(_CARRIED) for word in mark.split() if word.startswith(_CARRIED)]
    return frozenset(filter(None, words))


def mark_of_clone(fingerprint: str) -> str:
    """Return the mark of a guest whose clone brings the plan's keys at its first boot."""
    return f"{BEGUN} {_CARRIED}{word_of_keys(fingerprint)}"


def marks_of(plan: PlanIdentity, observed: Inventory) -> dict[str, str]:
    """Return the marks of all guests of a plan, by the names of their VMs; what was not read has begun."""
    return {
        vm.name: BEGUN if vm.detail is None else vm.detail.extra_config.get(GUEST_MARK_KEY, "")
        for vm in observed.vms
        if vm.is_of(plan)
    }


def word_of_keys(fingerprint: str) -> str:
    """Return the word of a mark for a seed: that of a module that holds the plan's keys alone."""
    return fingerprint_of(UsersModule(machine_user="any"), {PLAN_KEYS: fingerprint}) or ""
