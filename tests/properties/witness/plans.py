"""Estates full of strangers, and plans made at random for them: a family for each kind of command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.properties.witness.stage import Row

HOSTS = ("esx-1.lab", "esx-2.lab", "esx-3.lab")
GPUS = ("0000:21:00.0", "0000:e2:00.0")
SHARED, MANAGED = "dvs-prod", "vSwitch0"
DRAWN_LEVELS = st.sampled_from(["manual", "fullyAutomated", "fullyAutomated"])
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
truths = st.booleans()


def stated(**rows: Any) -> Row:
    return {key: value for key, value in rows.items() if value is not None}


def some(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw a value or, as often, nothing: the plan file does not name the key."""
    return st.none() | strategy


# ----------------------------------------------------------------- estates


def estate(
    *, drs: str = "fullyAutomated", hosts: int = 2, mtu: int = 1500, on_switch: int = 2, gpu_vm: str = "off"
) -> Row:
    """Return an estate whose first hosts, switch and cluster are used by VMs of others.

    `on_switch` is how many hosts have an uplink on the shared switch, `gpu_vm` the power of a VM with a vGPU.
    """
    nics = [
        {"model": "ConnectX-6 Lx", "vmnic": "vmnic0", "pci_id": "0000:c1:00.0", "switch": MANAGED},
        {"model": "ConnectX-6 Dx", "vmnic": "vmnic3", "pci_id": "0000:e4:00.0"},
    ]
    uplink = {"model": "ConnectX-6 Dx", "vmnic": "vmnic2", "pci_id": "0000:24:00.0"}
    rows = [
        {
            "name": name,
            "memory": "256GiB",
            "graphics_type": "sharedDirect",
            "gpus": [{"board": "A100", "pci_id": pci_id} for pci_id in GPUS],
            "nics": [*nics, uplink | ({"switch": SHARED} if number < on_switch else {})],
        }
        for number, name in enumerate(HOSTS[:hosts])
    ]
    return {
        "about": "strangers everywhere",
        "vcenter": {"settings": {"vgpu.hotmigrate.enabled": False}},
        "clusters": [{"name": "gpu", "drs": drs, "hosts": rows}],
        "switches": [{"name": SHARED, "mtu": mtu}],
        "networks": [
            {"name": "vm-network"},
            {"name": "prod", "switch": SHARED, "vlan": 12},
            {"name": "roce", "switch": SHARED, "vlan": 20},
        ],
        "datastores": [
            {"name": "vsan", "capacity": "20TiB", "free": "15TiB"},
            {"name": "nfs", "kind": "NFS"},
        ],
        "folders": ["training"],
        "templates": [
            {"name": "ubuntu", "hardware_version": 21, "cpus": 2, "memory": "8GiB", "disks": ["40GiB"]}
        ],
        "vms": [
            _stranger("erp-1", networks=["prod"]),
            _stranger("erp-2", networks=["prod"], host=HOSTS[hosts - 1]),
            _stranger("web-1", networks=["vm-network"]),
            _stranger("idle-1", networks=["prod"], power="off"),
            _stranger("ml-1", networks=["vm-network"], gpus=["grid_a100-10c"], power=gpu_vm),
        ],
    }


def _stranger(name: str, **more: Any) -> Row:
    common = {"folder": "training", "cpus": 2, "memory": "4GiB", "disks": ["10GiB"]}
    return {"name": name, "host": HOSTS[0]} | common | more


@st.composite
def estates(draw: st.DrawFn) -> Row:
    return estate(
        drs=draw(DRAWN_LEVELS),
        hosts=draw(st.integers(1, 3)),
        mtu=draw(st.sampled_from([1500, 1500, 9000])),
        on_switch=draw(st.sampled_from([3, 3, 1, 0])),
        gpu_vm=draw(st.sampled_from(["on", "off"])),
    )


OWN_ESTATES = (estate(), estate(drs="manual", hosts=3))
"""Those in which the plan has VMs already."""

COMMON = {
    "cluster": "gpu",
    "folder": "training",
    "datastore": "vsan",
    "cpus": 2,
    "memory": "8GiB",
    "numa": "off",
}


def own_plan(**more: Any) -> Row:
    """Return the plan that made the VMs which other plans change."""
    return {
        "vcenter": "lab:estate.yaml",
        "defaults": COMMON | {"template": "ubuntu"},
        "vms": [
            {"name": "own-1", "gpus": "grid_a100-10c", "nics": ["prod"]},
            {"name": "own-2", "nics": ["vm-network"], "disks": [{"size": "10GiB"}]},
            {"name": "own-3", "power": False},
        ],
    } | more


@dataclass(frozen=True, slots=True)
class Case:
    """An estate, the plan that was applied to it before, if any, and commands with their plan files."""

    estate: Row
    before: Row | None
    commands: tuple[tuple[Row, tuple[str, ...]], ...]
    tampers: tuple[str, ...] = ()
    fault: Row | None = None


# ------------------------------------------------------------- single plans

APPLY = ("apply", "--yes", "plan.yaml")
PREPARED = {
    "cluster": "gpu",
    "names": HOSTS[0],
    "access": {"ssh": "open-and-close", "user": "root", "password": {"secret": "esxi"}, "host_keys": "pin"},
}


def network_case(*, built: Row | None = None, allow: Sequence[str] = ("network",), **more: Any) -> Case:
    """Return a case that changes the network `prod` of the shared switch, with approval."""
    row = {"name": "prod", "switch": SHARED} | more
    plan = {"vcenter": "lab:estate.yaml", "networks": [row], "allow": list(allow)}
    return Case(built or estate(), None, ((plan, APPLY),))


def host_case(**more: Any) -> Case:
    """Return a case that prepares the first host."""
    secrets = {"esxi": "env:ESXI_PASSWORD"}
    plan = {"vcenter": "lab:estate.yaml", "secrets": secrets, "hosts": [PREPARED | more]}
    return Case(estate(), None, ((plan | {"allow": ["irreversible"]}, APPLY),))


FOUND = {
    "a member without an uplink": network_case(built=estate(on_switch=1), mtu=9000),
    "a default type that no GPU follows": host_case(
        graphics_type="shared", gpus=[{"match": {"pci_id": GPUS[1]}, "use": "vgpu"}]
    ),
}
"""Cases that the search has found, and that are mended."""


# ---------------------------------------------------------------- networks


@st.composite
def network_plans(draw: st.DrawFn) -> Row:
    """Draw a plan of switches, portgroups and uplinks."""
    networks: list[Row] = []
    if draw(st.integers(0, 7)):
        networks.append(
            stated(
                name=draw(st.sampled_from(["prod", "prod", "roce", "new"])),
                switch=SHARED,
                vlan=draw(some(st.sampled_from([12, 13, 20]))),
                mtu=draw(st.sampled_from([1500, 9000, 9000, 9000, None])),
            )
        )
    if not draw(st.integers(0, 3)) or not networks:
        networks.append(
            {"name": "alone", "switch": {"name": "dvs-new", "make": True}, "vlan": 7, "mtu": 9000}
        )
    hosts = []
    if draw(truths):
        to = draw(st.sampled_from([MANAGED, SHARED, *(["dvs-new"] if len(networks) > 1 else [])]))
        hosts = [{"cluster": "gpu", "nics": [{"match": {"vmnic": "vmnic3"}, "use": "host", "switch": to}]}]
    return stated(vcenter="lab:estate.yaml", networks=networks, hosts=hosts or None)


@st.composite
def network_cases(draw: st.DrawFn) -> Case:
    vmknics = ("vmknic on esx-1.lab",) if draw(truths) else ()
    return Case(draw(estates()), None, ((draw(network_plans()), APPLY),), vmknics)


# ------------------------------------------------------------------- hosts


@st.composite
def host_plans(draw: st.DrawFn) -> Row:
    """Draw a plan that prepares hosts."""
    use = draw(some(st.sampled_from(["vgpu", "passthrough"])))
    rule = stated(
        match={"pci_id": draw(st.sampled_from(GPUS))},
        use=use,
        sharing=draw(some(st.just("mig"))) if use == "vgpu" else None,
        ecc=draw(some(truths)) if use == "vgpu" else None,
    )
    nic = draw(st.sampled_from([None, None, {"use": "passthrough"}, {"use": "sriov", "vfs": 4}]))
    options = stated(
        evacuate_vgpu=draw(some(truths)),
        hot_migrate=draw(some(truths)),
        drs=draw(some(st.just({"TryBalanceVmsPerHost": "1"}))),
    )
    entry = stated(
        cluster="gpu",
        names=draw(some(st.sampled_from(HOSTS[:1]))),
        graphics_type=draw(some(st.sampled_from(["shared", "sharedDirect"]))),
        assignment_policy=draw(some(st.just("consolidation"))),
        ats=draw(some(truths)),
        gpus=[rule] if use else None,
        nics=[{"match": {"vmnic": "vmnic3"}} | nic] if nic else None,
        cluster_options=options or None,
        access={"ssh": "open-and-close", "user": "root", "password": {"secret": "esxi"}, "host_keys": "pin"},
        disruption={"allow": draw(st.sampled_from([["maintenance", "reboot"]] * 3 + [[]]))},
    )
    return {"vcenter": "lab:estate.yaml", "secrets": {"esxi": "env:ESXI_PASSWORD"}, "hosts": [entry]}


@st.composite
def host_cases(draw: st.DrawFn) -> Case:
    return Case(draw(estates()), None, ((draw(host_plans()), ("apply", "--yes", "plan.yaml")),))


# --------------------------------------------------------------------- VMs


@st.composite
def changed_plans(draw: st.DrawFn) -> Row:
    """Draw a plan that changes, moves and makes VMs."""
    one = stated(
        name="own-1",
        gpus=draw(st.sampled_from(["grid_a100-10c", "grid_a100-20c"])),
        nics=draw(st.sampled_from([["prod"], ["roce"], ["prod", "vm-network"]])),
        cpus=draw(some(st.just(4))),
        datastore=draw(some(st.just("nfs"))),
        place=draw(some(st.sampled_from([{"hosts": [HOSTS[1]]}, {"not_hosts": [HOSTS[1]]}]))),
    )
    two = stated(
        name="own-2",
        nics=["vm-network"],
        disks=draw(
            st.sampled_from(
                [[{"size": "10GiB"}], [{"size": "20GiB"}], [{"grow": "60GiB"}, {"size": "10GiB"}]]
            )
        ),
        datastore=draw(some(st.just("nfs"))),
    )
    vms = [one, two, stated(name="own-3", power=draw(truths), gpus=draw(some(st.just([]))))]
    if draw(truths):
        vms.append(
            {
                "name": "own-4",
                "gpus": "grid_a100-10c",
                "nics": [draw(st.sampled_from(["prod", "vm-network"]))],
            }
        )
    return own_plan(vms=vms)


FLAGS = ("--allow-power-cycle", "--allow-move")
DISKS = {f"disk on {name}": f"[vsan] others/{name}.vmdk" for name in ("own-1", "own-2")}
"""What others attach, and the file that it gets."""
DEVICES = ("nic on own-1", "nic on own-2", "vgpu on own-3")


@st.composite
def changed_cases(draw: st.DrawFn) -> Case:
    flags = tuple(flag for flag in FLAGS if draw(st.integers(0, 3)))
    return Case(
        draw(st.sampled_from(OWN_ESTATES)),
        own_plan(),
        ((draw(changed_plans()), ("apply", "--yes", *flags, "plan.yaml")),),
        tuple(one for one in (*DISKS, *DEVICES) if draw(truths)),
    )


@st.composite
def destroy_cases(draw: st.DrawFn) -> Case:
    words = draw(
        st.sampled_from(
            [
                ("destroy", "--yes", "plan.yaml"),
                ("destroy", "--yes", "--only", "own-1", "plan.yaml"),
                ("apply", "--yes", "--delete", "own-2", "plan.yaml"),
            ]
        )
    )
    plan = own_plan()
    if words[0] == "apply":
        plan = own_plan(vms=[one for one in plan["vms"] if one["name"] != "own-2"])
    disks = tuple(one for one in DISKS if draw(truths))
    named = [f"--delete={DISKS[one]}" for one in disks if not draw(st.integers(0, 2))]
    command = (*words[:-1], *named, words[-1])
    return Case(draw(st.sampled_from(OWN_ESTATES)), own_plan(), ((plan, command),), disks)


# ------------------------------------------------------------------ upkeep


@st.composite
def upkeep_cases(draw: st.DrawFn) -> Case:
    host = draw(st.sampled_from(HOSTS[:2]))
    server = "--server=lab:estate.yaml"
    off = draw(st.lists(st.sampled_from(["erp-1", "web-1", "own-1", "own-2"]), unique=True, max_size=2))
    words = ["drain", host, "--yes", *(["--others"] * draw(truths)), *(f"--power-off={name}" for name in off)]
    back = ["uncordon", f"host:{host}", "--yes", draw(st.sampled_from(("--stay", "--restore")))]
    plan = own_plan()
    return Case(
        draw(st.sampled_from(OWN_ESTATES)),
        own_plan(),
        ((plan, (*words, server)), (plan, (*back, server))),
    )


# --------------------------------------------------------------- ownership


@st.composite
def ownership_cases(draw: st.DrawFn) -> Case:
    name = draw(st.sampled_from(["erp-1", "web-1", "idle-1"]))
    network = "vm-network" if name == "web-1" else "prod"
    imported = {"name": name, "nics": [network], "cpus": draw(st.sampled_from([2, 4])), "memory": "4GiB"}
    plan = own_plan(vms=[*own_plan()["vms"], imported])
    commands: list[tuple[Row, tuple[str, ...]]] = [(plan, ("import", "plan.yaml", "--yes"))]
    if draw(truths):
        commands.append((plan, ("apply", "--yes", "--allow-power-cycle", "plan.yaml")))
    commands.append(
        (plan, ("forget", "plan.yaml", "--yes", *draw(st.sampled_from([(), ("--only", "own-1")]))))
    )
    return Case(draw(st.sampled_from(OWN_ESTATES)), own_plan(), tuple(commands))


# ---------------------------------------------------------------- rollback


@st.composite
def rollback_cases(draw: st.DrawFn) -> Case:
    method = draw(
        st.sampled_from(
            ["ReconfigVM_Task", "PowerOnVM_Task", "RelocateVM_Task", "CloneVM_Task", "ReconfigureDvs_Task"]
        )
    )
    fault = {"method": method, "nth": draw(st.integers(1, 2))}
    plan = draw(changed_plans())
    if draw(truths):
        plan = plan | {"networks": [{"name": "prod", "switch": SHARED, "mtu": 9000}], "allow": ["network"]}
    words = ("apply", "--yes", "--rollback-on-failure", "--allow-power-cycle", "--allow-move", "plan.yaml")
    tampers = tuple(one for one in DEVICES if draw(truths))
    return Case(draw(st.sampled_from(OWN_ESTATES)), own_plan(), ((plan, words),), tampers, fault=fault)


# ------------------------------------------------------------------ guests

IMAGE, OTHER_IMAGE = "nvcr.io/nvidia/pytorch:25.02-py3", "nvcr.io/nvidia/pytorch:25.03-py3"
WORK = ("rank in vgpu-cfg-worker", "serve in notebook", "train.py")
"""Programs: in a container, or in the guest itself with a GPU."""


def training_estate() -> Row:
    """Return an estate whose template is ready for training."""
    made = estate()
    made["templates"][0]["guest"] = {"driver": "580.95.05", "runtimes": ["docker"], "toolkit": True}
    known = {image.partition("/")[2]: {"torch": True} for image in (IMAGE, OTHER_IMAGE)}
    return made | {"internet": {"registries": {"nvcr.io": {"images": known}}}}


def training_plan(**more: Any) -> Row:
    """Return the plan of two VMs that train together."""
    own = {
        "name": "own-{1..2}",
        "memory": "64GiB",
        "gpus": "grid_a100-40c",
        "nics": [{"network": "vm-network", "ip": "pool"}],
        "disks": [{"grow": "100GiB"}],
        "guest": more.pop("guest", {}),
    }
    network = {"name": "vm-network", "subnet": "10.5.0.0/24", "pool": "10.5.0.10-10.5.0.20"}
    training = {"framework": "torchrun", "image": IMAGE, "workers": "own-*"} | more.pop("training", {})
    rows = {"vcenter": "lab:estate.yaml", "defaults": COMMON | {"template": "ubuntu"}, "networks": [network]}
    return rows | {"vms": [own], "training": training} | more


@st.composite
def guest_cases(draw: st.DrawFn) -> Case:
    site = stated(
        registry_mirrors=draw(some(st.just({"docker.io": "https://mirror.example.com"}))),
        apt=draw(some(st.just("https://apt.example.com/ubuntu"))),
    )
    guest = stated(
        shared_memory=draw(some(st.just("8GiB"))),
        users=draw(some(st.just([{"name": "anna", "keys": [PUBLIC_KEY]}]))),
    )
    training = stated(
        image=draw(some(st.just(OTHER_IMAGE))), environment=draw(some(st.just({"NCCL_DEBUG": "INFO"})))
    )
    plan = training_plan(guest=guest, training=training, **({"site": site} if site else {}))
    allow = draw(st.sampled_from([(), ("--allow=training",)]))
    work = tuple(f"{one} on own-{number}" for one in WORK for number in (1, 2) if not draw(st.integers(0, 3)))
    return Case(training_estate(), training_plan(), ((plan, ("apply", "--yes", *allow, "plan.yaml")),), work)
