"""NCCL's settings in a guest: what stands in the file is held against what this run has seen."""

from __future__ import annotations

import pytest

from tests.unit.verification.two_workers import (
    IMAGE,
    NCCL_SETTINGS,
    RUN_IMAGE,
    Scene,
    failing,
    found_in,
    make_scene,
)
from vgpu_cfg.model.guests.modules import NcclModule, Wire
from vgpu_cfg.model.verification import CheckResult, CheckState
from vgpu_cfg.parsers.frameworks import SETTINGS, parse_nccl_settings
from vgpu_cfg.parsers.text import UnreadableOutput
from vgpu_cfg.verification import Choice

TOPOLOGY = "/opt/vgpu-cfg/nccl-topo.xml"
WIRED = NCCL_SETTINGS.rpartition("# NCCL_TOPO_FILE")[0] + f"export NCCL_TOPO_FILE={TOPOLOGY}\n"


def result(scene: Scene) -> CheckResult:
    return found_in(scene.run(Choice(only=("nccl",))), "nccl", "hvd-01")


def wired(scene: Scene) -> None:
    """Let the plan know how the host of the first worker is wired."""
    view = scene.views["hvd-01"]
    wire = (Wire(node=0, switches=(1,)),)
    modules = tuple(
        one.model_copy(update={"gpu_wires": wire, "nic_wires": wire}) if isinstance(one, NcclModule) else one
        for one in view.spec.modules
    )
    scene.change(spec=view.spec.model_copy(update={"modules": modules}))


def test_what_stands_there_is_told() -> None:
    found = result(make_scene())
    assert found.state is CheckState.PASSED
    assert found.observed.startswith("NCCL_IB_GID_INDEX=3, NCCL_IB_HCA==mlx5_0:1, NCCL_IB_TC=106")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("=ens192", "=ens160", "NCCL_SOCKET_IFNAME is =ens160"),
        ("TC=106", "TC=0", "NCCL_IB_TC is 0"),
        ("export NCCL_IB_HCA='=mlx5_0:1'\n", "", "NCCL_IB_HCA is not set"),
        ("export NCCL_IB_GID_INDEX=3\n", "", "NCCL_IB_GID_INDEX is not set"),
    ],
)
def test_a_planted_fault_is_found(before: str, after: str, said: str) -> None:
    scene = make_scene()
    scene.answer("cat", SETTINGS, by=NCCL_SETTINGS.replace(before, after))
    found = result(scene)
    assert (found.state, found.observed) == (CheckState.FAILED, said)


@pytest.mark.parametrize(
    ("image", "files", "said"),
    [
        ("NCCL_IB_DISABLE=1\n", "", "NCCL_IB_DISABLE is 1 in the image"),
        ("NCCL_IB_DISABLE=0\n", "", None),
        ("NCCL_IB_DISABLE=1\n", "/opt/vgpu-cfg/training.env:export NCCL_IB_DISABLE=0\n", None),
        ("", "/etc/nccl.conf:NCCL_IB_DISABLE = 1\n", "NCCL_IB_DISABLE is 1 in /etc/nccl.conf"),
        ("NCCL_IB_DISABLE=0\n", "/etc/nccl.conf:NCCL_IB_DISABLE=1\n", None),
        (
            "",
            "/opt/vgpu-cfg/training.env:export NCCL_NET='Socket'\n",
            "NCCL_NET is Socket in /opt/vgpu-cfg/training.env",
        ),
        ("NCCL_NET=IB\n", "", None),
    ],
)
def test_rdma_that_is_turned_off_is_found_where_it_counts(image: str, files: str, said: str | None) -> None:
    scene = make_scene()
    scene.answer(*RUN_IMAGE, IMAGE, "env", by=image)
    scene.answer("grep", "-HsE", by=files)
    found = result(scene)
    assert (found.state is CheckState.FAILED, found.observed if said else None) == (said is not None, said)


def test_there_is_no_such_file() -> None:
    scene = make_scene()
    scene.answer("cat", SETTINGS, by=failing(f"cat: {SETTINGS}: No such file or directory"))
    assert result(scene).observed == f"{SETTINGS} does not exist"


def test_a_topology_that_is_there() -> None:
    scene = make_scene()
    wired(scene)
    scene.answer("cat", SETTINGS, by=WIRED)
    scene.answer("cat", TOPOLOGY, by='<system version="1">\n</system>\n')
    assert result(scene).state is CheckState.PASSED


def test_a_topology_that_is_not_there() -> None:
    scene = make_scene()
    scene.answer("cat", SETTINGS, by=WIRED)
    scene.answer("cat", TOPOLOGY, by=failing("No such file or directory"))
    assert result(scene).observed == f"NCCL_TOPO_FILE points to {TOPOLOGY}, which contains no topology"


def test_a_topology_that_the_guest_could_not_make() -> None:
    scene = make_scene()
    wired(scene)
    scene.answer(
        "cat", SETTINGS, by=f"{NCCL_SETTINGS.rpartition('# ')[0]}# NCCL_TOPO_FILE: 2 GPUs are here\n"
    )
    assert result(scene).observed == "NCCL_TOPO_FILE is not set (2 GPUs are here)"


@pytest.mark.parametrize("line", ["NCCL_IB_TC=1", "export NCCL_IB_HCA='=mlx5_0", "export A=$(reboot) b"])
def test_a_line_that_no_shell_takes_as_it_was_meant(line: str) -> None:
    with pytest.raises(UnreadableOutput):
        parse_nccl_settings(f"{line}\n")
