"""Renaming, folders and other hosts: still true, done, and read back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.fake_locks import undisputed
from tests.fakes.fake_vcenter import FakeVCenter
from tests.unit.execution.makers import add_own_vm, estate, plan_of, reconfigure, run, statuses
from vgpu_cfg.changes.change import Change, RelocateVm
from vgpu_cfg.changes.kinds.vm_spec import VmSpec
from vgpu_cfg.execution import Run
from vgpu_cfg.model.observed.inventory import Datastore, Folder, Host
from vgpu_cfg.model.observed.vm import PowerState
from vgpu_cfg.planning.upkeep.drain import move
from vgpu_cfg.planning.vms import existing_vms
from vgpu_cfg.planning.vms.relocate import relocation, rename, to_folder

TRAINING, OTHER = Folder(moid="group-1", name="training"), Folder(moid="group-2", name="other")
HOSTS = (
    Host(moid="host-1", name="esx-01", compute_moid="domain-c1"),
    Host(moid="host-2", name="esx-02", compute_moid="domain-c1"),
)


def own(**fields: Any) -> FakeVCenter:
    server = estate()
    add_own_vm(server, "hvd-01", "vm-1", folder_moid="group-2", **fields)
    return server


def renamed(server: FakeVCenter) -> Change:
    server.change_vm("hvd-01", name="other")
    return rename(server.vm("other"), "hvd-01")


def moved(server: FakeVCenter, *, with_store: bool = True) -> RelocateVm:
    vm = server.vms["vm-1"]
    store = ("vsan", Datastore(moid="datastore-2", name="nfs")) if with_store else None
    return relocation(vm, "hvd-01", *HOSTS, datastore=store, is_running=vm.is_on)


def test_a_vm_of_another_name_gets_its_own_by_its_mark() -> None:
    server = own()
    change = renamed(server)
    after = reconfigure("hvd-01", "vm-1", VmSpec(settings={"cpus": 8}), needs=(change.id,))
    report, _ = run(server, change, after)
    assert set(statuses(report).values()) == {"done"}
    assert server.started("rename_vm") == ["other"]
    assert server.vm("hvd-01").moid == "vm-1"


def test_a_name_without_an_id_in_the_mark_proves_nothing() -> None:
    server = own()
    server.change_vm("hvd-01", name="other")
    detail = server.vm("other").detail
    assert detail is not None
    extra = {"vgpu_cfg.plan": "demo", "vgpu_cfg.vm": "hvd-01"}
    server.change_vm("other", detail=detail.model_copy(update={"extra_config": extra}))
    report, _ = run(server, rename(server.vm("other"), "hvd-01"))
    assert "no longer belongs to this plan" in report.outcomes[0].message
    assert server.calls == []


def test_a_vm_goes_to_its_folder() -> None:
    server = own()
    report, _ = run(server, to_folder(server.vm("hvd-01"), "hvd-01", OTHER, TRAINING))
    assert statuses(report) == {"put into its folder hvd-01": "done"}
    assert server.vm("hvd-01").folder_moid == "group-1"


@pytest.mark.parametrize("state", [PowerState.ON, PowerState.OFF])
def test_a_vm_goes_to_another_host_and_datastore(state: PowerState) -> None:
    server = own(power_state=state)
    report, _ = run(server, moved(server))
    assert statuses(report) == {"move hvd-01": "done"}
    vm = server.vm("hvd-01")
    assert (vm.host_moid, vm.detail and vm.detail.datastore_moids) == ("host-2", ("datastore-2",))


def test_what_is_there_already_is_not_done_again() -> None:
    server = own()
    plan = (
        to_folder(server.vm("hvd-01"), "hvd-01", OTHER, TRAINING),
        renamed(server),
        moved(server, with_store=False),
    )
    server.change_vm("other", name="hvd-01", folder_moid="group-1", host_moid="host-2")
    report, _ = run(server, *plan)
    assert set(statuses(report).values()) == {"not_needed"}
    assert server.calls == []


def test_a_vm_that_was_switched_off_meanwhile_is_not_moved_in_another_way() -> None:
    server = own(power_state=PowerState.ON)
    change = moved(server)
    server.change_vm("hvd-01", power_state=PowerState.OFF)
    report, _ = run(server, change)
    assert "is not running, but its move was planned while it was running" in report.outcomes[0].message
    assert server.started("relocate_vm") == []


def test_a_vm_that_does_not_show_where_it_was_moved_is_a_failure() -> None:
    server = own(power_state=PowerState.ON)
    server.moves_to = "host-9"
    report, _ = run(server, moved(server))
    assert "is not on esx-02 after its migration" in report.outcomes[0].message


@pytest.mark.parametrize("change", [move, existing_vms.switch_off])
def test_a_vm_that_somebody_took_from_its_host_is_left_alone_by_work_on_that_host(change: Any) -> None:
    server = own(power_state=PowerState.ON)
    (vm,) = server.read_vms(["vm-1"])
    planned = change(vm, *HOSTS, is_running=True) if change is move else change(vm)
    server.change_vm("hvd-01", host_moid="host-3")
    mark = vm.mark.text if vm.mark is not None else ""
    report = Run(
        plan_of(planned, others={"vm-1": mark}), server, server, server, locks=undisputed()
    ).carry_out()
    assert "has moved to another host since planning" in report.outcomes[0].message
    assert server.calls == []
