"""Inventories in few words: what a test does not say of an estate is ordinary.

One datacenter `dc1`; hosts of two NUMA nodes with 32 cores of 2600 MHz and 256 GiB each, ESXi 8.0.3,
graphics type sharedDirect; the template `ubuntu` (EFI, 4 CPUs, 8 GiB, one disk of 64 GiB,
hardware version 21), the network `vm-network`, the datastore `vsan`, the folder `training`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tests.plans.cluster_rows import make_cluster
from tests.plans.host_rows import device_ids, make_bridge, make_facts, make_group, make_nic
from tests.plans.lock_rows import make_locks, make_reservations
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.observed.cordon import CORDON_ATTRIBUTE, Cordon
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.model.observed.inventory import (
    NVIDIA_VENDOR_ID,
    Connection,
    Datastore,
    DirectPathCapacity,
    Folder,
    Gpu,
    Host,
    Inventory,
    Network,
    NetworkKind,
    NumaNode,
    PciDevice,
    ProfileInfo,
    ResourcePool,
    StoragePolicy,
    VCenter,
)
from vgpu_cfg.model.observed.managed_object import ManagedObject
from vgpu_cfg.model.observed.own_items import CustomizationSpec, LibraryItem, SpecNic, Tag, TagCategory
from vgpu_cfg.model.observed.past import PastEvent
from vgpu_cfg.model.observed.vm import (
    DiskController,
    OwnerMark,
    PassthroughDevice,
    PowerState,
    TemplateSeen,
    VgpuDevice,
    VirtualDisk,
    VirtualNic,
    Vm,
    VmDetail,
    VmOrigin,
)
from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.planning.estate.devices import all_devices

GIB = 1024
READ_AT = datetime(2026, 11, 20, 21, 4, 11, tzinfo=UTC)
PLAN_ID = "7c1f0a52-3b44-4d0e-9b6e-0f2a5d8c1e01"
"""The id of the plan `demo`, which cases plan for."""
OTHER_ID = "e0a9d2b6-5c1f-4a7e-8d33-6b1c2f4e9a02"
"""That of any other plan."""
ROOT = "/dc1/vm"

Row = Mapping[str, Any]


def make_inventory(estate: Row) -> Inventory:
    """Build an inventory from the rows of an estate; see tests/plans/README.md for its keys."""
    found = _make_datacenter(estate)
    for name, row in (estate.get("beside") or {}).items():
        found = _with_another(found, _make_datacenter(row or {}), name)
    return found


def _with_another(found: Inventory, other: Inventory, datacenter: str) -> Inventory:
    """Add what is in another datacenter, under ids of its own; that of `unread` tells no place."""
    lists = ("clusters", "hosts", "vms", "networks", "datastores", "folders", "resource_pools")
    ids = {one.moid for name in lists for one in getattr(other, name)} | {
        text
        for one in (*other.vms, *other.networks, *other.hosts, *other.facts.switches)
        for key in ("instance_uuid", "portgroup_key", "switch_uuid", "uuid", "system_id", "moid")
        if (text := getattr(one, key, None))
    }
    is_read = datacenter != "unread"

    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            return {moved(key): moved(one) for key, one in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return type(value)(moved(one) for one in value)
        if not isinstance(value, str):
            return value
        if value == "dc1" or value.startswith("/dc1/"):
            return value.replace("dc1", datacenter, 1) if is_read else ""
        return f"{value}@{datacenter}" if value in ids else value

    rows = {name: getattr(other, name) for name in (*lists, "facts")}
    made = Inventory.model_validate(
        other.model_dump(include={"vcenter", "read_at"})
        | {name: moved(_dumped(value)) for name, value in rows.items()}
    )
    place = ManagedObject(moid=f"dc-{datacenter}", name=datacenter, inventory_path=f"/{datacenter}")
    facts = found.facts
    facts = facts.model_copy(
        update={
            "hosts": {**facts.hosts, **made.facts.hosts},
            "clusters": {**facts.clusters, **made.facts.clusters},
            "switches": (*facts.switches, *made.facts.switches),
        }
    )
    both = {name: (*getattr(found, name), *getattr(made, name)) for name in lists}
    datacenters = (*found.datacenters, *([place] if is_read else ()))
    return found.model_copy(update={**both, "facts": facts, "datacenters": datacenters})


def _dumped(value: Any) -> Any:
    return [one.model_dump() for one in value] if isinstance(value, tuple) else value.model_dump()


def _make_datacenter(estate: Row) -> Inventory:
    clusters = dict(estate.get("clusters") or {"gpu": {}})
    host_rows = estate.get("hosts") or {}
    vm_rows = estate.get("vms") or {}
    networks = _networks(estate)
    datastores = _datastores(estate)
    folders = _folders(estate)
    vms = [*_templates(estate), *(_vm(name, row or {}, host_rows, folders) for name, row in vm_rows.items())]
    if "tag_categories" in estate:
        vms = [_with_tags(vm) for vm in vms]
    running = {vm.name: vm for vm in vms if vm.is_on}
    hosts = [
        _host(name, row or {}, number, vm_rows, running, networks, datastores)
        for number, (name, row) in enumerate(host_rows.items())
    ]
    datacenters = estate.get("datacenters") or ["dc1"]
    return Inventory(
        vcenter=VCenter(
            address="vc.example",
            api_version=str(estate.get("api", "8.0.3.0")),
            instance_uuid=str(estate.get("instance_uuid", "vc-uuid")),
            build=str(estate.get("build", "")),
            key_providers=tuple(estate["key_providers"]) if "key_providers" in estate else None,
            storage_policies=_storage_policies(estate),
        ),
        read_at=READ_AT,
        datacenters=tuple(ManagedObject(moid=f"dc-{n}", name=n, inventory_path=f"/{n}") for n in datacenters),
        clusters=tuple(make_cluster(name, row or {}, host_rows, vms) for name, row in clusters.items()),
        hosts=tuple(hosts),
        vms=tuple(vms),
        networks=networks,
        datastores=datastores,
        folders=folders,
        resource_pools=tuple(_pool(name, row or {}) for name, row in (estate.get("pools") or {}).items()),
        facts=make_facts(estate),
        locks=make_locks(estate.get("locks", {}), READ_AT, estate.get("frozen_until", ""))
        if {"locks", "frozen_until"} & {*estate}
        else None,
        customization_specs=_customization_specs(estate["customization_specs"])
        if "customization_specs" in estate
        else None,
        failed_customizations=_failures(estate.get("failed_customizations") or {}),
        library_items=_library_items(estate["library_items"]) if "library_items" in estate else None,
        tag_categories=_tag_categories(estate["tag_categories"]) if "tag_categories" in estate else None,
        reservations=make_reservations(estate["reservations"], READ_AT, PLAN_ID)
        if "reservations" in estate
        else None,
    )


def _storage_policies(estate: Row) -> tuple[StoragePolicy, ...] | None:
    if "storage_policies" not in estate:
        return None
    return tuple(
        StoragePolicy(
            id=f"policy-{name}",
            name=name,
            datastore_moids=frozenset(f"datastore-{one}" for one in datastores or ()),
        )
        for name, datastores in estate["storage_policies"].items()
    )


def _failures(rows: Mapping[str, str]) -> dict[str, PastEvent]:
    """Return the last events of guests whose customisation failed, by VM."""
    return {
        f"vm-{name}": PastEvent(kind=kind, moid=f"vm-{name}", name=name, at=READ_AT)
        for name, kind in rows.items()
    }


def _customization_specs(rows: Row) -> tuple[CustomizationSpec, ...]:
    """Return customisation specifications by name; tests/plans/README.md has the keys."""
    known = tuple(name for name, row in rows.items() if row is not None)
    return tuple(
        CustomizationSpec(name=name, is_there=False, others=known)
        if row is None
        else CustomizationSpec(
            name=name,
            kind=row.get("kind", "linux"),
            change_version=row.get("version", "1"),
            domain=row.get("domain", ""),
            nics=tuple(_spec_nic(text) for text in row.get("nics", ["dhcp"])),
            is_foreign=row.get("foreign", False),
        )
        for name, row in rows.items()
    )


def _spec_nic(text: str) -> SpecNic:
    kinds = {"dhcp": "dhcp", "ask": "ask", "other": "other"}
    kind = kinds.get(text, "fixed")
    return SpecNic.model_validate({"kind": kind, "address": text if kind == "fixed" else ""})


def _library_items(rows: Row) -> tuple[LibraryItem, ...]:
    """Return what was found of items by `library/name`; tests/plans/README.md has the keys."""
    return tuple(
        LibraryItem(
            library=path.partition("/")[0],
            name=path.partition("/")[2],
            kind=row.get("kind", ""),
            template_moid=f"vm-{row['template']}" if "template" in row else None,
            has_library=row.get("library", True),
            others=tuple(row.get("others") or ()),
            count=row.get("count", 1),
        )
        for path, row in rows.items()
    )


def _tag_categories(rows: Row) -> tuple[TagCategory, ...]:
    """Return categories by name: a list of tags, or `tags` with `single` and `types`."""
    full = {name: row if isinstance(row, Mapping) else {"tags": row} for name, row in rows.items()}
    return tuple(
        TagCategory(
            name=name,
            id=f"urn:category:{name}",
            is_single=row.get("single", False),
            types=frozenset(row.get("types") or ()),
            tags=tuple(Tag(category=name, name=tag, id=f"urn:tag:{name}/{tag}") for tag in row["tags"]),
        )
        for name, row in full.items()
    )


def _with_tags(vm: Vm) -> Vm:
    """Return a VM whose tags were read: none where its row says none."""
    if vm.detail is None or vm.detail.tags is not None:
        return vm
    return vm.model_copy(update={"detail": vm.detail.model_copy(update={"tags": {}})})


def _last(path: str) -> str:
    """Return the name that a path ends with."""
    return path.rpartition("/")[2]


def _pool(name: str, row: Row) -> ResourcePool:
    return ResourcePool(
        moid=f"pool-{name}",
        name=_last(name),
        inventory_path=f"/dc1/host/{row['cluster']}/Resources/{name}",
        owner_moid=f"cluster-{row['cluster']}",
    )


def _networks(estate: Row) -> tuple[Network, ...]:
    rows: dict[str, Any] = {"vm-network": {}} | dict(estate.get("networks") or {})
    return tuple(
        Network(
            moid=f"network-{name}",
            name=(row or {}).get("name", _last(name)),
            inventory_path=f"/dc1/network/{name}",
            kind=NetworkKind((row or {}).get("kind", "standard")),
            portgroup_key=f"dvportgroup-{name}" if (row or {}).get("kind") == "distributed" else None,
            switch_uuid="50 0f" if (row or {}).get("kind") == "distributed" else None,
            is_uplink=(row or {}).get("uplink", False),
        )
        for name, row in rows.items()
    )


def _datastores(estate: Row) -> tuple[Datastore, ...]:
    rows: dict[str, Any] = {"vsan": {}} | dict(estate.get("datastores") or {})
    return tuple(
        Datastore(
            moid=f"datastore-{name}",
            name=(row or {}).get("name", _last(name)),
            inventory_path=f"/dc1/datastore/{name}",
            pod=_pod((row or {}).get("cluster")),
            free_mib=(row or {}).get("free_gib", 15_000) * GIB,
            capacity_mib=20_000 * GIB,
            is_accessible=(row or {}).get("accessible", True),
        )
        for name, row in rows.items()
    )


def _pod(name: str | None) -> ManagedObject | None:
    path = f"/dc1/datastore/{name}"
    return ManagedObject(moid=f"group-p-{name}", name=name, inventory_path=path) if name else None


def _folders(estate: Row) -> tuple[Folder, ...]:
    root = Folder(moid="folder-root", name="vm", inventory_path=ROOT, datacenter="dc1", is_root=True)
    names = ["training", *(estate.get("folders") or ())]
    return (
        root,
        *(
            Folder(
                moid=f"folder-{name}",
                name=_last(name),
                inventory_path=f"{ROOT}/{name}",
                datacenter="dc1",
            )
            for name in names
        ),
    )


def _host(
    name: str,
    row: Row,
    number: int,
    vms: Row,
    running: Mapping[str, Vm],
    networks: Sequence[Network],
    datastores: Sequence[Datastore],
) -> Host:
    gpus = list(row.get("gpus") or ())
    holders = {
        gpu["pci"]: tuple(
            vm.moid
            for vm_name, vm in running.items()
            if gpu["pci"] in ((vms.get(vm_name) or {}).get("on") or ()) and vm.host_moid == f"host-{name}"
        )
        for gpu in gpus
    }
    made = [_gpu(gpu, holders[gpu["pci"]]) for gpu in gpus]
    nics = [make_nic(nic) for nic in row.get("nics") or ()]
    bridges = [make_bridge(address, above) for address, above in (row.get("bridges") or {}).items()]
    devices = (*(gpu.pci for gpu in made), *(nic.pci for nic in nics if nic.pci is not None), *bridges)
    tells_nodes = row.get("tells_nodes", True)
    nodes = [
        NumaNode(
            node_id=node,
            cores=row.get("cores", 32),
            memory_mib=row.get("node_gib", 256) * GIB,
            pci_ids=frozenset(pci.pci_id for pci in devices if pci.numa_node == node),
        )
        for node in range(row.get("nodes", 2))
    ]
    names = tuple(row.get("profiles") or _profile_names(gpus)) if row.get("driver", True) else ()
    creatable = tuple(row["creatable"]) if "creatable" in row else names
    known = names if row.get("tells_profiles", True) else None
    cluster = row.get("cluster", "gpu")
    return Host(
        moid=f"host-{name}",
        name=name,
        inventory_path=f"/dc1/host/{cluster}/{name}",
        datacenter="dc1",
        cluster_moid=f"cluster-{cluster}",
        compute_moid=f"cluster-{cluster}",
        version=str(row.get("version", "8.0.3")),
        model="PowerEdge R7525",
        connection=Connection(row.get("connection", "connected")),
        is_in_maintenance_mode=row.get("maintenance", False),
        cores=sum(node.cores for node in nodes),
        cpu_mhz=row.get("mhz", 2600),
        memory_mib=sum(node.memory_mib for node in nodes),
        numa_nodes=tuple(nodes) if tells_nodes else (),
        pci_devices=devices,
        gpus=tuple(made),
        nics=tuple(nic for nic in nics if nic.pci is not None and not nic.pci.passthrough_active),
        graphics_type=GraphicsType(row.get("default_type", "sharedDirect")),
        assignment_policy=row.get("policy", "performance"),
        creatable_profiles=creatable,
        profiles=tuple(ProfileInfo(name=one) for one in known) if known is not None else None,
        network_moids=frozenset(
            network.moid
            for network in networks
            if network.name in row.get("networks", [one.name for one in networks])
        ),
        datastore_moids=frozenset(
            one.moid
            for one in datastores
            if one.name in row.get("datastores", [one.name for one in datastores])
        ),
        device_groups=tuple(make_group(group) for group in row.get("groups") or ()),
        direct_path=_direct_path(row),
        max_hardware_version=row.get("hardware", 21),
        system_id=f"system-{number}" if row.get("tells_system", True) else None,
        cordons=tuple(_cordons(row)),
    )


def _direct_path(row: Row) -> tuple[DirectPathCapacity, ...] | None:
    """Return what vCenter counts of DirectPath profiles: [left, reserved] by vGPU profile."""
    if "direct_path" not in row:
        return None
    return tuple(
        DirectPathCapacity(
            name=f"dp-{profile}",
            vgpu_profile=profile,
            consumed=0,
            remaining=left,
            unused_reservation=reserved,
        )
        for profile, (left, reserved) in row["direct_path"].items()
    )


def _cordons(row: Row) -> Iterator[Cordon]:
    closed = {"": row.get("cordon"), **(row.get("cordoned") or {})}
    for number, (pci_id, reason) in enumerate(closed.items()):
        if reason:
            attribute = f"{CORDON_ATTRIBUTE}.{number}" if pci_id else CORDON_ATTRIBUTE
            yield Cordon(attribute=attribute, reason=reason, pci_id=pci_id, by="anna", since=READ_AT)


def _profile_names(gpus: Sequence[Row]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for gpu in gpus:
        if gpu.get("board") == "unknown" or gpu.get("passthrough"):
            continue
        for entry in load_catalog().board(gpu["board"]).profiles:
            is_mig = entry.profile.sharing is Sharing.MIG
            if is_mig is (gpu.get("sharing") == "mig"):
                names[entry.name] = None
                names[entry.name.removesuffix("c") + "q"] = None
    return tuple(names)


def _gpu(row: Row, holders: tuple[str, ...]) -> Gpu:
    board = None if row["board"] == "unknown" else load_catalog().board(row["board"])
    node = row.get("node", 0)
    is_passed = bool(row.get("passthrough"))
    return Gpu(
        pci=PciDevice(
            pci_id=row["pci"],
            vendor_id=NVIDIA_VENDOR_ID,
            device_id=device_ids(board)[0],
            subdevice_id=device_ids(board)[1],
            class_id=0x0302,
            vendor_name="NVIDIA Corporation",
            device_name=f"GA100 [{board.name}]" if board else "Something new",
            passthrough_capable=True,
            passthrough_enabled=is_passed or row.get("passthrough_pending", False),
            passthrough_active=is_passed,
            hardware_label=row.get("label"),
            parent_bridge=row.get("bridge"),
            numa_node=node if node != "unknown" else None,
            device_mode=row.get("device_mode", ""),
        ),
        name=board.name if board else "Something new",
        memory_mib=board.framebuffer_mib if board else 0,
        graphics_type=None if is_passed else GraphicsType(row.get("type", "sharedDirect")),
        configured_graphics_type=GraphicsType(row.get("configured", row.get("type", "sharedDirect"))),
        vgpu_mode=VgpuMode(row["mode"]) if "mode" in row else _usual_mode(row),
        sharing=None if row.get("sharing") == "untold" else Sharing(row.get("sharing", "time_sliced")),
        vm_moids=holders,
    )


def _usual_mode(row: Row) -> VgpuMode | None:
    """A GPU that serves no vGPUs tells no mode."""
    return VgpuMode.SAME_SIZE if row.get("type", "sharedDirect") == "sharedDirect" else None


def _templates(estate: Row) -> list[Vm]:
    rows: dict[str, Any] = {"ubuntu": {}} | dict(estate.get("templates") or {})
    return [_template(name, row or {}) for name, row in rows.items()]


def _template(name: str, row: Row) -> Vm:
    return Vm(
        moid=f"vm-{row.get('moid', name)}",
        name=row.get("name", name),
        inventory_path=f"{ROOT}/templates/{name}",
        folder_moid="folder-root",
        host_moid=None,
        is_template=row.get("template", True),
        detail=_detail(
            {"hardware": 21, "cpus": 4, "memory_gib": 8, "disks": [64], "nics": ["vm-network"]} | dict(row)
        )
        if row.get("readable", True)
        else None,
    )


def _vm(name: str, row: Row, hosts: Row, folders: Sequence[Folder]) -> Vm:
    folder = row.get("folder", "training")
    known = {one.inventory_path.removeprefix(f"{ROOT}/"): one for one in folders}
    mark = row.get("mark")
    if mark is True:
        mark = f"demo/{row.get('name', name)}"
    disks = _disks(name, row)
    owner = _mark(name, mark, row, disks) if mark else None
    if others := row.get("others"):
        row = {**row, **{key: [*(row.get(key) or ()), *added] for key, added in others.items()}}
    if owner is not None and "marked" in row:
        row = {**row, "extra_config": {**owner.pairs, **(row.get("extra_config") or {})}}
    return Vm(
        moid=f"vm-{name}",
        name=row.get("name", name),
        inventory_path=f"{known[folder].inventory_path}/{row.get('name', name)}" if folder else "",
        folder_moid=known[folder].moid,
        host_moid=f"host-{row['host']}" if "host" in row else f"host-{next(iter(hosts))}",
        power_state=PowerState(row.get("power", "poweredOn")),
        instance_uuid=f"uuid-{name}",
        mark=owner,
        origin=VmOrigin(made_at=made["at"], made_by=made["by"]) if (made := row.get("made")) else None,
        detail=_detail({"reserved": True, "mmio": 128 if row.get("gpus") else None} | dict(row), disks)
        if row.get("readable", True)
        else None,
    )


def _disks(name: str, row: Row) -> tuple[VirtualDisk, ...]:
    """Return the disks of a VM: sizes of the plan's own, or rows with a `file`, which others attached."""
    policy = (f"policy-{row['policy']}" if row["policy"] else "") if "policy" in row else None
    made = []
    for number, disk in enumerate(row.get("disks") or [64]):
        more = disk if isinstance(disk, dict) else {"size": disk}
        suffix = f"_{number}" if number else ""
        made.append(
            VirtualDisk(
                key=2000 + number,
                capacity_mib=int(more["size"] * GIB),
                controller_key=1000,
                uuid=f"{'other' if 'file' in more else 'disk'}-{number}-{name}",
                file=more.get("file", f"[vsan] {name}/{name}{suffix}.vmdk"),
                datastore_moid=f"datastore-{more.get('on', row.get('datastore', 'vsan'))}",
                first_class_id=more.get("first_class", ""),
                policy=policy,
            )
        )
    return tuple(made)


def _mark(name: str, names: str, row: Row, disks: tuple[VirtualDisk, ...]) -> OwnerMark:
    """Return a mark; `marked` says `id` (null: of version 0.1.0), `for` which VM, `by`, `at`, `imported`.

    It holds the plan's own of the disks, NICs and GPUs, but for `disks: null` and `devices: null`, as of the
    release before; with `devices: counted` it counts NICs, as that of a clone does.
    """
    more = row.get("marked") or {}
    devices = all_devices(_detail(row, disks)) if more.get("devices", True) else {}
    if "nics" in more:
        devices |= {"nics": tuple(more["nics"])}
    if more.get("devices") == "counted":
        devices |= {"nics": (), "new_nics": len(devices["nics"])}
    plan, _, vm = names.partition("/")
    plan_id = more.get("id", PLAN_ID if plan == "demo" else OTHER_ID)
    if plan_id is None:
        return OwnerMark(plan=plan, vm=vm)
    return OwnerMark(
        plan=plan,
        vm=vm,
        id=plan_id,
        instance_uuid=f"uuid-{more.get('for', name)}",
        made_by=more.get("by", ""),
        made_at=more.get("at"),
        is_imported=more.get("imported", False),
        template=TemplateSeen(**more["template"]) if "template" in more else None,
        keys=tuple(more.get("keys", ())),
        disks=tuple(disk.uuid for disk in disks if disk.uuid.startswith("disk-"))
        if more.get("disks", True)
        else None,
        **devices,
    )


def _detail(row: Row, disks: tuple[VirtualDisk, ...] | None = None) -> VmDetail:
    extra = dict(row.get("extra_config") or {})
    if row.get("mmio"):
        extra = {
            "pciPassthru.use64bitMMIO": "TRUE",
            "pciPassthru.64bitMMIOSizeGB": str(row["mmio"]),
        } | extra
    memory = int(row.get("memory_gib", 64) * GIB)
    is_reserved = row.get("reserved", False)
    policy = (f"policy-{row['policy']}" if row["policy"] else "") if "policy" in row else None
    return VmDetail(
        change_version="1",
        hardware_version=row.get("hardware", 21),
        guest_id=row.get("guest", "ubuntu64Guest"),
        firmware=row.get("firmware", "efi"),
        cpus=row.get("cpus", 16),
        cores_per_socket=row.get("cores_per_socket", 1),
        cores_per_numa_node=row.get("cores_per_node"),
        memory_mib=memory,
        memory_reservation_mib=memory if is_reserved else 0,
        memory_reservation_locked=is_reserved,
        extra_config=extra,
        options=row.get("options") or {},
        attributes=row.get("attributes") or {},
        tags={name: tuple(tags) for name, tags in row["tags"].items()} if "tags" in row else None,
        tpm_key=11000 if row.get("vtpm") else None,
        tools_status=row.get("tools", ""),
        vgpus=tuple(
            VgpuDevice(
                key=13000 + number,
                profile=profile,
                group_key=0 if "group" in row else None,
                migrates=row.get("migrates"),
            )
            for number, profile in enumerate(row.get("gpus") or ())
        ),
        device_groups={0: row["group"]} if "group" in row else {},
        passthrough=tuple(
            _passthrough(13020 + number, device) for number, device in enumerate(row.get("passthrough") or ())
        ),
        nics=tuple(_nic(4000 + number, nic) for number, nic in enumerate(row.get("nics") or ())),
        disks=_disks("template", row) if disks is None else disks,
        controllers=(DiskController(key=1000, kind="scsi"),),
        resource_pool_moid="pool-gpu",
        datastore_moids=(f"datastore-{row.get('datastore', 'vsan')}",),
        snapshot_moid="snapshot-1" if row.get("snapshot") else None,
        cpu_mhz=row.get("cpu_mhz"),
        max_cpu_mhz=row.get("max_cpu_mhz", 44_704 if "cpu_mhz" in row else None),
        uptime_seconds=row.get("uptime"),
        home_policy=policy,
    )


def _nic(key: int, row: Any) -> VirtualNic:
    row = {"network": row} if isinstance(row, str) else row
    return VirtualNic(
        key=key,
        kind=row.get("kind", "vmxnet3"),
        network=_network_of(row["network"]),
        mac=row.get("mac", "00:50:56:00:00:01"),
        function=row.get("function"),
    )


def _network_of(name: str) -> str:
    return name if name.startswith("dvportgroup-") else f"network-{name}"


def _passthrough(key: int, row: Row) -> PassthroughDevice:
    return PassthroughDevice(
        key=key,
        pci_id=row.get("pci"),
        system_id="system-0" if row.get("pci") else None,
        allowed=tuple(tuple(pair) for pair in row.get("allowed") or ()),
        label=row.get("label"),
        assigned_id=row.get("assigned"),
        is_nic=row.get("nic", False),
        group_key=0 if row.get("grouped") else None,
    )
