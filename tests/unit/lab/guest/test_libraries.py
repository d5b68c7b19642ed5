"""What stands on driver and NIC, in the lab's guests: NCCL's settings, the CUDA Toolkit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.lab.guest.guest_rig import GuestRig, module, training

ENV, TOPOLOGY = "/opt/vgpu-cfg/nccl.env", "/opt/vgpu-cfg/nccl-topo.xml"
STACK = ("network", "nouveau", "driver", "ofed", "peermem")
WIRE = {"node": 0, "switches": [1]}


@pytest.fixture
def rig() -> GuestRig:
    return GuestRig()


def settings(rig: GuestRig, **more: Any) -> dict[str, Any]:
    nic = {"mac": rig.mac(), "driver": "", "name": "", "addresses": ["192.168.10.11/24"], "mtu": 9000}
    words: dict[str, Any] = {
        "nics": [nic],
        "traffic_class": 106,
        "is_direct": True,
        "gpu_wires": [],
        "nic_wires": [],
    }
    return module("nccl", (), **(words | more))


def stack(rig: GuestRig) -> list[dict[str, Any]]:
    return [one for one in training(1, rig.mac()) if one["name"] in STACK]


def test_a_guest_says_what_it_has(rig: GuestRig) -> None:
    guest = rig.staged(*stack(rig), settings(rig))
    assert rig.states()["nccl"] == "done"
    lines = guest.files[ENV].content.splitlines()
    assert lines[1:] == [
        "export NCCL_IB_HCA='=mlx5_0:1'",
        "export NCCL_IB_GID_INDEX=3",
        "export NCCL_IB_TC=106",
        "export NCCL_NET_GDR_LEVEL=SYS",
    ]
    assert TOPOLOGY not in guest.files


def test_a_guest_whose_wiring_is_known(rig: GuestRig) -> None:
    guest = rig.staged(*stack(rig), settings(rig, gpu_wires=[WIRE], nic_wires=[WIRE], is_direct=False))
    assert guest.files[ENV].content.splitlines()[-2:] == [
        "export NCCL_NET_GDR_LEVEL=LOC",
        f"export NCCL_TOPO_FILE={TOPOLOGY}",
    ]
    assert TOPOLOGY in guest.files


def test_a_nic_that_is_not_there(rig: GuestRig) -> None:
    rig.staged(settings(rig, nics=[{"mac": "00:50:56:00:00:99", "driver": ""}]))
    assert rig.states()["nccl"] == "failed"


def cuda(**more: Any) -> dict[str, Any]:
    words: dict[str, Any] = {
        "version": "12.8",
        "package": "",
        "sha256": "",
        "repository": "https://files.lab/cuda",
    }
    return module("cuda", **(words | more))


def test_the_cuda_toolkit_is_brought(rig: GuestRig) -> None:
    guest = rig.staged(cuda())
    assert rig.states()["cuda"] == "done"
    assert "/usr/local/cuda-12.8/bin/nvcc" in guest.files
    assert "/opt/vgpu-cfg/cuda.env" in guest.files


def test_a_repository_that_cannot_be_reached(rig: GuestRig) -> None:
    rig.lab.state.internet = rig.lab.state.internet.model_copy(
        update={"unreachable": frozenset({"files.lab"})}
    )
    rig.staged(cuda())
    assert rig.why("cuda") == "files.lab cannot be reached"
