"""What is known of an account's privileges by its roles is what vCenter says of each object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from tests.fakes.fake_locks import FixedClock
from vgpu_cfg.changes.privileges import OF_HOSTS, OF_RUNS, OF_VMS, TO_DESTROY
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.simulation.sessions import LAB_CREDENTIALS
from vgpu_cfg.lab.state.inventory import (
    Cluster,
    Datacenter,
    Datastore,
    Folder,
    Host,
    LabState,
    Network,
    ResourcePool,
    VirtualMachine,
)
from vgpu_cfg.lab.state.permissions import may
from vgpu_cfg.lab.state.roles import ADMIN, NO_ACCESS, READ_ONLY, Permission, Role
from vgpu_cfg.lab.vcenter import Lab
from vgpu_cfg.ports import ReadScope
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.session import Session

EVERY = tuple(
    dict.fromkeys(name for need in (*OF_RUNS, *OF_VMS, *OF_HOSTS, *TO_DESTROY) for name in need.privileges)
)
"""All that a run may need."""
JANE = "jane@vsphere.local"
VMS, WORK = 1, 2
"""Roles: what VMs take, and what a run takes besides."""
ROLES = {
    VMS: Role("vms", tuple(name for name in EVERY if name.startswith(("VirtualMachine.", "Resource.")))),
    WORK: Role("work", tuple(name for name in EVERY if not name.startswith("VirtualMachine."))),
}
EVERYTHING = ReadScope(everything=True, roles=True)
ENTITIES = (Datacenter, Folder, Cluster, Host, ResourcePool, Datastore, Network, VirtualMachine)

Layout = Callable[[LabState], Mapping[str, int | tuple[int, bool]]]
"""Roles by the moids that they are given on; a second value says whether they propagate."""


def first(state: LabState, kind: type[Any]) -> str:
    return str(state.all(kind)[0].moid)


def folder(state: LabState) -> str:
    """Return the folder that VMs are in."""
    return str(state.all(VirtualMachine)[0].parent)


LAYOUTS: Mapping[str, tuple[Layout, int]] = {
    "administrator of all": (lambda state: {state.root: ADMIN}, 0),
    "a role on all": (lambda state: {state.root: WORK}, 1),
    "reader": (lambda state: {state.root: READ_ONLY}, 1),
    "more on the root folder than below": (
        lambda state: {state.root: (ADMIN, False), first(state, Datacenter): WORK},
        1,
    ),
    "on a folder only": (lambda state: {state.root: READ_ONLY, folder(state): VMS}, 1),
    "the same once more": (lambda state: {state.root: WORK, folder(state): WORK}, 1),
    "taken away from a VM": (lambda state: {state.root: ADMIN, first(state, VirtualMachine): READ_ONLY}, 1),
    "taken away from a host": (lambda state: {state.root: WORK, first(state, Host): VMS}, 1),
    "a datastore is not seen": (lambda state: {state.root: ADMIN, first(state, Datastore): NO_ACCESS}, 0),
    "less on a folder, more by the pool": (
        lambda state: {
            state.root: WORK,
            folder(state): (READ_ONLY, True),
            first(state, ResourcePool): VMS,
        },
        1,
    ),
    "not below the datacenter": (lambda state: {state.root: WORK, first(state, Datacenter): (VMS, False)}, 1),
    "administrator below the root folder": (
        lambda state: {state.root: READ_ONLY, first(state, Datacenter): ADMIN},
        1,
    ),
    "a role on a folder, administrator by the pool": (
        lambda state: {state.root: WORK, folder(state): VMS, first(state, ResourcePool): ADMIN},
        1,
    ),
    "administrator, and reader of a folder": (lambda state: {state.root: ADMIN, folder(state): READ_ONLY}, 1),
    "administrator, and a folder is not seen": (
        lambda state: {state.root: ADMIN, folder(state): NO_ACCESS},
        0,
    ),
}
"""Who may do what, and how many questions it takes to know."""


def lab_of(layout: Layout) -> Lab:
    lab = open_lab("two-a100", clock=VirtualClock())
    lab.state.roles.update(ROLES)
    for moid, given in layout(lab.state).items():
        role, propagates = given if isinstance(given, tuple) else (given, True)
        lab.state.permissions.append(Permission(moid, JANE, role, propagates=propagates))
    return lab


def needed_of(lab: Lab, user: str = JANE) -> dict[str, tuple[str, ...]]:
    """Return every object that the account sees, with all that a run may need."""
    every = [thing.moid for kind in ENTITIES for thing in lab.state.all(kind)]
    moids = [moid for moid in every if may(lab.state, user, moid, "System.Read")]
    return dict.fromkeys([lab.state.root, *moids], EVERY)


class Listening:
    """A lab, and what was sent to it."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.sent: list[bytes] = []

    def exchange(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Any:
        self.sent.append(body)
        return self._lab.exchange(method, path, headers, body)

    def close(self) -> None:
        self._lab.close()


def session_at(lab: Lab | Listening, user: str = JANE) -> Session:
    return Session(lab, "lab", user, LAB_CREDENTIALS.password)


def asked_of_all(lab: Lab, needed: Mapping[str, tuple[str, ...]], user: str = JANE) -> Mapping[str, Any]:
    """Ask for everything, with nothing known before."""
    with session_at(lab, user) as session:
        return VCenterReader(session, FixedClock()).read_missing_privileges(needed)


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_is_known_by_roles_is_what_asking_tells(name: str) -> None:
    layout, questions = LAYOUTS[name]
    lab = lab_of(layout)
    needed = needed_of(lab)
    with session_at(lab) as session:
        reader = VCenterReader(session, FixedClock())
        reader.read_inventory(EVERYTHING)
        before = lab.counters["HasPrivilegeOnEntities"]
        known = reader.read_missing_privileges(needed)
        assert lab.counters["HasPrivilegeOnEntities"] - before == questions
    assert known == asked_of_all(lab, needed)


def test_an_administrator_who_lacks_something_is_none() -> None:
    lab = lab_of(lambda state: {state.root: ADMIN})
    lab.faults.lacking.add("Datastore.AllocateSpace")
    needed = needed_of(lab)
    for user in (JANE, LAB_CREDENTIALS.user):
        with session_at(lab, user) as session:
            reader = VCenterReader(session, FixedClock())
            reader.read_inventory(EVERYTHING)
            known = reader.read_missing_privileges(needed)
        assert known == dict.fromkeys(needed, ("Datastore.AllocateSpace",))
        assert known == asked_of_all(lab, needed, user)


def test_objects_with_the_same_roles_are_asked_about_as_one() -> None:
    lab = lab_of(lambda state: {state.root: WORK, first(state, Host): VMS})
    needed = {moid: (EVERY[number % len(EVERY)],) for number, moid in enumerate(needed_of(lab))}
    listening = Listening(lab)
    with session_at(listening) as session:
        reader = VCenterReader(session, FixedClock())
        reader.read_inventory(EVERYTHING)
        known = reader.read_missing_privileges(needed)
    (question,) = (body for body in listening.sent if b"<HasPrivilegeOnEntities" in body)
    assert question.count(b"<entity ") == 2
    assert known == asked_of_all(lab, needed)


@pytest.mark.parametrize("late", [False, True], ids=["of late", "long ago"])
def test_what_was_read_long_ago_is_asked(*, late: bool) -> None:
    lab = lab_of(lambda state: {state.root: ADMIN})
    clock = FixedClock()
    needed = needed_of(lab)
    with session_at(lab) as session:
        reader = VCenterReader(session, clock)
        reader.read_inventory(EVERYTHING)
        lab.state.permissions[0].role = READ_ONLY
        clock.time += timedelta(minutes=5, seconds=1 if late else 0)
        assert (reader.read_missing_privileges(needed) == asked_of_all(lab, needed)) is late


def test_without_roles_everything_is_asked() -> None:
    lab = lab_of(lambda state: {state.root: ADMIN})
    needed = {first(lab.state, VirtualMachine): ("Datastore.AllocateSpace",)}
    with session_at(lab) as session:
        reader = VCenterReader(session, FixedClock())
        asked = []
        for scope in (EVERYTHING, EVERYTHING.model_copy(update={"roles": False})):
            reader.read_inventory(scope)
            assert not reader.read_missing_privileges(needed)
            asked.append(lab.counters["HasPrivilegeOnEntities"])
    assert asked == [0, 1]


def test_roles_are_read_only_where_they_are_asked_for() -> None:
    lab = lab_of(lambda state: {state.root: WORK})
    listening = Listening(lab)
    with session_at(listening) as session:
        reader = VCenterReader(session, FixedClock())
        reader.read_inventory(ReadScope(everything=True))
        assert not any(b"effectiveRole" in body for body in listening.sent)
        reader.read_inventory(EVERYTHING)
    assert any(b"effectiveRole" in body for body in listening.sent)
