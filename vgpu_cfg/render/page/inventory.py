"""An estate as one page: clusters, hosts, NUMA nodes and GPUs to scale, to search, to filter and to print."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from vgpu_cfg.model.wording import counted
from vgpu_cfg.render.layout.lines import size
from vgpu_cfg.render.page.frame import Tile, render_frame
from vgpu_cfg.render.page.moments import moment_words
from vgpu_cfg.render.views.pictures.estate_map import EstateMap


def render_inventory_page(found: EstateMap) -> str:
    """Write the page; whatever stands in names is text in it."""
    sums = found.totals
    moment = moment_words(datetime.fromisoformat(found.read_at))
    idle = f"{sums.idle:,} idle, {sums.closed:,} closed"
    tiles = (
        Tile(f"{sums.hosts:,}", "hosts" if sums.hosts != 1 else "host", _of_clusters(found)),
        Tile(f"{sums.gpus:,}", "GPUs" if sums.gpus != 1 else "GPU", idle),
        Tile(f"{sums.vms:,}", "VMs on GPUs" if sums.vms != 1 else "VM on GPUs"),
        Tile(size(sums.free_mib), "framebuffer free", f"of {size(sums.memory_mib)}"),
        Tile(size(sums.lost_mib), "lost", "no profile can have it"),
        Tile(size(sums.bound_mib), "locked", "to the size that runs there"),
    )
    return render_frame(
        "inventory",
        title=f"{found.server}: GPUs",
        about=f"vCenter {found.version}, read {moment}",
        tiles=tiles,
        body="inventory.html.j2",
        shared=("wiring", "estate"),
        data={"kind": "inventory-map", "format": 1, **asdict(found)},
    )


def _of_clusters(found: EstateMap) -> str:
    return f"in {counted(sum(bool(name) for name, _ in found.clusters), 'cluster')}"
