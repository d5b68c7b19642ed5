"""What counts as a change of a site, and what does not: each row changes one thing of a recorded vCenter."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.architecture.sources import ROOT
from vgpu_cfg.changes.values import edit_text
from vgpu_cfg.cli.flows.flow import read_site
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.model.observed.inventory import Connection, Inventory
from vgpu_cfg.model.observed.vm import PowerState
from vgpu_cfg.model.vgpu import VgpuMode
from vgpu_cfg.planning.site_changes import compare_sites
from vgpu_cfg.settings.flags import ConnectionFlags

Change = Callable[[Inventory], Inventory]


@pytest.fixture(scope="module")
def site() -> Inventory:
    return read_site(ConnectionFlags(recording=ROOT / "examples/site-repository/vcenter.json.gz"))


def told(before: Inventory, after: Inventory) -> list[str]:
    return [
        f"{one.kind} {one.name}: {', '.join(map(edit_text, one.edits)) or one.fate.value}"
        for one in compare_sites(before, after)
    ]


def of(group: str, which: str, /, **fields: Any) -> Change:
    """Change fields of the host, VM, network, ... of a name."""

    def change(site: Inventory) -> Inventory:
        things = [one.model_copy(update=fields) if one.name == which else one for one in getattr(site, group)]
        assert things != list(getattr(site, group))
        return site.model_copy(update={group: tuple(things)})

    return change


def without(group: str, name: str) -> Change:
    def change(site: Inventory) -> Inventory:
        return site.model_copy(update={group: tuple(one for one in getattr(site, group) if one.name != name)})

    return change


def gpu(host_name: str, **fields: Any) -> Change:
    """Change fields of a host's first GPU."""

    def change(site: Inventory) -> Inventory:
        host = next(host for host in site.hosts if host.name == host_name)
        first, *others = host.gpus
        return of("hosts", host_name, gpus=(first.model_copy(update=fields), *others))(site)

    return change


def no_gpu(site: Inventory) -> Inventory:
    host = next(host for host in site.hosts if host.name == "esx-t4-01.lab")
    return of("hosts", "esx-t4-01.lab", gpus=host.gpus[1:])(site)


def moved(site: Inventory) -> Inventory:
    host = next(host for host in site.hosts if host.name == "esx-a100-02.lab")
    return of("vms", "research-01", host_moid=host.moid)(site)


def detail(name: str, **fields: Any) -> Change:
    def change(site: Inventory) -> Inventory:
        vm = next(vm for vm in site.vms if vm.name == name)
        assert vm.detail is not None
        return of("vms", name, detail=vm.detail.model_copy(update=fields))(site)

    return change


def new_driver(site: Inventory) -> Inventory:
    moid = next(host.moid for host in site.hosts if host.name == "esx-a100-01.lab")
    facts = site.facts.hosts[moid]
    software = tuple(
        one.model_copy(update={"version": "999.1"}) if one.name.casefold().startswith("nvd") else one
        for one in facts.software
    )
    hosts = {**site.facts.hosts, moid: facts.model_copy(update={"software": software})}
    return site.model_copy(update={"facts": site.facts.model_copy(update={"hosts": hosts})})


CHANGES: dict[str, tuple[Change, str]] = {
    "maintenance": (
        of("hosts", "esx-vdi-01.lab", is_in_maintenance_mode=True),
        "host esx-vdi-01.lab: maintenance mode no -> yes",
    ),
    "lost": (
        of("hosts", "esx-vdi-01.lab", connection=Connection.NOT_RESPONDING),
        "host esx-vdi-01.lab: connection connected -> notResponding",
    ),
    "patched": (of("hosts", "esx-t4-01.lab", build="99"), "host esx-t4-01.lab: build 24022510 -> 99"),
    "renamed host": (
        of("hosts", "esx-t4-01.lab", name="edge-01.lab"),
        "host edge-01.lab: name esx-t4-01.lab -> edge-01.lab",
    ),
    "host gone": (without("hosts", "esx-old-01.lab"), "host esx-old-01.lab: went"),
    "host added anew": (of("hosts", "esx-t4-01.lab", moid="host-999"), ""),
    "mode": (
        gpu("esx-t4-01.lab", vgpu_mode=VgpuMode.MIXED_SIZE),
        "GPU esx-t4-01.lab 0000:17:00.0: vGPU mode same size -> mixed size",
    ),
    "graphics type": (
        gpu("esx-t4-01.lab", graphics_type=GraphicsType.DIRECT),
        "GPU esx-t4-01.lab 0000:17:00.0: graphics type sharedDirect -> direct",
    ),
    "GPU gone": (no_gpu, "GPU esx-t4-01.lab 0000:17:00.0: went"),
    "holders": (gpu("esx-t4-01.lab", vm_moids=("vm-1",)), ""),
    "mode not told": (gpu("esx-t4-01.lab", vgpu_mode=None), ""),
    "driver": (new_driver, "host esx-a100-01.lab: NVIDIA driver "),
    "VM moved": (moved, "VM research-01: host esx-a100-01.lab -> esx-a100-02.lab"),
    "VM off": (
        of("vms", "research-01", power_state=PowerState.OFF),
        "VM research-01: power poweredOn -> poweredOff",
    ),
    "VM renamed": (of("vms", "research-01", name="r1"), "VM r1: name research-01 -> r1"),
    "VM gone": (without("vms", "research-01"), "VM research-01: went"),
    "VM without its vGPU": (
        detail("research-01", vgpus=()),
        "VM research-01: vGPUs grid_a100d-40c -> none",
    ),
    "VM at work": (detail("research-01", cpu_mhz=12345), ""),
    "VM unread": (of("vms", "research-01", detail=None), ""),
    "network gone": (without("networks", "vdi-net"), "network vdi-net: went"),
    "datastore fuller": (of("datastores", "vsan", free_mib=1), ""),
    "datastore lost": (of("datastores", "vsan", is_accessible=False), "datastore vsan: accessible yes -> no"),
    "cluster": (of("clusters", "a100", drs_enabled=False), "cluster a100: DRS yes -> no"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_one_change_is_told_and_nothing_else(name: str, site: Inventory) -> None:
    change, expected = CHANGES[name]
    found = told(site, change(site))
    assert len(found) == bool(expected), found
    assert "".join(found).startswith(expected)


def test_a_later_reading_in_another_order_is_the_same(site: Inventory) -> None:
    later = site.model_copy(
        update={
            "read_at": site.read_at + timedelta(days=1),
            "hosts": site.hosts[::-1],
            "vms": site.vms[::-1],
        }
    )
    assert told(site, later) == []


def test_what_came_is_what_went_the_other_way(site: Inventory) -> None:
    less = without("vms", "research-01")(site)
    assert told(less, site) == ["VM research-01: came"]


def test_a_vm_on_a_host_without_gpus_is_nobodys_business(site: Inventory) -> None:
    bare = site.model_copy(
        update={"hosts": tuple(host.model_copy(update={"gpus": ()}) for host in site.hosts)}
    )
    assert told(bare, without("vms", "research-01")(bare)) == []


def test_objects_of_another_vcenter_are_told_by_their_names(site: Inventory) -> None:
    other = site.model_copy(update={"vcenter": site.vcenter.model_copy(update={"instance_uuid": "other"})})
    swapped = [host.model_copy(update={"moid": f"x-{host.moid}"}) for host in other.hosts]
    found = told(site, other.model_copy(update={"hosts": tuple(swapped)}))
    assert [line for line in found if not line.startswith("VM ")] == [
        f"vCenter lab:mixed-fleet: id {site.vcenter.instance_uuid} -> other"
    ]
