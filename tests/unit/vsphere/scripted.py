"""A vCenter that answers each method as a test says, behind an open session."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyVmomi import VmomiSupport, vim, vmodl
from pyVmomi.Iso8601 import ParseISO8601

from tests.unit.vsphere.soap_answers import Answer, fault, soap
from vgpu_cfg.vsphere.wire.outage import Outage
from vgpu_cfg.vsphere.wire.rest import SESSION_PATH
from vgpu_cfg.vsphere.wire.session import Session

VERSION_ID = re.compile(r' versionId="[^"]*"')
METHOD = re.compile(rb"Body><([A-Za-z_]+)")
COLLECTOR = vmodl.query.PropertyCollector
NOON = ParseISO8601("2026-11-20T12:00:00Z")


def item(thing: Any, properties: Mapping[str, Any]) -> Any:
    """Make what a reading brings of one object; a list is given with its items' type by `typed`.

    A fault stands for a property that was refused.
    """
    found = COLLECTOR.ObjectContent(obj=thing)
    for name, value in properties.items():
        if isinstance(value, vmodl.MethodFault):
            found.missingSet.append(COLLECTOR.MissingProperty(path=name, fault=value))
        else:
            found.propSet.append(vmodl.DynamicProperty(name=name, val=value))
    return found


def typed(kind: str, *values: Any) -> Any:
    """Make the array that a property of many values is."""
    return VmomiSupport.GetVmodlType(f"{kind}[]")(values)


def reading(*items: Any) -> Any:
    """Make one page of a reading, which is nothing where nothing was found."""
    return COLLECTOR.RetrieveResult(objects=list(items)) if items else None


@dataclass
class Scripted:
    """Plays a vCenter: answers by method, one after the other, the last one for ever.

    A fault among the answers is raised, None answers nothing, a SOAP answer goes as it is. A REST request is
    answered by its method and path; a number is a status without content.
    """

    answers: dict[str, list[Any]] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)

    def exchange(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if path.startswith(("/rest/", "/api/")):
            return self.exchange_rest(f"{method} {path}", body)
        found = METHOD.search(body)
        assert found is not None, body
        called = found[1].decode()
        if called not in ("RetrieveServiceContent", "Login", "Logout"):
            self.calls.append((called, VERSION_ID.sub("", body.decode())))
        left = self.answers.get(called, [no_method(called)])
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, vmodl.MethodFault):
            return fault(answer, str(getattr(answer, "msg", None) or "said so"))
        return soap(called, answer)

    def exchange_rest(self, called: str, body: bytes) -> Answer:
        if called.endswith(SESSION_PATH):
            return 200, {}, b'{"value": "t-1"}'
        self.calls.append((called, f"{called} {body.decode()}".strip()))
        left = self.answers.get(called, [404])
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, int):
            return answer, {}, b""
        return 200, {}, json.dumps(answer if "/api/" in called else {"value": answer}).encode()

    def close(self) -> None:
        """Nothing is held."""

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.calls]

    def sent(self, method: str) -> str:
        """Return what was sent to a method, called once."""
        (body,) = [body for called, body in self.calls if called == method]
        return body


def no_method(name: str) -> Any:
    """Make the fault of a server that lacks a method."""
    return vmodl.fault.MethodNotFound(receiver=vim.Folder("group-d1"), method=name)


def content(version: str = "8.0.3.0") -> Any:
    about = vim.AboutInfo(
        name="vc",
        fullName="vc",
        vendor="v",
        version="8",
        build="1",
        osType="l",
        productLineId="vpx",
        apiType="VirtualCenter",
        apiVersion=version,
    )
    return vim.ServiceInstanceContent(
        rootFolder=vim.Folder("group-d1"),
        propertyCollector=COLLECTOR("propertyCollector"),
        about=about,
        setting=vim.option.OptionManager("VpxSettings"),
        sessionManager=vim.SessionManager("SessionManager"),
        customFieldsManager=vim.CustomFieldsManager("CustomFieldsManager"),
        licenseManager=vim.LicenseManager("LicenseManager"),
        alarmManager=vim.alarm.AlarmManager("AlarmManager"),
    )


def user_session() -> Any:
    return vim.UserSession(
        key="s",
        userName="u",
        fullName="u",
        loginTime=NOON,
        lastActiveTime=NOON,
        locale="en",
        messageLocale="en",
    )


@contextmanager
def session_on(
    answers: Mapping[str, Any], *, version: str = "8.0.3.0", service: Any = None
) -> Iterator[tuple[Session, Scripted]]:
    """Log in to a vCenter with these answers; one that is no list is given for ever."""
    script = Scripted()
    script.answers = {
        "RetrieveServiceContent": [service or content(version)],
        "Login": [user_session()],
        "Logout": [None],
        # A typed array is a list too, and one answer.
        **{name: value if type(value) is list else [value] for name, value in answers.items()},
    }
    with Session(script, "vc01", "u", "p", outage=Outage(pause=lambda _seconds: None)) as session:
        yield session, script
