"""Throw-away objects of a trial: their alarms, events and VMs, read again as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyVmomi import pbm, vim

from vgpu_cfg.vsphere.history.collectors import PAGE_SIZE, held, pages, read_origins
from vgpu_cfg.vsphere.reading.locks import ALARM_INFO, alarm_starts
from vgpu_cfg.vsphere.reading.tags import fields_for, read_categories
from vgpu_cfg.vsphere.wire.collector import Paths, Start, collect_all, collect_from, renewing
from vgpu_cfg.vsphere.wire.faults import not_offered, translated
from vgpu_cfg.vsphere.wire.lost_tasks import running_tasks, user_of
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.writing.alarms import alarm_manager, disabled_alarm

_SOME = 100
_VM_NAMES = (Paths("vim.VirtualMachine", ("name",)),)


@dataclass(frozen=True, slots=True)
class SeenAlarm:
    """An alarm, with the time of its last change by vCenter's clock."""

    moid: str
    name: str
    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """An event of a client, by its type on the wire, with its text; "" for another type."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class SeenPolicy:
    """A VM or disk by its key: whether a policy lists it, an answer names it, and that with a policy."""

    key: str
    is_listed: bool
    is_answered: bool
    has_policy: bool


class VCenterThrowAway:
    """Makes and reads throw-away objects on a session. Every method raises `VCenterError`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.made: dict[str, str] = {}
        """Names by moid of the alarms that were made here: vCenter may list them late."""

    @property
    def can_ask_together(self) -> bool:
        """Whether two requests can be on their way at once."""
        return self._session.in_flight > 1

    @property
    def root_moid(self) -> str:
        """The id of the root folder."""
        return self._session.root_moid

    @property
    def lock_home_moid(self) -> str:
        """The id of the folder where locks are kept: the root folder, or the one that the context names."""
        return str(self._session.alarm_home._moId)

    def now(self) -> datetime:
        """Return vCenter's time."""
        with translated("reading vCenter's time", self._session.address):
            return vim.ServiceInstance("ServiceInstance", self._session.stub).CurrentTime()

    def make_alarms(self, name: str, text: str, count: int = 1) -> list[str]:
        """Request so many alarms of one name where locks are kept, at the same time; return those made."""
        manager = alarm_manager(self._session)
        home = self._session.alarm_home

        def make() -> str:
            with translated("creating a temporary alarm", self._session.address):
                try:
                    return str(manager.CreateAlarm(home, disabled_alarm(name, text))._moId)
                except vim.fault.DuplicateName:
                    return ""

        made = [moid for moid in self._session.together([make] * count) if moid]
        self.made |= dict.fromkeys(made, name)
        return made

    def change_alarm(self, moid: str, name: str, text: str) -> None:
        """Give an alarm another text."""
        with translated("changing a temporary alarm", moid):
            vim.alarm.Alarm(moid, self._session.stub).ReconfigureAlarm(disabled_alarm(name, text))

    def alarms(self, start: str) -> tuple[SeenAlarm, ...]:
        """Read the alarms whose names begin so; two round trips."""
        starts = alarm_starts(self._session)
        return tuple(
            SeenAlarm(
                item.moid,
                str(item.get("info.name")),
                str(item.get("info.description") or ""),
                item.get("info.lastModifiedTime"),
            )
            for item in (collect_from(self._session, ALARM_INFO, starts) if starts else ())
            if str(item.get("info.name") or "").startswith(start)
        )

    def try_attribute(self, name: str, text: str) -> str:
        """Define a custom attribute for folders, set it on the root folder, and return its value."""
        root = vim.Folder(self.root_moid, self._session.stub)
        with translated("defining a temporary custom attribute", name):
            key = self._fields().AddCustomFieldDef(name, vim.Folder, None, None).key
            self._fields().SetField(root, key, text)
        values = Paths("vim.Folder", ("customValue",))
        for item in collect_from(self._session, (values,), [Start("vim.Folder", self.root_moid)]):
            return next((str(one.value) for one in item.get("customValue") or () if one.key == key), "")
        return ""

    def attributes(self, start: str) -> dict[str, str]:
        """Return the names of the custom attributes that begin so, by their keys; one round trip."""
        manager = self._session.service_content.customFieldsManager
        fields = fields_for(self._session, manager, "Folder") if manager is not None else ()
        return {str(one.key): one.name for one in fields if one.name.startswith(start)}

    def remove_attribute(self, key: str) -> None:
        """Remove the definition of a custom attribute with its values."""
        with translated("removing a temporary custom attribute", key):
            self._fields().RemoveCustomFieldDef(int(key))

    def _fields(self) -> Any:
        manager = self._session.service_content.customFieldsManager
        if manager is None:
            raise not_offered("this vCenter does not support custom attributes", self._session.address)
        return manager

    def events(self, kinds: Sequence[str], since: datetime) -> tuple[SeenEvent, ...]:
        """Read the events of these types, of all without any, since a time, as ReadPreviousEvents does."""
        manager = self._session.service_content.eventManager
        if manager is None:
            raise not_offered("this server does not provide events", self._session.address)
        spec = vim.event.EventFilterSpec(
            eventTypeId=list(kinds) or None, time=vim.event.EventFilterSpec.ByTime(beginTime=since)
        )

        def attempt() -> tuple[SeenEvent, ...]:
            with held(manager.CreateCollectorForEvents(spec)) as collector:
                collector.ResetCollector()
                return tuple(
                    SeenEvent(type(event)._wsdlName, str(getattr(event, "message", None) or ""))
                    for page in pages(collector.ReadPreviousEvents)
                    for event in page
                )

        with translated("reading vCenter's events", self._session.address):
            return renewing(self._session, attempt)

    def newest(self) -> tuple[int, bool, tuple[tuple[str, str, bool], ...]]:
        """Read two pages of the newest events: the length of the first, whether the second has any.

        Then a belief, an event, and whether that is as believed, for all that a belief is about.
        """
        manager = self._session.service_content.eventManager
        if manager is None:
            raise not_offered("this server does not provide events", self._session.address)
        with (
            translated("reading vCenter's events", self._session.address),
            held(manager.CreateCollectorForEvents(vim.event.EventFilterSpec())) as collector,
        ):
            collector.ResetCollector()
            first, second = (list(collector.ReadPreviousEvents(PAGE_SIZE) or ()) for _ in range(2))
        return len(first), bool(second), tuple(_as_believed(first + second))

    def policies(self) -> tuple[SeenPolicy, ...]:
        """Ask for the policies of some VMs, and of disks that policies themselves list."""
        with translated("reading the storage policies", self._session.address):
            instance: Any = pbm.ServiceInstance("ServiceInstance", self._session.storage)
            manager = instance.RetrieveContent().profileManager
            ids = manager.QueryProfile(pbm.profile.ResourceType(resourceType="STORAGE"), "REQUIREMENT") or ()
            disks = [
                disk for one in ids for disk in manager.QueryAssociatedEntity(one, "virtualDiskId") or ()
            ]
            vms = [
                pbm.ServerObjectRef(objectType="virtualMachine", key=moid) for moid in self.vms("")[:_SOME]
            ]
            asked = [*disks[:_SOME], *vms]
            told = {
                one.object.key: bool(one.profileId)
                for one in (manager.QueryAssociatedProfiles(asked) if asked else None) or ()
                if one.fault is None
            }
        listed = {one.key for one in disks}
        return tuple(
            SeenPolicy(one.key, one.key in listed, one.key in told, told.get(one.key, False)) for one in asked
        )

    @property
    def round_trips(self) -> int:
        """How many exchanges the session has made."""
        return self._session.round_trips

    @property
    def account(self) -> str:
        """The account as the session spells it."""
        return self._session.account

    def recent_user(self, task: str) -> str | None:
        """Return the account of a recent task as its reason spells it, None for an unlisted task."""
        with translated("reading recent tasks", self._session.address):
            return user_of(self._session.service_content, task)

    def creator(self, vm_moid: str) -> str:
        """Return the account that vCenter's events name as the creator of a VM; "" for none."""
        return read_origins(self._session, [vm_moid])[vm_moid].made_by

    def two_of_one(self) -> tuple[str, ...]:
        """Return the IDs of two tags for VMs of a category that allows an object one; else nothing."""
        names = frozenset(
            one.name
            for one in read_categories(self._session, frozenset())
            if one.is_single and one.is_for_vms
        )
        found = (one for one in read_categories(self._session, names) if len(one.tags) > 1)
        return next((tuple(tag.id for tag in one.tags[:2]) for one in found), ())

    def is_busy(self, start: str) -> bool:
        """Whether a task of an object whose name begins so goes on, or the account makes a VM.

        Two round trips.
        """
        content = self._session.service_content
        with translated("reading running tasks", self._session.address):
            own, all_ = (running_tasks(content, user) for user in (self._session.account, ""))
        is_making = any(one.startswith(("CloneVM ", "CreateVM ")) for one in own)
        return is_making or any(f" of {start}" in one for one in all_)

    def vms(self, start: str) -> tuple[str, ...]:
        """Return the moids of the VMs whose names begin so; one round trip."""
        items = collect_all(self._session, _VM_NAMES)
        return tuple(item.moid for item in items if str(item.get("name") or "").startswith(start))


def _as_believed(events: Iterable[Any]) -> Iterator[tuple[str, str, bool]]:
    for event in events:
        name = f"event {event.key}"
        match event:
            case vim.event.VmClonedEvent() if event.vm is not None:
                is_new = event.vm.vm._moId != event.sourceVm.vm._moId
                yield "clone-event-is-of-the-new-vm", name, is_new
            case vim.event.VmReconfiguredEvent() if event.configChanges is not None:
                words = event.configChanges.modified or ""
                if words:
                    yield "reconfigured-event-has-old-values", name, "->" in words
            case vim.event.ClusterReconfiguredEvent():
                yield "cluster-event-names-the-override", name, event.configChanges is not None
            case _:
                pass
