"""Devices under DISRUPTION: what goes with a VM, and what is plugged into the host that a VM leaves."""

from __future__ import annotations

import pytest

from tests.plans.estate import make_inventory
from vgpu_cfg.changes.change import DestroyVm, RelocateVm
from vgpu_cfg.changes.kinds.move_vm import Destination
from vgpu_cfg.changes.plan import disturbed_by
from vgpu_cfg.changes.reach import Experience
from vgpu_cfg.changes.values import Subject, VmRef
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.vms.destroy import plan_removal

USB, CD = "USB device path:1/0/2", "CD/DVD [vsan] iso/a.iso"


def estate() -> Inventory:
    """Observe a VM of the plan with a USB device, a CD image and a NIC of others."""
    made = make_inventory(
        {
            "hosts": {"esx-01": {"gpus": []}, "esx-02": {"gpus": []}},
            "vms": {
                "a": {
                    "host": "esx-01",
                    "mark": True,
                    "power": "poweredOff",
                    "others": {"nics": [{"network": "vm-network", "mac": "00:50:56:80:00:02"}]},
                }
            },
        }
    )
    vms = [
        vm.model_copy(update={"detail": vm.detail.model_copy(update={"media": (USB, CD)})})
        if vm.detail is not None
        else vm
        for vm in made.vms
    ]
    return made.model_copy(update={"vms": tuple(vms)})


def move(host: str, *, runs: bool) -> RelocateVm:
    return RelocateVm(
        id="move a",
        subject=Subject(kind="vm", name="a", moid="vm-a"),
        vm=VmRef(name="a", moid="vm-a"),
        host_moid="host-esx-01",
        edits=(),
        destination=Destination(host_moid=f"host-{host}", host_name=host),
        is_running=runs,
    )


@pytest.mark.parametrize(
    ("host", "runs", "lost"), [("esx-02", False, [USB]), ("esx-02", True, []), ("esx-01", False, [])]
)
def test_usb_devices_stay_on_the_host_that_a_vm_leaves_while_it_is_off(
    host: str, runs: bool, lost: list[str]
) -> None:
    found = disturbed_by(move(host, runs=runs), estate(), {"vm-a"})
    assert [one.subject.name for one in found if one.experience is Experience.USB_LOST] == lost


def test_what_goes_with_a_deleted_vm_is_named() -> None:
    observed = estate()
    vm = next(vm for vm in observed.vms if vm.name == "a")
    (deletion,) = (one for one in plan_removal(vm, Findings()) if isinstance(one, DestroyVm))
    found = disturbed_by(deletion, observed, {"vm-a"})
    assert [one.subject.name for one in found if one.experience is Experience.GOES_WITH_VM] == [
        USB,
        CD,
        "vmxnet3 NIC (MAC 00:50:56:80:00:02)",
    ]
