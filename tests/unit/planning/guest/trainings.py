"""Plans with guests in few words: two workers with an A100 each, their NICs, and what they train with."""

from __future__ import annotations

from typing import Any

from tests.unit.planning.desired_plans import plan_for, vm
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.guests.guest import GuestSpec
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.addresses import AddressBook
from vgpu_cfg.planning.guests.specs import guest_specs

IMAGE = "nvcr.io/nvidia/tensorflow:21.07-tf1-py3"
MANAGEMENT = {
    "name": "vm-network",
    "subnet": "10.0.0.0/24",
    "gateway": "10.0.0.1",
    "pool": ("10.0.0.11", "10.0.0.40"),
}
ROCE = {
    "name": "roce-111",
    "is_physical": True,
    "mtu": 9000,
    "subnet": "10.111.0.0/24",
    "pool": ("10.111.0.11", "10.111.0.40"),
}
BY_POOL = {"network": "vm-network", "ip": "pool"}
BY_DHCP = {"network": "vm-network", "ip": "dhcp"}
WHOLE = {
    "network": "roce-111",
    "ip": "pool",
    "rdma": "gpudirect",
    "function": {"kind": "passthrough"},
}
VIRTUAL = WHOLE | {"function": {"kind": "sriov"}}
PARAVIRTUAL = {"network": "roce-111", "ip": "pool", "rdma": "host", "is_pvrdma": True}


def guest(name: str, **more: Any) -> dict[str, Any]:
    return {
        "host_name": name,
        "driver": {"package": ""},
        "licence": {"token": "lic"},
        "ofed": {"stack": "inbox"},
        "runtime": "docker",
    } | more


def worker(name: str, *nics: dict[str, Any], **more: Any) -> Any:
    row = {"nics": nics or (BY_DHCP, WHOLE), "guest": guest(name, **more.pop("guest", {}))} | more
    return vm(name, "grid_a100-40c", **row)


def head(name: str = "z-head", **more: Any) -> Any:
    mine = guest(name, driver=None, licence=None, ofed=None)
    return vm(name, nics=(BY_POOL,), guest=mine, **more)


def training(*vms: Any, **more: Any) -> DesiredPlan:
    named_head = more.get("head")
    workers = tuple(one.name for one in vms if one.name != named_head)
    wanted = {"image": IMAGE, "workers": workers} | more
    return plan_for(*vms, networks=(MANAGEMENT, ROCE), training=wanted)


def pair(**more: Any) -> DesiredPlan:
    """Desire the guide's two workers, over RoCE."""
    return training(worker("hvd-01"), worker("hvd-02"), rdma_network="roce-111", **more)


def specs_of(desired: DesiredPlan, observed: Inventory) -> dict[str, GuestSpec]:
    return guest_specs(desired, AddressBook(desired, observed).nics_of_all())
