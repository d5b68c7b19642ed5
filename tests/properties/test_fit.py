"""What `fit` says is allowed is what `plan` takes: so many VMs are refused for nobody's GPUs, one more is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.extent import examples
from tests.plans.estate import PLAN_ID, READ_AT
from tests.plans.lock_rows import make_reservations
from tests.properties.test_planning import TIME_SLICED, inventories, profiles
from tests.unit.planning.desired_plans import plan_for, vm
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.desired import DesiredPlan, DesiredVm
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.model.reservations import Quotas, Share
from vgpu_cfg.model.vgpu import VgpuProfile
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.planning.pool.shapes import CurrentHosts

CATALOG = load_catalog()
REFUSED = {Code.SHARE_EXCEEDED, Code.GPUS_RESERVED}
HOLDERS = [("owner", "ml"), ("folder", "training"), ("others", "")]

days = st.integers(-3, 9)
times = st.tuples(days, st.integers(1, 6)).map(
    lambda found: (READ_AT + timedelta(days=found[0]), READ_AT + timedelta(days=sum(found)))
)


@st.composite
def shares(draw: st.DrawFn) -> Quotas:
    """Give some holders a share of the A100s, in GPUs or in framebuffer."""
    found = []
    for kind, name in draw(st.lists(st.sampled_from(HOLDERS), unique=True, min_size=1, max_size=3)):
        most = draw(st.integers(0, 12)) / 4
        row = {"kind": kind, "name": name, "called": "A100", "boards": ("A100",)}
        in_gpus: dict[str, Any] = {"gpus": most}
        limit = draw(st.sampled_from([in_gpus, {"framebuffer_mib": int(most * 40) * 1024}]))
        found.append(Share.model_validate(row | limit))
    return Quotas(file="quotas.yaml", shares=tuple(found))


@st.composite
def reserved(draw: st.DrawFn, observed: Inventory) -> Inventory:
    """Let others reserve A100s, and VMs that run belong to one of them."""
    rows = {}
    for plan in draw(st.lists(st.sampled_from(["demo", "a", "b", "c"]), unique=True, max_size=3)):
        begins, ends = draw(times)
        rows[plan] = {"board": "A100", "gpus": draw(st.integers(1, 3)), "from": begins, "until": ends}
    return observed.model_copy(update={"reservations": make_reservations(rows, READ_AT, PLAN_ID)})


@st.composite
def plans(draw: st.DrawFn) -> DesiredPlan:
    """Desire VMs of one line, with an owner or none, and in a time or for good."""
    name = draw(profiles)
    count = draw(st.integers(1, 2)) if name in TIME_SLICED[:1] else 1
    more: dict[str, Any] = {"cpus": 4, "memory_mib": 8192}
    if draw(st.booleans()):
        more |= {"attributes": {"owner": draw(st.sampled_from(["ml", "vision"]))}, "stated": ["attributes"]}
    begins, ends = draw(st.sampled_from([(None, None)]) | times)
    return plan_for(vm("vm", *[name] * count, **more), begins=begins, ends=ends)


def copies(desired: DesiredPlan, one: DesiredVm, count: int) -> DesiredPlan:
    wanted = [one.model_copy(update={"name": f"copy-{number:03}", "line": "vm"}) for number in range(count)]
    return desired.model_copy(update={"vms": tuple(wanted)})


def refused(desired: DesiredPlan, observed: Inventory) -> set[str]:
    found = make_plan(desired, observed, CATALOG).diagnostics
    return {f"{one.code} {one.message}" for one in found if one.code in REFUSED}


@settings(max_examples=examples(60, 200))
@given(plans(), inventories(), shares(), st.data())
def test_so_many_are_allowed_and_no_more(
    desired: DesiredPlan, observed: Inventory, quotas: Quotas, data: st.DataObject
) -> None:
    observed = data.draw(reserved(observed))
    desired = desired.model_copy(update={"quotas": (quotas,)})
    (one,) = desired.vms
    found = CurrentHosts(observed, CATALOG).fit_vm(desired, one, lambda _: True)
    if found.errors:
        assert refused(copies(desired, one, 1), observed)
        return
    assert not refused(copies(desired, one, found.allowed), observed)
    if found.allowed < found.total or (found.rooms.is_waiting and found.rooms.allowed is not None):
        assert refused(copies(desired, one, found.allowed + 1), observed)


@settings(max_examples=examples(30, 100))
@given(st.sampled_from(TIME_SLICED), inventories(), st.data())
def test_a_profile_is_counted_as_vms_that_stay_for_good(
    name: str, observed: Inventory, data: st.DataObject
) -> None:
    observed = data.draw(reserved(observed))
    found = CurrentHosts(observed, CATALOG).fit_gpu(
        GpuEntry(profile=(VgpuProfile.parse(name),)), lambda _: True
    )
    one = vm("vm", name, cpus=1, memory_mib=1024)
    nobody = plan_for(one).model_copy(update={"name": "nobody", "id": ""})
    assert not refused(copies(nobody, one, found.allowed), observed)
    if found.allowed < found.total:
        assert refused(copies(nobody, one, found.allowed + 1), observed)
