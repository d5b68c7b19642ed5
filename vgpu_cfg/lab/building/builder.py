"""Turn an estate file into a state: names resolved, hosts made, and VMs powered on by the rules.

Customization specifications are turned from the form of an estate file into the form that vCenter keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time
from functools import partial
from ipaddress import ip_interface
from typing import Any, TypeVar
from uuid import NAMESPACE_DNS, NAMESPACE_URL, uuid5

from pyVmomi import vim, vmodl

from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.lab.building.site import Site, make_host, new_site, next_site
from vgpu_cfg.lab.estates import estate as file
from vgpu_cfg.lab.estates.files import EstateFile
from vgpu_cfg.lab.guest.system.creation import IMAGE_NAME, make_guest, mark_long_running
from vgpu_cfg.lab.rules import admission
from vgpu_cfg.lab.rules.customization import OWN_KEY
from vgpu_cfg.lab.rules.gpu_load import PICK_LEAST_LOADED
from vgpu_cfg.lab.rules.hardware import OLDEST_DEVICE_GROUP_VERSION
from vgpu_cfg.lab.rules.nvlink import offered_groups
from vgpu_cfg.lab.simulation.clock import VMS_RUN_SINCE, as_datetime
from vgpu_cfg.lab.state.cluster import Image
from vgpu_cfg.lab.state.devices import FIRST_PASSTHROUGH, dynamic_backing, vgpu_backing
from vgpu_cfg.lab.state.inventory import (
    Alarm,
    AlarmState,
    Cluster,
    Datastore,
    DirectPathProfile,
    Host,
    KeyProvider,
    LabState,
    Network,
    ResourcePool,
    StoragePolicy,
    VirtualMachine,
    VmOverride,
    take_snapshot,
)
from vgpu_cfg.lab.state.libraries import VM_TEMPLATE, add_item, add_library
from vgpu_cfg.lab.state.tags import add_category, add_tag, objects_of, set_attribute

KEY_PROVIDER_KINDS = {"native": "nativeProvider", "standard": "vCenter"}
"""The estate's words and those of vim `KmipClusterInfo.KmsManagementType`."""

Loc = tuple[str | int, ...]
Thing = TypeVar("Thing", Datastore, Network)

_Customization: Any = vim.vm.customization
_ANOTHER_KEY = list(b"another vCenter's public key")


def _bend(host: Host, denies: Callable[[str], bool]) -> None:
    """Make beliefs about a host false."""
    if denies("first-3g-instance-at-slice-4"):
        host.mig_starts = "low"
    elif denies("starts-within-a-gpu"):
        host.mig_starts = "in turns"
    if denies("ats-support-option"):
        setting = host.kernel.pop("atsSupport", None)
        if setting is not None:
            setting.configured = setting.runtime = setting.default = "FALSE"
            host.kernel["vtdAtsSupport"] = replace(setting, is_option=False)


def _renamed(component: str) -> str:
    """Return another name for a component of NVIDIA's."""
    return f"gpu-{component}" if component.casefold().startswith("nvd-") else component


def _admission_control(percent: int) -> Any:
    kept = {"cpuFailoverResourcesPercent": percent, "memoryFailoverResourcesPercent": percent}
    policy = vim.cluster.FailoverResourcesAdmissionControlPolicy(**kept)
    return vim.cluster.DasConfigInfo(admissionControlEnabled=True, admissionControlPolicy=policy)


def build_state(source: EstateFile) -> LabState:
    """Build the state of an estate. Raises `DocumentError` where names or running VMs do not fit."""
    return _Builder(source).build()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A passthrough device to be: where it runs, and its place in a device group (key, sequence id)."""

    backing: Any
    on: str | None = None
    group: tuple[int, int] | None = None
    group_name: str = ""


class _Builder:
    def __init__(self, source: EstateFile) -> None:
        self.source = source
        self.estate = source.estate
        center = self.estate.vcenter
        self.site: Site = new_site(
            source.name, vcenter=center.name, release=center.release, datacenter=self.estate.datacenter
        )
        self.state = self.site.state
        self.state.settings |= center.settings
        self.state.licences = center.licences
        self.state.licence_ends = {
            key: datetime.combine(day, time(), UTC).timestamp() for key, day in center.licence_ends.items()
        }
        self.state.extensions = center.extensions
        self.state.statistics_level = center.statistics_level
        self.state.key_providers = tuple(
            KeyProvider(provider.name, KEY_PROVIDER_KINDS[provider.kind], provider.default)
            for provider in center.key_providers
        )
        self.state.direct_path = tuple(
            DirectPathProfile(f"direct-path-{number}", one.name, one.vgpu, dict(one.reserved))
            for number, one in enumerate(center.direct_path, start=1)
        )
        self.state.storage_policies = tuple(
            StoragePolicy(
                str(uuid5(NAMESPACE_URL, f"policy.{one.name}")), one.name, one.description, one.datastores
            )
            for one in center.storage_policies
        )
        self.state.customization_specs = {
            one.name: make_customization_spec(one) for one in center.customization_specs
        }
        self.tags: dict[tuple[str, str], str] = {}
        for category in center.tag_categories:
            cardinality = "SINGLE" if category.single else "MULTIPLE"
            made = add_category(self.state, category.name, cardinality, list(category.types))
            for tag in category.tags:
                self.tags[category.name, tag] = add_tag(self.state, made, tag)
        self.state.internet = self.estate.internet
        self.state.lies = frozenset(self.estate.lies)
        self.faults: list[DocumentFault] = []

    def build(self) -> LabState:
        self._check_policies()
        self._add_datacenter(self.estate, ())
        for index, library in enumerate(self.estate.vcenter.libraries):
            self._add_library(library, ("vcenter", "libraries", index))
        self._add_vms(self.estate, ())
        for index, part in enumerate(self.estate.beside):
            self.site = next_site(self.state, part.datacenter)
            self._add_datacenter(part, ("beside", index))
            self._add_vms(part, ("beside", index))
        self._stop_at_faults()
        for host in self.state.all(Host) if self.state.lies else ():
            _bend(host, self.state.denies)
        self.state.count_as_unchanged()
        return self.state

    def _add_datacenter(self, part: file.DatacenterPart, loc: Loc) -> None:
        self._add_stock(part, loc)
        for index, cluster in enumerate(part.clusters):
            self._add_cluster(cluster, (*loc, "clusters", index))
        self._stop_at_faults()
        for folder in part.folders:
            self.site.add_folder(folder)
        for index, template in enumerate(part.templates):
            host = self._host(template.host, "", (*loc, "templates", index))
            if host is not None:
                self._add_machine(template, template.name, host, (*loc, "templates", index))

    def _add_vms(self, part: file.DatacenterPart, loc: Loc) -> None:
        for index, vm in enumerate(part.vms):
            for name in vm.all_names:
                self._add_vm(vm, name, (*loc, "vms", index))

    def _image(self, part: file.ImagePart) -> Image:
        image = Image(**part.model_dump())
        if self.state.denies("driver-component-names"):
            image.components = {_renamed(name): version for name, version in image.components.items()}
            image.depot = {_renamed(name): versions for name, versions in image.depot.items()}
        return image

    def _add_library(self, part: file.LibraryPart, loc: Loc) -> None:
        templates = {vm.name: vm.moid for vm in self.state.all(VirtualMachine) if vm.is_template}
        made = add_library(self.state, part.name)
        for index, item in enumerate(part.items):
            if item.template and item.template not in templates:
                self._complain((*loc, "items", index), f"there is no template {item.template!r}")
            elif item.template:
                add_item(self.state, made, item.name, VM_TEMPLATE, templates[item.template])
            else:
                add_item(self.state, made, item.name, item.type)

    def _check_policies(self) -> None:
        names = {store.name for part in (self.estate, *self.estate.beside) for store in part.datastores}
        for index, policy in enumerate(self.estate.vcenter.storage_policies):
            for name in sorted({*policy.datastores} - names):
                where = ("vcenter", "storage_policies", index, "datastores")
                self._complain(where, f"there is no datastore {name!r}")

    def _add_stock(self, part: file.DatacenterPart, loc: Loc) -> None:
        for store in part.datastores:
            made = self.site.add_datastore(store.name, store.kind, store.capacity, store.free, store.cluster)
            made.in_maintenance = store.maintenance
        for switch in part.switches:
            self.site.add_switch(switch.name, switch.mtu)
        for index, network in enumerate(part.networks):
            if network.switch and network.switch not in self.site.switches:
                self._complain((*loc, "networks", index, "switch"), f"there is no switch {network.switch!r}")
            else:
                self.site.add_network(network.name, switch=network.switch, vlan=network.vlan)

    def _add_cluster(self, part: file.ClusterPart, loc: Loc) -> None:
        cluster = None
        if not part.standalone:
            cluster = self.site.add_cluster(part.name, drs=part.drs, ha=part.ha)
            cluster.drs_options |= part.drs_options
            cluster.image_managed = part.image_managed or part.image is not None
            cluster.image = self._image(part.image) if part.image is not None else None
            cluster.config_managed = part.config_managed
            if part.admission_control:
                cluster.das = _admission_control(part.admission_control)
            for pool in part.resource_pools:
                if isinstance(pool, str):
                    self.site.add_pool(cluster, pool)
                else:
                    self.site.add_pool(cluster, pool.name).memory = vim.ResourceAllocationInfo(
                        limit=pool.memory_limit,
                        reservation=pool.memory_reservation,
                        expandableReservation=False if pool.memory_reservation else None,
                    )
        for index, host in enumerate(part.hosts):
            at = (*loc, "hosts", index)
            stores = self._known(host.datastores, self.site.datastores, (*at, "datastores"), "datastore")
            networks = self._known(host.networks, self.site.networks, (*at, "networks"), "network")
            for name in host.all_names:
                if name in self.site.hosts:
                    self._complain(at, f"there are two hosts {name!r}")
                    continue
                of = cluster or self.site.add_cluster(name, standalone=True)
                made = make_host(self.site, host, name, partial(self._complain_below, at))
                self.site.add_host(of, made, stores, networks)
                for alarm in host.alarms:
                    self._trigger(alarm, made)

    def _trigger(self, part: file.AlarmPart, host: Host) -> None:
        """Trigger an alarm of the root folder, which is defined for the first of its hosts."""
        alarm = next((one for one in self.state.all(Alarm) if one.name == part.name), None)
        if alarm is None:
            never = vim.alarm.AlarmExpression()
            spec = vim.alarm.AlarmSpec(name=part.name, description="", enabled=True, expression=never)
            at, moid = VMS_RUN_SINCE, self.state.new_moid(Alarm.moid_prefix)
            alarm = Alarm(moid=moid, name=part.name, parent=self.state.root, spec=spec, modified=at)
            self.state.alarms.append(self.state.add(alarm).moid)
        alarm.triggered[host.moid] = AlarmState(part.status, VMS_RUN_SINCE, part.acknowledged)

    def _known(self, wanted: tuple[str, ...] | None, known: Any, loc: Loc, noun: str) -> list[str]:
        if wanted is None:
            return list(known)
        for index, name in enumerate(wanted):
            if name not in known:
                self._complain((*loc, index), f"there is no {noun} {name!r}")
        return [name for name in wanted if name in known]

    def _add_vm(self, part: file.VmPart, name: str, loc: Loc) -> None:
        host = self._host(part.host, part.cluster, loc)
        if host is None:
            return
        wanted = list(self._wanted(host, part, loc))
        vm = self._add_machine(part, name, host, loc, wanted)
        if vm is None:
            return
        self._override(part, vm, self.state.get(host.parent, Cluster), loc)
        for attribute, value in part.attributes.items():
            set_attribute(self.state, vm, attribute, value)
        for category, tags in part.tags.items():
            for tag in tags:
                self._tag(vm, category, tag, (*loc, "tags", category))
        if part.power == "off":
            return
        forced = {
            FIRST_PASSTHROUGH + index: device.on
            for index, device in enumerate(wanted)
            if device.on is not None
        }
        try:
            admitted = admission.admit(self.state, vm, host, PICK_LEAST_LOADED, forced, has_swap=True)
        except vmodl.MethodFault as fault:
            self._complain(loc, f"{name} cannot run on {host.name}: {_text_of(fault)}")
        else:
            admission.start(self.state, vm, host, admitted, now=VMS_RUN_SINCE)
            mark_long_running(vm)

    def _tag(self, vm: VirtualMachine, category: str, name: str, loc: Loc) -> None:
        tag_id = self.tags.get((category, name))
        if tag_id is None:
            self._complain(loc, f"there is no tag {name!r} in a category {category!r}")
            return
        objects_of(self.state, tag_id).append([vm.wsdl_type, vm.moid])

    def _override(self, part: file.VmPart, vm: VirtualMachine, cluster: Cluster, loc: Loc) -> None:
        """Set the cluster's overrides for a VM from the estate."""
        settings = None
        if part.restart_priority or part.vm_monitoring:
            monitoring: Any = vim.cluster.VmToolsMonitoringSettings
            settings = vim.cluster.DasVmSettings(
                restartPriority=part.restart_priority,
                vmToolsMonitoringSettings=part.vm_monitoring
                and monitoring(vmMonitoring=part.vm_monitoring, clusterSettings=False),
            )
        if part.drs is None and settings is None:
            return
        if cluster.is_standalone:
            self._complain(loc, f"{vm.name} is not in a cluster that can set something for it")
            return
        cluster.overrides[vm.moid] = VmOverride(
            drs_enabled=None if part.drs is None else part.drs != "off",
            drs_behavior=None if part.drs == "off" else part.drs,
            das_settings=settings,
        )

    def _wanted(self, host: Host, part: file.VmPart, loc: Loc) -> Iterator[_Wanted]:
        """Yield the passthrough devices of a VM; each device group has a key of its own, from 1 on."""
        for index, gpu in enumerate(part.gpus):
            if not isinstance(gpu, file.PlacedGroup):
                yield _Wanted(_backing(host, gpu), gpu.on if isinstance(gpu, file.PlacedVgpu) else None)
                continue
            offer = offered_groups(host).get(gpu.group)
            if offer is None or part.hardware_version < OLDEST_DEVICE_GROUP_VERSION:
                why = f"{host.name} offers no group {gpu.group!r} to hardware version {part.hardware_version}"
                self._complain((*loc, "gpus", index), why)
                continue
            places: list[str | None] = [*_in_order(host, gpu.on)] or [None] * offer.size
            if len(places) != offer.size:
                self._complain((*loc, "gpus", index, "on"), f"the group requires {offer.size} GPUs")
                continue
            for sequence, pci_id in enumerate(places):
                yield _Wanted(vgpu_backing(offer.profile), pci_id, (index + 1, sequence), gpu.group)
            for sequence, ids in enumerate(offer.nics, start=offer.size):
                yield _Wanted(dynamic_backing([ids]), None, (index + 1, sequence), gpu.group)

    def _add_machine(
        self, part: file.MachinePart, name: str, host: Host, loc: Loc, devices: Sequence[_Wanted] = ()
    ) -> VirtualMachine | None:
        folder = self.site.add_folder(part.folder)
        if any(self.state.objects[moid].name == name for moid in folder.children):
            self._complain(loc, f"there are two {name!r} in the folder {part.folder!r}")
            return None
        store = self._one(part.datastore, self.site.datastores, (*loc, "datastore"), "datastore")
        wanted = tuple(self.site.networks)[:1] if part.networks is None else part.networks
        networks = [
            self._one(network, self.site.networks, (*loc, "networks"), "network") for network in wanted
        ]
        if store is None or None in networks:
            return None
        vm = self._machine(part, name, has_gpu=bool(devices))
        vm.device_groups = {device.group[0]: device.group_name for device in devices if device.group}
        is_template = isinstance(part, file.TemplatePart)
        vm.is_template = is_template
        if part.nested:
            vm.extra["nestedHVEnabled"] = True
        if isinstance(part, file.VmPart) and part.managed_by is not None:
            vm.extra["managedBy"] = vim.ext.ManagedByInfo(
                extensionKey=part.managed_by.extension, type=part.managed_by.type
            )
        made = self.site.add_vm(
            vm,
            host=host,
            folder=folder,
            pool=None if is_template else self._pool(part, host, loc),
            datastore=store,
            disks_mib=part.disks,
            networks=[network for network in networks if network is not None],
            passthrough=[device.backing for device in devices],
            groups=[device.group for device in devices],
            has_tpm=part.vtpm,
        )
        for snapshot in part.snapshots:
            take_snapshot(self.state, made, snapshot, VMS_RUN_SINCE)
        return made

    def _machine(self, part: file.MachinePart, name: str, *, has_gpu: bool) -> VirtualMachine:
        reserved = has_gpu if part.reserve_memory is None else part.reserve_memory
        return VirtualMachine(
            moid=self.state.new_moid("vm"),
            name=name,
            uuid=str(uuid5(NAMESPACE_DNS, f"bios.{self.state.last_number}")),
            instance_uuid=str(uuid5(NAMESPACE_DNS, f"instance.{self.state.last_number}")),
            cpus=part.cpus,
            cpu_mhz=part.cpu_mhz if isinstance(part, file.VmPart) else None,
            memory_mib=part.memory,
            memory_reservation_mib=part.memory if reserved else 0,
            memory_reservation_locked=reserved,
            firmware=part.firmware,
            secure_boot=part.secure_boot,
            boot_delay_ms=part.boot_delay,
            cpu_reservation_mhz=part.cpu_reservation,
            cpu_hot_add=part.cpu_hot_add,
            memory_hot_add=part.memory_hot_add,
            latency_sensitivity=part.latency,
            hardware_version=part.hardware_version,
            guest_id=part.guest_id,
            annotation=part.annotation,
            created=VMS_RUN_SINCE,
            extra_config=dict(part.extra_config),
            tools_installed=part.guest.tools,
            made_guest=make_guest(
                part.guest, part.disks, name if isinstance(part, file.VmPart) else IMAGE_NAME
            ),
        )

    def _one(self, name: str, known: dict[str, Thing], loc: Loc, noun: str) -> Thing | None:
        found = known.get(name) if name else next(iter(known.values()), None)
        if found is None:
            self._complain(loc, f"there is no {noun} {name!r}")
        return found

    def _pool(self, part: file.MachinePart, host: Host, loc: Loc) -> ResourcePool | None:
        cluster = self.state.get(host.parent, Cluster)
        root = self.state.get(cluster.resource_pool, ResourcePool)
        name = part.resource_pool if isinstance(part, file.VmPart) else ""
        if not name:
            return root
        pools = (self.state.get(moid, ResourcePool) for moid in root.pools)
        found = next((pool for pool in pools if pool.name == name), None)
        if found is None:
            self._complain((*loc, "resource_pool"), f"there is no resource pool {name!r} in {cluster.name!r}")
        return found

    def _host(self, name: str, cluster: str, loc: Loc) -> Host | None:
        if name:
            if name not in self.site.hosts:
                self._complain((*loc, "host"), f"there is no host {name!r}")
            return self.site.hosts.get(name)
        if cluster and cluster not in self.site.clusters:
            self._complain((*loc, "cluster"), f"there is no cluster {cluster!r}")
            return None
        hosts = [host for host in self.site.hosts.values() if host.is_usable]
        if cluster:
            hosts = [host for host in hosts if host.parent == self.site.clusters[cluster].moid]
        if not hosts:
            self._complain(loc, "it has no host")
            return None
        return hosts[0]

    def _complain_below(self, above: Loc, below: Loc, message: str) -> None:
        self._complain((*above, *below), message)

    def _complain(self, loc: Loc, message: str) -> None:
        self.faults.append(self.source.document.fault(loc, message))

    def _stop_at_faults(self) -> None:
        if self.faults:
            raise DocumentError(self.faults)


def _in_order(host: Host, pci_ids: Sequence[str]) -> list[str]:
    """Return addresses as the GPUs of a set are ordered: by module ids, then by themselves."""
    modules = {gpu.pci_id: gpu.module_id or 0 for gpu in host.gpus}
    return sorted(pci_ids, key=lambda pci_id: (modules.get(pci_id, 0), pci_id))


def _backing(host: Host, gpu: file.VmGpu) -> Any:
    passthrough = vim.vm.device.VirtualPCIPassthrough
    match gpu:
        case str():
            return vgpu_backing(gpu)
        case file.PlacedVgpu():
            return vgpu_backing(gpu.profile)
        case file.PlacedGroup():
            raise TypeError("a group requires several backings")
        case file.LabelledDevice():
            labelled = [
                pci for pci in host.pci_devices() if host.passthrough_of(pci.pci_id).label == gpu.label
            ]
            ids = dict.fromkeys((pci.vendor_id, pci.device_id) for pci in labelled)
            return dynamic_backing(ids, gpu.label)
        case file.FixedDevice():
            pci = next((pci for pci in host.pci_devices() if pci.pci_id == gpu.pci_id), None)
            return passthrough.DeviceBackingInfo(
                id=gpu.pci_id,
                deviceId=format(pci.device_id if pci else 0, "x"),
                systemId=host.system_id,
                vendorId=pci.vendor_id if pci else 0,
                deviceName=pci.device_name if pci else "",
            )


def _text_of(fault: vmodl.MethodFault) -> str:
    return str(getattr(fault, "msg", "") or type(fault).__name__)


def make_customization_spec(part: file.CustomizationSpecPart) -> Any:
    """Return the vim `CustomizationSpecItem` of a part of an estate."""
    is_linux = part.type == "Linux"
    settings = _Customization.GlobalIPSettings(dnsServerList=list(part.dns))
    spec = _Customization.Specification(
        options=_Customization.LinuxOptions() if is_linux else _Customization.WinOptions(),
        identity=_linux(part) if is_linux else _windows(part),
        globalIPSettings=settings,
        nicSettingMap=[_Customization.AdapterMapping(adapter=_adapter(text)) for text in part.nics],
        encryptionKey=_ANOTHER_KEY if part.password == "foreign" else OWN_KEY,  # noqa: S105 - no password
    )
    info = vim.CustomizationSpecInfo(
        name=part.name,
        description=part.description,
        type=part.type,
        changeVersion="1",
        lastUpdateTime=as_datetime(VMS_RUN_SINCE),
    )
    return vim.CustomizationSpecItem(info=info, spec=spec)


def _linux(part: file.CustomizationSpecPart) -> Any:
    return _Customization.LinuxPrep(hostName=_name(part.hostname), domain=part.domain, hwClockUTC=True)


def _windows(part: file.CustomizationSpecPart) -> Any:
    password = _Customization.Password(value="3Gs", plainText=False) if part.password else None
    user = _Customization.UserData(
        fullName="lab", orgName="lab", computerName=_name(part.hostname), productId=""
    )
    return _Customization.Sysprep(
        guiUnattended=_Customization.GuiUnattended(
            password=password, timeZone=85, autoLogon=False, autoLogonCount=0
        ),
        userData=user,
        identification=_Customization.Identification(joinWorkgroup="WORKGROUP"),
    )


def _name(text: str) -> Any:
    match text:
        case "vm":
            return _Customization.VirtualMachineNameGenerator()
        case "ask":
            return _Customization.UnknownNameGenerator()
        case _:
            return _Customization.FixedName(name=text)


def _adapter(text: str) -> Any:
    match text:
        case "dhcp":
            return _Customization.IPSettings(ip=_Customization.DhcpIpGenerator())
        case "ask":
            return _Customization.IPSettings(ip=_Customization.UnknownIpGenerator())
        case _:
            address = ip_interface(text)
            return _Customization.IPSettings(
                ip=_Customization.FixedIp(ipAddress=str(address.ip)), subnetMask=str(address.netmask)
            )
