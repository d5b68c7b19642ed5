"""A lab with hosts to prepare, spoken to over its wire, and the few things that tests of it do often."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyVmomi import vim

from tests.unit.lab.rig import estate_of
from tests.unit.lab.wire.client import connect, everything
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.state.inventory import Cluster, Host, VirtualMachine
from vgpu_cfg.lab.vcenter import Lab

A100_HOST, OTHER_A100_HOST = "esx-r12-01.lab", "esx-r12-02.lab"
L40S_HOST, OTHER_L40S_HOST = "esx-r12-03.lab", "esx-r12-04.lab"
BUNDLE_8 = "/vmfs/volumes/vsan/NVD-AIE-800_580.95.02.zip"
BUNDLE_7 = "/vmfs/volumes/vsan/NVD-AIE-700_580.95.02.zip"
A100_0, A100_1 = "0000:21:00.0", "0000:e2:00.0"
CX6_0, CX6_1, UPLINK = "0000:24:00.0", "0000:e4:00.0", "0000:c1:00.0"


class HostRig:
    """One lab: `host` is what a client sees of a host, `state` what the lab keeps of it."""

    def __init__(self, estate: str | Path | Lab = "bare", folder: Path | None = None) -> None:
        self.lab: Lab = (
            estate if isinstance(estate, Lab) else open_lab(estate, folder=folder, clock=VirtualClock())
        )
        self.instance = connect(self.lab)
        self.content = self.instance.content

    def host(self, name: str = A100_HOST) -> Any:
        return next(host for host in everything(self.instance, vim.HostSystem) if host.name == name)

    def state(self, name: str = A100_HOST) -> Host:
        return next(host for host in self.lab.state.all(Host) if host.name == name)

    def cluster(self) -> Cluster:
        return self.lab.state.all(Cluster)[0]

    def vm(self, name: str) -> VirtualMachine:
        return next(vm for vm in self.lab.state.all(VirtualMachine) if vm.name == name)

    def host_of(self, vm: str) -> str:
        return self.lab.state.get(self.vm(vm).host, Host).name

    def end(self, task: Any) -> Any:
        """Wait for a task to end and return its info."""
        self.lab.run_until_idle()
        return task.info

    def done(self, task: Any) -> None:
        info = self.end(task)
        assert info.state == "success", info.error

    def enter(self, name: str = A100_HOST, timeout: int = 600) -> Any:
        return self.end(self.host(name).EnterMaintenanceMode_Task(timeout))

    def rest(self, name: str = A100_HOST) -> None:
        """Take a host into maintenance mode."""
        info = self.enter(name)
        assert info.state == "success", info.error

    def leave(self, name: str = A100_HOST) -> None:
        self.done(self.host(name).ExitMaintenanceMode_Task(0))

    def reboot(self, name: str = A100_HOST) -> None:
        """Reboot a host in maintenance mode and wait until it is back."""
        self.done(self.host(name).RebootHost_Task(force=False))
        self.settle()

    def power_cycle(self, name: str = A100_HOST) -> None:
        """Shut a host in maintenance mode down, and press its button."""
        self.done(self.host(name).ShutdownHost_Task(force=False))
        self.settle()
        self.lab.at_server(name, "power_on")
        self.settle()

    def settle(self) -> None:
        """Wait until every host is where it goes."""
        while self.lab.state.leaving or self.lab.state.booting:
            assert self.lab.wait()

    def install_driver(self, name: str = A100_HOST) -> None:
        """Take a bare host to one with the NVIDIA driver; it stays in maintenance mode."""
        self.rest(name)
        host = self.state(name)
        host.staged = {vib.name: vib for bundle in host.bundles.values() for vib in bundle}
        self.reboot(name)


def rig_of(text: str, tmp_path: Path) -> HostRig:
    """Return the rig of an estate given as text."""
    return HostRig(estate_of(text, tmp_path))
