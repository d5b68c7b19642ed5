"""Modes of a host's GPUs, for the diary: whichever tool changes one, the GPU experiences it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import is_passthrough
from vgpu_cfg.lab.state.host import Host
from vgpu_cfg.lab.state.vm import VirtualMachine


@contextmanager
def watched_gpus(lab: Simulation, host: Host) -> Iterator[None]:
    """Write into the diary which modes in force differ afterwards.

    VMs with GPUs that are registered here and off experience it as well: they start in another mode.
    """
    before = _modes(host)
    yield
    registered = [lab.state.get(moid, VirtualMachine) for moid in host.vms]
    waiting = [vm for vm in registered if not vm.is_on and any(map(is_passthrough, vm.devices.values()))]
    for (pci_id, mode), after in _modes(host).items():
        if before[pci_id, mode] != after:
            for thing in (host, *waiting):
                lab.note(thing, "gpu mode", f"{pci_id} {mode} {after}")


def _modes(host: Host) -> dict[tuple[str, str], str]:
    return {
        (gpu.pci_id, mode): str(value)
        for gpu in host.gpus
        for mode, value in (
            ("graphics_type", gpu.graphics_type),
            ("vgpu_mode", gpu.vgpu_mode),
            ("mig", gpu.mig_enabled),
            ("ecc", gpu.ecc_enabled),
            ("passthrough", host.is_passed_through(gpu.pci_id)),
        )
    }
