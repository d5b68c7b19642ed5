"""The base of every change, and the questions that every kind of change answers.

A kind of change is a class in a file of `kinds`. It describes how it reads in a plan, the manual procedure,
the privileges it needs, the objects it disturbs, and the parts that cannot be undone. Outputs ask the change,
not its kind. So does planning: which VM it makes, starts, stops or moves, which settings of a host it sets,
the state of a VM afterwards. Each of these has a default for kinds that it does not concern.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import ClassVar, NamedTuple, Self, TypeVar

from vgpu_cfg.changes.by_hand import Part
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.privileges import Needed
from vgpu_cfg.changes.reach import Disturbed, Reach
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import (
    Edit,
    HostRef,
    Impact,
    Placement,
    Row,
    SettingTarget,
    Subject,
    VmRef,
    changed,
    edit_text,
    extra_config_path,
)
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.guests.base import Ends
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm

IN_HEAD = frozenset(
    {"clone", "linked clone", "create", "host", "datastore", "folder", "name", "power", "resource pool", "vm"}
)
"""Keys of edits that the first line of a change shows."""


class Restart(StrEnum):
    """A restart of a whole host."""

    REBOOT = "reboot"
    COLD_BOOT = "cold boot"


class Face(NamedTuple):
    """The properties common to all changes of a kind: its short form and its action."""

    bar: str
    """How it is drawn on a line of time: "make", "set", "move", "down", "restart", "delete" or "hand"."""
    words: str
    """The words for that."""
    done: str = ""
    """The words that count finished changes, `*` is the plural's s; "" if another count includes them."""
    noun: str = ""
    """How a plan counts it, "" if it is counted by host or VM."""
    sign: str = "~"
    """The sign that the legend explains; blank for changes that switch, restart or enter something."""
    is_task: bool = True
    """Whether it is a task of vCenter, as a reader counts them: a write to a host is a plain call."""
    names_freely: bool = False
    """Whether an edit may have the same name as those in the first line."""
    tells_edits: bool = False
    """Whether each edit has a line."""
    is_by_hand: bool = False
    """Whether a person does it."""
    is_of_vcenter: bool = False
    """Whether it is about vCenter itself."""
    changes_vm: bool = False
    """Whether its VM is counted as changed."""
    equips: bool = False
    """Whether it gives a VM hardware and settings."""
    needs_host: bool = False
    """Whether its VM's host must be prepared first."""
    stays_at_vm: bool = False
    """Whether it shows at its VM, and at the host that the VM is on, and nowhere else."""
    takes_away: bool = False
    """Whether its host or VM is not there for others once it has begun."""
    brings_back: bool = False
    """Whether its host or VM is not missed once it is done: it is back, or gone for good."""
    restart: Restart | None = None
    """How it restarts its host."""
    leaves_off: bool = False
    """Whether its host is off after it, until a person switches it on."""


class Timing(NamedTuple):
    """The expected timing of a change: `windows` are the only times at which it may begin.

    `stun_ms` is how long vMotion is expected to stop a VM, None if it is not known.
    """

    seconds: int = 0
    windows: tuple[str, ...] = ()
    stun_ms: int | None = None


class Down(NamedTuple):
    """`more` hosts of a wave are down, or less if it is negative; `most` may be."""

    wave: str
    more: int
    most: int = 0


class ChangeBase(Frozen):
    """The fields that every change has.

    `id` is stable between two plannings of the same thing ("create hvd-01"); `needs` names the changes that
    must have come true before; `host_moid` is the host it burdens, for the cap per host.
    """

    face: ClassVar[Face]
    for_good: ClassVar[tuple[str, ...]] = ("cannot be undone automatically",)
    """Why a rollback cannot take it back, and what to do then; unread if a rollback knows a way."""

    id: str
    subject: Subject
    edits: tuple[Edit, ...] = ()
    needs: tuple[str, ...] = ()
    impact: Impact = Impact.NONE
    host_moid: str | None = None

    @property
    def sign(self) -> str:
        """The sign that the legend explains."""
        return self.face.sign

    @property
    def done(self) -> str:
        """Return the words that count it once it is done, "" for none."""
        return self.face.done

    @property
    def needs_acknowledgement(self) -> bool:
        """Whether only an acknowledgement shows that it was done."""
        return False

    @property
    def makes(self) -> VmRef | None:
        """The VM that it makes."""
        return None

    @property
    def deletes(self) -> VmRef | None:
        """The VM that it deletes."""
        return None

    @property
    def starts(self) -> VmRef | None:
        """The VM that it powers on."""
        return None

    @property
    def stops(self) -> VmRef | None:
        """The VM that it powers off."""
        return None

    @property
    def moves(self) -> VmRef | None:
        """The VM that it moves to another host, pool or datastore."""
        return None

    @property
    def takes_gpus(self) -> bool:
        """Whether it needs free GPUs at once."""
        return self.starts is not None

    @property
    def ruled(self) -> tuple[VmRef, ...]:
        """The VMs that a rule which it sets is about."""
        return ()

    @property
    def overridden(self) -> tuple[VmRef, ...]:
        """The VMs whose treatment by a cluster it sets."""
        return ()

    @property
    def staged(self) -> tuple[str, ...]:
        """The modules that it brings into a guest."""
        return ()

    def ended_in(self, vm: Vm | None) -> Mapping[str, frozenset[Ends]]:
        """Return the work it ends in its guest, by the module that ends it; `vm` is as it was read."""
        return {}

    @property
    def extra_config(self) -> Mapping[str, str]:
        """The extraConfig that it gives a VM."""
        return {}

    @property
    def brings(self) -> tuple[SettingTarget, ...]:
        """The settings of a host that it sets, or has a person set."""
        return ()

    @property
    def writes(self) -> tuple[SettingTarget, ...]:
        """The settings of a host that it writes itself."""
        return ()

    @property
    def in_force(self) -> tuple[SettingTarget, ...]:
        """The settings of a host that are in force once it is done, as it restarts what reads them."""
        return ()

    @property
    def restarts_host(self) -> bool:
        """Whether it takes a host down and, by itself or by a person, up again."""
        return self.face.restart is not None

    @property
    def restarted_service(self) -> str:
        """The service of its host that it restarts."""
        return ""

    @property
    def down(self) -> Down | None:
        """How it changes the number of hosts of its wave that are down."""
        return None

    @property
    def frees_host(self) -> bool:
        """Whether its host leaves maintenance mode."""
        return self.down is not None and self.down.more < 0

    @property
    def moved_away(self) -> tuple[str, ...]:
        """The names of the VMs that leave a host by it."""
        return ()

    @property
    def pictured(self) -> tuple[str, str] | None:
        """The VM's mark and words in a picture of the estate."""
        return None

    @property
    def timing(self) -> Timing:
        """Its expected timing."""
        return Timing()

    @property
    def behind(self) -> tuple[str, ...]:
        """The changes that must have ended before, well or not."""
        return ()

    @property
    def works_on_host(self) -> str | None:
        """The host that is prepared by it: no other run may work there meanwhile."""
        return None

    @property
    def pools(self) -> tuple[str, ...]:
        """The clusters whose GPUs it is about, in addition to its host's cluster."""
        return (self.subject.moid,) if self.subject.kind == "cluster" and self.subject.moid else ()

    def spares_pool(self, observed: Inventory) -> bool:
        """Whether hosts have no less of their GPUs and memory for others while it goes on."""
        return False

    def new_vm(self, moid: str, plan: str, observed: Inventory) -> Vm | None:
        """Return the VM it makes, in its state before the request; None if it makes none."""
        return None

    def vm_then(self, vm: Vm, nics: Collection[tuple[int, int]]) -> Vm | None:
        """Return its VM once this is done, None for gone; `nics` are the ids of functions of NICs."""
        return vm

    @property
    def differing(self) -> tuple[Edit, ...]:
        """Return the differences of a VM or a host from the plan file until it is done."""
        return self.edits

    @property
    def in_short(self) -> tuple[str, ...]:
        """Return its parts for a short row: its edits without defaults."""
        return tuple(edit_text(edit) for edit in self.edits if not edit.is_default)

    @property
    def came_to(self) -> tuple[str, ...]:
        """Return its result, for work on hosts; nothing for steps that only lead to another change."""
        return ()

    def parts(self) -> Iterator[ChangeBase]:
        """Yield it by what each part is about; of an override that is a VM."""
        yield self

    def part_for(self, names: Collection[str], made_by: Mapping[str, str]) -> Self | None:
        """Return the part that remains if a plan is only about the VMs of these names.

        `made_by` names, by VM, the changes that make VMs.
        """
        return self

    @abstractmethod
    def head(self, place: Placement | None) -> Row | None:
        """Return its action in words; None if the edits show all. `place` is the VM's expected place."""

    def rows(self, place: Placement | None, tables: Tables) -> Iterator[Row]:
        """Yield the lines below the first one."""
        told = self.told_below() if self.face.tells_edits else ()
        return ((edit.key, changed(edit)) for edit in told)

    @abstractmethod
    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        """Return the manual steps in the vSphere Client or govc, with proof and undo."""

    @abstractmethod
    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        """Yield the other objects that it disturbs, and the approval this needs."""

    @abstractmethod
    def privileges(self, at: Places) -> Iterator[Needed]:
        """Yield the privileges the account needs, on which objects."""

    def no_way_back(self, tables: Tables) -> Iterator[str]:
        """Yield the parts that a rollback cannot undo."""
        yield from ()

    def home(self) -> tuple[str, str, str] | None:
        """Return kind, name and home of the object it makes; the home is a folder's or datacenter's moid."""
        return None

    @property
    def compared(self) -> tuple[Edit, ...]:
        """The edits that two which read alike have in common, but for their values."""
        return self.edits

    def likeness(self, name: str) -> object:
        """Return the values outside the edits that make two read alike, except the subject's `name`."""
        return None

    def shape(self, name: str) -> object:
        """Return what must be equal for two to read alike, but for the subject's `name`."""
        keys = tuple(edit.key for edit in self.compared)
        return (type(self), self.sign, self.impact, keys, self.likeness(name))

    def differs_from(self, other: ChangeBase) -> Iterator[str]:
        """Yield in words the differences from another of its shape, apart from the values of its edits."""
        yield from ()

    def is_in_head(self, edit: Edit) -> bool:
        """Whether the first line shows an edit."""
        is_pair = extra_config_path(edit.key) in edit.sets
        return edit.key in IN_HEAD and not (self.face.names_freely or is_pair)

    def told_below(self) -> tuple[Edit, ...]:
        """Return the edits that the first line does not show."""
        return tuple(edit for edit in self.edits if not self.is_in_head(edit))


Kind = TypeVar("Kind", bound=ChangeBase)


def of_kind(changes: Iterable[ChangeBase], kind: type[Kind]) -> Iterator[Kind]:
    """Yield the changes of one kind, in their order."""
    return (change for change in changes if isinstance(change, kind))


def all_needed(ids: Iterable[str], needs: Mapping[str, Iterable[str]]) -> set[str]:
    """Return these changes with all that they need, directly or not; `needs` has what each needs itself."""
    found: set[str] = set()
    waiting = list(ids)
    while waiting:
        change_id = waiting.pop()
        if change_id in needs and change_id not in found:
            found.add(change_id)
            waiting += needs[change_id]
    return found


class HostChangeBase(ChangeBase):
    """A change to one host. `wave` names the group of hosts that share a limit on how many are down."""

    host: HostRef
    wave: str = ""

    @property
    def works_on_host(self) -> str:
        return self.host.moid

    @property
    def differing(self) -> tuple[Edit, ...]:
        """Return nothing for intermediate steps."""
        return ()


def setting_rows(
    targets: Iterable[SettingTarget], tables: Tables, *, is_shown_before: bool = True
) -> tuple[tuple[str, str, str], ...]:
    """Return settings as the rows of a table: what, before, after."""
    return tuple(
        (tables.setting_label(target), (target.before or "") if is_shown_before else "", target.value)
        for target in targets
    )
