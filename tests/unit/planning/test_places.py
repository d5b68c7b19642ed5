"""Other places for VMs that lose theirs: where each goes, on which GPUs, or why it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.estate import make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.plan_file import ProtectEntry
from vgpu_cfg.planning.estate.protection import Protection
from vgpu_cfg.planning.moves.movables import OwnHost
from vgpu_cfg.planning.moves.places import find_places

CATALOG = load_catalog()
A = "0000:21:00.0"


def runs(host: int, *profiles: str, **more: Any) -> dict[str, Any]:
    return {"host": f"esx-{host}", "gpus": list(profiles), "on": [A] * len(profiles), "memory_gib": 16} | more


def rules(kind: str, *vms: str, **more: Any) -> dict[str, Any]:
    return {
        "gpu": {"drs": "fullyAutomated", "rules": [{"name": "r", "kind": kind, "vms": list(vms), **more}]}
    }


SMALL, HALF, WHOLE = "grid_a100-10c", "grid_a100-20c", "grid_a100-40c"
FULL = "no other host in its cluster has capacity for it"
RULED = "DRS rules in its cluster exclude every other host"


@pytest.mark.parametrize(
    ("vms", "rows", "leaving", "found"),
    [
        ({"a": runs(1, WHOLE)}, {}, "a", {"a": f"esx-2 {A}"}),
        ({"a": runs(1, HALF), "b": runs(1, HALF)}, {}, "ab", {"a": f"esx-2 {A}", "b": f"esx-2 {A}"}),
        ({"a": runs(1, WHOLE), "b": runs(2, HALF)}, {}, "a", {"a": f"esx-3 {A}"}),
        (
            {"a": runs(1, WHOLE), "b": runs(2, SMALL), "c": runs(3, SMALL)},
            {},
            "a",
            {"a": FULL},
        ),
        (
            {"a": runs(1, WHOLE), "b": runs(2, WHOLE), "c": runs(3, SMALL)},
            {},
            "ab",
            {"a": f"esx-2 {A}", "b": f"esx-1 {A}"},
        ),
        (
            {"a": runs(1, WHOLE)},
            {"esx-2": {"cordon": "broken"}, "esx-3": {"maintenance": True}},
            "a",
            {"a": f"{FULL} (esx-2 is at least partly cordoned)"},
        ),
        (
            {"a": runs(1, HALF), "b": runs(2, HALF)},
            {"clusters": rules("anti_affinity", "a", "b")},
            "a",
            {"a": f"esx-3 {A}"},
        ),
        (
            {"a": runs(1, HALF), "b": runs(2, HALF), "c": runs(3, HALF)},
            {"clusters": rules("anti_affinity", "a", "b", "c")},
            "a",
            {"a": RULED},
        ),
        (
            {"a": runs(1, HALF), "b": runs(2, HALF), "c": runs(3, HALF)},
            {"clusters": rules("anti_affinity", "a", "b", "c", must=False)},
            "a",
            {"a": f"esx-2 {A}"},
        ),
        (
            {"a": runs(1, HALF), "b": runs(3, HALF)},
            {"clusters": rules("affinity", "a", "b")},
            "a",
            {"a": f"esx-3 {A}"},
        ),
        (
            {"a": runs(1, HALF), "b": runs(1, HALF)},
            {"clusters": rules("affinity", "a", "b"), "esx-3": {"maintenance": True}},
            "ab",
            {"a": f"esx-2 {A}", "b": f"esx-2 {A}"},
        ),
        (
            {"a": runs(1, HALF), "b": runs(1, HALF)},
            {"clusters": rules("anti_affinity", "a", "b"), "esx-3": {"maintenance": True}},
            "ab",
            {"a": RULED, "b": RULED},
        ),
        ({"a": runs(1, HALF, power="poweredOff")}, {}, "a", {"a": f"esx-2 {A}"}),
        (
            {"a": runs(1, WHOLE), "b": runs(1, WHOLE, power="poweredOff"), "c": runs(3, SMALL)},
            {},
            "ab",
            {"a": f"esx-2 {A}", "b": FULL},
        ),
    ],
)
def test_vms_get_another_place(vms: Any, rows: dict[str, Any], leaving: str, found: dict[str, str]) -> None:
    assert places(vms, rows, leaving) == found


def places(vms: Any, rows: dict[str, Any], leaving: str, **options: Any) -> dict[str, str]:
    gpus = [{"board": "A100", "pci": A, "node": 0}]
    hosts = {name: {"gpus": gpus, **rows.get(name, {})} for name in ("esx-1", "esx-2", "esx-3")}
    observed = make_inventory({"hosts": hosts, "vms": vms, "clusters": rows.get("clusters", {"gpu": {}})})
    moving = [vm for vm in observed.vms if vm.name in list(leaving)]
    protection = Protection((("the plan file", ProtectEntry(names=("kept*",))),))
    result = find_places(moving, observed, CATALOG, protection, **options)
    given = {
        vm.name: f"{place.host_name} {' '.join(place.gpu_pci_ids)}"
        for vm in moving
        if (place := result.placements.get(vm.moid)) is not None
    }
    return given | {vm.name: result.why_not[vm.moid] for vm in moving if vm.moid in result.why_not}


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"home": OwnHost.NEVER}, f"esx-2 {A}"),
        ({"home": OwnHost.FIRST}, f"esx-1 {A}"),
        ({"allowed": {"vm-a": ["host-esx-3"]}}, f"esx-3 {A}"),
    ],
)
def test_hosts_that_a_vm_may_go_to(options: dict[str, Any], place: str) -> None:
    assert places({"a": runs(1, HALF, power="poweredOff")}, {}, "a", **options) == {"a": place}


def test_neither_its_host_nor_another() -> None:
    vms = {
        "a": runs(1, WHOLE, power="poweredOff"),
        **{f"x{number}": runs(number, SMALL) for number in (1, 2, 3)},
    }
    words = "neither its host nor any other host in its cluster has capacity for it"
    assert places(vms, {}, "a", home=OwnHost.MAY) == {"a": words}
