"""Files over HTTPS: what vmware.log says of a failed power-on, who may read it, what is put and deleted."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.unit.lab.rig import Rig, estate_of
from tests.unit.lab.wire.client import connect
from vgpu_cfg.lab.state.inventory import Datacenter, Datastore
from vgpu_cfg.settings.connection import LAB_PASSWORD, LAB_USER

SEVEN = """about: One host of ESXi 7.0
clusters:
- name: gpu
  hosts:
  - name: esx-01.lab
    esxi: 7.0 U3
    gpus: [{board: A100, pci_id: "0000:21:00.0"}]
folders: [training]
templates:
- {name: ubuntu-22.04-efi, hardware_version: 19, cpus: 4, memory: 8GiB, disks: [64GiB]}
"""


class Reader:
    """A client that is logged in, and the addresses of files."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.cookie = connect(rig.lab)._stub.cookie
        self.datacenter = rig.lab.state.all(Datacenter)[0].name
        self.datastore = rig.lab.state.all(Datastore)[0].name

    def url(self, vm: str, **other: str) -> str:
        place = {"dcPath": self.datacenter, "dsName": self.datastore} | other
        return f"/folder/{vm}/vmware.log?" + "&".join(f"{key}={value}" for key, value in place.items())

    def get(self, url: str, cookie: str | None = None) -> tuple[int, str]:
        headers = {"Cookie": self.cookie if cookie is None else cookie}
        status, _, body = self.rig.lab.exchange("GET", url, headers, b"")
        return status, body.decode()

    def log(self, vm: str) -> list[str]:
        status, text = self.get(self.url(vm))
        assert status == 200
        return text.splitlines()


@pytest.fixture
def reader() -> Reader:
    """One VM that cannot start since its window is too small."""
    rig = Rig()
    rig.clone("bad", "grid_a100-40c", window_gb=None)
    rig.refused(rig.vm("bad"), "PowerOnVM_Task")
    return Reader(rig)


def test_the_log_has_the_reason(reader: Reader) -> None:
    lines = reader.log("bad")
    assert " In(05) vmx - Log for VMware ESX pid=" in lines[0]
    assert all(line[:20].startswith("2026-01-05T08:0") for line in lines)
    at = next(number for number, line in enumerate(lines) if "PCIPassthru: total number of pages" in line)
    assert lines[at].endswith(", failing")
    assert lines[at + 1].endswith(" In(05) vmx - Module 'DevicePowerOn' power on failed.")
    assert lines[-1].endswith("VMX_PowerOn: ModuleTable_PowerOn = 0")


def test_the_log_has_the_configuration(reader: Reader) -> None:
    assert any(line.endswith('memSize = "65536"') for line in reader.log("bad"))


def test_lines_of_esxi_7_begin_otherwise(tmp_path: Path) -> None:
    rig = Rig(estate_of(SEVEN, tmp_path))
    rig.clone("bad", "grid_a100-40c", window_gb=None)
    rig.refused(rig.vm("bad"), "PowerOnVM_Task")
    lines = Reader(rig).log("bad")
    assert any("Z| vmx| | I005: PCIPassthru: total number of pages needed" in line for line in lines)


def test_what_the_host_told_vcenter_is_in_it(reader: Reader) -> None:
    rig = reader.rig
    rig.clone("loose", "grid_a100-10c", reserve=False)
    fault = rig.refused(rig.vm("loose"), "PowerOnVM_Task")
    lines = reader.log("loose")
    assert any(line.endswith("vmx - Msg_Post: Error") for line in lines)
    assert any(f"[msg.vmx.poweron.failed] {fault.msg}" in line for line in lines)


def test_a_vm_that_started_has_no_error(reader: Reader) -> None:
    reader.rig.running("good", "grid_a100-10c")
    lines = reader.log("good")
    assert lines[-1].endswith("VMX_PowerOn: ModuleTable_PowerOn = 1")
    assert not any("failed" in line for line in lines)


def test_a_second_try_writes_a_new_log(reader: Reader) -> None:
    rig = reader.rig
    rig.vm("bad").extra_config |= {
        "pciPassthru.use64bitMMIO": "TRUE",
        "pciPassthru.64bitMMIOSizeGB": "512",
    }
    rig.done(rig.vm("bad"), "PowerOnVM_Task")
    assert not any("PCIPassthru: total" in line for line in reader.log("bad"))


def test_a_vm_that_never_ran_has_no_log(reader: Reader) -> None:
    reader.rig.clone("idle", "grid_a100-10c")
    assert reader.get(reader.url("idle"))[0] == 404


@pytest.mark.parametrize(
    "other", [{"dcPath": "nowhere"}, {"dsName": "nowhere"}, {"dcPath": ""}, {"dsName": ""}]
)
def test_another_place_is_not_found(reader: Reader, other: dict[str, str]) -> None:
    assert reader.get(reader.url("bad", **other))[0] == 404


@pytest.mark.parametrize(
    "path", ["/folder/", "/folder/bad/", "/folder/bad/bad.vmx", "/folder/other/vmware.log"]
)
def test_another_file_is_not_found(reader: Reader, path: str) -> None:
    query = reader.url("bad").partition("?")[2]
    assert reader.get(f"{path}?{query}")[0] == 404


def test_escaped_names_are_understood(reader: Reader) -> None:
    rig = reader.rig
    rig.vm("bad").home = "my vm"
    assert reader.get(reader.url("my%20vm"))[0] == 200


@pytest.mark.parametrize("cookie", ["", "vmware_soap_session=nonsense"])
def test_nobody_reads_without_a_session(reader: Reader, cookie: str) -> None:
    status, text = reader.get(reader.url("bad"), cookie)
    assert status == 401
    assert "bad" not in text


def test_a_session_that_ended_reads_nothing(reader: Reader) -> None:
    for session in reader.rig.lab.sessions.all():
        reader.rig.lab.sessions.end(session)
    assert reader.get(reader.url("bad"))[0] == 401


def test_what_is_put_is_got_again() -> None:
    reader = Reader(Rig())
    url = reader.url("iso").replace("vmware.log", "a.txt")
    assert reader.get(url)[0] == 404
    headers = {"Cookie": reader.cookie}
    assert reader.rig.lab.exchange("PUT", url, headers, "é".encode())[0] == 201
    assert reader.get(url) == (200, "é")
    assert reader.rig.lab.exchange("HEAD", url, headers, b"")[0] == 200
    assert reader.rig.lab.exchange("PUT", url, {}, b"x")[0] == 401
    assert reader.rig.lab.exchange("PUT", url.replace("dsName=", "dsName=no"), headers, b"x")[0] == 404


def test_a_file_is_put_and_deleted_by_a_password_as_by_a_session(reader: Reader) -> None:
    url = reader.url("web").replace("web/vmware.log", "notes/a.txt")
    both = base64.b64encode(f"{LAB_USER}:{LAB_PASSWORD}".encode()).decode()
    for headers in ({"Authorization": f"Basic {both}"}, {"Cookie": reader.cookie}):

        def ask(method: str, headers: dict[str, str] = headers) -> int:
            return reader.rig.lab.exchange(method, url, headers, b"text")[0]

        came_to = [ask(method) for method in ("HEAD", "PUT", "HEAD", "DELETE", "DELETE")]
        assert came_to == [404, 201, 200, 204, 404]
    wrong = {"Authorization": "Basic " + base64.b64encode(f"{LAB_USER}:no".encode()).decode()}
    assert reader.rig.lab.exchange("PUT", url, wrong, b"text")[0] == 401


def test_what_a_vm_uses_and_what_one_may_not_is_refused(reader: Reader) -> None:
    headers = {"Cookie": reader.cookie}
    url = reader.url("bad").replace("vmware.log", "bad.vmx")
    assert reader.rig.lab.exchange("DELETE", url, headers, b"")[0] == 403
    reader.rig.lab.faults.lacking.add("Datastore.FileManagement")
    assert reader.rig.lab.exchange("PUT", url.replace("bad.vmx", "b"), headers, b"")[0] == 403
