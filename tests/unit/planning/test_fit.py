from __future__ import annotations

from typing import Any

import pytest

from tests.plans.estate import make_inventory
from tests.unit.planning import desired_plans as desires
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.observed.inventory import DeviceGroupInfo
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.model.vgpu import VgpuProfile
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.pool.fit import Gain, next_step
from vgpu_cfg.planning.pool.shapes import CurrentHosts, Fits

CATALOG = load_catalog()
A, B = "0000:21:00.0", "0000:e2:00.0"


def a100(pci: str = A, **more: Any) -> dict[str, Any]:
    return {"board": "A100", "pci": pci, "node": 0} | more


def runs(*profiles: str, on: str | list[str] = A, **more: Any) -> dict[str, Any]:
    places = [on] if isinstance(on, str) else on
    return {"host": "esx-01", "gpus": list(profiles), "on": places, "memory_gib": 16} | more


def fit(profile: str, host: dict[str, Any], vms: dict[str, Any] | None = None) -> Fits:
    observed = make_inventory({"hosts": {"esx-01": host}, "vms": vms or {}})
    return CurrentHosts(observed, CATALOG).fit_gpu(
        GpuEntry(profile=(VgpuProfile.parse(profile),)), lambda _: True
    )


def test_copies_are_counted_until_there_is_no_place() -> None:
    found = fit("grid_a100-10c", {"gpus": [a100(), a100(B)]})
    assert found.total == 8
    assert [limit.text for limit in found.hosts[0].limits] == ["memory of 2 GPUs"]


def test_gpu_memory_is_counted_with_the_smallest_profiles_that_have_a_place() -> None:
    host = {"gpus": [a100(), a100(B)]}
    observed = make_inventory({"hosts": {"esx-01": host}, "vms": {"a": runs("grid_a100-20c")}})
    found = CurrentHosts(observed, CATALOG).fit_gpu(GpuEntry(memory=10240), lambda _: True)
    assert (found.total, found.profiles) == (5, ("grid_a100-10c",))
    assert dict(found.hosts[0].profiles) == {"grid_a100-10c": 4, "grid_a100-20c": 1}


def test_a_size_that_runs_there_locks_its_gpu() -> None:
    host = {"gpus": [a100(), a100(B)]}
    found = fit("grid_a100-10c", host, {"small-01": runs("grid_a100-4c")})
    assert found.total == 4
    assert [limit.text for limit in found.hosts[0].limits] == [
        "small-01 locks 1 GPU to 4 GB",
        "memory of 1 GPU",
    ]
    assert found.hosts[0].gains == (Gain("small-01", 4),)
    assert fit("grid_a100-4c", host, {"small-01": runs("grid_a100-4c")}).total == 19


def test_where_nothing_fits_the_next_step_names_who_is_in_the_way() -> None:
    host = {"gpus": [a100(), a100(B)]}
    vms = {"small-01": runs("grid_a100-4c"), "small-02": runs("grid_a100-4c", on=B)}
    found = fit("grid_a100-20c", host, vms)
    assert found.total == 0
    said = next_step(found.hosts)
    assert said.startswith(
        "nothing fits: small-01, small-02 lock 2 GPUs to 4 GB (esx-01); "
        "without small-01, 2 more would fit; or use the size"
    )
    assert next_step(fit("grid_a100-4c", host, vms).hosts) == ""


def test_one_small_vm_keeps_a_whole_gpu_from_the_full_profile() -> None:
    found = fit("grid_a100-40c", {"gpus": [a100()]}, {"small-01": runs("grid_a100-4c")})
    (host,) = found.hosts
    assert [limit.text for limit in host.limits] == ["1 GPU with too little memory (small-01)"]
    assert host.gains == (Gain("small-01", 1),)
    full = fit("grid_a100-40c", {"gpus": [a100()]}, {"all": runs("grid_a100-40c")})
    assert full.hosts[0].gains == ()


@pytest.mark.parametrize(
    ("held", "profile", "count"),
    [
        ([], "grid_a100-1-5c", 7),
        ([], "grid_a100-3-20c", 2),
        (["grid_a100-3-20c"], "grid_a100-4-20c", 1),
        (["grid_a100-3-20c", "grid_a100-3-20c"], "grid_a100-1-5c", 0),
        (["grid_a100-1-5c"], "grid_a100-4-20c", 1),
        (["grid_a100-1-5c"], "grid_a100-2-10c", 3),
    ],
)
def test_mig_slices_and_their_starts_are_heeded(held: list[str], profile: str, count: int) -> None:
    vms = {f"vm-{number}": runs(name) for number, name in enumerate(held)}
    assert fit(profile, {"gpus": [a100(sharing="mig")]}, vms).total == count


@pytest.mark.parametrize(("mode", "count"), [("mixed_size", 2), ("same_size", 0)])
def test_mixed_sizes_go_beside_each_other_in_their_mode_alone(mode: str, count: int) -> None:
    found = fit("grid_a100-10c", {"gpus": [a100(mode=mode)]}, {"a": runs("grid_a100-20c")})
    assert found.total == count


@pytest.mark.parametrize(
    ("host", "code", "text"),
    [
        (
            {"gpus": [a100(type="shared")]},
            Code.NOT_SHARED_DIRECT,
            "1 GPU not set to graphics type sharedDirect",
        ),
        ({"gpus": [a100(passthrough=True)]}, Code.GPU_IN_PASSTHROUGH, "1 GPU passed through"),
        ({"gpus": [a100(sharing="mig")]}, Code.GPU_IN_MIG_MODE, "1 GPU in MIG mode"),
        ({"gpus": [{"board": "L40S", "pci": A}]}, Code.NO_SUCH_BOARD, "has L40S"),
        ({"gpus": []}, Code.NO_SUCH_BOARD, "has no GPU"),
    ],
)
def test_a_host_that_cannot_give_it_says_why(host: dict[str, Any], code: Code, text: str) -> None:
    (found,) = fit("grid_a100-40c", host).hosts
    assert (found.count, found.limits[0].code, found.limits[0].text) == (0, code, text)


def test_hosts_that_take_no_vm_are_not_in_question() -> None:
    assert fit("grid_a100-40c", {"gpus": [a100()], "maintenance": True}).hosts == ()
    assert next_step(()) == "no eligible host"


# ---------------------------------------------------------------- a VM of a plan file


def fit_vm(
    *profiles: str, host: dict[str, Any] | None = None, vms: dict[str, Any] | None = None, **more: Any
) -> Fits:
    vm = desires.vm("copy", *profiles, **more)
    row = host or {"gpus": [a100(), a100(B, node=1)]}
    observed = make_inventory({"hosts": {"esx-01": row}, "vms": vms or {}})
    return CurrentHosts(observed, CATALOG).fit_vm(desires.plan_for(vm), vm, lambda _: True)


def test_a_vm_of_several_vgpus_counts_whole_vms() -> None:
    assert fit_vm("grid_a100-40c", "grid_a100-40c").total == 1
    assert fit_vm("grid_a100-20c", "grid_a100-20c").total == 2
    short = fit_vm("grid_a100-40c", "grid_a100-40c", vms={"a": runs("grid_a100-40c")})
    texts = [limit.text for limit in short.hosts[0].limits]
    assert (short.total, texts) == (
        0,
        ["capacity for only 1 of the 2 grid_a100-40c that a VM needs", "1 GPU full"],
    )


def test_memory_that_can_be_reserved_limits_vms_and_not_profiles() -> None:
    host = {"gpus": [a100(), a100(B)], "node_gib": 64}
    found = fit_vm("grid_a100-10c", host=host)
    assert (found.total, found.memory_mib) == (1, 65_536)
    assert found.hosts[0].limits[0].code is Code.HOST_MEMORY
    assert found.hosts[0].limits[0].text == "only 57 GiB of memory can be reserved, but 64 GiB is required"
    assert fit("grid_a100-10c", host).total == 8


def test_what_is_too_tight_for_a_numa_node_is_counted_and_told() -> None:
    host = {"gpus": [a100()], "nodes": 1, "cores": 16}
    assert [one.numa_tight for one in fit_vm("grid_a100-10c", host=host).hosts] == [2]
    assert [one.numa_tight for one in fit_vm("grid_a100-20c", host=host | {"cores": 64}).hosts] == [0]


def test_a_line_that_is_spread_over_hosts_fits_once_on_each() -> None:
    place = {"spread": "hosts", "must": True}
    found = fit_vm("grid_a100-10c", place=place)
    assert (found.total, found.hosts[0].limits[0].text) == (1, "at most one VM of this item per host")
    assert fit_vm("grid_a100-10c").total == 7


def test_whole_gpus_are_counted_by_what_is_free() -> None:
    gpus = ({"device": {"label": "whole"}},)
    host = {"gpus": [a100(passthrough=True, label="whole"), a100(B, passthrough=True, label="whole")]}
    assert fit_vm(host=host, gpus=gpus).total == 2
    held = {"a": runs(passthrough=[{"pci": A}])}
    found = fit_vm(host=host, gpus=gpus, vms=held)
    assert (found.total, found.hosts[0].limits[0].vms[:1]) == (1, ("a",))


def test_hosts_that_are_to_be_kept_free_take_none() -> None:
    place = {"keep_free": 1}
    assert fit_vm("grid_a100-10c", place=place).total == 0
    assert fit_vm("grid_a100-10c", place=place, vms={"a": runs("grid_a100-10c")}).total == 7


def test_nvlink_peers_need_a_set_that_is_all_idle() -> None:
    gpus = tuple({"profile": ("grid_a100-40c",), "nvlink": 1, "uvm": False} for _ in range(2))
    group = DeviceGroupInfo.of_peers("pair", "grid_a100-40c", 2)

    def count(vms: dict[str, Any]) -> tuple[int, list[str]]:
        rows = [a100(f"0000:{bus}:00.0") for bus in ("21", "41", "a1", "e2")]
        observed = make_inventory({"hosts": {"esx-01": {"gpus": rows}}, "vms": vms})
        host = observed.hosts[0].model_copy(update={"device_groups": (group,)})
        vm = desires.vm("copy", gpus=gpus)
        current_hosts = CurrentHosts(observed.model_copy(update={"hosts": (host,)}), CATALOG)
        found = current_hosts.fit_vm(desires.plan_for(vm), vm, lambda _: True)
        return found.total, [limit.code for limit in found.hosts[0].limits]

    assert count({})[0] == 2
    alone = {"a": runs("grid_a100-40c"), "b": runs("grid_a100-40c", on="0000:a1:00.0")}
    assert count(alone) == (0, [Code.NVLINK_GROUP_BROKEN, Code.GPU_FULL])


def test_a_vm_that_the_estate_cannot_have_is_an_error_and_no_count() -> None:
    found = fit_vm("grid_a100-10c", source={"kind": "template", "path_or_name": "absent"})
    assert (found.hosts, [error.code for error in found.errors]) == ((), ["VG201"])
    assert fit_vm("grid_a100-10c").errors == ()


def test_a_vm_that_exists_is_counted_as_one_more() -> None:
    assert fit_vm("grid_a100-40c", vms={"copy": runs("grid_a100-40c")}).total == 1
