"""A lab with somebody logged in to one host's shell, and the tasks that tests of it need."""

from __future__ import annotations

from tests.unit.lab.rig import Rig
from vgpu_cfg.lab.shell.shell import open_shell
from vgpu_cfg.lab.state.host import Gpu, Host, Nic
from vgpu_cfg.lab.state.host_defaults import MFT_VIBS

MLXCONFIG, MST = "/opt/mellanox/bin/mlxconfig", "/opt/mellanox/bin/mst"
GPU_0, GPU_1 = "0000:21:00.0", "0000:e2:00.0"
CX6_0, CX6_1 = "0000:24:00.0", "0000:e4:00.0"


class Desk(Rig):
    """A rig whose first host has SSH on and the firmware tools installed."""

    def __init__(self, estate: str = "two-a100") -> None:
        super().__init__(estate)
        self.esx: Host = self.lab.state.all(Host)[0]
        self.esx.services["TSM-SSH"].running = True
        self.esx.software |= {vib.name: vib for vib in MFT_VIBS}
        self.shell = open_shell(self.lab, self.esx.name, password="any")

    def run_line(self, line: str) -> tuple[int, str, str]:
        return self.shell.execute(line)

    def tell(self, line: str) -> str:
        """Run a command that must succeed, and return what it prints."""
        status, out, err = self.run_line(line)
        assert (status, err) == (0, ""), (status, out, err)
        return out

    def lines(self, line: str) -> list[str]:
        return self.tell(line).splitlines()

    def gpu(self, pci_id: str = GPU_0) -> Gpu:
        found = self.esx.gpu(pci_id)
        assert found is not None
        return found

    def nic(self, pci_id: str = CX6_0) -> Nic:
        return next(nic for nic in self.esx.nics if nic.pci.pci_id == pci_id)

    def pass_through(self, pci_id: str) -> None:
        state = self.esx.passthrough_of(pci_id)
        state.enabled = state.active = True
        self.esx.passthrough[pci_id] = state
