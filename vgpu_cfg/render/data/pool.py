"""The JSON of the pool of GPUs: holders, use, free room, proposed moves, estimates, and changes of a site."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from vgpu_cfg.model.observed.gpu_use import GpuUse, PastUse
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.pool.gpus import PooledGpu, Stranding
from vgpu_cfg.planning.pool.quotas import ShareUse
from vgpu_cfg.planning.pool.reservations import ReservationCalendar
from vgpu_cfg.planning.pool.shapes import LaterRoom
from vgpu_cfg.planning.pool.spare import ClusterSpare
from vgpu_cfg.planning.pool.summary import GpuPool, Hours, reclaim_steps
from vgpu_cfg.planning.site_changes import SiteChange
from vgpu_cfg.planning.sizing import Candidate, Model, StandingHosts
from vgpu_cfg.render.data.format import FORMAT, Data
from vgpu_cfg.render.views.estate.inventory import CordonRow, FitView


def pool_data(
    pool: GpuPool,
    observed: Inventory,
    cordons: Sequence[CordonRow] = (),
    shares: Sequence[ShareUse] = (),
    spares: Sequence[ClusterSpare] = (),
) -> Data:
    """Return the pool by board and mode, every GPU, the use of shares, and VMs with low use."""
    vcenter = observed.vcenter
    return {
        "kind": "pool",
        "format": FORMAT,
        "server": vcenter.address,
        "version": vcenter.version,
        "api_version": vcenter.api_version,
        "read_at": observed.read_at.isoformat(),
        "pool": [asdict(row) | {"mode": str(row.mode)} for row in pool.rows],
        "gpus": [_gpu(gpu) for gpu in pool.gpus],
        "shares": [_share(use) for use in shares],
        "spares": [spare_data(one) for one in spares],
        "cordons": [asdict(row) for row in cordons],
        "off": [asdict(holder) for holder in pool.off],
        "managed": [asdict(one) for one in pool.managed],
        "idle_below": pool.idle_below,
        "idle": [asdict(one) | {"past": _past(one.past)} for one in pool.idle],
        "reclaim": [asdict(step) for step in reclaim_steps(pool)],
        "cpu_untold": list(pool.cpu_untold),
        "use_unread": pool.use_unread,
        "past_unread": pool.past_unread,
    }


def spare_data(state: ClusterSpare) -> dict[str, Any]:
    lost = {name: [load.name for load, _ in left] for name, left in state.lost.items() if left}
    return {"cluster": state.cluster, "hosts": state.spare.hosts, "is_kept": not state.count, "lost": lost}


def _share(use: ShareUse) -> dict[str, Any]:
    share = use.share
    return {
        "kind": share.kind,
        "name": share.name,
        "board": share.called,
        "board_keys": list(share.boards),
        "gpus": share.gpus,
        "framebuffer_mib": share.framebuffer_mib,
        "held_gpus": use.gpus,
        "held_framebuffer_mib": use.framebuffer_mib,
        "vms": list(use.vms),
        "origin": share.origin,
    }


def reservations_data(found: ReservationCalendar, server: str) -> Data:
    """Return all reservations, and the free GPUs at each of their beginnings and ends."""
    return {
        "kind": "reservations",
        "format": FORMAT,
        "server": server,
        "now": found.now.isoformat(),
        "reservations": [
            asdict(row) | {"begins": row.begins.isoformat(), "ends": row.ends.isoformat()}
            for row in found.rows
        ],
        "free": [
            {
                "cluster": pool.cluster,
                "board": pool.board,
                "at": moment.at.isoformat(),
                "gpus": moment.total,
                "staying": moment.staying,
                "reserved": sum(gpus for _, gpus in moment.reserved),
                "free": moment.free,
            }
            for pool in found.pools
            for moment in pool.moments
        ],
        "unread": list(found.unread),
    }


def hours_data(found: Hours, by: str, server: str) -> Data:
    """Return who held how many GPU-hours, and how far that is known."""
    return {
        "kind": "usage",
        "format": FORMAT,
        "server": server,
        "by": by,
        "since": found.since.isoformat(),
        "until": found.until.isoformat(),
        "reaches": None if found.reaches is None else found.reaches.isoformat(),
        "unread": found.unread,
        "uncounted": list(found.uncounted),
        "rows": [asdict(row) for row in found.rows],
    }


def hours_csv(found: Hours, by: str) -> str:
    """Return the rows as comma-separated values, with a heading."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([by, "gpu_hours", "device_hours", "vms", "since", "until", "reaches"])
    times = [found.since.isoformat(), found.until.isoformat(), (found.reaches or found.since).isoformat()]
    for row in found.rows:
        # A spreadsheet takes a cell that begins so for a formula.
        name = f"'{row.name}" if row.name.startswith(("=", "+", "-", "@")) else row.name
        writer.writerow([name, row.gpu_hours, row.device_hours, len(row.vms), *times])
    return out.getvalue()


def fit_data(view: FitView) -> Data:
    """Return how many fit, host by host, and what keeps more away."""
    fits = view.fits
    return {
        "kind": "fit",
        "format": FORMAT,
        "server": view.server,
        "read_at": view.read_at,
        "asked": view.request,
        "profiles": list(fits.profiles),
        "cpus": fits.cpus or None,
        "memory_mib": fits.memory_mib or None,
        "total": fits.total,
        "total_as_it_is": fits.total if view.as_it_is is None else view.as_it_is,
        "added": [{"asked": words, "hosts": list(names)} for words, names in view.added.items()],
        "allowed": fits.allowed,
        "shares": [_share(one.use) | {"fit": one.more} for one in fits.rooms.shares],
        "reserved": [_later(one) for one in fits.rooms.later],
        "next_step": view.next_step,
        "left_out": [host.name for host in view.left_out],
        "lost_hosts": [one.model_dump(mode="json") for one in view.lost],
        "hosts": [_host(view, number) for number in range(len(fits.hosts))],
    }


def _later(one: LaterRoom) -> Data:
    moment = one.moment
    return {
        "at": moment.at.isoformat(),
        "fit": one.count,
        "cluster": one.cluster,
        "board": one.board,
        "gpus": moment.total,
        "staying": moment.staying,
        "free": moment.free,
        "by": [
            {
                "plan": held.plan,
                "account": account,
                "gpus": gpus,
                "begins": held.begins.isoformat(),
                "ends": held.ends.isoformat(),
            }
            for (held, gpus), account in zip(moment.reserved, one.accounts, strict=True)
        ],
    }


def _host(view: FitView, number: int) -> Data:
    fit = view.fits.hosts[number]
    gpus = view.gpus.get(fit.host.moid, ())
    return {
        "name": fit.host.name,
        "moid": fit.host.moid,
        "cluster": view.clusters.get(fit.host.moid, ""),
        "count": fit.count,
        "profiles": dict(fit.profiles),
        "numa_tight": fit.numa_tight,
        "limits": [
            {"code": limit.code.value, "text": limit.text, "gpus": limit.gpus, "vms": list(limit.vms)}
            for limit in fit.limits
        ],
        "gains": [asdict(gain) for gain in fit.gains],
        "lost_mib": sum(gpu.lost_mib for gpu in gpus),
        "bound_mib": sum(gpu.bound_mib for gpu in gpus),
    }


def _gpu(gpu: PooledGpu) -> dict[str, Any]:
    return {
        "host": gpu.host,
        "cluster": gpu.cluster,
        "pci_id": gpu.pci_id,
        "board": gpu.board,
        "board_key": gpu.board_key,
        "numa_node": gpu.numa_node,
        "mode": str(gpu.mode),
        "label": gpu.label,
        "obstacle": gpu.obstacle,
        "is_idle": gpu.is_idle,
        "runs": [asdict(run) for run in gpu.runs],
        "used": dict(gpu.used),
        "room": dict(gpu.room),
        "free_framebuffer_mib": gpu.free_framebuffer_mib,
        "lost_mib": gpu.lost_mib,
        "bound_mib": gpu.bound_mib,
        "stranded": [_stranded(one) for one in gpu.stranded],
        "use": _use(gpu.use),
    }


def _use(use: GpuUse | None) -> Data | None:
    if use is None:
        return None
    return use.model_dump(exclude={"host_moid", "pci_id", "past"}) | {"past": _past(use.past)}


def _past(past: PastUse | None) -> Data | None:
    return None if past is None else past.model_dump(mode="json")


def _stranded(one: Stranding) -> dict[str, Any]:
    return {
        "kind": str(one.kind),
        "text": one.text,
        "framebuffer_mib": one.framebuffer_mib,
        "compute_slices": one.compute_slices,
        "size_gb": one.size_gb,
        "vms": list(one.vms),
    }


def site_changes_data(changes: Sequence[SiteChange], before: Inventory, after: Inventory) -> dict[str, Any]:
    """Return what came, went and changed, and of when the two readings are."""
    return {
        "kind": "site-changes",
        "format": FORMAT,
        "server": after.vcenter.address,
        "before": before.read_at.isoformat(),
        "after": after.read_at.isoformat(),
        "changes": [
            {
                "kind": change.kind,
                "name": change.name,
                "fate": change.fate.value,
                "edits": [
                    {"key": edit.key, "before": edit.before, "after": edit.after} for edit in change.edits
                ],
            }
            for change in changes
        ],
    }


def size_data(model: Model | None, workers: int, found: Sequence[Candidate]) -> Data:
    """Return the estimate; no model where a framebuffer was asked for."""
    return {
        "kind": "size",
        "format": FORMAT,
        "is_estimate": True,
        "workers": workers,
        "model": None if model is None else _model_data(model),
        "candidates": [asdict(one) | {"way": str(one.way)} for one in found],
    }


def room_data(found: Sequence[StandingHosts], clusters: Sequence[str], server: str) -> Data:
    """Return the share of the room that existing hosts take, model by model."""
    return {
        "kind": "room",
        "format": FORMAT,
        "server": server,
        "clusters": list(clusters),
        "models": [
            asdict(one) | {"boards": dict(one.boards), "short_of_memory": dict(one.short_of_memory)}
            for one in found
        ],
    }


def _model_data(model: Model) -> Data:
    return {
        "parameters": model.parameters,
        "precision": str(model.precision),
        "optimizer": str(model.optimizer),
        "sequence": model.sequence,
        "batch": model.batch,
        "sharding": str(model.sharding),
        "lora": model.lora,
        "layers": model.layers,
        "hidden": model.hidden,
        "state_bytes": model.state_bytes,
        "gradient_bytes": model.gradient_bytes,
        "least_activation_bytes": model.least_activation_bytes,
        "most_activation_bytes": model.most_activation_bytes,
    }
