"""The command for each fact on an ESXi host, and the meaning of a missing answer.

nvidia-smi is in the path once the NVIDIA host driver's VIB is installed. mlxconfig and mst come with the MFT
VIBs, in /opt/mellanox/bin. On ESXi mlxconfig takes mst's device names (NVIDIA MFT documentation, "mst
Synopsis - VMware"); that it takes a PCI address there too, as it does on Linux, is unproven and only tried
where mst lists no name.

Belief: nvidia-smi-mig-on-esxi, nvidia-smi-topo-on-esxi.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from vgpu_cfg.model.observed.host_facts import LINKS_UNREAD, MIG_UNREAD, FirmwareValue, ShellFacts
from vgpu_cfg.parsers.errors import ToolFailed, UnreadableOutput
from vgpu_cfg.parsers.nvidia.smi import (
    BUS_ID_FIELDS,
    parse_gpu_csv,
    parse_mig_instances,
    parse_query_leniently,
)
from vgpu_cfg.parsers.nvidia.topology import links_by_address, parse_topology
from vgpu_cfg.parsers.rdma.mlxconfig import parse_firmware, parse_mst_status
from vgpu_cfg.ports import ShellResult

NVIDIA_SMI = "nvidia-smi"
MLXCONFIG = "/opt/mellanox/bin/mlxconfig"
MST = "/opt/mellanox/bin/mst"

Run = Callable[[Sequence[str]], ShellResult]

_NOT_THERE = frozenset({126, 127})
"""A POSIX shell's exit statuses for a command that it cannot execute, or find."""


def read_gpus(run: Run) -> ShellFacts:
    """Ask `nvidia-smi -q` of all GPUs, once."""
    result = run((NVIDIA_SMI, "-q"))
    if result.status in _NOT_THERE:
        return _nothing("nvidia-smi is not installed on this host; install the NVIDIA host driver")
    try:
        report = parse_query_leniently(result.stdout or result.stderr)
    except UnreadableOutput as error:
        return _nothing(_why(error))
    if result.status != 0:
        return _nothing(f"nvidia-smi -q failed with exit code {result.status}: {_last_line(result)}")
    unread = dict(report.unreadable)
    reported = len(report.gpus) + len(unread)
    if report.attached is not None and reported < report.attached:
        unread[""] = f"nvidia-smi lists {reported} GPUs but reports {report.attached} attached"
    return ShellFacts(
        gpus={gpu.pci_id: gpu.facts for gpu in report.gpus},
        driver_version=report.driver_version,
        unread=unread,
    )


_INDEX_FIELDS = ("index", "gpu_bus_id", "name")


def read_links(run: Run) -> ShellFacts:
    """Ask `nvidia-smi topo -m`, and which address each GPU of its matrix has."""
    matrix = run((NVIDIA_SMI, "topo", "-m"))
    if matrix.status in _NOT_THERE:
        return ShellFacts(unread={LINKS_UNREAD: "nvidia-smi is not installed on this host"})
    try:
        found = parse_topology(matrix.stdout or matrix.stderr)
        return ShellFacts(links=links_by_address(found, _addresses(run)))
    except UnreadableOutput as error:
        return ShellFacts(unread={LINKS_UNREAD: _why(error)})


def read_mig(run: Run) -> ShellFacts:
    """Ask `nvidia-smi mig -lgi`, and where it lists something, which address each GPU has."""
    listed = run((NVIDIA_SMI, "mig", "-lgi"))
    if listed.status in _NOT_THERE:
        return ShellFacts(unread={MIG_UNREAD: "nvidia-smi is not installed on this host"})
    try:
        found = parse_mig_instances(listed.stdout or listed.stderr)
        addresses = _addresses(run) if found else {}
        mig = {addresses[f"GPU{number}"]: instances for number, instances in found.items()}
    except UnreadableOutput as error:
        return ShellFacts(unread={MIG_UNREAD: _why(error)})
    except KeyError as error:
        return ShellFacts(unread={MIG_UNREAD: f"nvidia-smi reports no address for {error.args[0]}"})
    return ShellFacts(mig=mig)


def _addresses(run: Run) -> Mapping[str, str]:
    """Ask which address each GPU has, by its name in the matrix. Raises UnreadableOutput."""
    table = run((NVIDIA_SMI, f"--query-gpu={','.join(_INDEX_FIELDS)}", "--format=csv"))
    rows = parse_gpu_csv(table.stdout or table.stderr)
    return {f"GPU{row.get('index')}": _address_in(row) for row in rows}


def _address_in(row: Mapping[str, str | None]) -> str:
    return next((row[name] or "" for name in sorted(BUS_ID_FIELDS & row.keys())), "")


def read_firmware(run: Run, pci_ids: Sequence[str]) -> ShellFacts:
    """Ask mlxconfig of each NIC, by its PCI address."""
    firmware: dict[str, Mapping[str, FirmwareValue]] = {}
    unread: dict[str, str] = {}
    for pci_id in pci_ids:
        result = run((MLXCONFIG, "-d", pci_id, "-e", "query"))
        if result.status in _NOT_THERE:
            reason = f"{MLXCONFIG} is not installed on this host; install NVIDIA's MFT and NMST components"
            return ShellFacts(unread=dict.fromkeys(pci_ids, reason), has_firmware_tools=False)
        try:
            query = parse_firmware(result.stdout or result.stderr)
        except ToolFailed as error:
            unread[pci_id] = f"{_why(error)}; `{MST} status -vv` must list the NIC; see `{MST} start`"
        except UnreadableOutput as error:
            unread[pci_id] = _why(error)
        else:
            firmware[pci_id] = query.parameters
            if query.is_partial:
                unread[pci_id] = "mlxconfig could not read all parameters of this NIC"
    return ShellFacts(firmware=firmware, unread=unread, has_firmware_tools=True if pci_ids else None)


def read_mst_names(run: Run) -> Mapping[str, str]:
    """Ask `mst status -vv` for its names of devices, by PCI address; empty if it lists none."""
    result = run((MST, "status", "-vv"))
    try:
        devices = parse_mst_status(result.stdout) if result.status == 0 else ()
    except UnreadableOutput:
        # mlxconfig is then asked by address, and what it says of that is what the user reads.
        return {}
    return {device.pci_id: device.name for device in devices}


def _nothing(reason: str) -> ShellFacts:
    return ShellFacts(unread={"": reason})


def _why(error: UnreadableOutput) -> str:
    return f"{error.message}; {error.remedy}" if isinstance(error, ToolFailed) else error.message


def _last_line(result: ShellResult) -> str:
    lines = [line for line in (result.stderr or result.stdout).splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no output"
