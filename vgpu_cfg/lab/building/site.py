"""Turn an estate into managed objects: datacenter, clusters, hosts and VMs, each tied to its neighbours.

Both the estate file (`builder`) and the generated fleet (`fleet`) build with it. Built objects count as
unchanged: their revision is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from uuid import NAMESPACE_DNS, uuid5

from vgpu_cfg.lab.estates.stock import RELEASES
from vgpu_cfg.lab.state.devices import DeviceSeed, NicSeed, mac_of, seed_devices
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
        for network in (self.networks[name] for name in networks):
            host.networks.append(network.moid)
            network.hosts.append(host.moid)
            if network.moid not in cluster.networks:
                cluster.networks.append(network.moid)
        self._connect(host)
        self.hosts[host.name] = host
        self.take(host)
        return host

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
