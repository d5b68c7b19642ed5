"""Which hosts are prepared for the VMs: none where none is needed, else so that the least is disturbed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import pytest

from tests.unit.planning.desired_plans import codes, planned, vm
from tests.unit.planning.hosts.plans import GPU, SHELL, estate, host, wanted
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.hosts.assess import HostAssessor
from vgpu_cfg.planning.hosts.plan import HostPlanner
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.planning.vms.lookup.vm_resolver import VmResolver
from vgpu_cfg.planning.vms.vm_plans import VmPlanner

MIG, HALF, WHOLE = "grid_a100-3-20c", "grid_a100-20c", "grid_a100-40c"
IN_MIG = GPU | {"sharing": "mig"}
SHARED = GPU | {"type": "shared"}
FIRST, SECOND, THIRD = (GPU | {"pci": f"0000:{bus}:00.0"} for bus in (21, 41, 61))
PINNED = {"pin": "0000:21:00.0"}


def plan(observed: Inventory, *vms: DesiredVm, **entry: Any) -> Plan:
    return planned(wanted(*vms, prepare="from_vms", access=SHELL, **entry), observed)


def changed(found: Plan) -> list[str]:
    """Name the hosts that are changed, and by what."""
    changes = (change for change in found.changes if change.kind == "change_host")
    told = {(change.subject.name, one.setting) for change in changes for one in change.settings}
    return [" ".join(one) for one in sorted(told)]


def places(found: Plan) -> dict[str, int]:
    return dict(Counter(one.host_moid.removeprefix("host-") for one in found.placements))


def counted(work: Callable[[], object], *functions: Callable[..., object]) -> list[int]:
    """Return how often each function was called by some work."""
    calls: Counter[CodeType] = Counter()

    def look(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            calls[frame.f_code] += 1

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(before)
    return [calls[function.__code__] for function in functions]


RDMA_NIC = {"network": "vm-network", "rdma": "gpudirect", "function": {"kind": "passthrough"}}


@pytest.mark.parametrize(
    ("observed", "vms", "looks"),
    [
        (estate(host(gpus=[IN_MIG])), [vm("a", MIG)], 1),
        (estate(host(), host()), [vm("a", MIG), vm("b", MIG), vm("c", MIG)], 2),
        (estate(host()), [vm("a", HALF, nics=(RDMA_NIC,), stated=("nics",))], 2),
        (estate(host()), [vm("a", MIG), vm("b", "nvidia_l40s-24c")], 2),
        (estate(host()), [vm("a", MIG), vm("b", HALF)], 1),
        (estate(host()), [vm("a", "nvidia_l40s-24c")], 1),
    ],
    ids=["as it is", "MIG", "RDMA", "not all", "unclear", "nothing helps"],
)
def test_the_world_is_planned_once(observed: Inventory, vms: list[DesiredVm], looks: int) -> None:
    """VMs are looked up once more on hosts that are prepared for them: what is planned of them is, once."""
    functions = (
        make_plan,
        HostPlanner.__init__,
        HostPlanner.plan,
        VmPlanner.__init__,
        VmResolver.__post_init__,
    )
    found = counted(lambda: plan(observed, *vms), *functions)
    assert found == [1, 1, 1, 1, looks]


def test_each_host_is_judged_once_where_nothing_is_prepared() -> None:
    observed = estate(host(gpus=[IN_MIG]), host())
    assert counted(lambda: plan(observed, vm("a", MIG)), HostAssessor.assess) == [2]


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ([host(), host(gpus=[IN_MIG])], []),
        ([host(), host()], ["esx-01 mig"]),
    ],
    ids=["one is so", "none is so"],
)
def test_a_place_where_nothing_is_disturbed_comes_first(hosts: list[Any], expected: list[str]) -> None:
    found = plan(estate(*hosts), vm("a", MIG))
    assert changed(found) == expected
    assert not found.errors


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ([host(gpus=[IN_MIG]), host(gpus=[SHARED])], ["esx-02 gpu_graphics_type"]),
        ([host(gpus=[IN_MIG])], ["esx-01 mig"]),
    ],
    ids=["Xorg restarts", "reboot"],
)
def test_a_service_restart_comes_before_a_reboot(hosts: list[Any], expected: list[str]) -> None:
    assert changed(plan(estate(*hosts), vm("a", HALF))) == expected


@pytest.mark.parametrize(
    ("entry", "expected"),
    [({"ats": True}, {"esx-02": 1}), ({}, {"esx-01": 1})],
    ids=["esx-02 restarts for ATS", "none restarts"],
)
def test_what_the_host_restarts_for_anyway_costs_no_more(
    entry: dict[str, Any], expected: dict[str, int]
) -> None:
    on, off = (
        {
            "kernel": {"atsSupport": {"configured": word, "runtime": word}},
            "options": {"VMkernel.Boot.atsSupport": word == "TRUE"},
        }
        for word in ("TRUE", "FALSE")
    )
    found = plan(estate(host(facts=on), host(facts=off)), vm("a", MIG), **entry)
    assert places(found) == expected
    assert not found.errors


def test_a_host_that_cannot_be_prepared_comes_last() -> None:
    others = {"db": {"host": "esx-01", "gpus": [HALF], "on": [SECOND["pci"]]}}
    both = [FIRST, SECOND]
    found = plan(estate(host(gpus=both), host(gpus=both), vms=others), vm("a", MIG))
    assert changed(found) == ["esx-02 mig"]
    assert not found.errors
    alone = plan(estate(host(gpus=both), vms=others), vm("a", MIG))
    assert [one.subject.name for one in alone.errors] == ["esx-01"]
    assert len(alone.placements) == 1


@pytest.mark.parametrize(("count", "prepared"), [(2, 1), (4, 2), (5, 3), (6, 3)])
def test_as_few_hosts_are_prepared_as_will_do(count: int, prepared: int) -> None:
    found = plan(estate(host(), host(), host()), *(vm(f"a-{number}", MIG) for number in range(count)))
    assert len(changed(found)) == prepared
    assert not found.errors


def test_of_each_kind_as_few_hosts_are_prepared_as_will_do() -> None:
    """That a host of another kind is needed is no reason to prepare more of these."""
    asking = vm("a", gpus=({"pin": THIRD["pci"]},)), vm("b", MIG), vm("c", MIG)
    found = plan(estate(host(), host(), host(gpus=[THIRD])), *asking)
    assert changed(found) == ["esx-01 mig", "esx-03 gpu_passthrough"]


def test_the_hosts_that_are_so_are_filled_first() -> None:
    both = [FIRST | {"sharing": "mig"}, SECOND | {"sharing": "mig"}]
    vms = [vm(f"a-{number}", MIG) for number in range(6)]
    found = plan(estate(host(), host(), host(gpus=both)), *vms)
    assert changed(found) == ["esx-01 mig"]
    assert places(found) == {"esx-01": 2, "esx-03": 4}


def test_what_one_vm_names_by_address_is_handed_out_on_one_host_alone() -> None:
    """The address is that of a GPU on every host, and the other VM needs the other host's."""
    pinned = vm("a", gpus=(PINNED,))
    found = plan(estate(host(), host()), pinned, vm("b", MIG))
    assert changed(found) == ["esx-01 gpu_passthrough", "esx-02 mig"]
    assert not found.errors
    assert len(plan(estate(host()), pinned, vm("b", MIG)).placements) == 1


def test_a_gpu_that_is_handed_out_is_none_that_serves_vgpus() -> None:
    vms = [vm("a", gpus=(PINNED,)), vm("b", WHOLE), vm("c", WHOLE)]
    in_mig = [FIRST, SECOND, THIRD | {"sharing": "mig"}]
    found = plan(estate(host(gpus=in_mig)), *vms)
    assert changed(found) == ["esx-01 gpu_passthrough", "esx-01 mig"]
    assert not found.errors
    sliced = plan(estate(host(gpus=[FIRST, SECOND, THIRD])), *vms)
    assert changed(sliced) == ["esx-01 gpu_passthrough"]


def twelve() -> list[DesiredVm]:
    return [
        vm(f"{name}-{number}", f"grid_a100d-{size}", cpus=4, memory_mib=16_384)
        for name, size in zip("abcd", ("1-10c", "2-20c", "3-40c", "4-40c"), strict=True)
        for number in range(3)
    ]


def fleet(**sharing: str) -> Inventory:
    """Observe A100 with 80 GB as `lab:mixed-fleet` has them, on hosts that can be emptied."""
    gpus = [GPU | {"board": "A100D", "pci": f"0000:{bus}:00.0"} for bus in ("21", "41", "e2")]
    out = {"passthrough": True, "sharing": "untold"}
    others = {"db": {"host": "esx-04", "gpus": ["grid_a100d-3-40c"], "on": [gpus[0]["pci"]], "memory_gib": 8}}
    return estate(
        host(gpus=[one | sharing for one in gpus[:2]]),
        host(gpus=[one | sharing for one in gpus[:2]]),
        host(gpus=[one | out for one in gpus]),
        host(gpus=[one | {"sharing": "mig"} for one in gpus[:2]]),
        vms=others,
    )


def test_twelve_vms_of_four_sizes_get_mig_mode_on_idle_gpus() -> None:
    found = plan(fleet(), *twelve())
    assert not found.errors
    assert sum(places(found).values()) == 12
    assert {one.split()[0] for one in changed(found)} <= {"esx-01", "esx-02"}
    assert {one.split()[1] for one in changed(found)} == {"mig"}


def test_twelve_vms_of_four_sizes_need_nothing_where_mig_mode_is_on() -> None:
    found = plan(fleet(sharing="mig"), *twelve())
    assert not found.errors
    assert changed(found) == []
    assert sum(places(found).values()) == 12


@pytest.mark.parametrize("asked", ["nvidia_l40s-24c", MIG])
def test_where_nothing_helps_hosts_stay_as_they_are(asked: str) -> None:
    others = {"db": {"host": "esx-01", "gpus": [HALF], "on": [GPU["pci"]]}}
    found = plan(estate(host(), vms=others), vm("a", asked))
    assert changed(found) == []
    assert {one.subject.kind for one in found.errors} >= {"vm"}


@pytest.mark.parametrize(
    ("allow", "expected"),
    [([], []), (["maintenance", "reboot"], ["esx-01 ats"])],
    ids=["may not restart", "may restart"],
)
def test_rdma_is_no_reason_for_what_may_not_be_done(allow: list[str], expected: list[str]) -> None:
    """A path that is not whole is a warning, and a host that may not restart would be an error."""
    out = {"vmnic": "vmnic2", "pci": "0000:24:00.0", "node": 0, "passthrough": True}
    off = {"kernel": {"atsSupport": {"configured": "FALSE", "runtime": "FALSE"}}}
    asking = vm("a", HALF, nics=(RDMA_NIC,), stated=("nics",))
    found = plan(estate(host(nics=[out], facts=off)), asking, disruption={"allow": allow})
    assert changed(found) == expected
    assert not found.errors
    assert ("VG631" in codes(found)) is not bool(expected)
