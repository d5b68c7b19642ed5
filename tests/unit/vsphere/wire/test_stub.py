"""What goes over the wire when pyvmomi calls, and what is sent twice."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.vsphere.soap_answers import ENVELOPE, VERSION, Answer, Wire, fault, soap
from vgpu_cfg.errors import NotSent, Unreachable, VCenterError
from vgpu_cfg.vsphere.wire.faults import fault_text
from vgpu_cfg.vsphere.wire.outage import Outage
from vgpu_cfg.vsphere.wire.stub import TransportStub, is_read


class Counted:
    """Logs in again as often as it is asked, and counts."""

    renewals = 0

    def renew(self) -> None:
        self.renewals += 1


def stub_on(*answers: Answer | Exception) -> tuple[TransportStub, Wire, list[float]]:
    wire = Wire(answers)
    slept: list[float] = []
    return TransportStub(wire, VERSION, "vc01", Outage(pause=slept.append)), wire, slept


def a_read(stub: TransportStub) -> Any:
    return vim.EnvironmentBrowser("envbrowser-1", stub).QueryConfigOptionDescriptor()


def a_write(stub: TransportStub) -> Any:
    return vim.VirtualMachine("vm-1", stub).PowerOnVM_Task(None)


TASK = vim.Task("task-7")


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("RetrievePropertiesEx", True),
        ("QueryConfigTarget", True),
        ("Fetch", True),
        ("HasPrivilegeOnEntities", True),
        ("FindByInventoryPath", True),
        ("WaitForUpdatesEx", True),
        ("DirectPathProfileManagerQueryCapacity", True),
        ("DirectPathProfileManagerList", True),
        ("DirectPathProfileManagerCreate", False),
        ("PowerOnVM_Task", False),
        ("ReconfigVM_Task", False),
        ("Destroy_Task", False),
        ("ShutdownGuest", False),
        ("ContinueRetrievePropertiesEx", False),
        ("Login", True),
    ],
)
def test_reads_are_known_by_name(method: str, *, expected: bool) -> None:
    assert is_read(method) is expected


def test_a_call_carries_version_and_cookie() -> None:
    cookie = {"Set-Cookie": 'vmware_soap_session="abc"; Path=/; HttpOnly; Secure;'}
    stub, wire, _ = stub_on(soap("PowerOnVM_Task", TASK, cookie), soap("PowerOnVM_Task", TASK))
    assert a_write(stub)._moId == "task-7"
    a_write(stub)
    first, second = wire.requests
    assert first[:2] == ("POST", "/sdk")
    assert first[2]["SOAPAction"] == '"urn:vim25/8.0.3.0"'
    assert "Cookie" not in first[2]
    assert second[2]["Cookie"] == 'vmware_soap_session="abc"'
    assert stub.round_trips == 2


def test_another_cookie_is_left_alone() -> None:
    stub, wire, _ = stub_on(
        soap("PowerOnVM_Task", TASK, {"set-cookie": "other=1"}), soap("PowerOnVM_Task", TASK)
    )
    a_write(stub)
    a_write(stub)
    assert "Cookie" not in wire.requests[1][2]


def test_a_fault_is_raised_as_itself_with_its_text() -> None:
    stub, _, _ = stub_on(fault(vim.fault.DuplicateName(name="a", object=vim.Folder("group-1")), "Taken."))
    with pytest.raises(vim.fault.DuplicateName) as caught:
        a_write(stub)
    assert fault_text(caught.value) == "Taken."


@pytest.mark.parametrize("error", [NotSent("refused"), Unreachable("broke")])
def test_a_read_is_repeated_whatever_broke(error: Exception) -> None:
    stub, wire, slept = stub_on(error, error, soap("QueryConfigOptionDescriptor"))
    assert not a_read(stub)
    assert len(wire.requests) == 3
    assert len(slept) == 2


def test_a_read_is_given_up_in_the_end() -> None:
    stub, wire, _ = stub_on(*[Unreachable("broke")] * 9)
    with pytest.raises(Unreachable, match="broke"):
        a_read(stub)
    assert len(wire.requests) == 3


def test_a_write_whose_connection_broke_is_never_repeated() -> None:
    stub, wire, slept = stub_on(Unreachable("broke"), soap("PowerOnVM_Task", TASK))
    with pytest.raises(Unreachable):
        a_write(stub)
    assert len(wire.requests) == 1
    assert not slept


def test_a_write_that_never_left_is_repeated() -> None:
    stub, wire, _ = stub_on(NotSent("refused"), soap("PowerOnVM_Task", TASK))
    assert a_write(stub)._moId == "task-7"
    assert len(wire.requests) == 2


def test_a_vcenter_that_is_starting_is_unreachable() -> None:
    stub, wire, _ = stub_on(*[(503, {}, b"Service Unavailable")] * 3)
    with pytest.raises(Unreachable, match="503"):
        a_read(stub)
    assert len(wire.requests) == 3


@pytest.mark.parametrize(
    "answer",
    [
        (200, {}, b""),
        (200, {}, b"<html>hello</html>"),
        (200, {}, soap("PowerOnVM_Task", TASK)[2][:-30]),
        (200, {}, b"<soapenv:Envelope>"),
        (404, {}, b"not here"),
        (500, {}, soap("PowerOnVM_Task", TASK)[2]),
    ],
    ids=["empty", "a web page", "broken off", "no xml", "another path", "a fault that is none"],
)
def test_what_is_no_answer_is_an_error_that_names_the_server(answer: Answer) -> None:
    stub, _, _ = stub_on(answer)
    with pytest.raises(VCenterError) as caught:
        a_write(stub)
    assert caught.value.subject == "vc01"


def test_a_value_that_this_client_does_not_know_is_an_error() -> None:
    broken = soap("PowerOnVM_Task", TASK)[2].replace(b'type="Task"', b'type="NoSuchThing"')
    stub, _, _ = stub_on((200, {}, broken))
    with pytest.raises(VCenterError, match="PowerOnVM_Task"):
        a_write(stub)


@pytest.mark.parametrize("value", [None, TASK])
def test_an_answer_without_its_value_cannot_be_read(value: Any) -> None:
    stub, _, _ = stub_on(soap("PowerOnVM_Task", value))
    if value is not None:
        assert a_write(stub) == TASK
        return
    with pytest.raises(VCenterError, match="cannot read the response to PowerOnVM_Task: it is empty"):
        a_write(stub)


@pytest.mark.parametrize(
    ("moment", "is_read"),
    [
        ("0001-01-01T00:00:00Z", False),
        ("0001-01-01T00:00:00+14:00", False),
        ("9999-12-31T23:59:59-14:00", False),
        ("1970-01-01T00:00:00Z", True),
    ],
)
def test_a_moment_at_the_ends_of_the_calendar_cannot_be_read(moment: str, *, is_read: bool) -> None:
    body = f'<CurrentTimeResponse xmlns="urn:vim25"><returnval>{moment}</returnval></CurrentTimeResponse>'
    stub, _, _ = stub_on((200, {}, ENVELOPE.format(body).encode()))
    service = vim.ServiceInstance("ServiceInstance", stub)
    if is_read:
        assert service.CurrentTime().year == 1970
        return
    with pytest.raises(VCenterError, match="cannot read the response to CurrentTime"):
        service.CurrentTime()


def test_a_session_that_ended_is_renewed_once() -> None:
    ended = fault(vim.fault.NotAuthenticated(object=vim.VirtualMachine("vm-1"), privilegeId="System.View"))
    stub, wire, _ = stub_on(ended, soap("PowerOnVM_Task", TASK), ended, ended)
    stub.login = login = Counted()
    assert a_write(stub)._moId == "task-7"
    assert len(wire.requests) == 2
    with pytest.raises(vim.fault.NotAuthenticated):
        a_write(stub)
    assert len(wire.requests) == 4
    assert login.renewals == 2


def test_what_names_a_view_is_not_sent_into_another_session() -> None:
    ended = fault(vim.fault.NotAuthenticated(object=vim.Folder("group-d1"), privilegeId="System.View"))
    stub, wire, _ = stub_on(ended)
    stub.login = login = Counted()
    with pytest.raises(vim.fault.NotAuthenticated):
        vmodl.query.PropertyCollector("propertyCollector", stub).ContinueRetrievePropertiesEx("token-1")
    assert len(wire.requests) == 1
    assert login.renewals == 0
