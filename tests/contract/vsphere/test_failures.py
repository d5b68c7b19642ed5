"""A VM's history and its log, read from the lab and from vcsim."""

from __future__ import annotations

import pytest

from tests.contract.vcenters import VCenter
from vgpu_cfg.errors import ReachError
from vgpu_cfg.ports import ReadScope
from vgpu_cfg.vsphere.history.failures import FailureReader


def test_a_start_that_failed_is_found_in_the_history(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        inventory = desk.inventory(ReadScope(everything=True))
        vm = next(one for one in inventory.vms if one.name == vcenter.template)
        # A template cannot be powered on, nor can a VM that runs.
        desk.done(desk.writer.power_on_vm(vm.moid))
        found = FailureReader(desk.session, vcenter.connect()).read_history(vm.moid)
        assert found.failed is not None
        assert found.failed.operation == "VirtualMachine.powerOn"
        assert found.failed.user
        assert found.failed.fault in ("InvalidPowerState", "InvalidState", "NotSupported")
        assert found.failed.error
        assert found.failed.ended_at is not None


def test_the_log_of_a_vm_that_runs_is_fetched(vcenter: VCenter) -> None:
    if vcenter.kind == "lab":
        pytest.skip("nothing runs in a new lab; tests/cli/test_explain.py reads a log of its")
    with vcenter.desk() as desk:
        inventory = desk.inventory()
        vm = next(one for one in inventory.vms if one.is_on)
        (datacenter,) = inventory.datacenters
        log = FailureReader(desk.session, vcenter.connect()).read_log(vm.moid, datacenter.inventory_path)
        assert log.path.endswith(f"{vm.name}/vmware.log")
        assert log.first == 1
        assert log.lines


def test_a_log_of_another_datacenter_is_an_error(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        vm = desk.inventory().vms[0]
        reader = FailureReader(desk.session, vcenter.connect())
        with pytest.raises(ReachError) as caught:
            reader.read_log(vm.moid, "/nowhere")
        assert caught.value.remedy
