"""What of a guest is staged, when, after what, and what that disturbs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.guest_rows import mark_of
from tests.plans.simulator import carry_out
from tests.unit.planning.desired_plans import codes, estate, own, planned
from tests.unit.planning.guest.trainings import BY_POOL, head, specs_of, training, worker
from tests.unit.planning.privileges.needed import needed_privileges
from vgpu_cfg.changes.change import ManualStep, StageGuest
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.guests.downloads import MONITORING_IMAGES
from vgpu_cfg.model.guests.guest import GuestReport, GuestSpec, ModuleState
from vgpu_cfg.model.observed.inventory import Connection, Inventory

PRINTS = {"plan-keys": "aaaa", "lic": "bbbb", "ngc": "cccc"}
ONE = training(worker("w-1", BY_POOL))
KEPT = {"vgpu_cfg.addresses": "nic1=10.0.0.11/24"}


def spec() -> GuestSpec:
    return specs_of(ONE, estate())["w-1"]


def kinds() -> list[str]:
    return [module.kind for module in spec().modules]


def report(state: str, **modules: str) -> str:
    """Report of every module that it is done, but for those that are named."""
    told = {name.replace("_", "-"): word for name, word in modules.items()}
    of_modules = [
        {"name": one.kind, "state": told.get(one.kind, "done"), "digest": one.digest, "why": "full"}
        for one in spec().modules
    ]
    row = {"spec": spec().digest, "run": "first", "state": state, "modules": of_modules}
    return GuestReport.model_validate(row).model_dump_json()


def observe(*, mark: str = "", power: str = "poweredOn", **options: str) -> Inventory:
    extra = KEPT | {"guestinfo." + key.replace("__", "."): value for key, value in options.items()}
    row = own("grid_a100-40c", nics=["vm-network"], power=power, extra_config=extra)
    if mark:
        row["extra_config"] = extra | {"vgpu_cfg.guest": mark}
    return estate({"w-1": row})


def stage_of(plan: Plan) -> StageGuest | None:
    return next((change for change in plan.changes if isinstance(change, StageGuest)), None)


def estate_without(observed: Inventory, name: str) -> Inventory:
    kept = {key: getattr(observed, key) for key in Inventory.model_fields}
    return Inventory(**(kept | {"vms": tuple(vm for vm in observed.vms if vm.name != name)}))


def staged(observed: Inventory, **options: Any) -> StageGuest | None:
    return stage_of(planned(ONE, observed, **({"fingerprints": PRINTS} | options)))


def stages_of(plan: Plan) -> dict[str, StageGuest]:
    return {change.id: change for change in plan.changes if isinstance(change, StageGuest)}


def test_what_is_secret_follows_a_new_vms_first_boot_and_a_second_plan_is_empty() -> None:
    plan = planned(ONE, estate(), fingerprints=PRINTS)
    first, second = stages_of(plan).values()
    assert (first.with_clone, second.with_clone) == (True, False)
    assert first.modules == spec().carried
    assert not any(module.is_private for module in spec().modules if module.kind in first.modules)
    assert first.modules + second.modules == tuple(kinds())
    assert first.rest == second.modules
    assert (first.needs, second.needs) == (("power on w-1",), ("stage w-1",))
    assert {first.impact, second.impact} == {Impact.NONE}
    after = carry_out(plan, estate(), fingerprints=PRINTS)
    again = planned(ONE, after, fingerprints=PRINTS)
    assert again.changes == ()
    assert again.in_sync == ("w-1",)


def test_a_guest_that_has_everything_is_in_sync() -> None:
    assert staged(observe(mark=mark_of(spec(), kinds(), PRINTS))) is None


@pytest.mark.parametrize(
    ("secret", "rotate", "modules", "note"),
    [
        ("plan-keys", ("keys",), ("users", "ssh-mesh"), "new keys"),
        ("lic", (), ("licence",), "secret changed"),
        ("a secret of nobody", ("licence",), ("licence",), "delivered again"),
    ],
)
def test_another_secret_stages_what_it_is_written_with(
    secret: str, rotate: tuple[str, ...], modules: tuple[str, ...], note: str
) -> None:
    observed = observe(mark=mark_of(spec(), kinds(), PRINTS))
    former = {"former_keys": ("aaaa",)} if "keys" in rotate else {}
    change = staged(observed, fingerprints=PRINTS | {secret: "dddd"}, rotate=rotate, **former)
    assert change is not None
    assert (change.modules, change.impact) == (modules, Impact.NONE)
    assert {edit.note for edit in change.edits} == {note}


def test_a_secret_that_is_not_known_is_the_one_that_was_written() -> None:
    observed = observe(mark=mark_of(spec(), kinds(), PRINTS))
    plan = planned(ONE, observed)
    assert plan.changes == ()
    assert "VG433" in codes(plan)


@pytest.mark.parametrize(
    ("without", "impact"),
    [("image", Impact.NONE), ("driver", Impact.POWER_CYCLE), ("nouveau", Impact.POWER_CYCLE)],
)
def test_what_may_restart_a_guest_that_runs_is_a_power_cycle(without: str, impact: Impact) -> None:
    observed = observe(mark=mark_of(spec(), set(kinds()) - {without}, PRINTS))
    change = staged(observed)
    assert change is not None
    assert (change.modules, change.impact) == ((without,), impact)
    is_refused = "VG007" in codes(planned(ONE, observed, fingerprints=PRINTS))
    assert is_refused is (impact is Impact.POWER_CYCLE)
    allowed = planned(ONE, observed, fingerprints=PRINTS, allow_power_cycle=True)
    assert "VG007" not in codes(allowed)


def test_a_guest_that_is_powered_on_anyway_is_not_disturbed() -> None:
    observed = observe(mark=mark_of(spec(), set(kinds()) - {"driver"}, PRINTS), power="poweredOff")
    plan = planned(ONE, observed, fingerprints=PRINTS)
    change = stage_of(plan)
    assert change is not None
    assert change.impact is Impact.NONE
    assert change.needs == ("power on w-1",)
    assert plan.errors == ()


@pytest.mark.parametrize(
    ("options", "with_clone"),
    [
        ({"userdata": "withheld"}, True),
        ({"userdata": "---", "vgpu_cfg__report": report("done")}, True),
        ({"userdata": "---", "vgpu_cfg__report": report("running", image="waiting")}, True),
        ({"userdata": "---", "vgpu_cfg__report": report("failed", image="failed")}, False),
    ],
)
def test_what_a_broken_run_left_is_waited_for_and_not_disturbed(
    options: dict[str, str], *, with_clone: bool
) -> None:
    change = staged(observe(**options))
    assert change is not None
    assert (change.with_clone, change.impact) == (with_clone, Impact.NONE)
    assert change.modules + change.rest == tuple(kinds())


@pytest.mark.parametrize(
    ("had", "state", "impact"),
    [
        ((), "failed", Impact.NONE),
        ((), "waiting", Impact.NONE),
        (("driver",), "failed", Impact.POWER_CYCLE),
        ((), "hand", Impact.POWER_CYCLE),
    ],
)
def test_a_guest_that_never_came_so_far_may_restart(had: tuple[str, ...], state: str, impact: Impact) -> None:
    mark = mark_of(spec(), (set(kinds()) - {"driver"}) | set(had), PRINTS).replace("driver:", "driver:f")
    change = staged(observe(mark=mark, vgpu_cfg__report=report("failed", driver=state)))
    assert change is not None
    assert (change.modules, change.impact) == (("driver",), impact)


def test_a_report_that_is_none_is_no_report() -> None:
    change = staged(observe(userdata="---", vgpu_cfg__report='{"state": "splendid"}'))
    assert change is not None
    assert change.with_clone


def test_ignored_drift_is_left() -> None:
    ignoring = training(worker("w-1", BY_POOL, ignore=frozenset({"guest"})))
    plan = planned(ignoring, observe(mark="driver:0123456789"), fingerprints=PRINTS)
    assert plan.changes == ()


def test_what_is_outdated_is_told_with_its_reason() -> None:
    mark = mark_of(spec(), set(kinds()) - {"worker"}, PRINTS).replace("image:", "image:f")
    change = staged(observe(mark=mark))
    assert change is not None
    assert {edit.key: edit.note for edit in change.edits} == {"image": "changed", "worker": "new"}
    assert all("bbbb" not in (edit.after or "") for edit in change.edits)


def test_another_default_image_is_a_change_until_the_plan_file_names_the_old_one() -> None:
    old = {"dcgm-exporter": f"nvcr.io/nvidia/k8s/dcgm-exporter:4.4.1@sha256:{'1' * 64}"}

    def watched(**more: Any) -> DesiredPlan:
        return training(worker("w-1", BY_POOL), monitoring={"exporter": "dcgm"} | more)

    before = specs_of(watched(images=old), estate())["w-1"]
    seen = observe(mark=mark_of(before, {one.kind for one in before.modules}, PRINTS))
    change = stage_of(planned(watched(), seen, fingerprints=PRINTS))
    assert change is not None
    (edit,) = change.edits
    assert (edit.key, edit.note) == ("monitoring", "changed")
    for name in ("dcgm-exporter", "node-exporter"):
        assert MONITORING_IMAGES[name].rpartition(":")[2] in (edit.after or "")
    assert change.impact is Impact.NONE
    assert planned(watched(images=old), seen, fingerprints=PRINTS).changes == ()


def test_guests_that_come_with_their_clones_wait_for_no_other() -> None:
    plan = planned(training(*_smaller("w-1", "w-2"), head(), head="z-head"), estate(), fingerprints=PRINTS)
    names = ("w-1", "w-2", "z-head")
    assert {one.id: one.needs for one in stages_of(plan).values()} == {
        f"stage {name}": (f"power on {name}",) for name in names
    } | {f"finish {name}": (f"stage {name}",) for name in names}


def test_host_keys_are_written_after_the_guests_that_tell_theirs() -> None:
    plan = planned(training(*_smaller("w-1", "w-2"), head(), head="z-head"), estate(), fingerprints=PRINTS)
    stages = stages_of(plan)
    assert {peer.name for peer in stages["finish w-1"].peers} == {"w-1", "w-2", "z-head"}
    assert set(stages["finish w-1"].after) == {"stage w-2", "stage z-head"}
    assert stages["stage w-1"].after == ()
    # What comes second stands at the end, so that a reader meets what it waits for first.
    assert list(stages) == sorted(stages, key=lambda one: one.startswith("finish"))


def test_a_worker_more_gives_the_others_its_line() -> None:
    before = carry_out(
        planned(training(*_smaller("w-1")), estate(), fingerprints=PRINTS), estate(), fingerprints=PRINTS
    )
    plan = planned(training(*_smaller("w-1", "w-2")), before, fingerprints=PRINTS)
    stages = stages_of(plan)
    assert "ssh-mesh" in stages["stage w-1"].modules
    assert stages["stage w-1"].after == ("stage w-2",)
    after = carry_out(plan, before, fingerprints=PRINTS)
    assert planned(training(*_smaller("w-1", "w-2")), after, fingerprints=PRINTS).changes == ()


def test_a_vm_made_anew_gives_the_others_its_new_key() -> None:
    desired = training(*_smaller("w-1", "w-2"))
    first = planned(desired, estate(), fingerprints=PRINTS)
    observed = carry_out(first, estate(), fingerprints=PRINTS)
    without = estate_without(observed, "w-2")
    stages = stages_of(planned(desired, without, fingerprints=PRINTS))
    assert stages["stage w-1"].modules == ("ssh-mesh",)
    assert {edit.note for edit in stages["stage w-1"].edits} == {"host keys changed"}


def test_the_keys_of_a_vm_on_a_lost_host_are_unknown_not_changed() -> None:
    desired = training(*_smaller("w-1", "w-2"))
    made = carry_out(planned(desired, estate(), fingerprints=PRINTS), estate(), fingerprints=PRINTS)
    away = {"moid": "host-2", "name": "esx-02", "connection": Connection.NOT_RESPONDING}
    hosts = (*made.hosts, made.hosts[0].model_copy(update=away))
    vms = (vm.model_copy(update={"host_moid": "host-2"}) if vm.name == "w-2" else vm for vm in made.vms)
    lost = made.model_copy(update={"hosts": hosts, "vms": tuple(vms)})
    stages = stages_of(planned(desired, lost, fingerprints=PRINTS))
    assert {edit.note for edit in stages["stage w-1"].edits} == {"host keys of w-2 are unknown"}


def test_guests_of_an_earlier_release_stay_as_they_are() -> None:
    # Their marks know no host keys, and their VMs keep none: those follow from the plan's seed.
    assert staged(observe(mark=mark_of(spec(), kinds(), PRINTS))) is None
    mark = mark_of(spec(), set(kinds()) - {"image"}, PRINTS)
    change = staged(observe(mark=mark))
    assert change is not None
    assert (change.modules, change.rest) == (("image",), ())


def test_the_guest_that_starts_the_training_comes_after_the_workers_where_they_run() -> None:
    desired = training(*_smaller("w-1", "w-2"))
    first = planned(desired, estate(), fingerprints=PRINTS)
    observed = carry_out(first, estate(), fingerprints=PRINTS)
    plan = planned(desired, observed, fingerprints=PRINTS | {"lic": "dddd"})
    needs = {change.vm.name: change.needs for change in plan.changes if isinstance(change, StageGuest)}
    assert needs == {"w-1": ("stage w-2",), "w-2": ()}


def _smaller(*names: str) -> list[Any]:
    """Desire workers that share a GPU."""
    return [
        one.model_copy(update={"gpus": (_small(one),)}) for one in (worker(name, BY_POOL) for name in names)
    ]


def _small(one: Any) -> Any:
    profile = type(one.gpus[0].profile[0]).model_validate("grid_a100-20c")
    return one.gpus[0].model_copy(update={"profile": (profile,)})


def test_a_part_of_a_plan_does_not_wait_for_the_rest() -> None:
    plan = planned(training(*_smaller("w-1", "w-2")), estate(), fingerprints=PRINTS, only=("w-1",))
    ids = ["create w-1", "power on w-1", "stage w-1", "finish w-1"]
    assert [change.id for change in plan.changes] == ids
    assert stages_of(plan)["finish w-1"].needs == ("stage w-1",)
    assert stages_of(plan)["finish w-1"].after == ()


def test_a_restart_of_the_host_is_left_to_a_hand_before_the_guest_is_looked_at_again() -> None:
    rdma = {"kind": "passthrough"}
    nic = {"network": "roce-111", "ip": "pool", "rdma": "gpudirect", "function": rdma}
    desired = training(worker("w-1", BY_POOL, nic))
    wanted = specs_of(desired, estate())["w-1"]
    names = [one.kind for one in wanted.modules]
    told = GuestReport(
        spec=wanted.digest,
        state="hand",
        modules=(ModuleState(name="nic-firmware", state="hand", why="set, in force later"),),
    )
    row = own(
        "grid_a100-40c",
        nics=["vm-network"],
        passthrough=[{"pci": "0000:24:00.0", "nic": True}],
        extra_config={
            "vgpu_cfg.addresses": "nic1=10.0.0.11/24 nic2=10.111.0.11/24",
            "vgpu_cfg.guest": mark_of(wanted, set(names) - {"nic-firmware"}, PRINTS),
            "guestinfo.vgpu_cfg.report": told.model_dump_json(),
        },
    )
    plan = planned(desired, estate({"w-1": row}), fingerprints=PRINTS)
    step = next(change for change in plan.changes if isinstance(change, ManualStep))
    change = stage_of(plan)
    assert change is not None
    assert (step.id, change.modules) == ("restart esx-01 for NIC firmware", ("nic-firmware",))
    assert step.needs_acknowledgement
    assert step.id in change.needs
    assert "VG607" in codes(plan)


@pytest.mark.parametrize(
    ("login", "more"),
    [
        ({"user": "ubuntu", "key": "ngc"}, set()),
        ({"user": "ubuntu", "password": "ngc"}, {"Execute", "Modify", "Query"}),
    ],
)
def test_guest_operations_need_their_own_privileges(login: dict[str, str], more: set[str]) -> None:
    desired = training(worker("w-1", BY_POOL, guest={"login": login}))
    observed = observe(mark=mark_of(specs_of(desired, estate())["w-1"], {"users"}, PRINTS))
    plan = planned(desired, observed, fingerprints=PRINTS, allow_power_cycle=True)
    needed = needed_privileges(plan, observed)["vm-w-1"]
    found = {one.rpartition(".")[2] for one in needed if "GuestOperations" in one}
    assert found == more
    assert "VirtualMachine.Config.AdvancedConfig" in needed
