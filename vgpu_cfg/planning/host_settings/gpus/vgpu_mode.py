"""The mixed-size mode of a GPU: its conditions, its duration, and its reading.

Reported and set from ESXi 8.0 U3 on, on GPUs of Ampere or later that are not in MIG mode and whose scheduler
is not fixed share. The GPU must be empty; it holds at once, and a reboot of the host drops it back to same
size. vSphere reports one mode of a GPU (`none`, `sameSize`, `mixedSize`, `multiInstanceGpu`), so there is no
mixed size with MIG, though NVIDIA's Blackwell boards can on other hypervisors (a walkthrough of vGPU 20).
Sources: vim `HostGraphicsConfigDeviceType.vgpuMode` and `HostGraphicsInfoVgpuMode` (8.0.3.0).

Belief: reboot-drops-mixed-size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from vgpu_cfg.changes.kinds.change_host import HostWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.model.observed.inventory import Gpu, Host
from vgpu_cfg.model.plan_file import HostGpuEntry
from vgpu_cfg.model.plan_values import SchedulerPolicy
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
from vgpu_cfg.planning.host_settings.gpus.gpu_support import architecture, objection_to, served_gpus, with_gpu
from vgpu_cfg.planning.host_settings.gpus.scheduler import read_policy

_FIRST_RELEASE = (8, 0, 3)
_TOO_OLD_BOARDS = ("Volta", "Turing")

_IN_MIG_MODE = "vGPU modes do not apply to a GPU in MIG mode"
_SHARED = "the GPU's graphics type will be `shared`, which does not support vGPUs"
_FIXED_SHARE = "mixed-size mode is not available with the fixed_share scheduler"
_REMEDIES = {
    _IN_MIG_MODE: "remove `vgpu_mode`, or set `sharing: time_sliced`",
    _SHARED: "set `use: vgpu` or `graphics_type: sharedDirect`, or remove `vgpu_mode`",
    _FIXED_SHARE: "set `scheduler: best_effort` or `equal_share`, or `vgpu_mode: same_size`",
}
"""The remedy for a note that the mode is impossible."""


def _desired_settings(entry: DesiredHosts, view: HostView) -> Iterable[DesiredSetting]:
    for gpu, rule, note in served_gpus(entry, view):
        if rule.vgpu_mode is None:
            continue
        yield DesiredSetting(
            "vgpu_mode", rule.vgpu_mode.value, gpu.pci_id, note=note or _obstacle(entry, view, gpu, rule)
        )


def _obstacle(entry: DesiredHosts, view: HostView, gpu: Gpu, rule: HostGpuEntry) -> str:
    """Say what else is asked of the GPU, or holds there, that leaves no room for the mode."""
    if (rule.sharing or gpu.sharing) is Sharing.MIG:
        return _IN_MIG_MODE
    kept = gpu.configured_graphics_type or view.host.graphics_type
    if rule.use is None and (entry.graphics_type or kept) is GraphicsType.SHARED:
        return _SHARED
    policy = rule.scheduler or read_policy(view, gpu.pci_id)
    is_mixed = rule.vgpu_mode is VgpuMode.MIXED_SIZE
    return _FIXED_SHARE if is_mixed and policy == SchedulerPolicy.FIXED_SHARE else ""


def _read(view: HostView, device: str) -> Reading:
    """Read the value in force: the configured one is void after the next reboot."""
    gpu = view.gpu(device)
    if gpu is None:
        return Reading(unread="the host does not list this GPU", is_absent=True)
    if not is_at_least(view.host.version, _FIRST_RELEASE):
        return Reading(configured=VgpuMode.SAME_SIZE.value)
    if gpu.sharing is Sharing.MIG:
        return Reading(configured="none (MIG mode)")
    if gpu.vgpu_mode is None:
        return Reading(
            unread="the host reports no vGPU mode for the GPU because the host driver does not control it"
            + gpu.pci.mode_note
        )
    return Reading(configured=gpu.vgpu_mode.value)


def _objects(view: HostView, desired: DesiredSetting) -> Objection | None:
    if desired.note in _REMEDIES:
        return Objection(Code.NOT_SUPPORTED, desired.note, _REMEDIES[desired.note])
    if (found := objection_to(view, desired)) is not None or desired.value == VgpuMode.SAME_SIZE:
        return found
    if not is_at_least(view.host.version, _FIRST_RELEASE):
        message = f"mixed-size mode requires ESXi 8.0 U3, but the host runs {view.host.version}"
        return Objection(Code.NOT_SUPPORTED, message, "set `vgpu_mode: same_size`, or upgrade the host")
    if architecture(view, desired.device) in _TOO_OLD_BOARDS:
        message = (
            "mixed-size mode requires an Ampere or later GPU; this GPU is "
            f"{architecture(view, desired.device)}"
        )
        return Objection(Code.NOT_SUPPORTED, message, "set `vgpu_mode: same_size` for this GPU")
    return None


def _how(_view: HostView, desired: DesiredSetting) -> Instructions:
    shown = {"same_size": "Same size", "mixed_size": "Mixed size"}[desired.value]
    return Instructions(
        why=(
            "in same-size mode, all vGPUs on a GPU have the framebuffer size of the first; in mixed-size "
            "mode, sizes can differ, but fewer vGPUs fit on a GPU. No vGPU may be running on the GPU when "
            "the mode changes. A host reboot resets the mode to same size"
        ),
        client=f"host > Configure > Hardware > Graphics > Graphics Devices > {{device}} > Edit: {shown}",
        commands=(),
        expected="the GPU's vgpuMode in graphicsInfo: " + _wire(desired.value),
        verify=("govc object.collect -json -s {host} config.graphicsInfo", "nvidia-smi vgpu -c -v"),
        undo=("# as above, with the other mode",),
    )


def _wire(value: str) -> str:
    return {"same_size": "sameSize", "mixed_size": "mixedSize"}[value]


def _show(host: Host, desired: DesiredSetting) -> Host:
    wanted = VgpuMode(desired.value)
    return with_gpu(host, desired.device, vgpu_mode=wanted, configured_vgpu_mode=wanted)


def vgpu_mode_setting(
    group: str,
    write: Callable[[HostView, Sequence[DesiredSetting]], Sequence[HostWrite]],
    other_way: Callable[[HostView, Sequence[DesiredSetting]], HostWrite | None],
) -> HostSetting:
    """Make the entry, which is written together with the other graphics settings."""
    return HostSetting(
        key="vgpu_mode",
        title="vGPU mode",
        source="vim HostGraphicsConfigDeviceType.vgpuMode (8.0.3.0)",
        desired_settings=_desired_settings,
        read=_read,
        write=write,
        other_way=other_way,
        impact=lambda _view, _desired: Impact.HOST_MAINTENANCE,
        how=_how,
        group=group,
        in_file=only(Part.GPU, "vgpu_mode", "mixed_size", where="mixed_size"),
        remembered=None,
        facts=frozenset({FactGroup.SOFTWARE, FactGroup.MODULES}),
        after=("graphics_type", "gpu_graphics_type"),
        needs_in_force=("driver", "gpu_passthrough", "mig", "scheduler"),
        is_dropped_by_reboot=lambda _view, desired: desired.value == VgpuMode.MIXED_SIZE,
        objects=_objects,
        show=_show,
    )
