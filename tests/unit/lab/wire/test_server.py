from __future__ import annotations

import hashlib
import http.client
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pyVim.connect import SmartStubAdapter
from pyVmomi import vim, vmodl
from pyVmomi.SoapAdapter import SoapStubAdapter

from tests.unit.lab.wire.client import PASSWORD, USER, filter_spec, open_virtual
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.simulation.clock import RealClock
from vgpu_cfg.lab.simulation.sessions import Credentials
from vgpu_cfg.lab.soap.server import LabServer, keep_certificate
from vgpu_cfg.lab.state.inventory import VirtualMachine
from vgpu_cfg.lab.vcenter import Lab

AT = "vim.version.v8_0_3_0"

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])


@pytest.fixture
def lab() -> Lab:
    return open_virtual("two-a100")


@pytest.fixture
def server(lab: Lab) -> Iterator[LabServer]:
    with LabServer(lab) as running:
        yield running


def trusting(server: LabServer) -> ssl.SSLContext:
    assert server.certificate is not None
    return ssl.create_default_context(cadata=server.certificate.certificate_pem.decode())


def log_in(server: LabServer, password: str = PASSWORD) -> Any:
    where = urlsplit(server.url)
    host = str(where.hostname)
    stub: Any
    if where.scheme == "http":
        # A negative port is pyvmomi's way to say plain HTTP; its version negotiation does not know it.
        stub = SoapStubAdapter(host=host, port=-server.port, version=AT, httpConnectionTimeout=20)
    else:
        stub = SmartStubAdapter(
            host=host, port=server.port, sslContext=trusting(server), httpConnectionTimeout=20
        )
    instance: Any = vim.ServiceInstance("ServiceInstance", stub)
    try:
        instance.content.sessionManager.Login(USER, password)
    except vim.fault.InvalidLogin:
        stub.DropConnections()
        raise
    return instance


def hang_up(instance: Any) -> None:
    instance.content.sessionManager.Logout()
    instance._stub.DropConnections()


def test_a_client_that_trusts_the_certificate_logs_in_over_https(server: LabServer) -> None:
    instance = log_in(server)
    assert instance._stub.versionId == '"urn:vim25/8.0.3.0"'
    assert instance.content.rootFolder.childEntity[0].name == "dc1"
    hang_up(instance)


def test_a_client_that_does_not_is_refused_by_itself(server: LabServer) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        SmartStubAdapter(
            host="127.0.0.1",
            port=server.port,
            sslContext=ssl.create_default_context(),
            httpConnectionTimeout=20,
        )


def test_the_thumbprint_is_that_of_the_certificate(server: LabServer) -> None:
    pem = ssl.get_server_certificate(("127.0.0.1", server.port))
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest().upper()
    assert server.thumbprint.replace(":", "") == digest


def test_a_wrong_password_is_invalid_login(server: LabServer) -> None:
    with pytest.raises(vim.fault.InvalidLogin):
        log_in(server, "wrong")


def test_the_credentials_given_are_the_ones_that_count(lab: Lab) -> None:
    credentials = Credentials(user=USER, password="other")
    with LabServer(lab, credentials=credentials) as server:
        with pytest.raises(vim.fault.InvalidLogin):
            log_in(server)
        hang_up(log_in(server, "other"))


def test_plain_http_works_and_keeps_its_cookie(lab: Lab) -> None:
    with LabServer(lab, is_https=False) as server:
        assert (server.url.startswith("http://127.0.0.1:"), server.thumbprint) == (True, "")
        instance = log_in(server)
        assert "Secure" not in instance._stub.cookie
        assert instance.content.sessionManager.currentSession is not None
        hang_up(instance)


def test_one_connection_carries_many_requests_with_bodies_in_chunks(server: LabServer, lab: Lab) -> None:
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (b"not ", b"xml")) + b"0\r\n\r\n"
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=trusting(server), timeout=120)
    for _ in range(3):
        connection.request("POST", "/sdk", body=body, headers={"Transfer-Encoding": "chunked"})
        answer = connection.getresponse()
        assert (answer.status, b"InvalidRequest" in answer.read()) == (500, True)
    connection.request("GET", "/nothing")
    assert connection.getresponse().status == 404
    connection.close()


def test_a_scripted_drop_cuts_the_connection(server: LabServer, lab: Lab) -> None:
    instance = log_in(server)
    lab.faults.add("CurrentTime", kind="drop_after")
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        instance.CurrentTime()
    assert instance.CurrentTime()
    hang_up(instance)


def test_a_bug_in_the_lab_is_a_fault_at_the_client(
    server: LabServer, lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    instance = log_in(server)
    lab.state.all(VirtualMachine)[0].extra_config["a"] = object()  # type: ignore[assignment]  # a wrong value on purpose
    vm = instance.content.searchIndex.FindByInventoryPath("/dc1/vm/ubuntu-22.04-efi")
    with pytest.raises(vmodl.fault.SystemError):
        assert vm.config
    assert "the lab failed" in caplog.text
    hang_up(instance)


def test_a_wait_on_the_real_clock_lets_others_work_and_ends_with_their_change() -> None:
    lab = open_lab("two-a100", clock=RealClock(speed=1000))
    with LabServer(lab) as server:
        instance, other = log_in(server), log_in(server)
        vm = other.content.searchIndex.FindByInventoryPath("/dc1/vm/ubuntu-22.04-efi")
        collector = instance.content.propertyCollector.CreatePropertyCollector()
        collector.CreateFilter(filter_spec([vm], vim.VirtualMachine, ["config.annotation"]), False)
        version = collector.WaitForUpdatesEx("", None).version
        found: list[Any] = []
        waiting = threading.Thread(target=lambda: found.append(collector.WaitForUpdatesEx(version, None)))
        waiting.start()
        spec: Any = vim.vm.ConfigSpec(annotation="seen")
        vm.ReconfigVM_Task(spec)
        waiting.join(120)
        (update,) = found
        assert update.filterSet[0].objectSet[0].changeSet[0].val == "seen"
        hang_up(instance)
        hang_up(other)


def test_stopping_closes_what_is_open(lab: Lab) -> None:
    server = LabServer(lab)
    server.start()
    instance = log_in(server)
    server.stop()
    with pytest.raises((OSError, http.client.HTTPException)):
        instance.CurrentTime()
    instance._stub.DropConnections()


def test_a_kept_certificate_is_the_same_next_time(tmp_path: Path) -> None:
    first = keep_certificate(tmp_path / "tls")
    assert keep_certificate(tmp_path / "tls") == first
    assert (tmp_path / "tls" / "server.key").stat().st_mode & 0o077 == 0
