"""How a GPU is put into MIG mode or out of it, how its ECC is switched, and what becomes of both at a reboot.

Only `nvidia-smi` on the host's shell writes either. MIG: Ampere takes a reboot and then keeps the mode;
Hopper and later take none, and come up without MIG after every reboot. From ESXi 8.0 U3 on the API
tells the mode that is in force, the pending one shows in `nvidia-smi` alone. ECC takes a reboot and stays.
Sources: NVIDIA AI Enterprise 5.0 User Guide 2.11, 2.13; NVIDIA MIG User Guide.
That ESXi itself loses MIG mode on Hopper at a reboot is derived from the general rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from vgpu_cfg.changes.kinds.change_host import HostWrite, ShellWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.vgpu import Sharing
from vgpu_cfg.model.wording import is_at_least
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Objection
from vgpu_cfg.planning.host_settings.entry import (
    DesiredSetting,
    HostSetting,
    HostView,
    Instructions,
    Invalidator,
    Part,
    Reading,
    Remembering,
    only,
)
from vgpu_cfg.planning.host_settings.gpus.gpu_support import (
    architecture,
    objection_to,
    served_gpus,
    shell_facts,
    with_gpu,
)

ON, OFF = "enabled", "disabled"

_API_TELLS_MIG = (8, 0, 3)
_AT_ONCE = ("Hopper", "Blackwell")


def _word(is_on: bool) -> str:  # noqa: FBT001 - the value itself is what is put into words
    return ON if is_on else OFF


def _states(*, current: bool | None, pending: bool | None) -> Reading | None:
    """Return what is configured and in force, None where `nvidia-smi` prints N/A."""
    if current is None:
        return None
    return Reading(configured=_word(current if pending is None else pending), runtime=_word(current))


def _desired_mig(entry: DesiredHosts, view: HostView) -> Iterable[DesiredSetting]:
    """Ask for MIG or against it; against it not on boards that have none."""
    for gpu, rule, note in served_gpus(entry, view):
        if rule.sharing is None:
            continue
        board = view.boards.get(gpu.pci_id)
        if rule.sharing is Sharing.TIME_SLICED and board is not None and board.mig is None:
            continue
        yield DesiredSetting("mig", _word(rule.sharing is Sharing.MIG), gpu.pci_id, note=note)


def _read_mig(view: HostView, device: str) -> Reading:
    """Read it as `nvidia-smi` tells it; without a shell what the API says is in force, from 8.0 U3 on."""
    facts, reason = shell_facts(view, device)
    if facts is not None:
        return _states(current=facts.mig_current, pending=facts.mig_pending) or Reading(configured=OFF)
    gpu = view.gpu(device)
    if gpu is None:
        return Reading(unread="the host lists no such GPU", is_absent=True)
    if gpu.sharing is not None and not gpu.is_passthrough and is_at_least(view.host.version, _API_TELLS_MIG):
        return Reading(configured=_word(gpu.sharing is Sharing.MIG))
    return Reading(unread=reason)


def _object_to_mig(view: HostView, desired: DesiredSetting) -> Objection | None:
    board = view.boards.get(desired.device)
    facts, _ = shell_facts(view, desired.device)
    has_none = (board is not None and board.mig is None) or (facts is not None and facts.mig_current is None)
    if desired.value == ON and has_none:
        name = board.name if board is not None else "the GPU"
        return Objection(Code.NOT_SUPPORTED, f"{name} has no MIG mode", "say `sharing: time_sliced` for it")
    return objection_to(view, desired)


def _is_at_once(view: HostView, desired: DesiredSetting) -> bool:
    return architecture(view, desired.device) in _AT_ONCE


def _mig_impact(view: HostView, desired: DesiredSetting) -> Impact:
    """Say what it takes; a board that nobody knows is taken to need a reboot, as Ampere does."""
    return Impact.HOST_MAINTENANCE if _is_at_once(view, desired) else Impact.HOST_REBOOT


def _nvidia_smi(option: str, desired: DesiredSetting, value: str) -> tuple[str, ...]:
    return ("nvidia-smi", "-i", desired.device, option, "1" if value == ON else "0")


def _write(option: str, _view: HostView, desired_settings: Sequence[DesiredSetting]) -> Sequence[HostWrite]:
    return (
        ShellWrite(
            commands=tuple(_nvidia_smi(option, desired, desired.value) for desired in desired_settings)
        ),
    )


def _show_mig(host: Host, desired: DesiredSetting) -> Host:
    if desired.value == ON:
        return with_gpu(host, desired.device, sharing=Sharing.MIG, vgpu_mode=None)
    return with_gpu(host, desired.device, sharing=Sharing.TIME_SLICED)


def _how_mig(view: HostView, desired: DesiredSetting) -> Instructions:
    reboot = () if _is_at_once(view, desired) else ("esxcli system shutdown reboot --reason=MIG",)
    stays = (
        "A reboot of the host switches it off again, so it is set after every reboot"
        if _is_at_once(view, desired)
        else "It is in force after a reboot, and then stays until it is switched off"
    )
    other = OFF if desired.value == ON else ON
    shown = "Enabled" if desired.value == ON else "Disabled"
    return Instructions(
        why=(
            "a GPU in MIG mode takes only MIG-backed profiles, one out of it only time-sliced ones. vSphere "
            f"makes the instances itself. The GPU must be idle, or the mode stays pending. {stays}"
        ),
        commands=(" ".join(_nvidia_smi("-mig", desired, desired.value)),),
        expected=f"{shown} MIG Mode for GPU 0000{{device}}, then: All done.",
        verify=(
            "nvidia-smi -i {device} --query-gpu=pci.bus_id,mig.mode.current,mig.mode.pending --format=csv",
        ),
        undo=(" ".join(_nvidia_smi("-mig", desired, other)), *reboot),
    )


def _desired_ecc(entry: DesiredHosts, view: HostView) -> Iterable[DesiredSetting]:
    for gpu, rule, note in served_gpus(entry, view):
        if rule.ecc is not None:
            yield DesiredSetting("ecc", _word(rule.ecc), gpu.pci_id, note=note)


def _read_ecc(view: HostView, device: str) -> Reading:
    facts, reason = shell_facts(view, device)
    if facts is None:
        return Reading(unread=reason)
    absent = Reading(unread="nvidia-smi prints N/A: the GPU has no ECC to switch", is_absent=True)
    return _states(current=facts.ecc_current, pending=facts.ecc_pending) or absent


def _how_ecc(view: HostView, desired: DesiredSetting) -> Instructions:
    board = view.boards.get(desired.device)
    cost = "On boards with HBM it is on by default and costs no framebuffer, with GDDR it takes 1/16"
    if board is not None:
        has_hbm = board.memory_type.upper().startswith("HBM")
        cost = (
            f"{board.name} has {board.memory_type}: it costs {'no' if has_hbm else '1/16 of the'} framebuffer"
        )
    other = OFF if desired.value == ON else ON
    return Instructions(
        why=f"ECC corrects single-bit errors. {cost}. A VM moves only between GPUs of equal ECC state.",
        commands=(" ".join(_nvidia_smi("-e", desired, desired.value)),),
        expected="Current and Pending of Ecc Mode are equal after the reboot",
        verify=("nvidia-smi -i {device} -q | grep -A 2 -i 'ecc mode'",),
        undo=(" ".join(_nvidia_smi("-e", desired, other)), "esxcli system shutdown reboot --reason=ECC"),
    )


MIG = HostSetting(
    key="mig",
    title="MIG mode",
    source="NVIDIA AI Enterprise 5.0 User Guide 2.11; NVIDIA MIG User Guide",
    desired_settings=_desired_mig,
    read=_read_mig,
    write=partial(_write, "-mig"),
    impact=_mig_impact,
    how=_how_mig,
    group="mig",
    # From Hopper on the mode changes without a reboot, and before ESXi 8.0 U3 nothing else would show that.
    in_file=only(Part.GPU, "sharing", "mig", where=ON),
    remembered=Remembering(
        (Invalidator.BOOT, Invalidator.BUILD, Invalidator.DRIVER),
        attributes=2,
        words=(ON, OFF),
        changes_unseen=lambda view, device: architecture(view, device) in ("", *_AT_ONCE),
    ),
    facts=frozenset({FactGroup.SHELL_GPUS, FactGroup.SOFTWARE}),
    needs_in_force=("driver", "gpu_passthrough"),
    is_dropped_by_reboot=lambda view, desired: desired.value == ON and _is_at_once(view, desired),
    objects=_object_to_mig,
    show=_show_mig,
)

ECC = HostSetting(
    key="ecc",
    title="ECC",
    source="NVIDIA AI Enterprise 5.0 User Guide 2.13",
    desired_settings=_desired_ecc,
    read=_read_ecc,
    write=partial(_write, "-e"),
    impact=lambda _view, _desired: Impact.HOST_REBOOT,
    how=_how_ecc,
    group="ecc",
    # Another state is pending until the host has booted.
    in_file="only nvidia-smi on the host tells it",
    remembered=Remembering(
        (Invalidator.BOOT, Invalidator.BUILD, Invalidator.DRIVER), attributes=2, words=(ON, OFF)
    ),
    facts=frozenset({FactGroup.SHELL_GPUS, FactGroup.SOFTWARE}),
    needs_in_force=("driver", "gpu_passthrough"),
    objects=objection_to,
)
