"""esxcli through vCenter: what is sent, what comes back, and what each refusal means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.vsphere.facts_vcenter import (
    AnsweringTransport,
    executed,
    executer,
    refused,
    session_on,
)
from tests.unit.vsphere.soap_answers import Answer, fault, soap
from vgpu_cfg.errors import NotFound, NotOffered, NotPermitted, Unreachable, VCenterError
from vgpu_cfg.vsphere.wire.allowances import PATIENCE
from vgpu_cfg.vsphere.wire.esxcli import Esxcli

XSI = 'xmlns:x="http://www.w3.org/2001/XMLSchema-instance"'
Call = Callable[..., str]


def call(answers: dict[str, Any], command: str = "system.settings.kernel.list", *arguments: Any) -> str:
    with session_on(AnsweringTransport(answers)) as session:
        return Esxcli(session, "host-12", "esx-01").call(command, arguments)


@pytest.mark.parametrize("kind", ["ReflectManagedMethodExecuter", "ManagedMethodExecuter"])
def test_a_command_takes_two_round_trips_and_returns_its_xml(kind: str) -> None:
    transport = AnsweringTransport(
        {"RetrieveManagedMethodExecuter": executer(kind), "ExecuteSoap": executed("<obj>a &amp; b</obj>")}
    )
    with session_on(transport) as session:
        before = session.round_trips
        assert Esxcli(session, "host-12").call("hardware.clock.get") == "<obj>a &amp; b</obj>"
        assert session.round_trips - before == 2
    sent = transport.bodies[-1]
    assert ">mme-12</_this>" in sent
    assert ">ha-cli-handler-hardware-clock</moid>" in sent
    assert ">urn:vim25/5.0</version>" in sent
    assert ">vim.EsxCLI.hardware.clock.get</method>" in sent
    assert "<argument" not in sent


def test_the_executer_is_asked_for_once_per_host() -> None:
    transport = AnsweringTransport(
        {"RetrieveManagedMethodExecuter": executer(), "ExecuteSoap": executed("<obj/>")}
    )
    with session_on(transport) as session:
        esxcli = Esxcli(session, "host-12")
        esxcli.call("hardware.clock.get")
        esxcli.call("software.vib.list")
    assert transport.calls == ["RetrieveManagedMethodExecuter", "ExecuteSoap", "ExecuteSoap"]


class TimedTransport(AnsweringTransport):
    """Notes how long each call might take."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__(answers)
        self.patience: list[float] = []

    def exchange(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        self.patience.append(PATIENCE.get())
        return super().exchange(method, path, headers, body)


@pytest.mark.parametrize(
    ("command", "seconds"),
    [
        ("software.vib.install", 900.0),
        ("software component apply", 900.0),
        ("system.settings.kernel.set", 0.0),
        ("softwarelike.vib.install", 0.0),
    ],
)
def test_only_an_installation_may_take_its_time(command: str, seconds: float) -> None:
    transport = TimedTransport(
        {"RetrieveManagedMethodExecuter": executer(), "ExecuteSoap": executed("<obj/>")}
    )
    with session_on(transport) as session:
        transport.patience.clear()
        Esxcli(session, "host-12").call(command)
        assert transport.patience == [0.0, seconds]


def test_options_lose_their_dashes_and_what_is_named_twice_is_a_list() -> None:
    transport = AnsweringTransport(
        {"RetrieveManagedMethodExecuter": executer(), "ExecuteSoap": executed("<obj/>")}
    )
    with session_on(transport) as session:
        Esxcli(session, "host-12").call(
            "system module parameters set",
            [("parameter-string", "a=1 b<2"), ("vibname", "one"), ("vibname", "two")],
        )
    sent = transport.bodies[-1]
    assert ">vim.EsxCLI.system.module.parameters.set</method>" in sent
    assert (
        "<name>parameterstring</name>"
        "<val>&lt;parameterstring&gt;a=1 b&amp;lt;2&lt;/parameterstring&gt;</val>" in sent
    )
    assert "<val>&lt;vibname&gt;one&lt;/vibname&gt;&lt;vibname&gt;two&lt;/vibname&gt;</val>" in sent


@pytest.mark.parametrize(
    ("command", "option"),
    [("system; reboot", "a"), ("graphics", "a"), ("", "a"), ("graphics.host.set", "x><y"), ("a.b", "")],
)
def test_a_name_that_is_none_is_refused_before_anything_is_sent(command: str, option: str) -> None:
    with pytest.raises(ValueError, match="esxcli"):
        call({}, command, (option, "value"))


NO_METHOD = fault(vmodl.fault.MethodNotFound(receiver=vim.HostSystem("host-12"), method="x"))
NO_HANDLER = fault(vmodl.fault.ManagedObjectNotFound(obj=vim.Folder("ha-cli-handler-graphics-host")))
NO_HOST = fault(vmodl.fault.ManagedObjectNotFound(obj=vim.HostSystem("host-12")))
LACKING = fault(vim.fault.NoPermission(object=vim.HostSystem("host-12"), privilegeId="Host.Config.Settings"))
SILENT = fault(vmodl.fault.HostNotConnected())
NOT_FOUND = f'<L><fault {XSI} x:type="NotFound"/><localizedMessage>Not there.</localizedMessage></L>'
NOT_ALLOWED = f'<L><fault {XSI} x:type="NoPermission"><privilegeId>Global.Settings</privilegeId></fault></L>'
LINES = "<errMsg>Unable to</errMsg><errMsg>find it</errMsg>"
FAILED = f'<L><fault {XSI} x:type="VimEsxCLICLIFault">{LINES}</fault></L>'


@pytest.mark.parametrize(
    ("retrieved", "answer", "kind", "says"),
    [
        (NO_METHOD, None, NotOffered, "system settings kernel list.*MethodNotFound"),
        (soap("RetrieveManagedMethodExecuter"), None, NotOffered, "NotSupported"),
        (NO_HOST, None, NotFound, "host-12 no longer exists"),
        (LACKING, None, NotPermitted, "kernel list: the account does not have Host.Config.Settings"),
        (SILENT, None, VCenterError, "HostNotConnected"),
        (executer(), NO_HANDLER, NotOffered, "ManagedObjectNotFound"),
        (executer(), LACKING, NotPermitted, "the account does not have Host.Config.Settings on host-12"),
        (executer(), refused("Not there.", NOT_FOUND), NotOffered, "not available on this host .Not there"),
        (executer(), refused("", NOT_FOUND), NotOffered, "no reason given"),
        (executer(), refused("No.", NOT_ALLOWED), NotPermitted, "the account does not have Global.Settings"),
        (
            executer(),
            refused("No.", NOT_ALLOWED.replace("privilegeId", "p")),
            NotPermitted,
            "vCenter does not specify which",
        ),
        (executer(), refused("EsxCLI.CLIFault.summary", FAILED), VCenterError, "list: Unable to find it$"),
        (executer(), refused("Plain words.", "<broken"), VCenterError, "list: Plain words.$"),
        (executer(), refused("EsxCLI.CLIFault.summary"), VCenterError, "failed without giving a reason"),
        (Unreachable("gone"), None, Unreachable, "gone"),
    ],
)
def test_a_refusal_is_what_it_says(
    retrieved: Answer, answer: Answer | None, kind: type[VCenterError], says: str
) -> None:
    with pytest.raises(VCenterError, match=says) as raised:
        call({"RetrieveManagedMethodExecuter": retrieved, "ExecuteSoap": answer})
    assert type(raised.value) is kind


def test_an_executer_of_a_session_that_has_ended_is_asked_for_again() -> None:
    gone = fault(vmodl.fault.ManagedObjectNotFound(obj=vim.Folder("mme-12")))
    transport = AnsweringTransport(
        {
            "RetrieveManagedMethodExecuter": executer(),
            "ExecuteSoap": [executed("<obj>1</obj>"), gone, executed("<obj>2</obj>")],
        }
    )
    with session_on(transport) as session:
        esxcli = Esxcli(session, "host-12")
        assert esxcli.call("hardware.clock.get") == "<obj>1</obj>"
        assert esxcli.call("hardware.clock.get") == "<obj>2</obj>"
    assert transport.calls.count("RetrieveManagedMethodExecuter") == 2


def test_one_that_is_gone_at_once_is_not_asked_for_for_ever() -> None:
    gone = fault(vmodl.fault.ManagedObjectNotFound(obj=vim.Folder("mme-12")))
    with pytest.raises(NotFound):
        call({"RetrieveManagedMethodExecuter": executer(), "ExecuteSoap": gone})
