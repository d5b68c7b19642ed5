"""The JSON of an estate's health and upkeep: ailments, marks, trials, absences and upgrades."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import assert_never

from vgpu_cfg.knowledge.beliefs import load_beliefs
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.doctor.ailments import HEALTH, Ailment, Level
from vgpu_cfg.planning.doctor.examine import Health
from vgpu_cfg.planning.doctor.ours import Ours, Ran
from vgpu_cfg.planning.doctor.trials import Left, Outline, Remaining, needs_of
from vgpu_cfg.planning.doctor.tried import Tried
from vgpu_cfg.planning.upgrade.assess import AffectedHost, Assessment
from vgpu_cfg.planning.upgrade.waves import Played, Times, Wave, letters
from vgpu_cfg.planning.upkeep.absence import Absence, Absent, Death, Going, How, Loss
from vgpu_cfg.planning.upkeep.away import Away, AwayCluster, AwayGpu, AwayHost, AwayNic, LostUplink
from vgpu_cfg.render.data.format import FORMAT, Data
from vgpu_cfg.render.data.history import run_row_data
from vgpu_cfg.render.data.pool import spare_data
from vgpu_cfg.render.views.run.run_steps import view_run

_HOW = {how: how.value for how in How} | {How.COLD: "off"}
"""A VM that is off while it moves differs from one that stays off by its destination."""


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
            use.pool.model_dump(mode="json") | {"needed": use.needed, "vms": use.vms}
            for use in health.licences
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


def trial_data(outline: Outline, tried: Sequence[Tried], left: Sequence[Remaining]) -> Data:
    """Return the outline of a trial, its verdicts, and the objects that remain."""
    known = load_beliefs()
    return {
        "kind": "trial",
        "format": FORMAT,
        "server": outline.server,
        "trial": outline.mark.id,
        "expires_at": outline.mark.until.isoformat(),
        "steps": list(outline.steps),
        "minutes": outline.minutes,
        "datastore_mib": outline.datastore_mib,
        "calls": dict(outline.calls),
        "remains": {"tasks": outline.tasks, "events": outline.calls.total()},
        "privileges": sorted({name for need in needs_of(outline.experiments) for name in need.privileges}),
        "beliefs": [
            {
                "id": one.belief,
                "verdict": one.verdict.value,
                "statement": known[one.belief].statement,
                "seen": one.seen,
            }
            for one in tried
        ],
        "left": [{**_left(one), "reason": reason} for one, reason in left],
    }


def clean_data(
    found: Sequence[Left], removed: Sequence[Left], left: Sequence[Remaining], server: str
) -> Data:
    """Return the objects of trials, each with whether it was removed."""
    reasons = {one.moid: reason for one, reason in left}
    gone = {one.moid for one in removed} - reasons.keys()
    return {
        "kind": "trial-clean",
        "format": FORMAT,
        "server": server,
        "objects": [
            {**_left(one), "is_removed": one.moid in gone, "reason": reasons.get(one.moid, "")}
            for one in found
        ],
    }


def _left(one: Left) -> Data:
    return {
        "kind": one.kind,
        "moid": one.moid,
        "name": one.name,
        "trial": one.mark.id,
        "expires_at": one.mark.until.isoformat(),
        "is_proven": one.is_proven,
    }


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


def upgrade_data(
    found: Assessment,
    waves: Sequence[Wave],
    times: Times,
    window: str,
    observed: Inventory,
    played: Sequence[Played] = (),
) -> Data:
    """Return the upgrade with all hosts and VMs."""
    return {
        "kind": "upgrade",
        "format": FORMAT,
        "server": observed.vcenter.address,
        "read_at": observed.read_at.isoformat(),
        "target": {
            "driver": found.target.driver,
            "esxi": found.target.esxi,
            "fixed": list(found.target.fixed),
        },
        "up_to_date": found.has_it,
        "unread": list(found.unknown),
        "first": [{"text": one.text, "command": one.command} for one in found.firsts],
        "max_hosts_down": found.lanes,
        "seconds": asdict(times),
        "window": window,
        "hosts": [_host(host) for host in found.hosts],
        "waves": [
            {
                "number": wave.number,
                "opens": wave.opens.isoformat(),
                "closes": wave.closes.isoformat(),
                "ends": wave.ends.isoformat(),
                "canary": wave.is_canary,
                "hosts": [host.name for host in wave.hosts],
                "spares": [spare_data(one) for one in wave.spares],
            }
            for wave in waves
        ],
        "letters": dict(letters(found, waves)),
        "rehearsal": [
            {
                "number": one.wave.number,
                "hosts": len(one.wave.hosts),
                "done": one.done,
                "exit_code": one.exit_code,
                "measured": one.measured,
                "expected_seconds": round(3600 * one.wave.hours),
                "seconds": round(one.seconds),
            }
            for one in played
        ],
    }


def _host(host: AffectedHost) -> Data:
    return {
        "name": host.name,
        "cluster": host.cluster,
        "driver": host.present,
        "driver_kind": host.kind,
        "target": host.target,
        "build": host.build,
        "by_image": host.by_image,
        "blocked": host.blocked,
        "vms": [
            {
                "name": vm.name,
                "owner": vm.owner,
                "fate": vm.fate.value,
                "why": vm.why,
                "stun_ms": vm.stun_ms,
            }
            for vm in host.vms
        ],
    }
