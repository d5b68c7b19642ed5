"""The simulator that judges us starts, speaks the API version that we ask of it, and lets both clients in."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pyVim.connect import SmartStubAdapter
from pyVmomi import vim

if TYPE_CHECKING:
    from pyVmomi.SoapAdapter import SoapStubAdapter

    from tests.contract.conftest import Govc, Server


@contextmanager
def negotiated(server: Server) -> Iterator[SoapStubAdapter]:
    """Connect without a session; close the sockets in the end, as SmartConnect and Disconnect do not."""
    adapter = SmartStubAdapter(
        host=server.host,
        port=server.port,
        sslContext=ssl.create_default_context(cadata=server.certificate),
        httpConnectionTimeout=30,
    )
    try:
        yield adapter
    finally:
        adapter.DropConnections()


def content_of(adapter: SoapStubAdapter) -> Any:
    return vim.ServiceInstance("ServiceInstance", adapter).RetrieveContent()


def test_pyvmomi_negotiates_the_newest_api_and_logs_in(vcsim: Server) -> None:
    with negotiated(vcsim) as adapter:
        assert adapter.versionId == '"urn:vim25/8.0.3.0"'  # other spellings end up at 6.5
        content = content_of(adapter)
        assert content.about.apiVersion == "8.0.3.0"
        content.sessionManager.Login(vcsim.user, vcsim.password)
        assert [datacenter.name for datacenter in content.rootFolder.childEntity] == ["DC0"]
        content.sessionManager.Logout()


def test_a_wrong_password_is_invalid_login(vcsim: Server) -> None:
    with negotiated(vcsim) as adapter, pytest.raises(vim.fault.InvalidLogin):
        content_of(adapter).sessionManager.Login(vcsim.user, "wrong")


def test_govc_logs_in_and_finds_the_estate(vcsim: Server, govc: Callable[[Server], Govc]) -> None:
    run = govc(vcsim)
    assert "API version:  8.0.3.0" in run("about")
    assert "/DC0/host/DC0_C0/DC0_C0_H2" in run("find", "/DC0/host", "-type", "h").splitlines()


def test_govc_has_the_commands_that_the_tests_need(vcsim: Server, govc: Callable[[Server], Govc]) -> None:
    run = govc(vcsim)
    assert "DC0_H0_VM0" in run("vm.info", "DC0_H0_VM0")
    assert "ethernet-0" in run("device.info", "-vm", "DC0_H0_VM0")
    assert "DC0_C0_H0" in run("host.info", "DC0_C0_H0")
    for command in ("gpu.host.info", "gpu.host.profile.ls"):
        assert "Usage" in run(command, "-h")
