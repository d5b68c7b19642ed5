"""The limits of each virtual hardware version, as the environment browser reports them (vim `ConfigOption`).

Of the devices only those relevant for vGPUs are listed: PCI passthrough with its backings, and the PCI
controller with its limits. vGPUs per VM are those of recorded answers; processor and memory limits are
recalled from VMware's configuration maximums.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.lab.api.references import Service, reference
from vgpu_cfg.lab.managers.browser import hosts_of
from vgpu_cfg.lab.renderers.vms.config import GUEST_NAMES, version_key
from vgpu_cfg.lab.renderers.vms.vm import vm_capability
from vgpu_cfg.lab.rules.hardware import max_hardware_version, max_passthrough, max_vgpus
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.operations import answers
from vgpu_cfg.lab.state.host import Host

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
