"""The JSON of an upgrade."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.upgrade.assess import AffectedHost, Assessment
from vgpu_cfg.planning.upgrade.waves import Played, Times, Wave, letters
from vgpu_cfg.render.data.format import FORMAT, Data
from vgpu_cfg.render.data.pool import spare_data


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
