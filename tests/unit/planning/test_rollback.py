"""What takes each kind of change back, or why nothing does: VG555, VG556, and VG557 before the run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, get_args

import pytest

from tests.unit.render.samples import READ_AT, estate, everything, own_vm, plan_of
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes import change as kinds
from vgpu_cfg.changes.change import (
    AwaitCustomization,
    Change,
    CreateVm,
    DestroyVm,
    ManualStep,
    MarkVm,
    PowerOffVm,
    PowerOnVm,
    ReconfigureVm,
    RemoveVmGroup,
    SetHostRule,
    SetReservation,
    SetTags,
    StageGuest,
    UpgradeVm,
)
from vgpu_cfg.changes.kinds.vm_spec import PolicyRef, SetDiskPolicy, VmSpec
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Outcome, OutcomeStatus
from vgpu_cfg.changes.values import Subject, VmRef
from vgpu_cfg.model.guests.guest import GuestSpec
from vgpu_cfg.model.observed.drs import VmGroup, VmHostRule
from vgpu_cfg.model.observed.inventory import Inventory, StoragePolicy
from vgpu_cfg.model.observed.own_items import Tag
from vgpu_cfg.model.observed.vm import OwnerMark, PowerState, VirtualDisk, Vm
from vgpu_cfg.model.reservations import KeptReservation, Reservation, Reservations, ReservedGpus
from vgpu_cfg.planning.rollback.rollback import make_rollback, with_no_way_back

PLAYED = "tests/cli/test_rollback.py plays it on the lab"
HERE = "a test of this file"
IMAGES = "test_rollback_of_cases.py tells it, of host-driver-by-image"
OF_OTHER_COMMANDS = "no command that takes a rollback plans it; its inverse is tested here or told"

ANSWERS: Mapping[str, str] = {
    "create_vm": PLAYED,
    "upgrade_vm": HERE,
    "reconfigure_vm": PLAYED,
    "mark_vm": HERE,
    "set_attributes": PLAYED,
    "set_tags": HERE,
    "set_overrides": PLAYED,
    "power_on_vm": PLAYED,
    "power_off_vm": PLAYED,
    "destroy_vm": HERE,
    "rename_vm": PLAYED,
    "move_vm_to_folder": PLAYED,
    "relocate_vm": PLAYED,
    "set_rule": PLAYED,
    "set_host_rule": HERE,
    "remove_rule": PLAYED,
    "remove_vm_group": HERE,
    "enter_maintenance": PLAYED,
    "change_host": PLAYED,
    "restart_service": PLAYED,
    "reboot_host": PLAYED,
    "cold_boot_host": HERE,
    "remediate_host": IMAGES,
    "shut_down_host": HERE,
    "exit_maintenance": PLAYED,
    "set_cordon": OF_OTHER_COMMANDS,
    "set_reservation": HERE,
    "await_customization": HERE,
    "set_cluster_option": PLAYED,
    "set_vcenter_option": PLAYED,
    "set_image": IMAGES,
    "change_network": PLAYED,
    "stage_guest": HERE,
    "pause_training": HERE,
    "resume_training": HERE,
    "manual_step": HERE,
}
"""Where it is shown that a change of each kind is taken back, or told."""


def test_every_kind_of_change_has_an_answer() -> None:
    union = get_args(get_args(kinds.Change)[0])
    assert {kind.model_fields["kind"].default for kind in union} == ANSWERS.keys()


def outcomes(plan: Plan, **fields: Any) -> list[Outcome]:
    made = {"status": OutcomeStatus.DONE, "started_at": READ_AT, **fields}
    return [Outcome(change_id=one.id, subject=one.subject, **made) for one in plan.changes]


def undone(before: Inventory, after: Inventory, *changes: Change, **fields: Any) -> Plan:
    plan = plan_of(*changes)
    return make_rollback(plan, outcomes(plan, **fields), before, after, load_catalog())


def told(plan: Plan) -> list[tuple[str, str]]:
    return [(one.code, one.message) for one in plan.diagnostics]


def of_vm(kind: type[Any], name: str = "hvd-01", moid: str | None = "vm-1", **fields: Any) -> Any:
    subject = Subject(kind="vm", name=name, moid=moid)
    return kind(id=f"{kind.__name__} {name}", subject=subject, vm=VmRef(name=name, moid=moid), **fields)


def vm_at(moid: str, *, is_on: bool = True, mark: OwnerMark | None = None, **fields: Any) -> Vm:
    return own_vm(moid, "hvd-01", 0, is_on=is_on).model_copy(update={"mark": mark, **fields})


def made_by_the_run(**fields: Any) -> OwnerMark:
    made = {"plan": "demo", "vm": "hvd-01", "id": PLAN.desired.id, "instance_uuid": UUID, "made_at": READ_AT}
    return OwnerMark(**{**made, **fields})


UUID = "5d0b1a4e-6f0c-4c35-9d0e-7f1f6a3c2b77"
PLAN = plan_of().model_copy(
    update={"desired": plan_of().desired.model_copy(update={"id": "0d5b1a4e-6f0c-4c35-9d0e-7f1f6a3c2b11"})}
)


def rolled_back(vm: Vm) -> Plan:
    """Take back a run that made `vm`, as vCenter said."""
    create = next(one for one in everything().changes if isinstance(one, CreateVm))
    create = create.model_copy(update={"vm": VmRef(name="hvd-01"), "needs": ()})
    plan = PLAN.model_copy(update={"changes": (create,)})
    found = outcomes(plan, vm_moid=vm.moid)
    return make_rollback(plan, found, estate(), estate(vm), load_catalog())


def test_a_vm_that_the_run_made_is_deleted_by_its_instance_uuid() -> None:
    plan = rolled_back(vm_at("vm-9", mark=made_by_the_run(), instance_uuid=UUID))
    off, gone = plan.changes
    assert isinstance(off, PowerOffVm)
    assert isinstance(gone, DestroyVm)
    assert (gone.vm.moid, gone.instance_uuid, gone.needs) == ("vm-9", UUID, (off.id,))
    assert plan.diagnostics == ()


@pytest.mark.parametrize(
    "mark",
    [
        None,
        made_by_the_run(made_at=READ_AT - timedelta(minutes=1)),
        made_by_the_run(is_imported=True),
        made_by_the_run(instance_uuid="another"),
        made_by_the_run(id="1d5b1a4e-6f0c-4c35-9d0e-7f1f6a3c2b11"),
    ],
    ids=["no mark", "an older one", "imported", "a copy's", "another plan's"],
)
def test_what_does_not_carry_the_mark_of_this_run_is_left(mark: OwnerMark | None) -> None:
    plan = rolled_back(vm_at("vm-9", mark=mark, instance_uuid=UUID))
    assert plan.changes == ()
    assert [code for code, _ in told(plan)] == ["VG556"]


@pytest.mark.parametrize(
    ("at", "kinds_then", "codes"),
    [
        (("a", None), ["power_off_vm", "reconfigure_vm", "destroy_vm"], []),
        (("a", "snapshot-1"), [], ["VG556"]),
        (("vm", None), [], ["VG556"]),
    ],
)
def test_a_disk_that_was_attached_to_it_since_is_spared(
    at: tuple[str, str | None], kinds_then: list[str], codes: list[str]
) -> None:
    vm = vm_at("vm-9", mark=made_by_the_run(disks=("u1",)), instance_uuid=UUID)
    own, other = (
        VirtualDisk(
            key=2000 + number,
            capacity_mib=1,
            controller_key=1000,
            uuid=f"u{number + 1}",
            file=f"[v] {('vm', at[0])[number]}/{number}.vmdk",
        )
        for number in range(2)
    )
    assert vm.detail is not None
    detail = vm.detail.model_copy(update={"disks": (own, other), "snapshot_moid": at[1]})
    plan = rolled_back(vm.model_copy(update={"detail": detail}))
    assert [one.kind for one in plan.changes] == kinds_then
    assert [code for code, _ in told(plan)] == codes
    assert [one.subject.name for one in plan.disturbed] == (["[v] a/1.vmdk"] if kinds_then else [])


HOST_GROUP = VmHostRule(key=4, name="mine", is_enabled=True, is_mandatory=True, vm_group="g", host_group="h")


def with_rules(*rules: VmHostRule, groups: tuple[VmGroup, ...] = ()) -> Inventory:
    found = estate(vm_at("vm-1"))
    cluster = found.clusters[0].model_copy(update={"host_rules": rules, "vm_groups": groups})
    return found.model_copy(update={"clusters": (cluster,)})


def host_rule(**fields: Any) -> SetHostRule:
    return SetHostRule(
        id="set rule mine in gpu",
        subject=Subject(kind="cluster", name="gpu", moid="domain-1"),
        cluster_moid="domain-1",
        rule_name="mine",
        vm_group="g",
        host_group="h",
        vms=(VmRef(name="hvd-01", moid="vm-1"),),
        **fields,
    )


def test_a_rule_and_its_group_that_were_not_there_go_in_that_order() -> None:
    group = VmGroup(name="g", vm_moids=("vm-1",))
    plan = undone(with_rules(), with_rules(HOST_GROUP, groups=(group,)), host_rule())
    assert [one.kind for one in plan.changes] == ["remove_rule", "remove_vm_group"]
    assert plan.changes[1].needs == (plan.changes[0].id,)


def test_a_rule_that_went_comes_back_with_its_group() -> None:
    group = VmGroup(name="g", vm_moids=("vm-1",))
    removed = RemoveVmGroup(
        id="remove VM group g in gpu",
        subject=Subject(kind="cluster", name="gpu", moid="domain-1"),
        cluster_moid="domain-1",
        group_name="g",
    )
    before = with_rules(HOST_GROUP, groups=(group,))
    plan = undone(before, with_rules(), host_rule(rule_key=4, has_group=True), removed)
    (again,) = plan.changes
    assert isinstance(again, SetHostRule)
    assert (again.vm_group, again.has_group, again.rule_key) == ("g", False, None)
    assert told(undone(with_rules(groups=(group,)), with_rules(), removed)) == [
        ("VG555", "remove VM group g in gpu: VM groups without a rule are not recreated")
    ]


def tagged(**tags: tuple[str, ...]) -> Inventory:
    vm = vm_at("vm-1")
    assert vm.detail is not None
    return estate(vm.model_copy(update={"detail": vm.detail.model_copy(update={"tags": tags})}))


DAILY, WEEKLY = (Tag(category="Backup", name=name, id=f"urn:{name}") for name in ("daily", "weekly"))


@pytest.mark.parametrize(
    ("before", "after", "detach", "attach"),
    [
        ({"Backup": ("weekly",)}, {"Backup": ("daily",)}, (DAILY,), (WEEKLY,)),
        ({}, {"Backup": ("daily",)}, (DAILY,), ()),
        ({"Backup": ("daily", "weekly")}, {"Backup": ("daily",)}, (), (WEEKLY,)),
    ],
    ids=["one for another", "it had none", "it had it already"],
)
def test_tags_that_the_run_gave_go_and_those_that_it_took_come_back(
    before: Any, after: Any, detach: Any, attach: Any
) -> None:
    change = of_vm(SetTags, detach=(WEEKLY,), attach=(DAILY,))
    (back,) = undone(tagged(**before), tagged(**after), change).changes
    assert isinstance(back, SetTags)
    assert (back.detach, back.attach) == (detach, attach)


def test_tags_that_are_as_before_are_left() -> None:
    change = of_vm(SetTags, detach=(WEEKLY,), attach=(DAILY,))
    assert undone(tagged(Backup=("weekly",)), tagged(Backup=("weekly",)), change).changes == ()


GUEST = GuestSpec(plan="demo", vm="hvd-01")
STANDING = estate(vm_at("vm-1"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (of_vm(UpgradeVm, hardware_version=21), "a hardware version cannot be downgraded"),
        (of_vm(DestroyVm), "a deleted VM and its disks cannot be restored"),
        (
            of_vm(StageGuest, spec=GUEST, modules=("hosts",)),
            "components installed in the guest are not removed",
        ),
        (of_vm(AwaitCustomization, wait_seconds=60), "customization in the guest cannot be undone"),
        (of_vm(MarkVm, spec=VmSpec(), mark="none"), "the VM no longer has a mark"),
        (ManualStep(id="by hand", subject=Subject(kind="host", name="esx-01"), text="turn it"), "by hand"),
    ],
    ids=["upgrade", "delete", "guest", "customisation", "mark", "by hand"],
)
def test_what_nothing_undoes_is_told(change: Change, words: str) -> None:
    plan = undone(STANDING, STANDING, change)
    assert plan.changes == ()
    (found,) = told(plan)
    assert found[0] == "VG555"
    assert words in found[1]


def with_policy(policy: str) -> Inventory:
    """The estate where the VM's home and disk have a storage policy."""
    vm = vm_at("vm-1")
    assert vm.detail is not None
    disks = (VirtualDisk(key=2000, capacity_mib=1024, controller_key=1000, policy=policy),)
    detail = vm.detail.model_copy(update={"home_policy": policy, "disks": disks})
    known = tuple(StoragePolicy(id=f"{name}-id", name=name) for name in ("gold", "silver"))
    found = estate(vm.model_copy(update={"detail": detail}))
    return found.model_copy(update={"vcenter": found.vcenter.model_copy(update={"storage_policies": known})})


def test_storage_policies_come_back_where_there_were_some() -> None:
    gold, silver = (PolicyRef(id=f"{name}-id", name=name) for name in ("gold", "silver"))
    spec = VmSpec(home_policy=silver, devices=(SetDiskPolicy(key=2000, policy=silver),))
    change = of_vm(ReconfigureVm, spec=spec)
    (back,) = undone(with_policy("gold-id"), with_policy("silver-id"), change).changes
    assert isinstance(back, ReconfigureVm)
    assert back.spec.home_policy == gold
    assert back.spec.devices == (SetDiskPolicy(key=2000, policy=gold),)
    assert undone(with_policy("gold-id"), with_policy("gold-id"), change).changes == ()
    assert {code for code, _ in told(undone(with_policy(""), with_policy("silver-id"), change))} == {"VG555"}


def test_a_vm_that_was_taken_in_loses_its_mark_again() -> None:
    mark = of_vm(MarkVm, spec=VmSpec(extra_config={"vgpu_cfg.plan": "demo"}), mark="imported")
    after = estate(vm_at("vm-1", mark=made_by_the_run(is_imported=True)))
    (gone,) = undone(STANDING, after, mark).changes
    assert isinstance(gone, MarkVm)
    assert (gone.mark, gone.spec.extra_config) == ("none", {"vgpu_cfg.plan": ""})


def test_a_vm_that_was_suspended_is_told() -> None:
    before = estate(vm_at("vm-1").model_copy(update={"power_state": PowerState.SUSPENDED}))
    for change in (of_vm(PowerOnVm), of_vm(PowerOffVm)):
        after = estate(vm_at("vm-1", is_on=isinstance(change, PowerOnVm)))
        assert [code for code, _ in told(undone(before, after, change))] == ["VG555"]


def test_what_did_not_begin_and_what_was_so_already_is_not_undone() -> None:
    off = estate(vm_at("vm-1", is_on=False))
    for status in (OutcomeStatus.SKIPPED, OutcomeStatus.NOT_NEEDED):
        assert undone(STANDING, off, of_vm(PowerOffVm), status=status).changes == ()
    for status in (OutcomeStatus.DONE, OutcomeStatus.FAILED):
        assert [one.kind for one in undone(STANDING, off, of_vm(PowerOffVm), status=status).changes] == [
            "power_on_vm"
        ]


def test_what_has_no_way_back_is_told_before_the_run() -> None:
    plan = with_no_way_back(plan_of(of_vm(UpgradeVm, hardware_version=21), of_vm(PowerOffVm)))
    assert told(plan) == [("VG557", "UpgradeVm hvd-01: a hardware version cannot be downgraded")]
    assert with_no_way_back(plan_of(of_vm(PowerOffVm))).diagnostics == ()


def test_what_was_reserved_is_given_back_or_as_it_was() -> None:
    held = ReservedGpus(cluster="cluster-gpu", label="gpu", board="A100", gpus=2)
    ends = READ_AT + timedelta(days=2)
    first = Reservation(plan="demo", begins=READ_AT, ends=ends, holds=(held,))
    longer = first.model_copy(update={"ends": ends + timedelta(days=1)})

    def kept(*reservations: Reservation) -> Inventory:
        found = tuple(
            KeptReservation(moid="alarm-7", name=one.alarm_name, reservation=one) for one in reservations
        )
        return estate().model_copy(update={"reservations": Reservations(now=READ_AT, kept=found)})

    def change(after: Reservation | None, alarm: str) -> SetReservation:
        subject = Subject(kind="plan", name="demo")
        return SetReservation(id="reserve GPUs", subject=subject, reservation=after, alarm=alarm)

    for before, after, made in (
        (kept(), kept(first), change(first, "")),
        (kept(first), kept(longer), change(longer, "alarm-7")),
        (kept(first), kept(), change(None, "alarm-7")),
    ):
        (back,) = undone(before, after, made).changes
        assert isinstance(back, SetReservation)
        assert before.reservations is not None
        assert after.reservations is not None
        was = [one.reservation for one in before.reservations.kept] or [None]
        assert [back.reservation] == was
        assert back.alarm == ("alarm-7" if after.reservations.kept else "")
    assert undone(kept(first), kept(first), change(longer, "alarm-7")).changes == ()
