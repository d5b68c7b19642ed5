"""Customization of a new VM's guest by vCenter's specification: values filled in, and obstacles.

Host name and stated addresses are filled in, everything else is the specification's. Settings go to adapters
in the order of their PCI slots (vSphere API reference, CustomizationAdapterMapping): assumed to be the order
of the template's adapters by their keys, then of new ones, virtual functions last. A guest's customization
cannot be read afterwards, so that an existing VM is not compared.

Belief: customization-follows-pci-slots, pci-slot-order, clone-takes-customization-and-nics,
customization-counts-new-nics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_interface

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import AwaitCustomization, Change, PowerOnVm
from vgpu_cfg.changes.kinds.guest import Customization, NicCustomization
from vgpu_cfg.changes.values import Edit
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.desired import DesiredGuest
from vgpu_cfg.model.observed.own_items import PENDING_KEY, CustomizationSpec
from vgpu_cfg.model.observed.past import PastEvent
from vgpu_cfg.model.observed.vm import VmDetail
from vgpu_cfg.planning.addresses import NicAddress
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.vms.devices import matched_nics
from vgpu_cfg.planning.vms.lookup.guest_system import is_linux
from vgpu_cfg.planning.vms.lookup.resolved_vm import NO_TOOLS, ResolvedVm
from vgpu_cfg.planning.vms.lookup.wanted import PVRDMA, VMXNET3, WantedFunction, WantedNic

LONGEST_COMPUTER_NAME = 15
"""Characters of a Windows computer name (Microsoft, "Naming conventions in Active Directory")."""
KEY = "customisation"
_ADAPTER = "customization.nicSettingMap[*].adapter"


def plan_customization(
    resolved: ResolvedVm,
    nics: Sequence[NicAddress],
    spec: CustomizationSpec | None,
    users: int,
    findings: Findings,
) -> Customization | None:
    """Return the customization of a new VM's guest; None if there is none, or an error prevents it.

    `nics` are those of the plan file, in its order, with their addresses. `spec` is the specification that
    the VM names, None where it was not read, and `users` how many VMs of the plan name it.
    """
    guest = resolved.desired.guest
    if guest is None or not guest.spec:
        return None
    if spec is None:
        message = f"the customization specification {guest.spec!r} could not be read"
        remedy = (
            "grant the account VirtualMachine.Provisioning.ReadCustSpecs on the root folder; recordings "
            "contain no specifications"
        )
        findings.refuse_vm(Code.CUSTOMIZATION_UNREAD, resolved.desired, message, remedy)
        return None
    if not spec.is_there:
        message = f"vCenter has no customization specification {guest.spec!r}"
        remedy = did_you_mean(guest.spec, spec.others, noun="specifications") or "create it in vCenter first"
        findings.refuse_vm(Code.CUSTOMIZATION_NOT_FOUND, resolved.desired, message, remedy)
        return None
    wrongs = [(Code.CUSTOMIZATION_UNFIT, *one) for one in _unfit(guest, spec, resolved.base)]
    adapters = _adapters(resolved)
    filled = [_filled(nics[place] if place is not None else None) for place in adapters]
    wrongs += [(Code.CUSTOMIZATION_NICS, *one) for one in _wrong_nics(filled, users, spec)]
    for code, message, remedy in wrongs:
        findings.refuse_vm(code, resolved.desired, message, remedy)
    if wrongs or spec.kind == "other":
        return None
    stated = [nics[place] for place in adapters if place is not None and nics[place].addresses]
    return Customization(
        spec=spec.name,
        change_version=spec.change_version,
        kind=spec.kind,
        host_name=guest.host_name,
        domain=guest.domain or spec.domain,
        sets_domain=bool(guest.domain),
        dns=tuple(dict.fromkeys(server for nic in stated for server in nic.dns)),
        nics=tuple(filled),
    )


def edits_of(asked: Customization) -> Iterator[Edit]:
    """Yield the displayed edits of a customization, with the values each sets in the request."""
    is_windows = asked.kind == "windows"
    yield Edit(key=KEY, after=asked.spec, note="vCenter's specification, at first power-on")
    name = "userData.computerName" if is_windows else "hostName"
    sets = {f"customization.identity.{name}.name": asked.host_name}
    yield Edit(key="host name", after=asked.host_name, sets=sets)
    if asked.sets_domain:
        yield Edit(key="domain", after=asked.domain, sets={"customization.identity.domain": asked.domain})
    servers = {"dnsServerList": ", ".join(asked.dns)} if asked.dns else {}
    if servers and not is_windows:
        sets = {f"customization.globalIPSettings.{path}": text for path, text in servers.items()}
        yield Edit(key="name servers", after=", ".join(asked.dns), sets=sets)
    for number, nic in enumerate(asked.nics, 1):
        words = nic.ip or "as set in the specification"
        note = ", ".join(
            part for part in (nic.network, f"gateway {nic.gateway}" if nic.gateway else "") if part
        )
        leaves = _leaves(nic) | (servers if nic.ip and is_windows else {})
        sets = {f"{_ADAPTER}.{path}": text for path, text in leaves.items()}
        yield Edit(key=f"address {number}", after=words, is_default=not nic.ip, note=note, sets=sets)


def await_customization(
    power_on: PowerOnVm, guest: DesiredGuest, *, before: str | None
) -> AwaitCustomization:
    """Return the change that waits for a customisation after the start that begins it."""
    return AwaitCustomization(
        id=f"customise {power_on.vm.name}",
        subject=power_on.subject,
        edits=(Edit(key=KEY, before=before, after="done", note=guest.spec),),
        needs=(power_on.id,),
        host_moid=power_on.host_moid,
        vm=power_on.vm,
        wait_seconds=guest.wait_seconds,
    )


def of_existing(
    resolved: ResolvedVm, changes: Sequence[Change], failed: Mapping[str, PastEvent], findings: Findings
) -> list[Change]:
    """Return the wait of an existing VM that starts with a pending customization.

    For any other it is reported that its customization `failed` (by its VM's moid), or that its guest's
    customization is not compared.
    """
    guest = resolved.desired.guest
    if guest is None or not guest.spec or not resolved.manages("guest"):
        return []
    power_on = next(of_kind(changes, PowerOnVm), None)
    if power_on is not None and resolved.base.extra_config.get(PENDING_KEY):
        return [await_customization(power_on, guest, before="waiting")]
    event = failed.get(resolved.existing.moid) if resolved.existing is not None else None
    if event is not None:
        message = (
            f"vCenter reports that guest customization failed at {event.at:%Y-%m-%d %H:%M} UTC "
            f"({event.kind}); the host name and addresses may still be the template's"
        )
        remedy = (
            "see `govc events` for the reason and the name of the guest's log; then delete the VM and run "
            "`plan` again, or correct the guest manually and set `ignore: [guest]` to hide this finding"
        )
        findings.add_vm(Code.CUSTOMIZATION_FAILED, resolved.desired, message, remedy)
        return []
    message = (
        f"the VM already exists, and `guest.spec` ({guest.spec}) customizes a guest only during cloning; "
        "the result cannot be read or compared"
    )
    remedy = "to customize it again, delete the VM and run `plan` again; `ignore: [guest]` hides this finding"
    findings.add_vm(Code.CUSTOMIZED_ONCE, resolved.desired, message, remedy)
    return []


def _unfit(guest: DesiredGuest, spec: CustomizationSpec, base: VmDetail) -> Iterator[tuple[str, str]]:
    """Yield why a specification is none for a guest."""
    of_linux = is_linux(base.guest_id)
    if spec.kind == "other":
        message = f"the specification {spec.name} is of a type that cannot set the host name"
        yield message, "create a Linux or Windows specification in the vSphere Client"
        return
    if of_linux is not None and of_linux != (spec.kind == "linux"):
        system = spec.kind.capitalize()
        message = (
            f"the specification {spec.name} is for {system}, but the template's guest OS is {base.guest_id}"
        )
        yield message, "use a customization specification for that guest OS"
    if base.tools_status == NO_TOOLS:
        message = "vCenter has not detected VMware Tools in the template, which customization requires"
        yield message, "install open-vm-tools in it, and let it run once before it becomes a template"
    if spec.is_foreign:
        message = f"the specification {spec.name} contains passwords encrypted with another vCenter's key"
        yield message, "reenter them under Policies and Profiles > VM Customization Specifications > Edit"
    if spec.kind == "windows" and len(guest.host_name) > LONGEST_COMPUTER_NAME:
        message = f"a Windows computer name can have at most {LONGEST_COMPUTER_NAME} characters; "
        yield f"{message}{guest.host_name!r} is longer", "use a shorter `guest.hostname`"
    if spec.kind == "windows" and guest.domain:
        message = (
            f"the specification {spec.name} is for Windows, so the domain must be set in the specification"
        )
        yield message, "remove `guest.domain`, and set the domain in the specification"


def _wrong_nics(
    filled: Sequence[NicCustomization], users: int, spec: CustomizationSpec
) -> Iterator[tuple[str, str]]:
    """Yield the mismatches of a specification and a VM's adapters; vCenter requires as many of both."""
    has, wants = len(spec.nics), len(filled)
    if has > wants:
        message = (
            f"the specification {spec.name} has settings for {_nics(has)}, but the VM has {_nics(wants)}"
        )
        yield message, "use a specification for that number of NICs, or adjust `nics`"
    for number, nic in enumerate(filled, 1):
        if nic.ip:
            continue
        if number > has:
            message = (
                f"the specification {spec.name} has settings for {_nics(has)}, but none for NIC {number}"
            )
            yield f"{message} of the VM", "set `ip` for each of its `nics`: pool, dhcp or an address"
            continue
        own = spec.nics[number - 1]
        if own.kind == "ask":
            message = f"the specification {spec.name} prompts the user for the address of NIC {number}"
            yield message, "set `ip` for each of its `nics`: pool, dhcp or an address"
        elif own.kind == "fixed" and users > 1:
            message = f"the specification {spec.name} assigns the address {own.address} to NIC {number}"
            yield (
                f"{message}, and {users} VMs use this specification",
                "set `ip` for each of its `nics`: pool or an address",
            )


def _nics(count: int) -> str:
    return "one NIC" if count == 1 else f"{count or 'no'} NICs"


def _adapters(resolved: ResolvedVm) -> list[int | None]:
    """Return the adapters that the clone will have, by their places in the plan file, None for none there."""
    base, nics = resolved.base, resolved.nics
    if nics is None:
        return [None] * len(base.nics)
    order: list[tuple[tuple[int, int], int | None]] = [
        ((0, nic.key), None) for nic in base.nics if nic.dvx_class or nic.group_key is not None
    ]
    for kind in (VMXNET3, PVRDMA):
        places = [at for at, nic in enumerate(nics) if isinstance(nic, WantedNic) and nic.kind == kind]
        wanted = [nic for nic in nics if isinstance(nic, WantedNic)]
        matched, _ = matched_nics(kind, wanted, base)
        for place, (_, found) in zip(places, matched, strict=True):
            order.append(((1, place) if found is None else (0, found.key), place))
    order += [
        ((2, place), place)
        for place, nic in enumerate(nics)
        if isinstance(nic, WantedFunction) and nic.function.kind == "sriov"
    ]
    return [place for _, place in sorted(order, key=lambda one: one[0])]


def _filled(nic: NicAddress | None) -> NicCustomization:
    if nic is None or not nic.is_stated:
        return NicCustomization(network=nic.network if nic is not None else "")
    if not nic.addresses:
        return NicCustomization(network=nic.network, ip="dhcp")
    return NicCustomization(network=nic.network, ip=nic.addresses[0], gateway=nic.gateway)


def _leaves(nic: NicCustomization) -> dict[str, str]:
    """Return the values sent for an adapter, by path; DHCP is a type, and no value."""
    if nic.ip in ("", "dhcp"):
        return {}
    address = ip_interface(nic.ip)
    gateway = {"gateway": nic.gateway} if nic.gateway else {}
    return {"ip.ipAddress": str(address.ip), "subnetMask": str(address.netmask), **gateway}
