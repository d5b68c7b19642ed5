"""Which kinds of hosts tell enough by what they list, and which are asked all the same."""

from __future__ import annotations

import pytest

from vgpu_cfg.catalog import PciId, load_catalog
from vgpu_cfg.model.observed.inventory import Gpu, Host, PciDevice
from vgpu_cfg.model.observed.vm import VgpuDevice, Vm, VmDetail
from vgpu_cfg.model.vgpu import Sharing
from vgpu_cfg.vsphere.reading.host_kinds import spared_of

A100, H100_SXM, NOBODYS = "A100", "H100XM", ""
A100_VGPU, H100_VGPU = "grid_a100-10c", "nvidia_h100xm-80c"


def gpu(key: str, *vms: str, sharing: Sharing | None = Sharing.TIME_SLICED, passthrough: bool = False) -> Gpu:
    board = load_catalog().board(key) if key else None
    ids = board.pci_ids[0] if board is not None else PciId(1, None, "")
    pci = PciDevice(
        pci_id="0000:17:00.0",
        vendor_id=0x10DE,
        device_id=ids.device_id,
        subdevice_id=ids.subsystem_id or 0,
        passthrough_active=passthrough,
    )
    return Gpu(pci=pci, name=key, vm_moids=vms, sharing=sharing)


def host(*gpus: Gpu, lists: tuple[str, ...] = ()) -> Host:
    return Host(moid="host-1", name="esx-01", gpus=gpus, creatable_profiles=lists)


def vm(profile: str) -> Vm:
    return Vm(moid="vm-1", name="a", detail=VmDetail(vgpus=(VgpuDevice(key=13000, profile=profile),)))


@pytest.mark.parametrize(
    ("here", "runs", "names"),
    [
        pytest.param(host(gpu(A100), lists=(A100_VGPU,)), (), {A100_VGPU}, id="a list tells"),
        pytest.param(host(gpu(A100)), (), None, id="no list does not"),
        pytest.param(host(gpu(A100, "vm-1")), (vm(A100_VGPU),), {A100_VGPU}, id="what runs is known"),
        pytest.param(
            host(gpu(A100), gpu(H100_SXM), lists=(A100_VGPU,)), (), None, id="a list without a board does not"
        ),
        pytest.param(
            host(gpu(A100), gpu(H100_SXM, passthrough=True), lists=(A100_VGPU,)),
            (),
            {A100_VGPU},
            id="what is in passthrough mode has no profile",
        ),
        pytest.param(
            host(gpu(A100), gpu(NOBODYS), lists=(A100_VGPU,)), (), None, id="a board that nobody knows"
        ),
        pytest.param(
            host(gpu(A100, sharing=None), lists=(A100_VGPU,)), (), {A100_VGPU}, id="sharing that shows"
        ),
        pytest.param(
            host(gpu(A100, sharing=None), lists=(A100_VGPU, "grid_a100-1-5c")),
            (),
            None,
            id="sharing that does not show",
        ),
    ],
)
def test_profiles_are_asked_where_lists_leave_a_doubt(
    here: Host, runs: tuple[Vm, ...], names: set[str] | None
) -> None:
    found = spared_of([here], {"host-1": runs}).profiles
    assert (None if found is None else {one.name for one in found}) == names


@pytest.mark.parametrize(
    ("gpus", "runs", "spared"),
    [
        ((gpu(H100_SXM), gpu(H100_SXM)), (), True),
        ((gpu(H100_SXM, "vm-1"), gpu(H100_SXM)), (vm(H100_VGPU),), False),
        ((gpu(H100_SXM, "vm-1"), gpu(H100_SXM, "vm-1")), (vm(H100_VGPU),), True),
        # A bridge may be there; which GPUs it joins is not told.
        ((gpu(A100, "vm-1"), gpu(A100)), (vm(A100_VGPU),), True),
    ],
)
def test_device_groups_are_asked_where_a_baseboard_is_used_in_part(
    gpus: tuple[Gpu, ...], runs: tuple[Vm, ...], spared: bool
) -> None:
    assert spared_of([host(*gpus)], {"host-1": runs}).device_groups is spared
