"""One ESXi host's shell: command lines from argument lists, the command for each fact, and missing answers.

ESXi runs busybox ash, which takes POSIX quoting: every argument arrives as it was given.

nvidia-smi is in the path once the NVIDIA host driver's VIB is installed. mlxconfig and mst come with the MFT
VIBs, in /opt/mellanox/bin. On ESXi mlxconfig takes mst's device names (NVIDIA MFT documentation, "mst
Synopsis - VMware"); that it takes a PCI address there too, as it does on Linux, is unproven and only tried
where mst lists no name.

Belief: nvidia-smi-mig-on-esxi, nvidia-smi-topo-on-esxi.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence

from vgpu_cfg.errors import HostShellError
from vgpu_cfg.model.observed.host_facts import LINKS_UNREAD, MIG_UNREAD, FactGroup, FirmwareValue, ShellFacts
from vgpu_cfg.parsers.nvidia.smi import (
    BUS_ID_FIELDS,
    parse_gpu_csv,
    parse_mig_instances,
    parse_query_leniently,
)
from vgpu_cfg.parsers.nvidia.topology import links_by_address, parse_topology
from vgpu_cfg.parsers.rdma.mlxconfig import parse_firmware, parse_mst_status
from vgpu_cfg.parsers.text import ToolFailed, UnreadableOutput, pci_id_of
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.shells.channel import Channel

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
        unread[""] = f"nvidia-smi lists {reported} of {report.attached} attached GPUs"
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


class EsxiShell:
    """A shell on one host, as `ports.HostShell`."""

    def __init__(self, channel: Channel, host_name: str) -> None:
        self._channel = channel
        self._host_name = host_name
        self._mst_names: Mapping[str, str] | None = None

    def run(self, arguments: Sequence[str], *, timeout_seconds: float = 60.0) -> ShellResult:
        """Run one command and wait for it; a status other than 0 is returned, not raised.

        If mlxconfig gets a device by its PCI address, that is replaced by mst's name, which it requires on
        ESXi; an address that mst does not list stays.
        Raises HostShellError, also for arguments that no command line can carry.
        """
        if not arguments:
            raise ValueError("a command must have at least one word")
        words = list(arguments)
        at = _device_word(words)
        if at is not None:
            pci_id = pci_id_of(words[at])
            words[at] = self.mst_names().get(pci_id, words[at]) if pci_id is not None else words[at]
        return self._execute(words, timeout_seconds)

    def read_facts(self, groups: frozenset[FactGroup], nic_pci_ids: Sequence[str]) -> ShellFacts:
        """Ask nvidia-smi and mlxconfig; values that a tool does not report are in `unread`.

        For GPUs "" means all of them; a NIC is always in `firmware` or in `unread`. With the topology come
        the GPUs, for their module ids.
        Raises HostShellError if the connection breaks.
        """
        facts = ShellFacts()
        if groups & {FactGroup.SHELL_GPUS, FactGroup.SHELL_TOPOLOGY}:
            facts = read_gpus(self.run)
        if FactGroup.SHELL_TOPOLOGY in groups:
            found = read_links(self.run)
            unread = {**facts.unread, **found.unread}
            facts = facts.model_copy(update={"links": found.links, "unread": unread})
        if FactGroup.SHELL_MIG in groups:
            cut = read_mig(self.run)
            facts = facts.model_copy(update={"mig": cut.mig, "unread": {**facts.unread, **cut.unread}})
        if FactGroup.SHELL_NICS in groups:
            nics = read_firmware(self.run, nic_pci_ids)
            facts = facts.model_copy(
                update={
                    "firmware": nics.firmware,
                    "has_firmware_tools": nics.has_firmware_tools,
                    "unread": {**facts.unread, **nics.unread},
                }
            )
        return facts

    def mst_names(self) -> Mapping[str, str]:
        """Return mst's names of devices by PCI address, read once; empty if mst lists none."""
        if self._mst_names is None:
            self._mst_names = read_mst_names(lambda words: self._execute(words, 60.0))
        return self._mst_names

    def close(self) -> None:
        """Log out."""
        self._channel.close()

    def _execute(self, words: Sequence[str], timeout_seconds: float) -> ShellResult:
        if any("\0" in word for word in words):
            raise HostShellError(
                "a command argument cannot contain a NUL character",
                subject=self._host_name,
                remedy="remove it from the plan file",
            )
        return self._channel.execute(shlex.join(words), timeout_seconds).as_text


def _device_word(words: Sequence[str]) -> int | None:
    """Find the word after `-d` of an mlxconfig command."""
    if words[0].rpartition("/")[2] != "mlxconfig":
        return None
    for option in ("-d", "--dev"):
        if option in words[1:-1]:
            return words.index(option) + 1
    return None
