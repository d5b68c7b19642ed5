"""Logging in, being logged out, and whose certificate is believed."""

from __future__ import annotations

import hashlib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.contract.conftest import NEEDS_GO, running_vcsim
from tests.contract.vcenters import FixedClock, HttpsServer, VCenter, lab_vcenter
from vgpu_cfg.errors import AnswerLost, CertificateRejected, LoginFailed, Unreachable, VersionTooOld
from vgpu_cfg.lab.soap.server import make_certificate
from vgpu_cfg.model.plan_values import Limits
from vgpu_cfg.ports import ReadScope
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.outage import Outage
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.wire.transport import HttpsTransport, Trust


def connect(server: HttpsServer, trust: Trust, password: str | None = None) -> Session:
    transport = HttpsTransport(server.address, trust=trust, limits=Limits(timeout_seconds=60))
    return Session(transport, server.address, server.user, password or server.password)


def test_a_session_speaks_the_newest_api_and_knows_its_server(vcenter: VCenter) -> None:
    with vcenter.session() as session:
        assert session.api_version == "8.0.3.0"
        about = session.vcenter
        assert about.version.startswith("8.0")
        assert about.instance_uuid
        assert about.user == vcenter.user
        assert session.round_trips == 2


def test_a_wrong_password_is_said_to_be_one(vcenter: VCenter) -> None:
    with pytest.raises(LoginFailed, match="wrong user or password") as caught:
        vcenter.session(password="wrong").open()
    assert "wrong" not in caught.value.subject


def token_of(user: str) -> str:
    """Return what a token of single sign-on says, without its signature, as govc prints it: on one line."""
    return (
        '<saml2:Assertion xmlns:saml2="urn:oasis:names:tc:SAML:2.0:assertion" ID="_1" Version="2.0">'
        f"<saml2:Subject><saml2:NameID>{user}</saml2:NameID></saml2:Subject></saml2:Assertion>"
    )


def test_a_token_is_a_login_and_goes_with_no_other_call(vcenter: VCenter) -> None:
    tokens = [token_of(vcenter.user)]
    session = Session(vcenter.connect(), "vc", "", "", token=lambda: f"<?xml version='1.0'?>\n{tokens[0]}\n")
    with session:
        assert vcenter.user.partition("@")[0] in session.user.casefold()
        session.service_content.sessionManager.Logout()
        assert VCenterReader(session, FixedClock()).read_inventory(ReadScope()).hosts
        assert session.renewals == 1
        assert session.stub.samlToken is None


@pytest.mark.parametrize("text", ["", "secret", "<a/>", '<!DOCTYPE a><saml2:Assertion x="">', "{}"])
def test_what_is_no_token_is_not_sent(vcenter: VCenter, text: str) -> None:
    with pytest.raises(LoginFailed, match="not a token") as caught:
        Session(vcenter.connect(), "vc", "", "", token=lambda: text).open()
    assert "secret" not in str(caught.value)


def test_a_token_for_nobody_is_refused() -> None:
    token = token_of("mallory@vsphere.local")
    with pytest.raises(LoginFailed, match="the token was rejected"):
        Session(lab_vcenter("one-a100").connect(), "lab", "", "", token=lambda: token).open()


def test_the_password_is_asked_for_when_it_is_needed(vcenter: VCenter) -> None:
    asked: list[str] = []

    def password() -> str:
        asked.append("once")
        return vcenter.password

    session = Session(vcenter.connect(), "vc", vcenter.user, password)
    assert not asked
    with session:
        assert asked == ["once"]


def test_what_is_newer_than_the_api_is_refused_by_name(vcenter: VCenter) -> None:
    with vcenter.session() as session:
        session.require_api("8.0.0.1", "device groups")
        with pytest.raises(VersionTooOld, match="DirectPath profiles requires API 9") as caught:
            session.require_api("9.0.0.0", "DirectPath profiles")
        assert "8.0.3.0" in caught.value.message


def test_a_session_that_ended_is_renewed_and_the_reading_begins_anew(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        before = desk.inventory()
        desk.session.service_content.sessionManager.Logout()
        assert desk.inventory() == before
        assert desk.session.renewals == 1


def test_a_session_that_ended_is_renewed_for_a_change_that_was_refused(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        template = next(vm for vm in desk.inventory().vms if vm.name == vcenter.template)
        desk.session.service_content.sessionManager.Logout()
        with pytest.raises(Exception, match="no longer exists"):
            desk.writer.destroy_vm("vm-99999")
        assert desk.session.renewals == 1
        assert desk.vm(template.moid).name == vcenter.template


def test_a_session_that_cannot_be_renewed_says_so(vcenter: VCenter) -> None:
    passwords = [vcenter.password, "changed meanwhile"]
    session = Session(vcenter.connect(), "vc", vcenter.user, lambda: passwords.pop(0))
    with session:
        session.service_content.sessionManager.Logout()
        with pytest.raises(LoginFailed):
            VCenterReader(session, FixedClock()).read_inventory(ReadScope())


@pytest.mark.long(NEEDS_GO)
@pytest.mark.parametrize("version", ["6.5", "7.0.3.0"])
def test_an_old_api_is_read_without_what_it_lacks(version: str) -> None:
    with running_vcsim(["-api-version", version]) as server:
        transport = HttpsTransport(f"{server.host}:{server.port}", trust=Trust(thumbprint=server.thumbprint))
        vcenter = VCenter("vcsim", server.user, server.password, lambda: transport, "")
        with vcenter.desk() as desk:
            assert desk.session.api_version == version
            found = desk.inventory(ReadScope(everything=True))
            assert len(found.hosts) == 4
            assert all(vm.detail is not None for vm in found.vms)
            with pytest.raises(VersionTooOld):
                desk.session.require_api("8.0.0.1", "device groups")


def test_an_untrusted_certificate_is_refused_with_its_thumbprint(https_server: HttpsServer) -> None:
    with pytest.raises(CertificateRejected) as caught:
        connect(https_server, Trust()).open()
    assert https_server.thumbprint in caught.value.message
    assert "--thumbprint" in caught.value.remedy


def test_a_trusted_authority_is_believed(https_server: HttpsServer, tmp_path: Path) -> None:
    trusted = tmp_path / "ca.pem"
    trusted.write_text(https_server.certificate, encoding="ascii")
    with connect(https_server, Trust(ca_file=trusted)) as session:
        assert session.api_version == "8.0.3.0"


def test_a_certificate_for_another_name_is_refused(https_server: HttpsServer, tmp_path: Path) -> None:
    trusted = tmp_path / "ca.pem"
    trusted.write_text(https_server.certificate, encoding="ascii")
    elsewhere = HttpsTransport(f"127.0.0.9:{https_server.port}", trust=Trust(ca_file=trusted))
    with pytest.raises((CertificateRejected, Unreachable)):
        Session(elsewhere, "x", https_server.user, https_server.password).open()


def test_a_pinned_certificate_is_believed(https_server: HttpsServer) -> None:
    der = ssl.PEM_cert_to_DER_cert(https_server.certificate)
    with connect(https_server, Trust(thumbprint=hashlib.sha256(der).hexdigest())) as session:
        assert session.vcenter.version


def test_a_certificate_that_is_pinned_by_its_sha_1_is_refused(https_server: HttpsServer) -> None:
    der = ssl.PEM_cert_to_DER_cert(https_server.certificate)
    digits = hashlib.sha1(der, usedforsecurity=False).hexdigest()
    with pytest.raises(CertificateRejected, match="SHA-1") as caught:
        connect(https_server, Trust(thumbprint=digits))
    assert "-sha256" in caught.value.remedy


def test_another_certificate_than_the_pinned_one_is_refused(https_server: HttpsServer) -> None:
    with pytest.raises(CertificateRejected, match="a different certificate") as caught:
        connect(https_server, Trust(thumbprint="ab" * 32)).open()
    assert https_server.thumbprint in caught.value.message


def test_any_certificate_is_believed_where_that_was_said(https_server: HttpsServer) -> None:
    with connect(https_server, Trust(insecure=True)) as session:
        assert session.vcenter.version


@contextmanager
def listener() -> Iterator[tuple[int, list[bytes]]]:
    """Run a TLS server that keeps what it is told, and tells nothing."""
    heard: list[bytes] = []
    context = make_certificate().server_context()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)

        def listen() -> None:
            while True:
                try:
                    plain, _ = server.accept()
                except OSError:
                    return
                with plain:
                    plain.settimeout(60)
                    try:
                        with context.wrap_socket(plain, server_side=True) as client:
                            heard.append(client.recv(65536))
                    except OSError:
                        continue

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield server.getsockname()[1], heard
        server.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=120)


@pytest.mark.parametrize("trust", [Trust(), Trust(thumbprint="ab" * 32)], ids=["authorities", "pin"])
def test_nothing_is_said_to_a_server_that_is_not_believed(trust: Trust) -> None:
    with listener() as (port, heard):
        transport = HttpsTransport(f"127.0.0.1:{port}", trust=trust, limits=Limits(timeout_seconds=60))
        with pytest.raises(CertificateRejected):
            Session(transport, "vc", "anna", "hunter2").open()
    assert b"".join(heard) == b""


def test_a_closed_port_is_unreachable_after_some_attempts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    slept: list[float] = []
    transport = HttpsTransport(f"127.0.0.1:{port}", trust=Trust(insecure=True))
    with pytest.raises(Unreachable, match="Connection refused"):
        Session(transport, "vc", "anna", "x", outage=Outage(pause=slept.append)).open()
    assert len(slept) == 2


def test_a_port_that_speaks_no_tls_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            for _ in range(3):
                client, _ = server.accept()
                with client:
                    client.recv(1024)
                    client.sendall(b"220 smtp ready\r\n")

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        transport = HttpsTransport(f"127.0.0.1:{server.getsockname()[1]}", trust=Trust(insecure=True))
        with pytest.raises(Unreachable):
            Session(transport, "vc", "anna", "x", outage=Outage(pause=lambda _: None)).open()
        thread.join(timeout=120)


def test_a_read_survives_dropped_connections_and_the_task_of_a_write_is_found_again() -> None:
    vcenter = lab_vcenter("two-a100")
    assert vcenter.lab is not None
    with vcenter.desk() as desk:
        vm = next(vm for vm in desk.inventory().vms if vm.name == vcenter.template)
        vcenter.lab.faults.add("RetrievePropertiesEx", nth=1, kind="drop_before")
        assert desk.vm(vm.moid).name == vcenter.template
        assert vcenter.slept == [0.5]
        vcenter.lab.faults.add("Destroy_Task", nth=1, kind="drop_before")
        with pytest.raises(AnswerLost):
            desk.writer.destroy_vm(vm.moid)
        vcenter.lab.faults.add("Destroy_Task", nth=1, kind="drop_after")
        task = desk.writer.destroy_vm(vm.moid)
        assert vcenter.lab.state.tasks == [task]
        vcenter.lab.run_until_idle()
        assert desk.reader.read_vms([vm.moid]) == ()
