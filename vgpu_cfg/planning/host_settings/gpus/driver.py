"""The NVIDIA host driver of an ESXi host: installed, wanted, and the way to install it.

VIBs are distinguished by their names, ignoring case: `NVD-AIE_ESXi_8.0.0_Driver` (NVIDIA AI Enterprise),
`NVD-VMware_ESXi_8.0.0_Driver` (NVIDIA vGPU; its component is called NVD-VGPU), `nvdgpumgmtdaemon`. Until 2022
the first part was NVIDIA in place of NVD. Sources: recorded installations of 470 to 595; NVIDIA AI Enterprise
5.0 User Guide 2.7.1-2.7.3.

Belief: vib-install-through-vcenter.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from vgpu_cfg.changes.kinds.change_host import HostWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.model.observed.host_facts import ClusterImage, FactGroup, SoftwarePackage
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostSetting, HostView, Instructions, Reading
from vgpu_cfg.planning.host_settings.modules import (
    NONE,
    STAGED,
    WantedPackage,
    fits_version,
    is_staged,
    is_wanted_package,
)

Kind = Literal["nvd-aie", "vgpu"]

_DRIVERS: tuple[tuple[str, Kind], ...] = (
    ("nvd-aie", "nvd-aie"),
    ("nvidia-aie", "nvd-aie"),
    ("nvd-vgpu", "vgpu"),
    ("nvd-vmware", "vgpu"),
    ("nvidia-vgpu", "vgpu"),
    ("nvidia-vmware", "vgpu"),
)
_DAEMONS = ("nvdgpumgmt", "nvd-gpu-mgmt")
_NUMBERS = re.compile(r"\d+")
_LEADING = re.compile(r"(\d{3})(?!\d)")
_MODULE = "nvidia"


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """NVIDIA's software on a host; `kind` and `version` are None without a driver.

    `version` is the VIB's: "580.95.02-1OEM.800.1.0.20613240". `package` is the VIB's name.
    """

    kind: Kind | None = None
    version: str | None = None
    daemon: bool = False
    package: str = ""


def driver_facts(software: Iterable[SoftwarePackage]) -> DriverFacts:
    """Find the host driver and the GPU management daemon among installed packages."""
    found = DriverFacts()
    has_daemon = False
    for package in software:
        name = package.name.casefold()
        has_daemon = has_daemon or name.startswith(_DAEMONS)
        kind = next((kind for prefix, kind in _DRIVERS if name.startswith(prefix)), None)
        if kind is not None and found.kind is None:
            found = DriverFacts(kind, package.version, package=package.name)
    return DriverFacts(found.kind, found.version, has_daemon, found.package)


def driver_version(host: Host, software: Collection[SoftwarePackage]) -> str:
    """Return a host driver's version, "" if unknown: the package's, else that of its GPUs if none was read.

    Belief: device-driver-version.
    """
    if software:
        return driver_facts(software).version or ""
    reported = (gpu.pci.driver_version for gpu in host.gpus)
    return next((version for version in reported if branch_of(version)), "")


def branch_of(version: str) -> str:
    """Return the branch of a driver's version, "580" of "580.95.02-1OEM.800"; "" where none leads it."""
    found = _LEADING.match(version.strip())
    return found.group(1) if found else ""


def wanted_driver(kind: Kind, version: str, by: str) -> DesiredSetting:
    """Return the setting of a driver; a version like 580.95 means any release of it."""
    text = version if version.count(".") > 1 else f"{version}.*"
    return DesiredSetting("driver", WantedPackage(kind, text, by).value)


def is_by_image(desired: DesiredSetting) -> bool:
    """Whether the driver comes with the cluster's image."""
    return WantedPackage.parse(desired.value).by == "image"


def components_of(image: ClusterImage, desired: DesiredSetting) -> Mapping[str, str]:
    """Return the components that an image must have for a driver; none if the depot holds no such driver.

    A version that the image has already is kept, else the depot's newest is taken. The management daemon is
    that of the same release. Belief: driver-component-names.
    """
    wanted = WantedPackage.parse(desired.value)
    found = _component(image, [prefix for prefix, kind in _DRIVERS if kind == wanted.kind], wanted.version)
    if found is None:
        return {}
    release = found[1].partition("-")[0]
    return dict(one for one in (found, _component(image, _DAEMONS, release)) if one is not None)


def is_driver_component(name: str) -> bool:
    """Whether an image's component is a host driver, by its name."""
    return name.casefold().startswith(tuple(prefix for prefix, _ in _DRIVERS))


def _component(image: ClusterImage, prefixes: Sequence[str], version: str) -> tuple[str, str] | None:
    fitting = (
        (name, one, held)
        for held, versions in ((False, image.depot), (True, {k: (v,) for k, v in image.components.items()}))
        for name in sorted(versions)
        if name.casefold().startswith(tuple(prefixes))
        for one in versions[name]
        if fits_version(one, version)
    )
    best = max(
        fitting, key=lambda one: (one[2], [int(part) for part in _NUMBERS.findall(one[1])]), default=None
    )
    return None if best is None else best[:2]


def _desired_settings(entry: DesiredHosts, view: HostView) -> Iterable[DesiredSetting]:
    """Ask for the driver on hosts that have a GPU; the others need none."""
    driver = entry.driver
    if driver is None or not view.host.gpus:
        return
    wanted = WantedPackage(driver.kind, driver.version or "*", driver.by, driver.depot)
    yield DesiredSetting("driver", wanted.value)


def _read(view: HostView, _device: str) -> Reading:
    """Read the installed driver, and whether it runs.

    The running driver is that of `nvidia-smi` if the shell was read. Else a host whose `nvidia` module is not
    known to the VMkernel runs none, unless every GPU is passed through and no driver would load.
    """
    facts = view.facts
    if FactGroup.SOFTWARE not in facts.groups:
        return Reading(unread=facts.unread.get(FactGroup.SOFTWARE, "the installed software was not read"))
    found = driver_facts(facts.software)
    configured = NONE if found.kind is None else f"{found.kind} {found.version}"
    if is_staged(facts, "driver"):
        return Reading(configured=STAGED, runtime=configured)
    return Reading(configured=configured, runtime=_running(view, found, configured))


def _running(view: HostView, found: DriverFacts, configured: str) -> str | None:
    if found.kind is None or found.version is None:
        return None
    shell = view.facts.shell
    if shell is not None and shell.driver_version:
        is_same = found.version.startswith(shell.driver_version)
        return configured if is_same else f"{found.kind} {shell.driver_version}"
    if FactGroup.MODULES not in view.facts.groups or all(gpu.is_passthrough for gpu in view.host.gpus):
        return None
    return None if _MODULE in view.facts.modules else NONE


def _write(view: HostView, desired_settings: Sequence[DesiredSetting]) -> Sequence[HostWrite]:
    """Install from the depots, if esxcli is to do it and no driver of the other kind is in the way."""
    (desired,) = desired_settings
    wanted = WantedPackage.parse(desired.value)
    return () if _other_kind(view, wanted) else wanted.install


def _other_kind(view: HostView, wanted: WantedPackage) -> str:
    """Return the name of the installed VIB where it is of the other kind, which must be removed first."""
    found = driver_facts(view.facts.software)
    return found.package if found.kind not in (None, wanted.kind) else ""


def _by_hand(view: HostView, desired: DesiredSetting) -> str:
    wanted = WantedPackage.parse(desired.value)
    if wanted.by == "image" or (wanted.is_installed_here and not _other_kind(view, wanted)):
        return ""
    name = "NVD-AIE" if wanted.kind == "nvd-aie" else "NVD-VGPU"
    if wanted.by == "lifecycle":
        return (
            f"add the components {name} {wanted.version} and nvd-gpu-mgmt-daemon from the same release to "
            f"the cluster's image, then remediate {view.host.name} (which takes it out of service and "
            "reboots it)"
        )
    lines = [f"with {view.host.name} in maintenance mode: {command}" for command in _commands(view, wanted)]
    return (
        f"install the NVIDIA host driver {name} {wanted.version} and the GPU management daemon from the "
        f"same release; {'; then '.join(lines)}; then reboot, even if the installer does not require it"
    )


def _commands(view: HostView, wanted: WantedPackage) -> list[str]:
    other = _other_kind(view, wanted)
    depots = wanted.depots or (
        "/vmfs/volumes/DATASTORE/HOST-DRIVER.zip",
        "/vmfs/volumes/DATASTORE/GPU-MANAGEMENT-DAEMON.zip",
    )
    removal = [f"esxcli software vib remove --vibname={shlex.quote(other)}"] if other else []
    return removal + [f"esxcli software vib install --depot={shlex.quote(depot)}" for depot in depots]


def _how(view: HostView, desired: DesiredSetting) -> Instructions:
    wanted = WantedPackage.parse(desired.value)
    found = driver_facts(view.facts.software)
    undo = [f"esxcli software vib remove --vibname={shlex.quote(found.package or 'NAME-OF-THE-VIB')}"]
    return Instructions(
        why=(
            "ESXi supports vGPUs and MIG only with NVIDIA's driver. C-series profiles on A100 and A30 "
            "require the AI Enterprise package, and VMs can migrate only between hosts with the same "
            "driver. The driver does not claim a GPU that is in passthrough mode during installation."
        ),
        client="in vSphere Lifecycle Manager, edit the image on the cluster's Updates tab",
        # Where an image owns the software, esxcli must not install beside it.
        commands=() if wanted.by in ("image", "lifecycle") else tuple(_commands(view, wanted)),
        expected=(
            "Operation finished successfully. Even if it prints `Reboot Required: false`, reboot to load "
            "the driver"
        ),
        verify=(
            "esxcli software vib list | grep -i -E 'nvd|nvidia'",
            "vmkload_mod -l | grep nvidia",
            "/etc/init.d/nvdGpuMgmtDaemon status",
            "nvidia-smi",
        ),
        undo=(*undo, "esxcli system shutdown reboot --reason='NVIDIA driver removed'"),
    )


def _show(host: Host, _desired: DesiredSetting) -> Host:
    """Show GPUs as the driver will serve them: of the type that is configured, no longer basic."""
    gpus = tuple(
        gpu.model_copy(update={"graphics_type": gpu.configured_graphics_type})
        if gpu.graphics_type is GraphicsType.BASIC and gpu.configured_graphics_type is not None
        else gpu
        for gpu in host.gpus
    )
    return host.model_copy(update={"gpus": gpus})


DRIVER = HostSetting(
    key="driver",
    title="NVIDIA host driver",
    source="NVIDIA AI Enterprise 5.0 User Guide 2.7",
    desired_settings=_desired_settings,
    read=_read,
    same=is_wanted_package,
    write=_write,
    impact=lambda _view, _desired: Impact.HOST_REBOOT,
    how=_how,
    group="driver",
    in_file="the plan file does not specify a version",
    remembered=None,
    facts=frozenset({FactGroup.SOFTWARE, FactGroup.MODULES}),
    after=("gpu_passthrough",),
    stays=lambda _before: "host drivers are never removed or downgraded",
    show=_show,
    by_hand=_by_hand,
    by_image=is_by_image,
)
