"""The guards of reach, each with what it keeps a run from; `tests/mutants/guards.py` takes each away once."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from tests.unit.planning.desired_plans import codes, estate, own, plan_for, planned, vm
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import EnterMaintenance
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.values import HostRef, Subject
from vgpu_cfg.execution.run.scheduler import Waves, Windows
from vgpu_cfg.model.desired import DesiredPlan, ProtectingContext
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.host_settings.resolved_host import hosts_of
from vgpu_cfg.planning.upkeep.away import AwayHost
from vgpu_cfg.planning.upkeep.cordon import make_cordon_plan
from vgpu_cfg.planning.upkeep.drain import DrainOptions, make_drain
from vgpu_cfg.planning.upkeep.targets import one_host, targets_of, within_reach
from vgpu_cfg.planning.vms.destroy import make_destroy_plan
from vgpu_cfg.planning.vms.expiry import make_expiry_plan
from vgpu_cfg.planning.vms.ownership import make_forget_plan, make_import_plan

GPUS = {"gpus": [{"board": "A100", "pci": "0000:21:00.0", "node": 0}]}
TWO: dict[str, Any] = {"beside": {"dc2": {"hosts": {"esx-02": GPUS}}, "unread": {"hosts": {"esx-03": GPUS}}}}
OFF = own(power="poweredOff")
PAST = date(2026, 11, 1)


def subjects(plan: Plan) -> list[str]:
    return sorted({change.subject.name for change in plan.changes})


def hosts(observed: Inventory, datacenter: str | None = "dc1", **entry: Any) -> list[str]:
    desired = plan_for(datacenter=datacenter, hosts=[{"mode": "check", **entry}])
    return [host.name for host in hosts_of(desired.hosts[0], desired, observed)]


def protecting(**globs: Any) -> dict[str, Any]:
    return {"protect": globs}


def without_places(observed: Inventory) -> Inventory:
    """Return an estate whose folders and clusters the account may not read."""
    return observed.model_copy(update={"folders": observed.folders[:0], "clusters": ()})


# ------------------------------------------------------- datacenter, cluster


def test_hosts_of_another_datacenter_are_not_meant() -> None:
    assert hosts(estate(**TWO), names=["esx-*"]) == ["esx-01"]
    assert hosts(estate(**TWO), "dc2", names=["esx-*"]) == ["esx-02"]


def test_a_cluster_of_another_datacenter_is_not_meant() -> None:
    assert hosts(estate(**TWO), cluster="gpu") == ["esx-01"]


@pytest.mark.parametrize("datacenter", ["dc1", None])
def test_a_host_whose_datacenter_is_unread_is_not_meant(datacenter: str | None) -> None:
    observed = estate(beside={"unread": TWO["beside"]["unread"]})
    assert hosts(observed, datacenter, names=["esx-*"]) == ["esx-01"]


def test_no_host_is_meant_in_a_datacenter_that_is_not_there() -> None:
    assert hosts(estate(**TWO), "dc9", names=["esx-*"]) == []


def test_hosts_of_another_cluster_are_not_meant() -> None:
    rows: dict[str, Any] = {
        "hosts": {"esx-01": GPUS, "db-01": GPUS | {"cluster": "db"}},
        "clusters": {"gpu": {}, "db": {}},
    }
    assert hosts(estate(**rows), cluster="gpu") == ["esx-01"]
    assert hosts(estate(**rows), names=["db-*"]) == ["db-01"]


def test_a_cluster_name_that_two_clusters_have_means_no_host() -> None:
    rows: dict[str, Any] = {
        "hosts": {"esx-01": GPUS | {"cluster": "a/gpu"}, "esx-02": GPUS | {"cluster": "b/gpu"}},
        "clusters": {"a/gpu": {}, "b/gpu": {}},
    }
    assert hosts(estate(**rows), cluster="gpu") == []


def test_a_vm_is_not_placed_in_another_datacenter() -> None:
    rows: dict[str, Any] = {"hosts": {"esx-01": {}}, **TWO}
    wanted = plan_for(vm("a", "grid_a100-20c", clusters=()))
    here = wanted.model_copy(update={"datacenter": "dc1"})
    assert codes(planned(here, estate(**rows))) == ["VG504"]
    there = planned(wanted.model_copy(update={"datacenter": "dc2"}), estate(**rows))
    assert [one.host_name for one in there.placements] == ["esx-02"]


def test_a_vm_is_not_placed_in_another_cluster() -> None:
    rows: dict[str, Any] = {
        "hosts": {"esx-01": {}, "db-01": GPUS | {"cluster": "db"}},
        "clusters": {"gpu": {}, "db": {}},
    }
    assert not planned(plan_for(vm("a", "grid_a100-20c")), estate(**rows)).placements


def test_a_switch_of_another_datacenter_is_not_changed() -> None:
    row: dict[str, Any] = {
        "switches": {"dvs": {"uuid": "50 0f"}},
        "networks": {"roce": {"kind": "distributed"}},
    }
    observed = estate(**row, beside={"dc2": row})
    network = {"name": "roce", "switch": "dvs", "mtu": 9000}
    plan = planned(plan_for(datacenter="dc1", networks=[network]), observed)
    assert [change.subject.moid for change in plan.changes] == ["dvs-dvs"]


@pytest.mark.parametrize(("datacenter", "refused"), [("dc1", []), ("dc2", ["VG506"]), (None, [])])
def test_upkeep_keeps_to_the_datacenter_that_is_named(datacenter: str | None, refused: list[str]) -> None:
    observed = estate(**TWO)
    plan = make_cordon_plan(targets_of(["host:esx-01"], observed), observed, "new DIMM")
    reach = DesiredPlan(name="upkeep", vcenter="vc.example", datacenter=datacenter)
    assert codes(within_reach(plan, reach, observed)) == refused


@pytest.mark.parametrize(("clusters", "refused"), [(("gpu",), ["VG004"]), (("db",), [])])
def test_upkeep_leaves_clusters_alone_that_a_context_protects(
    clusters: tuple[str, ...], refused: list[str]
) -> None:
    observed = estate()
    plan = make_cordon_plan(targets_of(["host:esx-01"], observed), observed, "new DIMM")
    context = ProtectingContext.model_validate(
        {"name": "prod", "file": "config.yaml", "protect": {"clusters": clusters}}
    )
    reach = DesiredPlan(name="upkeep", vcenter="vc.example", contexts=(context,))
    assert codes(within_reach(plan, reach, observed)) == refused


# ---------------------------------------------------------- folder and owner


@pytest.mark.parametrize(("folder", "made"), [("training", False), ("attic", True)])
def test_a_strangers_vm_of_the_same_name_is_not_taken_for_ones_own(folder: str, *, made: bool) -> None:
    observed = estate({"a": OFF | {"mark": False, "folder": folder, "name": "a"}}, folders=["attic"])
    plan = planned(plan_for(vm("a")), observed)
    assert ("create a" in [change.id for change in plan.changes]) is made
    assert (codes(plan) == ["VG001"]) is not made


@pytest.mark.parametrize(
    "theirs",
    [{"mark": False}, {"mark": "another/a"}, {"marked": {"for": "b"}}, {"marked": {"id": "another"}}],
)
def test_a_vm_of_another_owner_is_not_deleted(theirs: dict[str, Any]) -> None:
    observed = estate({"a": OFF | theirs})
    assert make_destroy_plan(plan_for(vm("a")), observed).changes == ()


def test_a_mark_without_an_id_counts_in_its_folder_only() -> None:
    old = OFF | {"marked": {"id": None}, "folder": "attic"}
    observed = estate({"a": old}, folders=["attic"])
    assert make_forget_plan(plan_for(vm("a")), observed, PlanOptions()).changes == ()


def test_an_orphan_in_a_folder_that_no_line_names_is_kept() -> None:
    observed = estate({"gone": OFF | {"folder": "attic"}}, folders=["attic"])
    plan = planned(plan_for(vm("a", "grid_a100-20c")), observed, delete=("gone",))
    assert "gone" not in subjects(plan)


def test_an_orphan_that_nobody_names_is_kept() -> None:
    plan = planned(plan_for(vm("a", "grid_a100-20c")), estate({"gone": OFF}))
    assert subjects(plan) == ["a"]


# ------------------------------------------------------------------- protect

_OLD = vm("a", expires=PAST)


@pytest.mark.parametrize("command", ["apply", "destroy", "delete", "expired", "import"])
@pytest.mark.parametrize("unread", [False, True])
def test_what_is_protected_is_not_written(command: str, *, unread: bool) -> None:
    globs = {"folders": ["/dc1/vm/elsewhere"]} if unread else {"folders": ["/dc1/vm/training"]}
    observed = estate({"a": own(cpus=4) if command != "import" else OFF | {"mark": False}})
    if unread:
        vms = tuple(one.model_copy(update={"folder_moid": "group-unread"}) for one in observed.vms)
        observed = observed.model_copy(update={"vms": vms})
    context = {"name": "prod", "file": "config.yaml", "protect": globs}
    desired = plan_for(vm("b" if command == "delete" else "a", expires=PAST), contexts=[context])
    options = PlanOptions(delete=("a",) if command == "delete" else ())
    if unread and command in ("delete", "import"):
        return  # such a VM is in no folder of the plan's, and so neither an orphan nor taken in
    plan = {
        "apply": lambda: planned(desired, observed),
        "destroy": lambda: make_destroy_plan(desired, observed),
        "delete": lambda: make_destroy_plan(desired, observed, options),
        "expired": lambda: make_expiry_plan(desired, observed),
        "import": lambda: make_import_plan(desired, observed, options),
    }[command]()
    assert "VG004" in {one.code for one in plan.errors}


def test_a_protected_vm_is_left_as_it_is() -> None:
    plan = planned(plan_for(vm("a"), **protecting(names=["a"])), estate({"a": own(cpus=4)}))
    assert (codes(plan), plan.changes) == (["VG004"], ())


@pytest.mark.parametrize(("names", "refused"), [(["a*"], ["VG004"]), (["b"], [])])
def test_a_protected_name_is_not_deleted(names: list[str], refused: list[str]) -> None:
    assert (
        codes(make_destroy_plan(plan_for(vm("a"), **protecting(names=names)), estate({"a": OFF}))) == refused
    )


def test_hosts_of_a_protected_cluster_are_not_prepared() -> None:
    entry = {"names": ["esx-01"], "graphics_type": "shared"}
    plan = planned(plan_for(hosts=[entry], **protecting(clusters=["gpu"])), estate())
    assert (codes(plan), plan.changes) == (["VG004"], ())
    assert planned(plan_for(hosts=[entry]), estate()).changes


def test_options_of_a_protected_cluster_are_not_set() -> None:
    entry = {"names": ["esx-01"], "cluster_options": {"drs": {"Foo": "1"}}}
    assert planned(plan_for(hosts=[entry]), estate()).changes
    assert not planned(plan_for(hosts=[entry], **protecting(clusters=["gpu"])), estate()).changes


def test_hosts_whose_cluster_is_unread_are_not_prepared_where_clusters_are_protected() -> None:
    entry, observed = {"names": ["esx-01"], "graphics_type": "shared"}, estate()
    observed = observed.model_copy(update={"clusters": ()})
    plan = planned(plan_for(hosts=[entry], **protecting(clusters=["db"])), observed)
    assert (codes(plan), plan.changes) == (["VG004"], ())
    assert planned(plan_for(hosts=[entry]), observed).changes


def test_a_vm_is_not_placed_in_a_protected_cluster() -> None:
    wanted = vm("a", "grid_a100-20c", clusters=())
    assert planned(plan_for(wanted), estate()).placements
    assert not planned(plan_for(wanted, **protecting(clusters=["gpu"])), estate()).placements


@pytest.mark.parametrize("globs", [{"names": ["a"]}, {"folders": ["/dc1/vm/training"]}])
def test_a_drain_stops_at_what_a_context_protects(globs: dict[str, Any]) -> None:
    observed = estate({"a": {"host": "esx-01", "memory_gib": 4}})
    context = ProtectingContext.model_validate({"name": "prod", "file": "config.yaml", "protect": globs})
    desired = DesiredPlan(name="drain", vcenter="vc.example", contexts=(context,))
    options = DrainOptions(others=True, power_off=("a",))
    plan = make_drain(AwayHost(one_host("esx-01", observed)), observed, load_catalog(), desired, options).plan
    assert (subjects(plan), bool(plan.errors)) == (["esx-01"], True)


# ----------------------------------------------------- window, max_hosts_down


def _enter(number: int, **more: Any) -> EnterMaintenance:
    name = f"esx-{number:02}"
    row: dict[str, Any] = {
        "id": f"enter {name}",
        "subject": Subject(kind="host", name=name, moid=f"host-{number}"),
        "host_moid": f"host-{number}",
        "host": HostRef(name=name, moid=f"host-{number}"),
        "wave": "hosts 1",
        "reason": "kernel",
        "max_down": 1,
    }
    return EnterMaintenance.model_validate(row | more)


@pytest.mark.parametrize(
    ("hour", "seconds", "begins"), [(23, 600, True), (12, 600, False), (3, 600, True), (3, 7200, False)]
)
def test_a_host_does_not_go_down_outside_its_window(hour: int, seconds: int, *, begins: bool) -> None:
    enter = _enter(1, window="daily 22:00-04:00 UTC", takes_seconds=seconds)
    why = Windows([enter], ()).why_not(enter, datetime(2026, 11, 20, hour, tzinfo=UTC))
    assert (why == "") is begins


@pytest.mark.parametrize(("most", "second"), [(1, False), (2, True)])
def test_no_more_hosts_go_down_than_max_hosts_down(most: int, *, second: bool) -> None:
    first, other = _enter(1, max_down=most), _enter(2, max_down=most)
    waves = Waves([first, other])
    waves.begin(first)
    assert waves.admits(other) is second


# ------------------------------------------------- --only and --allow-destroy


@pytest.mark.parametrize("command", ["apply", "destroy", "expired", "forget", "import"])
def test_only_keeps_other_vms_out_of_each_command(command: str) -> None:
    row = OFF | {"mark": False} if command == "import" else own(cpus=4)
    observed = estate({} if command == "apply" else {"a": row, "b": row})
    expires = None if command == "apply" else PAST
    desired = plan_for(vm("a", expires=expires), vm("b", expires=expires))
    only = PlanOptions(only=("a",))
    plan = {
        "apply": lambda: planned(desired, observed, only=only.only),
        "destroy": lambda: make_destroy_plan(desired, observed, only),
        "expired": lambda: make_expiry_plan(desired, observed, only),
        "forget": lambda: make_forget_plan(desired, observed, only),
        "import": lambda: make_import_plan(desired, observed, only),
    }[command]()
    assert subjects(plan) == ["a"]


def test_only_keeps_other_hosts_out() -> None:
    rows: dict[str, Any] = {"hosts": {"esx-01": GPUS, "esx-02": GPUS}}
    desired = plan_for(hosts=[{"names": ["esx-*"], "graphics_type": "shared"}])
    assert subjects(planned(desired, estate(**rows), only=("host:esx-02",))) == ["esx-02"]


@pytest.mark.parametrize(("allow", "refused"), [(0, True), (11, True), (12, False)])
def test_many_vms_are_deleted_with_their_number_only(allow: int, *, refused: bool) -> None:
    names = [f"a-{number:02}" for number in range(12)]
    observed = estate(dict.fromkeys(names, OFF))
    options = PlanOptions(allow_destroy=allow)
    plan = make_destroy_plan(plan_for(*(vm(name) for name in names)), observed, options)
    assert ("VG235" in codes(plan)) is refused
    orphans = planned(plan_for(vm("b")), observed, delete=tuple(names), allow_destroy=allow)
    assert ("VG235" in codes(orphans)) is refused


def test_a_number_too_small_says_no_to_few_deletions_too() -> None:
    options = PlanOptions(allow_destroy=1)
    plan = make_destroy_plan(plan_for(vm("a"), vm("b")), estate({"a": OFF, "b": OFF}), options)
    assert codes(plan) == ["VG235"]


def test_a_locked_vm_is_not_deleted() -> None:
    locked = make_destroy_plan(plan_for(vm("a", lock=True)), estate({"a": OFF}))
    assert codes(locked) == ["VG006"]
    assert codes(make_destroy_plan(plan_for(vm("a")), estate({"a": OFF}))) == []
