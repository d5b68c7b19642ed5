"""What holds of every plan, on estates and wishes made at random."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.extent import examples
from tests.plans.estate import make_inventory
from tests.plans.legal import is_legal
from tests.plans.simulator import carry_out, fullest, least_loaded
from tests.unit.planning.desired_plans import plan_for, vm
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.model.desired import DesiredPlan, DesiredVm
from vgpu_cfg.model.observed.cordon import Cordon
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.planner import make_plan

CATALOG = load_catalog()
TIME_SLICED = ["grid_a100-40c", "grid_a100-20c", "grid_a100-10c", "grid_a100-5c"]
MIG = ["grid_a100-7-40c", "grid_a100-4-20c", "grid_a100-3-20c", "grid_a100-2-10c", "grid_a100-1-5c"]

gpu_kinds = st.sampled_from(["time_sliced", "mig"])
host_rows = st.lists(gpu_kinds, min_size=1, max_size=3)
profiles = st.sampled_from(TIME_SLICED + MIG)
powers = st.sampled_from(["poweredOn", "poweredOff"])


def gpu_row(number: int, kind: str) -> dict[str, Any]:
    return {"board": "A100", "pci": f"0000:{16 + number:02x}:00.0", "node": number % 2, "sharing": kind}


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    """Make hosts with A100s and let some VMs run on them, a few of them the plan's own."""
    hosts = {f"esx-{number}": draw(host_rows) for number in range(draw(st.integers(1, 3)))}
    rows: dict[str, Any] = {
        name: {
            "gpus": [gpu_row(number, kind) for number, kind in enumerate(kinds)],
            "policy": draw(st.sampled_from(["performance", "consolidation"])),
        }
        for name, kinds in hosts.items()
    }
    held: dict[tuple[str, str], list[str]] = {}
    vms: dict[str, Any] = {}
    empty = make_inventory({"hosts": rows})
    for number in range(draw(st.integers(0, 5))):
        host = draw(st.sampled_from(sorted(hosts)))
        index = draw(st.integers(0, len(hosts[host]) - 1))
        profile = draw(st.sampled_from(MIG if hosts[host][index] == "mig" else TIME_SLICED))
        pci_id = rows[host]["gpus"][index]["pci"]
        both = [*held.get((host, pci_id), []), profile]
        gpu = next(one for one in empty.hosts if one.name == host).gpus[index]
        if not is_legal(gpu, [CATALOG.by_profile(name)[0] for name in both]):
            continue
        power = draw(powers)
        if power == "poweredOn":
            held[host, pci_id] = both
        vms[f"vm-{number}"] = {
            "host": host,
            "gpus": [profile],
            "on": [pci_id] if power == "poweredOn" else [],
            "power": power,
            "mark": draw(st.booleans()),
            "memory_gib": 16,
            "cpus": 4,
        }
    return make_inventory({"hosts": rows, "vms": vms})


@st.composite
def desired_settings(draw: st.DrawFn) -> DesiredPlan:
    """Desire some VMs, of whose names some exist."""
    wanted: list[DesiredVm] = []
    for number in draw(st.lists(st.integers(0, 7), min_size=1, max_size=6, unique=True)):
        spread = draw(st.sampled_from([None, None, "hosts", "gpus"]))
        more: dict[str, Any] = {"line": "vm-{0..7}", "cpus": 4, "memory_mib": 16_384}
        if spread is not None:
            more |= {"place": {"spread": spread, "must": draw(st.booleans())}, "stated": ["place"]}
        if draw(st.booleans()):
            more |= {"numa": {"policy": draw(st.sampled_from(["follow-gpu", "node", "off"]))}}
            more["stated"] = [*more.get("stated", ()), "numa"]
        count = draw(st.integers(1, 2))
        wanted.append(vm(f"vm-{number}", *[draw(profiles)] * count, **more))
    return plan_for(*wanted)


def shuffled(observed: Inventory, seed: int) -> Inventory:
    """Return the same estate, told in another order."""
    order = random.Random(seed)  # noqa: S311 - a shuffle in a test
    rows: dict[str, Any] = {name: getattr(observed, name) for name in Inventory.model_fields}
    for name in ("hosts", "vms", "networks", "datastores", "folders", "clusters"):
        items = list(rows[name])
        order.shuffle(items)
        rows[name] = tuple(items)
    return Inventory(**rows)


def made(wanted: DesiredPlan, observed: Inventory) -> Plan:
    """Plan with all leave: power cycles, and the deletion of each VM that is not wanted any more."""
    names = {one.name for one in wanted.vms}
    orphans = sorted(one.name for one in observed.vms if one.mark is not None and one.name not in names)
    options = PlanOptions(allow_power_cycle=True, delete=tuple(orphans))
    return make_plan(wanted, observed, CATALOG, options)


@settings(max_examples=examples(40, 60))
@given(desired_settings(), inventories())
def test_nothing_is_left_to_do_after_a_plan(wanted: DesiredPlan, observed: Inventory) -> None:
    plan = made(wanted, observed)
    assume(not plan.errors)
    for choose in (fullest, least_loaded):
        after = carry_out(plan, observed, choose)
        again = made(wanted, after)
        left = [(edit.key, edit.before, edit.after) for change in again.changes for edit in change.edits]
        assert not left, left
        assert again.errors == ()


@settings(max_examples=examples(40, 60))
@given(desired_settings(), inventories(), st.integers(0, 100))
def test_the_order_of_what_is_read_does_not_matter(
    wanted: DesiredPlan, observed: Inventory, seed: int
) -> None:
    first = made(wanted, observed)
    reversed_wishes = wanted.model_copy(update={"vms": wanted.vms[::-1]})
    second = made(reversed_wishes, shuffled(observed, seed))
    assert second.digest == first.digest
    assert second.diagnostics == first.diagnostics


@st.composite
def cordoned(draw: st.DrawFn, observed: Inventory) -> Inventory:
    """Cordon some hosts, and GPUs of others."""
    hosts = []
    for host in observed.hosts:
        closed = draw(st.sets(st.sampled_from([gpu.pci_id for gpu in host.gpus]), max_size=1))
        pci_ids = draw(st.sampled_from([[], [""], sorted(closed)]))
        cordons = tuple(
            Cordon(attribute=f"vgpu_cfg.cordon.{number}", reason="closed", pci_id=pci_id)
            for number, pci_id in enumerate(pci_ids)
        )
        hosts.append(host.model_copy(update={"cordons": cordons}))
    return observed.model_copy(update={"hosts": tuple(hosts)})


@settings(max_examples=examples(60, 80))
@given(desired_settings(), inventories().flatmap(cordoned))
def test_nothing_new_gets_to_what_is_cordoned_whatever_esxi_chooses(
    wanted: DesiredPlan, observed: Inventory
) -> None:
    plan = made(wanted, observed)
    assume(not plan.errors)
    running = {vm.moid for vm in observed.vms if vm.is_on}
    for choose in (fullest, least_loaded):
        after = carry_out(plan, observed, choose)
        for host in after.hosts:
            for gpu in host.gpus:
                if host.cordon is not None or host.cordon_of_gpu(gpu.pci_id) is not None:
                    assert set(gpu.vm_moids) <= running


@settings(max_examples=examples(50, 60))
@given(desired_settings(), inventories())
def test_no_plan_overfills_a_gpu(wanted: DesiredPlan, observed: Inventory) -> None:
    plan = made(wanted, observed)
    assume(not plan.errors)
    leaving = {change.vm.moid for change in plan.changes if change.kind == "destroy_vm"}
    placed = {one.vm: one for one in plan.placements}
    on_gpu: dict[tuple[str, str], list[str]] = {}
    for one in observed.vms:
        is_own = one.mark is not None and one.name in placed
        if one.is_on and not is_own and one.moid not in leaving and one.detail is not None:
            for host in observed.hosts:
                for gpu in host.gpus:
                    if one.moid in gpu.vm_moids:
                        on_gpu.setdefault((host.moid, gpu.pci_id), []).append(one.detail.vgpus[0].profile)
    by_name: Mapping[str, DesiredVm] = {one.name: one for one in wanted.vms}
    for name, place in placed.items():
        profile = by_name[name].gpus[0]
        assert profile.kind == "vgpu"
        for pci_id in place.gpu_pci_ids:
            on_gpu.setdefault((place.host_moid, pci_id), []).append(profile.profile[0].name)
    for host in observed.hosts:
        for gpu in host.gpus:
            held = [CATALOG.by_profile(name)[0] for name in on_gpu.get((host.moid, gpu.pci_id), ())]
            assert is_legal(gpu, held), (gpu.pci_id, on_gpu)


@settings(max_examples=examples(30, 50))
@given(desired_settings(), inventories())
def test_what_a_plan_needs_is_in_it_and_comes_before(wanted: DesiredPlan, observed: Inventory) -> None:
    plan = made(wanted, observed)
    ids = [change.id for change in plan.changes]
    assert len(set(ids)) == len(ids)
    waiting = {change.id: set(change.needs) for change in plan.changes}
    assert all(needs <= waiting.keys() for needs in waiting.values())
    done: set[str] = set()
    while waiting:
        ready = {name for name, needs in waiting.items() if needs <= done}
        assert ready, f"a circle: {waiting}"
        done |= ready
        waiting = {name: needs for name, needs in waiting.items() if name not in ready}
