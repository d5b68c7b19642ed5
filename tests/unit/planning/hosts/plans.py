"""Plans for hosts in few words, for tests that need no plan file."""

from __future__ import annotations

from typing import Any

from tests.plans.estate import make_inventory
from tests.unit.planning.desired_plans import plan_for, planned
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.model.desired import DesiredHosts, DesiredVm
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.host_settings.resolved_host import ResolvedHost, make_view

GPU = {"board": "A100", "pci": "0000:21:00.0", "node": 0}
NIC = {"vmnic": "vmnic2", "pci": "0000:24:00.0", "node": 0}
SHELL = {"ssh": "open-and-close"}
MARK = {"plan": "demo", "since": "2026-11-20T20:00:00Z"}


def host(**more: Any) -> dict[str, Any]:
    """Observe a host with one A100 and one ConnectX-6 Dx."""
    return {"gpus": [GPU], "nics": [NIC]} | more


def estate(*hosts: dict[str, Any], **more: Any) -> Inventory:
    """Observe hosts `esx-01` and so on in the cluster `gpu`, which DRS empties where they are several."""
    rows = {f"esx-{number:02}": row for number, row in enumerate(hosts, start=1)}
    return make_inventory({"hosts": rows, "clusters": {"gpu": {"drs": "fullyAutomated"}}} | more)


def wanted(*vms: DesiredVm, **entry: Any) -> Any:
    """Desire something of every host of the cluster `gpu`."""
    return plan_for(*vms, hosts=[{"cluster": "gpu"} | entry])


def plan(observed: Inventory, *vms: DesiredVm, **entry: Any) -> Plan:
    return planned(wanted(*vms, **entry), observed)


def resolved(observed: Inventory, name: str = "esx-01", **entry: Any) -> ResolvedHost:
    """Make the case of one host, with nothing compared yet."""
    found = next(one for one in observed.hosts if one.name == name)
    row = DesiredHosts.model_validate({"cluster": "gpu"} | entry)
    return ResolvedHost(row, make_view(found, observed, load_catalog()), "wave 1")


def kinds(found: Plan) -> list[str]:
    return [change.kind for change in free(found)]


def free(found: Plan) -> list[Change]:
    """Return the changes that no error stands against."""
    return [change for change in found.changes if change.id not in found.blocked]


def change(found: Plan, kind: str) -> Change:
    """Return the one change of a kind."""
    (one,) = [change for change in found.changes if change.kind == kind]
    return one
