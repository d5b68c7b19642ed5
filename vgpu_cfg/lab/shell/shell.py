"""Which tools a host's shell has, and where each stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vgpu_cfg.errors import HostShellError
from vgpu_cfg.lab.nvidia.gpus import Reply, Tool, complain
from vgpu_cfg.lab.nvidia.mlxconfig import run_mlxconfig, run_mst
from vgpu_cfg.lab.nvidia.smi import run_nvidia_smi
from vgpu_cfg.lab.shell.esxcli import run_esxcli
from vgpu_cfg.lab.shell.init_scripts import run_gpu_daemon, run_vmkload_mod, run_xorg
from vgpu_cfg.lab.shell.words import BadLineError, split_line
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import Host

NOT_FOUND = 127
PATH = ("/bin", "/sbin", "/usr/bin", "/usr/sbin")
"""Folders in which a tool is found by its bare name; MFT's is not among them."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A tool and whether a host has it."""

    tool: Tool
    is_on: Callable[[Host], bool]


def _always(_host: Host) -> bool:
    return True


def _has_driver(host: Host) -> bool:
    return host.driver is not None


def _has_daemon(host: Host) -> bool:
    return host.driver is not None and host.driver.gpu_daemon


def _has_firmware_tools(host: Host) -> bool:
    return "mft" in host.software


def _has_xorg(host: Host) -> bool:
    return "xorg" in host.services


TOOLS = {
    "/bin/esxcli": Installed(run_esxcli, _always),
    "/bin/vmkload_mod": Installed(run_vmkload_mod, _always),
    "/bin/nvidia-smi": Installed(run_nvidia_smi, _has_driver),
    "/opt/mellanox/bin/mst": Installed(run_mst, _has_firmware_tools),
    "/opt/mellanox/bin/mlxconfig": Installed(run_mlxconfig, _has_firmware_tools),
    "/etc/init.d/xorg": Installed(run_xorg, _has_xorg),
    "/etc/init.d/nvdGpuMgmtDaemon": Installed(run_gpu_daemon, _has_daemon),
}


class LabShell:
    """Somebody's login on a host. It outlives nothing: once the host is away, every command fails."""

    def __init__(self, lab: Simulation, host: Host) -> None:
        self._lab = lab
        self._moid = host.moid
        self._boot_time = host.boot_time

    def execute(self, line: str) -> tuple[int, str, str]:
        """Run one command line; return its status, stdout and stderr. Raises HostShellError.

        That is raised where the host is not there any more, or was restarted since the login.
        """
        with self._lab.transaction():
            host = self._lab.state.get(self._moid, Host)
            if not is_reachable(host) or host.boot_time != self._boot_time:
                raise HostShellError(
                    "the connection was closed by the host",
                    subject=host.name,
                    remedy="wait until the host is back, and log in again",
                )
            reply = self._run(host, line)
        return reply.status, reply.stdout, reply.stderr

    def _run(self, host: Host, line: str) -> Reply:
        try:
            words = split_line(line)
        except BadLineError as error:
            return complain(str(error), status=error.status)
        return run_words(self._lab, host, words) if words else Reply()


def is_reachable(host: Host) -> bool:
    """Whether a host answers on its network at all."""
    return host.connection == "connected" and host.power_state == "poweredOn"


def run_words(lab: Simulation, host: Host, words: Sequence[str]) -> Reply:
    """Run one command, given as words."""
    name = words[0]
    places = [name] if "/" in name else [f"{folder}/{name}" for folder in PATH]
    found = next((TOOLS[place] for place in places if place in TOOLS), None)
    if found is None or not found.is_on(host):
        return complain(f"sh: {name}: not found", status=NOT_FOUND)
    return found.tool(lab, host, words[1:])
