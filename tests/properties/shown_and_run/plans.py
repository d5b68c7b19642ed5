"""Plan files made at random for a small lab: VMs with what a plan file can say of them, hosts, networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

ESTATE = "random.yaml"
DEPOT = "/vmfs/volumes/vsan/NVD-AIE-800_580.95.02.zip"
HOSTS = ("esx-1.lab", "esx-2.lab")
GPUS = ("0000:21:00.0", "0000:e2:00.0")
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
OTHER = "dc2"
"""A datacenter beside that of the plans, where all has the same names; nothing of it is ever touched."""
MADE = "made"
"""What VMs that are made from nothing are called; the others are clones."""
NICS = {"vmnic2": "0000:24:00.0", "vmnic3": "0000:e4:00.0"}

truths = st.booleans()
Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """An estate, and plan files that are applied to it one after the other."""

    estate: Row
    plans: tuple[Row, ...]


def some(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw a value or, as often, nothing: the plan file does not speak of it."""
    return st.none() | strategy


def stated(**rows: Any) -> Row:
    return {key: value for key, value in rows.items() if value is not None}


# ----------------------------------------------------------------- estates


def _estate(*, has_driver: bool, graphics: str, passthrough: bool, drs: str, functions: bool) -> Row:
    firmware = {"SRIOV_EN": "True(1)", "NUM_OF_VFS": "8"} if functions else {}
    host = {
        "names": list(HOSTS),
        "memory": "512GiB",
        "graphics_type": graphics,
        "mft": True,
        "bundles": [{"path": DEPOT}],
        "gpus": [
            {
                "board": "A100",
                "pci_id": pci_id,
                "numa": node,
                "label": "whole" if passthrough and node else "",
            }
            | ({"mode": "passthrough"} if passthrough and node else {})
            for node, pci_id in enumerate(GPUS)
        ],
        "nics": [
            {
                "model": "ConnectX-6 Lx",
                "vmnic": "vmnic0",
                "pci_id": "0000:c1:00.0",
                "numa": 1,
                "switch": "vSwitch0",
            },
            *(
                {
                    "model": "ConnectX-6 Dx",
                    "vmnic": vmnic,
                    "pci_id": pci_id,
                    "numa": node,
                    "firmware": firmware,
                }
                for node, (vmnic, pci_id) in enumerate(NICS.items())
            ),
        ],
    }
    stock = _stock(drs=drs, host=host if has_driver else host | {"driver": "none"})
    twin = stock | {"datacenter": OTHER, "vms": [{"name": name} for name in ("vm-a-01", f"{MADE}-01")]}
    twin["clusters"] = [stock["clusters"][0] | {"hosts": [host | {"names": ["other-1.lab"]}]}]
    return {
        "about": "made at random",
        "vcenter": {"licences": ["AB0C1-DE2F3-GH4I5-JK6L7-MN8O9"]},
        "beside": [twin],
        **stock,
    }


def _stock(*, drs: str, host: Row) -> Row:
    """Return a datacenter's cluster, networks, folders and templates: each datacenter has the same names."""
    return {
        "clusters": [{"name": "gpu", "drs": drs, "hosts": [host]}],
        "switches": [{"name": "dvs-old"}],
        "networks": [{"name": "vm-network"}, {"name": "dv-train", "switch": "dvs-old", "vlan": 12}],
        "datastores": [{"name": "vsan", "capacity": "20TiB", "free": "15TiB"}],
        "folders": ["training"],
        "templates": [
            {"name": "ubuntu", "hardware_version": 21, "cpus": 4, "memory": "8GiB", "disks": ["64GiB"]},
            {"name": "old", "hardware_version": 15, "cpus": 4, "memory": "8GiB", "disks": ["64GiB"]},
        ],
    }


# --------------------------------------------------------------------- VMs

nic_rows = st.sampled_from(["vm-network", "dv-train"])


@st.composite
def disk_rows(draw: st.DrawFn) -> list[Row]:
    rows = draw(
        st.lists(st.sampled_from([{"size": "10GiB"}, {"size": "20GiB", "controller": "nvme"}]), max_size=2)
    )
    return [*([{"grow": "80GiB"}] if draw(truths) else []), *rows]


@st.composite
def gpu_rows(draw: st.DrawFn, *, passthrough: bool) -> list[Row | str]:
    profile = draw(st.sampled_from(["grid_a100-40c", "grid_a100-20c", "grid_a100-10c"]))
    kinds: list[list[Row | str]] = [[], [profile], [profile], [{"profile": "grid_a100-40c", "uvm": True}]]
    if passthrough:
        kinds += [[{"device": {"label": "whole"}}], [{"pin": GPUS[1]}]]
    return draw(st.sampled_from(kinds))


@st.composite
def vm_rows(draw: st.DrawFn, name: str, *, passthrough: bool) -> Row:
    is_scratch = name.startswith(MADE)
    gpus = draw(gpu_rows(passthrough=passthrough))
    row = stated(
        name=name,
        template={"scratch": "ubuntu64Guest"}
        if is_scratch
        else draw(st.sampled_from(["ubuntu", "ubuntu", "old"])),
        cluster="gpu",
        folder="training",
        datastore="vsan",
        cpus=draw(st.sampled_from([2, 4, 8])),
        memory=draw(st.sampled_from(["8GiB", "16GiB", "33GiB"])),
        gpus=gpus,
        secure_boot=draw(some(truths)),
        numa=draw(some(st.sampled_from(["follow-gpu", "node", "off", [0]]))),
        nics=draw(some(st.lists(nic_rows, min_size=1, max_size=2))),
        disks=draw(some(disk_rows())),
        extra_config=draw(some(st.just({"sched.swap.vmxSwapEnabled": "FALSE"}))),
        power=draw(st.sampled_from([True, True, True, False])),
    )
    if is_scratch:
        row["disks"] = [{"size": "40GiB"}]
    if draw(st.integers(0, 3)) == 0:
        row["place"] = {"spread": "hosts", "must": draw(truths)}
    if draw(st.integers(0, 3)) == 0 and not is_scratch and row.get("power"):
        row["guest"] = {"hostname": "node-{n}", "users": [{"name": "anna", "keys": [PUBLIC_KEY]}]}
    return row


# ------------------------------------------------------------------- hosts


@st.composite
def gpu_rules(draw: st.DrawFn) -> Row:
    use = draw(some(st.sampled_from(["vgpu", "vgpu", "passthrough"])))
    match = {"numa": draw(st.sampled_from([0, 1]))}
    if use == "passthrough":
        return stated(match=match, use=use, label=draw(some(st.sampled_from(["new", ""]))))
    if draw(truths):
        return stated(match=match, use=use, sharing="mig", ecc=draw(some(truths)))
    mode = draw(some(st.sampled_from(["same_size", "mixed_size"])))
    policies = ["best_effort", "equal_share"] if mode == "mixed_size" else ["best_effort", "fixed_share"]
    return stated(match=match, use=use, vgpu_mode=mode, scheduler=draw(some(st.sampled_from(policies))))


@st.composite
def nic_rules(draw: st.DrawFn) -> Row:
    use = draw(st.sampled_from(["host", "passthrough", "sriov", "switch"]))
    match = {"vmnic": draw(st.sampled_from(sorted(NICS)))}
    if use == "switch":
        return {"match": match, "use": "host", "switch": draw(st.sampled_from(["vSwitch0", "dvs-new"]))}
    functions = {"SRIOV_EN": True, "NUM_OF_VFS": 8}
    firmware = functions if use == "sriov" else draw(some(st.just({"ATS_ENABLED": True})))
    label = draw(some(st.sampled_from(["rail", ""])))
    roce = None if use == "passthrough" else draw(some(st.just({"trust": "dscp", "dscp": 26, "priority": 3})))
    return stated(
        match=match, use=use, vfs=8 if use == "sriov" else None, firmware=firmware, label=label, roce=roce
    )


@st.composite
def host_entries(draw: st.DrawFn, *, has_driver: bool) -> Row:
    driver = {"version": "580.*", "by": "esxcli", "depot": DEPOT}
    vmknics = [
        {
            "network": "roce-111",
            "addresses": dict(zip(HOSTS, ("10.111.0.21/24", "10.111.0.22/24"), strict=True)),
            "mtu": draw(st.sampled_from([1500, 9000])),
        }
    ]
    nics = draw(some(nic_rules()))
    options = {
        "evacuate_vgpu": draw(truths),
        "hot_migrate": draw(truths),
        "drs": {"TryBalanceVmsPerHost": draw(st.sampled_from(["1", "0", ""]))},
    }
    return stated(
        cluster="gpu",
        graphics_type=draw(some(st.sampled_from(["shared", "sharedDirect"]))),
        assignment_policy=draw(some(st.sampled_from(["performance", "consolidation"]))),
        ats=draw(some(truths)),
        gpus=draw(some(st.lists(gpu_rules(), min_size=1, max_size=1))),
        nics=None if nics is None else [nics],
        driver=None if has_driver else driver,
        licence=draw(some(st.just({"secret": "key"}))),
        vmknics=vmknics if nics is not None and nics.get("switch") == "dvs-new" else None,
        cluster_options=draw(some(st.just(options))),
        access={"ssh": "open-and-close", "user": "root", "password": {"secret": "esxi"}, "host_keys": "pin"},
        disruption={"allow": ["maintenance", "reboot"], "max_hosts_down": draw(st.integers(1, 2))},
    )


# ------------------------------------------------------------------- plans


@st.composite
def plan_files(draw: st.DrawFn, *, has_driver: bool, passthrough: bool, of_hosts: bool) -> Row:
    row: Row = {
        "version": 1,
        "name": "random",
        "vcenter": {"server": f"lab:{ESTATE}", "datacenter": "dc1"},
        "secrets": {"esxi": "env:ESXI_PASSWORD", "key": "env:LICENCE_KEY"},
    }
    if of_hosts:
        row["hosts"] = [draw(host_entries(has_driver=has_driver))]
        vlan, mtu = draw(st.sampled_from([0, 111, 222])), 9000
        row["networks"] = [
            {"name": "roce-111", "switch": {"name": "dvs-new", "make": True}, "vlan": vlan, "mtu": mtu}
        ]
        return row
    names = draw(st.lists(st.sampled_from(["vm-a", "vm-b", MADE]), min_size=1, max_size=2, unique=True))
    rows = [f"{name}-{{01..0{draw(st.integers(1, 2))}}}" for name in sorted(names)]
    row["vms"] = [draw(vm_rows(name, passthrough=passthrough)) for name in rows]
    return row


@st.composite
def cases(draw: st.DrawFn, *, of_hosts: bool) -> Case:
    """Make an estate and two plans for it, of which the second changes what the first has made."""
    has_driver = not of_hosts or draw(truths)
    passthrough = draw(truths)
    estate = _estate(
        has_driver=has_driver,
        graphics="sharedDirect" if not of_hosts else draw(st.sampled_from(["shared", "sharedDirect"])),
        passthrough=passthrough,
        drs="fullyAutomated" if of_hosts else draw(st.sampled_from(["manual", "fullyAutomated"])),
        functions=draw(truths),
    )
    plans = plan_files(has_driver=has_driver, passthrough=passthrough, of_hosts=of_hosts)
    return Case(estate, (draw(plans), draw(plans)))


# -------------------------------------------------------- storage policies


def _with_policies(home: str, disk: str, *others: Row) -> Row:
    """A plan of one clone and one VM made from nothing, with policies for homes and disks."""
    common = {"cluster": "gpu", "folder": "training", "datastore": "vsan", "cpus": 2, "memory": "8GiB"}
    own = [{"size": "10GiB", "storage_policy": disk}]
    return {
        "version": 1,
        "name": "policies",
        "vcenter": {"server": f"lab:{ESTATE}", "datacenter": "dc1"},
        "defaults": common | {"storage_policy": home},
        "vms": [
            {"name": "a", "template": "ubuntu", "gpus": "grid_a100-10c", "disks": [*others, *own]},
            {"name": "b", "template": {"scratch": "ubuntu64Guest"}, "disks": [{"size": "5GiB"}, *own]},
        ],
    }


POLICIES = Case(
    estate=_estate(has_driver=True, graphics="sharedDirect", passthrough=False, drs="manual", functions=False)
    | {
        "vcenter": {
            "storage_policies": [{"name": name, "datastores": ["vsan"]} for name in ("gold", "silver")]
        }
    },
    plans=(
        _with_policies("gold", "silver", {"grow": "80GiB"}),
        _with_policies("silver", "gold", {"grow": "90GiB", "storage_policy": "gold"}),
    ),
)
"""Storage policies of new VMs, and others for them beside a disk that grows."""


# ------------------------------------------------------------ customisation


def _customized(*vms: Row) -> Row:
    common = {"cluster": "gpu", "folder": "training", "datastore": "vsan", "cpus": 2, "memory": "8GiB"}
    return {
        "version": 1,
        "name": "customised",
        "vcenter": {"server": f"lab:{ESTATE}", "datacenter": "dc1"},
        "networks": [
            {
                "name": "vm-network",
                "subnet": "10.0.0.0/24",
                "gateway": "10.0.0.1",
                "dns": ["10.0.0.2", "10.0.0.3"],
                "pool": "10.0.0.11-10.0.0.20",
            }
        ],
        "defaults": common | {"gpus": "grid_a100-10c"},
        "vms": list(vms),
    }


CUSTOMIZED = Case(
    estate=_estate(has_driver=True, graphics="sharedDirect", passthrough=False, drs="manual", functions=False)
    | {
        "vcenter": {
            "customization_specs": [
                {"name": "linux", "hostname": "ask", "dns": ["10.0.0.53"], "nics": ["ask"]},
                {"name": "windows", "type": "Windows", "nics": ["ask"], "password": "own"},
                {"name": "alone", "type": "Windows", "nics": ["10.0.0.9/24"]},
            ]
        },
        "templates": [
            {"name": "ubuntu", "cpus": 4, "memory": "8GiB", "guest": {"cloud_init": False}},
            {"name": "win", "cpus": 4, "memory": "8GiB", "guest_id": "windows2019srvNext_64Guest"},
        ],
    },
    plans=(
        _customized(
            {
                "name": "a",
                "template": "ubuntu",
                "nics": [{"network": "vm-network", "ip": "pool"}, {"network": "dv-train", "ip": "dhcp"}],
                "guest": {"spec": "linux", "domain": "lab.example"},
            },
            {
                "name": "b",
                "template": "win",
                "nics": [{"network": "vm-network", "ip": "10.0.0.30/24"}],
                "guest": {"spec": "windows", "hostname": "gpu-b"},
            },
            {"name": "c", "template": "win", "guest": {"spec": "alone"}, "power": False},
        ),
    ),
)
"""Guests that are customised, with addresses and without."""
