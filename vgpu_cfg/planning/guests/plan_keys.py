"""Guests' keys: whether they are the plan's or others, and the remedies that need no approval.

The mark of a guest has a fingerprint of the seed of its keys. Keys change only with `--rotate keys`, never
because they differ from those on the planning machine.
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
"""The modules that bring the plan's keys into a guest, if their word in its mark has a fingerprint."""
_CARRIED = "keys="
"""The start of the mark's word for the keys that a clone carries, before any module is staged."""


class Held(Enum):
    """The keys that a guest has, compared with the plan's on this machine."""

    NONE = auto()
    """None of the plan's, or none that anybody must care for: it is off, and others have taken the plan's."""
    UNSEEN = auto()
    """Some; the plan's cannot be read here."""
    SAME = auto()
    FORMER = auto()
    """Others, which the plan's are to replace."""
    FOREIGN = auto()
    """Others, and replacing them was not approved."""


@dataclass(frozen=True, slots=True)
class KeysOfGuests:
    """The references for a plan's keys: `now` and `former` are the words of marks for its seeds.

    `now` is "" if the seed cannot be read. `is_changing`: replacing other keys is approved; `is_taken`: a
    guest of the plan has the current ones.
    """

    now: str
    former: frozenset[str]
    is_changing: bool
    is_taken: bool

    @classmethod
    def of(cls, options: PlanOptions, plan: PlanIdentity, observed: Inventory) -> KeysOfGuests:
        """Gather the known facts of the plan's seeds, and whether any guest has the first of them."""
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
        """Whether every guest has the current keys, so that earlier ones are not needed."""
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
    """Return the marks of all guests of a plan, by the names of their VMs; unread ones count as begun."""
    return {
        vm.name: BEGUN if vm.detail is None else vm.detail.extra_config.get(GUEST_MARK_KEY, "")
        for vm in observed.vms
        if vm.is_of(plan)
    }


def word_of_keys(fingerprint: str) -> str:
    """Return the word of a mark for a seed: that of a module that holds the plan's keys alone."""
    return fingerprint_of(UsersModule(machine_user="any"), {PLAN_KEYS: fingerprint}) or ""
