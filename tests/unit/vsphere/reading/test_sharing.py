"""What shows that a GPU is cut by MIG, where the API is too old to say it."""

from __future__ import annotations

import pytest

from vgpu_cfg.model.observed.inventory import Gpu, Host, PciDevice, ProfileInfo
from vgpu_cfg.model.observed.vm import VgpuDevice, Vm, VmDetail
from vgpu_cfg.model.vgpu import Sharing
from vgpu_cfg.vsphere.reading.host_kinds import infer_sharing

MIG, TIME_SLICED = Sharing.MIG, Sharing.TIME_SLICED


def gpu(device_id: int = 0x20F1, *, vms: tuple[str, ...] = (), passthrough: bool = False) -> Gpu:
    pci = PciDevice(
        pci_id=f"0000:{device_id & 0xFF:02x}:00.0",
        vendor_id=0x10DE,
        device_id=device_id,
        passthrough_active=passthrough,
    )
    return Gpu(pci=pci, name="A100", vm_moids=vms)


def vm(moid: str, *profiles: str) -> Vm:
    devices = tuple(VgpuDevice(key=13000 + at, profile=profile) for at, profile in enumerate(profiles))
    return Vm(moid=moid, name=moid, detail=VmDetail(vgpus=devices))


def host(*gpus: Gpu, creatable: tuple[str, ...] = (), known: tuple[str, ...] | None = None) -> Host:
    return Host(
        moid="host-1",
        name="esx-01",
        gpus=gpus,
        creatable_profiles=creatable,
        profiles=None if known is None else tuple(ProfileInfo(name=name) for name in known),
    )


@pytest.mark.parametrize(
    ("creatable", "known", "expected"),
    [
        (("grid_a100-1-5c", "grid_a100-7-40c"), None, MIG),
        (("grid_a100-40c", "grid_a100-20c"), None, TIME_SLICED),
        (("grid_a100-40c", "grid_a100-1-5c"), None, None),
        (("grid_t4-16c",), None, None),
        ((), ("grid_a100-1-5c",), MIG),
        ((), ("grid_a100-40c", "grid_a100-1-5c"), None),
        (("grid_a100-40c",), ("grid_a100-40c", "grid_a100-1-5c"), TIME_SLICED),
        (("not a profile",), None, None),
        ((), None, None),
    ],
)
def test_the_profiles_of_its_board_tell(
    creatable: tuple[str, ...], known: tuple[str, ...] | None, expected: Sharing | None
) -> None:
    found = infer_sharing(host(gpu(), creatable=creatable, known=known), {})
    assert found.gpus[0].sharing is expected


def test_what_runs_on_it_goes_before_what_could_be_created() -> None:
    running = {"vm-1": vm("vm-1", "grid_a100-1-5c", "grid_t4-16c")}
    both = ("grid_a100-40c", "grid_a100-1-5c")
    found = infer_sharing(host(gpu(vms=("vm-1",)), gpu(), creatable=both), running)
    assert [entry.sharing for entry in found.gpus] == [MIG, None]


def test_boards_do_not_speak_for_each_other() -> None:
    found = infer_sharing(host(gpu(), gpu(0x1EB8), creatable=("grid_a100-1-5c", "grid_t4-16c")), {})
    assert [entry.sharing for entry in found.gpus] == [MIG, TIME_SLICED]


def test_an_unknown_board_is_told_by_all_profiles_where_it_is_alone() -> None:
    alone = infer_sharing(host(gpu(0x9999), creatable=("nvidia_new-1-5c",)), {})
    beside = infer_sharing(host(gpu(0x9999), gpu(), creatable=("nvidia_new-1-5c",)), {})
    assert alone.gpus[0].sharing is MIG
    assert beside.gpus[0].sharing is None


def test_a_gpu_in_passthrough_is_not_shared() -> None:
    found = infer_sharing(host(gpu(passthrough=True), creatable=("grid_a100-40c",)), {})
    assert found.gpus[0].sharing is None


def test_what_the_api_told_is_left_alone() -> None:
    told = host(gpu().model_copy(update={"sharing": MIG}), creatable=("grid_a100-40c",))
    assert infer_sharing(told, {}) is told
