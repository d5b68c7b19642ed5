"""Which rule of the plan file holds for which device of a host: the first that matches, and no other."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.inventory import Gpu, Host, HostNic, PciDevice
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
    host lists no NIC for one that is passed through: `passed_through_nics` replaces it. An InfiniBand port of
    the host is matched only if the rule names its address, or a link type.
    """
    for nic in (*view.host.nics, *view.host.infiniband, *passed_through_nics(view)):
        for rule in entry.nics:
            if _is_left_alone(nic, rule):
                continue
            if matches_nic(rule.match, nic, view) and (
                rule.match.vmnic is not None or view.facts.uplink_of(nic.device) in (None, rule.switch)
            ):
                yield nic, rule
                break


def _is_left_alone(nic: HostNic, rule: HostNicEntry) -> bool:
    is_infiniband = nic.pci is not None and nic.pci.is_infiniband and not nic.pci.passthrough_active
    return is_infiniband and rule.match.pci_id is None and not sets_link_type(rule)


def sets_link_type(rule: HostNicEntry) -> bool:
    """Whether a rule sets a port's link type, InfiniBand or Ethernet."""
    return any(name.startswith("LINK_TYPE") for name in rule.firmware)


def makes_infiniband(rule: HostNicEntry) -> bool:
    """Whether a rule makes a port InfiniBand."""
    values = (value for name, value in rule.firmware.items() if name.startswith("LINK_TYPE"))
    return any(value.casefold() in ("ib", "1") for value in values)


def passed_through_nics(view: HostView) -> Iterator[HostNic]:
    """Yield the network functions that the host has handed out and lists no NIC for.

    They bear the names that they had before, as far as those were kept on the host.
    """
    listed = {nic.pci_id for nic in view.host.nics}
    for device in view.host.pci_devices:
        is_handed_out = device.passthrough_active or device.passthrough_enabled
        if device.is_nic and is_handed_out and device.pci_id not in listed:
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


def with_function(host: Host, pci_id: str, **update: object) -> Host:
    """Return the host with one PCI function changed, in the list and at its GPU or NIC."""

    def changed(function: PciDevice) -> PciDevice:
        return function.model_copy(update=update) if function.pci_id == pci_id else function

    def rewired(nic: HostNic) -> HostNic:
        return nic if nic.pci is None else nic.model_copy(update={"pci": changed(nic.pci)})

    functions = tuple(changed(function) for function in host.pci_devices)
    gpus = tuple(gpu.model_copy(update={"pci": changed(gpu.pci)}) for gpu in host.gpus)
    nics = tuple(rewired(nic) for nic in host.nics)
    return host.model_copy(update={"pci_devices": functions, "gpus": gpus, "nics": nics})
