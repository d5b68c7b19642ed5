"""Programs of a guest's users: which module, restart or power-off ends which of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.lab.guest.guest_rig import DRIVER, STAGE, GuestRig, bundle, guestinfo, module, user_data
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.state.guest import Workload
from vgpu_cfg.lab.state.inventory import VirtualMachine

RUNTIME = module("containers", runtime="docker", minimum_free_gib=0)
WORKLOADS = (
    Workload("train.py"),
    Workload("sshd", uses_gpu=False),
    Workload("notebook", "docker", "notebook"),
    Workload("old", "containerd", "old", uses_gpu=False),
    Workload("horovodrun", "docker", "vgpu-cfg-worker"),
)
IN_DOCKER = ["notebook", "horovodrun"]
MIRROR = {"registry_mirrors": {"docker.io": "https://mirror.example.com"}}


def site(**parameters: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "proxy": None,
        "registry_mirrors": {},
        "certificates": [],
        "runtime": "docker",
        "apt": None,
    }
    return module("site", **(known | parameters))


@pytest.fixture(scope="module")
def rig() -> GuestRig:
    rig = GuestRig()
    rig.up("a", guestinfo(user_data(bundle(RUNTIME))))
    return rig


def busy(rig: GuestRig, *, live_restore: bool = False) -> VirtualMachine:
    """Return the VM with everything running in it, and an empty diary."""
    vm = rig.vm("a")
    guest = guest_of(vm)
    guest.workloads, guest.live_restore = list(WORKLOADS), live_restore
    guest.has_nouveau = guest.nouveau = False
    guest.toolkit, guest.driver, guest.blocks, guest.settings = [], "", {}, {}
    rig.lab.state.diary.clear()
    return vm


def staged(rig: GuestRig, vm: VirtualMachine, part: dict[str, Any]) -> None:
    shell = rig.shell(vm)
    guest_of(vm).images = ["image:1"]
    for path, (text, mode) in bundle(part).items():
        shell.write_file(path, text.encode(), mode)
    assert shell.execute(f"{STAGE} --run again {part['name']}")[0] == 0, rig.why(part["name"])


def ended(rig: GuestRig) -> list[str]:
    return [one.about for one in rig.lab.state.diary if one.what == "process end"]


@pytest.mark.parametrize(
    ("part", "gone"),
    [
        (module("toolkit", runtime="docker", repository="https://files.lab"), IN_DOCKER),
        (site(**MIRROR), IN_DOCKER),
        (site(apt={"url": "https://apt.example.com"}), IN_DOCKER),
        (site(), []),
        (site(**MIRROR, runtime="containerd"), []),
        (module("worker", runtime="docker", image="image:1", gpus=False, rdma=False), ["horovodrun"]),
        (
            module("driver", package=DRIVER, sha256="", branches=["580"], refused=[]),
            ["train.py", "notebook", "horovodrun"],
        ),
        (module("limits", shared_memory="8m"), []),
        (module("host-name", host_name="a"), []),
    ],
    ids=["toolkit", "mirror", "apt", "no site", "containerd", "worker", "driver", "limits", "host-name"],
)
def test_a_module_ends(rig: GuestRig, part: dict[str, Any], gone: list[str]) -> None:
    vm = busy(rig)
    staged(rig, vm, part)
    assert ended(rig) == gone
    assert [one.name for one in guest_of(vm).workloads] == [
        one.name for one in WORKLOADS if one.name not in gone
    ]
    rig.lab.state.diary.clear()
    staged(rig, vm, part)
    assert ended(rig) == []


def test_containers_of_a_docker_with_live_restore_outlast_its_restart(rig: GuestRig) -> None:
    vm = busy(rig, live_restore=True)
    staged(rig, vm, site(**MIRROR))
    assert ended(rig) == []


def test_another_address_drops_the_link_of_that_nic_alone(rig: GuestRig) -> None:
    vm = busy(rig)
    nic = {"mac": rig.mac(), "driver": "", "name": "", "addresses": ["192.168.10.11/24"], "mtu": 9000}
    for happened in ([("link", "ens33np0")], []):
        rig.lab.state.diary.clear()
        staged(rig, vm, module("network", nics=[nic]))
        told = [(one.what, one.about) for one in rig.lab.state.diary if one.what == "link"]
        assert [what for what, _ in told] == [what for what, _ in happened]


@pytest.mark.parametrize("method", ["ResetVM_Task", "PowerOffVM_Task"])
def test_a_restart_ends_everything(method: str) -> None:
    rig = GuestRig()
    rig.up("a", guestinfo(user_data(bundle(RUNTIME))))
    vm = busy(rig)
    rig.done(vm, method)
    assert ended(rig) == [one.name for one in WORKLOADS]
    assert guest_of(vm).workloads == []
