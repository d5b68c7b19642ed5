"""The wire for what only reads: nothing that changes anything goes through, whoever sends it."""

from __future__ import annotations

import pytest
from pyVmomi import VmomiSupport

from vgpu_cfg.errors import NotPermitted
from vgpu_cfg.vsphere.wire.wrapped import ReadingOnly


class Wire:
    """Takes whatever comes."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []

    def exchange(
        self, method: str, path: str, headers: object, body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        self.sent.append((method, path))
        return 200, {}, b""

    def close(self) -> None:
        self.sent.append(("close", ""))


def soap(method: str, inner: str = "") -> bytes:
    return (
        f'<soapenv:Envelope xmlns:soapenv="x">\n<soapenv:Body><{method} xmlns="urn:vim25">{inner}</{method}>'
        "</soapenv:Body></soapenv:Envelope>"
    ).encode()


def passes(method: str, path: str, body: bytes) -> bool:
    wire = Wire()
    try:
        ReadingOnly(wire).exchange(method, path, {}, body)
    except NotPermitted:
        assert not wire.sent
        return False
    return True


def test_no_method_that_needs_more_than_reading_goes_through() -> None:
    """By the privilege that the API's own description gives each method."""
    reads = {"System.Anonymous", "System.View", "System.Read", None}
    allowed = {"QueryConfiguredModuleOptionString", "fetchSoftwarePackages"}
    let_through = set()
    for name in VmomiSupport._managedDefMap:
        kind = VmomiSupport.GetVmodlType(name)
        for info in getattr(kind, "_methodInfo", {}).values():
            if info.privId not in reads and passes("POST", "/sdk", soap(info.wsdlName)):
                let_through.add(info.wsdlName)
    looks = ("Query", "Retrieve", "Fetch", "fetch", "Get", "Has", "Find", "CheckForUpdates", "Pbm")
    assert {name for name in let_through if not name.startswith(looks)} == set()
    assert let_through >= allowed


@pytest.mark.parametrize(
    "method",
    [
        "CloneVM_Task",
        "ReconfigVM_Task",
        "PowerOnVM_Task",
        "SetField",
        "RemoveAlarm",
        "Destroy_Task",
        "CreateAlarm",
    ],
)
def test_a_write_is_not_sent(method: str) -> None:
    assert not passes("POST", "/sdk", soap(method))


@pytest.mark.parametrize(
    "method", ["Login", "Logout", "RetrievePropertiesEx", "CreateFilter", "WaitForUpdatesEx"]
)
def test_a_read_is(method: str) -> None:
    assert passes("POST", "/sdk", soap(method))


@pytest.mark.parametrize(
    ("command", "is_read"),
    [
        ("system.settings.kernel.list", True),
        ("software.vib.get", True),
        ("system.settings.kernel.set", False),
        ("software.vib.install", False),
        ("system.shutdown.reboot", False),
    ],
)
def test_esxcli_goes_by_its_command(command: str, is_read: bool) -> None:
    inner = f'<method versionId="8.0.3.0" xmlns="urn:reflect">vim.EsxCLI.{command}</method>'
    assert passes("POST", "/sdk", soap("ExecuteSoap", inner)) is is_read


def test_a_command_in_an_argument_is_no_command() -> None:
    inner = "<method>vim.EsxCLI.system.shutdown.reboot</method><argument>vim.EsxCLI.a.list</argument>"
    assert not passes("POST", "/sdk", soap("ExecuteSoap", inner))


@pytest.mark.parametrize(
    ("method", "path", "is_read"),
    [
        ("GET", "/rest/com/vmware/cis/tagging/category", True),
        ("POST", "/rest/com/vmware/cis/session", True),
        ("DELETE", "/rest/com/vmware/cis/session", True),
        ("POST", "/rest/com/vmware/cis/tagging/tag-association?~action=list-attached-tags-on-objects", True),
        (
            "POST",
            "/rest/com/vmware/cis/tagging/tag-association?~action=attach-multiple-tags-to-object",
            False,
        ),
        ("DELETE", "/rest/com/vmware/cis/tagging/tag/id:x", False),
        ("PUT", "/folder/x", False),
    ],
)
def test_rest_goes_by_its_verb(method: str, path: str, is_read: bool) -> None:
    assert passes(method, path, b"") is is_read
