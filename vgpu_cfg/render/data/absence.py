"""What would become of the VMs of a host that is thought away, for other programs."""

from __future__ import annotations

from collections import Counter

from vgpu_cfg.planning.upkeep.absence import Absence, Absent, Going
from vgpu_cfg.render.data.format import FORMAT, Data


def absence_data(found: Absence, server: str, read_at: str) -> Data:
    """Return a host's VMs with where they would go, and what would be lost."""
    return {
        "kind": "absence",
        "format": FORMAT,
        "server": server,
        "read_at": read_at,
        "host": found.host.name,
        "cluster": found.cluster,
        "ha": found.restarts,
        "gpus": dict(Counter(gpu.name for gpu in found.host.gpus)),
        "vms": [
            *(_vm(one, has_devices=True) for one in found.with_devices),
            *(_vm(one, has_devices=False) for one in found.others),
        ],
    }


def _vm(one: Absent, *, has_devices: bool) -> Data:
    return {
        "name": one.vm,
        "owner": one.owner,
        "has_devices": has_devices,
        "holds": list(one.holds),
        "drained": _going(one.drained),
        "died": {"to": one.died.to or None, "why": one.died.why},
    }


def _going(going: Going) -> Data:
    return {
        "how": "vmotion" if going.vmotion else "off" if going.to or going.is_off else "stays",
        "to": going.to or None,
        "stun_ms": going.stun_ms,
        "why": going.why,
    }
