"""A host's graphics settings, and the input of `UpdateGraphicsConfig`: types, assignment policy, vGPU modes.

All four settings are parts of one object that is written back whole, so they are one group and one call. A
type or policy is in force after a restart of the service `xorg`, or of the host if it lists no such service;
without NVIDIA's driver every GPU stays `basic`. Unproven: that a restart of xorg alone drops the vGPU mode,
and that a type written together with the driver's installation is in force after the reboot that brings the
driver.

A vGPU mode is reported and set from ESXi 8.0 U3 on, on GPUs of Ampere or later that are not in MIG mode and
whose scheduler is not fixed share. The GPU must be empty; the mode holds at once, and a reboot of the host
drops it back to same size. vSphere reports one mode of a GPU (`none`, `sameSize`, `mixedSize`,
`multiInstanceGpu`), so there is no mixed size with MIG, though NVIDIA's Blackwell boards can on other
hypervisors (a walkthrough of vGPU 20).

Sources: vim `HostGraphicsConfig`, `HostGraphicsConfigDeviceType.vgpuMode` and `HostGraphicsInfoVgpuMode`
(8.0.3.0); NVIDIA AI Enterprise 5.0 User Guide 2.7.6.

Belief: graphics-type-after-xorg-restart, graphics-type-with-driver, reboot-drops-mixed-size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vgpu_cfg.changes.kinds.change_host import EsxcliWrite, GraphicsWrite, HostWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.gpu_use import AssignmentPolicy, GraphicsType
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.model.observed.inventory import Gpu, Host
from vgpu_cfg.model.plan_file import HostGpuEntry
from vgpu_cfg.model.plan_values import GpuUse, SchedulerPolicy
from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.model.wording import is_at_least
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Objection
from vgpu_cfg.planning.host_settings.entry import (
    DesiredSetting,
    HostSetting,
    HostView,
    Instructions,
    Part,
    Reading,
    only,
)
from vgpu_cfg.planning.host_settings.gpus.gpu_support import (
    architecture,
    driver_note,
    objection_to,
    served_gpus,
    with_gpu,
)
from vgpu_cfg.planning.host_settings.gpus.scheduler import read_policy
from vgpu_cfg.planning.host_settings.match import gpu_rules

XORG = "xorg"
GROUP = "graphics"

_TYPE_WORDS = {GraphicsType.SHARED: "Shared", GraphicsType.SHARED_DIRECT: "SharedPassthru"}
_POLICY_WORDS = {AssignmentPolicy.PERFORMANCE: "Performance", AssignmentPolicy.CONSOLIDATION: "Consolidation"}
_KEPT = "no rule covers this GPU, so it keeps its graphics type"
_SOURCE = "NVIDIA AI Enterprise 5.0 User Guide 2.7.6; vim HostGraphicsConfig"


def write_graphics(_view: HostView, desired_settings: Sequence[DesiredSetting]) -> tuple[GraphicsWrite]:
    """Put every graphics setting of a host into one call."""
    types = {
        desired.device: GraphicsType(desired.value)
        for desired in desired_settings
        if desired.setting == "gpu_graphics_type"
    }
    modes = {
        desired.device: VgpuMode(desired.value)
        for desired in desired_settings
        if desired.setting == "vgpu_mode"
    }
    default = next(
        (desired.value for desired in desired_settings if desired.setting == "graphics_type"), None
    )
    policy = next(
        (desired.value for desired in desired_settings if desired.setting == "assignment_policy"), None
    )
    return (
        GraphicsWrite(
            default_type=None if default is None else GraphicsType(default),
            assignment_policy=None if policy is None else AssignmentPolicy(policy),
            graphics_types=types,
            vgpu_modes=modes,
        ),
    )


def _other_way(view: HostView, desired_settings: Sequence[DesiredSetting]) -> HostWrite | None:
    """Set host-wide values by esxcli; for single GPUs there is no other way.

    The options are documented for the shell; that they go through vCenter too is unproven.
    """
    (write,) = write_graphics(view, desired_settings)
    if write.graphics_types or write.vgpu_modes:
        return None
    options: list[tuple[str, str]] = []
    if write.default_type is not None:
        options.append(("default-type", _TYPE_WORDS[write.default_type]))
    if write.assignment_policy is not None:
        options.append(("shared-passthru-assignment-policy", _POLICY_WORDS[write.assignment_policy]))
    return EsxcliWrite(command="graphics.host.set", arguments=tuple(options))


def _impact(view: HostView, _desired: DesiredSetting) -> Impact:
    return Impact.SERVICE_RESTART if XORG in view.facts.services else Impact.HOST_REBOOT


def _has_graphics(view: HostView) -> bool:
    """Whether there is anything to set: a host without GPUs may report no graphics settings at all."""
    return bool(view.host.gpus) or view.host.graphics_type is not None


def _same_type(wanted: str, found: str) -> bool:
    """Whether a type is the wanted one; without a driver `basic` is all that shared can be."""
    return found == wanted or (wanted == GraphicsType.SHARED and found == GraphicsType.BASIC)


def _desired_type(entry: DesiredHosts, view: HostView) -> Iterable[DesiredSetting]:
    if entry.graphics_type is not None and _has_graphics(view):
        yield DesiredSetting(
            "graphics_type", entry.graphics_type.value, note=_note(entry, view, entry.graphics_type)
        )


def _note(entry: DesiredHosts, view: HostView, wanted: GraphicsType) -> str:
    """Say that sharedDirect needs a driver; without GPUs, or for shared, there is nothing to say."""
    needs_driver = wanted is GraphicsType.SHARED_DIRECT and view.host.gpus
    return driver_note(entry, view) if needs_driver else ""


def _read_type(view: HostView, _device: str) -> Reading:
    """Read the host's default; the value in force shows at the GPUs that follow it.

    `basic` at a GPU says that no driver serves it, and nothing of the default.
    """
    default = view.host.graphics_type
    if default is None:
        return Reading(unread="the host reports no graphics settings")
    late = (
        gpu.graphics_type
        for gpu in _followers(view.host)
        if gpu.graphics_type not in (None, GraphicsType.BASIC, default)
    )
    runtime = next(late, None)
    return Reading(configured=default.value, runtime=None if runtime is None else runtime.value)


def _followers(host: Host) -> Iterable[Gpu]:
    """Yield the GPUs whose configured type is the host's default."""
    return (
        gpu
        for gpu in host.gpus
        if not gpu.is_passthrough and gpu.configured_graphics_type is host.graphics_type
    )


def _show_type(host: Host, desired: DesiredSetting) -> Host:
    wanted = GraphicsType(desired.value)
    update = {"graphics_type": wanted, "configured_graphics_type": wanted}
    followers = {gpu.pci_id for gpu in _followers(host)}
    gpus = tuple(gpu.model_copy(update=update) if gpu.pci_id in followers else gpu for gpu in host.gpus)
    return host.model_copy(update={"graphics_type": wanted, "gpus": gpus})


def _desired_gpu_types(entry: DesiredHosts, view: HostView) -> Iterable[DesiredSetting]:
    """Ask sharedDirect for GPUs that serve vGPUs; GPUs of a rule without `use` follow the host's default.

    An entry of their own outweighs the default, so that a changed default alone would not reach them. If the
    plan file has rules for GPUs, those to leave and those of no rule keep their type: a changed default would
    reach one that has no entry of its own.
    """
    uses = {gpu.pci_id: rule.use for gpu, rule in gpu_rules(entry, view)}
    for gpu in view.host.gpus:
        use = uses.get(gpu.pci_id, GpuUse.LEAVE if entry.gpus else None)
        if use is GpuUse.VGPU:
            wanted = GraphicsType.SHARED_DIRECT
        elif entry.graphics_type is None or gpu.is_passthrough:
            continue
        elif use is None:
            wanted = entry.graphics_type
        elif use is GpuUse.LEAVE and _would_follow(gpu, entry.graphics_type, view):
            kept = view.host.graphics_type
            yield DesiredSetting("gpu_graphics_type", str(kept), gpu.pci_id, note=_KEPT)
            continue
        else:
            continue
        yield DesiredSetting("gpu_graphics_type", wanted.value, gpu.pci_id, note=_note(entry, view, wanted))


def _would_follow(gpu: Gpu, default: GraphicsType, view: HostView) -> bool:
    """Whether a GPU of the host's default gets another type with a new one."""
    return (
        view.host.graphics_type in _TYPE_WORDS
        and default is not view.host.graphics_type
        and (gpu in _followers(view.host))
    )


def _read_gpu_type(view: HostView, device: str) -> Reading:
    """Read a GPU's type. A passthrough GPU is `direct` now, and later the configured type."""
    gpu = view.gpu(device)
    if gpu is None:
        return Reading(unread="the host does not list this GPU", is_absent=True)
    configured = gpu.configured_graphics_type or view.host.graphics_type
    if configured is None:
        return Reading(unread="the host reports no graphics settings")
    runtime = GraphicsType.DIRECT if gpu.is_passthrough else gpu.graphics_type
    return Reading(configured=configured.value, runtime=None if runtime is None else runtime.value)


def _show_gpu_type(host: Host, desired: DesiredSetting) -> Host:
    wanted = GraphicsType(desired.value)
    return with_gpu(host, desired.device, graphics_type=wanted, configured_graphics_type=wanted)


def _desired_policy(entry: DesiredHosts, view: HostView) -> Iterable[DesiredSetting]:
    if entry.assignment_policy is not None and _has_graphics(view):
        yield DesiredSetting("assignment_policy", entry.assignment_policy.value)


def _read_policy(view: HostView, _device: str) -> Reading:
    policy = view.host.assignment_policy
    if policy is None:
        return Reading(unread="the host reports no graphics settings")
    return Reading(configured=policy.value)


def _show_policy(host: Host, desired: DesiredSetting) -> Host:
    return host.model_copy(update={"assignment_policy": AssignmentPolicy(desired.value)})


def _how(view: HostView, desired: DesiredSetting) -> Instructions:
    """Describe the steps for the host-wide settings and a single GPU alike: one page of the client."""
    other = {
        "shared": "sharedDirect",
        "sharedDirect": "shared",
        "performance": "consolidation",
        "consolidation": "performance",
    }[desired.value]
    tab = "Graphics Devices > {device} > Edit" if desired.device else "Host Graphics > Edit"
    restart = (
        "govc host.service -host {host} restart xorg"
        if XORG in view.facts.services
        else "esxcli system shutdown reboot --reason=graphics"
    )
    set_it, undo = ((), ()) if desired.device else (_command(desired.value), _command(other))
    return Instructions(
        why=_WHY[desired.setting],
        client=f"host > Configure > Hardware > Graphics > {tab}: {desired.value}",
        commands=set_it,
        expected="after the restart, the configured and active types match for every GPU",
        verify=("esxcli graphics host get", "esxcli graphics device list"),
        undo=(*undo, restart),
    )


def _command(value: str) -> tuple[str]:
    if value in ("performance", "consolidation"):
        option = f"--shared-passthru-assignment-policy {_POLICY_WORDS[AssignmentPolicy(value)]}"
    else:
        option = f"--default-type {_TYPE_WORDS[GraphicsType(value)]}"
    return (f"esxcli graphics host set {option}",)


_WHY = {
    "graphics_type": (
        "a VM with a vGPU starts only on a host whose graphics type is Shared Direct; otherwise, it fails "
        "with: The amount of graphics resource available in the parent resource pool is insufficient"
    ),
    "gpu_graphics_type": (
        "the GPU's own type overrides the host's default, so for vGPUs, the GPU itself must be Shared "
        "Direct. All VMs that use it must be powered off"
    ),
    "assignment_policy": (
        "performance spreads vGPUs over all GPUs; consolidation fills one GPU before using the next, "
        "which keeps whole GPUs free for larger profiles"
    ),
}


_FIRST_WITH_MODES = (8, 0, 3)
_TOO_OLD_BOARDS = ("Volta", "Turing")

_IN_MIG_MODE = "vGPU modes do not apply to a GPU in MIG mode"
_SHARED = "the GPU's graphics type will be `shared`, which does not support vGPUs"
_FIXED_SHARE = "mixed-size mode is not available with the fixed_share scheduler"
_MODE_REMEDIES = {
    _IN_MIG_MODE: "remove `vgpu_mode`, or set `sharing: time_sliced`",
    _SHARED: "set `use: vgpu` or `graphics_type: sharedDirect`, or remove `vgpu_mode`",
    _FIXED_SHARE: "set `scheduler: best_effort` or `equal_share`, or `vgpu_mode: same_size`",
}
"""The remedy for a note that the mode is impossible."""


def _desired_modes(entry: DesiredHosts, view: HostView) -> Iterable[DesiredSetting]:
    for gpu, rule, note in served_gpus(entry, view):
        if rule.vgpu_mode is None:
            continue
        yield DesiredSetting(
            "vgpu_mode",
            rule.vgpu_mode.value,
            gpu.pci_id,
            note=note or _obstacle_to_mode(entry, view, gpu, rule),
        )


def _obstacle_to_mode(entry: DesiredHosts, view: HostView, gpu: Gpu, rule: HostGpuEntry) -> str:
    """Say what else is asked of the GPU, or holds there, that leaves no room for the mode."""
    if (rule.sharing or gpu.sharing) is Sharing.MIG:
        return _IN_MIG_MODE
    kept = gpu.configured_graphics_type or view.host.graphics_type
    if rule.use is None and (entry.graphics_type or kept) is GraphicsType.SHARED:
        return _SHARED
    policy = rule.scheduler or read_policy(view, gpu.pci_id)
    is_mixed = rule.vgpu_mode is VgpuMode.MIXED_SIZE
    return _FIXED_SHARE if is_mixed and policy == SchedulerPolicy.FIXED_SHARE else ""


def _read_mode(view: HostView, device: str) -> Reading:
    """Read the value in force: the configured one is void after the next reboot."""
    gpu = view.gpu(device)
    if gpu is None:
        return Reading(unread="the host does not list this GPU", is_absent=True)
    if not is_at_least(view.host.version, _FIRST_WITH_MODES):
        return Reading(configured=VgpuMode.SAME_SIZE.value)
    if gpu.sharing is Sharing.MIG:
        return Reading(configured="none (MIG mode)")
    if gpu.vgpu_mode is None:
        return Reading(
            unread="the host reports no vGPU mode for the GPU because the host driver does not control it"
            + gpu.pci.mode_note
        )
    return Reading(configured=gpu.vgpu_mode.value)


def _objects_to_mode(view: HostView, desired: DesiredSetting) -> Objection | None:
    if desired.note in _MODE_REMEDIES:
        return Objection(Code.NOT_SUPPORTED, desired.note, _MODE_REMEDIES[desired.note])
    if (found := objection_to(view, desired)) is not None or desired.value == VgpuMode.SAME_SIZE:
        return found
    if not is_at_least(view.host.version, _FIRST_WITH_MODES):
        message = f"mixed-size mode requires ESXi 8.0 U3, but the host runs {view.host.version}"
        return Objection(Code.NOT_SUPPORTED, message, "set `vgpu_mode: same_size`, or upgrade the host")
    if architecture(view, desired.device) in _TOO_OLD_BOARDS:
        message = (
            "mixed-size mode requires an Ampere or later GPU; this GPU is "
            f"{architecture(view, desired.device)}"
        )
        return Objection(Code.NOT_SUPPORTED, message, "set `vgpu_mode: same_size` for this GPU")
    return None


def _how_mode(_view: HostView, desired: DesiredSetting) -> Instructions:
    words = {"same_size": ("Same size", "sameSize"), "mixed_size": ("Mixed size", "mixedSize")}
    shown, on_wire = words[desired.value]
    return Instructions(
        why=(
            "in same-size mode, all vGPUs on a GPU have the framebuffer size of the first; in mixed-size "
            "mode, sizes can differ, but fewer vGPUs fit on a GPU. No vGPU may be running on the GPU when "
            "the mode changes. A host reboot resets the mode to same size"
        ),
        client=f"host > Configure > Hardware > Graphics > Graphics Devices > {{device}} > Edit: {shown}",
        commands=(),
        expected=f"the GPU's vgpuMode in graphicsInfo: {on_wire}",
        verify=("govc object.collect -json -s {host} config.graphicsInfo", "nvidia-smi vgpu -c -v"),
        undo=("# use the same command with the other mode",),
    )


def _show_mode(host: Host, desired: DesiredSetting) -> Host:
    wanted = VgpuMode(desired.value)
    return with_gpu(host, desired.device, vgpu_mode=wanted, configured_vgpu_mode=wanted)


GRAPHICS_SETTINGS = (
    HostSetting(
        key="graphics_type",
        title="graphics type",
        source=_SOURCE,
        desired_settings=_desired_type,
        read=_read_type,
        same=_same_type,
        write=write_graphics,
        other_way=_other_way,
        impact=_impact,
        how=_how,
        group=GROUP,
        in_file=only(Part.HOST, "graphics_type", "sharedDirect", where="sharedDirect"),
        remembered=None,
        facts=frozenset({FactGroup.SOFTWARE}),
        service=XORG,
        after=("driver",),
        objects=objection_to,
        show=_show_type,
    ),
    HostSetting(
        key="assignment_policy",
        title="vGPU assignment policy",
        source="NVIDIA AI Enterprise 5.0 User Guide; vim HostGraphicsConfig",
        desired_settings=_desired_policy,
        read=_read_policy,
        write=write_graphics,
        other_way=_other_way,
        impact=_impact,
        how=_how,
        group=GROUP,
        in_file=only(Part.HOST, "assignment_policy", "consolidation", where="consolidation"),
        remembered=None,
        service=XORG,
        after=("driver",),
        show=_show_policy,
    ),
    HostSetting(
        key="gpu_graphics_type",
        title="GPU graphics type",
        source=_SOURCE,
        desired_settings=_desired_gpu_types,
        read=_read_gpu_type,
        same=_same_type,
        write=write_graphics,
        other_way=_other_way,
        impact=_impact,
        how=_how,
        group=GROUP,
        in_file=only(Part.GPU, "use", "vgpu", where="sharedDirect"),
        remembered=None,
        facts=frozenset({FactGroup.SOFTWARE}),
        service=XORG,
        after=("driver",),
        needs_in_force=("gpu_passthrough",),
        objects=objection_to,
        show=_show_gpu_type,
    ),
    HostSetting(
        key="vgpu_mode",
        title="vGPU mode",
        source="vim HostGraphicsConfigDeviceType.vgpuMode (8.0.3.0)",
        desired_settings=_desired_modes,
        read=_read_mode,
        write=write_graphics,
        other_way=_other_way,
        impact=lambda _view, _desired: Impact.HOST_MAINTENANCE,
        how=_how_mode,
        group=GROUP,
        in_file=only(Part.GPU, "vgpu_mode", "mixed_size", where="mixed_size"),
        remembered=None,
        facts=frozenset({FactGroup.SOFTWARE, FactGroup.MODULES}),
        after=("graphics_type", "gpu_graphics_type"),
        needs_in_force=("driver", "gpu_passthrough", "mig", "scheduler"),
        is_dropped_by_reboot=lambda _view, desired: desired.value == VgpuMode.MIXED_SIZE,
        objects=_objects_to_mode,
        show=_show_mode,
    ),
)
