"""What must be read of which hosts, and through which door."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.unit.planning.desired_plans import plan_for, vm
from tests.unit.planning.hosts.plans import SHELL, estate, host, wanted
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.desired import DesiredVm, ScratchSource
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.model.plan_file import AccessEntry, GpuEntry
from vgpu_cfg.model.vgpu import VgpuProfile
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.hosts.needed import driver_hosts, needed_facts, shell_access

CATALOG = load_catalog()
ALWAYS = {FactGroup.BASE, FactGroup.OWNERS}


def needed(*only: str, **entry: Any) -> dict[str, set[FactGroup]]:
    found = needed_facts(wanted(**entry), estate(host(), host()), CATALOG, PlanOptions(only=only))
    return {moid: set(groups) for moid, groups in found.items()}


@pytest.mark.parametrize(
    ("entry", "more"),
    [
        ({}, set()),
        ({"ats": True}, {FactGroup.KERNEL, FactGroup.OPTIONS}),
        ({"assignment_policy": "performance"}, set()),
        ({"gpus": [{"ecc": True}]}, {FactGroup.SHELL_GPUS, FactGroup.SOFTWARE}),
        ({"nics": [{"firmware": {"ATS_ENABLED": "True"}}]}, {FactGroup.SHELL_NICS}),
        ({"licence": "key"}, {FactGroup.LICENCE}),
    ],
)
def test_only_what_a_wish_takes_is_read(entry: dict[str, Any], more: set[FactGroup]) -> None:
    assert needed(**entry) == {"host-esx-01": ALWAYS | more, "host-esx-02": ALWAYS | more}


@pytest.mark.parametrize(
    ("peers", "ssh", "is_read"), [(1, "on", True), (None, "on", False), (1, "off", False)]
)
def test_the_topology_is_read_for_vms_with_nvlink_peers(
    peers: int | None, ssh: Literal["on", "off"], *, is_read: bool
) -> None:
    gpu = GpuEntry(profile=(VgpuProfile.parse("grid_a100-40c"),), nvlink=peers)
    vm = DesiredVm(name="a", line="a", source=ScratchSource(guest_id="ubuntu64Guest"), gpus=(gpu, gpu))
    plan = wanted(access=AccessEntry(ssh=ssh)).model_copy(update={"vms": (vm,)})
    found = needed_facts(plan, estate(host()), CATALOG)["host-esx-01"]
    assert (FactGroup.SHELL_TOPOLOGY in found) is is_read


@pytest.mark.parametrize(
    ("sharing", "entry", "is_read"),
    [
        ("mig", {"gpus": [{"ecc": True}]}, True),
        ("mig", {"ats": True}, False),
        ("time_sliced", {"gpus": [{"ecc": True}]}, False),
    ],
)
def test_where_mig_instances_stand_is_asked_of_a_shell_that_is_open_anyway(
    sharing: str, entry: dict[str, Any], *, is_read: bool
) -> None:
    observed = estate(host(gpus=[{"board": "A100", "pci": "0000:21:00.0", "node": 0, "sharing": sharing}]))
    found = needed_facts(wanted(**entry), observed, CATALOG)["host-esx-01"]
    assert (FactGroup.SHELL_MIG in found) is is_read


def test_gpus_asked_for_by_memory_need_what_their_profiles_need() -> None:
    observed = estate(host(gpus=[{"board": "A100", "pci": "0000:21:00.0", "node": 0}]))
    for gpu in (GpuEntry(profile=(VgpuProfile.parse("grid_a100-40c"),)), GpuEntry(memory=40960)):
        line = DesiredVm(name="a", line="a", source=ScratchSource(guest_id="ubuntu64Guest"), gpus=(gpu,))
        plan = wanted(prepare="from_vms").model_copy(update={"vms": (line,)})
        assert FactGroup.SOFTWARE in needed_facts(plan, observed, CATALOG)["host-esx-01"]


def test_only_the_chosen_hosts_are_read() -> None:
    assert needed("host:esx-02", ats=True).keys() == {"host-esx-02"}


def test_a_plan_without_hosts_needs_nothing() -> None:
    assert needed_facts(plan_for(), estate(host()), CATALOG) == {}


def test_the_shell_is_reached_as_the_entry_says() -> None:
    access = shell_access(wanted(access=SHELL), estate(host()), CATALOG)
    assert access["host-esx-01"].ssh == "open-and-close"


GUEST = {"host_name": "a", "driver": {}}
LAB = estate(
    host(profiles=["grid_a100-10c"]),
    host(gpus=[{"board": "L40S", "pci": "0000:21:00.0"}]),
    host(cluster="lab"),
    host(gpus=[]),
    clusters={"gpu": {}, "lab": {}},
)


@pytest.mark.parametrize(
    ("asking", "expected"),
    [
        (vm("a", "grid_a100-10c"), []),
        (vm("a", "grid_a100-20c"), ["esx-01"]),
        (vm("a", "grid_a100-20c", clusters=()), ["esx-01"]),
        (vm("a", "nvidia_l40s-24c"), []),
        (vm("a", "grid_a100-10c", guest=GUEST), ["esx-01"]),
        (vm("a", "grid_a100-10c", guest=GUEST, clusters=("lab",)), ["esx-03"]),
        (vm("a", "grid_a100-10c", guest=GUEST, clusters=()), ["esx-01", "esx-03"]),
        (vm("a", guest=GUEST), []),
    ],
    ids=["offered", "not offered", "on any cluster", "another board", "guest", "of lab", "of both", "no GPU"],
)
def test_the_driver_is_read_of_hosts_where_it_decides_on_vms(asking: DesiredVm, expected: list[str]) -> None:
    found = driver_hosts(plan_for(asking), LAB, load_catalog())
    assert [moid.removeprefix("host-") for moid in found] == expected
