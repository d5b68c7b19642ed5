"""What the plan's VMs need of a host that would run them, and when nothing is asked for them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.desires import codes, planned, vm
from tests.unit.planning.hosts.asked import GPU, SHELL, case, estate, host, kinds, wanted
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.desired_hosts import DesiredHosts
from vgpu_cfg.model.inventory import GraphicsType
from vgpu_cfg.planning.findings import Findings
from vgpu_cfg.planning.hosts.derive import derived_entry

MIG, SLICED = "grid_a100-3-20c", "grid_a100-20c"
SECOND = {"board": "A100", "pci": "0000:e2:00.0", "node": 1}


def derived(
    *vms: DesiredVm, gpus: tuple[dict[str, Any], ...] = (GPU,), **entry: Any
) -> tuple[DesiredHosts, list[str]]:
    findings = Findings()
    one = case(estate(host(gpus=list(gpus))), **entry)
    return derived_entry(one, wanted(*vms), load_catalog(), findings), codes(findings.diagnostics())


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
    asked = vm("a", gpus=({"kind": "passthrough", "pci_id": "0000:21:00.0"},))
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
    one = case(estate(host()), gpus=[rule])
    assert derived_entry(one, wanted(vm("a", MIG)), load_catalog(), findings) is one.entry


def test_both_ways_on_one_board_are_unclear() -> None:
    entry, found = derived(vm("a", MIG), vm("b", SLICED), gpus=(GPU, SECOND))
    assert told(entry) == []
    assert found == ["VG530"]


def test_both_ways_are_clear_where_the_gpus_are_shared_so_already() -> None:
    _, found = derived(vm("a", MIG), vm("b", SLICED), gpus=(GPU | {"sharing": "mig"}, SECOND))
    assert found == []


def test_a_rule_for_one_gpu_leaves_the_others_for_the_rest() -> None:
    findings = Findings()
    rule = {"match": {"numa": 0}, "use": "vgpu", "sharing": "mig"}
    one = case(estate(host(gpus=[GPU, SECOND])), gpus=[rule])
    entry = derived_entry(one, wanted(vm("a", MIG), vm("b", SLICED)), load_catalog(), findings)
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
