"""Guest operations on the lab, in process and over HTTPS: logins, arguments, streams, files, faults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from vgpu_cfg.cli.labs import LabRunClock
from vgpu_cfg.errors import (
    CertificateRejected,
    GuestError,
    GuestNotReady,
    Unreachable,
    VgpuCfgError,
)
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.simulation.sessions import LAB_CREDENTIALS
from vgpu_cfg.lab.soap.server import LabServer
from vgpu_cfg.lab.state.inventory import VirtualMachine
from vgpu_cfg.lab.vcenter import Lab
from vgpu_cfg.model.plan_file import LoginEntry
from vgpu_cfg.ports import GuestShell, GuestTarget, Transport
from vgpu_cfg.vsphere.guest_operations import GuestOperations
from vgpu_cfg.vsphere.wire.allowances import believing
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.wire.transport import HttpsTransport, Trust

ESTATE = """\
about: One host with three guests.
clusters:
- name: gpu
  hosts: [{name: esx-01.lab, memory: 128GiB}]
datastores: [{name: vsan, capacity: 2TiB, free: 1TiB}]
networks: [{name: vm-network}]
vms:
- name: box
  host: esx-01.lab
  guest: {account: {user: admin, password: the-admins}}
- name: poor
  host: esx-01.lab
  guest: {account: {user: admin, password: the-admins, sudo: false}}
- name: bare
  host: esx-01.lab
  guest: {tools: false, account: {user: admin, password: the-admins}}
"""
LOGIN = LoginEntry(user="admin", password="ADMIN")


@dataclass
class Place:
    """A session at a lab, and a way to its guests."""

    lab: Lab
    session: Session
    transport: Spy
    secrets: dict[str, str] = field(default_factory=lambda: {"ADMIN": "the-admins"})

    def connect(self, name: str = "box", login: LoginEntry = LOGIN) -> GuestShell:
        shells = GuestOperations(self.session, self.transport, LabRunClock(self.lab), self.secrets)
        moid = next(vm.moid for vm in self.lab.state.all(VirtualMachine) if vm.name == name)
        return shells.connect(GuestTarget(name=name, moid=moid), login)


class Spy:
    """A transport that keeps what goes through it, and can be another host's."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.sent: list[tuple[str, str, bytes]] = []
        self.answers: int | VgpuCfgError | None = None
        self.host = ""

    def exchange(self, method: str, path: str, headers: Any, body: bytes) -> Any:
        self.sent.append((method, path, body))
        if self.host and path.startswith(f"https://{self.host}/"):
            if isinstance(self.answers, VgpuCfgError):
                raise self.answers
            path = path.removeprefix(f"https://{self.host}")
        status, told, answer = self.inner.exchange(method, path, headers, body)
        if self.host and path == "/sdk":
            answer = answer.replace(b"https://*:443/", f"https://{self.host}/".encode())
        is_file = "guestFile" in path
        return (self.answers if is_file and isinstance(self.answers, int) else status), told, answer

    def close(self) -> None:
        self.inner.close()


@pytest.fixture(params=["in process", "https"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    path = tmp_path / "estate.yaml"
    path.write_text(ESTATE, encoding="utf-8")
    lab = open_lab(str(path), clock=VirtualClock())
    if request.param == "in process":
        yield from opened(lab, lab)
        return
    with LabServer(lab) as server:
        yield from opened(
            lab, HttpsTransport(f"127.0.0.1:{server.port}", trust=Trust(thumbprint=server.thumbprint))
        )


def opened(lab: Lab, transport: Transport) -> Iterator[Place]:
    spy = Spy(transport)
    with Session(spy, "lab", LAB_CREDENTIALS.user, LAB_CREDENTIALS.password) as session:
        yield Place(lab, session, spy)


STRANGE = ["with blanks", "it's", '"quoted"', "$HOME", "a;b", "a && b", "*", "~", "ümläut", "", "-n", "#x"]


def test_strange_arguments_arrive_as_they_were_given(place: Place) -> None:
    shell = place.connect()
    for word in STRANGE:
        assert shell.run(["echo", "-", word]).stdout == f"- {word}\n"


def test_status_input_and_both_streams_come_back(place: Place) -> None:
    shell = place.connect()
    result = shell.run(["sh", "-c", "cat; echo err >&2; false"], stdin=b"what goes in\n")
    assert (result.status, result.stdout, result.stderr) == (1, "what goes in\n", "err\n")


def test_a_file_goes_in_and_out_and_nothing_stays_behind(place: Place) -> None:
    shell = place.connect()
    shell.write_file("/var/lib/vgpu-cfg/secrets/it's a token", b"correct horse", 0o600)
    assert shell.read_file("/var/lib/vgpu-cfg/secrets/it's a token") == b"correct horse"
    assert shell.read_file("/var/lib/vgpu-cfg/absent") is None
    shell.close()
    shell.close()
    assert "vgpu-cfg-" not in place.connect().run(["ls", "/tmp"]).stdout.replace(place_folder(place), "")


def place_folder(place: Place) -> str:
    """Return the name of the folder that the last login made."""
    made = [body for _, path, body in place.transport.sent if path == "/sdk" and b"StartProgram" in body]
    return made[-1].decode().split("/tmp/")[1].split("/")[0].split("'")[0] if made else ""


def test_what_is_secret_goes_as_a_file_and_never_as_an_argument(place: Place) -> None:
    shell = place.connect()
    place.transport.sent.clear()
    shell.write_file("/etc/token", b"correct horse", 0o600)
    told = [(method, path) for method, path, body in place.transport.sent if b"correct horse" in body]
    assert [method for method, _ in told] == ["PUT"]
    # The tools tell whoever asks what runs, and with which arguments.
    assert not [one for one in place.lab.state.all(VirtualMachine) if "correct horse" in str(processes(one))]


def processes(vm: Any) -> list[str]:
    guest = vm.made_guest
    return [] if guest is None else [process.command for process in guest.processes]


def test_a_program_goes_on_by_itself(place: Place) -> None:
    shell = place.connect()
    shell.start(["sh", "-c", "echo it went on > /tmp/told"])
    assert shell.read_file("/tmp/told") == b"it went on\n"


# ------------------------------------------------------------- what faults mean


@pytest.mark.parametrize(
    "login", [LoginEntry(), LoginEntry(user="admin"), LoginEntry(user="a", password="X")]
)
def test_a_login_that_guest_operations_cannot_use(place: Place, login: LoginEntry) -> None:
    with pytest.raises(GuestError, match="require a user and a password"):
        place.connect(login=login)


def test_a_wrong_password_is_the_guests_and_not_vcenters(place: Place) -> None:
    place.secrets["ADMIN"] = "battery staple"
    with pytest.raises(GuestError, match="rejected admin's password") as caught:
        place.connect()
    assert not isinstance(caught.value, GuestNotReady)
    assert "battery" not in f"{caught.value.message} {caught.value.subject} {caught.value.remedy}"


def test_a_guest_without_tools_may_get_them_later(place: Place) -> None:
    with pytest.raises(GuestNotReady, match="GuestOperationsUnavailable") as caught:
        place.connect("bare")
    assert "open-vm-tools" in caught.value.remedy


def test_a_user_who_may_not_become_root(place: Place) -> None:
    with pytest.raises(GuestError, match="admin cannot become root"):
        place.connect("poor")


def test_files_that_are_refused(place: Place) -> None:
    shell = place.connect()
    place.transport.answers = 500
    with pytest.raises(GuestError, match="HTTP status 500"):
        shell.write_file("/etc/token", b"x", 0o600)


# ------------------------------------------------------------- files on the VM's host


def test_a_file_on_the_vms_host_goes_there(place: Place) -> None:
    place.transport.host = "esx-01.lab"
    shell = place.connect()
    shell.write_file("/etc/token", b"x", 0o600)
    put = next(path for method, path, _ in place.transport.sent if method == "PUT")
    assert put.startswith("https://esx-01.lab/guestFile?")


@pytest.mark.parametrize("error", [Unreachable("no way"), CertificateRejected("not trusted")])
def test_a_host_that_cannot_be_reached_is_no_lost_vcenter(place: Place, error: VgpuCfgError) -> None:
    place.transport.host = "esx-01.lab"
    place.transport.answers = error
    with pytest.raises(GuestError, match=f"cannot be reached: .*{error.message}") as caught:
        place.connect().write_file("/etc/token", b"x", 0o600)
    assert "443" in caught.value.remedy
    assert "token=" not in caught.value.message


# ------------------------------------------------------------- whom the transport believes


def test_another_host_is_believed_by_the_certificate_that_is_told_of_it() -> None:
    labs = [open_lab("no-gpu", clock=VirtualClock()) for _ in range(2)]
    with LabServer(labs[0]) as vcenter, LabServer(labs[1]) as host:
        url = f"https://127.0.0.1:{host.port}/sdk/vimServiceVersions.xml"
        address = f"127.0.0.1:{vcenter.port}"
        pinned = HttpsTransport(address, trust=Trust(thumbprint=vcenter.thumbprint))
        # vCenter's own thumbprint says nothing of another host.
        with pytest.raises(CertificateRejected):
            pinned.exchange("GET", url, {}, b"")
        with believing(host.thumbprint):
            assert pinned.exchange("GET", url, {}, b"")[0] == 200
        with believing("00" * 32), pytest.raises(CertificateRejected):
            pinned.exchange("GET", url, {}, b"")
        insecure = HttpsTransport(address, trust=Trust(insecure=True))
        assert insecure.exchange("GET", url, {}, b"")[0] == 200
        for transport in (pinned, insecure):
            transport.close()
