"""The owner mark as a run writes it: complete, true of the very VM, and asked for before a deletion."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.fakes.fake_locks import undisputed
from tests.fakes.fake_vcenter import START, FakeVCenter, uuid_of
from tests.unit.execution.makers import (
    PLAN,
    PLAN_ID,
    TEMPLATE,
    TEMPLATE_DETAIL,
    add_own_vm,
    create,
    destroy,
    estate,
    mark,
    plan_of,
    power_on,
    reconfigure,
    run,
    spec_of,
    statuses,
)
from vgpu_cfg.changes.change import CreateVm, MarkVm, RemoveRule, RemoveVmGroup
from vgpu_cfg.changes.kinds.vm_spec import NewNic, NicBacking, VmSpec
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.execution import Run
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.vm import OwnerMark, TemplateSeen, Vm, VmDetail

ASKED = "5c0e7a31-9d2b-4f4e-8a60-1b2c3d4e5f60"
OTHER_ID = "aaaaaaaa-1111-4222-8333-bbbbbbbbbbbb"


def seen(server: FakeVCenter, name: str) -> Vm:
    (vm,) = server.read_vms([server.vm(name).moid])
    return vm


def marked(name: str, moid: str, **more: str) -> VmDetail:
    fields = {"plan": "demo", "vm": name, "id": PLAN_ID, "instance_uuid": uuid_of(moid)} | more
    return VmDetail(extra_config=OwnerMark.model_validate(fields).pairs)


def test_a_new_vm_gets_the_instance_uuid_that_its_mark_names() -> None:
    server = estate()
    report, _ = run(server, create("hvd-01"), user="LAB\\jo doe", make_id=lambda: ASKED)
    assert report.tasks == 1
    vm, template = seen(server, "hvd-01"), server.vm("ubuntu-22.04-efi")
    assert vm.instance_uuid == ASKED
    assert vm.mark == OwnerMark(
        plan="demo",
        vm="hvd-01",
        id=PLAN_ID,
        instance_uuid=ASKED,
        made_by="LAB\\jo doe",
        made_at=START,
        nics=(),
        new_nics=0,
        pci=("grid_a100-40c",),
        template=TemplateSeen(name=template.name, instance_uuid=template.instance_uuid, version="v1"),
    )


def test_where_the_server_gave_another_instance_uuid_the_mark_is_mended_before_the_power_on() -> None:
    server = estate(drops=frozenset({"instance_uuid"}))
    report, _ = run(server, create("hvd-01"), power_on("hvd-01"))
    assert [method for method, _ in server.calls] == ["create_vm", "reconfigure_vm", "power_on_vm"]
    assert set(statuses(report).values()) == {"done"}
    vm = seen(server, "hvd-01")
    assert vm.mark is not None
    assert vm.mark.instance_uuid == vm.instance_uuid
    assert vm.is_of(PLAN)


class WithoutMac(FakeVCenter):
    """A vCenter that drops the MAC addresses of new NICs from a request."""

    def create_vm(self, change: CreateVm, instance_uuid: str | None = None) -> str:
        devices = tuple(
            one.model_copy(update={"mac": None}) if isinstance(one, NewNic) else one
            for one in change.spec.devices
        )
        spec = change.spec.model_copy(update={"devices": devices})
        return super().create_vm(change.model_copy(update={"spec": spec}), instance_uuid)


@pytest.mark.parametrize("drops", [frozenset(), frozenset({"instance_uuid"})])
def test_a_nic_that_lacks_its_mac_gets_it_with_the_mended_mark_and_is_not_added_again(
    drops: frozenset[str],
) -> None:
    server = WithoutMac(gpus={"host-1": {"0000:3b:00.0": 0}}, drops=drops)
    server.add_vm(TEMPLATE.name, "vm-template", TEMPLATE_DETAIL, is_template=True)
    backing = NicBacking(network_moid="network-1", network_name="VM Network")
    nic = NewNic(backing=backing, mac="00:50:56:00:00:01")
    spec = spec_of("hvd-01")
    run(server, create("hvd-01", spec=spec.model_copy(update={"devices": (*spec.devices, nic)})))
    detail = seen(server, "hvd-01").detail
    assert detail is not None
    assert [one.mac for one in detail.nics] == [nic.mac]
    assert server.started("reconfigure_vm") == ["hvd-01"]


def test_a_mark_without_an_id_is_completed_by_who_does_it_now() -> None:
    server = estate()
    server.add_vm("hvd-01", "vm-7", VmDetail(extra_config=mark("hvd-01")), host_moid="host-1")
    change = reconfigure("hvd-01", "vm-7", VmSpec(extra_config=mark("hvd-01")))
    report, _ = run(server, change, user="jo")
    assert statuses(report) == {"reconfigure hvd-01": "done"}
    found = seen(server, "hvd-01").mark
    assert found is not None
    assert (found.id, found.instance_uuid, found.made_by) == (PLAN_ID, uuid_of("vm-7"), "jo")


def test_a_mark_under_a_former_name_keeps_its_maker_and_its_date() -> None:
    server = estate()
    at = START - timedelta(days=9)
    before = OwnerMark(
        plan="former", vm="hvd-01", id=PLAN_ID, instance_uuid=uuid_of("vm-7"), made_by="ann", made_at=at
    )
    server.add_vm("hvd-01", "vm-7", VmDetail(extra_config=before.pairs), host_moid="host-1")
    run(server, reconfigure("hvd-01", "vm-7", VmSpec(extra_config=mark("hvd-01"))), user="jo")
    assert seen(server, "hvd-01").mark == before.model_copy(update={"plan": "demo"})


def test_a_plan_without_an_id_marks_nothing() -> None:
    server = estate()
    plan = plan_of(create("hvd-01"), desired=DesiredPlan(name="demo", vcenter="prod"))
    with pytest.raises(ValueError, match="requires an ID"):
        Run(plan, server, server, server, locks=undisputed()).carry_out()
    assert server.calls == []


DENIED = {
    "of version 0.1.0": (VmDetail(extra_config=mark("hvd-01")), "has no plan ID"),
    "of a plan with another id": (marked("hvd-01", "vm-7", id=OTHER_ID), f"the plan ID {OTHER_ID}"),
    "of a clone": (marked("hvd-01", "vm-1"), "so it is a copy"),
    "of another plan and another id": (
        marked("hvd-01", "vm-7", plan="x", id=OTHER_ID),
        "its owner mark is x/hvd-01",
    ),
    "none": (VmDetail(), "it has no owner mark"),
    "half eaten": (
        VmDetail(extra_config=mark("hvd-01") | {"vgpu_cfg.plan": f"demo id={PLAN_ID}"}),
        "has no plan ID",
    ),
}


@pytest.mark.parametrize("case", DENIED)
def test_no_vm_is_deleted_whose_mark_does_not_prove_it_the_plans(case: str) -> None:
    detail, words = DENIED[case]
    server = estate()
    server.add_vm("hvd-01", "vm-7", detail, host_moid="host-1")
    add_own_vm(server, "hvd-02", "vm-8")
    report, _ = run(server, destroy("hvd-01", "vm-7"), destroy("hvd-02", "vm-8"))
    assert statuses(report) == {"destroy hvd-01": "failed", "destroy hvd-02": "done"}
    assert words in report.outcomes[0].message
    assert report.outcomes[0].remedy
    assert "vm-7" in server.vms


def test_a_vm_whose_instance_uuid_was_changed_since_is_not_deleted() -> None:
    server = estate()
    add_own_vm(server, "hvd-01", "vm-7")
    server.change_vm("hvd-01", instance_uuid=OTHER_ID)
    report, _ = run(server, destroy("hvd-01", "vm-7"))
    assert statuses(report) == {"destroy hvd-01": "failed"}
    assert server.calls == []


def test_a_vm_with_another_instance_uuid_than_planned_is_not_deleted() -> None:
    server = estate()
    add_own_vm(server, "hvd-01", "vm-7")
    report, _ = run(server, destroy("hvd-01", "vm-7", instance_uuid=OTHER_ID))
    assert f"its instance UUID is {uuid_of('vm-7')}, not {OTHER_ID}" in report.outcomes[0].message
    assert server.calls == []
    report, _ = run(server, destroy("hvd-01", "vm-7", instance_uuid=uuid_of("vm-7").upper()))
    assert statuses(report) == {"destroy hvd-01": "done"}


def test_a_vm_of_the_plan_under_its_former_name_is_deleted() -> None:
    server = estate()
    server.add_vm("hvd-01", "vm-7", marked("hvd-01", "vm-7", plan="former"), host_moid="host-1")
    report, _ = run(server, destroy("hvd-01", "vm-7"))
    assert statuses(report) == {"destroy hvd-01": "done"}


@pytest.mark.parametrize("whose", ["another plan's", "a copy"])
def test_a_rule_or_group_that_holds_a_vm_of_others_is_not_removed(whose: str) -> None:
    server = estate()
    add_own_vm(server, "hvd-01", "vm-7")
    detail = marked("x", "vm-8", id=OTHER_ID) if whose == "another plan's" else marked("hvd-01", "vm-7")
    server.add_vm("x", "vm-8", detail, host_moid="host-1")
    server.vm_groups["vgpu-cfg:demo:l"] = ("vm-7", "vm-8")
    server.rules["vgpu-cfg:demo:l"] = ("vm-7", "vm-8")
    server.rules["vgpu-cfg:demo:m"] = ("vm-7",)
    subject = Subject(kind="cluster", name="gpu")
    rules = [
        RemoveRule(id=name, subject=subject, cluster_moid="c", rule_name=f"vgpu-cfg:demo:{name}", rule_key=1)
        for name in ("l", "m", "gone")
    ]
    group = RemoveVmGroup(id="group", subject=subject, cluster_moid="c", group_name="vgpu-cfg:demo:l")
    report, _ = run(server, *rules, group)
    assert statuses(report) == {"l": "failed", "m": "done", "gone": "not_needed", "group": "failed"}
    assert "it contains x, which is not a VM in this plan" in report.outcomes[0].message
    assert (set(server.rules), set(server.vm_groups)) == ({"vgpu-cfg:demo:l"}, {"vgpu-cfg:demo:l"})


def mark_vm(name: str, moid: str, kind: str = "imported", **pairs: str) -> MarkVm:
    return MarkVm.model_validate(
        {
            "id": f"import {name}",
            "subject": Subject(kind="vm", name=name),
            "vm": {"name": name, "moid": moid},
            "spec": {"extra_config": pairs or mark(name)},
            "mark": kind,
        }
    )


def test_a_vm_that_runs_is_taken_in_by_a_mark_that_says_so() -> None:
    server = estate()
    server.add_vm("hvd-01", "vm-7", VmDetail(), host_moid="host-1")
    report, _ = run(server, mark_vm("hvd-01", "vm-7"), user="jo")
    assert set(statuses(report).values()) == {"done"}
    assert seen(server, "hvd-01").mark == OwnerMark(
        plan="demo",
        vm="hvd-01",
        id=PLAN_ID,
        instance_uuid=uuid_of("vm-7"),
        made_by="jo",
        made_at=START,
        is_imported=True,
    )
    report, _ = run(server, mark_vm("hvd-01", "vm-7", "none", **dict.fromkeys(mark("hvd-01"), "")))
    assert set(statuses(report).values()) == {"done"}
    assert seen(server, "hvd-01").mark is None


@pytest.mark.parametrize("found", [{"id": PLAN_ID}, {"plan": "other", "id": OTHER_ID}])
def test_a_vm_that_got_a_mark_meanwhile_is_not_taken_in(found: dict[str, str]) -> None:
    server = estate()
    server.add_vm("hvd-01", "vm-7", marked("hvd-01", "vm-7", **found), host_moid="host-1")
    report, _ = run(server, mark_vm("hvd-01", "vm-7"))
    assert (set(statuses(report).values()), server.calls) == ({"failed"}, [])
    assert "is no longer the VM to be imported" in report.failed[0].message


def test_a_reconfigured_vm_stays_imported_and_is_not_deleted_at_the_last_look() -> None:
    server = estate()
    text = OwnerMark(
        plan="demo", vm="hvd-01", id=PLAN_ID, instance_uuid=uuid_of("vm-7"), is_imported=True
    ).pairs
    server.add_vm("hvd-01", "vm-7", VmDetail(extra_config=text), host_moid="host-1")
    run(server, reconfigure("hvd-01", "vm-7", VmSpec(extra_config=mark("hvd-01"))))
    found = seen(server, "hvd-01").mark
    assert found is not None
    assert found.is_imported
    report, _ = run(server, destroy("hvd-01", "vm-7"))
    assert [method for method, _ in server.calls if method == "destroy_vm"] == []
    assert "it was imported after the plan was made" in report.failed[0].message
