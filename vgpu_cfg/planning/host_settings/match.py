"""Which rule of the plan file holds for which device of a host: the first that matches, and no other."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.inventory import Gpu, HostNic
from vgpu_cfg.model.plan_file import GpuMatch, HostGpuEntry, HostNicEntry, NicMatch
from vgpu_cfg.planning.host_settings.entry import HostView


def gpu_rules(entry: DesiredHosts, view: HostView) -> Iterator[tuple[Gpu, HostGpuEntry]]:
    """Yield each GPU of the host that a rule matches, with that rule."""
    for gpu in view.host.gpus:
        for rule in entry.gpus:
            if matches_gpu(rule.match, gpu, view):
                yield gpu, rule
                break


def nic_rules(entry: DesiredHosts, view: HostView) -> Iterator[tuple[HostNic, HostNicEntry]]:
    """Yield each NIC of the host that a rule matches, with that rule.

    A NIC that is an uplink of another switch than the rule's is matched only if the rule names its vmnic. The
    host lists no NIC for one that is passed through: `passed_through_nics` replaces it.
    """
    for nic in (*view.host.nics, *passed_through_nics(view)):
        for rule in entry.nics:
            if matches_nic(rule.match, nic, view) and (
                rule.match.vmnic is not None or view.facts.uplink_of(nic.device) in (None, rule.switch)
            ):
                yield nic, rule
                break


def passed_through_nics(view: HostView) -> Iterator[HostNic]:
    """Yield the network functions that the host has handed out and lists no NIC for.

    They bear the names that they had before, as far as those were kept on the host.
    """
    listed = {nic.pci_id for nic in view.host.nics}
    for device in view.host.pci_devices:
        is_handed_out = device.passthrough_active or device.passthrough_enabled
        if device.class_id >> 8 == 0x02 and is_handed_out and device.pci_id not in listed:
            name = view.facts.vmnics.get(device.pci_id, "")
            yield HostNic(device=name, pci_id=device.pci_id, pci=device, numa_node=device.numa_node)


def matches_gpu(match: GpuMatch, gpu: Gpu, view: HostView) -> bool:
    """Whether a GPU has everything that is asked."""
    return _matches(match, gpu.pci_id, gpu.numa_node, (gpu.name, gpu.pci.device_name), view)


def matches_nic(match: NicMatch, nic: HostNic, view: HostView) -> bool:
    """Whether a NIC has everything that is asked."""
    if match.vmnic is not None and match.vmnic != nic.device:
        return False
    name = nic.pci.device_name if nic.pci is not None else ""
    return _matches(match, nic.pci_id, nic.numa_node, (name,), view)


def _matches(
    match: GpuMatch | NicMatch, pci_id: str, numa: int | None, shown: tuple[str, ...], view: HostView
) -> bool:
    if match.pci_id is not None and match.pci_id != pci_id:
        return False
    if match.numa is not None and match.numa != numa:
        return False
    if match.model is None:
        return True
    wanted = match.model.casefold()
    return any(wanted in name.casefold() for name in (*shown, *view.names.get(pci_id, ())))
