"""All host settings that this tool knows, in the order of a plan, and the required BIOS settings of a server.

Settings that need the whole machine come first (BIOS, driver, firmware tools, kernel), then GPUs, then NICs
and their networks.

The BIOS is only set manually. Parts of it show through ESXi, and a reading is a proof from its effects, never
the BIOS's own word:

    SR-IOV    a GPU whose driver says `Host VGPU Mode : SR-IOV`, or virtual functions in being, prove it on;
              `Non SR-IOV` on a GPU of Ampere or later proves it off. That a NIC is capable of SR-IOV
              is its own word and says nothing of the BIOS.
    IOMMU     a function that can be passed through proves it on; none on the whole host proves it off.
    64-bit    a GPU in service with a memory window above 4 GiB (all boards with a large BAR) proves it on,
    BARs      since that window has no room below (derived). Nothing proves it off: then
              `apply --done` is the only way on.

An unreadable BIOS is no reason to take down a host whose driver serves its GPUs: an admin checks it, and
confirms it. A host without the driver is checked at a cold boot, once: if the BIOS shows nothing after that
either, confirmation is requested. One that is known to have it otherwise is switched off. SR-IOV and 64-bit
BARs are not requested if no GPU's board has a use for them.

Menu entries are those seen in the vendors' and users' guides; others are named otherwise.

Source: NVIDIA AI Enterprise 5.0 User Guide (prerequisites).

Belief: reboot-activates-settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from vgpu_cfg.changes.kinds.change_host import HostWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.model.observed.inventory import PciDevice
from vgpu_cfg.model.plan_file import BiosEntry
from vgpu_cfg.model.plan_values import NicUse
from vgpu_cfg.planning.capacity.gpu_state import BEFORE_SRIOV
from vgpu_cfg.planning.host_settings.entry import (
    DesiredSetting,
    HostSetting,
    HostView,
    Instructions,
    Invalidator,
    Reading,
    Remembering,
)
from vgpu_cfg.planning.host_settings.esxi import ESXI
from vgpu_cfg.planning.host_settings.gpus.driver import DRIVER
from vgpu_cfg.planning.host_settings.gpus.gpu_support import architecture
from vgpu_cfg.planning.host_settings.gpus.graphics import GRAPHICS_SETTINGS
from vgpu_cfg.planning.host_settings.gpus.mig_and_ecc import ECC, MIG, PASSTHROUGH_SETTINGS
from vgpu_cfg.planning.host_settings.gpus.scheduler import SCHEDULER
from vgpu_cfg.planning.host_settings.kernel import ATS
from vgpu_cfg.planning.host_settings.licence import LICENCE
from vgpu_cfg.planning.host_settings.match import nic_rules
from vgpu_cfg.planning.host_settings.nics.firmware_tools import FIRMWARE_TOOLS
from vgpu_cfg.planning.host_settings.nics.handed_out import NIC_LABEL, NIC_PASSTHROUGH, NIC_SRIOV
from vgpu_cfg.planning.host_settings.nics.nic_firmware import NIC_FIRMWARE
from vgpu_cfg.planning.host_settings.nics.rdma import NMLX5_CORE, NMLX5_RDMA, PVRDMA, PVRDMA_FIREWALL
from vgpu_cfg.planning.host_settings.nics.uplinks import UPLINK
from vgpu_cfg.planning.host_settings.nics.vmknics import VMKNIC

ON, OFF = "enabled", "disabled"

_SERVED = (GraphicsType.SHARED, GraphicsType.SHARED_DIRECT)

_SRIOV_MENU = (
    "Dell: Integrated Devices > SR-IOV Global Enable; HPE: BIOS/Platform Configuration (RBSU) > "
    "Virtualization Options > SR-IOV; Supermicro and others: the PCIe menu, SR-IOV Support"
)
_ABOVE_4G_MENU = (
    "Dell and Intel: Memory Mapped I/O above 4GB (Dell: under Integrated Devices); Supermicro and others: "
    "the PCIe menu, Above 4G Decoding"
)
_IOMMU_MENU = (
    "Dell: Processor Settings > Virtualization Technology (and IOMMU Support on AMD systems); HPE: "
    "BIOS/Platform Configuration (RBSU) > Virtualization Options; Supermicro and others: Intel VT-d, or "
    "IOMMU on AMD systems"
)


def _read_sriov(view: HostView, _device: str) -> Reading:
    """Read it from virtual functions in being, then from the GPUs' driver."""
    modes = _vgpu_modes(view)
    functions = [found.sriov for found in _devices(view) if found.sriov is not None]
    if "SR-IOV" in modes.values() or any(found.is_active or found.functions for found in functions):
        return Reading(configured=ON)
    if any(
        mode == "Non SR-IOV" and architecture(view, pci_id) not in BEFORE_SRIOV
        for pci_id, mode in modes.items()
    ):
        return Reading(configured=OFF)
    return Reading(unread="no GPU driver reports whether it uses SR-IOV, and no virtual functions exist")


def _vgpu_modes(view: HostView) -> dict[str, str]:
    """Return the `Host VGPU Mode` of each GPU in the output of `nvidia-smi -q`."""
    shell = view.facts.shell
    gpus = shell.gpus if shell is not None else {}
    return {pci_id: facts.host_vgpu_mode for pci_id, facts in gpus.items() if facts.host_vgpu_mode}


def _devices(view: HostView) -> Iterator[PciDevice]:
    """Yield every PCI function that the host shows, also those listed only with a NIC or GPU."""
    yield from view.host.pci_devices
    yield from (nic.pci for nic in view.host.nics if nic.pci is not None)
    yield from (gpu.pci for gpu in view.host.gpus)


def _read_above_4g(view: HostView, _device: str) -> Reading:
    for gpu in view.host.gpus:
        board = view.boards.get(gpu.pci_id)
        if board is not None and board.mmio_gb is not None and gpu.graphics_type in _SERVED:
            return Reading(configured=ON)
    return Reading(unread="not detectable until the NVIDIA driver controls a GPU with a large BAR")


def _read_iommu(view: HostView, _device: str) -> Reading:
    if any(found.passthrough_capable for found in _devices(view)):
        return Reading(configured=ON)
    if not view.host.pci_devices:
        return Reading(unread="the host's PCI devices were not read")
    return Reading(configured=OFF)


def _is_bare(view: HostView) -> bool:
    """Whether no NVIDIA driver serves the host's GPUs yet: then each of them is `basic`, or has no type."""
    own = [gpu for gpu in view.host.gpus if not gpu.is_passthrough]
    return bool(own) and not any(gpu.graphics_type in _SERVED for gpu in own)


def _was_seen_to(view: HostView) -> bool:
    """Whether the host has booted since this tool took it down: then the BIOS could have been set."""
    mark, booted = view.facts.mark, view.facts.boot_time
    return mark is not None and mark.maintenance and booted is not None and booted > mark.since


def _uses_sriov(entry: DesiredHosts, view: HostView) -> bool:
    """Whether a GPU may be of Ampere or later, or a NIC is to be cut up; one of an unknown board may."""
    if any(rule.use is NicUse.SRIOV or rule.vfs for _, rule in nic_rules(entry, view)):
        return True
    known = [view.boards.get(gpu.pci_id) for gpu in view.host.gpus]
    return not known or any(board is None or board.architecture not in BEFORE_SRIOV for board in known)


def _uses_large_bars(_entry: DesiredHosts, view: HostView) -> bool:
    """Whether a GPU may have a large BAR; one of an unknown board may."""
    known = [view.boards.get(gpu.pci_id) for gpu in view.host.gpus]
    return not known or any(board is None or board.mmio_gb is not None for board in known)


def _entry(  # noqa: PLR0913 - one argument for each thing that tells the three entries apart
    key: str,
    title: str,
    *,
    wanted: Callable[[BiosEntry], bool | None],
    is_of_use: Callable[[DesiredHosts, HostView], bool],
    read: Callable[[HostView, str], Reading],
    menu: str,
    why: str,
    verify: tuple[str, ...],
    facts: frozenset[FactGroup] = frozenset(),
    remembered: Remembering | None = None,
) -> HostSetting:
    def desired_settings(entry: DesiredHosts, view: HostView) -> Iterable[DesiredSetting]:
        value = wanted(entry.bios) if entry.bios is not None else None
        if value is not None and (not value or is_of_use(entry, view)):
            yield DesiredSetting(key, ON if value else OFF)

    def impact(view: HostView, _desired: DesiredSetting) -> Impact:
        hidden = bool(read(view, "").unread)
        return Impact.NONE if hidden and (_was_seen_to(view) or not _is_bare(view)) else Impact.HOST_COLD_BOOT

    def by_hand(view: HostView, desired: DesiredSetting) -> str:
        if impact(view, desired) is Impact.NONE:
            seen = f"check that {title} is {desired.value} in {view.host.name}'s BIOS ({menu})"
            return f"{seen}; then confirm with `apply --done`"
        return f"set {title} to {desired.value} ({menu})"

    def how(_view: HostView, desired: DesiredSetting) -> Instructions:
        other = OFF if desired.value == ON else ON
        return Instructions(
            why=why,
            client=f"not accessible from vSphere; in the server's BIOS: {menu}",
            expected=f"{title}: {desired.value}",
            verify=verify,
            undo=(f"# in the server's BIOS: {title} to {other}",),
        )

    return HostSetting(
        key=key,
        title=title,
        source="NVIDIA AI Enterprise 5.0 User Guide, prerequisites",
        desired_settings=desired_settings,
        read=read,
        write=_nothing,
        impact=impact,
        how=how,
        group="bios",
        in_file="set it manually in the BIOS",
        remembered=remembered,
        facts=facts,
        by_hand=by_hand,
    )


def _nothing(_view: HostView, _desired_settings: Sequence[DesiredSetting]) -> Sequence[HostWrite]:
    return ()


BIOS_SETTINGS = (
    _entry(
        "bios_sriov",
        "BIOS SR-IOV",
        wanted=lambda bios: bios.sriov,
        is_of_use=_uses_sriov,
        read=_read_sriov,
        menu=_SRIOV_MENU,
        why=(
            "Ampere and later GPUs use a virtual function for each vGPU. If SR-IOV is off in the BIOS, a "
            "vGPU fails to start with: Could not initialize plugin 'libnvidia-vgx.so'"
        ),
        verify=("nvidia-smi -q | grep 'Host VGPU Mode'",),
        facts=frozenset({FactGroup.SHELL_GPUS}),
        # A BIOS is set while the host is off.
        remembered=Remembering((Invalidator.BOOT, Invalidator.BUILD), attributes=1, words=(ON, OFF)),
    ),
    _entry(
        "bios_above_4g",
        "BIOS 64-bit BARs",
        wanted=lambda bios: bios.above_4g,
        is_of_use=_uses_large_bars,
        read=_read_above_4g,
        menu=_ABOVE_4G_MENU,
        why="large GPUs have memory windows of 32 GiB or more, which do not fit below 4 GiB",
        verify=("esxcli graphics device list",),
    ),
    _entry(
        "bios_iommu",
        "BIOS IOMMU",
        wanted=lambda bios: bios.iommu,
        is_of_use=lambda _entry, _view: True,
        read=_read_iommu,
        menu=_IOMMU_MENU,
        why="without an IOMMU, ESXi cannot pass devices or virtual functions through to a VM",
        verify=("esxcli hardware pci pcipassthru list",),
    ),
)


SETTINGS: tuple[HostSetting, ...] = (
    *BIOS_SETTINGS,
    ESXI,
    DRIVER,
    FIRMWARE_TOOLS,
    ATS,
    *GRAPHICS_SETTINGS,
    *PASSTHROUGH_SETTINGS,
    MIG,
    ECC,
    SCHEDULER,
    NIC_FIRMWARE,
    NIC_PASSTHROUGH,
    NIC_LABEL,
    NIC_SRIOV,
    NMLX5_CORE,
    NMLX5_RDMA,
    # A switch first, then the VMkernel NIC on it, then what names that NIC.
    UPLINK,
    VMKNIC,
    PVRDMA,
    PVRDMA_FIREWALL,
    LICENCE,
)

_BY_KEY: Mapping[str, HostSetting] = {setting.key: setting for setting in SETTINGS}


def setting(key: str) -> HostSetting:
    """Return the entry with a key; KeyError names the keys that there are."""
    try:
        return _BY_KEY[key]
    except KeyError:
        raise KeyError(f"no host setting {key!r}; the table contains {', '.join(_BY_KEY)}") from None
