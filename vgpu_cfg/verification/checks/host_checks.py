"""Checks of a host: its NVIDIA driver and modes, ATS, RoCE in its own driver, firmware, licenses.

Most of it comes from vCenter. If the host's shell is open (`access: {ssh: on}` and a running service),
nvidia-smi and mlxconfig supply the rest; a check never opens one.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC

from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.model.observed.inventory import Connection, Gpu
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.verification import Evidence
from vgpu_cfg.model.vgpu import Sharing
from vgpu_cfg.model.wording import counted
from vgpu_cfg.parsers.nvidia.smi import parse_query, parse_vgpus
from vgpu_cfg.parsers.rdma.mlxconfig import parse_firmware
from vgpu_cfg.parsers.text import UnreadableOutput
from vgpu_cfg.planning.host_settings.modules import option_of
from vgpu_cfg.verification.asking import Asking, Command, failed, is_absent, passed, said, skipped
from vgpu_cfg.verification.views import HostView

ATS_SETTINGS = ("atsSupport", "vtdAtsSupport")
"""The kernel setting, and its name up to ESXi 7.0 U1."""

MLXCONFIG = "/opt/mellanox/bin/mlxconfig"
CORE, RDMA = "nmlx5_core", "nmlx5_rdma"
TRUST_DSCP = 2

_DRIVER = re.compile(r"NVD-AIE|NVD-VGPU|NVIDIA-VMware", re.IGNORECASE)
_NO_SHELL = "readable only from the host's shell; set `access: {ssh: on}` and start the SSH service"


def ask_connected(view: HostView) -> Asking:
    """See whether vCenter has contact with the host; without it all that it shows of the host is old."""
    yield from ()
    if view.host.connection is Connection.CONNECTED:
        return passed("connected")
    names = fold_names(vm.name for vm in view.vms)
    return failed(
        VerifyCode.HOST_SILENT,
        f"the host {view.host.connection.words}{f'; affected: {names}' if names else ''}",
        Connection.CONNECTED.value,
    )


def ask_alarms(view: HostView) -> Asking:
    """Collect vCenter's alarms of the host."""
    yield from ()
    if view.alarms is None:
        return skipped("the account cannot read the host's alarms", is_asked=True)
    signs = (
        Evidence(
            kind=f"alarm-{'red' if one.is_red else 'yellow'}",
            words=f"{one.name}, since {one.since.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        )
        for one in view.alarms
    )
    return replace(passed("read"), evidence=tuple(signs))


def ask_host_driver(view: HostView) -> Asking:
    """See whether NVIDIA's host driver serves the GPUs that the plan's VMs hold."""
    if not view.vgpus:
        return skipped("no VM in the plan has a vGPU on this host")
    if view.has_shell:
        answer = yield Command(("nvidia-smi", "-q"), timeout_seconds=120)
        if is_absent(answer):
            return failed(
                VerifyCode.HOST_DRIVER, "nvidia-smi is not installed on the host", "the NVIDIA host driver"
            )
        try:
            seen = parse_query(answer.stdout or answer.stderr)
        except UnreadableOutput as error:
            return failed(VerifyCode.HOST_DRIVER, error.line or error.message, "the NVIDIA host driver")
        absent = [pci_id for pci_id in view.vgpus if seen.gpu(pci_id) is None]
        if absent:
            return failed(
                VerifyCode.HOST_DRIVER, f"the driver does not list {', '.join(absent)}", "every GPU in use"
            )
        return passed(f"{seen.driver_version}, {counted(len(seen.gpus), 'GPU')}")
    installed = [one for one in view.facts.software if _DRIVER.search(one.name)]
    if not installed and FactGroup.SOFTWARE in view.facts.groups:
        return failed(VerifyCode.HOST_DRIVER, "the driver package is not installed", "the NVIDIA host driver")
    if not view.host.creatable_profiles and not view.host.profiles:
        return failed(
            VerifyCode.HOST_DRIVER, "the host does not offer any vGPU profiles", "vGPU profiles for its GPUs"
        )
    words = installed[0].version if installed else "vGPU profiles offered"
    return passed(words)


def ask_graphics(view: HostView) -> Asking:
    """See whether the GPUs are set for vGPUs, in force and not merely configured, as planning sees it.

    A GPU's own type counts: the host's default is that of GPUs without one.
    """
    yield from ()
    if not view.vgpus:
        return skipped("no VM in the plan has a vGPU on this host")
    gpus = _gpus(view)
    wrong = [f"{gpu.pci_id} {gpu.graphics_type}" for gpu in gpus if gpu.gives_vgpus is False]
    if not wrong and any(gpu.gives_vgpus is None for gpu in gpus):
        return skipped("vCenter does not report the graphics type of the host's GPUs", is_asked=True)
    if wrong:
        return failed(VerifyCode.HOST_GRAPHICS, ", ".join(wrong), GraphicsType.SHARED_DIRECT.value)
    return passed(GraphicsType.SHARED_DIRECT.value, GraphicsType.SHARED_DIRECT.value)


def _gpus(view: HostView) -> list[Gpu]:
    return [gpu for gpu in view.host.gpus if gpu.pci_id in view.vgpus]


def ask_mig(view: HostView) -> Asking:
    """See whether each GPU is in the mode that the profiles on it need."""
    if not view.vgpus:
        return skipped("no VM in the plan has a vGPU on this host")
    reported = {gpu.pci_id: gpu.sharing for gpu in _gpus(view)}
    if view.has_shell:
        answer = yield Command(("nvidia-smi", "-q"), timeout_seconds=120)
        for gpu in parse_query(answer.stdout or answer.stderr).gpus:
            if gpu.pci_id in reported:
                reported[gpu.pci_id] = Sharing.MIG if gpu.mig_current else Sharing.TIME_SLICED
    wrong = []
    for pci_id, profiles in view.vgpus.items():
        wanted = {profile.sharing for profile in profiles}
        mode = reported.get(pci_id)
        # Inside a MIG slice vGPUs may take turns; such profiles are MIG-backed all the same.
        if mode is not None and wanted and mode not in wanted:
            wrong.append(f"{pci_id} is {_mode_text(mode)}")
    wanted = {profile.sharing for profiles in view.vgpus.values() for profile in profiles}
    expected = " and ".join(sorted(_mode_text(mode) for mode in wanted))
    if wrong:
        return failed(VerifyCode.HOST_MIG, ", ".join(wrong), expected)
    if all(mode is None for mode in reported.values()):
        return skipped(f"vCenter reports the GPU mode only in 8.0.3 and later; {_NO_SHELL}", is_asked=True)
    return passed(expected, expected)


def _mode_text(mode: Sharing) -> str:
    return "in MIG mode" if mode is Sharing.MIG else "not in MIG mode"


def ask_host_ats(view: HostView) -> Asking:
    """See whether the VMkernel runs with ATS."""
    yield from ()
    if not view.wants_ats:
        return skipped("no VM in the plan uses `rdma: gpudirect` on this host")
    if FactGroup.KERNEL in view.facts.unread:
        return skipped(f"could not be read: {view.facts.unread[FactGroup.KERNEL]}", is_asked=True)
    name = next((one for one in ATS_SETTINGS if one in view.facts.kernel), None)
    if name is None:
        return skipped("vCenter does not report this host's kernel settings", is_asked=True)
    seen = view.facts.kernel[name]
    if seen.runtime.upper() == "TRUE":
        return passed(f"{name} TRUE", "TRUE, active")
    waits = seen.configured.upper() == "TRUE"
    observed = f"{name} {seen.runtime}{', TRUE after a restart' if waits else ''}"
    return failed(
        VerifyCode.HOST_ATS,
        observed,
        "TRUE, active",
        remedy="restart the host to activate the configured value" if waits else "",
    )


def ask_host_roce(view: HostView) -> Asking:
    """Check that the host's NIC driver has PFC and marks as planned, if it carries RDMA of VMs."""
    yield from ()
    if not view.carries_rdma:
        return skipped("the plan's VMs do not send RDMA traffic through the host's driver")
    if view.roce is None:
        return skipped("the plan has no `training` with RDMA settings")
    modules = view.facts.modules
    if CORE not in modules:
        return skipped(
            view.facts.unread.get(FactGroup.MODULES, f"vCenter does not report the options for {CORE}"),
            is_asked=True,
        )
    dscp, priority = view.roce
    wanted = {
        # Without trust in DSCP what guests mark by it falls on priority 0, which nothing protects.
        CORE: {"pfctx": 1 << priority, "pfcrx": 1 << priority, "trust_state": TRUST_DSCP},
        RDMA: {"pcp_force": priority, "dscp_force": dscp},
    }
    wrong = []
    for module, options in wanted.items():
        for option, value in options.items():
            seen = option_of(modules.get(module, ""), option)
            if _number(seen) != value:
                wrong.append(f"{module} {option} {seen or 'not set'}")
    expected = f"PFC on {priority}, DSCP {dscp}"
    if wrong:
        return failed(VerifyCode.HOST_ROCE, ", ".join(wrong), expected)
    return passed(expected, expected)


def _number(text: str | None) -> int | None:
    try:
        return int(text, 0) if text is not None else None
    except ValueError:
        return None


def ask_nic_firmware(view: HostView) -> Asking:
    """Check that ATS is on in the firmware of NICs that the host still has; guests check the others."""
    if not view.wants_ats:
        return skipped("no VM in the plan uses `rdma: gpudirect` on this host")
    functions = sorted({address for vm in view.vms for address in vm.nic_functions})
    devices = (view.host.device(address) for address in functions)
    own = [device.pci_id for device in devices if device is not None and not device.passthrough_active]
    if not own:
        return skipped("the RDMA NICs are in passthrough; see the `ats` check in the guest")
    if not view.has_shell:
        return skipped(_NO_SHELL, is_asked=True)
    off: list[str] = []
    on: list[str] = []
    for address in own:
        answer = yield Command((MLXCONFIG, "-d", address, "-e", "query", "ATS_ENABLED"))
        seen = parse_firmware(answer.stdout or answer.stderr).parameters.get("ATS_ENABLED")
        value = (seen.current or seen.next_boot) if seen is not None else None
        (on if value == "True" else off).append(f"{address} {value or 'does not list ATS_ENABLED'}")
    if off:
        return failed(VerifyCode.HOST_NIC_FIRMWARE, ", ".join(off), "ATS_ENABLED True")
    return passed(", ".join(on), "ATS_ENABLED True")


def ask_near(view: HostView) -> Asking:
    """See whether each RDMA NIC of a VM with GPUDirect is on the NUMA node of one of its GPUs."""
    yield from ()
    nodes = {gpu.pci_id: gpu.numa_node for gpu in view.host.gpus}
    far: list[str] = []
    near: list[str] = []
    for vm in view.vms if view.wants_ats else ():
        own = {nodes.get(pci_id) for pci_id in vm.gpus} - {None}
        for address in vm.nic_functions if vm.gpudirect else ():
            device = view.host.device(address)
            node = device.numa_node if device is not None else None
            if node is not None and own:
                words = f"{vm.name}: {address} on node {node}"
                at = ", ".join(map(str, sorted(one for one in own if one is not None)))
                (near if node in own else far).append(f"{words}, its GPU on {at}")
    if far:
        return failed(VerifyCode.FAR_APART, "; ".join(far), "the same NUMA node")
    if near:
        return passed("; ".join(near))
    return skipped(
        "no GPUDirect on this host, or NUMA nodes not reported; see the measured bandwidth",
        is_asked=view.wants_ats,
    )


def ask_tenants(view: HostView) -> Asking:
    """Check that other VMs do not use time of the training GPUs."""
    yield from ()
    if not view.vgpus:
        return skipped("no VM in the plan has a vGPU on this host")
    taken = [f"{', '.join(names)} on {pci_id}" for pci_id, names in view.tenants.items()]
    if taken and view.thresholds.shared_gpus:
        return passed("; ".join(taken), "GPUs that can be shared with other VMs")
    if taken:
        return failed(
            VerifyCode.GPU_TAKEN,
            "; ".join(taken),
            "GPUs used only by VMs in the plan",
            meaning="other vGPUs time-share these GPUs, and all workers wait for the slowest one",
            remedy="move them to another GPU, use a full-GPU profile, or set `verify: {shared_gpus: "
            "true}` if this is intended",
        )
    return passed("GPUs used only by VMs in the plan")


def ask_host_licences(view: HostView) -> Asking:
    """Check the host driver's state of vGPU licenses, without entering a guest."""
    if not view.vgpus and not view.licence_of_all:
        return skipped("no VM in the plan has a vGPU on this host")
    if not view.has_shell:
        return skipped(_NO_SHELL, is_asked=True)
    answer = yield Command(("nvidia-smi", "vgpu", "-q"), timeout_seconds=120)
    if answer.status != 0:
        return failed(VerifyCode.NOT_UNDERSTOOD, said(answer), "licenses for running vGPUs")
    names = {vm.name for vm in view.vms}
    running = [one for listed in parse_vgpus(answer.stdout).values() for one in listed]
    assessed = [one for one in running if view.licence_of_all or one.vm_name in names]
    if not assessed:
        return skipped("no vGPUs to check are running on this host")
    bad = [f"{one.vm_name}: {one.licence or 'unknown'}" for one in assessed if not _is_licensed(one.licence)]
    expected = f"Licensed on all {len(assessed)} GPUs" if len(assessed) > 1 else "Licensed"
    if bad:
        return failed(VerifyCode.UNLICENSED, "; ".join(bad), expected)
    return passed(expected, expected)


def _is_licensed(licence: str | None) -> bool:
    return licence is not None and re.match(r"Licensed\b", licence) is not None
