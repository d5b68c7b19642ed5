from __future__ import annotations

from typing import Any

import pytest

from tests.plans.estate import make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.observed.inventory import DeviceGroupInfo, Inventory
from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.planning.capacity.gpu_state import GpuState, Held, VgpuNeed, needs_of
from vgpu_cfg.planning.pool.gpus import (
    PooledGpu,
    PoolMode,
    StrandedKind,
    Stranding,
    find_stranded,
    pooled_gpus,
)
from vgpu_cfg.planning.pool.summary import GpuPool, add_up, read_pool

A, B, C, D = "0000:21:00.0", "0000:41:00.0", "0000:a1:00.0", "0000:e2:00.0"
CATALOG = load_catalog()
GIB = 1024


def need(name: str) -> VgpuNeed:
    (found,) = needs_of(name, CATALOG).values()
    return found


def stranded(
    board: str, *held: str, mode: VgpuMode = VgpuMode.SAME_SIZE, sharing: Sharing | None = None
) -> tuple[Stranding, ...]:
    gpu = GpuState(A, CATALOG.board(board), sharing=sharing, mode=mode)
    for number, name in enumerate(held):
        assert gpu.refuse(need(name)) is None, name
        gpu.take(need(name), f"vm-{number}")
    needs = [needs_of(entry.name, CATALOG)[gpu.board_key or ""] for entry in CATALOG.board(board).profiles]
    return find_stranded(gpu, needs)


def told(found: tuple[Stranding, ...]) -> list[tuple[StrandedKind, int, int, str]]:
    return [(one.kind, one.framebuffer_mib // GIB, one.compute_slices, one.text) for one in found]


def observe(estate: dict[str, Any]) -> Inventory:
    return make_inventory(estate)


def a100(pci: str = A, **more: Any) -> dict[str, Any]:
    return {"board": "A100", "pci": pci, "node": 0} | more


def runs(*profiles: str, on: str | list[str] = A, **more: Any) -> dict[str, Any]:
    places = [on] if isinstance(on, str) else on
    return {"host": "esx-01", "gpus": list(profiles), "on": places, "memory_gib": 16} | more


def pool(host: dict[str, Any], vms: dict[str, Any] | None = None) -> GpuPool:
    return read_pool(observe({"hosts": {"esx-01": host}, "vms": vms or {}}), CATALOG)


def gpus(host: dict[str, Any], vms: dict[str, Any] | None = None) -> tuple[PooledGpu, ...]:
    return pool(host, vms).gpus


# ---------------------------------------------------------------- what is stranded, each with its twin


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ([], []),
        (["grid_a100-4c"], [(StrandedKind.SIZE_LOCK, 36, 0, "locked to 4 GB by vm-0")]),
        (["grid_a100-10c"] * 2, [(StrandedKind.SIZE_LOCK, 20, 0, "locked to 10 GB by vm-0, vm-1")]),
        (["grid_a100-10c"] * 4, []),
        (["grid_a100-40c"], []),
    ],
)
def test_a_small_vm_binds_the_rest_of_its_gpu_to_its_size(
    held: list[str], expected: list[tuple[StrandedKind, int, int, str]]
) -> None:
    assert told(stranded("A100", *held)) == expected


def test_what_is_beyond_the_most_vgpus_of_a_size_is_lost() -> None:
    full = next(board for board in CATALOG.boards.values() if _leaves_some(board.key))
    entry = next(one for one in full.profiles if one.mig is None and _left(full.key, one.name) > GIB)
    held = [entry.name] * entry.max_per_gpu
    (found,) = stranded(full.key, *held)
    assert (found.kind, found.lost_mib, found.bound_mib) == (
        StrandedKind.FRAMEBUFFER,
        _left(full.key, entry.name),
        0,
    )


def _left(board: str, name: str) -> int:
    found = need(name)
    return CATALOG.board(board).framebuffer_mib - found.max_per_gpu * found.framebuffer_mib


def _leaves_some(board: str) -> bool:
    entries = CATALOG.board(board).profiles
    return any(one.mig is None and _left(board, one.name) > GIB for one in entries)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ([], []),
        (["grid_a100-20c"], []),
        (["grid_a100-20c", "grid_a100-20c"], []),
        # 4 GB are free from 28 on, and a 4c starts at 26 or 30
        (
            ["grid_a100-20c", "grid_a100-8c", "grid_a100-8c"],
            [(StrandedKind.PLACEMENT, 4, 0, "4 GB at invalid positions (free: GB 28-31)")],
        ),
    ],
)
def test_gaps_between_placements_are_lost_in_mixed_size_mode(
    held: list[str], expected: list[tuple[StrandedKind, int, int, str]]
) -> None:
    assert told(stranded("A100", *held, mode=VgpuMode.MIXED_SIZE)) == expected


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ([], []),
        (["grid_a100-3-20c"], []),
        (["grid_a100-4-20c"], []),
        (
            ["grid_a100-3-20c"] * 2,
            [(StrandedKind.COMPUTE_SLICES, 0, 1, "1 compute slice unused: no memory left")],
        ),
        (
            ["grid_a100-1-5c"] * 7,
            [
                (
                    StrandedKind.MEMORY_SLICES,
                    5,
                    0,
                    "1 memory slice unusable: no compute slices left (free: slice 7)",
                )
            ],
        ),
        (["grid_a100-4-20c", "grid_a100-3-20c"], []),
        (["grid_a100-7-40c"], []),
    ],
)
def test_slices_are_cut_off_where_no_instance_may_start(
    held: list[str], expected: list[tuple[StrandedKind, int, int, str]]
) -> None:
    assert told(stranded("A100", *held, sharing=Sharing.MIG)) == expected


def test_memory_is_cut_off_where_a_slice_is_free_and_nothing_may_start_there() -> None:
    """Three 2g and a 1g take all compute, and leave a memory slice."""
    held = ["grid_a100-2-10c"] * 3 + ["grid_a100-1-5c"]
    (found,) = stranded("A100", *held, sharing=Sharing.MIG)
    assert (found.kind, found.lost_mib) == (StrandedKind.MEMORY_SLICES, 5 * GIB)
    # Without the 1g two slices are free, and a 1g of double memory may start there.
    assert stranded("A100", *held[:3], sharing=Sharing.MIG) == ()


def test_an_instance_that_vgpus_share_is_bound_to_their_profile() -> None:
    entry = next(
        one
        for board in CATALOG.boards.values()
        for one in board.profiles
        if one.mig is not None and one.mig.per_instance > 1
    )
    found = stranded(entry.board.key, entry.name, sharing=Sharing.MIG)
    bound = [one for one in found if one.kind is StrandedKind.SHARED_INSTANCE]
    assert entry.mig is not None
    assert [one.bound_mib for one in bound] == [(entry.mig.per_instance - 1) * entry.framebuffer_mib]
    full = stranded(entry.board.key, *[entry.name] * entry.mig.per_instance, sharing=Sharing.MIG)
    assert not [one for one in full if one.kind is StrandedKind.SHARED_INSTANCE]


def test_nothing_is_said_of_a_gpu_whose_holder_is_not_known() -> None:
    gpu = GpuState(A, CATALOG.board("A100"))
    gpu.held.append(Held("stranger", None))
    assert find_stranded(gpu, [need("grid_a100-40c")]) == ()


# ---------------------------------------------------------------- NVLink


def links(board: str, profile: str, sizes: list[int], count: int, vms: dict[str, Any]) -> list[list[str]]:
    """Return what each GPU of a host says of NVLink whose device groups have these sizes."""
    addresses = (A, B, C, D)[:count]
    rows = [{"board": board, "pci": pci, "node": 0} for pci in addresses]
    groups = tuple(
        DeviceGroupInfo.of_peers(f"Nvidia:{size}@{profile}%NVLink", profile, size) for size in sizes
    )
    observed = observe({"hosts": {"esx-01": {"gpus": rows}}, "vms": vms})
    host = observed.hosts[0].model_copy(update={"device_groups": groups})
    found = pooled_gpus(observed.model_copy(update={"hosts": (host,)}), CATALOG)
    return [[one.text for one in gpu.stranded if one.kind is StrandedKind.NVLINK] for gpu in found]


def test_the_free_half_of_a_pair_has_lost_its_peer() -> None:
    pair = ("A100", "grid_a100-40c", [2], 2)
    assert links(*pair, {"a": runs("grid_a100-40c")}) == [[], [f"NVLink peer {A} is used individually by a"]]
    assert links(*pair, {"a": runs("grid_a100-40c", "grid_a100-40c", on=[A, B])}) == [[], []]
    assert links(*pair, {}) == [[], []]


def test_without_device_groups_nobody_knows_the_pairs() -> None:
    assert links("A100", "grid_a100-40c", [], 2, {"a": runs("grid_a100-40c")}) == [[], []]


def test_one_gpu_of_an_nvswitch_that_is_used_alone_leaves_smaller_groups() -> None:
    four = ("H100XM", "nvidia_h100xm-80c", [2, 4], 4)
    words = "no NVLink group of 4 is free: a has GPUs in it"
    assert links(*four, {"a": runs("nvidia_h100xm-80c")}) == [[], [words], [words], [words]]
    both = runs(*["nvidia_h100xm-80c"] * 2, on=[A, B])
    assert links(*four, {"a": both}) == [[], [], [words], [words]]


# ---------------------------------------------------------------- GPUs and the pool


def test_each_gpu_tells_its_mode_what_runs_and_what_it_takes() -> None:
    found = gpus(
        {
            "gpus": [
                a100(),
                a100(B, mode="mixed_size"),
                a100(C, sharing="mig"),
                a100(D, passthrough=True, label="whole"),
            ]
        },
        {"a": runs("grid_a100-10c"), "b": runs("grid_a100-3-20c", on=C)},
    )
    assert [gpu.mode for gpu in found] == [
        PoolMode.SAME_SIZE,
        PoolMode.MIXED_SIZE,
        PoolMode.MIG,
        PoolMode.PASSTHROUGH,
    ]
    assert [[(run.vm, run.profile, run.start) for run in gpu.runs] for gpu in found] == [
        [("a", "grid_a100-10c", None)],
        [],
        [("b", "grid_a100-3-20c", 4)],
        [],
    ]
    assert found[0].room == {"grid_a100-10c": 3}
    assert found[2].room["grid_a100-4-20c"] == 1
    assert found[3].label == "whole"
    assert [gpu.is_idle for gpu in found] == [False, True, False, True]


def test_profiles_of_other_series_count_only_where_the_host_offers_them() -> None:
    two, a = [a100(), a100(B)], {"a": runs("grid_a100-4q")}
    for offered in (["grid_a100-10c", "grid_a100-4q"], ["grid_a100-10c"]):
        found = gpus({"gpus": two, "profiles": offered}, a)
        assert [sorted(gpu.room) for gpu in found] == [sorted({"grid_a100-4q"} & {*offered}), sorted(offered)]


@pytest.mark.parametrize(
    ("gpu", "host", "why"),
    [
        (a100(type="shared"), {}, "graphics type is not sharedDirect"),
        (a100(), {"maintenance": True}, "host is in maintenance mode"),
        (a100(), {"connection": "notResponding"}, "host does not respond"),
        ({"board": "unknown", "pci": A}, {}, "board not in the catalog"),
        (a100(), {}, ""),
    ],
)
def test_a_gpu_that_is_not_ready_says_why(gpu: dict[str, Any], host: dict[str, Any], why: str) -> None:
    (found,) = gpus({"gpus": [gpu]} | host)
    assert found.obstacle == why
    assert bool(found.room) is not bool(why)


def test_the_pool_adds_up_by_board_and_mode() -> None:
    found = pool(
        {"gpus": [a100(), a100(B), a100(C, sharing="mig"), a100(D, type="shared")]},
        {"a": runs("grid_a100-4c"), "b": runs("grid_a100-3-20c", "grid_a100-3-20c", on=C)},
    )
    rows = {row.mode: row for row in found.rows}
    same, mig = rows[PoolMode.SAME_SIZE], rows[PoolMode.MIG]
    assert (same.gpus, same.idle, same.not_ready) == (3, 1, 1)
    assert (same.used, same.bound_mib, same.free_4g) == ({"grid_a100-4c": 1}, 36 * GIB, None)
    assert (same.room["grid_a100-4c"], same.room["grid_a100-40c"]) == (19, 1)
    assert (mig.free_4g, mig.lost_compute_slices, mig.lost_mib) == (0, 1, 0)


def test_free_4g_starts_are_counted() -> None:
    host = {"gpus": [a100(sharing="mig"), a100(B, sharing="mig")]}
    assert [row.free_4g for row in pool(host).rows] == [2]
    assert [row.free_4g for row in pool(host, {"a": runs("grid_a100-1-5c")}).rows] == [2]
    assert [row.free_4g for row in pool(host, {"a": runs("grid_a100-7-40c")}).rows] == [1]


def test_vms_that_are_off_and_have_gpus_are_named_and_templates_are_not() -> None:
    host = {"gpus": [a100(), a100(B, passthrough=True)]}
    found = pool(
        host,
        {
            "off": runs("grid_a100-40c", power="poweredOff", mark="other/off"),
            "held": runs(power="suspended", passthrough=[{"pci": B}]),
            "on": runs("grid_a100-40c"),
            "plain": runs(power="poweredOff"),
        },
    )
    assert [(one.vm, one.state, one.devices, one.plan) for one in found.off] == [
        ("held", "suspended", (B,), ""),
        ("off", "poweredOff", ("grid_a100-40c",), "other"),
    ]


def running(cpu_mhz: int | None, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = {} if cpu_mhz is None else {"cpu_mhz": cpu_mhz, "max_cpu_mhz": 20_000}
    return runs("grid_a100-10c", **told, **more)


def test_a_vm_that_uses_almost_no_cpu_is_idle_and_one_at_work_is_not() -> None:
    vms = {
        "at-rest": running(199, uptime=90_000, mark="other/at-rest"),
        "at-the-limit": running(200),
        "at-work": running(9000),
        "off": running(0, power="poweredOff"),
        "no-gpu": {"host": "esx-01", "cpu_mhz": 0},
    }
    found = pool({"gpus": [a100()]}, vms)
    (idle,) = found.idle
    assert (idle.vm, idle.host, idle.folder) == ("at-rest", "esx-01", "/dc1/vm/training")
    assert (idle.devices, idle.cpu_percent, idle.uptime_seconds) == (("grid_a100-10c",), 0.99, 90_000)
    assert (idle.plan, found.idle_below, found.cpu_untold) == ("other", 1.0, ())


def test_what_vcenter_does_not_tell_is_not_taken_for_idle() -> None:
    found = pool({"gpus": [a100()]}, {"silent": running(None), "off": running(None, power="poweredOff")})
    assert (found.idle, found.cpu_untold) == ((), ("silent",))


def test_the_limit_of_idleness_can_be_chosen() -> None:
    observed = observe({"hosts": {"esx-01": {"gpus": [a100()]}}, "vms": {"a": running(900)}})
    assert [one.vm for one in read_pool(observed, CATALOG, idle_below=5).idle] == ["a"]
    assert read_pool(observed, CATALOG, idle_below=4.5).idle == ()
    assert read_pool(observed, CATALOG, wants_host=lambda _: False, idle_below=5).idle == ()


def test_a_whole_gpu_that_is_passed_through_counts_and_a_nic_does_not() -> None:
    host = {"gpus": [a100(passthrough=True)], "nics": [{"pci": B, "passthrough": True}]}
    vms = {
        "gpu": runs(passthrough=[{"pci": A}], cpu_mhz=1),
        "nic": runs(passthrough=[{"pci": B, "nic": True}], cpu_mhz=1),
    }
    assert [(one.vm, one.devices) for one in pool(host, vms).idle] == [("gpu", (A,))]


def test_pools_add_up_to_the_pool_of_all_their_hosts() -> None:
    mig = {"sharing": "mig"}
    hosts = {
        "esx-01": {"gpus": [a100(), a100(D)]},
        "esx-02": {"gpus": [a100(), a100(D) | mig]},
        "esx-03": {"gpus": [a100() | mig, {"board": "L40S", "pci": D, "node": 1}]},
    }
    vms = {
        "a": runs("grid_a100-10c"),
        "b": runs("grid_a100-3-20c", on=D, host="esx-02"),
        "c": runs("grid_a100-4-20c", on=A, host="esx-03"),
    }
    observed = observe({"hosts": hosts, "vms": vms})
    alone = [read_pool(observed, CATALOG, wants_host=name.__eq__).rows for name in hosts]
    whole = read_pool(observed, CATALOG).rows
    assert add_up(alone) == whole
    assert add_up([whole]) == whole
    assert [(row.board_key, str(row.mode), row.hosts, row.free_4g) for row in whole] == [
        ("A100", "MIG", 2, 1),
        ("A100", "same size", 2, None),
        ("L40S", "same size", 1, None),
    ]
