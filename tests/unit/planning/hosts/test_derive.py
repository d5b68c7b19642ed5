"""What the plan's VMs need of a host that would run them, and when nothing is asked for them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.desired_plans import codes, planned, vm
from tests.unit.planning.hosts.plans import GPU, SHELL, estate, host, kinds, resolved, wanted
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import ChangeHost
from vgpu_cfg.changes.kinds.change_host import ShellWrite
from vgpu_cfg.model.desired import DesiredHosts, DesiredVm
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.hosts.derive import derived_entry

MIG, SLICED = "grid_a100-3-20c", "grid_a100-20c"
SECOND = {"board": "A100", "pci": "0000:e2:00.0", "node": 1}


def derived(
    *vms: DesiredVm,
    gpus: tuple[dict[str, Any], ...] = (GPU,),
    others: dict[str, Any] | None = None,
    **entry: Any,
) -> tuple[DesiredHosts, list[str]]:
    findings = Findings()
    observed = estate(host(gpus=list(gpus)), vms=others or {})
    one = resolved(observed, **entry)
    asked = derived_entry(one, wanted(*vms), observed, load_catalog(), findings)
    return asked, codes(findings.diagnostics())


def told(entry: DesiredHosts) -> list[tuple[str | None, str | None, str | None]]:
    return [(rule.match.pci_id, rule.use, rule.sharing) for rule in entry.gpus]


def test_mig_backed_profiles_ask_for_mig_mode() -> None:
    entry, found = derived(vm("a", MIG))
    assert told(entry) == [("0000:21:00.0", "vgpu", "mig")]
    assert entry.graphics_type is GraphicsType.SHARED_DIRECT
    assert found == []


def test_time_sliced_profiles_ask_for_no_mode_where_none_is_in_the_way() -> None:
    assert told(derived(vm("a", SLICED))[0]) == [("0000:21:00.0", "vgpu", None)]


def test_time_sliced_profiles_ask_a_gpu_out_of_mig_mode() -> None:
    entry, _ = derived(vm("a", SLICED), gpus=(GPU | {"sharing": "mig"},))
    assert told(entry) == [("0000:21:00.0", "vgpu", "time_sliced")]


def test_a_gpu_named_by_address_is_passed_through() -> None:
    asked = vm("a", gpus=({"pin": "0000:21:00.0"},))
    assert told(derived(asked)[0]) == [("0000:21:00.0", "passthrough", None)]


@pytest.mark.parametrize(
    "asked",
    [
        vm("a", "nvidia_l40s-24c"),
        vm("a", MIG, clusters=("other",)),
        vm("a", MIG, place={"hosts": ("esx-09",)}),
        vm("a"),
    ],
)
def test_nothing_is_asked_for_vms_that_run_elsewhere(asked: DesiredVm) -> None:
    entry, found = derived(asked)
    assert told(entry) == []
    assert found == []


def test_what_the_plan_file_says_of_a_gpu_goes_before() -> None:
    rule = {"match": {"pci_id": "0000:21:00.0"}, "use": "passthrough"}
    findings = Findings()
    observed = estate(host())
    one = resolved(observed, gpus=[rule])
    assert derived_entry(one, wanted(vm("a", MIG)), observed, load_catalog(), findings) is one.entry


def test_both_ways_on_one_board_are_unclear() -> None:
    entry, found = derived(vm("a", MIG), vm("b", SLICED), gpus=(GPU, SECOND))
    assert told(entry) == [("0000:21:00.0", "vgpu", None), ("0000:e2:00.0", "vgpu", None)]
    assert found == ["VG530"]


def test_both_ways_are_clear_where_the_gpus_are_shared_so_already() -> None:
    _, found = derived(vm("a", MIG), vm("b", SLICED), gpus=(GPU | {"sharing": "mig"}, SECOND))
    assert found == []


def test_a_rule_for_one_gpu_leaves_the_others_for_the_rest() -> None:
    findings = Findings()
    rule = {"match": {"numa": 0}, "use": "vgpu", "sharing": "mig"}
    observed = estate(host(gpus=[GPU, SECOND]))
    one = resolved(observed, gpus=[rule])
    entry = derived_entry(one, wanted(vm("a", MIG), vm("b", SLICED)), observed, load_catalog(), findings)
    assert told(entry)[0] == ("0000:e2:00.0", "vgpu", None)
    assert codes(findings.diagnostics()) == []


def test_vms_wait_for_the_host_that_is_prepared_for_them() -> None:
    found = planned(wanted(vm("a", MIG), prepare="from_vms", access=SHELL), estate(host()))
    by_kind = {change.kind: change for change in found.changes}
    assert by_kind["exit_maintenance"].id in by_kind["create_vm"].needs
    assert by_kind["exit_maintenance"].id in by_kind["power_on_vm"].needs


def test_no_host_is_prepared_where_the_vms_fit_as_it_is() -> None:
    observed = estate(host(), host(gpus=[GPU | {"sharing": "mig"}]))
    found = planned(wanted(vm("a", MIG), prepare="from_vms", access=SHELL), observed)
    assert kinds(found) == ["create_vm", "power_on_vm"]


def test_only_a_host_that_is_used_is_prepared() -> None:
    observed = estate(host(), host(), host())
    found = planned(wanted(vm("a", MIG), prepare="from_vms", access=SHELL), observed)
    assert kinds(found).count("enter_maintenance") == 1


@pytest.mark.parametrize(("version", "is_known"), [("8.0.3", True), ("7.0.2", False)])
def test_a_prepared_host_offers_what_its_release_knows(version: str, *, is_known: bool) -> None:
    profile = next(
        one
        for one in load_catalog().board("A100").profiles
        if one.mig is not None and one.mig.min_esxi is not None and one.mig.min_esxi >= "7.0.3"
    )
    observed = estate(host(version=version))
    found = planned(wanted(vm("a", profile.name), prepare="from_vms", access=SHELL), observed)
    assert (not found.errors) is is_known


GPUS = tuple(GPU | {"pci": f"0000:{bus}:00.0", "sharing": "mig"} for bus in (21, 41, 61))
HALF = "grid_a100-20c"


def modes(entry: DesiredHosts) -> list[tuple[str | None, str | None]]:
    return [(rule.match.pci_id, rule.sharing) for rule in entry.gpus if rule.sharing is not None]


@pytest.mark.parametrize(
    ("vms", "gpus", "flipped"),
    [
        ([vm("a", "grid_a100-40c")], GPUS, ["21"]),
        ([vm("a", HALF), vm("b", HALF)], GPUS, ["21"]),
        ([vm("a", HALF), vm("b", HALF), vm("c", HALF)], GPUS, ["21", "41"]),
        ([vm("a", HALF, HALF, HALF)], GPUS, ["21", "41"]),
        ([vm("a", HALF), vm("b", HALF)], (GPUS[0], GPUS[1] | {"sharing": "time_sliced"}), []),
        ([vm(name, HALF) for name in "abc"], (GPUS[0], GPUS[1] | {"sharing": "time_sliced"}), ["21"]),
        ([vm("a", HALF)], (GPUS[0] | {"passthrough": True}, *GPUS[1:]), ["41"]),
        ([vm("a", HALF)], (GPUS[0] | {"passthrough_pending": True}, *GPUS[1:]), ["41"]),
        ([vm("a", HALF)], (GPUS[0], GPUS[1] | {"mig_pending": False}), ["41"]),
    ],
)
def test_as_few_gpus_change_their_mode_as_the_vms_need(
    vms: list[DesiredVm], gpus: tuple[dict[str, Any], ...], flipped: list[str]
) -> None:
    entry, found = derived(*vms, gpus=gpus)
    assert modes(entry) == [(f"0000:{bus}:00.0", "time_sliced") for bus in flipped]
    assert found == []


def test_a_gpu_that_runs_vms_keeps_its_mode() -> None:
    others = {"db": {"host": "esx-01", "gpus": [MIG], "on": ["0000:21:00.0"]}}
    entry, found = derived(vm("a", HALF), gpus=GPUS, others=others)
    assert modes(entry) == [("0000:41:00.0", "time_sliced")]
    assert found == []


def test_a_gpu_of_the_mode_serves_as_far_as_it_has_room() -> None:
    others = {"db": {"host": "esx-01", "gpus": ["grid_a100-40c"], "on": ["0000:41:00.0"]}}
    busy = (GPUS[0], GPUS[1] | {"sharing": "time_sliced"})
    entry, _ = derived(vm("a", HALF), gpus=busy, others=others)
    assert modes(entry) == [("0000:21:00.0", "time_sliced")]


def test_a_vm_that_runs_needs_no_other_gpu() -> None:
    own = {"a": {"host": "esx-01", "mark": True, "gpus": [MIG], "on": ["0000:21:00.0"]}}
    sliced = tuple(one | {"sharing": "time_sliced"} for one in GPUS)
    assert modes(derived(vm("a", MIG), gpus=(GPUS[0], sliced[1]), others=own)[0]) == []
    off = {"a": own["a"] | {"power": "poweredOff"}}
    assert modes(derived(vm("a", MIG), gpus=sliced, others=off)[0]) == [("0000:21:00.0", "mig")]


@pytest.mark.parametrize(
    ("gpus", "others", "why"),
    [
        ((GPUS[0] | {"passthrough": True},), {}, "0000:21:00.0 is in passthrough mode"),
        (
            (GPUS[0],),
            {"off": {"host": "esx-01", "power": "poweredOff", "gpus": [MIG]}},
            "0000:21:00.0 is the only one left for powered-off VMs outside the plan",
        ),
        (
            (GPUS[0],),
            {"db": {"host": "esx-01", "gpus": [MIG], "on": ["0000:21:00.0"]}},
            "0000:21:00.0 is in use in another mode",
        ),
    ],
)
def test_what_others_may_need_is_named_and_left(
    gpus: tuple[dict[str, Any], ...], others: dict[str, Any], why: str
) -> None:
    findings = Findings()
    observed = estate(host(gpus=list(gpus)), vms=others)
    entry = derived_entry(resolved(observed), wanted(vm("a", HALF)), observed, load_catalog(), findings)
    assert modes(entry) == []
    (found,) = findings.diagnostics()
    assert found.code == "VG530"
    assert found.message.endswith(why)


def test_a_host_is_prepared_for_the_vms_that_are_to_run_there_and_no_others() -> None:
    rows = [host(gpus=[one | {"sharing": "mig"} for one in GPUS]) for _ in range(2)]
    full = "grid_a100-40c"
    desired = wanted(vm("a", full), vm("b", full), vm("c", full), prepare="from_vms", access=SHELL)
    found = planned(desired, estate(*rows))
    written = [one.id for one in found.changes if one.kind == "change_host" and "mig" in one.id]
    assert found.errors == ()
    assert len(found.placements) == 3
    commands = [
        command
        for one in found.changes
        if isinstance(one, ChangeHost) and isinstance(one.write, ShellWrite)
        for command in one.write.commands
    ]
    assert len(commands) == 3, written


@pytest.mark.parametrize(
    ("place", "is_asked"),
    [
        ({"hosts": ("esx-*",)}, True),
        ({"hosts": ("other-*",)}, False),
        ({"not_hosts": ("esx-02",)}, True),
        ({"not_hosts": ("esx-*",)}, False),
        ({"host_group": "even"}, True),
        ({"host_group": "odd"}, False),
        ({"host_group": "nowhere"}, False),
    ],
)
def test_a_host_that_place_forbids_is_not_prepared(place: dict[str, Any], is_asked: bool) -> None:
    groups = {"gpu": {"host_groups": {"even": ["esx-01"], "odd": []}}}
    observed = estate(host(gpus=[GPU]), clusters=groups)
    asked = wanted(vm("a", SLICED, place=place))
    entry = derived_entry(resolved(observed), asked, observed, load_catalog(), Findings())
    assert bool(told(entry)) is is_asked
