"""The plan files of an upgrade, which `apply` runs: for each wave and datacenter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vgpu_cfg.model.ranges import runs_of
from vgpu_cfg.planning.upgrade.assess import AffectedHost, Assessment, Fate
from vgpu_cfg.planning.upgrade.waves import Times, Wave


@dataclass(frozen=True, slots=True)
class Installation:
    """The choices of the user for the plan files; without `depots`, installing is a manual step."""

    vcenter: str
    window: str
    times: Times
    depots: tuple[str, ...] = ()


def plan_files(found: Assessment, waves: Sequence[Wave], how: Installation) -> Mapping[str, dict[str, Any]]:
    """Return the content of each plan file, by its name."""
    datacenters = sorted({host.datacenter for host in found.ready})
    width = max(2, len(str(len(waves))))
    files = {}
    for wave in waves:
        for datacenter in datacenters:
            hosts = [host for host in wave.hosts if host.datacenter == datacenter]
            stem = f"wave-{wave.number:0{width}}"
            name = f"{stem}-{datacenter}" if len(datacenters) > 1 else stem
            if hosts:
                several = {"server": how.vcenter, "datacenter": datacenter}
                version = found.target.driver or "-".join(found.target.fixed) or found.target.esxi
                files[f"{name}.yaml"] = {
                    "version": 1,
                    "name": f"upgrade-{version}-{name}",
                    "vcenter": several if len(datacenters) > 1 else how.vcenter,
                    "hosts": _entries(hosts, found, how),
                }
    return files


def _entries(hosts: Sequence[AffectedHost], found: Assessment, how: Installation) -> list[dict[str, Any]]:
    """Return an entry for the hosts of each cluster and driver: entries are upgraded in parallel."""
    groups: dict[tuple[str, str, str, bool], list[AffectedHost]] = {}
    for host in hosts:
        groups.setdefault((host.cluster, host.kind, host.target, host.by_image), []).append(host)
    entries = []
    for (cluster, kind, version, by_image), group in groups.items():
        driver: dict[str, Any] = {
            "kind": kind,
            "version": version if version.count(".") > 1 else f"{version}.*",
        }
        driver["by"] = "image" if by_image else "esxcli" if how.depots else "hand"
        if driver["by"] == "esxcli":
            driver["depot"] = list(how.depots)
        disruption: dict[str, Any] = {"max_hosts_down": found.lanes[cluster]}
        disruption["allow"] = ["maintenance", "reboot"]
        if how.window:
            disruption["window"] = how.window
        disruption["estimate"] = how.times.estimate
        entry: dict[str, Any] = {"cluster": cluster} if cluster else {}
        entry["names"] = [written for written, _ in runs_of(host.name for host in group)]
        if version:
            entry["driver"] = driver
        if found.target.esxi and by_image:
            entry["esxi"] = {"build": int(found.target.esxi), "by": "image"}
        if any(vm.fate is Fate.MOVES and vm.has_gpu for host in group for vm in host.vms):
            entry["cluster_options"] = {"evacuate_vgpu": True, "hot_migrate": True}
        entry["disruption"] = disruption
        entries.append(entry)
    return entries
