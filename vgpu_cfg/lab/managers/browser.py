"""The environment browser: the offers of a host or a compute resource to VMs, and hardware versions.

Of the devices only those relevant for vGPUs are listed: PCI passthrough with its backings, and the PCI
controller with its limits. vGPUs per VM are those of recorded answers; processor and memory limits are
recalled from VMware's configuration maximums.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.catalog import ProfileEntry, load_catalog
from vgpu_cfg.lab.api.references import Service, reference
from vgpu_cfg.lab.api.versions import version_name
from vgpu_cfg.lab.renderers.hardware import pci_device
from vgpu_cfg.lab.renderers.inventory import LARGEST_FILE, capability, summary
from vgpu_cfg.lab.renderers.network import network_summary
from vgpu_cfg.lab.renderers.table import cut
from vgpu_cfg.lab.renderers.vm import GUEST_NAMES, version_key, vm_capability
from vgpu_cfg.lab.rules.gpu_load import creatable_profiles, known_profiles
from vgpu_cfg.lab.rules.hardware import max_hardware_version, max_passthrough, max_vgpus
from vgpu_cfg.lab.rules.nvlink import GroupOffer, offered_groups
from vgpu_cfg.lab.simulation.operations import Context, answers
from vgpu_cfg.lab.state.devices import dynamic_backing, vgpu_backing
from vgpu_cfg.lab.state.host import Gpu, is_endpoint
from vgpu_cfg.lab.state.inventory import Cluster, Datastore, DistributedSwitch, Host, Network
from vgpu_cfg.model.vgpu import Sharing

BANDWIDTHS_MBPS = (10_000, 25_000, 100_000)
"""Migration networks for which the lab estimates stun times."""


def device_vendor_id(gpu: Gpu) -> int:
    """Return both ids in one number, as vim `VgpuProfileInfo.deviceVendorId` has them."""
    return gpu.pci.device_id << 16 | gpu.pci.vendor_id


def vgpu_profile_info(host: Host) -> list[Any]:
    """Return every profile of the host's driver, once per board; A and B types count as quadro."""
    by_board = {load_catalog().board(gpu.board).key: device_vendor_id(gpu) for gpu in host.gpus}
    return [_profile_info(entry, by_board[entry.board.key]) for entry in known_profiles(host)]


def _profile_info(entry: ProfileEntry, ids: int) -> Any:
    return vim.vm.VgpuProfileInfo(
        name=entry.name,
        profileName=entry.name,
        deviceVendorId=ids,
        fbSizeInGib=entry.profile.framebuffer_gb,
        profileSharing="mig" if entry.profile.sharing is Sharing.MIG else "timeSliced",
        profileClass="compute" if entry.profile.series == "C" else "quadro",
        stunTimeEstimates=_stun_times(entry.framebuffer_mib),
    )


def _stun_times(framebuffer_mib: int) -> list[Any]:
    """Return how long a vMotion stops a VM with a full vGPU, in milliseconds by bandwidth.

    Invented: a tenth of a second, and the framebuffer sent once. The units were not read anywhere.
    """
    bits = framebuffer_mib * 2**20 * 8
    return [
        vim.vm.VMotionStunTimeInfo(
            name=f"{bandwidth} Mbps", migrationBW=bandwidth, stunTime=100 + bits // (bandwidth * 1000)
        )
        for bandwidth in BANDWIDTHS_MBPS
    ]


def vgpu_device_info(host: Host) -> list[Any]:
    """Return one entry per board that serves vGPUs."""
    entries = known_profiles(host)
    found: dict[str, Any] = {}
    for gpu in host.gpus:
        key = load_catalog().board(gpu.board).key
        own = [entry for entry in entries if entry.board.key == key]
        if own and gpu.board not in found:
            found[gpu.board] = vim.vm.VgpuDeviceInfo(
                name=gpu.name,
                deviceName=gpu.name,
                deviceVendorId=device_vendor_id(gpu),
                maxFbSizeInGib=own[0].board.framebuffer_gb,
                timeSlicedCapable=any(entry.mig is None for entry in own),
                migCapable=any(entry.mig is not None for entry in own),
                computeProfileCapable=any(entry.profile.series == "C" for entry in own),
                quadroProfileCapable=any(entry.profile.series == "Q" for entry in own),
            )
    return list(found.values())


def shared_gpu_types(hosts: Iterable[Host]) -> list[Any]:
    """Return the profiles that some host could create now."""
    names = dict.fromkeys(name for host in hosts for name in creatable_profiles(host))
    return [vim.vm.PciSharedGpuPassthroughInfo(name=name, vgpu=name) for name in names]


def pci_passthrough(host: Host) -> list[Any]:
    """Return the functions that can be handed through now, with the systemId that a device must carry."""
    return [
        vim.vm.PciPassthroughInfo(name=device.pci_id, pciDevice=pci_device(device), systemId=host.system_id)
        for device in host.pci_devices()
        if is_endpoint(device) and host.is_passed_through(device.pci_id)
    ]


def sriov(host: Host) -> list[Any]:
    """Return the NICs that can have virtual functions; the functions themselves are not listed by the lab.

    A recorded host names its system id here before anything is handed out.
    """
    return [
        vim.vm.SriovInfo(
            name=nic.pci.pci_id,
            pciDevice=pci_device(nic.pci),
            systemId=host.system_id,
            virtualFunction=False,
            pnic=nic.device,
        )
        for nic in host.nics
        if nic.max_vfs
    ]


def dynamic_passthrough(hosts: Iterable[Host]) -> list[Any]:
    """Return each kind of function that Dynamic DirectPath could assign: vendor, device and label."""
    found: dict[tuple[int, int, str], Any] = {}
    for host in hosts:
        for device in host.pci_devices():
            state = host.passthrough_of(device.pci_id)
            if state.active and is_endpoint(device):
                found.setdefault(
                    (device.vendor_id, device.device_id, state.label),
                    vim.vm.DynamicPassthroughInfo(
                        name=device.device_name,
                        vendorName=device.vendor_name,
                        deviceName=device.device_name,
                        customLabel=state.label or None,
                        vendorId=device.vendor_id,
                        deviceId=device.device_id,
                    ),
                )
    return list(found.values())


def device_groups(host: Host) -> list[Any]:
    """Return the groups of GPUs joined by NVLink or near NICs, with a device to copy for each member."""
    return [_device_group(host, offer) for offer in offered_groups(host).values()]


def _device_group(host: Host, offer: GroupOffer) -> Any:
    parts = [
        *(("nvidiaVgpu", "NVIDIA", offer.profile, vgpu_backing(offer.profile)) for _ in range(offer.size)),
        *(("pciPassthru", *_nic_words(host, ids), dynamic_backing([ids])) for ids in offer.nics),
    ]
    component: Any = vim.vm.VendorDeviceGroupInfo.ComponentDeviceInfo
    group_of: Any = vim.vm.device.VirtualDevice.DeviceGroupInfo
    return vim.vm.VendorDeviceGroupInfo(
        name=offer.name,
        deviceGroupName=offer.name,
        deviceGroupDescription=offer.description,
        componentDeviceInfo=[
            component(
                type=kind,
                vendorName=vendor,
                deviceName=name,
                isConfigurable=False,
                device=vim.vm.device.VirtualPCIPassthrough(
                    key=-(100 + index),
                    backing=backing,
                    deviceGroupInfo=group_of(groupInstanceKey=-1, sequenceId=index),
                ),
            )
            for index, (kind, vendor, name, backing) in enumerate(parts)
        ],
    )


def _nic_words(host: Host, ids: tuple[int, int]) -> tuple[str, str]:
    """Return what vendor and device of a NIC are called, of a host that has it."""
    nics = (nic.pci for nic in host.nics if (nic.pci.vendor_id, nic.pci.device_id) == ids)
    return next(((pci.vendor_name, pci.device_name) for pci in nics), ("", ""))


def hosts_of(context: Context, thing: Service, wanted: Any) -> list[Host]:
    """Return the hosts that an answer is about: one, or all of the compute resource.

    Raises InvalidArgument for a host of somewhere else.
    """
    owner = thing.owner
    if not isinstance(owner, Cluster):
        raise TypeError(f"{thing.moid} browses no compute resource")
    if wanted is None:
        return [context.state.get(moid, Host) for moid in owner.hosts]
    if wanted._moId not in owner.hosts:
        raise vmodl.fault.InvalidArgument(
            invalidProperty="host", msg="A specified parameter was not correct: host"
        )
    return [context.state.get(wanted._moId, Host)]


@answers("EnvironmentBrowser", "QueryConfigTarget")
def query_config_target(context: Context, thing: Service, *, host: Any) -> Any:
    """Return what can be given to a VM here. Without a host the offers of all hosts are joined."""
    hosts = [found for found in hosts_of(context, thing, host) if found.connection == "connected"]
    if not hosts:
        return None
    newest = max(hosts, key=lambda found: [int(part) for part in found.api_version.split(".")])
    return cut(_target(context, hosts), version_name(newest.api_version) or context.version)


def _target(context: Context, hosts: list[Host]) -> Any:
    devices = {info.deviceVendorId: info for host in hosts for info in vgpu_device_info(host)}
    profiles = {
        (info.profileName, info.deviceVendorId): info for host in hosts for info in vgpu_profile_info(host)
    }
    groups = {info.deviceGroupName: info for host in hosts for info in device_groups(host)}
    networks = _named(context, hosts, "networks", Network)
    return vim.vm.ConfigTarget(
        numCpus=max(host.threads for host in hosts),
        numCpuCores=max(host.cores for host in hosts),
        numNumaNodes=max(len(host.numa_nodes) for host in hosts),
        maxCpusPerHost=max(host.threads for host in hosts),
        smcPresent=False,
        datastore=[_datastore_info(found) for found in _named(context, hosts, "datastores", Datastore)],
        network=[
            vim.vm.NetworkInfo(name=found.name, network=network_summary(found))
            for found in networks
            if not found.is_distributed
        ],
        distributedVirtualPortgroup=[
            _portgroup_info(context, found) for found in networks if found.is_distributed
        ],
        distributedVirtualSwitch=[
            vim.dvs.DistributedVirtualSwitchInfo(
                switchName=switch.name,
                switchUuid=switch.uuid,
                distributedVirtualSwitch=vim.dvs.VmwareDistributedVirtualSwitch(switch.moid),
            )
            for switch in context.state.all(DistributedSwitch)
            if any(host.moid in switch.hosts for host in hosts)
        ],
        maxMemMBOptimalPerf=max(host.memory_mib for host in hosts),
        supportedMaxMemMB=max(host.memory_mib for host in hosts),
        autoVmotion=False,
        pciPassthrough=[info for host in hosts for info in pci_passthrough(host)],
        sriov=[info for host in hosts for info in sriov(host)],
        sharedGpuPassthroughTypes=shared_gpu_types(hosts),
        dynamicPassthrough=dynamic_passthrough(hosts),
        vgpuDeviceInfo=list(devices.values()),
        vgpuProfileInfo=list(profiles.values()),
        vendorDeviceGroupInfo=list(groups.values()),
    )


def _named(context: Context, hosts: list[Host], attribute: str, kind: Any) -> list[Any]:
    moids = dict.fromkeys(moid for host in hosts for moid in getattr(host, attribute))
    found = (context.state.find(moid, kind) for moid in moids)
    return [thing for thing in found if thing is not None]


def _datastore_info(datastore: Datastore) -> Any:
    return vim.vm.DatastoreInfo(
        name=datastore.name,
        datastore=summary(datastore),
        capability=capability(datastore),
        maxFileSize=LARGEST_FILE,
        maxVirtualDiskCapacity=LARGEST_FILE,
        mode="readWrite",
    )


def _portgroup_info(context: Context, network: Network) -> Any:
    switch = context.state.get(network.switch, DistributedSwitch)
    return vim.dvs.DistributedVirtualPortgroupInfo(
        switchName=switch.name,
        switchUuid=switch.uuid,
        portgroupName=network.name,
        portgroupKey=network.moid,
        portgroupType="earlyBinding",
        uplinkPortgroup=network.is_uplink,
        portgroup=vim.dvs.DistributedVirtualPortgroup(network.moid),
    )


HARDWARE_VERSIONS = (*range(7, 16), *range(17, 23))
"""16 belongs to other products of VMware's."""

FIRST_DYNAMIC_VERSION = 17
FIRST_NUMA_VERSION = 20

_Passthrough = vim.vm.device.VirtualPCIPassthrough
_PassthroughOption = vim.vm.device.VirtualPCIPassthroughOption


def max_cpus(version: int) -> int:
    """Return the most processors of a VM (recalled)."""
    for oldest, most in ((18, 768), (15, 256), (11, 128), (10, 64), (8, 32)):
        if version >= oldest:
            return most
    return 8


def max_memory_mib(version: int) -> int:
    """Return the most memory of a VM (recalled)."""
    for oldest, most in ((18, 25_165_824), (12, 6_275_072), (11, 4_177_920), (8, 1_035_264)):
        if version >= oldest:
            return most
    return 261_120


def _descriptors(hosts: list[Host]) -> list[Any]:
    default = min(max_hardware_version(host) for host in hosts)
    found = []
    for version in HARDWARE_VERSIONS:
        able = [host for host in hosts if max_hardware_version(host) >= version]
        if able:
            found.append(
                vim.vm.ConfigOptionDescriptor(
                    key=version_key(version),
                    description=f"Hardware version {version}",
                    host=[reference(host) for host in able],
                    createSupported=True,
                    defaultConfigOption=version == default,
                    runSupported=True,
                    upgradeSupported=True,
                )
            )
    return found


@answers("EnvironmentBrowser", "QueryConfigOptionDescriptor")
def query_config_option_descriptor(context: Context, thing: Service) -> list[Any]:
    """Return the hardware versions that the hosts run; the default is the newest that all of them do."""
    hosts = hosts_of(context, thing, None)
    return _descriptors(hosts) if hosts else []


@answers("EnvironmentBrowser", "QueryConfigOption")
def query_config_option(context: Context, thing: Service, *, key: str | None, host: Any) -> Any:
    """Return the options of a hardware version: the given one, or the default."""
    return _option(hosts_of(context, thing, host), key, [])


@answers("EnvironmentBrowser", "QueryConfigOptionEx")
def query_config_option_ex(context: Context, thing: Service, *, spec: Any) -> Any:
    """Return the same with only the guests asked for."""
    if spec is None:
        return _option(hosts_of(context, thing, None), None, [])
    return _option(hosts_of(context, thing, spec.host), spec.key, list(spec.guestId))


def _option(hosts: list[Host], key: str | None, guests: list[str]) -> Any:
    if not hosts:
        return None
    offered = {found.key: found for found in _descriptors(hosts)}
    if key is None:
        key = next(found.key for found in offered.values() if found.defaultConfigOption)
    if key not in offered:
        raise vmodl.fault.InvalidArgument(
            invalidProperty="key", msg="A specified parameter was not correct: key"
        )
    version = int(key.removeprefix("vmx-"))
    wanted = [guest for guest in GUEST_NAMES if not guests or guest in guests]
    return vim.vm.ConfigOption(
        version=key,
        description=offered[key].description,
        guestOSDescriptor=[_guest(guest, version) for guest in wanted or GUEST_NAMES],
        guestOSDefaultIndex=0,
        hardwareOptions=_hardware(version),
        capabilities=vm_capability(version),
        datastore=vim.vm.DatastoreOption(),
        supportedMonitorType=["release", "debug", "stats"],
    )


def _between(least: int, most: int, default: int | None = None) -> Any:
    return vim.option.IntOption(min=least, max=most, defaultValue=least if default is None else default)


def _hardware(version: int) -> Any:
    shares = vim.ResourceAllocationOption(
        sharesOption=vim.SharesOption(sharesOption=_between(0, 1_000_000, 1000), defaultLevel="normal")
    )
    hardware = vim.vm.VirtualHardwareOption(
        hwVersion=version,
        virtualDeviceOption=[_controller(version), _passthrough(version)],
        deviceListReadonly=False,
        numCPU=list(range(1, max_cpus(version) + 1)),
        numCoresPerSocket=_between(1, min(max_cpus(version), 128)),
        numCpuReadonly=False,
        memoryMB=vim.option.LongOption(min=4, max=max_memory_mib(version), defaultValue=4096),
        numPCIControllers=_between(1, 1),
        numIDEControllers=_between(0, 2),
        numUSBControllers=_between(0, 1),
        numUSBXHCIControllers=_between(0, 1),
        numSIOControllers=_between(1, 1),
        numPS2Controllers=_between(1, 1),
        resourceConfigOption=vim.ResourceConfigOption(
            cpuAllocationOption=shares, memoryAllocationOption=shares
        ),
    )
    if version >= FIRST_NUMA_VERSION:
        hardware.numNumaNodes = _between(0, 32)
        hardware.numDeviceGroups = _between(0, 16)
    return hardware


def _controller(version: int) -> Any:
    return vim.vm.device.VirtualPCIControllerOption(
        type=vim.vm.device.VirtualPCIController,
        devices=_between(0, 128),
        numSCSIControllers=_between(0, 4),
        numEthernetCards=_between(0, 10),
        numVideoCards=_between(0, 1),
        numSoundCards=_between(0, 1),
        numVmiRoms=_between(0, 0),
        numVmciDevices=_between(0, 1),
        numPCIPassthroughDevices=_between(0, max_passthrough(version)),
        numSasSCSIControllers=_between(0, 4),
        numVmxnet3EthernetCards=_between(0, 10),
        numParaVirtualSCSIControllers=_between(0, 4),
        numSATAControllers=_between(0, 4),
    )


def _passthrough(version: int) -> Any:
    backings: list[Any] = [
        _PassthroughOption.DeviceBackingOption(
            type=_Passthrough.DeviceBackingInfo,
            autoDetectAvailable=vim.option.BoolOption(supported=False, defaultValue=False),
        )
    ]
    if max_vgpus(version):
        backings.append(
            _PassthroughOption.VmiopBackingOption(
                type=_Passthrough.VmiopBackingInfo,
                vgpu=vim.option.StringOption(defaultValue=""),
                maxInstances=max_vgpus(version),
            )
        )
    if version >= FIRST_DYNAMIC_VERSION:
        backings.append(
            _PassthroughOption.DynamicBackingOption(
                type=_Passthrough.DynamicBackingInfo,
                autoDetectAvailable=vim.option.BoolOption(supported=False, defaultValue=False),
            )
        )
    if version >= FIRST_NUMA_VERSION:
        backings.append(_PassthroughOption.DvxBackingOption(type=_Passthrough.DvxBackingInfo))
    return _PassthroughOption(
        type=_Passthrough,
        controllerType=vim.vm.device.VirtualPCIController,
        backingOption=backings,
        deprecated=False,
        plugAndPlay=False,
        hotRemoveSupported=False,
        numaSupported=version >= FIRST_NUMA_VERSION,
    )


def _guest(guest_id: str, version: int) -> Any:
    device = vim.vm.device
    family = "windowsGuest" if guest_id.startswith("windows") else "linuxGuest"
    return vim.vm.GuestOsDescriptor(
        id=guest_id,
        family=family,
        fullName=GUEST_NAMES[guest_id],
        supportedMaxCPUs=max_cpus(version),
        numSupportedPhysicalSockets=max_cpus(version),
        numSupportedCoresPerSocket=128,
        supportedMinMemMB=256,
        supportedMaxMemMB=min(max_memory_mib(version), 2**31 - 1),
        recommendedMemMB=4096,
        recommendedColorDepth=24,
        supportedDiskControllerList=[device.ParaVirtualSCSIController, device.VirtualNVMEController],
        recommendedSCSIController=device.ParaVirtualSCSIController,
        recommendedDiskController=device.ParaVirtualSCSIController,
        supportedNumDisks=60,
        recommendedDiskSizeMB=16384,
        recommendedCdromController=device.VirtualIDEController,
        supportedEthernetCard=[device.VirtualVmxnet3, device.VirtualE1000e],
        recommendedEthernetCard=device.VirtualVmxnet3,
        supportsWakeOnLan=True,
        supportsMemoryHotAdd=True,
        supportsCpuHotAdd=True,
        supportedFirmware=["bios", "efi"],
        recommendedFirmware="efi",
        supportLevel="supported",
        supportedForCreate=True,
        vRAMSizeInKB=_between(4096, 262_144),
        numSupportedFloppyDevices=2,
        supportsPvscsiControllerForBoot=True,
        supportsSecureBoot=True,
    )
