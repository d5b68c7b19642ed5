"""Answers about the pool of GPUs: fits, shares, reservations, GPU-hours and estimates."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.plans.estate import READ_AT, make_inventory
from tests.unit.render.display import Display
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.catalog.servers import load_board_power, load_servers
from vgpu_cfg.changes.plan import LostHost, LostVm
from vgpu_cfg.changes.values import HostRef
from vgpu_cfg.errors import Unreachable
from vgpu_cfg.model.choices import UseBy
from vgpu_cfg.model.observed.cordon import Cordon
from vgpu_cfg.model.observed.inventory import Connection, Inventory
from vgpu_cfg.model.observed.past import Past, PastEvent
from vgpu_cfg.model.observed.vm import PowerState
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.model.reservations import Quotas, Share
from vgpu_cfg.model.vgpu import VgpuProfile
from vgpu_cfg.planning.pool.gpus import pooled_gpus
from vgpu_cfg.planning.pool.quotas import share_uses
from vgpu_cfg.planning.pool.reservations import ReservationCalendar, read_calendar
from vgpu_cfg.planning.pool.shapes import CurrentHosts
from vgpu_cfg.planning.pool.summary import Hours, count_hours, read_pool
from vgpu_cfg.planning.pool.use import use_rows
from vgpu_cfg.planning.site_changes import SiteChange, compare_sites
from vgpu_cfg.planning.sizing import (
    Model,
    Optimizer,
    Precision,
    StandingHosts,
    size_framebuffer,
    size_model,
    standing_hosts,
)
from vgpu_cfg.render.text.estate.inventory import render_site_changes
from vgpu_cfg.render.text.pool.fit import render_fit, render_room, render_size
from vgpu_cfg.render.text.pool.gpus import render_pool
from vgpu_cfg.render.text.pool.use import render_hours, render_reservations
from vgpu_cfg.render.text.several import heading, render_sums
from vgpu_cfg.render.views.estate.inventory import FitView, UseTable, cordon_rows
from vgpu_cfg.render.views.several import OneOfSeveral, Several

if TYPE_CHECKING:
    from rich.text import Text

CATALOG = load_catalog()
GPUS = tuple(
    {"board": "A100", "pci": f"0000:{bus}:00.0", "node": node} for node, bus in enumerate(("21", "e2"))
)
SERVER = "vc01.example.com"
QUOTAS = Quotas(
    file="quotas.yaml",
    shares=(
        Share(
            kind="folder", name="training", called="A100", boards=("A100",), gpus=5, origin="quotas.yaml:3"
        ),
        Share(kind="others", called="any board", framebuffer_mib=400 * 1024, origin="quotas.yaml:9"),
    ),
)
LOST = LostHost(
    host=HostRef(moid="host-9", name="esx-09"),
    connection=Connection.NOT_RESPONDING,
    vms=(
        LostVm(name="hvd-09", moid="vm-9", power_state=PowerState.ON, could_start_on="esx-02"),
        LostVm(name="hvd-10", moid="vm-10", power_state=PowerState.OFF, why_not="no GPU of 40 GB is free"),
    ),
)


def site(*, is_later: bool = False) -> Inventory:
    """Observe two clusters: shared and locked GPUs, other boards, and hosts on which nothing starts."""
    on = {"host": "esx-01", "memory_gib": 16}
    vms = {
        "small-01": on | {"gpus": ["grid_a100-4c"], "on": ["0000:21:00.0"]},
        "small-02": on | {"gpus": ["grid_a100-10c"], "on": ["0000:e2:00.0"], "mark": "course"},
        "big-01": {"host": "esx-02", "gpus": ["grid_a100-40c"], "on": ["0000:21:00.0"], "memory_gib": 64},
        "parked": {"gpus": ["grid_a100-40c"], "power": "poweredOff"},
    }
    hosts: dict[str, Any] = {
        "esx-01": {"gpus": list(GPUS)},
        "esx-02": {"gpus": list(GPUS), "default_type": "shared"},
        "esx-03": {"gpus": [{"board": "L40S", "pci": "0000:21:00.0"}]},
        "esx-04": {"gpus": [], "cluster": "lab"},
        "esx-05": {"gpus": list(GPUS), "maintenance": True, "cluster": "lab"},
        "esx-06": {"gpus": list(GPUS), "connection": "notResponding"},
    }
    if is_later:
        del vms["parked"], vms["small-01"]
        vms["new-01"] = on | {"gpus": ["grid_a100-20c"], "on": ["0000:21:00.0"]}
        hosts["esx-03"] |= {"maintenance": True, "version": "8.0.4"}
        hosts["esx-07"] = {"gpus": []}
    time = {"board": "A100"}
    days = [READ_AT + timedelta(days=number) for number in range(-2, 9)]
    observed = make_inventory(
        {
            "clusters": {"gpu": {}, "lab": {}},
            "hosts": hosts,
            "vms": vms,
            "reservations": {
                "course": time | {"gpus": 1, "from": days[0], "until": days[4]},
                "thesis": time | {"gpus": 4, "from": days[3], "until": days[8]},
                "past": time | {"gpus": 1, "from": days[0], "until": days[1]},
            },
        }
    )
    cordons = (
        Cordon(attribute="vgpu_cfg.cordon", reason="new DIMM", by="anna", since=READ_AT),
        Cordon(attribute="vgpu_cfg.cordon", pci_id="0000:21:00.0", reason="ECC errors"),
    )
    first, *rest = observed.hosts
    return observed.model_copy(
        update={"hosts": (first, rest[0].model_copy(update={"cordons": cordons}), *rest[1:])}
    )


SITE = site()


def fit_view(profile: str, **more: Any) -> FitView:
    found = CurrentHosts(SITE, CATALOG).fit_gpu(
        GpuEntry(profile=(VgpuProfile.parse(profile),)), lambda _: True, (QUOTAS,)
    )
    hosts = [fit.host for fit in found.hosts]
    gpus = pooled_gpus(SITE, CATALOG, wants_host=lambda name: name in {host.name for host in hosts})
    return FitView(
        SERVER,
        SITE.read_at.isoformat(),
        profile,
        found,
        {host.moid: "gpu" if host.cluster_moid == "cluster-gpu" else "lab" for host in hosts},
        {host.moid: [gpu for gpu in gpus if gpu.host_moid == host.moid] for host in hosts},
        left_out=[host for host in SITE.hosts if not host.is_usable],
        now=SITE.read_at,
        **more,
    )


GROWN = fit_view(
    "grid_a100-10c", lost=(LOST,), added={"2 × PowerEdge R760xa": ("new-1", "new-2")}, as_it_is=3
)
POOL = read_pool(SITE, CATALOG)
CORDONS = cordon_rows(SITE.hosts)
SHARES = share_uses((QUOTAS,), SITE, CATALOG)


def calendar() -> ReservationCalendar:
    """Return what is reserved, and an alarm that somebody edited."""
    assert SITE.reservations is not None
    found = read_calendar(SITE, CATALOG, SITE.reservations)
    return ReservationCalendar(found.now, found.rows, found.pools, unread=("vgpu-cfg reservation of x",))


def pool(width: int) -> list[Text]:
    use = UseTable(use_rows(POOL.gpus, SITE, UseBy.GPU), UseBy.GPU, None)
    return render_pool(
        POOL, SITE.vcenter, width, use=use, cordons=CORDONS, shares=(SHARES, ()), with_all=True
    )


def hours(*, by: str = "vm", unread: str = "") -> Hours:
    now = SITE.read_at
    moids = {vm.name: vm.moid for vm in SITE.vms}
    events = tuple(
        PastEvent(kind=kind, moid=moids[name], name=name, at=now - timedelta(hours=ago))
        for name, kind, ago in (
            ("small-01", "VmPoweredOnEvent", 40),
            ("big-01", "VmPoweredOffEvent", 30),
            ("big-01", "VmPoweredOnEvent", 10),
        )
    )
    past = Past(events=() if unread else events, since=now - timedelta(hours=60), unread=unread)
    return count_hours(SITE, CATALOG, past, now - timedelta(hours=100), by)


MODEL = Model(7_000_000_000, Precision.BF16, Optimizer.ADAMW, 2048, 1)
BOARDS = [CATALOG.boards[key] for key in ("A100X", "H100", "L40S")]
CANDIDATES = size_model(MODEL, 16, BOARDS, load_board_power(), load_servers())
PARTS = size_framebuffer(20 * 1024, 4, BOARDS, load_board_power(), load_servers())


def room(*models: str, board: str = "A100X") -> tuple[StandingHosts, ...]:
    """Return what hosts of such models need; a document describes the models of NVIDIA and Dell only."""
    gpus = [{"board": board, "pci": f"0000:{number}1:00.0"} for number in range(4)]
    observed = make_inventory(
        {"hosts": {f"esx-{number:02}": {"gpus": gpus} for number, _ in enumerate(models, 1)}}
    )
    hosts = [
        host.model_copy(update={"model": model, "memory_mib": 262_144})
        for host, model in zip(observed.hosts, models, strict=True)
    ]
    return standing_hosts(hosts, CATALOG, load_board_power(), load_servers())


ROOM = (*room("DGX A100", "DGX A100", "Homemade"), *room("PowerEdge R760xa", board="L40S"))
LATER: tuple[SiteChange, ...] = compare_sites(SITE, site(is_later=True))
SEVERAL = Several(
    "context",
    "pool",
    (
        OneOfSeveral("prod-a", "vc01.example.com", {"hosts": 6, "idle_gpus": 2}),
        OneOfSeveral("prod-b", "vc02.example.com", {"hosts": 1, "idle_gpus": 0}),
        OneOfSeveral(
            "lab", "vc03.example.com", error=Unreachable("no route to vc03.example.com"), exit_code=5
        ),
        OneOfSeveral("test", "", exit_code=1),
    ),
    POOL.rows,
)
PLANS = Several(
    "plan", "plan", tuple(OneOfSeveral(f"{name}.yaml", SERVER, {"changes": 3}) for name in ("a", "b"))
)

DISPLAYS: dict[str, Display] = {
    "fit": lambda width: render_fit(GROWN, width),
    "fit-all": lambda width: render_fit(GROWN, width, with_all=True),
    "fit-none": lambda width: render_fit(fit_view("grid_a100-20c"), width),
    "pool": pool,
    "reservations": lambda width: render_reservations(calendar(), SERVER, width),
    "reservations-none": lambda width: render_reservations(
        ReservationCalendar(SITE.read_at, (), ()), SERVER, width
    ),
    "hours": lambda width: render_hours(hours(), "vm", width, server=SERVER),
    "hours-by-plan": lambda width: render_hours(hours(by="plan"), "plan", width, server=SERVER),
    "hours-unread": lambda width: render_hours(
        hours(by="plan", unread="the account lacks System.Read"), "plan", width, server=SERVER
    ),
    "size-model": lambda width: render_size(MODEL, 16, CANDIDATES, width, with_all=False),
    "size-model-all": lambda width: render_size(MODEL, 16, CANDIDATES, width, with_all=True),
    "size-framebuffer": lambda width: render_size(None, 4, PARTS, width, with_all=False),
    "size-none": lambda width: (
        render_size(MODEL, 1, (), width, with_all=False) + render_size(None, 1, (), width, with_all=False)
    ),
    "room": lambda width: render_room(ROOM, ("gpu", "lab"), SERVER, width),
    "room-unknown": lambda width: render_room(room("Homemade"), (), SERVER, width),
    "site-changes": lambda width: render_site_changes(LATER, SERVER, ("yesterday", "now"), width),
    "site-changes-none": lambda width: render_site_changes((), SERVER, ("yesterday", "now"), width),
    "several": lambda width: [*heading("context", "prod-a", width), *render_sums(SEVERAL, width)],
    "several-plans": lambda width: render_sums(PLANS, width),
}
