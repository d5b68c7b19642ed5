"""nvidia-smi mig: the GPU instances that could be made and those that there are.

vSphere makes an instance with each MIG-backed vGPU, so the instances are those of the vGPUs that run.
Tables are those of NVIDIA's guides; memory is a share of the framebuffer and a little more than the
guides print, engines other than SMs are 0, and the numbers of instances are made up.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap

from vgpu_cfg.catalog import MigGeometry, MigProfile
from vgpu_cfg.lab.nvidia.gpus import board_of, number_of
from vgpu_cfg.lab.nvidia.replies import Reply, say
from vgpu_cfg.lab.rules.gpu_load import entry_of
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import Gpu, Host

NOTHING_FOUND = 6
PROFILE_RULE = "+" + "-" * 77 + "+"
INSTANCE_RULE = "+" + "-" * 55 + "+"


def list_profiles(lab: Simulation, host: Host, gpus: Sequence[Gpu]) -> Reply:
    """List the instance profiles of the GPUs in MIG mode, with how many of each would fit now."""
    if refusal := _refusal(gpus):
        return refusal
    rows = [line for gpu in gpus if gpu.mig_enabled for line in _profiles(host, gpu)]
    return say(
        PROFILE_RULE,
        _framed(" GPU instance profiles:", 77),
        _framed(" GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC", 77),
        _framed("                              Free/Total   GiB              CE    JPEG  OFA", 77),
        "|" + "=" * 77 + "|",
        *rows,
    )


def list_instances(lab: Simulation, host: Host, gpus: Sequence[Gpu]) -> Reply:
    """List the instances that there are."""
    if refusal := _refusal(gpus):
        return refusal
    rows = [
        _framed(f"{number_of(host, gpu):>4}  MIG {found.instance:<13}{found.profile_id or 0:>5}{at:>9}"
                f"{f'{start}:{found.size}':>13}", 55)
        for gpu in gpus
        for at, (start, found) in enumerate(sorted(instances(gpu).items()), start=1)
    ]  # fmt: skip
    if not rows:
        return say("No GPU instances found: Not Found", status=NOTHING_FOUND)
    return say(
        INSTANCE_RULE,
        _framed(" GPU instances:", 55),
        _framed(" GPU   Name             Profile  Instance   Placement", 55),
        _framed("                          ID       ID       Start:Size", 55),
        "|" + "=" * 55 + "|",
        *(line for row in rows for line in (row, INSTANCE_RULE)),
    )


def instances(gpu: Gpu) -> dict[int, MigProfile]:
    """Return what instances a GPU has, by their first memory slice."""
    found: dict[int, MigProfile] = {}
    for use in gpu.uses:
        entry = entry_of(gpu.board, use.profile)
        if entry is not None and entry.mig is not None and use.start is not None:
            found[use.start] = entry.mig
    return found


def _refusal(gpus: Sequence[Gpu]) -> Reply | None:
    if all(board_of(gpu).mig is None for gpu in gpus):
        return say("No MIG-supported devices found.", status=NOTHING_FOUND)
    if not any(gpu.mig_enabled for gpu in gpus):
        return say("No MIG-enabled devices found.", status=NOTHING_FOUND)
    return None


def _profiles(host: Host, gpu: Gpu) -> list[str]:
    board = board_of(gpu)
    geometry = board.mig
    if geometry is None:
        return []
    known = sorted(geometry.instances.values(), key=lambda profile: (profile.size, profile.compute))
    per_slice = board.framebuffer_mib / geometry.memory_slices / 1024
    lines = []
    for profile in known:
        total = profile.max_per_gpu // profile.per_instance
        count = f"{_free(geometry, gpu, profile)}/{total}"
        engines = 1 if profile.has_media_engines else 0
        head = f"{number_of(host, gpu):>4}  MIG {profile.instance:<12}{profile.profile_id or 0:>4}{count:>8}"
        tail = f"{per_slice * profile.size:>12.2f}{'No':>9}{profile.sms or 0:>7}{0:>6}{0:>6}"
        lines += [
            _framed(head + tail, 77),
            _framed(f"{1:>62}{engines:>6}{engines:>6}", 77),
            PROFILE_RULE,
        ]
    return lines


def _free(geometry: MigGeometry, gpu: Gpu, profile: MigProfile) -> int:
    """Count how many more instances of a profile fit beside those that there are."""
    there = instances(gpu)
    taken = set[int]().union(*starmap(_slices, there.items()))
    computes = geometry.compute_slices - sum(other.compute for other in there.values())
    same = sum(other.instance == profile.instance for other in there.values())
    most = profile.max_per_gpu // profile.per_instance - same
    count = 0
    for start in profile.starts:
        wanted = _slices(start, profile)
        if taken & wanted or count >= most or computes < profile.compute:
            continue
        taken |= wanted
        computes -= profile.compute
        count += 1
    return count


def _slices(start: int, profile: MigProfile) -> set[int]:
    return set(range(start, start + profile.size))


def _framed(text: str, width: int) -> str:
    return f"|{text:<{width}}|"
