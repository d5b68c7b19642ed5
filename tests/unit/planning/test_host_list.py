"""Who is handed over to other tools, and by which address each is reached."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.desired import (
    DesiredFunction,
    DesiredGuest,
    DesiredLicence,
    DesiredNetwork,
    DesiredNic,
    DesiredPlan,
    DesiredTraining,
    DesiredVm,
    TemplateSource,
)
from vgpu_cfg.model.host_list import HostList, ListedHostGpu
from vgpu_cfg.model.observed.inventory import Cluster, Host, Inventory, VCenter
from vgpu_cfg.model.observed.vm import GuestNicSeen, GuestSeen, OwnerMark, VgpuDevice, Vm, VmDetail
from vgpu_cfg.model.plan_file import DeviceEntry, GpuEntry, LoginEntry, PackageEntry
from vgpu_cfg.model.plan_values import SecretReference
from vgpu_cfg.model.vgpu import VgpuProfile
from vgpu_cfg.planning.guests.host_list import make_host_list

LAN = DesiredNic(network="vm-network", ip="dhcp")
ROCE = DesiredNic(
    network="roce-111", function=DesiredFunction(kind="passthrough"), ip="pool", rdma="gpudirect"
)
NETWORKS = (
    DesiredNetwork(name="vm-network"),
    DesiredNetwork(
        name="roce-111", is_physical=True, subnet="10.111.0.0/24", pool=("10.111.0.11", "10.111.0.60")
    ),
)
A100 = GpuEntry(profile=(VgpuProfile.parse("grid_a100-40c"),))
EITHER = GpuEntry(profile=(VgpuProfile.parse("nvidia_l40s-48c"), VgpuProfile.parse("grid_a100-40c")))


def vm(
    name: str,
    *nics: DesiredNic,
    gpus: tuple[GpuEntry, ...] = (A100,),
    guest: DesiredGuest | None = None,
    cpus: int | None = 16,
) -> DesiredVm:
    return DesiredVm(
        name=name,
        line=name,
        source=TemplateSource(path_or_name="t"),
        gpus=gpus,
        nics=nics or (LAN, ROCE),
        guest=guest,
        cpus=cpus,
    )


def seen(name: str, guest: GuestSeen | None = None, *profiles: str, plan: str = "p") -> Vm:
    vgpus = tuple(VgpuDevice(key=13000 + n, profile=one) for n, one in enumerate(profiles))
    detail = VmDetail(guest=guest, vgpus=vgpus, cpus=8)
    return Vm(moid=f"vm-{name}", name=name, mark=OwnerMark(plan=plan, vm=name), detail=detail)


def exported(
    *vms: DesiredVm,
    observed: tuple[Vm, ...] = (),
    training: DesiredTraining | None = None,
    secrets: dict[str, SecretReference] | None = None,
) -> HostList:
    plan = DesiredPlan(
        name="p", vcenter="x", networks=NETWORKS, vms=vms, training=training, secrets=secrets or {}
    )
    inventory = Inventory(
        vcenter=VCenter(address="lab"), read_at=datetime(2026, 11, 22, tzinfo=UTC), vms=observed
    )
    return make_host_list(plan, inventory, load_catalog())


def guest(name: str, **more: object) -> DesiredGuest:
    return DesiredGuest.model_validate({"host_name": name, **more})


def test_the_workers_of_a_training_are_handed_over_in_their_order_and_their_head_apart() -> None:
    found = exported(
        vm("b", guest=guest("b")),
        vm("a", gpus=(A100, A100), guest=guest("node-a", domain="lab.example")),
        vm("head", LAN, gpus=(), guest=guest("head")),
        vm("other", guest=guest("other")),
        training=DesiredTraining(
            workers=("b", "a"), head="head", rdma_network="roce-111", image="x", port=2022
        ),
    )
    assert [(host.vm, host.full_name, host.slots) for host in found.workers] == [
        ("b", "b", 1),
        ("a", "node-a.lab.example", 2),
    ]
    assert found.head is not None
    assert (found.head.vm, found.head.slots, found.head.gpus) == ("head", 0, ())
    assert (found.processes, found.mesh_port) == (3, 2022)
    assert found.absent == ("head", "b", "a")


def test_training_goes_over_its_network_and_logins_over_the_other() -> None:
    shown = GuestSeen(
        address="10.111.0.11",
        nics=(
            GuestNicSeen(mac="b8:59:9f:00:00:01", addresses=("10.111.0.11/24",), network=""),
            GuestNicSeen(
                mac="00:50:56:00:00:01",
                addresses=("fe80::1/64", "2001:db8::5/64", "192.0.2.7/24"),
                network="vm-network",
            ),
        ),
    )
    found = exported(
        vm("a", guest=guest("a")),
        observed=(seen("a", shown),),
        training=DesiredTraining(workers=("a",), rdma_network="roce-111"),
    )
    (host,) = found.workers
    assert (host.address, host.training_address) == ("192.0.2.7", "10.111.0.11")
    assert found.absent == ()
    assert found.mesh_port is None


def test_an_address_of_the_plan_goes_before_one_that_is_shown() -> None:
    static = DesiredNic(network="vm-network", ip="192.0.2.50/24")
    shown = GuestSeen(address="192.0.2.99")
    (host,) = exported(vm("a", static, guest=guest("a")), observed=(seen("a", shown),)).workers
    assert host.address == "192.0.2.50"


@pytest.mark.parametrize("shown", ["fe80::1", "127.0.0.1", "::", "", "nonsense"])
def test_an_address_that_nobody_reaches_is_none(shown: str) -> None:
    (host,) = exported(vm("a", LAN), observed=(seen("a", GuestSeen(address=shown)),)).workers
    assert host.address == ""


def test_without_a_training_it_is_every_vm_with_gpus() -> None:
    found = exported(vm("a", LAN), vm("b", LAN, gpus=()), vm("c", LAN, gpus=(A100, A100)))
    assert [(host.vm, host.slots) for host in found.workers] == [("a", 1), ("c", 2)]
    assert found.head is None


def test_a_guest_of_which_the_plan_says_nothing_is_called_as_it_calls_itself() -> None:
    shown = GuestSeen(host_name="Node7.lab.example", address="192.0.2.7")
    first, second, third = exported(
        vm("A b", LAN),
        vm("C d", LAN),
        vm("_._", LAN),
        observed=(seen("A b", shown), seen("C d", GuestSeen(host_name="not a $(name)"))),
    ).workers
    assert (first.host_name, first.domain) == ("Node7", "lab.example")
    assert (second.host_name, third.host_name) == ("c-d", "")


def test_a_vm_of_others_is_not_taken_for_the_plans() -> None:
    found = exported(vm("a", LAN), observed=(seen("a", GuestSeen(address="192.0.2.7"), plan="other"),))
    assert (found.workers[0].address, found.absent) == ("", ("a",))


def test_of_profiles_to_choose_from_the_one_that_the_vm_has_is_told() -> None:
    found = exported(
        vm("a", LAN, gpus=(EITHER, EITHER)), observed=(seen("a", None, "grid_a100-40c", "nvidia_l40s-48c"),)
    )
    assert found.workers[0].gpus == (
        ListedHostGpu(profile="grid_a100-40c", board=found.workers[0].gpus[0].board, memory_mib=40960),
        ListedHostGpu(profile="nvidia_l40s-48c", board=found.workers[0].gpus[1].board, memory_mib=49152),
    )
    assert exported(vm("a", LAN, gpus=(EITHER,))).workers[0].gpus[0].profile == "nvidia_l40s-48c"


def test_of_gpu_memory_the_profile_that_the_vm_has_is_told() -> None:
    wanted = GpuEntry(memory=10240)
    (host,) = exported(vm("a", LAN, gpus=(wanted,)), observed=(seen("a", None, "grid_a100-20c"),)).workers
    assert (host.gpus[0].profile, host.gpus[0].memory_mib) == ("grid_a100-20c", 20480)
    (host,) = exported(vm("a", LAN, gpus=(wanted,)), observed=(seen("a", None, "grid_a100-8c"),)).workers
    assert host.gpus[0].profile == ""


def test_a_whole_gpu_is_told_by_its_model() -> None:
    whole = GpuEntry(device=DeviceEntry(model="A100", label="a100-pt"))
    (host,) = exported(vm("a", LAN, gpus=(whole,), cpus=None), observed=(seen("a"),)).workers
    assert (host.gpus, host.gpu_kinds, host.cpus) == ((ListedHostGpu(board="A100"),), {"A100": 1}, 8)


def test_the_network_of_the_training_is_no_way_in_for_a_vm_that_has_another() -> None:
    training = DesiredTraining(workers=("a", "b"), rdma_network="roce-111")
    first, second = exported(
        vm("a", LAN, ROCE, guest=guest("a")), vm("b", ROCE, guest=guest("b")), training=training
    ).workers
    assert (first.address, first.training_address) == ("", "10.111.0.11")
    assert second.address == second.training_address == "10.111.0.12"


def test_where_a_vm_is_and_what_it_has_is_told_of_one_that_exists() -> None:
    there = seen("a").model_copy(update={"host_moid": "host-1"})
    plan = DesiredPlan(name="p", vcenter="x", vms=(vm("a", LAN), vm("b", LAN)))
    inventory = Inventory(
        vcenter=VCenter(address="lab"),
        read_at=datetime(2026, 11, 22, tzinfo=UTC),
        vms=(there,),
        hosts=(Host(moid="host-1", name="esx-01", cluster_moid="c-1"),),
        clusters=(Cluster(moid="c-1", name="gpu"),),
    )
    first, second = make_host_list(plan, inventory, load_catalog()).workers
    assert (first.exists, first.esxi_host, first.cluster) == (True, "esx-01", "gpu")
    assert (second.exists, second.esxi_host, second.cluster) == (False, "", "")
    assert (first.cores_per_socket, second.cores_per_socket) == (1, None)


def test_the_cluster_of_a_vm_to_come_is_the_only_one_that_the_plan_names() -> None:
    first, second = exported(
        vm("a", LAN).model_copy(update={"clusters": ("gpu",)}),
        vm("b", LAN).model_copy(update={"clusters": ("gpu", "more")}),
    ).workers
    assert (first.cluster, second.cluster) == ("gpu", "")


@pytest.mark.parametrize(
    ("stated", "is_there"),
    [
        (None, True),
        ({"driver": PackageEntry()}, True),
        ({"licence": DesiredLicence(token="lic")}, True),
        ({}, False),
    ],
)
def test_a_driver_is_in_the_guest_but_where_the_plan_leaves_it_out(
    stated: dict[str, object] | None, is_there: bool
) -> None:
    found = exported(vm("a", LAN, guest=None if stated is None else guest("a", **stated)))
    assert found.workers[0].driver_in_guest is is_there


def test_a_login_is_the_plans_and_its_key_a_file_or_nothing() -> None:
    secrets = {
        "id": SecretReference(kind="file", value="/etc/id"),
        "ring": SecretReference(kind="keyring", value="id"),
    }
    first, second, third = exported(
        vm("a", LAN, guest=guest("a", login=LoginEntry(user="ubuntu", key="id", port=2200))),
        vm("b", LAN, guest=guest("b", login=LoginEntry(user="ubuntu", key="ring"))),
        vm("c", LAN, guest=guest("c")),
        secrets=secrets,
    ).workers
    assert (first.user, first.port, first.key_file) == ("ubuntu", 2200, "/etc/id")
    assert (second.user, second.key_file) == ("ubuntu", "")
    assert (third.user, third.port, third.key_file) == ("vgpu-cfg", 22, "")
