"""The names that NICs had before they were passed through, kept on their host.

A host lists no NIC for a function that it has handed out, and so a plan file that names the
vmnic would not find it again. The name is kept before passthrough is asked for, and goes once the host
lists the NIC again.
"""

from __future__ import annotations

import json

from vgpu_cfg.changes.change import ChangeHost
from vgpu_cfg.changes.kinds.change_host import PassthroughWrite
from vgpu_cfg.changes.values import HostRef
from vgpu_cfg.execution.hosts.session import HostSession
from vgpu_cfg.model.observed.host_facts import HostAttribute
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.planning.host_settings.entry import HostView


def keep_names(change: ChangeHost, view: HostView, hosts: HostSession) -> None:
    """Keep the names of the NICs that a change is about to hand out: one call, none where they are kept."""
    if not isinstance(change.write, PassthroughWrite):
        return
    handed_out = {device.pci_id for device in change.write.devices if device.is_passthrough}
    names = {nic.pci_id: nic.device for nic in view.host.nics if nic.pci_id in handed_out and nic.device}
    _write(change.host, view, {**view.facts.vmnics, **names}, hosts)


def drop_names(ref: HostRef, view: HostView, hosts: HostSession) -> None:
    """Drop the names of NICs that the host has to itself again: no call where there are none."""
    own = _own(view.host)
    kept = {pci_id: name for pci_id, name in view.facts.vmnics.items() if pci_id not in own}
    _write(ref, view, kept, hosts)


def _own(host: Host) -> frozenset[str]:
    """Return the addresses of the NICs that are not handed out, nor will be at the next boot."""
    return frozenset(
        nic.pci_id
        for nic in host.nics
        if nic.pci_id and not (nic.pci and (nic.pci.passthrough_active or nic.pci.passthrough_enabled))
    )


def _write(ref: HostRef, view: HostView, names: dict[str, str], hosts: HostSession) -> None:
    if names != dict(view.facts.vmnics):
        text = json.dumps(names, sort_keys=True, separators=(",", ":")) if names else None
        hosts.tools.writer.set_host_attribute(ref.moid, HostAttribute.VMNICS, text)
