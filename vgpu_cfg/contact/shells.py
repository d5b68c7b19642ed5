"""The experiment in the shells of hosts: it reads nvidia-smi and mlxconfig, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing

from vgpu_cfg.contact.bench import Bench, Verdicts
from vgpu_cfg.model.observed.host_facts import LINKS_UNREAD, MIG_UNREAD, SHELL_GROUPS, ShellFacts
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.planning.doctor.trials import SHELLS
from vgpu_cfg.planning.doctor.tried import Evidence, verdict_of


def _links(host: Host, facts: ShellFacts) -> Evidence:
    yield host.name, LINKS_UNREAD not in facts.unread


def _instances(host: Host, facts: ShellFacts) -> Evidence:
    if facts.mig or MIG_UNREAD in facts.unread:
        yield host.name, MIG_UNREAD not in facts.unread


def _numa_nodes(host: Host, facts: ShellFacts) -> Evidence:
    nodes = facts.links.numa_nodes if facts.links is not None else {}
    for gpu in host.gpus:
        if gpu.numa_node is not None and gpu.pci_id in nodes:
            yield f"{host.name}/{gpu.pci_id}", gpu.numa_node == nodes[gpu.pci_id]


def _firmware(host: Host, facts: ShellFacts) -> Evidence:
    if facts.has_firmware_tools:
        for nic in host.nics:
            yield f"{host.name}/{nic.pci_id}", nic.pci_id in facts.firmware


_LOOKS: Mapping[str, Callable[[Host, ShellFacts], Evidence]] = {
    "nvidia-smi-topo-on-esxi": _links,
    "nvidia-smi-mig-on-esxi": _instances,
    "numa-info-counts-like-nvidia-smi": _numa_nodes,
    "mlxconfig-takes-pci-addresses": _firmware,
}


def _read(bench: Bench) -> Verdicts:
    """Log in to each host, and compare its answers with the inventory."""
    readings: list[tuple[Host, ShellFacts]] = []
    for host, log_in in bench.shells:
        with closing(log_in()) as shell:
            readings.append((host, shell.read_facts(SHELL_GROUPS, [nic.pci_id for nic in host.nics])))
    for belief, look in _LOOKS.items():
        yield verdict_of(belief, [one for host, facts in readings for one in look(host, facts)])


COURSES = {SHELLS.does: _read}
