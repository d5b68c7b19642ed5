"""Bridges above GPUs and NICs: as the estate says them, as the API lists them, as nvidia-smi tells them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.lab.group_rig import GroupRig, rig_of
from tests.unit.lab.rig import built
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.lab.nvidia.smi_report import matrix
from vgpu_cfg.lab.state.inventory import Host
from vgpu_cfg.lab.state.pcie import link
from vgpu_cfg.parsers.nvidia.topology import Topology, parse_topology

HOST = """
about: One host.
clusters:
- name: gpu
  hosts:
  - name: one.lab
    gpus: [{{board: A100D, pci_id: "0000:21:00.0", {gpu}}}]
    nics: [{{model: ConnectX-7, pci_id: "0000:41:00.0", {nic}}}]
"""
NEAR = "pcie_switch: sw0"


def topology(rig: GroupRig) -> Topology:
    return parse_topology(matrix(rig.lab, rig.first(), rig.first().gpus).stdout)


@pytest.mark.parametrize(
    ("gpu", "nic", "expected"),
    [
        (NEAR, NEAR, "PIX"),
        ("pcie_switch: sw0/a", "pcie_switch: sw0/b", "PXB"),
        (NEAR, "pcie_switch: sw0/b", "PXB"),
        ("pcie_switch: sw0, pcie_root: r", "pcie_switch: sw1, pcie_root: r", "PHB"),
        ("pcie_root: r", "pcie_root: r", "PHB"),
        (NEAR, "pcie_switch: sw1", "NODE"),
        (NEAR, "numa: 0", "NODE"),
        ("numa: 0", "numa: 0", "NODE"),
        ("numa: 0", "numa: 1", "SYS"),
        (NEAR, "numa: 1, pcie_switch: sw1", "SYS"),
    ],
)
def test_what_is_shared_tells_how_near(tmp_path: Path, gpu: str, nic: str, expected: str) -> None:
    rig = rig_of(HOST.format(gpu=gpu, nic=nic), tmp_path)
    host = rig.first()
    assert link(host, host.gpus[0].pci, host.nics[0].pci) == expected
    found = topology(rig)
    assert (found.rows["GPU0"]["NIC0"], found.rows["NIC0"]["GPU0"]) == (expected, expected)
    assert found.nics == {"NIC0": "vmrdma0"}


def test_a_switch_is_a_bridge_with_a_root_port_above(tmp_path: Path) -> None:
    rig = rig_of(HOST.format(gpu=NEAR, nic=NEAR), tmp_path)
    devices = {device.id: device for device in rig.host("one.lab").hardware.pciDevice}
    gpu, nic = devices["0000:21:00.0"], devices["0000:41:00.0"]
    assert gpu.parentBridge == nic.parentBridge
    switch = devices[gpu.parentBridge]
    root = devices[switch.parentBridge]
    assert [hex(each.classId) for each in (switch, root)] == ["0x604", "0x604"]
    assert root.parentBridge is None
    assert {switch.id, root.id} <= set(rig.host("one.lab").hardware.numaInfo.numaNode[0].pciId)


def test_without_a_switch_a_card_has_a_bridge_of_its_own(tmp_path: Path) -> None:
    rig = rig_of(HOST.format(gpu="numa: 0", nic="numa: 0"), tmp_path)
    devices = {device.id: device for device in rig.host("one.lab").hardware.pciDevice}
    assert [devices[at].parentBridge for at in ("0000:21:00.0", "0000:41:00.0")] == [
        "0000:20:00.0",
        "0000:40:00.0",
    ]
    assert devices["0000:20:00.0"].classId == 0x0604


def test_two_ports_of_a_card_are_one_bridge_apart(tmp_path: Path) -> None:
    text = HOST.format(gpu="numa: 0", nic="numa: 0").replace(
        'nics: [{model: ConnectX-7, pci_id: "0000:41:00.0", numa: 0}]',
        'nics: [{pci_id: "0000:41:00.0"}, {pci_id: "0000:41:00.1"}, {pci_id: "0000:22:00.0"}]',
    )
    rig = rig_of(text, tmp_path)
    found = topology(rig)
    assert (found.rows["NIC0"]["NIC1"], found.rows["NIC0"]["NIC2"]) == ("PIX", "NODE")
    assert rig.first().nics[2].pci.parent_bridge == "0000:21:01.0", "beside the GPU at 21:00.0"


@pytest.mark.parametrize(
    ("gpu", "nic", "said"),
    [
        (NEAR, "pcie_switch: sw0, numa: 1", "another NUMA node"),
        (NEAR, "pcie_switch: sw0, pcie_root: r", "another root"),
    ],
)
def test_a_switch_is_in_one_place(gpu: str, nic: str, said: str) -> None:
    with pytest.raises(DocumentError) as caught:
        built(HOST.format(gpu=gpu, nic=nic))
    assert said in caught.value.faults[0].message


def test_every_gpu_of_an_hgx_has_its_rail() -> None:
    rig = GroupRig("hgx-h100")
    found = topology(rig)
    assert found.peers(8) == tuple(f"GPU{at}" for at in range(8))
    for at in range(8):
        nics = {name: found.rows[f"GPU{at}"][name] for name in found.nics}
        assert [name for name, how in nics.items() if how == "PIX"] == [f"NIC{at}"]
        assert sorted(nics.values()) == ["NODE"] * 3 + ["PIX"] + ["SYS"] * 4


def test_a_nic_that_is_handed_through_is_not_in_the_matrix() -> None:
    rig = GroupRig("hgx-h100")
    host: Host = rig.first()
    assert len(topology(rig).nics) == 8
    host.passthrough.setdefault(host.nics[0].pci.pci_id, host.passthrough_of("")).active = True
    assert len(topology(rig).nics) == 7


def test_bridges_are_not_handed_through() -> None:
    rig = GroupRig("hgx-h100")
    infos = {info.id: info for info in rig.host("esx-hgx-01.lab").config.pciPassthruInfo}
    bridge = rig.first().gpus[0].pci.parent_bridge
    assert bridge is not None
    assert not infos[bridge].passthruCapable
    assert infos[rig.first().gpus[0].pci_id].passthruCapable
