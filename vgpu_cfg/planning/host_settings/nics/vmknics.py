"""A host's VMkernel NICs: found by the network that they are on, made there, or given another address or MTU.

One value holds both, as in `10.111.0.21/24 mtu 9000`: a VMkernel NIC that is made gets both in
one call. Nothing removes one; where several are on a network, the first is meant.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from vgpu_cfg.changes.kinds.change_host import VmknicWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import Vmknic
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Objection
from vgpu_cfg.planning.host_settings.entry import (
    DesiredSetting,
    EsxcliCall,
    HostSetting,
    HostView,
    Instructions,
    Reading,
    by_esxcli,
)
from vgpu_cfg.planning.host_settings.nics.uplinks import UPLINK, base_unread

KEY = "vmknic"
NONE = "none"
_MANAGEMENT = "management"


def network_name(text: str) -> str:
    """Return the name of a network that a plan file may give as an inventory path."""
    return text.rstrip("/").rpartition("/")[2]


def vmknic_on(view: HostView, network: str) -> Vmknic | None:
    """Return the VMkernel NIC on a network, the first of several; whatever the case of the name."""
    wanted = network_name(network).casefold()
    return next((one for one in view.facts.vmknics if one.network.casefold() == wanted), None)


def next_vmknic(view: HostView) -> str:
    """Return the name of the next VMkernel NIC: the lowest free number (recalled; unproven)."""
    taken = {one.device for one in view.facts.vmknics}
    return next(f"vmk{number}" for number in range(len(taken) + 1) if f"vmk{number}" not in taken)


def _desired_settings(entry: DesiredHosts, view: HostView) -> Iterator[DesiredSetting]:
    for wanted in entry.vmknics:
        address = wanted.addresses.get(view.host.name, wanted.address)
        value = _spelled(address or "", wanted.mtu)
        if value:
            yield DesiredSetting(KEY, value, device=wanted.network)


def _spelled(address: str, mtu: int | None) -> str:
    return " ".join(part for part in (address, f"mtu {mtu}" if mtu is not None else "") if part)


def _taken_apart(value: str) -> tuple[str, int | None]:
    """Return address and MTU of a value, as far as it names them."""
    address, _, mtu = value.rpartition("mtu ") if "mtu " in value else (value, "", "")
    return address.strip(), int(mtu) if mtu.isdigit() else None


def _read(view: HostView, device: str) -> Reading:
    if reason := base_unread(view):
        return Reading(unread=reason)
    found = vmknic_on(view, device)
    if found is None:
        return Reading(configured=NONE)
    return Reading(configured=_spelled("dhcp" if found.is_dhcp else found.address, found.mtu))


def _same(wanted: str, found: str) -> bool:
    """Whether the wanted value holds; a reading without a prefix is compared without it."""
    if found == NONE:
        return False
    address, mtu = _taken_apart(wanted)
    found_address, found_mtu = _taken_apart(found)
    return _same_address(address, found_address) and mtu in (None, found_mtu)


def _same_address(wanted: str, found: str) -> bool:
    return not wanted or wanted == found or ("/" not in found and wanted.partition("/")[0] == found)


def _objects(view: HostView, desired: DesiredSetting) -> Objection | None:
    address, _ = _taken_apart(desired.value)
    found = vmknic_on(view, desired.device)
    if found is None and not address:
        message = (
            f"{desired.device} has no VMkernel NIC, and the plan does not specify an address to create one"
        )
        return Objection(Code.NOT_SUPPORTED, message, "add an `address`, or create the VMkernel NIC manually")
    if found is None or _same_address(address, "dhcp" if found.is_dhcp else found.address):
        return None
    if _MANAGEMENT in found.services:
        message = (
            f"{found.device} is used for management traffic; changing its address would make the "
            "host unreachable"
        )
        return Objection(Code.NIC_IN_USE, message, "change the address manually on the host's console")
    return None


def _write(view: HostView, desired: DesiredSetting) -> VmknicWrite:
    """Make one, or change what differs. A network that the plan makes has no id yet, only its name."""
    address, mtu = _taken_apart(desired.value)
    found = vmknic_on(view, desired.device)
    if found is None:
        return VmknicWrite(network_name=network_name(desired.device), address=address, mtu=mtu)
    same_address = _same_address(address, "dhcp" if found.is_dhcp else found.address)
    return VmknicWrite(
        device=found.device,
        network_moid=found.network_moid,
        network_name=found.network,
        address=None if same_address else address,
        mtu=None if mtu == found.mtu else mtu,
    )


def _calls(view: HostView, desired: DesiredSetting) -> list[EsxcliCall]:
    """List what esxcli does to the same end; it makes one on a standard portgroup only."""
    write = _write(view, desired)
    name = ("interface-name", write.device or next_vmknic(view))
    calls = []
    if write.device is None:
        options = (name, ("portgroup-name", write.network_name))
        calls.append(EsxcliCall("network.ip.interface.add", options))
    if write.address == "dhcp":
        calls.append(EsxcliCall("network.ip.interface.ipv4.set", (name, ("type", "dhcp"))))
    elif write.address:
        interface = ipaddress.ip_interface(write.address)
        static = (("type", "static"), ("ipv4", str(interface.ip)), ("netmask", str(interface.netmask)))
        calls.append(EsxcliCall("network.ip.interface.ipv4.set", (name, *static)))
    if write.mtu is not None:
        calls.append(EsxcliCall("network.ip.interface.set", (name, ("mtu", str(write.mtu)))))
    return calls


def _how(view: HostView, desired: DesiredSetting) -> Instructions:
    found = vmknic_on(view, desired.device)
    device = found.device if found is not None else next_vmknic(view)
    remove = EsxcliCall("network.ip.interface.remove", (("interface-name", device),))
    return Instructions(
        why=(
            "The host's own RDMA traffic (PVRDMA) uses a separate VMkernel NIC. Its MTU must not exceed the "
            "switch's MTU; the physical switch must allow at least 216 bytes more. On a distributed port "
            "group, create it in the vSphere Client."
        ),
        client="host > Configure > Networking > VMkernel adapters (on {device}): {value}",
        commands=tuple(call.line for call in _calls(view, desired)),
        expected="no output",
        verify=(
            "esxcli network ip interface list",
            f"esxcli network ip interface ipv4 get --interface-name={device}",
        ),
        undo=(remove.line if found is None else f"in the vSphere Client, set {device} back to {{before}}",),
    )


VMKNIC = HostSetting(
    key=KEY,
    title="VMkernel NIC",
    source="vSphere API, HostNetworkSystem.AddVirtualNic, UpdateVirtualNic, HostVirtualNicSpec",
    desired_settings=_desired_settings,
    read=_read,
    write=lambda view, desired_settings: [_write(view, desired) for desired in desired_settings],
    impact=lambda _view, _desired: Impact.NONE,
    how=_how,
    group=KEY,
    in_file="part of the host's own network",
    remembered=None,
    after=(UPLINK.key,),
    same=_same,
    objects=_objects,
    other_way=lambda view, desired_settings: by_esxcli(
        [call for desired in desired_settings for call in _calls(view, desired)]
    ),
    stays=lambda before: "a created VMkernel NIC is kept" if before == NONE else "",
)
