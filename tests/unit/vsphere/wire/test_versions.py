"""Which API version comes out of what a server says of itself."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyVmomi import VmomiSupport, vim, vmodl

from tests.unit.vsphere.scripted import Scripted, content, session_on, user_session
from tests.unit.vsphere.soap_answers import ENVELOPE, Answer
from vgpu_cfg import vsphere
from vgpu_cfg.errors import Unreachable, VCenterError, VersionTooOld
from vgpu_cfg.vsphere.wire import versions
from vgpu_cfg.vsphere.wire.outage import Outage
from vgpu_cfg.vsphere.wire.session import Session

is_child: Any = VmomiSupport.IsChildVersion  # type: ignore[attr-defined]  # pyvmomi is untyped


@pytest.mark.parametrize(
    ("spoken", "release", "expected"),
    [
        ("8.0.3.0", "8.0.3", "8.0.3.0"),
        ("8.0.3", "8.0.3", "8.0.3.0"),
        ("7.0.3.0", "7.0.3", "7.0.3.0"),
        ("6.7.3", "6.7.0", "6.7.3"),
        ("6.5", "6.5.0", "6.5"),
        ("9.0.0.0", "9.0.0", "9.0.0.0"),
        ("9.1", "9.1.0", "9.1.0.0"),
        ("8.0.2.7", "8.0.2", "8.0.2.0"),
        ("99.0.0.0", "99.0.0", "9.1.1.0"),
        ("9.1.0.1", "9.1.0", "9.1.0.0"),
        ("m5CA1EF4D", "9.1.0", "9.1.0.1"),
        ("m99999999", "8.0.3", "8.0.3.0"),
    ],
    ids=[
        *("exact", "short", "U3", "three numbers", "oldest", "nought", "two numbers", "an update between"),
        *("newer than known", "a patch by its number", "by its code", "by an unknown code"),
    ],
)
def test_the_newest_version_that_both_speak_is_taken(spoken: str, release: str, expected: str) -> None:
    assert versions.dotted(versions.negotiate(spoken, release, "vc01")) == expected


@pytest.mark.parametrize("spoken", ["6.0", "5.5", "2.5u2"])
def test_a_server_older_than_supported_is_refused(spoken: str) -> None:
    with pytest.raises(VersionTooOld, match=f"does not support API 6\\.5: it supports API {spoken}"):
        versions.negotiate(spoken, "6.0.0", "vc01")


def test_a_server_that_names_no_version_is_no_vcenter() -> None:
    with pytest.raises(Unreachable, match="no vSphere API") as caught:
        versions.negotiate("", "latest", "vc01")
    assert caught.value.subject == "vc01"


def test_each_version_holds_all_that_came_before_it() -> None:
    known = [version for version in VmomiSupport.GetServiceVersions("vim25") if version.startswith("vim.")]
    for newer, older in itertools.pairwise(known):
        assert is_child(newer, older)


def test_the_roots_are_asked_for_in_the_oldest_version_and_all_else_in_the_servers() -> None:
    spoken: list[str] = []

    class Listening(Scripted):
        def exchange(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
            spoken.append(headers["SOAPAction"])
            return super().exchange(method, path, headers, body)

    answers = {"RetrieveServiceContent": [content()], "Login": [user_session()], "Logout": [None]}
    with Session(Listening(answers), "vc01", "u", "p") as session:
        assert (session.api_version, session.round_trips) == ("8.0.3.0", 2)
    assert spoken == ['"urn:vim25/6.5"', '"urn:vim25/8.0.3.0"', '"urn:vim25/8.0.3.0"']


def test_one_root_that_is_used_is_newer_than_the_oldest_version_and_is_asked_for_again() -> None:
    kinds: Any = (vim.ServiceInstanceContent, vim.AboutInfo)
    newer = {
        info.name
        for kind in kinds
        for info in kind._GetPropertyList()
        if not is_child(versions.OLDEST_NAME, info.version)
    }
    used = {
        (path.name, name)
        for path in Path(vsphere.__path__[0]).rglob("*.py")
        for name in newer
        if re.search(rf"\b{name}\b", path.read_text(encoding="utf-8"))
    }
    assert used == {("host_kinds.py", "directPathProfileManager")}


@pytest.mark.parametrize(
    ("status", "answer", "error", "message"),
    [
        (200, b"", Unreachable, "has no vSphere API"),
        (200, b"<html>", Unreachable, "has no vSphere API"),
        (200, b"<html><body>Sign in to the proxy</body></html>", Unreachable, "has no vSphere API"),
        (200, ENVELOPE.format("").encode(), Unreachable, "has no vSphere API"),
        (500, b"<html><body>Error</body></html>", Unreachable, "has no vSphere API"),
        (404, b"<html>", VCenterError, "failed with HTTP status 404"),
        (503, b"", Unreachable, "the vCenter service is not running"),
        (
            500,
            ENVELOPE.format(
                "<soapenv:Fault><faultcode>VersionMismatchFaultCode</faultcode>"
                "<faultstring>Unsupported version URI urn:vim25/6.5</faultstring></soapenv:Fault>"
            ).encode(),
            VersionTooOld,
            "does not support API 6.5: Unsupported version URI",
        ),
    ],
    ids=["empty", "broken", "a web page", "other SOAP", "an error page", "no such page", "away", "too old"],
)
def test_what_is_no_vcenter_is_told(
    status: int, answer: bytes, error: type[VCenterError], message: str
) -> None:
    class Web(Scripted):
        def exchange(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
            return status, {}, answer

    with pytest.raises(error, match=message) as caught:
        Session(Web(), "vc01", "u", "p", outage=Outage(pause=lambda _: None)).open()
    assert caught.value.subject == "vc01"
    assert caught.value.remedy


def test_a_fault_of_a_vcenter_is_told_as_one() -> None:
    with (
        pytest.raises(VCenterError, match="reading the service content: said so") as caught,
        session_on({}, service=vmodl.fault.SystemError(reason="starting")),
    ):
        pass
    assert not isinstance(caught.value, VersionTooOld)


def test_a_host_is_told_to_be_none() -> None:
    service = content()
    service.about.apiType, service.about.name = "HostAgent", "VMware ESXi"
    service.about.apiVersion = "6.0"
    with pytest.raises(VCenterError, match="a VMware ESXi, not a vCenter"), session_on({}, service=service):
        pass


@pytest.mark.parametrize(
    ("have", "wanted", "expected"),
    [
        ("8.0.3.0", "8.0.3.0", True),
        ("8.0.3.0", "8.0.3", True),
        ("8.0", "8.0.0.0", True),
        ("8.0.2.0", "8.0.3.0", False),
        ("9.0.0.0", "8.0.3.0", True),
        ("6.5", "7.0.3.0", False),
        ("10.0.0.0", "9.1.1.0", True),
    ],
)
def test_versions_are_compared_as_numbers(have: str, wanted: str, *, expected: bool) -> None:
    assert versions.is_at_least(have, wanted) is expected
