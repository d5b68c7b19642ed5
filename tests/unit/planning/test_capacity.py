from __future__ import annotations

from typing import Any

import pytest

from tests.plans.estate import make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.model.vgpu import Sharing, VgpuProfile
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader, HostCapacity
from vgpu_cfg.planning.findings.codes import Code

A, B = "0000:21:00.0", "0000:e2:00.0"
CATALOG = load_catalog()


def capacity(
    host: dict[str, Any], vms: dict[str, Any] | None = None, without: frozenset[str] = frozenset()
) -> HostCapacity:
    observed = make_inventory({"hosts": {"esx-01": host}, "vms": vms or {}})
    return CapacityReader(observed, CATALOG).read(observed.hosts[0], without=without)


def a100(pci: str = A, **more: Any) -> dict[str, Any]:
    return {"board": "A100", "pci": pci, "node": 0} | more


def runs(*profiles: str, on: list[str] | None = None, **more: Any) -> dict[str, Any]:
    return {"host": "esx-01", "gpus": list(profiles), "on": on or [A], "memory_gib": 16} | more


def held(found: HostCapacity) -> list[list[str]]:
    return [[one.need.name if one.need else "?" for one in gpu.held] for gpu in found.gpus]


def test_running_vms_hold_what_the_host_says() -> None:
    found = capacity(
        {"gpus": [a100(), a100(B)]},
        {"a": runs("grid_a100-10c"), "b": runs("grid_a100-10q"), "c": runs("grid_a100-40c", on=[B])},
    )
    assert held(found) == [["grid_a100-10c", "grid_a100-10q"], ["grid_a100-40c"]]
    assert found.room("grid_a100-10c", CATALOG) == 2


def test_several_vgpus_of_a_vm_are_spread_over_its_gpus() -> None:
    found = capacity({"gpus": [a100(), a100(B)]}, {"a": runs("grid_a100-40c", "grid_a100-40c", on=[A, B])})
    assert held(found) == [["grid_a100-40c"], ["grid_a100-40c"]]


def test_a_powered_off_vm_claims_and_holds_nothing() -> None:
    found = capacity({"gpus": [a100()]}, {"a": runs("grid_a100-40c", power="poweredOff")})
    assert held(found) == [[]]
    assert [(claim.vm, claim.profile) for claim in found.claims] == [("a", "grid_a100-40c")]


def test_a_running_vm_that_no_gpu_is_told_to_serve_takes_one_that_fits() -> None:
    found = capacity(
        {"gpus": [a100(), a100(B)]}, {"a": runs("grid_a100-40c"), "b": runs("grid_a100-40c", on=["none"])}
    )
    assert held(found) == [["grid_a100-40c"], ["grid_a100-40c"]]


def test_a_holder_that_cannot_be_read_takes_the_gpu() -> None:
    found = capacity({"gpus": [a100()]}, {"a": runs("grid_a100-10c", readable=False)})
    assert held(found) == [["?"]]
    assert found.unread == ["a"]


def test_vms_can_be_left_out() -> None:
    found = capacity({"gpus": [a100()]}, {"a": runs("grid_a100-10c")}, without=frozenset({"vm-a"}))
    assert held(found) == [[]]


@pytest.mark.parametrize(
    ("row", "obstacle"),
    [
        ({}, None),
        ({"type": "shared"}, Code.NOT_SHARED_DIRECT),
        ({"type": "basic"}, Code.NO_HOST_DRIVER),
        ({"passthrough": True}, Code.GPU_IN_PASSTHROUGH),
    ],
)
def test_what_keeps_a_gpu_from_serving_vgpus(row: dict[str, Any], obstacle: Code | None) -> None:
    assert capacity({"gpus": [a100(**row)]}).gpus[0].obstacle is obstacle


def test_a_host_that_offers_nothing_has_no_driver_unless_all_is_taken() -> None:
    old = {"tells_profiles": False, "creatable": [], "gpus": [a100()]}
    assert capacity(old).gpus[0].obstacle is Code.NO_HOST_DRIVER
    assert capacity(old, {"a": runs("grid_a100-40c")}).gpus[0].obstacle is None
    assert capacity({"driver": False, "gpus": [a100()]}).gpus[0].obstacle is Code.NO_HOST_DRIVER


@pytest.mark.parametrize(
    ("creatable", "sharing"),
    [
        (["grid_a100-1-5c", "grid_a100-2-10c"], Sharing.MIG),
        (["grid_a100-40c"], Sharing.TIME_SLICED),
        (["grid_a100-40c", "grid_a100-1-5c"], None),
        ([], None),
    ],
)
def test_an_idle_gpus_mode_follows_from_what_can_be_created(
    creatable: list[str], sharing: Sharing | None
) -> None:
    found = capacity({"tells_profiles": False, "creatable": creatable, "gpus": [a100(sharing="untold")]})
    assert found.gpus[0].sharing is sharing


def test_where_mig_instances_stand_follows_from_what_can_be_created() -> None:
    names = ["grid_a100-1-5c", "grid_a100-1-5cme", "grid_a100-1-10c", "grid_a100-2-10c", "grid_a100-3-20c"]
    host = {
        "gpus": [a100(sharing="mig")],
        "creatable": [*names, *(f"{name.removesuffix('c')}q" for name in names)],
    }
    found = capacity(host, {"a": runs("grid_a100-3-20c")})
    assert found.gpus[0].held[0].start == 0  # a 4g cannot be created, so the 3g stands where it would


def test_mig_instances_stand_where_vsphere_likes_them_otherwise() -> None:
    found = capacity({"gpus": [a100(sharing="mig")]}, {"a": runs("grid_a100-3-20c")})
    assert found.gpus[0].held[0].start == 4


@pytest.mark.parametrize(
    ("told", "starts", "is_4g_free"),
    [
        (None, [4], True),
        ({A: [[0, 4]]}, [0], False),
        ({A: [[4, 4]]}, [4], True),
        ({A: [[0, 2]]}, [4], True),
        ({}, [4], True),
    ],
    ids=["not asked", "low", "high", "another instance", "none"],
)
def test_mig_instances_stand_where_their_host_says(
    told: dict[str, list[list[int]]] | None, starts: list[int], *, is_4g_free: bool
) -> None:
    """What is told of other instances than the VMs have is left alone: the guess is as good as before."""
    facts = {} if told is None else {"mig": told}
    host = {"gpus": [a100(sharing="mig"), a100(B, sharing="mig")], "facts": facts}
    found = capacity(host, {"a": runs("grid_a100-3-20c"), "b": runs("grid_a100-7-40c", on=[B])})
    assert [held.start for held in found.gpus[0].held] == starts
    assert bool(found.room("grid_a100-4-20c", CATALOG)) is is_4g_free


def test_several_vgpus_stand_on_the_instances_that_are_told() -> None:
    told = {A: [[2, 2], [0, 1], [6, 1]]}
    host = {"gpus": [a100(sharing="mig")], "facts": {"mig": told}}
    vms = {"a": runs("grid_a100-2-10c"), "b": runs("grid_a100-1-5c"), "c": runs("grid_a100-1-5c")}
    held = capacity(host, vms).gpus[0].held
    assert sorted((one.start, one.need.name) for one in held if one.need is not None) == [
        (0, "grid_a100-1-5c"),
        (2, "grid_a100-2-10c"),
        (6, "grid_a100-1-5c"),
    ]


def test_an_impossible_reading_blocks_the_gpu() -> None:
    vms = {name: runs("grid_a100-7-40c") for name in "ab"}
    assert capacity({"gpus": [a100(sharing="mig")]}, vms).gpus[0].obstacle is Code.HOLDER_UNKNOWN


def test_a_board_that_the_catalogue_lacks_is_told_by_the_profiles_of_its_host() -> None:
    unknown = {"board": "unknown", "pci": A, "node": 0}
    assert capacity({"gpus": [unknown]}).gpus[0].board is None
    told = capacity({"gpus": [unknown], "creatable": ["grid_a100-40c"]}).gpus[0]
    assert told.board_key == "A100"


@pytest.mark.parametrize(
    ("device", "holder"),
    [
        ({"pci": A}, "a"),
        ({"allowed": [[0x10DE, 0x20F1]], "assigned": A}, "a"),
        ({"allowed": [[0x10DE, 0x20F1]]}, "a"),
        ({"allowed": [[0x10DE, 0x20F1]], "label": "other"}, None),
        ({"pci": B}, None),
    ],
)
def test_passed_through_devices_have_holders(device: dict[str, Any], holder: str | None) -> None:
    row = {"host": "esx-01", "passthrough": [device]}
    found = capacity({"gpus": [a100(passthrough=True, label="x")]}, {"a": row})
    wanted = "a" if device.get("label") is None and holder else holder
    assert found.slots[0].holder == wanted


def test_a_slot_that_serves_vgpus_says_so() -> None:
    found = capacity({"gpus": [a100(), a100(B)]}, {"a": runs("grid_a100-10c")})
    assert [slot.has_vgpus for slot in found.slots] == [True, False]


def test_series_share_from_8_0_2_on() -> None:
    assert capacity({"gpus": [a100()]}).gpus[0].mixes_series
    assert not capacity({"version": "8.0.1", "gpus": [a100()]}).gpus[0].mixes_series


def test_what_vms_of_a_line_ask_for_is_looked_up_once() -> None:
    def asked(*profiles: str) -> tuple[GpuEntry, ...]:
        return (GpuEntry(profile=tuple(VgpuProfile.parse(one) for one in profiles)),)

    reader = CapacityReader(make_inventory({"hosts": {"esx-01": {"gpus": [a100()]}}}), CATALOG)
    line = asked("grid_a100-10c", "nvidia_l40s-12c")
    found = reader.variants(line)
    assert [need.name for (need,) in found] == ["grid_a100-10c", "nvidia_l40s-12c"]
    assert reader.variants(line) is found
    assert reader.variants(asked("grid_a100-10c", "nvidia_l40s-12c")) == found
    assert reader.variants(asked("grid_a100-20c")) != found
