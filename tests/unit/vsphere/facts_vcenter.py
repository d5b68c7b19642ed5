"""A vCenter that answers by the method that is called, for tests of what is asked of one host."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from xml.sax.saxutils import escape

from pyVmomi import VmomiSupport, vim, vmodl

from tests.unit.vsphere.soap_answers import ENVELOPE, Answer, fault, soap
from vgpu_cfg.vsphere.wire.outage import Outage
from vgpu_cfg.vsphere.wire.session import Session

_METHOD = re.compile(rb"<soapenv:Body><(\w+)")
MANAGERS = {
    "sessionManager": vim.SessionManager("SessionManager"),
    "propertyCollector": vmodl.query.PropertyCollector("propertyCollector"),
    "viewManager": vim.view.ViewManager("ViewManager"),
    "setting": vim.option.OptionManager("VpxSettings"),
    "customFieldsManager": vim.CustomFieldsManager("CustomFieldsManager"),
    "licenseManager": vim.LicenseManager("LicenseManager"),
    "hostProfileManager": vim.profile.host.ProfileManager("HostProfileManager"),
}


class AnsweringTransport:
    """Answers each method as it is told; a list is given one after the other, its last again and again.

    An exception is raised. A method that it was told nothing of fails with NotSupported.
    """

    def __init__(self, answers: Mapping[str, Any], managers: Mapping[str, Any] = MANAGERS) -> None:
        self._answers = {
            name: [*answer] if isinstance(answer, list) else [answer] for name, answer in answers.items()
        }
        self._managers = managers
        self.calls: list[str] = []
        self.bodies: list[str] = []

    def exchange(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        del method, path, headers
        found = _METHOD.search(body)
        assert found is not None, body
        name = found.group(1).decode()
        if name == "RetrieveServiceContent":
            return soap(name, _content(self._managers))
        if name == "Login":
            return soap(name, _user_session())
        if name == "Logout":
            return soap(name)
        self.calls.append(name)
        self.bodies.append(body.decode())
        answers = self._answers.get(name, [fault(vmodl.fault.NotSupported())])
        answer: Answer | Exception = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def session_on(transport: AnsweringTransport) -> Iterator[Session]:
    """Log in at such a vCenter."""
    with Session(
        transport, "vc01", "reader", "secret", outage=Outage(pause=lambda _seconds: None)
    ) as session:
        yield session


def listed(method: str, type_name: str, values: Sequence[Any]) -> Answer:
    """Make an answer that is a list."""
    return soap(method, VmomiSupport.GetVmodlType(f"{type_name}[]")(values))


def options(**values: Any) -> Answer:
    """Make an answer of QueryOptions; dots are written as two underscores."""
    return listed(
        "QueryOptions",
        "vim.option.OptionValue",
        [vim.option.OptionValue(key=name.replace("__", "."), value=value) for name, value in values.items()],
    )


def executer(type_name: str = "ReflectManagedMethodExecuter") -> Answer:
    """Make the answer that names a host's executer."""
    returned = f'<returnval type="{type_name}">mme-12</returnval>'
    return _answer("RetrieveManagedMethodExecuter", returned)


def executed(response: str) -> Answer:
    """Make the answer of a command that went through, as a vCenter of 8.0 prefixes it."""
    inner = f"<reflect:response>{escape(response)}</reflect:response>"
    return _answer("ExecuteSoap", f'<returnval xmlns:reflect="urn:reflect">{inner}</returnval>')


def refused(message: str, detail: str = "") -> Answer:
    """Make the answer of a command that failed on the host."""
    inner = f"<faultMsg>{escape(message)}</faultMsg>" + (
        f"<faultDetail>{escape(detail)}</faultDetail>" if detail else ""
    )
    return _answer("ExecuteSoap", f"<returnval><fault>{inner}</fault></returnval>")


def rows(*found: Mapping[str, str]) -> str:
    """Write rows as esxcli's XML has them."""
    inner = "".join(
        "<DataObject>"
        + "".join(f"<{name}>{escape(value)}</{name}>" for name, value in row.items())
        + "</DataObject>"
        for row in found
    )
    xsi = "http://www.w3.org/2001/XMLSchema-instance"
    return f'<obj xmlns="urn:vim25" xmlns:xsi="{xsi}" xsi:type="ArrayOfDataObject">{inner}</obj>'


def _answer(method: str, inner: str) -> Answer:
    return (
        200,
        {},
        ENVELOPE.format(f'<{method}Response xmlns="urn:vim25">{inner}</{method}Response>').encode(),
    )


def _content(managers: Mapping[str, Any]) -> Any:
    about = vim.AboutInfo(
        name="VMware vCenter Server",
        fullName="VMware vCenter Server 8.0.3",
        vendor="VMware, Inc.",
        version="8.0.3",
        build="1",
        osType="linux-x64",
        productLineId="vpx",
        apiType="VirtualCenter",
        apiVersion="8.0.3.0",
    )
    return vim.ServiceInstanceContent(rootFolder=vim.Folder("group-d1"), about=about, **managers)


def _user_session() -> Any:
    moment = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
    return vim.UserSession(
        key="one",
        userName="reader",
        fullName="reader",
        loginTime=moment,
        lastActiveTime=moment,
        locale="en",
        messageLocale="en",
        extensionSession=False,
        ipAddress="127.0.0.1",
        userAgent="",
        callCount=0,
    )
