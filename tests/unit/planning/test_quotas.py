"""What VMs hold of the GPUs, and to whose share it counts."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest

from tests.plans.estate import make_inventory
from tests.unit.planning.desired_plans import plan_for, vm
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.past import Past
from vgpu_cfg.model.reservations import Quotas, Share
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.pool.quotas import Held, Holdings, HoldingVm, ShareUse, report_quotas, share_uses
from vgpu_cfg.planning.pool.summary import count_hours
from vgpu_cfg.render.layout.lines import plain
from vgpu_cfg.render.text.pool.gpus import render_shares

A, B = "0000:21:00.0", "0000:e2:00.0"


def estate(**vms: dict[str, Any]) -> Inventory:
    hosts = {
        "esx-01": {"gpus": [{"board": "A100", "pci": A, "node": 0}, {"board": "A100", "pci": B, "node": 1}]},
        "esx-02": {"gpus": [{"board": "A100", "pci": A, "node": 0, "passthrough": True}], "cluster": "other"},
    }
    rows = {name: {"host": "esx-01", "memory_gib": 8} | row for name, row in vms.items()}
    more = {"folders": ["training", "lab/students"], "clusters": {"gpu": {}, "other": {}}}
    return make_inventory({"hosts": hosts, "vms": rows, **more})


def share(kind: str, name: str = "", **more: Any) -> Share:
    return Share.model_validate({"kind": kind, "name": name, "gpus": 1, "called": "any board"} | more)


def use(observed: Inventory, wanted: Share, *clusters: str) -> ShareUse:
    (found,) = share_uses([Quotas(file="q", clusters=clusters, shares=(wanted,))], observed, load_catalog())
    return found


QUARTER = {"gpus": ["grid_a100-10c"], "on": [A]}


@pytest.mark.parametrize(
    ("vm", "gpus", "framebuffer_gib"),
    [
        (QUARTER, 0.25, 10),
        (QUARTER | {"power": "poweredOff"}, 0, 0),
        (QUARTER | {"power": "suspended"}, 0, 0),
        ({"gpus": ["grid_a100-40c"] * 2, "on": [A, B]}, 2, 80),
        ({"host": "esx-02", "passthrough": [{"pci": A}]}, 1, 40),
        ({"gpus": []}, 0, 0),
    ],
)
def test_what_runs_holds_its_part_of_a_gpu_and_its_framebuffer(
    vm: dict[str, Any], gpus: float, framebuffer_gib: int
) -> None:
    found = use(estate(a=vm), share("others"))
    assert (found.gpus, found.framebuffer_mib) == (gpus, framebuffer_gib * 1024)


@pytest.mark.parametrize(
    ("wanted", "counts"),
    [
        (share("owner", "ML-Team"), True),
        (share("owner", "ml"), False),
        (share("folder", "lab/students"), True),
        (share("folder", "lab"), True),
        (share("folder", "/dc1/vm/lab"), True),
        (share("folder", "lab/*"), True),
        (share("folder", "la"), False),
        (share("folder", "students"), False),
        (share("others"), True),
        (share("others", boards=("L40S",)), False),
        (share("others", boards=("A100-PCIE-40GB",)), None),
    ],
)
def test_a_vm_counts_by_its_owner_its_folder_and_its_board(wanted: Share, counts: bool | None) -> None:
    key = load_catalog().by_profile("grid_a100-10c")[0].board.key
    if counts is None:
        wanted, counts = wanted.model_copy(update={"boards": (key,)}), True
    vm = QUARTER | {"folder": "lab/students", "attributes": {"Owner": "ml-team"}}
    assert use(estate(a=vm), wanted).vms == (("a",) if counts else ())


def test_who_has_a_share_is_none_of_the_others() -> None:
    owner = share("owner", "ml-team")
    quotas = Quotas(file="q", shares=(owner, share("others")))
    observed = estate(a=QUARTER | {"attributes": {"owner": "ml-team"}}, b=QUARTER | {"on": [B]})
    own, rest = share_uses([quotas], observed, load_catalog())
    assert (own.vms, rest.vms) == (("a",), ("b",))


def test_only_the_clusters_of_the_pool_are_shared_out() -> None:
    observed = estate(a=QUARTER, b={"host": "esx-02", "passthrough": [{"pci": A}]})
    assert use(observed, share("others")).vms == ("a", "b")
    assert use(observed, share("others"), "GPU").vms == ("a",)


def test_what_is_held_is_what_usage_counts_by_the_hour() -> None:
    off = QUARTER | {"power": "poweredOff"}
    observed = estate(a=QUARTER, b={"gpus": ["grid_a100-20c"], "on": [B]}, c=off)
    since = observed.read_at - timedelta(hours=10)
    hours = count_hours(observed, load_catalog(), Past(), since, "vm")
    assert sum(row.gpu_hours for row in hours.rows) / 10 == use(observed, share("others")).gpus


def test_the_table_tells_what_is_left_and_what_is_too_much() -> None:
    observed = estate(a={"gpus": ["grid_a100-20c"], "on": [A]})
    shares = (share("others"), share("others", gpus=None, framebuffer_mib=10 * 1024))
    quotas = [Quotas(file="q", shares=shares)]
    lines = plain(render_shares(share_uses(quotas, observed, load_catalog()), 120))
    assert "all others  any board   1 GPU  0.5 GPUs  0.5 GPUs  a" in lines
    assert "all others  any board  10 GiB    20 GiB     0 GiB  a" in lines
    assert "not enforced by vCenter" in lines
    assert render_shares((), 120) == []


@pytest.mark.parametrize(
    ("before", "after", "code", "words", "remedy"),
    [
        ({}, {}, None, "", ""),
        ({"other": 2}, {"other": 2}, None, "", ""),
        ({}, {"mine": 1}, Code.SHARE_KEPT, "1 GPU of any board in use after this plan", ""),
        (
            {},
            {"mine": 2},
            Code.SHARE_EXCEEDED,
            "currently 0 GPUs; this plan adds 2 GPUs",
            "use fewer",
        ),
        (
            {"other": 1},
            {"other": 1, "mine": 1},
            Code.SHARE_EXCEEDED,
            "currently 1 GPU (used by other); this plan adds 1 GPU for mine",
            "use fewer",
        ),
        (
            {"mine": 3},
            {"mine": 3},
            Code.SHARE_EXCEEDED_ALREADY,
            "3 GPUs of any board",
            "release some",
        ),
        ({"mine": 3}, {"mine": 2}, Code.SHARE_EXCEEDED_ALREADY, "already in use by mine", "release some"),
    ],
)
def test_only_a_plan_that_takes_more_than_its_share_is_refused(
    before: dict[str, int], after: dict[str, int], code: Code | None, words: str, remedy: str
) -> None:
    def held(gpus: dict[str, int]) -> list[HoldingVm]:
        return [HoldingVm(name, "", "", "gpu", (Held("", Fraction(n), 0),)) for name, n in gpus.items()]

    desired = plan_for(vm("mine"), quotas=(Quotas(file="q", shares=(share("others"),)),))
    findings = Findings.for_plan(desired)
    report_quotas(desired, Holdings(held(before), held(after), {"mine"}), findings)
    found = findings.diagnostics()
    assert [one.code for one in found] == ([] if code is None else [code])
    for one in found:
        assert words in one.message
        assert one.remedy.split(",")[0] == remedy
