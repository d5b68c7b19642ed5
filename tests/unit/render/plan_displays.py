"""Cases of tests/plans with all outputs about them, errors, and the use of GPUs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from tests.plans.planned import inventory_of, plan_of
from tests.unit.render.display import Display
from tests.unit.render.pool_displays import CATALOG, SITE
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.suggestion import Difference
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.errors import DocumentError, DocumentFault, DoesNotFit, Interrupted, NotFound
from vgpu_cfg.model.choices import Occasion, UseBy, UseSort
from vgpu_cfg.model.observed.gpu_use import GpuUse, PastUse, UseReading
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.pool.summary import read_pool
from vgpu_cfg.planning.pool.use import use_rows
from vgpu_cfg.render.text.errors import render_error
from vgpu_cfg.render.text.estate.inventory import render_inventory
from vgpu_cfg.render.text.plan.whole import PlanShown, lost_lines, render_plan
from vgpu_cfg.render.text.pool.gpus import render_pool
from vgpu_cfg.render.text.status import render_status
from vgpu_cfg.render.views.estate.inventory import UseTable, view_inventory
from vgpu_cfg.render.views.status import view_status

if TYPE_CHECKING:
    from rich.text import Text

PLANNED = (
    "rdma-guide-two-vms",
    "guest-without-a-way-in",
    "host-shell-closed-and-nothing-else",
    "lost-host-and-no-gpu-elsewhere",
    "cordon-starts-nothing",
    "host-silent-beside-others",
    "hosts-canary",
    "nic-of-a-device-group-that-is-asked-for-is-there",
    "orphan-stays",
    "only-one-size-of-two-starts",
    "host-others-vgpu-options-set-along",
    "topology-nvlink-across-boards",
)
"""Cases that between them reach nearly all lines about plans, statuses and inventories."""


def differences(plan: Plan) -> tuple[Difference, ...]:
    subjects = [Subject(kind="vm", name=vm.name) for vm in plan.desired.vms][:1]
    return tuple(
        one
        for vm in subjects
        for one in (
            Difference(subject=vm, what="cpus", wanted="8", found="2", by="eve", at=plan.read_at),
            Difference(subject=vm, what="power", wanted="on", why_unknown="no event tells"),
        )
    )


def planned(name: str) -> Display:
    """Return the plan, in short and in full, the status and the inventory of a case, one below the other."""

    def lay_out(width: int) -> list[Text]:
        plan, observed = plan_of(name), inventory_of(name)
        shown = PlanShown(
            "vgpu-cfg apply plan.yaml", with_all=True, occasion=Occasion("CHG0042", "new drivers")
        )
        view = view_inventory(observed, CATALOG)
        return [
            *render_plan(plan, width),
            *render_plan(plan, width, shown),
            *render_status(view_status(plan, observed), width),
            *render_status(view_status(plan, observed, differences(plan)), width, with_all=True),
            *render_inventory(view, width),
            *render_inventory(view, width, with_all=True),
            *lost_lines(plan.lost_hosts, width),
        ]

    return lay_out


def in_use() -> Inventory:
    """Observe a site of whose GPUs some are busy, some idle, some not measured."""
    first, second, third = SITE.hosts[:3]
    past = PastUse(
        average_percent=3.25,
        peak_percent=71,
        since=SITE.read_at - timedelta(days=7),
        until=SITE.read_at,
        samples=2016,
    )
    gpus = (
        GpuUse(
            host_moid=first.moid, pci_id="0000:21:00.0", utilization_percent=0.5, past=past, power_watts=31
        ),
        GpuUse(
            host_moid=first.moid,
            pci_id="0000:e2:00.0",
            utilization_percent=88.25,
            memory_used_mib=9 * 1024,
            memory_total_mib=40 * 1024,
            temperature_celsius=61,
        ),
        GpuUse(host_moid=second.moid, pci_id="0000:21:00.0", utilization_percent=100, power_watts=250),
    )
    use = UseReading(gpus=gpus, past_unread="statistics level 1", unplaced={third.moid: 2})
    vms = tuple(
        vm.model_copy(update={"cpu_mhz": 90, "max_cpu_mhz": 9000, "uptime_seconds": 200_000})
        for vm in SITE.vms
    )
    return SITE.model_copy(update={"gpu_use": use, "vms": vms})


def used(by: UseBy, sort: UseSort | None = None, *, with_all: bool = False) -> Display:
    observed = in_use()
    found = read_pool(observed, CATALOG)
    rows = UseTable(use_rows(found.gpus, observed, by), by, sort)
    return lambda width: render_pool(found, observed.vcenter, width, use=rows, with_all=with_all)


FAULTS = tuple(
    DocumentFault("plan.yaml", line, 3, f"'{'x' * 220}' is no size", "64GiB") for line in range(1, 103)
)
ERRORS = (
    DocumentError(FAULTS),
    DocumentError(FAULTS[:1]),
    DoesNotFit("VG103 grid_a100-40c cannot be placed", subject="vm hvd-{01..40}", remedy="free a GPU"),
    Interrupted("stopped by Ctrl-C; 3 tasks go on in vCenter"),
    NotFound("no host is called esx-9"),
)

CASES = {f"case-{name}": planned(name) for name in PLANNED}
DISPLAYS: dict[str, Display] = {
    **CASES,
    **{f"pool-by-{by}": used(by, with_all=by is not UseBy.GPU) for by in UseBy},
    "pool-busiest-first": used(UseBy.GPU, next(iter(UseSort))),
    "errors": lambda width: [
        line for error in ERRORS for of in ("", "prod-a") for line in render_error(error, width, of=of)[-9:]
    ],
}
