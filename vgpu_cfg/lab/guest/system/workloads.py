"""Workloads in a guest and their ends: a restart of the guest, a daemon or a container, the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from vgpu_cfg.lab.guest.system import guestinfo
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.guest import Workload
from vgpu_cfg.lab.state.inventory import VirtualMachine

DOCKER = "docker"
_REPORT = "vgpu_cfg.training"


def end_all(lab: Simulation, vm: VirtualMachine) -> None:
    """End everything: the guest goes down."""
    if vm.made_guest is not None and vm.made_guest.phase != "off":
        _end(lab, vm, lambda _one: True)


def restart_runtime(lab: Simulation, vm: VirtualMachine, runtime: str) -> None:
    """Restart a runtime's daemon: docker's ends its containers unless it has live-restore, no other does.

    containerd's shims keep containers alive without it; Apptainer has no daemon.
    """
    if runtime == DOCKER and not guest_of(vm).live_restore:
        _end(lab, vm, lambda one: one.runtime == DOCKER)


def end_container(lab: Simulation, vm: VirtualMachine, container: str) -> None:
    """End a container with what runs in it."""
    _end(lab, vm, lambda one: one.container == container)


def end_gpu_users(lab: Simulation, vm: VirtualMachine) -> None:
    """End what uses a GPU: the driver is taken out of the kernel."""
    _end(lab, vm, lambda one: one.uses_gpu)


def end_training(lab: Simulation, vm: VirtualMachine, is_training: Callable[[Workload], bool]) -> None:
    """End a training on one of its workers, as `train` does."""
    _end(lab, vm, is_training)
    guestinfo.write(vm, _REPORT, "none")


def begin_training(lab: Simulation, vm: VirtualMachine, work: Iterable[Workload], ranks: int) -> None:
    """Start a training on one of its workers; the guest reports it, in the words of `node report`."""
    guest_of(vm).workloads += work
    begun = as_datetime(lab.clock.now())
    guestinfo.write(vm, _REPORT, f"since {begun:%Y-%m-%d %H:%M:%S} UTC, torchrun, {ranks} ranks")
    lab.state.touch(vm)


def _end(lab: Simulation, vm: VirtualMachine, ends: Callable[[Workload], bool]) -> None:
    guest = guest_of(vm)
    for one in [one for one in guest.workloads if ends(one)]:
        guest.workloads.remove(one)
        lab.note(vm, "process end", one.name)
