from __future__ import annotations

from collections.abc import Callable

import pytest
from pyVmomi import vim

from tests.unit.lab.wire.client import PASSWORD, USER, connect, everything, open_virtual, read
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.simulation.faults import ConnectionDropped
from vgpu_cfg.lab.simulation.sessions import IDLE_SECONDS


def test_anybody_may_ask_what_this_is() -> None:
    instance = connect(open_virtual("no-gpu"), login=False)
    content = instance.RetrieveContent()
    assert (content.about.name, content.about.apiType) == ("VMware vCenter Server", "VirtualCenter")
    assert content.about.apiVersion == "8.0.3.0"


@pytest.mark.parametrize(("user", "password"), [(USER, "wrong"), ("root", PASSWORD), ("", "")])
def test_a_wrong_password_is_invalid_login(user: str, password: str) -> None:
    instance = connect(open_virtual("no-gpu"), login=False)
    with pytest.raises(vim.fault.InvalidLogin):
        instance.content.sessionManager.Login(user, password)


def test_user_names_are_compared_without_case() -> None:
    instance = connect(open_virtual("no-gpu"), login=False)
    session = instance.content.sessionManager.Login("Administrator@VSPHERE.LOCAL", PASSWORD)
    assert session.userName == "Administrator@VSPHERE.LOCAL"
    assert instance.content.sessionManager.currentSession.key == session.key


@pytest.mark.parametrize("how", ["fetch", "method", "collector"])
def test_without_a_session_nothing_is_shown(how: str) -> None:
    lab = open_virtual("two-a100")
    instance = connect(lab, login=False)
    root = instance.content.rootFolder
    ask: dict[str, Callable[[], object]] = {
        "fetch": lambda: root.name,
        "method": instance.CurrentTime,
        "collector": lambda: read(instance, [root], vim.Folder, ["name"]),
    }
    with pytest.raises(vim.fault.NotAuthenticated):
        ask[how]()


def test_the_current_session_may_be_read_by_anybody() -> None:
    instance = connect(open_virtual("no-gpu"), login=False)
    manager = instance.content.sessionManager
    assert manager.currentSession is None
    assert read(instance, [manager], vim.SessionManager, ["currentSession"]) == [{}]


def test_logout_ends_the_session_and_what_it_owned() -> None:
    lab = open_virtual("no-gpu")
    instance = connect(lab)
    assert instance.CurrentTime()
    instance.content.sessionManager.Logout()
    with pytest.raises(vim.fault.NotAuthenticated):
        instance.CurrentTime()
    assert lab.sessions.all() == []


def test_a_session_lives_while_it_is_used_and_dies_when_idle() -> None:
    lab = open_virtual("no-gpu")
    instance = connect(lab)
    assert isinstance(lab.clock, VirtualClock)
    for _ in range(3):
        lab.clock.advance(IDLE_SECONDS - 1)
        assert instance.CurrentTime()
    lab.clock.advance(IDLE_SECONDS + 1)
    with pytest.raises(vim.fault.NotAuthenticated):
        instance.CurrentTime()


def test_one_session_can_end_another() -> None:
    lab = open_virtual("no-gpu")
    first, second = connect(lab), connect(lab)
    manager = first.content.sessionManager
    key = second.content.sessionManager.currentSession.key
    assert manager.SessionIsActive(key, lab.user)
    manager.TerminateSession([key])
    assert not manager.SessionIsActive(key, lab.user)
    with pytest.raises(vim.fault.NotAuthenticated):
        second.CurrentTime()
    with pytest.raises(vim.fault.NotFound):
        manager.TerminateSession([key])


def test_a_scripted_expiry_hits_the_nth_call() -> None:
    lab = open_virtual("no-gpu")
    instance = connect(lab)
    lab.faults.add("CurrentTime", nth=2, kind="session_expired")
    assert instance.CurrentTime()
    with pytest.raises(vim.fault.NotAuthenticated):
        instance.CurrentTime()


def test_a_scripted_fault_refuses_the_call_and_the_next_one_passes() -> None:
    lab = open_virtual("no-gpu")
    instance = connect(lab)
    lab.faults.add("CurrentTime", kind="call", fault="HostConfigFault", message="no")
    with pytest.raises(vim.fault.HostConfigFault, match="no"):
        instance.CurrentTime()
    assert instance.CurrentTime()


def test_a_dropped_connection_before_does_nothing_and_after_has_done_it() -> None:
    lab = open_virtual("no-gpu")
    instance = connect(lab)
    fields = instance.content.customFieldsManager
    lab.faults.add("AddCustomFieldDef", nth=1, kind="drop_before")
    lab.faults.add("AddCustomFieldDef", nth=2, kind="drop_after")
    with pytest.raises(ConnectionDropped):
        fields.AddCustomFieldDef("a", None)
    assert fields.field == []
    with pytest.raises(ConnectionDropped):
        fields.AddCustomFieldDef("a", None)
    assert [field.name for field in fields.field] == ["a"]


def test_a_slow_answer_takes_the_labs_time() -> None:
    lab = open_virtual("no-gpu")
    instance = connect(lab)
    lab.faults.add("CurrentTime", kind="slow", seconds=30)
    before = lab.clock.now()
    instance.CurrentTime()
    assert lab.clock.now() == before + 30


def test_a_lacking_privilege_is_no_permission_and_another_is_not_missed() -> None:
    lab = open_virtual("two-a100")
    instance = connect(lab)
    manager = everything(instance, vim.HostSystem)[0].configManager.graphicsManager
    manager.RefreshGraphicsManager()
    lab.faults.lacking.add("Host.Config.Settings")
    with pytest.raises(vim.fault.NoPermission) as caught:
        manager.RefreshGraphicsManager()
    assert caught.value.privilegeId == "Host.Config.Settings"
    assert manager.RetrieveVgpuDeviceInfo()
