"""The JSON of an estate's health."""

from __future__ import annotations

from vgpu_cfg.knowledge.beliefs import load_beliefs
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.doctor.ailments import Level
from vgpu_cfg.planning.doctor.examine import Health
from vgpu_cfg.render.data.format import FORMAT, Data


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
        "counts": {level.value: health.count(level) for level in Level},
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
        "ailments": [
            {
                "kind": one.kind.value,
                "level": one.kind.level.value,
                "subject": one.subject,
                "summary": one.kind.summary,
                "cost": one.kind.cost,
                "says": one.says,
                "command": one.command,
                "owner": one.owner,
            }
            for one in health.ailments
        ],
    }
