"""What is known of an account's privileges by its roles is what vCenter says of each object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.contract.vcenters import FixedClock
from tests.unit.vsphere.scripted import content, session_on
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
from vgpu_cfg.planning.privileges.table import ASKED_FIRST, LOCK, SET_TAGS
from vgpu_cfg.ports import ReadScope
from vgpu_cfg.vsphere.reading.privileges import HOLDS
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.outage import Outage
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.writing.locks import VCenterLocks

JANE = "jane@vsphere.local"
VMS, WORK = 1, 2
"""Roles: what VMs take, and what a run takes besides."""
ROLES = {
    VMS: Role(
        "vms", tuple(name for name in ASKED_FIRST if name.startswith(("VirtualMachine.", "Resource.")))
    ),
    WORK: Role("work", tuple(name for name in ASKED_FIRST if not name.startswith("VirtualMachine."))),
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
    "a role on all": (lambda state: {state.root: WORK}, 0),
    "reader": (lambda state: {state.root: READ_ONLY}, 0),
    "more on the root folder than below": (
        lambda state: {state.root: (ADMIN, False), first(state, Datacenter): WORK},
        1,
    ),
    "on a folder only": (lambda state: {state.root: READ_ONLY, folder(state): VMS}, 1),
    "the same once more": (lambda state: {state.root: WORK, folder(state): WORK}, 0),
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
}


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
    return dict.fromkeys([lab.state.root, *moids], ASKED_FIRST)


def session_at(lab: Lab, user: str = JANE, outage: Outage | None = None) -> Session:
    return Session(lab, "lab", user, LAB_CREDENTIALS.password, outage=outage)


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
        on_root = VCenterLocks(session).missing_privileges()
        reader.read_inventory(EVERYTHING)
        before = lab.counters["HasPrivilegeOnEntities"]
        known = reader.read_missing_privileges(needed)
        # Long answers are asked for in parts, by what objects need; all need the same here.
        assert lab.counters["HasPrivilegeOnEntities"] - before == questions
    told = asked_of_all(lab, needed)
    assert known == told
    assert on_root == tuple(name for name in LOCK.privileges if name in told.get(lab.state.root, ()))


def test_what_an_administrator_lacks_everywhere_is_known_too() -> None:
    lab = lab_of(lambda state: {state.root: ADMIN})
    lab.faults.lacking.add("Datastore.AllocateSpace")
    needed = needed_of(lab)
    with session_at(lab, LAB_CREDENTIALS.user) as session:
        reader = VCenterReader(session, FixedClock())
        assert not VCenterLocks(session).missing_privileges()
        reader.read_inventory(EVERYTHING)
        before = session.round_trips
        known = reader.read_missing_privileges(needed)
        assert session.round_trips == before
    assert known == dict.fromkeys(needed, ("Datastore.AllocateSpace",))
    assert known == asked_of_all(lab, needed, LAB_CREDENTIALS.user)


def test_what_the_root_folder_was_not_asked_for_is_asked() -> None:
    lab = lab_of(lambda state: {state.root: WORK})
    needed = {first(lab.state, VirtualMachine): SET_TAGS.privileges}
    with session_at(lab) as session:
        reader = VCenterReader(session, FixedClock())
        VCenterLocks(session).missing_privileges()
        reader.read_inventory(EVERYTHING)
        before = session.round_trips
        assert reader.read_missing_privileges(needed) == needed
        assert session.round_trips == before + 1


@pytest.mark.parametrize("late", [False, True], ids=["of late", "long ago"])
def test_what_was_asked_long_ago_is_asked_again(*, late: bool) -> None:
    lab = lab_of(lambda state: {state.root: WORK})
    now = [FixedClock().now()]
    needed = needed_of(lab)
    with session_at(lab, outage=Outage(now=lambda: now[0])) as session:
        reader = VCenterReader(session, FixedClock())
        VCenterLocks(session).missing_privileges()
        reader.read_inventory(EVERYTHING)
        lab.state.permissions[0].role = READ_ONLY
        now[0] += HOLDS + timedelta(seconds=1 if late else 0)
        assert (reader.read_missing_privileges(needed) == asked_of_all(lab, needed)) is late


@pytest.mark.parametrize("forget", ["the session", "the roles"])
def test_without_either_everything_is_asked(forget: str) -> None:
    lab = lab_of(lambda state: {state.root: WORK})
    needed = {first(lab.state, VirtualMachine): ("Datastore.AllocateSpace",)}
    with session_at(lab) as session:
        reader = VCenterReader(session, FixedClock())
        VCenterLocks(session).missing_privileges()
        reader.read_inventory(EVERYTHING)
        if forget == "the session":
            session.renew()
        else:
            reader.read_inventory(EVERYTHING.model_copy(update={"roles": False}))
        before = lab.counters["HasPrivilegeOnEntities"]
        assert not reader.read_missing_privileges(needed)
        assert lab.counters["HasPrivilegeOnEntities"] == before + 1


def test_roles_are_read_only_where_they_are_asked_for() -> None:
    lab = lab_of(lambda state: {state.root: WORK})
    sent: list[bytes] = []

    class Listening:
        def exchange(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Any:
            sent.append(body)
            return lab.exchange(method, path, headers, body)

        def close(self) -> None:
            lab.close()

    with Session(Listening(), "lab", JANE, LAB_CREDENTIALS.password) as session:
        reader = VCenterReader(session, FixedClock())
        reader.read_inventory(ReadScope(everything=True))
        assert not any(b"effectiveRole" in body for body in sent)
        reader.read_inventory(EVERYTHING)
    assert any(b"effectiveRole" in body for body in sent)


def test_a_server_that_minds_an_unknown_privilege_is_asked_for_those_of_locks() -> None:
    service = content()
    service.authorizationManager = vim.AuthorizationManager("AuthorizationManager")
    granted = vim.AuthorizationManager.EntityPrivilege(
        entity=service.rootFolder,
        privAvailability=[
            vim.AuthorizationManager.PrivilegeAvailability(privId=name, isGranted=name != "Alarm.Edit")
            for name in LOCK.privileges
        ],
    )
    answers = {"HasPrivilegeOnEntities": [vmodl.fault.InvalidArgument(invalidProperty="privId"), granted]}
    with session_on(answers, service=service) as (session, script):
        assert VCenterLocks(session).missing_privileges() == ("Alarm.Edit",)
        assert session.on_root is None
    assert script.methods == ["HasPrivilegeOnEntities"] * 2
