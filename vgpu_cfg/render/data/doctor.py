"""The JSON of an estate's health, and of everything of vgpu-cfg there."""

from __future__ import annotations

from vgpu_cfg.knowledge.beliefs import load_beliefs
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.doctor.ailments import HEALTH, Ailment, Level
from vgpu_cfg.planning.doctor.examine import Health
from vgpu_cfg.planning.doctor.ours import Ours, Ran
from vgpu_cfg.render.data.format import FORMAT, Data
from vgpu_cfg.render.data.history import run_row_data
from vgpu_cfg.render.views.run.past_runs import view_run


def health_data(health: Health, observed: Inventory) -> Data:
    """Return the health with all ailments, the worst first."""
    return {
        "kind": "doctor",
        "format": FORMAT,
        "server": observed.vcenter.address,
        "read_at": observed.read_at.isoformat(),
        "hosts": health.hosts,
        "gpus": health.gpus,
        "gpu_vms": health.vms,
        "counts": {level.value: health.count(level) for level in HEALTH},
        "unread": list(health.unread),
        "beliefs": [
            {
                "id": one.belief,
                "verdict": one.verdict.value,
                "statement": load_beliefs()[one.belief].statement,
                "seen": one.seen,
            }
            for one in health.tried
        ],
        "licences": [
            use.pool.model_dump() | {"needed": use.needed, "vms": use.vms} for use in health.licences
        ],
        "ailments": [ailment_data(one) for one in health.ailments],
    }


def ailment_data(one: Ailment) -> Data:
    """Return one ailment."""
    return {
        "kind": one.kind.value,
        "level": one.kind.level.value,
        "subject": one.subject,
        "summary": one.kind.summary,
        "cost": one.kind.cost,
        "says": one.says,
        "command": one.command,
        "owner": one.owner,
        "since": one.since.isoformat() if one.since else None,
    }


def ours_data(ours: Ours) -> Data:
    """Return everything of vgpu-cfg at a vCenter."""
    return {
        "kind": "status-without-plan",
        "format": FORMAT,
        "server": ours.server,
        "read_at": ours.now.isoformat(),
        "counts": {level.value: ours.count(level) for level in Level if level is not Level.WASTE},
        "ailments": [ailment_data(one) for one in ours.ailments],
        "plans": [
            {
                "name": row.name,
                "id": row.id,
                "vms": row.vms,
                "vms_on": row.on,
                "hosts": row.hosts,
                "folders": list(row.folders),
                "rules": row.rules,
                "state": row.state,
                "level": row.level.value if row.level else None,
                "last_run": _ran(row.last) if row.last else None,
                "reserved": row.reserved,
                "expires": {name: day.isoformat() for name, day in row.expires.items()},
            }
            for row in ours.plans
        ],
        "reservations": list(ours.reserved),
        "runs": [_ran(run) for run in ours.runs],
        "notes": list(ours.notes),
    }


def _ran(run: Ran) -> Data:
    return run_row_data(view_run(run.entry, run.began_at, run.ended_at, ()))
