"""What holds of every plan that prepares hosts, in states and with wishes made at random."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.extent import examples
from tests.plans.estate import make_inventory
from tests.plans.simulator import carry_out
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.values import Impact, SettingTarget
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostView
from vgpu_cfg.planning.host_settings.resolved_host import make_view
from vgpu_cfg.planning.host_settings.table import setting
from vgpu_cfg.planning.planner import make_plan

CATALOG = load_catalog()
HAS_MIG = ("A100", "H100")
DEPOT = "/vmfs/volumes/vsan/NVD-AIE-800_580.95.02.zip"

truths = st.booleans()
perhaps = st.sampled_from([None, True, False])


def some(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw a value or, as often, nothing: the plan file does not speak of it."""
    return st.none() | strategy


def stated(**rows: Any) -> dict[str, Any]:
    return {key: value for key, value in rows.items() if value is not None}


@st.composite
def gpu_rows(draw: st.DrawFn, number: int, board: str, *, is_new: bool, has_driver: bool) -> dict[str, Any]:
    kind = draw(st.sampled_from(["shared", "sharedDirect"]))
    row: dict[str, Any] = {
        "board": board,
        "pci": f"0000:{0x21 + number:02x}:00.0",
        "node": number % 2,
        "configured": kind,
        "type": draw(st.sampled_from([kind, "sharedDirect"])) if has_driver else "basic",
        "ecc": draw(truths),
        "ecc_pending": draw(truths),
        "label": draw(st.sampled_from([None, "old"])),
    }
    if has_driver and board in HAS_MIG and draw(truths):
        row["sharing"] = "mig"
    elif has_driver and is_new:
        row["mode"] = draw(st.sampled_from(["same_size", "mixed_size"]))
    if has_driver and board == "A100":
        row["mig_pending"] = draw(truths)
    if draw(st.integers(0, 3)) == 0:
        row |= {"passthrough": True, "sharing": "untold"}
    return row


@st.composite
def nic_rows(draw: st.DrawFn, number: int) -> dict[str, Any]:
    functions = draw(st.sampled_from([0, 0, 4]))
    now, then = (draw(st.sampled_from(["True", "False"])) for _ in range(2))
    return {
        "vmnic": f"vmnic{2 + number}",
        "pci": f"0000:{0x41 + number:02x}:00.0",
        "node": number % 2,
        "functions": functions,
        "requested": draw(st.sampled_from([functions, 8])),
        "passthrough": not functions and draw(st.integers(0, 3)) == 0,
        "firmware": {"ATS_ENABLED": {"default": "False", "current": now, "next_boot": then}},
    }


@st.composite
def host_rows(draw: st.DrawFn) -> dict[str, Any]:
    is_new = draw(truths)
    has_driver = draw(st.integers(0, 3)) > 0
    board = draw(st.sampled_from(["A100", "H100", "L40S"] if is_new else ["A100", "L40S"]))
    gpus = [
        draw(gpu_rows(number, board, is_new=is_new, has_driver=has_driver))
        for number in range(draw(st.integers(1, 2)))
    ]
    nics = [draw(nic_rows(number)) for number in range(draw(st.integers(0, 2)))]
    words = st.sampled_from(["TRUE", "FALSE"])
    ats = {"configured": draw(words), "runtime": draw(words)}
    facts: dict[str, Any] = {
        "rebind": draw(truths),
        "kernel": {"atsSupport": ats},
        "vmnics": {nic["pci"]: nic["vmnic"] for nic in nics if nic["passthrough"]},
        "modules": {"nmlx5_core": draw(st.sampled_from(["", "max_vfs=4", "pfctx=0x08 pfcrx=0x08"]))},
    }
    if is_new:
        facts["options"] = {"VMkernel.Boot.atsSupport": ats["configured"] == "TRUE"}
    if has_driver:
        policy = draw(st.sampled_from(["", "NVreg_Foo=1 NVreg_RegistryDwords=RmPVMRL=0x11"]))
        facts["modules"]["nvidia"] = policy
    return {
        "version": "8.0.3" if is_new else "7.0.2",
        "default_type": draw(st.sampled_from(["shared", "sharedDirect"])),
        "driver": has_driver,
        "gpus": gpus,
        "nics": nics,
        "facts": facts,
    }


@st.composite
def estates(draw: st.DrawFn) -> Inventory:
    """Make one to three hosts that DRS empties, with small VMs of others on them."""
    names = [f"esx-{number}" for number in range(draw(st.integers(1, 3)))]
    busy = len(names) > 1 and draw(truths)
    vms = {f"db-{name}": {"host": name, "memory_gib": 8} for name in names} if busy else {}
    hosts = {name: draw(host_rows()) for name in names}
    clusters = {"gpu": {"drs": "fullyAutomated"}}
    return make_inventory({"hosts": hosts, "vms": vms, "clusters": clusters})


@st.composite
def gpu_rules(draw: st.DrawFn) -> dict[str, Any]:
    use = draw(some(st.sampled_from(["vgpu", "passthrough", "leave"])))
    label = draw(some(st.sampled_from(["new", ""])))
    if use in ("passthrough", "leave"):
        return stated(use=use, label=label)
    if draw(truths):
        return stated(use=use, sharing=draw(some(st.just("mig"))), ecc=draw(perhaps), label=label)
    mode = draw(some(st.sampled_from(["same_size", "mixed_size"])))
    policies = ["best_effort", "equal_share"] if mode == "mixed_size" else ["best_effort", "fixed_share"]
    policy = draw(some(st.sampled_from(policies)))
    sharing = "time_sliced" if mode or policy else draw(some(st.just("time_sliced")))
    return stated(use=use, sharing=sharing, vgpu_mode=mode, scheduler=policy, ecc=draw(perhaps), label=label)


@st.composite
def nic_rules(draw: st.DrawFn) -> dict[str, Any]:
    use = draw(some(st.sampled_from(["host", "passthrough", "sriov"])))
    firmware = draw(st.sampled_from([{}, {}, {"ATS_ENABLED": "True"}, {"ATS_ENABLED": "False"}]))
    roce = draw(some(st.sampled_from([{}, False])))
    return stated(
        use=use,
        vfs=8 if use == "sriov" else None,
        firmware=firmware,
        label=draw(some(st.sampled_from(["rail", ""]))),
        roce=None if use == "passthrough" else roce,
    )


@st.composite
def desired_settings(draw: st.DrawFn) -> DesiredPlan:
    """Ask this or that of all hosts of the cluster."""
    entry = stated(
        cluster="gpu",
        graphics_type=draw(some(st.sampled_from(["shared", "sharedDirect"]))),
        assignment_policy=draw(some(st.sampled_from(["performance", "consolidation"]))),
        ats=draw(perhaps),
        gpus=draw(st.lists(gpu_rules(), max_size=1)),
        nics=draw(st.lists(nic_rules(), max_size=1)),
        driver={"version": "580.*", "by": "esxcli", "depot": (DEPOT,)} if draw(truths) else None,
        access={"ssh": "open-and-close"},
        disruption={
            "allow": ["maintenance", "reboot"],
            "max_hosts_down": draw(st.integers(1, 3)),
            "canary": draw(st.integers(0, 1)),
        },
    )
    return DesiredPlan.model_validate({"name": "demo", "vcenter": "vc.example", "hosts": [entry]})


def made(wanted: DesiredPlan, observed: Inventory) -> Plan:
    return make_plan(wanted, observed, CATALOG, PlanOptions())


def by_the_tool(wanted: DesiredPlan, observed: Inventory) -> Plan:
    """Make a plan; one with errors or a manual step is none that can be tried."""
    plan = made(wanted, observed)
    assume(not plan.errors)
    assume(not any(change.kind == "manual_step" for change in plan.changes))
    return plan


def longest_chain(plan: Plan, view: HostView) -> int:
    """Count the restarts of the longest chain of settings of which each needs the one before in force."""
    changed: dict[str, SettingTarget] = {}
    written: set[str] = set()
    for change in plan.changes:
        if change.host_moid == view.host.moid:
            settles = change.settles if change.kind in ("reboot_host", "restart_service") else ()
            targets = change.settings if change.kind == "change_host" else settles
            changed |= {one.id: one for one in targets}
            written |= {one.id for one in targets if change.kind == "change_host"}

    def related(one: SettingTarget, other: SettingTarget) -> bool:
        first, second = one.device.split(" ")[0], other.device.split(" ")[0]
        return not first or not second or first == second

    def restarts(one: SettingTarget) -> int:
        desired = DesiredSetting(one.setting, one.value, one.device)
        return int(setting(one.setting).impact(view, desired) is Impact.HOST_REBOOT)

    def is_after(one: SettingTarget, other: SettingTarget) -> bool:
        """Whether one is written once the other is in force; one that only waits is brought along."""
        return one.id in written and other.setting in setting(one.setting).needs_in_force

    def begins(one: SettingTarget) -> int:
        entry = setting(one.setting)
        others = [other for other in changed.values() if other.id != one.id and related(one, other)]
        return max(
            (
                begins(other) + (restarts(other) if is_after(one, other) else 0)
                for other in others
                if other.setting in entry.needs_in_force or other.setting in entry.after
            ),
            default=0,
        )

    return max((begins(one) + 1 for one in changed.values() if restarts(one)), default=0)


def takes_back(plan: Plan) -> bool:
    """Whether a plan gives a NIC back to its host."""
    targets = [one for change in plan.changes if change.kind == "change_host" for one in change.settings]
    return any(one.setting == "nic_passthrough" and one.value == "host" for one in targets)


def of_host(plan: Plan, moid: str, *kinds: str) -> list[Change]:
    return [change for change in plan.changes if change.host_moid == moid and change.kind in kinds]


SLOW = settings(
    max_examples=examples(30, 100), suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)


@SLOW
@given(desired_settings(), estates())
def test_nothing_is_left_to_do_after_a_plan(wanted: DesiredPlan, observed: Inventory) -> None:
    plan = by_the_tool(wanted, observed)
    # The firmware of a NIC that the host gets back can be set only then, by a second run (VG529, VG534).
    assume(not any(found.code in ("VG529", "VG534") for found in plan.diagnostics) or not takes_back(plan))
    after = carry_out(plan, observed)
    again = made(wanted, after)
    left = [(edit.key, edit.before, edit.after) for change in again.changes for edit in change.edits]
    assert not left, left
    assert not again.changes
    assert again.errors == ()
    assert not any(host.is_in_maintenance_mode for host in after.hosts)


@SLOW
@given(desired_settings(), estates())
def test_a_host_restarts_as_often_as_its_longest_chain(wanted: DesiredPlan, observed: Inventory) -> None:
    plan = by_the_tool(wanted, observed)
    for host in observed.hosts:
        view = make_view(host, observed, CATALOG)
        assert len(of_host(plan, host.moid, "reboot_host")) == longest_chain(plan, view)


@SLOW
@given(desired_settings(), estates())
def test_no_more_hosts_go_down_than_the_plan_file_says(wanted: DesiredPlan, observed: Inventory) -> None:
    plan = by_the_tool(wanted, observed)
    allowed = wanted.hosts[0].disruption
    enters = [change for change in plan.changes if change.kind == "enter_maintenance"]
    assert all(1 <= change.max_down <= allowed.max_hosts_down for change in enters)
    waiting = [change for change in enters if change.needs]
    assert len(enters) - len(waiting) <= (allowed.canary or len(enters))


@SLOW
@given(desired_settings(), estates())
def test_a_host_goes_down_once_and_only_where_it_must(wanted: DesiredPlan, observed: Inventory) -> None:
    plan = by_the_tool(wanted, observed)
    heavy = {Impact.HOST_MAINTENANCE, Impact.HOST_REBOOT}
    for host in observed.hosts:
        enters = of_host(plan, host.moid, "enter_maintenance")
        works = of_host(plan, host.moid, "change_host", "reboot_host")
        assert len(enters) == len(of_host(plan, host.moid, "exit_maintenance")) <= 1
        assert bool(enters) == any(change.impact in heavy for change in works)
        restarts = of_host(plan, host.moid, "reboot_host")
        assert not (restarts and of_host(plan, host.moid, "restart_service")) or any(
            change.impact is Impact.SERVICE_RESTART for change in works
        )
