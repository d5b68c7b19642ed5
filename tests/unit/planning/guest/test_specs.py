"""What each guest of a plan is given, module by module."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.desired_plans import estate, plan_for, vm
from tests.unit.planning.guest.trainings import (
    BY_DHCP,
    BY_POOL,
    IMAGE,
    MANAGEMENT,
    PARAVIRTUAL,
    ROCE,
    VIRTUAL,
    WHOLE,
    guest,
    head,
    pair,
    specs_of,
    training,
    worker,
)
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.model.guests.downloads import MONITORING_IMAGES, PINS
from vgpu_cfg.model.guests.guest import GuestSpec
from vgpu_cfg.model.guests.modules import (
    MODULE_ORDER,
    DriverModule,
    HostEntry,
    HostsModule,
    NcclModule,
    NetworkModule,
    NicFirmwareModule,
    OfedModule,
    RoceModule,
    SharedFolderModule,
    TrafficModule,
    UsersModule,
)
from vgpu_cfg.model.guests.training_modules import (
    ImageModule,
    LauncherModule,
    MeshPeer,
    MonitoringModule,
    RankModule,
    RegistryModule,
    ScrapeTarget,
    SshMeshModule,
    TrainWorker,
    WorkerModule,
)
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.planning.addresses import AddressBook
from vgpu_cfg.planning.guests.drivers import GuestDrivers
from vgpu_cfg.planning.guests.specs import guest_specs


def kinds(spec: GuestSpec) -> list[str]:
    return [module.kind for module in spec.modules]


def specs(*vms: Any, **more: Any) -> dict[str, GuestSpec]:
    return specs_of(training(*vms, **more), estate())


def test_a_guest_without_training_gets_only_what_applies() -> None:
    plain = vm("plain", nics=(BY_POOL,), guest=guest("plain", ofed=None, runtime=None))
    with_gpu = vm("gpu", "grid_a100-40c", nics=(), guest=guest("gpu", ofed=None))
    bare = vm("bare")
    found = specs_of(plan_for(plain, with_gpu, bare, networks=(MANAGEMENT,)), estate())
    assert set(found) == {"plain", "gpu"}
    assert kinds(found["plain"]) == ["host-name", "users", "network"]
    assert kinds(found["gpu"]) == [
        "host-name",
        "users",
        "nouveau",
        "driver",
        "containers",
        "toolkit",
        "licence",
    ]
    assert found["plain"].addresses == ("10.0.0.11",)


def test_the_guides_pair_gets_everything_in_the_order_in_which_it_is_staged() -> None:
    found = specs_of(pair(registry={"server": "nvcr.io", "password": "ngc"}), estate())
    first, second = found["hvd-01"], found["hvd-02"]
    assert kinds(first) == [
        "host-name",
        "users",
        "hosts",
        "network",
        "nouveau",
        "ofed",
        "driver",
        "peermem",
        "roce",
        "nccl",
        "limits",
        "containers",
        "toolkit",
        "licence",
        "ssh-mesh",
        "registry",
        "image",
        "worker",
        "rank",
        "launcher",
        "nic-firmware",
    ]
    assert first.carried == first.public == tuple(kinds(first)[:13])
    assert kinds(first) == sorted(kinds(first), key=MODULE_ORDER.index)
    assert kinds(second) == [kind for kind in kinds(first) if kind != "launcher"]
    assert set(first.secrets) == {"plan-keys", "lic", "ngc"}


def test_all_workers_are_known_to_each_by_their_address_on_the_training_network() -> None:
    found = specs_of(pair(), estate())
    entries = (
        HostEntry(address="10.111.0.11", names=("hvd-01",)),
        HostEntry(address="10.111.0.12", names=("hvd-02",)),
    )
    assert {found[name].module("hosts") for name in found} == {HostsModule(entries=entries)}
    assert found["hvd-02"].module("ssh-mesh") == SshMeshModule(
        vm="hvd-02",
        peers=(
            MeshPeer(vm="hvd-01", names=("hvd-01",), addresses=("10.111.0.11",)),
            MeshPeer(vm="hvd-02", names=("hvd-02",), addresses=("10.111.0.12",)),
        ),
    )


def test_a_full_name_is_the_canonical_one() -> None:
    found = specs(worker("w-1", BY_POOL, guest={"host_name": "alpha", "domain": "lab.example"}))
    hosts = found["w-1"].module("hosts")
    assert isinstance(hosts, HostsModule)
    assert hosts.entries[0].names == ("alpha.lab.example", "alpha", "w-1")


def test_netplan_is_told_of_every_nic_that_the_plan_file_speaks_of() -> None:
    silent = {"network": "vm-network"}
    found = specs(worker("w-1", BY_DHCP, WHOLE, silent | {"mac": "00:50:56:00:00:09"}))
    network = found["w-1"].module("network")
    assert isinstance(network, NetworkModule)
    by_roce = network.nics[1]
    assert [nic.dhcp for nic in network.nics] == [True, False]
    assert by_roce == GuestNic(driver="mlx5_core", addresses=("10.111.0.11/24",), mtu=9000, optional=True)


@pytest.mark.parametrize(
    ("nic", "owns_port", "has_firmware", "peermem", "is_direct"),
    [
        (WHOLE, True, True, True, True),
        (VIRTUAL, False, False, True, True),
        (PARAVIRTUAL, False, False, False, False),
        (WHOLE | {"rdma": "host"}, True, False, False, False),
    ],
)
def test_one_word_on_the_nic_decides_what_the_guest_does(
    nic: dict[str, Any], *, owns_port: bool, has_firmware: bool, peermem: bool, is_direct: bool
) -> None:
    other = BY_DHCP | ({"mac": "00:50:56:00:00:01"} if nic is PARAVIRTUAL else {})
    found = specs(worker("w-1", other, nic), worker("w-2", other, nic))["w-1"]
    roce, ofed = found.module("roce"), found.module("ofed")
    assert isinstance(roce, RoceModule)
    assert isinstance(ofed, OfedModule)
    assert (roce.owns_port, found.module("peermem") is not None) == (owns_port, peermem)
    firmware = found.module("nic-firmware")
    assert (firmware is not None) is has_firmware
    if isinstance(firmware, NicFirmwareModule):
        assert firmware.parameters == {"ATS_ENABLED": "True"}
    settings = found.module("nccl")
    assert isinstance(settings, NcclModule)
    assert (settings.traffic_class, settings.is_direct) == (106, is_direct)


def test_a_stack_that_the_plan_file_leaves_is_left() -> None:
    assert specs(worker("w-1", guest={"ofed": None}))["w-1"].module("ofed") is None


def test_the_users_environment_is_what_the_plan_starts_ranks_with() -> None:
    environment = {"NCCL_IB_TC": "0", "NCCL_DEBUG": "INFO"}
    rank = specs_of(pair(environment=environment, roce={"dscp": 34}), estate())["hvd-02"].module("rank")
    assert isinstance(rank, RankModule)
    assert rank.environment == environment


def test_the_launcher_counts_the_gpus_of_each_worker() -> None:
    two = {"gpus": ({"profile": ("grid_a100-40c",)},) * 2}
    found = specs(worker("w-1", BY_POOL), worker("w-2", BY_POOL, **two))
    launcher = found["w-1"].module("launcher")
    assert isinstance(launcher, LauncherModule)
    assert launcher.workers == (
        TrainWorker(name="w-1", address="10.0.0.11", slots=1),
        TrainWorker(name="w-2", address="10.0.0.12", slots=2),
    )
    assert launcher.runs_work
    stated = specs(worker("w-1", BY_POOL), slots=3)["w-1"].module("launcher")
    assert isinstance(stated, LauncherModule)
    assert [one.slots for one in stated.workers] == [3]


def with_digests(*names: str) -> dict[str, str]:
    return {name: f"{MONITORING_IMAGES[name]}@{PINS[MONITORING_IMAGES[name]]}" for name in names}


def test_a_head_starts_the_training_shares_its_folder_and_reads_the_metrics() -> None:
    more = {
        "head": "z-head",
        "shared_folder": {"path": "/srv/data"},
        "monitoring": {"grafana_password": "graf"},
        "mounts": ("/mnt/x:/x",),
    }
    found = specs(worker("w-1", BY_POOL), worker("w-2", BY_POOL), head(), **more)
    of_head, of_worker = found["z-head"], found["w-1"]
    launcher = of_head.module("launcher")
    assert isinstance(launcher, LauncherModule)
    assert not launcher.runs_work
    assert of_worker.module("launcher") is None
    assert of_head.module("shared-folder") == SharedFolderModule(
        role="server", path="/srv/data", clients=("10.0.0.0/24",)
    )
    assert of_worker.module("shared-folder") == SharedFolderModule(
        role="client", path="/srv/data", server="10.0.0.13"
    )
    assert of_head.module("monitoring") == MonitoringModule(
        role="server",
        targets=(
            ScrapeTarget(vm="w-1", address="10.0.0.11", port=9400),
            ScrapeTarget(vm="w-2", address="10.0.0.12", port=9400),
        ),
        images=with_digests("prometheus", "grafana"),
        grafana_password="graf",
    )
    exporters = with_digests("node-exporter", "dcgm-exporter")
    assert of_worker.module("monitoring") == MonitoringModule(role="exporter", images=exporters)
    work = of_worker.module("worker")
    assert isinstance(work, WorkerModule)
    assert (work.gpus, work.rdma, work.mounts) == (True, False, ("/mnt/x:/x", "/srv/data:/srv/data"))
    idle = of_head.module("worker")
    assert isinstance(idle, WorkerModule)
    assert not idle.gpus
    assert of_head.module("driver") is None


def test_where_the_head_is_not_on_the_training_network_all_meet_where_it_is() -> None:
    found = specs(worker("w-1", BY_POOL, WHOLE), head(), head="z-head", rdma_network="roce-111")
    hosts = found["z-head"].module("hosts")
    assert isinstance(hosts, HostsModule)
    assert [one.address for one in hosts.entries] == ["10.0.0.11", "10.0.0.12"]
    launcher = found["z-head"].module("launcher")
    assert isinstance(launcher, LauncherModule)
    assert [nic.driver for nic in launcher.nics] == ["mlx5_core"]
    # What the workers' processes say to each other goes over their own network all the same.
    assert [one.address for one in launcher.workers] == ["10.111.0.11"]


def test_without_a_network_of_its_own_training_goes_over_the_first_that_workers_share() -> None:
    found = specs(worker("w-1", WHOLE, BY_POOL), worker("w-2", WHOLE, BY_POOL), head(), head="z-head")
    launcher = found["z-head"].module("launcher")
    assert isinstance(launcher, LauncherModule)
    assert [one.address for one in launcher.workers] == ["10.111.0.11", "10.111.0.12"]


def test_an_address_that_dhcp_gives_is_not_made_up() -> None:
    leased = WHOLE | {"ip": "dhcp"}
    found = specs(worker("w-1", BY_POOL, leased), worker("w-2", BY_POOL, leased), rdma_network="roce-111")
    launcher = found["w-1"].module("launcher")
    assert isinstance(launcher, LauncherModule)
    assert [one.address for one in launcher.workers] == ["", ""]


def test_an_archive_needs_no_login_at_the_registry() -> None:
    more = {"registry": {"server": "nvcr.io", "password": "ngc"}}
    pulled = specs(worker("w-1", BY_POOL), **more)["w-1"]
    loaded = specs(worker("w-1", BY_POOL), archive="/srv/tf.tar", **more)["w-1"]
    assert pulled.module("registry") == RegistryModule(server="nvcr.io", password="ngc")
    assert pulled.module("image") == ImageModule(image=IMAGE, server="nvcr.io")
    assert loaded.module("registry") is None
    assert loaded.module("image") == ImageModule(image=IMAGE, archive="/srv/tf.tar")


def test_traffic_is_shaped_on_the_management_nic_only_where_it_is_asked_for() -> None:
    shaped = specs_of(pair(traffic={"link": 10_000, "control": 200}, port=2223), estate())
    module = shaped["hvd-01"].module("traffic")
    assert isinstance(module, TrafficModule)
    assert (module.nic.driver, module.control_ports) == ("vmxnet3", (22, 2223))
    assert specs_of(pair(), estate())["hvd-01"].module("traffic") is None


@pytest.mark.parametrize(("login", "user"), [({}, "vgpu-cfg"), ({"user": "ubuntu", "key": "k"}, "")])
def test_an_account_of_its_own_is_made_where_no_login_is_named(login: dict[str, str], user: str) -> None:
    users = specs(worker("w-1", guest={"login": login}))["w-1"].module("users")
    assert isinstance(users, UsersModule)
    assert users.machine_user == user


def test_a_worker_that_is_added_changes_only_what_names_the_others() -> None:
    before = specs_of(pair(), estate())
    third = training(worker("hvd-01"), worker("hvd-02"), worker("hvd-03"), rdma_network="roce-111")
    after = specs_of(third, estate())
    changed = {
        module.kind
        for module in after["hvd-01"].modules
        if module.digest != getattr(before["hvd-01"].module(module.kind), "digest", "")
    }
    assert changed == {"hosts", "ssh-mesh", "launcher"}


def test_the_hosts_driver_is_checked_and_brings_no_other_one() -> None:
    desired = pair()
    addresses = AddressBook(desired, estate()).nics_of_all()
    one = guest_specs(desired, addresses, {"hvd-01": GuestDrivers(("580", "570"), ("550",))})[
        "hvd-01"
    ].module("driver")
    other = guest_specs(desired, addresses, {"hvd-01": GuestDrivers(("570", "550"))})["hvd-01"].module(
        "driver"
    )
    assert one is not None
    assert other is not None
    assert one != other
    assert one.digest == other.digest


def test_a_gpu_that_is_handed_through_whole_takes_any_driver() -> None:
    desired = pair()
    whole = GpuEntry.model_validate({"pin": "0000:21:00.0"})
    handed = [vm.model_copy(update={"gpus": (whole,)}) for vm in desired.vms]
    desired = desired.model_copy(update={"vms": tuple(handed)})
    takes = {"hvd-01": GuestDrivers(("580", "570"), ("550",))}
    driver = guest_specs(desired, AddressBook(desired, estate()).nics_of_all(), takes)["hvd-01"].get(
        DriverModule
    )
    assert driver is not None
    assert (driver.branches, driver.refused) == ((), ())


# ---------------------------------------------------------------- NCCL's settings


def nccl(desired: DesiredPlan, name: str = "hvd-01") -> NcclModule | None:
    return specs_of(desired, estate())[name].get(NcclModule)


def test_a_worker_is_told_by_its_nic_of_the_training_network() -> None:
    found = nccl(pair())
    assert found is not None
    assert (found.address, found.traffic_class, found.is_direct) == ("10.111.0.11", 106, True)
    assert [nic.driver or nic.mac for nic in found.nics] == ["mlx5_core"]


def test_nics_that_shall_not_reach_gpus() -> None:
    found = nccl(training(worker("hvd-01", BY_DHCP, WHOLE | {"rdma": "host"}), rdma_network="roce-111"))
    assert found is not None
    assert not found.is_direct


def test_the_traffic_class_follows_the_plans_dscp() -> None:
    found = nccl(pair(roce={"dscp": 10, "priority": 1}))
    assert found is not None
    assert found.traffic_class == 42


def test_without_rdma_only_the_interface_is_told() -> None:
    found = nccl(training(worker("hvd-01", BY_POOL)))
    assert found is not None
    assert (found.address, found.traffic_class, found.is_direct) == ("10.0.0.11", None, False)


def test_a_head_without_work_has_no_settings() -> None:
    assert nccl(training(worker("hvd-01"), head(), head="z-head"), "z-head") is None


def test_a_vm_that_trains_with_nobody_has_settings_for_its_rdma() -> None:
    alone = plan_for(worker("a"), networks=(MANAGEMENT, ROCE))
    found = specs_of(alone, estate())["a"].get(NcclModule)
    assert found is not None
    assert (found.address, found.traffic_class) == ("10.111.0.11", 106)
    bare = plan_for(worker("a", BY_POOL), networks=(MANAGEMENT, ROCE))
    assert specs_of(bare, estate())["a"].get(NcclModule) is None
