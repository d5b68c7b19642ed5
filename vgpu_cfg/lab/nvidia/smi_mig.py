"""nvidia-smi's commands about parts of a GPU: `mig` with GPU instances, and `vgpu` with types and vGPUs.

`mig` shows the GPU instances that could be made and those that there are. vSphere makes an instance with each
MIG-backed vGPU, so the instances are those of the vGPUs that run. Tables are those of NVIDIA's guides; memory
is a share of the framebuffer and a little more than the guides print, engines other than SMs are 0, and the
numbers of instances are made up.

`vgpu` shows the types that a GPU has and could create now, and the vGPUs that run. A type's name there is the
profile's, in capitals and with a blank (`GRID A100-40C`, `NVIDIA A40-8Q`): a rule from samples. In MIG mode
nothing is creatable while there is no GPU instance (NVIDIA's guide). Numbers of vGPUs and of VMs are made up
from the moids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import starmap

from vgpu_cfg.catalog import MigGeometry, MigProfile
from vgpu_cfg.lab.nvidia.gpus import Reply, board_of, bus_id, number_of, on_or_off, say
from vgpu_cfg.lab.rules.gpu_load import entry_of, find_slot, is_offered, known_profiles, load_of, serves_vgpus
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.guest import Guest
from vgpu_cfg.lab.state.host import Gpu, Host, VgpuUse
from vgpu_cfg.lab.state.inventory import VirtualMachine

NOTHING_FOUND = 6
PROFILE_RULE = "+" + "-" * 77 + "+"
INSTANCE_RULE = "+" + "-" * 55 + "+"

WIDTH = 42
LICENSED_YEARS = 10
"""How long a licence of the lab lasts, from its clock on: longer than a real one, so that none ends here."""


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
    """Count how many more instances of a profile fit next to the existing ones."""
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


def supported(lab: Simulation, host: Host, gpus: Sequence[Gpu]) -> Reply:
    """List every type that a GPU has in its present mode."""
    return say(*(line for gpu in gpus for line in [f"GPU {bus_id(gpu)}", *_names(_offered(host, gpu))]))


def creatable(lab: Simulation, host: Host, gpus: Sequence[Gpu]) -> Reply:
    """List the types that there is room for now."""
    return say(*(line for gpu in gpus for line in [f"GPU {bus_id(gpu)}", *_names(_creatable(host, gpu))]))


def running(lab: Simulation, host: Host, gpus: Sequence[Gpu]) -> Reply:
    """Show each vGPU that runs."""
    lines: list[str] = []
    for gpu in gpus:
        lines += [f"GPU {bus_id(gpu)}", _line(1, "Active vGPUs", str(len(gpu.uses)))]
        for use in gpu.uses:
            lines += _use(lab, gpu, use)
        lines.append("")
    return say(*lines)


def type_name(profile: str) -> str:
    """Return nvidia-smi's name of a profile."""
    vendor, _, rest = profile.partition("_")
    return f"{vendor.upper()} {rest.upper()}"


def _names(profiles: Sequence[str]) -> list[str]:
    return [f"    {type_name(profile)}" for profile in profiles]


def _offered(host: Host, gpu: Gpu) -> list[str]:
    load = load_of(host, gpu)
    return [
        entry.name
        for entry in known_profiles(host)
        if entry.board.key == gpu.board and is_offered(load, entry)
    ]


def _creatable(host: Host, gpu: Gpu) -> list[str]:
    if not serves_vgpus(host, gpu) or (gpu.mig_enabled and not instances(gpu)):
        return []
    load = load_of(host, gpu)
    return [name for name in _offered(host, gpu) if find_slot(load, name) is not None]


def _line(depth: int, name: str, value: str) -> str:
    return f"{'    ' * depth + name:<{WIDTH}}: {value}"


def _licence(lab: Simulation, guest: Guest | None) -> str:
    """Return the host's record of a guest's license; without a driver in it, nothing."""
    if guest is None or not guest.driver:
        return "N/A (Expiry: N/A)"
    site = lab.state.internet
    is_given = site.licence == "valid" and guest.licence not in ("", *site.expired_tokens)
    if not is_given or not guest.services.get("nvidia-gridd", True):
        return "Unlicensed (Unrestricted)"
    end = as_datetime(lab.clock.now())
    return f"Licensed (Expiry: {end.year + LICENSED_YEARS}-{end.month}-{end.day} {end.hour}:0:0 GMT)"


def _use(lab: Simulation, gpu: Gpu, use: VgpuUse) -> Iterator[str]:
    number = int(use.vm.rpartition("-")[2])
    vm = lab.state.find(use.vm, VirtualMachine)
    entry = entry_of(gpu.board, use.profile)
    total = entry.framebuffer_mib if entry is not None else 0
    is_mig = entry is not None and entry.mig is not None
    at = sorted(instances(gpu)).index(use.start) + 1 if is_mig and use.start is not None else None
    yield _line(1, "vGPU ID", str(3_251_634_000 + number * 16 + use.device_key % 16))
    yield _line(2, "VM ID", str(2_100_000 + number))
    yield _line(2, "VM Name", vm.name if vm is not None else "N/A")
    yield _line(2, "vGPU Name", type_name(use.profile))
    guest = vm.made_guest if vm is not None else None
    yield _line(2, "Guest Driver Version", (guest.driver if guest is not None else "") or "N/A")
    yield _line(2, "License Status", _licence(lab, guest))
    yield _line(2, "GPU Instance ID", "N/A" if at is None else str(at))
    if not is_mig and use.start is not None:
        yield _line(2, "Placement ID", str(use.start))
    yield _line(2, "Accounting Mode", "Disabled")
    yield _line(2, "ECC Mode", on_or_off(is_on=gpu.ecc_enabled))
    yield f"{'    ' * 2}FB Memory Usage"
    yield _line(3, "Total", f"{total} MiB")
    yield _line(3, "Used", "0 MiB")
    yield _line(3, "Free", f"{total} MiB")
