"""Turn an estate into managed objects: datacenter, clusters, hosts and VMs, each tied to its neighbours.

Both the estate file (`builder`) and the generated fleet (`fleet`) build with it. Built objects count as
unchanged: their revision is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from vgpu_cfg.catalog import Board, load_catalog
from vgpu_cfg.lab.estates import estate as file
from vgpu_cfg.lab.estates.stock import GPU_BUSES, NIC_BUSES, NIC_MODELS, RELEASES, NicModel
from vgpu_cfg.lab.rules.nvlink import MODULE_IDS
from vgpu_cfg.lab.state.devices import DeviceSeed, NicSeed, mac_of, seed_devices
from vgpu_cfg.lab.state.host import (
    BiosFacts,
    Gpu,
    HostDriver,
    Nic,
    NicGroup,
    NumaNode,
    Passthrough,
    PciDevice,
    is_endpoint,
)
from vgpu_cfg.lab.state.host_defaults import (
    DAEMON_VIB,
    EVALUATION,
    MANAGEMENT_SWITCH,
    MFT_VIBS,
    bundle_vibs,
    nic_firmware,
    release_of,
    set_defaults,
)
from vgpu_cfg.lab.state.inventory import (
    CHILD_TYPES,
    Cluster,
    Datacenter,
    Datastore,
    DistributedSwitch,
    Folder,
    Host,
    LabState,
    Managed,
    Network,
    ResourcePool,
    StoragePod,
    VirtualMachine,
)
from vgpu_cfg.lab.state.pcie import Bridges, Slot
from vgpu_cfg.lab.state.switch_members import EVERY_VLAN, connect, port_keys

VCENTER_SETTINGS: dict[str, bool | int | str] = {"vgpu.hotmigrate.enabled": False}
"""Advanced settings that a new vCenter has, as far as anything here asks for them."""


@dataclass(slots=True)
class Site:
    """A state being built, with the objects by name that the rest of the estate refers to."""

    state: LabState
    datacenter: Datacenter
    clusters: dict[str, Cluster] = field(default_factory=dict)
    hosts: dict[str, Host] = field(default_factory=dict)
    datastores: dict[str, Datastore] = field(default_factory=dict)
    pods: dict[str, StoragePod] = field(default_factory=dict)
    switches: dict[str, DistributedSwitch] = field(default_factory=dict)
    networks: dict[str, Network] = field(default_factory=dict)
    namesakes: dict[str, list[Network]] = field(default_factory=dict)
    """All networks of a name; `networks` has the last one."""

    def take(self, thing: Managed) -> None:
        """Take an object in as unchanged."""
        self.state.objects[thing.moid] = thing

    def add_folder(self, path: str) -> Folder:
        """Return the VM folder at a path of names, made as needed; empty is the datacenter's own."""
        at = self.state.get(self.datacenter.vm_folder, Folder)
        for name in path.split("/") if path else ():
            children = (self.state.find(moid, Folder) for moid in at.children)
            found = next((child for child in children if child is not None and child.name == name), None)
            if found is None:
                found = Folder(
                    moid=self.state.new_moid("group-v"),
                    name=name,
                    parent=at.moid,
                    child_types=CHILD_TYPES["vm"],
                )
                at.children[found.moid] = None
                self.take(found)
            at = found
        return at

    def add_datastore(
        self, name: str, kind: str, capacity_mib: int, free_mib: int, cluster: str = ""
    ) -> Datastore:
        """Add a datastore, of a datastore cluster or none; hosts mount it when they are added."""
        root = self.datacenter.datastore_folder
        if cluster and cluster not in self.pods:
            moid = self.state.new_moid("group-p")
            self.pods[cluster] = StoragePod(moid=moid, name=cluster, parent=root, child_types=("Datastore",))
            self._into(root, self.pods[cluster])
        parent = self.pods[cluster].moid if cluster else root
        made = Datastore(
            moid=self.state.new_moid("datastore"),
            name=name,
            parent=parent,
            kind=kind,
            capacity_mib=capacity_mib,
            free_mib=free_mib,
        )
        self.datastores[name] = made
        self._into(parent, made)
        return made

    def add_switch(self, name: str, mtu: int) -> DistributedSwitch:
        """Add a distributed switch with its uplink portgroup."""
        made = DistributedSwitch(
            moid=self.state.new_moid("dvs"),
            name=name,
            parent=self.datacenter.network_folder,
            uuid=_spaced_uuid(self.state.last_number),
            mtu=mtu,
        )
        self.switches[name] = made
        self._into(self.datacenter.network_folder, made)
        made.uplink_portgroup = self.add_network(f"{name}-DVUplinks", switch=name, is_uplink=True).moid
        return made

    def add_network(self, name: str, *, switch: str = "", vlan: int = 0, is_uplink: bool = False) -> Network:
        """Add a portgroup, distributed where it names a switch."""
        on = self.switches[switch] if switch else None
        made = Network(
            moid=self.state.new_moid("dvportgroup" if on else "network"),
            name=name,
            parent=self.datacenter.network_folder,
            switch=on.moid if on else "",
            vlan=vlan,
            trunk=EVERY_VLAN if is_uplink else (),
            is_uplink=is_uplink,
        )
        if on is not None:
            on.portgroups.append(made.moid)
        if not is_uplink:
            self.networks[name] = made
            self.namesakes.setdefault(name, []).append(made)
        self._into(self.datacenter.network_folder, made)
        return made

    def add_cluster(
        self, name: str, *, drs: str = "manual", ha: bool = True, standalone: bool = False
    ) -> Cluster:
        """Add a cluster, or a host's own compute resource, with its root resource pool."""
        made = Cluster(
            moid=self.state.new_moid("domain-s" if standalone else "domain-c"),
            name=name,
            parent=self.datacenter.host_folder,
            is_standalone=standalone,
            drs_enabled=drs != "off" and not standalone,
            drs_behavior="manual" if drs == "off" else drs,
            ha_enabled=ha and not standalone,
        )
        self._into(self.datacenter.host_folder, made)
        made.resource_pool = self.add_pool(made, "Resources").moid
        self.clusters[name] = made
        return made

    def add_pool(self, cluster: Cluster, name: str) -> ResourcePool:
        """Add a resource pool: the cluster's root pool first, then those below it."""
        above = self.state.find(cluster.resource_pool, ResourcePool)
        made = ResourcePool(
            moid=self.state.new_moid("resgroup"),
            name=name,
            parent=cluster.moid if above is None else above.moid,
            owner=cluster.moid,
        )
        if above is not None:
            above.pools.append(made.moid)
        self.take(made)
        return made

    def add_host(
        self, cluster: Cluster, host: Host, datastores: Iterable[str], networks: Iterable[str]
    ) -> Host:
        """Tie a host to its cluster, datastores and networks (names), and its NICs to their switches."""
        host.parent = cluster.moid
        cluster.hosts.append(host.moid)
        for store in (self.datastores[name] for name in datastores):
            host.datastores.append(store.moid)
            store.hosts.append(host.moid)
            if store.moid not in cluster.datastores:
                cluster.datastores.append(store.moid)
        for network in (one for name in networks for one in self._reached(host, name)):
            host.networks.append(network.moid)
            network.hosts.append(host.moid)
            if network.moid not in cluster.networks:
                cluster.networks.append(network.moid)
        self._connect(host)
        self.hosts[host.name] = host
        self.take(host)
        return host

    def _reached(self, host: Host, name: str) -> Iterable[Network]:
        """Return the network of a name; of several, those on the switches of the host's NICs, if any."""
        own = {self.switches[nic.uplink_of].moid for nic in host.nics if nic.uplink_of in self.switches}
        same = self.namesakes[name]
        return [one for one in same if len(same) == 1 or one.switch in own] or same[-1:]

    def _connect(self, host: Host) -> None:
        """Make a host a member of the switches that its NICs name or its networks are on."""
        of_networks = {self.state.get(moid, Network).switch for moid in host.networks}
        for name, switch in self.switches.items():
            devices = [nic.device for nic in host.nics if nic.uplink_of == name and name not in host.switches]
            if len(devices) > len(switch.uplink_names):
                switch.uplink_names = tuple(f"Uplink {at}" for at in range(1, len(devices) + 1))
            if devices or switch.moid in of_networks:
                connect(switch, host, dict(zip(devices, port_keys(switch, host.moid), strict=False)))

    def add_vm(
        self,
        vm: VirtualMachine,
        *,
        host: Host,
        folder: Folder,
        pool: ResourcePool | None,
        datastore: Datastore,
        disks_mib: Sequence[int],
        networks: Sequence[Network],
        passthrough: Sequence[object] = (),
        groups: Sequence[tuple[int, int] | None] = (),
        has_tpm: bool = False,
    ) -> VirtualMachine:
        """Tie a VM to its place, and give it the devices that it will have at the first request.

        `groups` are the passthrough devices' places in device groups, as `DeviceSeed` has them.
        """
        number = int(vm.moid.rsplit("-", 1)[1])
        nics = tuple(
            NicSeed(network.moid, network.name, self.switch_uuid(network), mac_of(number, index, self.state))
            for index, network in enumerate(networks)
        )
        seed = DeviceSeed(
            vm.name,
            datastore.moid,
            datastore.name,
            tuple(disks_mib),
            nics,
            tuple(passthrough),
            tuple(groups),
            has_tpm,
        )
        vm.seed = seed_devices(seed)
        vm.parent, vm.host, vm.datastore, vm.home = folder.moid, host.moid, datastore.moid, vm.name
        folder.children[vm.moid] = None
        host.vms[vm.moid] = None
        datastore.vms[vm.moid] = None
        if pool is not None:
            vm.resource_pool = pool.moid
            pool.vms[vm.moid] = None
        for network in networks:
            network.vms[vm.moid] = None
        self.take(vm)
        return vm

    def switch_uuid(self, network: Network) -> str:
        """Return the uuid of a portgroup's switch, empty for a standard portgroup."""
        return self.state.get(network.switch, DistributedSwitch).uuid if network.switch else ""

    def _into(self, folder: str, thing: Managed) -> None:
        self.state.get(folder, Folder).children[thing.moid] = None
        self.take(thing)


def new_site(estate: str, *, vcenter: str, release: str, datacenter: str) -> Site:
    """Begin a site: the root folder, one datacenter and its four folders."""
    shown = RELEASES[release]
    state = LabState(
        estate=estate,
        instance_uuid=str(uuid5(NAMESPACE_DNS, f"{estate}.{vcenter}")),
        version=shown.version,
        api_version=shown.api_version,
        settings=dict(VCENTER_SETTINGS),
    )
    root = Folder(moid=state.new_moid("group-d"), name="Datacenters", child_types=("Folder", "Datacenter"))
    state.root = root.moid
    state.objects[root.moid] = root
    return next_site(state, datacenter)


def next_site(state: LabState, datacenter: str) -> Site:
    """Begin another datacenter of a state, with its four folders."""
    root = state.get(state.root, Folder)
    center = Datacenter(moid=state.new_moid("datacenter"), name=datacenter, parent=root.moid)
    root.children[center.moid] = None
    site = Site(state, center)
    site.take(center)
    for kind, letter in (("vm", "v"), ("host", "h"), ("datastore", "s"), ("network", "n")):
        moid = state.new_moid(f"group-{letter}")
        site.take(Folder(moid=moid, name=kind, parent=center.moid, child_types=CHILD_TYPES[kind]))
        setattr(center, f"{kind}_folder", moid)
    return site


def _spaced_uuid(number: int) -> str:
    digits = uuid5(NAMESPACE_DNS, f"dvs-{number}").hex
    pairs = [digits[at : at + 2] for at in range(0, 32, 2)]
    return " ".join(pairs[:8]) + "-" + " ".join(pairs[8:])


_PARTS = {DAEMON_VIB: "daemon", "mft": "mft", "nmst": "nmst"}
"""The content of a bundle by the name of its VIB in `holds`; every other is the driver's."""

Complain = Callable[[tuple[str | int, ...], str], None]
"""Takes a place below the host's entry, and the fault there."""

NVIDIA = 0x10DE
CLASS_3D = 0x0302
CLASS_NETWORK = 0x0200
CLASS_OTHER_BRIDGE = 0x0680

HOST_BRIDGES = tuple(
    PciDevice(
        pci_id=f"0000:{bus:02x}:00.0",
        vendor_id=0x1022,
        device_id=0x1480,
        class_id=0x0600,
        vendor_name="Advanced Micro Devices, Inc. [AMD]",
        device_name="Starship/Matisse Root Complex",
        numa_node=node,
    )
    for node, bus in enumerate((0x00, 0x80))
)


def make_host(site: Site, part: file.HostPart, name: str, complain: Complain) -> Host:
    """Make a host with its GPUs, NICs and NUMA nodes; its cluster ties it in."""
    release = RELEASES[part.esxi]
    graphics = part.graphics_type
    configured, runtime = (
        (graphics.configured, graphics.runtime)
        if isinstance(graphics, file.GraphicsSetting)
        else (graphics, graphics if part.driver != "none" else "basic")
    )
    gpus = _make_gpus(part, runtime, complain)
    nics = _make_nics(site, part, complain)
    host = Host(
        moid=site.state.new_moid("host"),
        name=name,
        uuid=str(uuid5(NAMESPACE_DNS, name)),
        system_id=str(uuid5(NAMESPACE_DNS, f"system.{name}")),
        version=release.version,
        update=release.update,
        build=release.build,
        api_version=release.api_version,
        cpu_model=part.cpu.model,
        sockets=part.cpu.sockets,
        cores_per_socket=part.cpu.cores,
        hyperthreading=part.cpu.hyperthreading,
        cpu_mhz=part.cpu.mhz,
        memory_mib=part.memory,
        bios=BiosFacts(
            vendor=part.bios.vendor,
            model=part.bios.model,
            sriov=part.bios.sriov,
            above_4g=part.bios.above_4g,
            iommu=part.bios.iommu,
        ),
        driver=None
        if part.driver == "none"
        else HostDriver(part.driver.kind, part.driver.version, part.driver.gpu_daemon),
        other_pci=HOST_BRIDGES,
        gpus=[gpu for gpu, _ in gpus],
        nics=[nic for nic, _ in nics],
        nic_groups=tuple(_nic_group(group) for group in part.device_groups),
        configured_default_graphics_type=configured,
        assignment_policy=part.assignment_policy,
        configured_assignment_policy=part.assignment_policy,
        connection=part.connection,
        in_maintenance=part.maintenance,
        lockdown=part.lockdown,
        licence=part.licence or EVALUATION,
        acceptance=part.acceptance,
        profile=part.host_profile,
        rebinds_without_reboot=part.rebinds_without_reboot,
    )
    set_defaults(host, ats=part.ats)
    if part.mft:
        host.software |= {vib.name: vib for vib in MFT_VIBS}
    for bundle in part.bundles:
        driver = HostDriver(bundle.driver.kind, bundle.driver.version)
        vibs = (*bundle_vibs(driver, release_of(host)[0]), *MFT_VIBS)
        host.bundles[bundle.path] = tuple(
            replace(vib, level=bundle.level) for vib in vibs if _PARTS.get(vib.name, "driver") == bundle.holds
        )
    for gpu, gpu_part in gpus:
        if gpu_part.mode == "passthrough":
            host.passthrough[gpu.pci_id] = Passthrough(enabled=True, active=True, label=gpu_part.label)
    for nic, nic_part in nics:
        if nic_part.passthrough:
            host.passthrough[nic.pci.pci_id] = Passthrough(enabled=True, active=True, label=nic_part.label)
    _plug_in(host, gpus, nics, complain)
    host.numa_nodes = _numa_nodes(part, host)
    return host


def _nic_group(part: file.DeviceGroupPart) -> NicGroup:
    model = NIC_MODELS[part.nic]
    nics = ((model.vendor_id, model.device_id),) * part.nics
    return NicGroup(part.name, part.profile, nics, part.description)


def _plug_in(
    host: Host, gpus: list[tuple[Gpu, file.GpuPart]], nics: list[tuple[Nic, file.NicPart]], complain: Complain
) -> None:
    """Give GPUs and NICs the bridges above them, and the host the bridges."""
    plugged: list[tuple[Gpu | Nic, file.SlotPart]] = [*gpus, *nics]
    own = {device.pci_id for device in host.pci_devices() if is_endpoint(device)}

    def wrong(index: int, message: str) -> None:
        complain(("gpus",) if index < len(gpus) else ("nics",), message)

    kept = {device.pci_id: device for device in host.other_pci}
    bridges = Bridges(own | set(kept), wrong, dict(kept))
    for index, (thing, part) in sorted(
        enumerate(plugged), key=lambda item: bool(item[1][1].pcie_switch or item[1][1].pcie_root)
    ):
        thing.pci = bridges.above(index, thing.pci, Slot(part.pcie_switch, part.pcie_root))
    host.other_pci = (*bridges.made.values(), *_nvswitches(gpus))


_NVSWITCHES = {"Ampere": (6, 0x1AF1), "Hopper": (4, 0x22A3)}
"""By architecture, the number of NVSwitches on a board of eight GPUs, and their device ID (pci.ids)."""


def _nvswitches(gpus: list[tuple[Gpu, file.GpuPart]]) -> Iterator[PciDevice]:
    """Yield the NVSwitches that join a host's GPUs."""
    boards = (load_catalog().board(gpu.board) for gpu, _ in gpus if gpu.nvswitch)
    count, device_id = next((_NVSWITCHES.get(board.architecture, (0, 0)) for board in boards), (0, 0))
    for number in range(count):
        yield PciDevice(
            pci_id=f"0000:{0xF0 + number:02x}:00.0",
            vendor_id=NVIDIA,
            device_id=device_id,
            class_id=CLASS_OTHER_BRIDGE,
            vendor_name="NVIDIA Corporation",
            device_name="NVSwitch",
        )


def _make_gpus(part: file.HostPart, runtime: str, complain: Complain) -> list[tuple[Gpu, file.GpuPart]]:
    buses = iter((*GPU_BUSES, *range(0xE8, 0xFF)))
    taken: set[str] = set()
    made: list[tuple[Gpu, file.GpuPart]] = []
    for index, gpu in enumerate(part.gpus):
        board = load_catalog().board(gpu.board)
        for _ in range(gpu.count):
            pci_id = gpu.pci_id or next(
                f"0000:{bus:02x}:00.0" for bus in buses if f"0000:{bus:02x}:00.0" not in taken
            )
            if pci_id in taken:
                complain(("gpus", index), f"two devices have the address {pci_id}")
            taken.add(pci_id)
            made.append((_gpu(gpu, gpu_pci(board, pci_id, gpu.numa), runtime), gpu))
    for gpu_made, gpu in made:
        for peer in gpu.nvlink:
            if peer not in taken or peer == gpu_made.pci_id:
                complain(("gpus",), f"there is no other GPU at {peer} to connect by NVLink")
    _give_modules(made, complain)
    return made


def _give_modules(gpus: list[tuple[Gpu, file.GpuPart]], complain: Complain) -> None:
    """Give the GPUs of an NVSwitch board the module ids that the file leaves out, by their addresses."""
    switched = sorted((item for item in gpus if item[0].nvswitch), key=lambda item: item[0].pci_id)
    for order, (gpu, part) in enumerate(switched):
        default = MODULE_IDS[order] if order < len(MODULE_IDS) else None
        gpu.module_id = part.module if part.module is not None else default
        if gpu.module_id is None or [each.module_id for each, _ in switched[:order]].count(gpu.module_id):
            complain(
                ("gpus",), (f"the GPU at {gpu.pci_id} does not have its own module ID on the NVSwitch board")
            )


def _make_nics(site: Site, part: file.HostPart, complain: Complain) -> list[tuple[Nic, file.NicPart]]:
    made: list[tuple[Nic, file.NicPart]] = []
    number = site.state.last_number
    for index, nic in enumerate(part.nics):
        model = NIC_MODELS[nic.model]
        pci_id = nic.pci_id or f"0000:{NIC_BUSES[index % 8]:02x}:00.{index // 8}"
        if nic.switch and nic.switch != MANAGEMENT_SWITCH and nic.switch not in site.switches:
            complain(("nics", index, "switch"), f"there is no switch {nic.switch!r}")
        port = Nic(
            device=nic.vmnic or f"vmnic{index}",
            pci=nic_pci(model, pci_id, nic.numa),
            mac=f"b8:ce:f6:{number >> 8 & 0xFF:02x}:{number & 0xFF:02x}:{index:02x}",
            driver=model.driver,
            speed_mbps=nic.speed_gbps * 1000,
            uplink_of=nic.switch,
            rdma_device=f"vmrdma{index}",
            max_vfs=model.max_vfs,
            firmware=nic_firmware({"ATS_ENABLED": "True(1)"} | nic.firmware if nic.ats else nic.firmware),
            firmware_needs_cold_boot=nic.cold_boot,
        )
        if port.is_infiniband and nic.switch:
            complain(("nics", index, "switch"), "an InfiniBand port cannot be an uplink")
        made.append((port, nic))
    return made


def _numa_nodes(part: file.HostPart, host: Host) -> tuple[NumaNode, ...]:
    count = part.numa_nodes or part.cpu.sockets
    return tuple(
        NumaNode(
            node,
            host.cores // count,
            host.memory_mib // count,
            tuple(pci.pci_id for pci in host.pci_devices() if pci.numa_node == node)
            if part.numa_tells_pci
            else (),
        )
        for node in range(count)
    )


def _gpu(part: file.GpuPart, pci: PciDevice, runtime: Any) -> Gpu:
    board = load_catalog().board(part.board)
    is_mig, mixed = part.mode == "mig", part.mode == "mixed_size"
    return Gpu(
        pci=pci,
        board=part.board,
        name=gpu_name(board),
        memory_mib=board.framebuffer_mib,
        graphics_type="direct" if part.mode == "passthrough" else runtime,
        vgpu_mode="mixedSize" if mixed else "sameSize",
        configured_vgpu_mode="mixedSize" if mixed else None,
        mig_enabled=is_mig,
        mig_pending=is_mig,
        ecc_enabled=part.ecc,
        ecc_pending=part.ecc,
        nvlink_peers=part.nvlink,
        nvswitch=part.nvswitch,
        day=part.day,
        health=dict(part.health),
    )


def gpu_pci(board: Board, pci_id: str, numa_node: int) -> PciDevice:
    """Return the PCI function of a GPU, with the ids of the board's first variant."""
    ids = board.pci_ids[0]
    return PciDevice(
        pci_id=pci_id,
        vendor_id=NVIDIA,
        device_id=ids.device_id,
        subvendor_id=NVIDIA,
        subdevice_id=ids.subsystem_id or 0,
        class_id=CLASS_3D,
        vendor_name="NVIDIA Corporation",
        device_name=gpu_name(board),
        numa_node=numa_node,
        parent_bridge=_bridge_before(pci_id),
    )


def gpu_name(board: Board) -> str:
    """Return the name that the host shows of a board."""
    return f"NVIDIA {board.names[0]}"


def nic_pci(model: NicModel, pci_id: str, numa_node: int) -> PciDevice:
    """Return the PCI function of a NIC port."""
    return PciDevice(
        pci_id=pci_id,
        vendor_id=model.vendor_id,
        device_id=model.device_id,
        subvendor_id=model.vendor_id,
        subdevice_id=0x0001,
        class_id=CLASS_NETWORK,
        vendor_name="Mellanox Technologies",
        device_name=model.name,
        numa_node=numa_node,
        parent_bridge=_bridge_before(pci_id),
    )


def _bridge_before(pci_id: str) -> str:
    domain, bus, _ = pci_id.split(":")
    return f"{domain}:{int(bus, 16) - 1:02x}:00.0"
