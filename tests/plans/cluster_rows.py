"""The rows of an estate that say what clusters are: DRS, its rules, groups of VMs and hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vgpu_cfg.model.observed.drs import ClusterRule, HostGroup, VmGroup, VmHostRule, VmOverrides
from vgpu_cfg.model.observed.inventory import Cluster
from vgpu_cfg.model.observed.vm import Vm

Row = Mapping[str, Any]


def make_cluster(name: str, row: Row, hosts: Row, vms: Sequence[Vm]) -> Cluster:
    """Build a cluster from its row, with rules and groups."""
    moids = {vm.name: vm.moid for vm in vms}
    return Cluster(
        moid=f"cluster-{name}",
        name=name.rpartition("/")[2],
        inventory_path=f"/dc1/host/{name}",
        datacenter="dc1",
        resource_pool_moid=f"pool-{name}",
        host_moids=tuple(
            f"host-{host}" for host, made in hosts.items() if (made or {}).get("cluster", "gpu") == name
        ),
        drs_enabled=row.get("drs", "manual") != "off",
        drs_behavior=row.get("drs", "manual"),
        ha_enabled=row.get("ha", False),
        failover_percent=row.get("failover", 0),
        uses_vm_levels=row.get("vm_levels", True),
        is_standalone=row.get("standalone", False),
        vm_overrides=tuple(
            VmOverrides(vm_moid=moids[vm], settings=tuple(settings.items()))
            for vm, settings in (row.get("vm_overrides") or {}).items()
        ),
        **_drs(row, hosts, moids),
    )


def _drs(row: Row, hosts: Row, moids: Mapping[str, str]) -> dict[str, Any]:
    """Make the rules and groups of a cluster; a rule with `group` is one from VMs to hosts."""
    rules, host_rules = [], []
    for number, rule in enumerate(row.get("rules") or (), start=1):
        common = {
            "key": number,
            "name": rule["name"],
            "is_enabled": rule.get("enabled", True),
            "is_mandatory": rule.get("must", True),
        }
        if "group" in rule:
            groups = {"host_group": rule.get("hosts", ""), "avoided_group": rule.get("not_hosts", "")}
            host_rules.append(VmHostRule(vm_group=rule["group"], **groups, **common))
        else:
            vms = tuple(moids[vm] for vm in rule["vms"])
            rules.append(ClusterRule(kind=rule.get("kind", "anti_affinity"), vm_moids=vms, **common))
    return {
        "rules": tuple(rules),
        "host_rules": tuple(host_rules),
        "vm_groups": tuple(
            VmGroup(name=name, vm_moids=tuple(moids[vm] for vm in vms or ()))
            for name, vms in (row.get("vm_groups") or {}).items()
        ),
        "host_groups": tuple(
            HostGroup(name=name, host_moids=tuple(f"host-{host}" for host in group or ()))
            for name, group in (row.get("host_groups") or {}).items()
        ),
    }
