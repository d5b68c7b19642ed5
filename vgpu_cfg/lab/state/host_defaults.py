"""The defaults of an ESXi host of each release, and the effect of a restart on its values.

Defaults are those of settings, options, modules, services, firewall and packages. Names, types and defaults
of kernel settings and advanced options are those of the published dumps
(lamw/esxi-advanced-and-kernel-settings); only a few of several hundred are here. Versions of packages and
modules are decoration, but for the NVIDIA driver's.

At a restart configured values take effect, and temporary ones are dropped. MIG mode outlasts a restart on
Ampere only (NVIDIA MIG User Guide), mixed size on no board. That a reboot drops the configured `vgpuMode`
together with the one in force is assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.lab.state.host import (
    AdvancedOption,
    FirewallRuleset,
    FirmwareParameter,
    Gpu,
    GraphicsType,
    Host,
    HostDriver,
    HostService,
    KernelModule,
    KernelSetting,
    Nic,
    StandardSwitch,
    Vib,
    Vmknic,
)

SEVEN, SEVEN_U2, SEVEN_U3, NINE = (7, 0, 0), (7, 0, 2), (7, 0, 3), (9, 0, 0)

MANAGEMENT_SWITCH = "vSwitch0"
MANAGEMENT_NETWORK = "Management Network"
NVIDIA_MODULE = "nvidia"
EVALUATION = "00000-00000-00000-00000-00000"
"""The licence key of the evaluation mode."""
MELLANOX_MODULES = ("nmlx5_core", "nmlx5_rdma")
NVIDIA_VENDOR = "NVD"
DAEMON_VIB = "nvdgpumgmtdaemon"
MFT_VIBS = (
    Vib("mft", "4.26.1.6-0", "MEL", "NVIDIA firmware tools"),
    Vib("nmst", "4.26.1.6-1OEM.800.1.0.20613240", "MEL", "NVIDIA NMST kernel module"),
)
_DRIVER_PREFIX = {"nvd-aie": "NVD-AIE", "vgpu": "NVD-VMware"}
_DRIVER_BUILDS = {7: "700.1.0.15843807", 8: "800.1.0.20613240", 9: "900.0.0.24755229"}
"""The ESXi release in a driver's version, by major release; the last is made up."""

_KEEPS_MIG = frozenset({"Ampere"})


def keeps_mig(architecture: str, denies: Callable[[str], bool]) -> bool:
    """Whether a GPU's MIG mode outlasts a reboot."""
    if architecture in _KEEPS_MIG:
        return not denies("mig-mode-on-ampere")
    return denies("mig-mode-from-hopper")


def release_of(host: Host) -> tuple[int, ...]:
    """Return a host's version as numbers."""
    return tuple(int(part) for part in host.version.split("."))


def set_defaults(host: Host, *, ats: bool = True) -> None:
    """Give a host the installer's defaults. `ats` False is as if ATS had been switched off."""
    host.kernel = kernel_settings(release_of(host))
    if not ats:
        for name in ("atsSupport", "vtdAtsSupport"):
            if name in host.kernel:
                host.kernel[name].configured = host.kernel[name].runtime = "FALSE"
    host.advanced = advanced_options(release_of(host))
    host.services = {
        "DCUI": HostService("Direct Console UI", running=True, policy="on"),
        "TSM": HostService("ESXi Shell", running=False, policy="off"),
        "TSM-SSH": HostService("SSH", running=False, policy="off"),
        "ntpd": HostService("NTP Daemon", running=True, policy="on"),
        "xorg": HostService("X.Org Server", running=True, policy="on"),
    }
    host.rulesets = {
        "sshServer": FirewallRuleset("SSH Server", enabled=True, port=22),
        "vMotion": FirewallRuleset("vMotion", enabled=True, port=8000),
        "pvrdma": FirewallRuleset("pvrdma", enabled=False, port=28250, end_port=28761),
    }
    host.software = {vib.name: vib for vib in base_vibs(host)}
    if host.driver is not None:
        host.software |= {vib.name: vib for vib in driver_vibs(host, host.driver)}
    host.modules = {
        name: KernelModule(name, version="4.23.0.66", filename=f"/usr/lib/vmware/vmkmod/{name}")
        for name in MELLANOX_MODULES
    }
    host.switches = {MANAGEMENT_SWITCH: StandardSwitch(MANAGEMENT_SWITCH, portgroups={MANAGEMENT_NETWORK: 0})}
    host.vmknics = {"vmk0": _management_vmknic(int(host.moid.partition("-")[2]))}
    load_driver(host)


def _management_vmknic(number: int) -> Vmknic:
    high, low = number >> 8 & 0xFF, number & 0xFF
    return Vmknic(
        "vmk0",
        mac=f"b8:ce:f7:00:{high:02x}:{low:02x}",
        portgroup=MANAGEMENT_NETWORK,
        ip=f"10.0.{high}.{low}",
        netmask="255.255.0.0",
        services=("management", "vmotion"),
    )


def kernel_settings(release: tuple[int, ...]) -> dict[str, KernelSetting]:
    """Return the boot settings of a release: `atsSupport` is off by default up to 7.0 U2, on from 7.0 U3."""
    found = {
        "enablePCIEHotplug": _flag("TRUE", "Enable PCIe hotplug.", is_option=False),
        "intrFirstMsixVector": KernelSetting(
            "uint8", "0x70", "0x70", "0x70", "First MSI-X vector.", is_option=False
        ),
        "hyperthreadingMitigation": _flag("FALSE", "Restrict the simultaneous use of logical processors."),
    }
    if SEVEN <= release < SEVEN_U2:
        found["vtdAtsSupport"] = _flag("FALSE", "Enable Support for PCIe ATS.", is_option=False)
    elif release >= SEVEN_U2:
        is_late = release >= SEVEN_U3
        found["atsSupport"] = _flag(
            "TRUE" if is_late else "FALSE", "Enable Support for PCIe ATS.", is_option=is_late
        )
    if release >= NINE:
        found["enableACSDTP2P"] = _flag("TRUE", "Enable ACS direct translated P2P.")
        found["atsDisallowPCIeVidDid"] = KernelSetting("String", "", "", "", is_option=False)
    return found


def _flag(value: str, description: str, *, is_option: bool = True) -> KernelSetting:
    return KernelSetting("Bool", value, value, value, description, is_option)


def advanced_options(release: tuple[int, ...]) -> dict[str, AdvancedOption]:
    """Return the advanced options of a release, `VMkernel.Boot.*` and the assignment policy's apart."""
    found = {
        "Net.PVRDMAVmknic": AdvancedOption("string", "", "", "VMkernel NIC of PVRDMA"),
        "UserVars.SuppressShellWarning": AdvancedOption("long", 0, 0, "No warning of an enabled shell"),
    }
    if release >= NINE:
        found["Numa.DeviceAffinity"] = AdvancedOption("long", 0, 0, "Place VMs near their devices")
    return found


def base_vibs(host: Host) -> list[Vib]:
    """Return the packages of a bare host, as far as clients ask for them."""
    return [
        Vib("esx-base", f"{host.version}-0.0.{host.build}", "VMware", "ESXi base system"),
        Vib("nmlx5-core", f"4.23.0.66-1vmw.{host.version.replace('.', '')}.0.0.{host.build}", "VMW"),
        Vib("nmlx5-rdma", f"4.23.0.66-1vmw.{host.version.replace('.', '')}.0.0.{host.build}", "VMW"),
    ]


def driver_vibs(host: Host, driver: HostDriver) -> tuple[Vib, ...]:
    """Return the packages that an NVIDIA host driver is made of."""
    return bundle_vibs(driver, release_of(host)[0])


def bundle_vibs(driver: HostDriver, major: int) -> tuple[Vib, ...]:
    """Return the packages of a driver for a major release.

    Names, vendor and the form of versions are recorded (`NVD-AIE_ESXi_8.0.0_Driver`, and the daemon, which
    is built for 7.0 whatever the host). NVIDIA ships the two as two bundles, NVD-AIE-800_….zip and
    nvd-gpu-mgmt-daemon_….zip.
    """
    release, name = max(major, 7), driver_name(driver.kind, major)
    version = f"{driver.version}-1OEM.{_DRIVER_BUILDS[release]}"
    vibs = [Vib(name, version, NVIDIA_VENDOR, "NVIDIA host driver")]
    if driver.gpu_daemon:
        built = f"{driver.version}-1OEM.{_DRIVER_BUILDS[7]}"
        vibs.append(Vib(DAEMON_VIB, built, NVIDIA_VENDOR, "NVIDIA GPU management daemon"))
    return tuple(vibs)


def driver_name(kind: Literal["nvd-aie", "vgpu"], major: int) -> str:
    """Return the name of the package of a driver for a major release."""
    return f"{_DRIVER_PREFIX[kind]}_ESXi_{max(major, 7)}.0.0_Driver"


def driver_of(software: dict[str, Vib]) -> HostDriver | None:
    """Return the NVIDIA driver that packages make up, None where there is none among them."""
    for kind in ("nvd-aie", "vgpu"):
        for vib in software.values():
            if vib.name.startswith(f"{_DRIVER_PREFIX[kind]}_ESXi_"):
                version = vib.version.partition("-")[0]
                return HostDriver("nvd-aie" if kind == "nvd-aie" else "vgpu", version, DAEMON_VIB in software)
    return None


def load_driver(host: Host) -> None:
    """Let the `nvidia` module be there if the driver is, with the option string that it had."""
    if host.driver is None:
        host.modules.pop(NVIDIA_MODULE, None)
        return
    module = host.modules.setdefault(NVIDIA_MODULE, KernelModule(NVIDIA_MODULE))
    module.version = host.driver.version
    module.filename = f"/usr/lib/vmware/vmkmod/{NVIDIA_MODULE}"


FACTORY_FIRMWARE = {
    "ATS_ENABLED": "False(0)",
    "SRIOV_EN": "False(0)",
    "NUM_OF_VFS": "0",
    "LINK_TYPE_P1": "ETH(2)",
    "ADVANCED_PCI_SETTINGS": "False(0)",
    "ROCE_CC_PRIO_MASK_P1": "255",
}
"""Parameters of a ConnectX port as it comes from the factory. That virtual functions are off is assumed.

ECN on all priorities is what recorded queries of ConnectX-6 and ConnectX-7 show as the default.
"""


_LINK_TYPES = {"IB": "IB(1)", "ETH": "ETH(2)"}


def nic_firmware(changed: Mapping[str, str | None]) -> dict[str, FirmwareParameter]:
    """Return the firmware parameters of a port: the factory's, but for those changed; None takes one away."""
    now = {**FACTORY_FIRMWARE, **changed}
    return {
        name: FirmwareParameter(FACTORY_FIRMWARE.get(name, value), value, value)
        for name, value in ((name, _LINK_TYPES.get(value or "", value)) for name, value in now.items())
        if value is not None
    }


def _never(_belief: str) -> bool:
    return False


def restart(host: Host, *, cold: bool, denies: Callable[[str], bool] = _never) -> None:
    """Start a host with its configured settings.

    `cold` means that its power was off before, `denies` whether a belief is false here.
    """
    activates = cold or not denies("reboot-activates-settings")
    had_driver = host.driver is not None
    if activates:
        _take_packages(host)
        _load_settings(host)
    for state in host.passthrough.values():
        state.active = state.enabled
    for nic in host.nics:
        _restart_nic(host, nic, cold=cold)
    for gpu in host.gpus:
        gpu.ecc_enabled = gpu.ecc_pending if activates else gpu.ecc_enabled
        _restart_gpu(gpu, denies)
    apply_graphics(host)
    if host.driver is not None and not had_driver and denies("graphics-type-with-driver"):
        for gpu in host.gpus:
            gpu.graphics_type = "shared" if gpu.graphics_type == "sharedDirect" else gpu.graphics_type
    for service in host.services.values():
        service.running = service.policy != "off"


def _load_settings(host: Host) -> None:
    for setting in host.kernel.values():
        setting.runtime = setting.configured
    for module in host.modules.values():
        module.at_boot, module.loaded = module.configured, True


def apply_graphics(host: Host) -> None:
    """Bring graphics types and assignment policy into force, as a restart of Xorg does, too."""
    host.assignment_policy = host.configured_assignment_policy
    for gpu in host.gpus:
        gpu.graphics_type = type_in_force(host, gpu)


def type_in_force(host: Host, gpu: Gpu) -> GraphicsType:
    """Return a GPU's type once the configured one takes effect."""
    if host.is_passed_through(gpu.pci_id):
        return "direct"
    if host.driver is None:
        return "basic"
    return gpu.configured_graphics_type or host.configured_default_graphics_type


def _take_packages(host: Host) -> None:
    if not host.staged:
        return
    wanted = driver_of(host.staged)
    if wanted is not None:
        old = [name for name in host.software if name.startswith("NVD-") and name not in host.staged]
        for name in old:
            del host.software[name]
    if base := host.staged.get("esx-base"):
        host.version, host.build = base.version.partition("-")[0], base.version.rpartition(".")[2]
    host.software |= host.staged
    host.staged = {}
    host.driver = driver_of(host.software)
    load_driver(host)


def _restart_nic(host: Host, nic: Nic, *, cold: bool) -> None:
    if cold or not nic.firmware_needs_cold_boot:
        for parameter in nic.firmware.values():
            parameter.current = parameter.next_boot
    available = nic.firmware.get("NUM_OF_VFS")
    has_functions = host.bios.sriov and nic.is_on("SRIOV_EN") and not host.is_passed_through(nic.pci.pci_id)
    most = int(available.current) if available is not None and available.current.isdigit() else 0
    nic.num_vfs = min(nic.requested_vfs, most) if has_functions else 0


def _restart_gpu(gpu: Gpu, denies: Callable[[str], bool]) -> None:
    gpu.uses = []
    keeps = keeps_mig(load_catalog().board(gpu.board).architecture, denies)
    gpu.mig_enabled = gpu.mig_pending = gpu.mig_pending and keeps
    if not denies("reboot-drops-mixed-size"):
        gpu.vgpu_mode, gpu.configured_vgpu_mode = "sameSize", None
