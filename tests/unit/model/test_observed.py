"""What is read of VMs, hosts and clusters, and what its parts say of themselves."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from vgpu_cfg.model.identity import PlanIdentity, is_id, new_id
from vgpu_cfg.model.observed.cordon import (
    HOME_ATTRIBUTE,
    Cordon,
    Home,
    MaintenanceEntry,
    free_attribute,
    home_of,
    parse_cordons,
)
from vgpu_cfg.model.observed.drs import ClusterTies
from vgpu_cfg.model.observed.gpu_use import GpuUse, GraphicsType, PastUse, UseReading
from vgpu_cfg.model.observed.host_facts import (
    HostFacts,
    HostImage,
    HostMark,
    RememberedValue,
    attribute_of_row,
    device_digest,
    is_same_boot,
    not_expired,
    parse_remembered,
    recovered_mark,
    remembered_text,
    value_digest,
    values_of_row,
)
from vgpu_cfg.model.observed.inventory import (
    Cluster,
    Connection,
    DeviceGroupInfo,
    DirectPathCapacity,
    Gpu,
    Host,
    Inventory,
    PciDevice,
    VCenter,
)
from vgpu_cfg.model.observed.own_items import TagCategory
from vgpu_cfg.model.observed.past import PastScope
from vgpu_cfg.model.observed.vm import (
    Manager,
    OwnerMark,
    PassthroughDevice,
    VirtualDisk,
    Vm,
    VmDetail,
    any_text,
)

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
ID = "12345678-1234-1234-1234-123456789abc"
UUID = "50010203-1234-1234-1234-123456789abc"
NAMED = OwnerMark(plan="p", vm="a")
WHOLE = OwnerMark(
    plan="p",
    vm="a",
    id=ID,
    instance_uuid=UUID,
    made_by="DOMAIN\\Jane Doe",
    made_at=NOON,
    is_imported=True,
    keys=("guest", "a,b c"),
    disks=("6000c29a", "6000c29b"),
    new_disks=(10240,),
    nics=("00:50:56:00:00:01",),
    new_nics=2,
    other_nics=("00:50:56:00:00:02",),
    pci=("l40s-8c", "l40s-8c", "0000:21:00.0, fixed"),
)


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        (NAMED, "p"),
        (
            WHOLE,
            f"p id={ID} uuid={UUID} at=2026-11-30T12:00:00Z imported=yes keys=guest,a%2Cb%20c "
            "disks=6000c29a,6000c29b,+10240 nics=005056000001,+2,-005056000002 "
            "pci=0000:21:00.0%2C%20fixed,2*l40s-8c by=DOMAIN\\Jane Doe",
        ),
        (NAMED.model_copy(update={"disks": (), "nics": (), "pci": ()}), "p disks=- nics=- pci=-"),
        (NAMED.model_copy(update={"new_disks": (1,)}), "p disks=+1"),
        (OwnerMark(plan="p", vm="a", id=ID, instance_uuid=UUID), f"p id={ID} uuid={UUID}"),
    ],
)
def test_an_owner_mark_reads_back(mark: OwnerMark, text: str) -> None:
    assert mark.text == text
    assert mark.pairs == {"vgpu_cfg.plan": text, "vgpu_cfg.vm": "a"}
    found = OwnerMark.parse(text, "a")
    assert found.text == text
    if mark.pci:
        mark = mark.model_copy(update={"pci": tuple(sorted(mark.pci))})
    assert found == mark


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"p id={ID}", {}),
        (f"p id=x uuid={UUID} by=me", {}),
        (f"p id={ID.upper()} uuid={UUID.upper()} at=never", {"id": ID, "instance_uuid": UUID}),
        (
            "p disks=+x,-y,AB,+7 nics=zz,+123,-zz pci=2*,x",
            {"disks": ("ab",), "new_disks": (7,), "nics": (), "pci": ("x",)},
        ),
        (
            "p nics=-005056000001,00505600000A,+3,+4",
            {"nics": ("00:50:56:00:00:0a",), "new_nics": 7, "other_nics": ("00:50:56:00:00:01",)},
        ),
    ],
)
def test_an_edited_mark_says_what_is_left(text: str, told: dict[str, object]) -> None:
    assert OwnerMark.parse(text, "a") == NAMED.model_copy(update=told)


def test_a_mark_keeps_the_devices_that_a_new_one_does_not_name() -> None:
    def naming(**asked: object) -> OwnerMark:
        return NAMED.naming(NAMED.model_copy(update=asked), WHOLE)

    kept = NAMED.naming(NAMED, WHOLE)
    assert (kept.disks, kept.new_disks, kept.pci) == (WHOLE.disks, WHOLE.new_disks, WHOLE.pci)
    assert (kept.nics, kept.new_nics, kept.other_nics) == (WHOLE.nics, 2, WHOLE.other_nics)
    assert (naming(disks=()).disks, naming(disks=()).new_disks) == ((), ())
    assert (naming(new_disks=(5,)).disks, naming(new_disks=(5,)).new_disks) == (None, (5,))
    assert (naming(nics=("x",)).other_nics, naming(nics=("x",)).pci) == ((), WHOLE.pci)
    assert NAMED.naming(WHOLE, None).pci == WHOLE.pci
    assert NAMED.naming(NAMED, None) == NAMED


@pytest.mark.parametrize(
    ("mark", "vm", "is_of", "is_copy"),
    [
        (WHOLE, {"instance_uuid": UUID.upper()}, True, False),
        (WHOLE, {"instance_uuid": "other"}, False, True),
        (WHOLE, {"instance_uuid": UUID, "is_template": True}, False, False),
        (WHOLE.model_copy(update={"id": "x"}), {"instance_uuid": UUID}, False, False),
        (NAMED, {}, True, False),
        (NAMED.model_copy(update={"plan": "q"}), {}, False, False),
        (None, {}, False, False),
    ],
)
def test_a_vm_is_of_the_plan_of_its_mark(mark: OwnerMark | None, vm: Any, is_of: bool, is_copy: bool) -> None:
    found = Vm(moid="vm-1", name="a", mark=mark, **vm)
    assert (found.is_of(PlanIdentity(name="p", id=ID)), found.is_copy) == (is_of, is_copy)


def test_ids() -> None:
    assert [is_id(text) for text in (ID, ID.upper(), new_id(), f"{ID}0", "", "x")] == [True] * 3 + [False] * 3


@pytest.mark.parametrize(
    ("allowed", "sub_ids", "label", "text"),
    [
        (((0x10DE, 0x20F1),), (), None, "any 10de:20f1"),
        (
            ((0x10DE, 0x20F1),),
            ((0x10DE, None, None),),
            "fast",
            "any 10de:20f1 (subsystem 10de:any) with label fast",
        ),
        (
            ((1, 2), (3, 4)),
            ((None, 5, 6),),
            "",
            "any 0001:0002 (subsystem any:0005) (revision 06), 0003:0004",
        ),
        (((1, 2),), ((None, None, 0),), None, "any 0001:0002 (revision 00)"),
    ],
)
def test_a_dynamic_device_in_words(allowed: Any, sub_ids: Any, label: str | None, text: str) -> None:
    assert any_text(allowed, sub_ids, label) == f"passthrough of {text}"
    device = PassthroughDevice(key=1, allowed=allowed, sub_ids=sub_ids, label=label)
    assert (device.text, device.is_fixed) == (f"passthrough of {text}", False)
    fixed = device.model_copy(update={"pci_id": "0000:21:00.0"})
    assert (fixed.text, fixed.is_fixed) == ("passthrough 0000:21:00.0", True)


DETAIL = VmDetail.model_validate(
    {
        "memory_mib": 100,
        "memory_reservation_mib": 40,
        "device_groups": {1: "peers", 2: "mixed", 3: "lone", 4: "empty"},
        "vgpus": [
            {"key": key, "profile": "x", "group_key": group}
            for key, group in ((1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, None))
        ],
        "passthrough": [{"key": 7, "pci_id": "a", "group_key": 2}, {"key": 8, "pci_id": "b", "is_nic": True}],
        "dvx": [{"key": 9, "device_class": "d", "group_key": 2}],
        "nics": [
            {"key": 10, "kind": "sriov", "group_key": 2, "network": "pg-1"},
            {"key": 11, "kind": "vmxnet3", "dvx_class": "d", "network": "net"},
            {"key": 12, "kind": "vmxnet3"},
        ],
    }
)


def keys(detail: VmDetail) -> list[int]:
    devices: list[Any] = [*detail.vgpus, *detail.passthrough, *detail.dvx, *detail.nics]
    return [one.key for one in devices]


def test_the_devices_of_a_vm() -> None:
    assert [one.key for one in DETAIL.passthrough_gpus] == [7]
    assert [one.key for one in DETAIL.passthrough_nics] == [8]
    assert [one.key for one in DETAIL.own_nics] == [10, 12]
    assert [one.key for one in DETAIL.other_members(2)] == [7, 9, 10]
    assert DETAIL.mixed_groups == (2, 3, 4)
    without = DETAIL.without_groups({2})
    assert (keys(without), sorted(without.device_groups)) == ([1, 2, 5, 6, 8, 11, 12], [1, 3, 4])
    fewer = DETAIL.without_devices({1, 8, 12})
    assert (keys(fewer), sorted(fewer.device_groups)) == ([3, 4, 5, 6, 7, 9, 10, 11], [2, 3, 4])
    assert keys(DETAIL.without_devices({6})) == [1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12]


@pytest.mark.parametrize(("locked", "reserved"), [(False, 40), (True, 100)])
def test_memory_that_is_reserved(locked: bool, reserved: int) -> None:
    assert DETAIL.model_copy(update={"memory_reservation_locked": locked}).reserved_mib == reserved


def test_identities_and_managers() -> None:
    disk = {"key": 2000, "capacity_mib": 1, "controller_key": 1}
    told = [{}, {"file": "f"}, {"file": "f", "uuid": "u"}]
    assert [VirtualDisk.model_validate({**disk, **one}).identity for one in told] == ["2000", "f", "u"]
    managers = [Manager(product="VM Operator", group="namespace ml"), Manager(product="Horizon")]
    assert [(one.words, one.owner) for one in managers] == [
        ("VM Operator, namespace ml", "namespace ml"),
        ("Horizon", "Horizon"),
    ]


def pci(class_id: int = 0x302, vendor_id: int = 0x10DE, **more: Any) -> PciDevice:
    return PciDevice(pci_id="0000:21:00.0", vendor_id=vendor_id, device_id=1, class_id=class_id, **more)


@pytest.mark.parametrize(
    ("device", "kinds"),
    [
        (pci(0x302), {"is_gpu"}),
        (pci(0x300), {"is_gpu"}),
        (pci(0x302, 0x8086), set()),
        (pci(0x403), set()),
        (pci(0x200), {"is_nic"}),
        (pci(0x207), {"is_nic", "is_infiniband"}),
        (pci(0x680), {"is_bridge", "is_nvswitch"}),
        (pci(0x604), {"is_bridge"}),
        (pci(0x680, 0x8086), {"is_bridge"}),
    ],
)
def test_a_function_has_the_kind_of_its_class(device: PciDevice, kinds: set[str]) -> None:
    names = ("is_gpu", "is_nic", "is_infiniband", "is_bridge", "is_nvswitch")
    assert {name for name in names if getattr(device, name)} == kinds


def test_a_gpu_of_a_host() -> None:
    modes = ["", "directPath", "odd"]
    notes = ["", " (device mode DirectPath)", " (device mode odd)"]
    assert [pci(device_mode=mode).mode_note for mode in modes] == notes
    assert pci(subdevice_id=7).subsystem_id == 7
    gpus = [
        Gpu(pci=pci(numa_node=1, passthrough_active=bool(kind)), name="x", graphics_type=kind)
        for kind in (None, GraphicsType.SHARED, GraphicsType.SHARED_DIRECT)
    ]
    assert [(one.gives_vgpus, one.is_passthrough) for one in gpus] == [
        (None, False),
        (False, True),
        (True, True),
    ]
    assert (gpus[0].pci_id, gpus[0].numa_node) == ("0000:21:00.0", 1)


@pytest.mark.parametrize(
    ("parts", "peers"),
    [
        ([("nvidiaVgpu", "a")] * 2, ("a", 2)),
        ([("nvidiaVgpu", "a")], ("", 0)),
        ([("nvidiaVgpu", "a"), ("nvidiaVgpu", "b")], ("", 0)),
        ([("nvidiaVgpu", "a"), ("dvx", "a")], ("", 0)),
        ([("dvx", "a"), ("dvx", "a")], ("", 0)),
    ],
)
def test_a_group_of_peers(parts: Any, peers: tuple[str, int]) -> None:
    group = {"name": "g", "parts": [{"kind": kind, "profile": profile} for kind, profile in parts]}
    assert DeviceGroupInfo.model_validate(group).peers == peers
    made = DeviceGroupInfo.of_peers("g", "a", 3, "words")
    assert (made.name, made.peers, made.description) == ("g", ("a", 3), "words")


HOST = Host.model_validate(
    {
        "moid": "host-1",
        "name": "esx-01",
        "compute_moid": "domain-s1",
        "cordons": [
            {"attribute": "x", "reason": "gpu", "pci_id": "0000:21:00.0"},
            {"attribute": "y", "reason": "all"},
        ],
        "gpus": [{"pci": pci(), "name": "x"}],
        "nics": [{"device": "vmnic0", "pci_id": "0000:81:00.0"}],
        "pci_devices": [
            pci(0x207).model_copy(
                update={
                    "pci_id": f"0000:8{number}:00.0",
                    "passthrough_active": number == 2,
                    "numa_node": number,
                }
            )
            for number in range(4)
        ],
    }
)


def test_the_parts_of_a_host() -> None:
    assert [(nic.pci_id, nic.numa_node, nic.pci) for nic in HOST.infiniband] == [
        (one.pci_id, one.numa_node, one) for one in (HOST.pci_devices[0], HOST.pci_devices[3])
    ]
    assert (HOST.cordon, HOST.cordon_of_gpu("0000:21:00.0")) == (HOST.cordons[1], HOST.cordons[0])
    assert (HOST.cordon_of_gpu("0000:22:00.0"), HOST.gpu("0000:21:00.0"), HOST.gpu("x")) == (
        None,
        HOST.gpus[0],
        None,
    )
    assert (HOST.device("0000:82:00.0"), HOST.device("x")) == (HOST.pci_devices[2], None)
    switches = [(pci(0x604),), (pci(0x604), pci(0x680)), (pci(),)]
    assert [HOST.model_copy(update={"pci_devices": one}).has_nvswitch for one in switches] == [
        False,
        True,
        None,
    ]
    assert DirectPathCapacity(
        name="a", vgpu_profile="b", consumed=1, remaining=1, unused_reservation=0
    ).owner == ("DirectPath profile a")


@pytest.mark.parametrize(
    ("host", "is_usable", "takes_vms", "owner"),
    [
        ({}, True, False, "domain-s1"),
        ({"cordons": HOST.cordons[:1], "cluster_moid": "domain-c1"}, True, True, "domain-c1"),
        ({"cordons": (), "is_in_maintenance_mode": True}, False, False, "domain-s1"),
        ({"cordons": (), "connection": Connection.DISCONNECTED}, False, False, "domain-s1"),
    ],
)
def test_a_host_takes_vms(host: Any, is_usable: bool, takes_vms: bool, owner: str) -> None:
    found = HOST.model_copy(update=host)
    assert (found.is_usable, found.takes_vms, found.owner_moid) == (is_usable, takes_vms, owner)


def test_connections_in_words() -> None:
    assert [one.words for one in Connection] == ["is connected", "is disconnected", "does not respond"]


def test_a_cluster_finds_its_groups() -> None:
    cluster = Cluster.model_validate(
        {
            "moid": "domain-c1",
            "name": "gpu",
            "host_groups": [{"name": name} for name in ("Racks", "racks", "Other")],
            "vm_groups": [{"name": "vms"}],
            "vm_overrides": [{"vm_moid": "vm-1", "settings": [("drs", "manual"), ("ha", "high")]}],
        }
    )
    found = [cluster.host_group(name) for name in ("racks", "RACKS", "OTHER", "none")]
    assert found == [cluster.host_groups[1], None, cluster.host_groups[2], None]
    assert (cluster.vm_group("vms"), cluster.vm_group("x")) == (cluster.vm_groups[0], None)
    assert (dict(cluster.overrides_of("vm-1")), cluster.overrides_of("vm-2")) == (
        {"drs": "manual", "ha": "high"},
        {},
    )


def test_an_inventory_finds_its_parts() -> None:
    folders = [("datacenter-1", "dc"), ("datacenter-2", "twice"), ("datacenter-3", "twice")]
    observed = Inventory.model_validate(
        {
            "vcenter": {"address": "a", "root_folder_moid": "group-d1"},
            "read_at": NOON,
            "datacenters": [{"moid": moid, "name": name} for moid, name in folders],
            "clusters": [{"moid": "domain-s1", "name": "alone"}],
            "hosts": [HOST],
            "vms": [
                {"moid": "vm-1", "name": "a", "host_moid": "host-1", "mark": NAMED},
                {"moid": "vm-2", "name": "b"},
                {"moid": "vm-3", "name": "c", "host_moid": "host-1", "mark": WHOLE, "is_template": True},
            ],
            "networks": [{"moid": "network-7", "name": "n", "portgroup_key": "pg-1"}],
            "tag_categories": [{"name": "team", "id": "t"}],
        }
    )
    assert [observed.datacenter_moid(name) for name in ("dc", "twice", None)] == ["datacenter-1", None, None]
    assert {moid: [vm.name for vm in vms] for moid, vms in observed.vms_by_host.items()} == {
        "host-1": ["a", "c"]
    }
    assert (observed.cluster_of(HOST), observed.cluster_of(None)) == (observed.clusters[0], None)
    assert [observed.host_name_of(vm) for vm in observed.vms] == ["esx-01", "", "esx-01"]
    assert observed.networks_of(DETAIL) == {"network-7", "net"}
    assert [vm.name for vm in observed.vms_marked(PlanIdentity(name="p", id=ID))] == ["a", "c"]
    assert observed.tag_category("team") is not None
    assert observed.tag_category("x") is None
    other = HOST.model_copy(update={"name": "new"})
    assert observed.host_by_moid == {"host-1": HOST}
    changed = observed.with_hosts({"host-1": other, "host-9": HOST})
    assert (changed.hosts, changed.host_by_moid) == ((other,), {"host-1": other})
    assert observed.with_hosts({}) is observed
    homes = [
        VCenter(address="a", root_folder_moid="r", alarm_folder_moid=moid).lock_home_moid
        for moid in ("", "f")
    ]
    assert homes == ["r", "f"]


@pytest.mark.parametrize(
    ("types", "is_for_vms"), [((), True), (("VirtualMachine", "HostSystem"), True), (("HostSystem",), False)]
)
def test_a_category_of_tags(types: tuple[str, ...], is_for_vms: bool) -> None:
    tags = [{"category": "team", "name": name, "id": name} for name in ("ml", "web")]
    found = TagCategory.model_validate({"name": "team", "id": "c", "types": types, "tags": tags})
    assert (found.is_for_vms, found.tag("web"), found.tag("x")) == (is_for_vms, found.tags[1], None)
    assert str(found.tags[0]) == "team/ml"


@pytest.mark.parametrize(
    ("cordon", "key", "text", "words"),
    [
        (Cordon(attribute="vgpu_cfg.cordon", reason="é"), "cordon", {"reason": "é"}, "é"),
        (
            Cordon(attribute="vgpu_cfg.cordon.1", reason="hot", pci_id="a", by="me", since=NOON),
            "cordon a",
            {"reason": "hot", "gpu": "a", "by": "me", "since": "2026-11-30T12:00:00Z"},
            "hot (me, since 2026-11-30 12:00 UTC)",
        ),
        (
            Cordon(attribute="vgpu_cfg.cordon", reason="x", by="me"),
            "cordon",
            {"reason": "x", "by": "me"},
            "x (me)",
        ),
    ],
)
def test_a_cordon_reads_back(cordon: Cordon, key: str, text: object, words: str) -> None:
    assert (cordon.key, json.loads(cordon.text), cordon.words) == (key, text, words)
    assert "\\u" not in cordon.text
    assert Cordon.parse(cordon.attribute, cordon.text) == cordon


def test_cordons_among_attributes() -> None:
    texts = {
        "vgpu_cfg.cordon.2": " edited ",
        "other": "x",
        "vgpu_cfg.cordon": '{"reason": 5}',
        "vgpu_cfg.cordon.3": " ",
        "vgpu_cfg.cordonx": "y",
    }
    told = [(one.attribute, one.reason) for one in parse_cordons(texts)]
    assert told == [("vgpu_cfg.cordon", "5"), ("vgpu_cfg.cordon.2", "edited")]
    assert free_attribute([]) == "vgpu_cfg.cordon.1"
    assert free_attribute(["vgpu_cfg.cordon.1", "vgpu_cfg.cordon.2"]) == "vgpu_cfg.cordon.3"
    assert [Cordon.parse("a", text).reason for text in ("[1]", "{}", '"x"')] == ["[1]", "{}", '"x"']


@pytest.mark.parametrize(
    ("home", "host", "power", "is_there"),
    [
        (Home(vm="vm-1", host="h1"), "h1", "poweredOff", True),
        (Home(vm="vm-1", host="h1"), "h1", "poweredOn", False),
        (Home(vm="vm-1", host="h1", to="h2"), "h2", "poweredOn", True),
        (Home(vm="vm-1", host="h1", to="h2"), "h1", "poweredOn", False),
        (Home(vm="vm-1", host="h1", to="h2", is_cold=True), "h2", "poweredOff", False),
    ],
)
def test_a_vm_is_where_it_was_put(home: Home, host: str, power: str, is_there: bool) -> None:
    vm = Vm.model_validate(
        {
            "moid": "vm-1",
            "name": "a",
            "host_moid": host,
            "power_state": power,
            "detail": {"attributes": {HOME_ATTRIBUTE: home.text}},
        }
    )
    assert home_of(vm) == home
    assert home.is_there(vm) is is_there
    assert home_of(vm.model_copy(update={"moid": "vm-2"})) is None


@pytest.mark.parametrize("text", ["", "x", "{}"])
def test_a_text_that_is_no_home(text: str) -> None:
    vm = Vm(moid="vm-1", name="a", detail=VmDetail(attributes={HOME_ATTRIBUTE: text}))
    assert home_of(vm) is home_of(vm.model_copy(update={"detail": None})) is None


def test_the_members_of_rules() -> None:
    ties = ClusterTies.model_validate(
        {
            "rules": [
                {
                    "key": 1,
                    "name": "a",
                    "kind": "affinity",
                    "is_enabled": True,
                    "is_mandatory": True,
                    "vm_moids": ["vm-1"],
                }
            ],
            "host_rules": [
                {"key": key, "name": "b", "is_enabled": True, "is_mandatory": True, "vm_group": group}
                for key, group in ((2, "g"), (3, "gone"))
            ],
            "vm_groups": [{"name": "g", "vm_moids": ["vm-2"]}],
        }
    )
    asked = [(1, "a"), (1, "b"), (2, "b"), (3, "b"), (4, "b")]
    assert [ties.members_of_rule(*one) for one in asked] == [("vm-1",), None, ("vm-2",), (), None]
    assert (ties.members_of_group("g"), ties.members_of_group("x")) == (("vm-2",), None)


def test_the_use_of_gpus() -> None:
    use = [GpuUse(host_moid="h", pci_id=one) for one in ("a", "b")]
    reading = UseReading(gpus=tuple(use))
    assert [reading.of("h", "b"), reading.of("x", "a")] == [use[1], None]
    past = PastUse(average_percent=1, peak_percent=2, since=NOON, until=NOON + timedelta(hours=2), samples=3)
    assert past.span_seconds == 7200


@pytest.mark.parametrize("name", ["vm_moids", "removed_vms", "host_moids", "cluster_moids"])
def test_a_scope_that_names_something(name: str) -> None:
    assert not PastScope.model_validate({name: ("x",)}).is_empty
    assert PastScope(folder_moid="f", kinds=("k",), since=NOON).is_empty


MARK = HostMark(plan="p", id=ID, since=NOON, waiting={"ats": None, "mig a": NOON})


def test_a_host_mark_reads_back() -> None:
    assert HostMark.parse(MARK.text) == MARK
    assert set(json.loads(MARK.text)) == {"plan", "id", "since", "waiting"}
    assert [HostMark.parse(text) for text in ("", "{}", "x")] == [None] * 3
    plans = [PlanIdentity(name="p", id=ID), PlanIdentity(name="q", id=ID), PlanIdentity(name="p", id="x")]
    assert [MARK.is_of(plan) for plan in plans] == [True, True, False]
    assert [MARK.model_copy(update={"id": ""}).is_of(plan) for plan in plans] == [True, False, True]


@pytest.mark.parametrize(
    ("plan", "mark", "is_same"), [("p", {}, True), ("q", {}, False), ("p", {"id": ""}, False)]
)
def test_another_plan_is_told_the_way_on(plan: str, mark: Any, is_same: bool) -> None:
    its_own = "wait for p to finish, or run its `vgpu-cfg apply` again"
    same = f"if it is the same plan from another machine, copy its .id file with the ID {ID}; "
    words = MARK.model_copy(update=mark).way_on(PlanIdentity(name=plan, id="x"))
    assert words == (f"{same}otherwise, {its_own}" if is_same else its_own)


def test_a_mark_that_was_lost() -> None:
    entry = MaintenanceEntry(at=NOON, plan="p", plan_id=ID, run="r1")
    reason = "set by the plan's run r1, but vgpu-cfg's marker on the host is missing"
    assert recovered_mark(entry) == HostMark(
        plan="p", id=ID, since=NOON, maintenance=True, reason=reason, is_recovered=True
    )
    assert recovered_mark(MaintenanceEntry(at=NOON, by="me")) is None


@pytest.mark.parametrize(
    ("seconds", "is_same"), [(0, True), (9, True), (-9, True), (10, False), (3600, False)]
)
def test_boot_times_waver(seconds: int, is_same: bool) -> None:
    assert is_same_boot(NOON, NOON + timedelta(seconds=seconds)) is is_same
    assert [is_same_boot(None, None), is_same_boot(NOON, None), is_same_boot(None, NOON)] == [
        True,
        False,
        False,
    ]


def test_facts_of_a_host() -> None:
    facts = HostFacts.model_validate(
        {
            "services": {"TSM-SSH": {"running": True}},
            "switches": [{"name": "s0"}, {"name": "s1", "uplinks": ["vmnic1"]}],
        }
    )
    assert (facts.is_ssh_running, HostFacts().is_ssh_running) == (True, False)
    assert (facts.uplink_of("vmnic1"), facts.uplink_of("vmnic0")) == ("s1", None)
    image = HostImage(status="NON_COMPLIANT", impact="REBOOT_REQUIRED", effects=("a.", "b."))
    assert image.words == "non-compliant, reboot required"
    assert image.outlook == "non-compliant, reboot required; vCenter expects: a. b."
    assert HostImage(status="COMPLIANT").outlook == "compliant"


def remembered(device: str, value: str, day: int = 1) -> RememberedValue:
    digests = device_digest("host-1", "mig", device), "abcdef", value_digest("host-1", "mig", device, value)
    return RememberedValue(device=digests[0], state=digests[1], value=digests[2], read_on=date(2026, 11, day))


def test_values_from_a_shell_are_remembered() -> None:
    name = attribute_of_row("mig", 2)
    assert (name, attribute_of_row("mig", 1)) == ("vgpu_cfg.read.mig.2", "vgpu_cfg.read.mig")
    values = tuple(sorted((remembered("a", "on"), remembered("b", "off")), key=lambda one: one.device))
    text = remembered_text("host-1", name, reversed(values))
    assert parse_remembered("host-1", {name: text, "x": ""}) == {name: values}
    assert remembered_text("host-1", name, ()) == ""
    edited = {
        name: text.replace("abcdef", "abcdee"),
        "a": "1",
        "b": "",
        "c": "2" + text[1:],
        "d": f"{text} x",
    }
    assert set(parse_remembered("host-1", edited).values()) == {()}
    assert parse_remembered("host-2", {name: text}) == {name: ()}
    assert len({remembered("a", "on").value, remembered("b", "on").value, remembered("a", "off").value}) == 3


def test_values_are_remembered_for_some_days() -> None:
    values = tuple(remembered("a", "on", day) for day in (1, 2, 10, 11, 12))
    kept = not_expired({"x": values}, date(2026, 11, 10), 9)
    assert [one.read_on.day for one in kept["x"]] == [2, 10, 11]


def test_values_that_conflict_are_none() -> None:
    one, other, third = remembered("a", "on"), remembered("a", "off"), remembered("b", "on")
    names = [f"vgpu_cfg.read.{name}" for name in ("mig", "mig.2", "mig.x", "mig2", "ecc")]
    both = dict(zip(names, ((third,), (one,), (other,), (other,), (other,)), strict=True))
    assert values_of_row(both, "mig") == {third.device: third, one.device: one}
    assert values_of_row({names[0]: (one, third), names[1]: (other,)}, "mig") == {third.device: third}
