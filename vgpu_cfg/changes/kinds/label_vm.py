"""A VM is given custom attributes or tags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.base import ChangeBase, Face
from vgpu_cfg.changes.by_hand import Part, command
from vgpu_cfg.changes.need import Needed
from vgpu_cfg.changes.places import VM, Places
from vgpu_cfg.changes.reach import Disturbed, Reach
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import Edit, Placement, Row, VmRef, plain, table_rows
from vgpu_cfg.model.observed.cordon import HOME_ATTRIBUTE
from vgpu_cfg.model.observed.tags import Tag


class SetAttributes(ChangeBase):
    """Set custom attributes of a VM, by their names; an empty text clears one. Plain calls, no task."""

    face = Face(
        "set",
        "attributes set",
        done="attributes set",
        is_task=False,
        changes_vm=True,
        names_freely=True,
        tells_edits=True,
    )

    kind: Literal["set_attributes"] = "set_attributes"
    vm: VmRef
    values: Mapping[str, str]

    def head(self, place: Placement | None) -> Row:
        home = self.values.get(HOME_ATTRIBUTE)
        if home is None:
            return "attributes", plain("")
        why = "while it moves" if '"is_moving":true' in home else "for its return"
        owner = next((f" ({edit.note})" for edit in self.edits if edit.note), "")
        return "place", plain(f"record its host {why}{owner}" if home else f"clear its recorded host{owner}")

    @property
    def compared(self) -> tuple[Edit, ...]:
        return tuple(edit for edit in self.edits if edit.key != HOME_ATTRIBUTE)

    def told_below(self) -> tuple[Edit, ...]:
        return self.compared

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        name = self.vm.name
        add = ("govc", "fields.set", "-add", "-type", "VirtualMachine")
        return (
            Part(
                what=f"Set the custom attributes {', '.join(self.values)} of {name}. The VM may be running.",
                client=f"{name} > Summary > Custom Attributes",
                commands=tuple(command(*add, key, value, name) for key, value in self.values.items()),
                expected="no output",
                verify=(command("govc", "fields.info", name),),
                undo=tuple(
                    command("govc", "fields.set", edit.key, edit.before or "", name) for edit in self.edits
                ),
                rows=table_rows(self.edits),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()

    def privileges(self, at: Places) -> Iterator[Needed]:
        return at.attributes(at.vm(self.vm), privileges.SET_ATTRIBUTES, VM, self.values)


class SetTags(ChangeBase):
    """Take tags from a VM and give it others, in this order: of some categories it has one at most.

    Plain calls to vCenter's REST side, no task.
    """

    face = Face(
        "set",
        "tags set",
        done="tags set",
        is_task=False,
        changes_vm=True,
        names_freely=True,
        tells_edits=True,
    )

    kind: Literal["set_tags"] = "set_tags"
    vm: VmRef
    detach: tuple[Tag, ...] = ()
    attach: tuple[Tag, ...] = ()

    def head(self, place: Placement | None) -> Row:
        return "tags", plain("")

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        """Return the tags to add and remove; govc accepts a VM by its path here, and no ambiguous name."""
        name = self.vm.name
        path = f'"$({command("govc", "find", "/", "-type", "m", "-name", name)})"'

        def lines(verb: str, tags: Sequence[Tag]) -> tuple[str, ...]:
            return tuple(
                f"{command('govc', f'tags.{verb}', '-c', tag.category, tag.name)} {path}" for tag in tags
            )

        return (
            Part(
                what=f"Set the tags of {name}. The VM may be running.",
                client=f"{name} > Summary > Tags > Assign",
                commands=lines("detach", self.detach) + lines("attach", self.attach),
                expected="no output",
                verify=(f"govc tags.attached.ls -r {path}",),
                undo=lines("detach", self.attach) + lines("attach", self.detach),
                rows=table_rows(self.edits),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.SET_TAGS, at.vm(self.vm))
