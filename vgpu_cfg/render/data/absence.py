"""The fate of VMs if an object were away, for other programs."""

from __future__ import annotations

from typing import assert_never

from vgpu_cfg.planning.upkeep.absence import Absence, Absent, Death, Going, How, Loss
from vgpu_cfg.planning.upkeep.away import Away, AwayCluster, AwayGpu, AwayHost, AwayNic, LostUplink
from vgpu_cfg.render.data.format import FORMAT, Data

_HOW = {how: how.value for how in How} | {How.COLD: "off"}
"""A VM that is off while it moves differs from one that stays off by its destination."""


def absence_data(found: Absence, server: str, read_at: str) -> Data:
    """Return the VMs with where they would go, and what would be lost."""
    return {
        "kind": "absence",
        "format": FORMAT,
        "server": server,
        "read_at": read_at,
        "away": _away(found.away),
        "host": None if isinstance(found.away, AwayCluster) else found.away.hosts[0].name,
        "cluster": found.cluster,
        "ha": found.has_ha,
        "gpus": dict(found.loss.gpus),
        "vms": [_vm(one) for one in found.vms],
        "totals": _totals(found),
        "lost": _lost(found.loss),
        "uplinks": [_uplink(one) for one in found.uplinks],
        "notes": list(found.notes),
    }


def _away(away: Away) -> Data:
    about: Data = {"kind": away.kind, "name": away.word, "hosts": [host.name for host in away.hosts]}
    match away:
        case AwayHost():
            return about
        case AwayCluster():
            return about | {"silent": [host.name for host in away.silent]}
        case AwayGpu():
            return about | {"pci_id": away.gpu.pci_id, "board": away.gpu.name}
        case AwayNic():
            return about | {"pci_id": away.pci_id, "device": away.device}
    assert_never(away)


def _vm(one: Absent) -> Data:
    return {
        "name": one.vm,
        "host": one.host,
        "owner": one.owner,
        "has_devices": one.has_devices,
        "holds": list(one.holds),
        "functions": one.functions,
        "whole_nics": one.whole_nics,
        "drained": _going(one.drained),
        "died": _death(one.died),
    }


def _going(going: Going) -> Data:
    return {
        "how": _HOW[going.how],
        "to": going.to or None,
        "stun_ms": going.stun_ms,
        "why": going.why,
    }


def _death(death: Death) -> Data:
    return {
        "dies": death.dies,
        "loses": list(death.loses),
        "to": death.to or None,
        "by_ha": death.by_ha,
        "why": death.why,
    }


def _uplink(uplink: LostUplink) -> Data:
    return {
        "switch": uplink.switch,
        "others": list(uplink.others),
        "up": list(uplink.up),
        "is_last": uplink.is_last,
        "is_told": uplink.is_told,
        "networks": list(uplink.names),
        "vmknics": list(uplink.vmknics),
        "vms": [vm.name for vm in uplink.vms],
    }


def _totals(found: Absence) -> Data:
    sums = found.totals
    return {
        "vms": sums.vms,
        "vmotion": sums.ways[How.VMOTION],
        "cold": sums.ways[How.COLD],
        "restart": sums.ways[How.RESTART],
        "off": sums.ways[How.OFF],
        "stays": sums.ways[How.STAYS],
        "longest_stun_ms": sums.longest_stun_ms,
        "dies": sums.dies,
        "starts": sums.starts,
    }


def _lost(loss: Loss) -> Data:
    return {
        "gpus": dict(loss.gpus),
        "memory_mib": loss.memory_mib,
        "free_mib": loss.free_mib,
        "nvlink": [
            {"host": host, "kind": one.kind, "gpus": sorted(one.gpus), "is_certain": one.is_certain}
            for host, one in loss.links
        ],
        "peer_sets": [{"size": one.size, "now": one.now, "left": one.left} for one in loss.peer_sets],
    }
