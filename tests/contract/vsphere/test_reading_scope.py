"""Of which hosts a reading knows the VMs in detail, though they have no GPU."""

from __future__ import annotations

import pytest

from tests.contract.vcenters import VCenter, lab_vcenter
from vgpu_cfg.cli.flows.flow import scope_of
from vgpu_cfg.model.desired import DesiredHosts, DesiredPlan
from vgpu_cfg.ports import HostScope, ReadScope
from vgpu_cfg.vsphere.reading.reader import EVERYTHING


@pytest.mark.parametrize(
    ("meant", "found"),
    [
        (HostScope(), {"web-01", "web-02", "old"}),
        (HostScope(cluster="GPU"), {"web-01", "web-02", "old"}),
        (HostScope(cluster="/dc1/host/gpu", names=("ESX-plain-02*",)), {"old"}),
        (HostScope(cluster="host/gpu/", names=("esx-plain-01.lab", "esx-other-*")), {"web-01", "web-02"}),
        (HostScope(cluster="pu"), set()),
        (HostScope(cluster="ost/gpu"), set()),
        (HostScope(names=("esx-plain-02",)), set()),
        (None, set()),
    ],
)
def test_vms_on_hosts_that_the_plan_prepares_are_read_in_detail(
    meant: HostScope | None, found: set[str]
) -> None:
    with lab_vcenter("no-gpu").desk() as desk:
        inventory = desk.inventory(ReadScope(hosts=() if meant is None else (meant,)))
    on_hosts = [vm for vm in inventory.vms if not vm.is_template]
    assert {vm.name for vm in on_hosts if vm.detail is not None} == found
    assert all(vm.detail.memory_mib for vm in on_hosts if vm.detail is not None)


@pytest.mark.parametrize(
    ("hosts", "found"),
    [
        ((DesiredHosts(cluster="gpu", names=("esx-plain-01.*",)),), {"web-01", "web-02"}),
        (
            (DesiredHosts(names=("esx-plain-02.lab",)), DesiredHosts(names=("esx-plain-01.lab",))),
            {"web-01", "web-02", "old"},
        ),
        ((), set()),
    ],
)
def test_a_plan_reads_the_vms_on_the_hosts_that_it_prepares(
    hosts: tuple[DesiredHosts, ...], found: set[str]
) -> None:
    desired = DesiredPlan(name="prepare", vcenter="lab", hosts=hosts)
    with lab_vcenter("no-gpu").desk() as desk:
        inventory = desk.inventory(scope_of(desired))
    assert {vm.name for vm in inventory.vms if vm.detail is not None and not vm.is_template} == found


def test_a_scope_of_hosts_reads_no_more_of_them_than_everything_does(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        some = desk.inventory(ReadScope(hosts=(HostScope(),)))
        whole = desk.inventory(EVERYTHING)
    known = whole.vm_by_moid
    for vm in some.vms:
        assert vm.detail is None or vm == known[vm.moid]
    assert {vm.moid for vm in some.vms if vm.host_moid} == {vm.moid for vm in some.vms if vm.detail}
