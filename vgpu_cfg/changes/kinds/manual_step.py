"""A person does what no API reaches."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import Literal

from vgpu_cfg.changes.base import ChangeBase, Face, setting_rows
from vgpu_cfg.changes.by_hand import Part, is_command
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.privileges import Needed
from vgpu_cfg.changes.reach import Disturbed, Reach
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import Edit, Placement, Row, SettingTarget, edit_value, plain, plain_rows


class ManualStep(ChangeBase):
    """A step that no API reaches, in words; `apply` stops before the changes that need it.

    `commands` are the lines to type. A reading of `proves` shows that it was done, or, if `is_shown`, the
    next planning detects it. Otherwise `apply --done ID` acknowledges it.
    """

    face = Face("hand", "manual", done="done manually", sign="!", is_task=False, is_by_hand=True)
    for_good = ("this was a manual step", "undo it manually")

    kind: Literal["manual_step"] = "manual_step"
    text: str
    proof: str = ""
    commands: tuple[str, ...] = ()
    proves: tuple[SettingTarget, ...] = ()
    is_shown: bool = False

    @property
    def in_short(self) -> tuple[str, ...]:
        return (self.text,)

    @property
    def brings(self) -> tuple[SettingTarget, ...]:
        return self.proves

    @property
    def works_on_host(self) -> str | None:
        return self.host_moid

    @property
    def differing(self) -> tuple[Edit, ...]:
        return self.edits or (Edit(key="manual", before="", after=self.id),)

    @property
    def needs_acknowledgement(self) -> bool:
        return not self.proves and not self.is_shown

    @property
    def proofs(self) -> tuple[str, ...]:
        """The proof that it was done: one line per command, or one sentence."""
        parts = tuple(part for part in self.proof.split("; ") if part)
        return parts if all(map(is_command, parts)) else (self.proof,)

    def likeness(self, name: str) -> object:
        texts = (self.text, self.proof, *self.commands)
        return (*(text.replace(name, "") for text in texts), self.needs_acknowledgement)

    def head(self, place: Placement | None) -> Row:
        return "manual", plain(self.text)

    def rows(self, place: Placement | None, tables: Tables) -> Iterator[Row]:
        """Yield the rows next to the text: why, the commands, and the proof that it was done."""
        if self.edits:
            yield "why", plain("; ".join(map(_reason, self.edits)))
        for command in self.commands:
            yield "type", plain(command)
        for proof in self.proofs:
            yield "proof", plain(proof)
        if self.needs_acknowledgement:
            done = f"apply --done {shlex.quote(self.id)}"
            yield "then", plain(f"{done}, because completion cannot be detected automatically")

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        """Return its own text; proof and undo come from the setting that it proves."""
        reported = [tables.setting_part(target, self.subject.name, self.host_moid) for target in self.proves]
        is_typed = all(map(is_command, self.proofs))
        of_one = reported[0] if len(reported) == 1 and self.edits else Part()
        return (
            Part(
                what=self.text,
                why=of_one.why,
                client=of_one.client,
                commands=self.commands,
                expected=of_one.expected if is_typed else self.proof,
                verify=self.proofs if is_typed else of_one.verify,
                undo=of_one.undo,
                rows=plain_rows(self.edits) or setting_rows(self.proves, tables),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield from ()

    def no_way_back(self, tables: Tables) -> Iterator[str]:
        yield "manual steps must be undone manually"


def _reason(edit: Edit) -> str:
    found = "unknown" if edit.before is None else edit.before
    note = f" ({edit.note})" if edit.note else ""
    return f"{edit.key} is {found}, but must be {edit_value(edit)}{note}"
