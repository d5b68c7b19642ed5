from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.fakes.fake_locks import undisputed
from tests.fakes.fake_vcenter import FakeVCenter
from tests.unit.execution.makers import (
    PLAN,
    SCOPE,
    TEMPLATE,
    TEMPLATE_DETAIL,
    add_own_vm,
    create,
    destroy,
    estate,
    mark,
    plan_of,
    power_off,
    power_on,
    reconfigure,
    run,
    spec_of,
    statuses,
)
from vgpu_cfg.changes.change import (
    Change,
    MoveVmToFolder,
    RelocateVm,
    RemoveRule,
    RemoveVmGroup,
    RenameVm,
    SetAttributes,
    SetHostRule,
    SetRule,
    UpgradeVm,
)
from vgpu_cfg.changes.kinds.move_vm import Destination
from vgpu_cfg.changes.kinds.vm_spec import NewVgpu, RemoveDevice, VmSpec
from vgpu_cfg.changes.report import Report
from vgpu_cfg.changes.values import Subject, VmRef
from vgpu_cfg.execution import Run, missing_from
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import PowerState, VgpuDevice, VirtualDisk, Vm, VmDetail
from vgpu_cfg.ports import ReadScope

C40 = "grid_a100-40c"
DROPPED_BY_CLONE = frozenset(
    {"hardware_version", "firmware", "cpus", "memory", "memory_reservation", "extra_config"}
)


# ------------------------------------------------------------- create


def shows_all(server: FakeVCenter, name: str) -> bool:
    """Whether a VM shows what was planned for it, its mark with what the run adds."""
    (vm,) = server.read_vms([server.vm(name).moid])
    spec = spec_of(name)
    marked = spec.model_copy(
        update={"extra_config": {**spec.extra_config, **(vm.mark.pairs if vm.mark else {})}}
    )
    return vm.is_of(PLAN) and missing_from(vm, marked).is_empty


def test_a_server_that_honours_the_request_needs_one_task_to_make_a_vm() -> None:
    server = estate()
    report, _ = run(server, create("hvd-01"))
    assert report.tasks == 1
    assert shows_all(server, "hvd-01")
    assert report.outcomes[0].vm_moid == server.vm("hvd-01").moid
    assert report.left_behind == ()


def test_what_a_clone_dropped_is_set_by_one_upgrade_and_one_reconfigure() -> None:
    server = estate(drops=DROPPED_BY_CLONE)
    report, events = run(server, create("hvd-01"))
    assert [method for method, _ in server.calls] == ["create_vm", "upgrade_vm", "reconfigure_vm"]
    assert shows_all(server, "hvd-01")
    assert statuses(report) == {"create hvd-01": "done"}
    assert any("vCenter ignored version, firmware" in event.message for event in events)


def test_a_dropped_hardware_version_alone_takes_no_reconfigure() -> None:
    server = estate(drops=frozenset({"hardware_version"}))
    run(server, create("hvd-01"))
    assert [method for method, _ in server.calls] == ["create_vm", "upgrade_vm"]


def test_a_vm_that_still_lacks_something_is_not_confirmed_and_named() -> None:
    server = estate(drops=frozenset({"firmware"}))
    apply = server._apply

    def without_firmware(moid: str, spec: VmSpec) -> None:
        settings = {key: value for key, value in spec.settings.items() if key != "firmware"}
        apply(moid, spec.model_copy(update={"settings": settings}))

    server._apply = without_firmware  # type: ignore[method-assign]  # the fake is bent for this test
    report, _ = run(server, create("hvd-01"))
    assert statuses(report) == {"create hvd-01": "failed"}
    assert report.outcomes[0].message == "hvd-01 does not have the requested settings: firmware"
    assert tuple(map(str, report.left_behind)) == ("hvd-01: created, but without firmware",)


@pytest.mark.parametrize(("late", "status"), [(1, "done"), (2, "failed")], ids=["once", "for good"])
def test_a_vm_that_is_told_as_it_was_before_its_task_is_looked_at_once_more(late: int, status: str) -> None:
    class Late(FakeVCenter):
        def read_vms(
            self, moids: Iterable[str], extra_config_keys: frozenset[str] = frozenset()
        ) -> tuple[Vm, ...]:
            # Before the task it is looked at once, too.
            is_late = 1 < len(self.looks) <= 1 + late
            return (before,) if is_late else super().read_vms(moids, extra_config_keys)

    server = Late()
    add_own_vm(server, "hvd-01", "vm-7")
    (before,) = server.read_vms(["vm-7"])
    report, _ = run(server, reconfigure("hvd-01", "vm-7", VmSpec(settings={"memory": 4096})))
    assert statuses(report) == {"reconfigure hvd-01": status}


def test_a_vgpu_of_the_template_is_no_answer_to_a_new_one() -> None:
    server = estate(drops=frozenset({"devices"}))
    held = TEMPLATE_DETAIL.model_copy(update={"vgpus": (VgpuDevice(key=13000, profile=C40),)})
    server.add_vm("ubuntu-22.04-efi", "vm-template", held)
    run(server, create("hvd-01"))
    detail = server.vm("hvd-01").detail
    assert detail is not None
    assert [vgpu.profile for vgpu in detail.vgpus] == [C40, C40]


def test_a_clone_that_failed_leaves_nothing_behind_and_tells_vcenters_words() -> None:
    text = "The amount of graphics resource available in the parent resource pool is insufficient."
    server = estate(failures={("create_vm", 1): ("InsufficientGraphicsResourcesFault", text)})
    report, _ = run(server, create("hvd-01"))
    assert report.left_behind == ()
    assert text in report.outcomes[0].message
    assert "sharedDirect" in report.outcomes[0].cause
    assert report.outcomes[0].tasks == ("task-1",)


# ------------------------------------------------------------- reconfigure


def test_a_profile_is_replaced_not_added() -> None:
    server = estate()
    add_own_vm(server, "hvd-01", "vm-7", VmDetail(vgpus=(VgpuDevice(key=13000, profile="grid_a100-20c"),)))
    spec = VmSpec(devices=(RemoveDevice(key=13000, was="vGPU grid_a100-20c"), NewVgpu(profile=C40)))
    report, _ = run(server, reconfigure("hvd-01", "vm-7", spec))
    assert statuses(report) == {"reconfigure hvd-01": "done"}
    detail = server.vm("hvd-01").detail
    assert detail is not None
    assert [vgpu.profile for vgpu in detail.vgpus] == [C40]


def test_a_vm_that_changed_since_it_was_planned_is_not_touched() -> None:
    server = estate()
    add_own_vm(server, "hvd-01", "vm-7")
    detail = server.vm("hvd-01").detail
    assert detail is not None
    spec = VmSpec(settings={"cpus": 32}, change_version=detail.change_version)
    report, _ = run(server, reconfigure("hvd-01", "vm-7", spec))
    assert statuses(report) == {"reconfigure hvd-01": "done"}
    report, _ = run(server, reconfigure("hvd-01", "vm-7", spec.model_copy(update={"cpus": 8})))
    assert "was changed by another user" in report.outcomes[0].message
    assert report.tasks == 0


def test_vcenter_itself_refuses_what_moved_at_the_last_moment() -> None:
    server = estate()
    add_own_vm(server, "hvd-01", "vm-7")
    server.failures["reconfigure_vm", 1] = ("ConcurrentAccess", "The object has been changed.")
    report, _ = run(server, reconfigure("hvd-01", "vm-7", VmSpec(settings={"cpus": 32})))
    assert "the VM was changed after vgpu-cfg read its state" in report.outcomes[0].cause


def in_power_cycle(server: FakeVCenter, spec: VmSpec) -> Report:
    """Power `hvd-01` off and reconfigure it, as it was planned from what is there now."""
    detail = server.vm("hvd-01").detail
    assert detail is not None
    off = power_off("hvd-01", "vm-7")
    planned = spec.model_copy(update={"change_version": detail.change_version})
    return run(server, off, reconfigure("hvd-01", "vm-7", planned, needs=(off.id,)))[0]


@pytest.mark.parametrize("late_moves", [0, 1, 2])
def test_a_version_that_a_power_off_moves_late_harms_nothing(late_moves: int) -> None:
    class Late(FakeVCenter):
        def reconfigure_vm(self, moid: str, spec: VmSpec) -> str:
            if len(self.started("reconfigure_vm")) < late_moves:
                self.change_vm("hvd-01")
            return super().reconfigure_vm(moid, spec)

    server = Late()
    add_own_vm(server, "hvd-01", "vm-7", power_state=PowerState.ON)
    report = in_power_cycle(server, VmSpec(settings={"cpus": 32}))
    assert set(statuses(report).values()) == {"done"}
    assert server.vm("hvd-01").detail.cpus == 32  # type: ignore[union-attr]  # it is there, or the test fails
    assert len(server.started("reconfigure_vm")) == 1 + late_moves


def test_what_somebody_changed_amid_a_power_cycle_is_not_overwritten() -> None:
    class Busy(FakeVCenter):
        def reconfigure_vm(self, moid: str, spec: VmSpec) -> str:
            self.change_vm("hvd-01", detail=VmDetail(cpus=5, extra_config=mark("hvd-01")))
            return super().reconfigure_vm(moid, spec)

    server = Busy()
    add_own_vm(server, "hvd-01", "vm-7", power_state=PowerState.ON)
    report = in_power_cycle(server, VmSpec(settings={"cpus": 32}))
    assert statuses(report)["reconfigure hvd-01"] == "failed"
    assert len(server.started("reconfigure_vm")) == 1
    assert server.vm("hvd-01").detail.cpus == 5  # type: ignore[union-attr]  # it is there, or the test fails


def test_a_version_that_never_rests_is_given_up() -> None:
    class Restless(FakeVCenter):
        def reconfigure_vm(self, moid: str, spec: VmSpec) -> str:
            self.change_vm("hvd-01")
            return super().reconfigure_vm(moid, spec)

    server = Restless()
    add_own_vm(server, "hvd-01", "vm-7", power_state=PowerState.ON)
    report = in_power_cycle(server, VmSpec(settings={"cpus": 32}))
    assert statuses(report)["reconfigure hvd-01"] == "failed"
    assert len(server.started("reconfigure_vm")) == 3


def test_a_new_vm_that_cannot_be_read_is_not_given_its_devices_twice() -> None:
    class Blind(FakeVCenter):
        def read_vms(
            self, moids: Iterable[str], extra_config_keys: frozenset[str] = frozenset()
        ) -> tuple[Vm, ...]:
            found = super().read_vms(moids, extra_config_keys)
            return tuple(vm if vm.is_template else vm.model_copy(update={"detail": None}) for vm in found)

    server = Blind()
    server.add_vm(TEMPLATE.name, "vm-template", TEMPLATE_DETAIL, is_template=True)
    report, _ = run(server, create("a"))
    assert statuses(report) == {"create a": "failed"}
    assert "cannot read a's details" in report.outcomes[0].message
    assert [method for method, _ in server.calls] == ["create_vm"]
    assert tuple(map(str, report.left_behind)) == ("a: created, but not yet verified",)


def test_a_vm_that_moved_or_has_gone_is_a_stale_plan() -> None:
    server = estate()
    add_own_vm(server, "hvd-01", "vm-7", host_moid="host-2")
    moved, _ = run(server, reconfigure("hvd-01", "vm-7", VmSpec(settings={"cpus": 32})))
    assert "has moved to another host" in moved.outcomes[0].message
    gone, _ = run(server, reconfigure("hvd-02", "vm-8", VmSpec(settings={"cpus": 32})))
    assert "no longer exists" in gone.outcomes[0].message
    assert server.calls == []


def test_this_runs_own_changes_do_not_make_its_plan_stale() -> None:
    server = estate()
    add_own_vm(server, "hvd-01", "vm-7")
    detail = server.vm("hvd-01").detail
    assert detail is not None
    version = detail.change_version
    ref = VmRef(name="hvd-01", moid="vm-7")
    raise_it = UpgradeVm(
        id="upgrade hvd-01", subject=Subject(kind="vm", name="hvd-01"), vm=ref, hardware_version=22
    )
    change = reconfigure(
        "hvd-01", "vm-7", VmSpec(settings={"cpus": 32}, change_version=version), needs=("upgrade hvd-01",)
    )
    report, _ = run(server, raise_it, change)
    assert set(statuses(report).values()) == {"done"}
    assert server.vm("hvd-01").detail.cpus == 32  # type: ignore[union-attr]  # it is there, or the test fails


def test_unified_memory_of_a_new_vgpu_takes_a_second_request() -> None:
    server = estate()
    add_own_vm(server, "hvd-01", "vm-7")
    spec = VmSpec(devices=(NewVgpu(profile=C40, uvm=True),))
    report, _ = run(server, reconfigure("hvd-01", "vm-7", spec))
    assert statuses(report) == {"reconfigure hvd-01": "done"}
    assert report.tasks == 2
    assert server.vm("hvd-01").detail.extra_config["pciPassthru0.cfg.enable_uvm"] == "1"  # type: ignore[union-attr]  # it is there, or the test fails


# ------------------------------------------------------------- upgrade


def test_a_hardware_version_that_is_there_needs_no_task() -> None:
    server = estate()
    add_own_vm(server, "hvd-01", "vm-7")
    change = UpgradeVm(
        id="upgrade hvd-01",
        subject=Subject(kind="vm", name="hvd-01"),
        vm=VmRef(name="hvd-01", moid="vm-7"),
        hardware_version=21,
    )
    report, _ = run(server, change)
    assert statuses(report) == {"upgrade hvd-01": "not_needed"}
    assert server.calls == []


def test_a_running_vm_is_not_upgraded() -> None:
    server = estate()
    add_own_vm(server, "hvd-01", "vm-7", power_state=PowerState.ON)
    change = UpgradeVm(
        id="upgrade hvd-01",
        subject=Subject(kind="vm", name="hvd-01"),
        vm=VmRef(name="hvd-01", moid="vm-7"),
        hardware_version=22,
    )
    report, _ = run(server, change)
    assert statuses(report) == {"upgrade hvd-01": "failed"}
    assert server.calls == []


# ------------------------------------------------------------- power off, destroy


def test_a_vm_is_shut_down_by_its_guest_where_that_can_be() -> None:
    server = estate(guests_shut_down_after=5.0)
    add_own_vm(server, "hvd-01", "vm-7", power_state=PowerState.ON)
    report, _ = run(server, power_off("hvd-01", "vm-7"))
    assert server.calls == [("shut_down_guest", "hvd-01")]
    assert report.outcomes[0].message == "shut down through the guest OS"
    assert not server.vm("hvd-01").is_on


def test_a_guest_without_tools_is_switched_off() -> None:
    server = estate()
    add_own_vm(server, "hvd-01", "vm-7", power_state=PowerState.ON)
    report, _ = run(server, power_off("hvd-01", "vm-7"))
    assert server.started("power_off_vm") == ["hvd-01"]
    assert statuses(report) == {"power off hvd-01": "done"}


def test_a_guest_that_takes_too_long_is_switched_off_unless_that_is_forbidden() -> None:
    server = estate(guests_shut_down_after=1e6)
    add_own_vm(server, "hvd-01", "vm-7", power_state=PowerState.ON)
    report, _ = run(server, power_off("hvd-01", "vm-7"), options={"force_power_off": False})
    assert "did not shut down within 300 s" in report.outcomes[0].message
    assert server.started("power_off_vm") == []
    report, events = run(server, power_off("hvd-01", "vm-7"))
    assert statuses(report) == {"power off hvd-01": "done"}
    assert any("powering it off" in event.message for event in events)


def test_a_vm_that_is_off_or_gone_need_not_be_switched_off() -> None:
    server = estate()
    add_own_vm(server, "hvd-01", "vm-7")
    report, _ = run(server, power_off("hvd-01", "vm-7"), power_off("hvd-02", "vm-8"))
    assert set(statuses(report).values()) == {"not_needed"}
    assert server.calls == []


def test_a_vm_is_destroyed_once_it_is_off() -> None:
    server = estate()
    add_own_vm(server, "hvd-01", "vm-7", power_state=PowerState.ON)
    report, _ = run(
        server, power_off("hvd-01", "vm-7"), destroy("hvd-01", "vm-7", needs=("power off hvd-01",))
    )
    assert set(statuses(report).values()) == {"done"}
    assert "vm-7" not in server.vms


@pytest.mark.parametrize(("attached", "status"), [([], "done"), (["u2"], "failed")])
def test_a_vm_with_a_disk_that_its_deletion_does_not_list_is_not_deleted(
    attached: list[str], status: str
) -> None:
    server = estate()
    disks = tuple(
        VirtualDisk(key=key, capacity_mib=1, controller_key=1000, uuid=uuid)
        for key, uuid in enumerate(["u1", *attached])
    )
    add_own_vm(server, "hvd-01", "vm-7", VmDetail(disks=disks))
    change = destroy("hvd-01", "vm-7").model_copy(update={"disks": ("u1",)})
    report, _ = run(server, change)
    assert statuses(report) == {"destroy hvd-01": status}
    assert ("vm-7" in server.vms) is bool(attached)


def test_a_running_vm_is_not_destroyed_and_a_gone_one_is_gone() -> None:
    server = estate()
    add_own_vm(server, "hvd-01", "vm-7", power_state=PowerState.ON)
    report, _ = run(server, destroy("hvd-01", "vm-7"), destroy("hvd-02", "vm-8"))
    assert statuses(report) == {"destroy hvd-01": "failed", "destroy hvd-02": "not_needed"}
    assert server.calls == []


def test_what_is_not_this_plans_any_more_is_neither_switched_off_nor_destroyed() -> None:
    server = estate()
    host = {"host_moid": "host-1"}
    server.add_vm("unmarked", "vm-1", VmDetail(), **host)
    server.add_vm(
        "another-plan", "vm-2", VmDetail(extra_config=mark("another-plan") | {"vgpu_cfg.plan": "x"}), **host
    )
    server.add_vm("renamed", "vm-3", VmDetail(extra_config=mark("hvd-03")), **host)
    server.add_vm("copy", "vm-4", VmDetail(extra_config=mark("original")), **host)
    names = {"unmarked": "vm-1", "another-plan": "vm-2", "hvd-03": "vm-3", "copy": "vm-4"}
    report, _ = run(
        server,
        *(destroy(name, moid) for name, moid in names.items()),
        *(power_off(name, moid) for name, moid in names.items()),
    )
    assert set(statuses(report).values()) == {"failed"}
    assert all("no longer belongs to this plan" in outcome.message for outcome in report.outcomes)
    assert server.calls == []
    assert len(server.vms) == 5


# ------------------------------------------------------------- rules


def test_a_rule_ties_vms_that_the_run_itself_made() -> None:
    server = estate()
    rule = SetRule(
        id="set rule demo-hvd",
        subject=Subject(kind="cluster", name="gpu"),
        cluster_moid="domain-1",
        rule_name="demo-hvd",
        vms=(VmRef(name="a"), VmRef(name="b")),
        needs=("create a", "create b"),
    )
    report, _ = run(server, create("a"), create("b"), rule)
    assert set(statuses(report).values()) == {"done"}
    assert server.rules == {"demo-hvd": (server.vm("a").moid, server.vm("b").moid)}
    remove = RemoveRule(
        id="remove rule", subject=rule.subject, cluster_moid="domain-1", rule_name="demo-hvd", rule_key=1
    )
    run(server, remove)
    assert server.rules == {}


def test_a_vm_group_with_its_rule_ties_vms_that_the_run_itself_made() -> None:
    server = estate()
    rule = SetHostRule(
        id="set rule demo:hosts",
        subject=Subject(kind="cluster", name="gpu"),
        cluster_moid="domain-1",
        rule_name="demo:hosts",
        vm_group="demo",
        host_group="even",
        vms=(VmRef(name="a"),),
        needs=("create a",),
    )
    report, _ = run(server, create("a"), rule)
    assert set(statuses(report).values()) == {"done"}
    assert server.vm_groups == {"demo": (server.vm("a").moid,)}
    assert server.rules == {"demo:hosts": ("demo", "even")}
    moid, subject = rule.cluster_moid, rule.subject
    away = RemoveRule(id="r", subject=subject, cluster_moid=moid, rule_name="demo:hosts", rule_key=1)
    group = RemoveVmGroup(id="g", subject=subject, cluster_moid=moid, group_name="demo", needs=("r",))
    report, _ = run(server, away, group)
    assert set(statuses(report).values()) == {"done"}
    assert (server.rules, server.vm_groups) == ({}, {})


def test_a_vm_that_was_never_made_cannot_be_resolved() -> None:
    server = estate()
    rule = SetRule(
        id="set rule",
        subject=Subject(kind="cluster", name="gpu"),
        cluster_moid="d",
        rule_name="r",
        vms=(VmRef(name="a"),),
    )
    report = Run(plan_of(rule), server, server, server, locks=undisputed()).carry_out()
    assert "was not created" in report.outcomes[0].message


# ------------------------------------------------------- as the plan was made of it


def by_what_was_read(server: FakeVCenter, spec: VmSpec, seconds: float = 0.0) -> Report:
    """Reconfigure `hvd-01` by how it is read now, so many seconds later."""
    observed = server.read_inventory(SCOPE)
    (vm,) = (one for one in observed.vms if one.name == "hvd-01")
    assert vm.detail is not None
    server.pause(seconds)
    planned = spec.model_copy(update={"change_version": vm.detail.change_version})
    return run(server, reconfigure("hvd-01", "vm-7", planned), observed=observed)[0]


@pytest.mark.parametrize(("seconds", "looks"), [(0, 1), (60, 1), (61, 2)])
def test_a_vm_is_looked_at_before_it_is_changed_where_its_reading_is_old(seconds: int, looks: int) -> None:
    server = estate()
    add_own_vm(server, "hvd-01", "vm-7")
    report = by_what_was_read(server, VmSpec(settings={"cpus": 32}), seconds)
    assert statuses(report) == {"reconfigure hvd-01": "done"}
    assert len(server.looks) == looks


def test_what_somebody_changed_since_the_reading_is_not_overwritten() -> None:
    server = estate()
    add_own_vm(server, "hvd-01", "vm-7")
    observed = server.read_inventory(SCOPE)
    planned = VmSpec(settings={"cpus": 32}, change_version=server.vm("hvd-01").detail.change_version)  # type: ignore[union-attr]  # it is there, or the test fails
    server.change_vm("hvd-01", detail=VmDetail(cpus=5, extra_config=mark("hvd-01")))
    report, _ = run(server, reconfigure("hvd-01", "vm-7", planned), observed=observed)
    assert statuses(report) == {"reconfigure hvd-01": "failed"}
    assert server.vm("hvd-01").detail.cpus == 5  # type: ignore[union-attr]  # it is there, or the test fails


@pytest.mark.parametrize("tags", [None, {"team": ("ml",)}])
def test_tags_which_only_the_estates_reading_tells_are_no_change_of_somebodys(
    tags: dict[str, tuple[str, ...]] | None,
) -> None:
    class Tagged(FakeVCenter):
        def read_inventory(self, scope: ReadScope) -> Inventory:
            found = super().read_inventory(scope)
            vms = (
                vm.model_copy(update={"detail": vm.detail and vm.detail.model_copy(update={"tags": tags})})
                for vm in found.vms
            )
            return found.model_copy(update={"vms": tuple(vms)})

        def reconfigure_vm(self, moid: str, spec: VmSpec) -> str:
            if not self.started("reconfigure_vm"):
                self.change_vm("hvd-01")  # nothing but its version
            return super().reconfigure_vm(moid, spec)

    server = Tagged()
    add_own_vm(server, "hvd-01", "vm-7")
    report = by_what_was_read(server, VmSpec(settings={"cpus": 32}))
    assert statuses(report) == {"reconfigure hvd-01": "done"}


def test_a_late_version_harms_nothing_where_the_vm_has_another_name_in_vcenter() -> None:
    class Late(FakeVCenter):
        def reconfigure_vm(self, moid: str, spec: VmSpec) -> str:
            if not self.started("reconfigure_vm"):
                self.change_vm("other")
            return super().reconfigure_vm(moid, spec)

    server = Late()
    add_own_vm(server, "hvd-01", "vm-7")
    server.change_vm("hvd-01", name="other")
    detail = server.vm("other").detail
    assert detail is not None
    spec = VmSpec(settings={"cpus": 32}, change_version=detail.change_version)
    report, _ = run(server, reconfigure("hvd-01", "vm-7", spec))
    assert statuses(report) == {"reconfigure hvd-01": "done"}


Lie = Callable[[Vm, Vm], Vm | None]


@dataclass
class Lying(FakeVCenter):
    """Once anything was written, shows of a VM what `lie` makes of it and of the VM as it was before."""

    lie: Lie = lambda now, _: now
    before: dict[str, Vm] = field(default_factory=dict)

    def read_vms(
        self, moids: Iterable[str], extra_config_keys: frozenset[str] = frozenset()
    ) -> tuple[Vm, ...]:
        found = super().read_vms(moids, extra_config_keys)
        if not self.calls:
            self.before |= {one.moid: one for one in found}
            return found
        told = (self.lie(one, self.before.get(one.moid, one)) for one in found)
        return tuple(one for one in told if one is not None)


LIES: dict[str, Lie] = {
    "gone": lambda _now, _before: None,
    "as before": lambda _now, before: before,
    "without details": lambda now, _: now.model_copy(update={"detail": None}),
    "without a host": lambda now, _: now.model_copy(update={"host_moid": None}),
    "of another name": lambda now, _: now.model_copy(update={"name": "other"}),
    "suspended": lambda now, _: now.model_copy(update={"power_state": PowerState.SUSPENDED}),
}
REF = VmRef(name="a", moid="vm-1")
OF_A: dict[str, Any] = {"id": "change a", "subject": Subject(kind="vm", name="a"), "vm": REF}
WRITES: dict[str, Change] = {
    "reconfigure": reconfigure("a", "vm-1", VmSpec(settings={"cpus": 32})),
    "upgrade": UpgradeVm(**OF_A, hardware_version=22),
    "power on": power_on("a", moid="vm-1", needs=()),
    "set attributes": SetAttributes(**OF_A, values={"team": "ml"}),
    "move to a folder": MoveVmToFolder(**OF_A, folder_moid="group-1", source_moid="group-2"),
    "rename": RenameVm(**{**OF_A, "vm": VmRef(name="b", moid="vm-1")}),
    "create": create("b"),
    "power off": power_off("a", "vm-1"),
    "destroy": destroy("a", "vm-1"),
    "relocate": RelocateVm(
        **OF_A, destination=Destination(host_moid="host-2", host_name="esx-02"), source_moid="host-1"
    ),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("name", WRITES)
def test_what_is_shown_after_a_change_is_told_as_it_is_stored(name: str, lie: str) -> None:
    server = Lying(gpus={"host-1": {}}, lie=LIES[lie])
    server.add_vm(TEMPLATE.name, "vm-template", TEMPLATE_DETAIL, is_template=True)
    state: dict[str, Any] = {"power_state": PowerState.ON} if name == "power off" else {}
    add_own_vm(server, "a", "vm-1", folder_moid="group-2", **state)
    report, _ = run(server, WRITES[name])
    assert len(report.outcomes) == 1


@pytest.mark.parametrize("name", WRITES)
def test_a_task_that_fails_is_told_as_it_is_stored(name: str) -> None:
    makes = ("create_vm", "reconfigure_vm", "upgrade_vm", "power_on_vm", "power_off_vm", "destroy_vm")
    moves = ("rename_vm", "move_vm_to_folder", "relocate_vm")
    failures = {(one, 1): ("no way", "no way") for one in (*makes, *moves)}
    server = Lying(gpus={"host-1": {}}, failures=failures)
    server.add_vm(TEMPLATE.name, "vm-template", TEMPLATE_DETAIL, is_template=True)
    state: dict[str, Any] = {"power_state": PowerState.ON} if name == "power off" else {}
    add_own_vm(server, "a", "vm-1", folder_moid="group-2", **state)
    report, _ = run(server, WRITES[name])
    assert len(report.outcomes) == 1
