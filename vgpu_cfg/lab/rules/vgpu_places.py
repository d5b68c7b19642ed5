"""On which GPUs of a host a VM's vGPUs would lie: device groups on joined GPUs first, then the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from vgpu_cfg.lab.rules import nvlink, refusals
from vgpu_cfg.lab.rules.gpu_choice import Pick
from vgpu_cfg.lab.rules.gpu_load import entry_of, find_slot, load_of
from vgpu_cfg.lab.rules.profiles import knows, serves_vgpus
from vgpu_cfg.lab.state.devices import groups_of, vgpus_of
from vgpu_cfg.lab.state.inventory import Gpu, Host, VgpuUse, VirtualMachine

Suits = Callable[[int, Gpu], bool]
"""Whether a GPU would do for the vGPU of a device key, room apart."""


@dataclass(slots=True)
class _Trial:
    """A host's GPUs as copies that fill up, and what lies where, by device key."""

    vm: VirtualMachine
    host: Host
    pick: Pick
    suits: Suits
    gpus: list[Gpu]
    placed: dict[int, tuple[str, VgpuUse]] = field(default_factory=dict)

    def put(self, key: int, profile: str, gpu: Gpu) -> None:
        slot = find_slot(load_of(self.host, gpu), profile)
        use = VgpuUse(self.vm.moid, key, profile, slot.start if slot is not None else None)
        gpu.uses.append(use)
        self.placed[key] = (gpu.pci_id, use)


def place_vgpus(
    vm: VirtualMachine, host: Host, pick: Pick, forced: Mapping[int, str], suits: Suits | None = None
) -> list[tuple[str, VgpuUse]]:
    """Choose a GPU for each vGPU, or raise the host's refusal; those placed count for those that follow.

    Groups come first, large ones before small ones; then single vGPUs, large ones before small ones.
    `forced` fixes the GPU of some device keys.
    """
    wanted = dict(vgpus_of(vm.devices))
    if not wanted:
        return []

    def does(key: int, gpu: Gpu) -> bool:
        is_meant = forced.get(key, gpu.pci_id) == gpu.pci_id
        return is_meant and serves_vgpus(host, gpu) and (suits is None or suits(key, gpu))

    copies = [replace(gpu, uses=list(gpu.uses)) for gpu in sorted(host.gpus, key=lambda gpu: gpu.pci_id)]
    trial = _Trial(vm, host, pick, does, copies)
    groups = groups_of(vm.devices)
    for group, keys in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        members = {key: wanted[key] for key in keys if key in wanted}
        if members:
            _place_group(trial, vm.device_groups.get(group, ""), members)
    single = [item for item in wanted.items() if item[0] not in trial.placed]
    for key, profile in sorted(single, key=lambda item: (-_framebuffer(trial.gpus, item[1]), item[0])):
        _place_single(trial, key, profile)
    return [trial.placed[key] for key in wanted]


def _place_group(trial: _Trial, name: str, members: dict[int, str]) -> None:
    """Give a group whole idle GPUs that NVLink joins, its members in the order of their sequence ids.

    The vGPU of a group with NICs lies where any other would.
    """
    profile = next(iter(members.values()))
    free: list[nvlink.GpuSet] = []
    offer = nvlink.offered_groups(trial.host).get(name)
    if offer is not None and offer.nics:
        for key, of in members.items():
            _place_single(trial, key, of)
        return
    if offer is not None:
        able = [
            gpu
            for gpu in trial.gpus
            if serves_vgpus(trial.host, gpu) and find_slot(load_of(trial.host, gpu), profile) is not None
        ]
        free = nvlink.free_sets(nvlink.joined_sets(able))
    room = [gpus for gpus in free if len(gpus) == len(members) and _is_meant(trial, list(members), gpus)]
    if not room:
        trial.vm.log.append(f"No {len(members)} idle GPUs that NVLink joins for the device group '{name}'.")
        raise refusals.no_graphics(refusals.no_gpu_for(profile))
    chosen = trial.pick.joined(room, free)
    for (key, of), gpu in zip(members.items(), chosen, strict=True):
        trial.put(key, of, gpu)


def _is_meant(trial: _Trial, keys: list[int], gpus: nvlink.GpuSet) -> bool:
    return all(trial.suits(key, gpu) for key, gpu in zip(keys, gpus, strict=True))


def _place_single(trial: _Trial, key: int, profile: str) -> None:
    host = trial.host
    room = [
        gpu
        for gpu in trial.gpus
        if trial.suits(key, gpu) and find_slot(load_of(host, gpu), profile) is not None
    ]
    if not room or not knows(host, profile):
        raise refusals.no_graphics(refusals.no_gpu_for(profile))
    trial.put(key, profile, trial.pick.gpu(room, host.assignment_policy))


def _framebuffer(gpus: list[Gpu], profile: str) -> int:
    entries = (entry_of(gpu.board, profile) for gpu in gpus)
    return max((entry.framebuffer_mib for entry in entries if entry is not None), default=0)
