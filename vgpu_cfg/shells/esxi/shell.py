"""One ESXi host's shell: command lines from argument lists, and the tools for the facts.

ESXi runs busybox ash, which takes POSIX quoting: every argument arrives as it was given.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from vgpu_cfg.errors import HostShellError
from vgpu_cfg.model.observed.host_facts import FactGroup, ShellFacts
from vgpu_cfg.parsers.text import pci_id_of
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.shells.channel import Channel
from vgpu_cfg.shells.esxi import tools


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
            facts = tools.read_gpus(self.run)
        if FactGroup.SHELL_TOPOLOGY in groups:
            found = tools.read_links(self.run)
            unread = {**facts.unread, **found.unread}
            facts = facts.model_copy(update={"links": found.links, "unread": unread})
        if FactGroup.SHELL_MIG in groups:
            cut = tools.read_mig(self.run)
            facts = facts.model_copy(update={"mig": cut.mig, "unread": {**facts.unread, **cut.unread}})
        if FactGroup.SHELL_NICS in groups:
            nics = tools.read_firmware(self.run, nic_pci_ids)
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
            self._mst_names = tools.read_mst_names(lambda words: self._execute(words, 60.0))
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
