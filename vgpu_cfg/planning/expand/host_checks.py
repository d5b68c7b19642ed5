"""What the file alone shows to be wrong in an entry of `hosts` whose keys are right one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.documents import Loc, Part, did_you_mean
from vgpu_cfg.errors import DocumentFault
from vgpu_cfg.model.desired import DesiredNetwork
from vgpu_cfg.model.plan_file import (
    AccessEntry,
    DisruptionEntry,
    DriverEntry,
    FirmwareToolsEntry,
    HostEntry,
    PvrdmaEntry,
    VmknicEntry,
)
from vgpu_cfg.model.plan_values import Disruption
from vgpu_cfg.planning.expand.device_checks import check_gpu_rules, check_nic_rules

_EVACUATION = "VgpuMMAutomationTimeoutSecs"
_GLOB = frozenset("*?[")


@dataclass(slots=True)
class HostContext:
    """What an entry is checked against: the plan's networks and secrets, and the addresses given so far."""

    networks: Mapping[str, DesiredNetwork]
    secrets: frozenset[str]
    addresses: dict[tuple[str, str], str] = field(default_factory=dict)
    """Whose an address on a network is."""


def check_hosts(
    entry: HostEntry, names: Sequence[str], part: Part, context: HostContext
) -> Iterator[DocumentFault]:
    """Yield what contradicts itself in an entry, or names what the plan does not have."""
    if not entry.cluster and not entry.names:
        yield part.fault((), "an entry of `hosts` names no host", "give `cluster`, or `names`")
    yield from check_gpu_rules(entry, part)
    yield from check_nic_rules(entry, part)
    for index, vmknic in enumerate(entry.vmknics):
        yield from _check_vmknic(vmknic, index, entry, names, part, context)
    yield from _check_pvrdma(entry, part)
    if entry.driver is not None:
        yield from _check_packages("driver", "the driver is", entry.driver, part)
    if entry.firmware_tools is not None:
        yield from _check_packages("firmware_tools", "the tools are", entry.firmware_tools, part)
    yield from _check_access(entry.access, part)
    yield from _check_disruption(entry.disruption, names, part)
    yield from _check_cluster_options(entry, part)
    for loc, name in _secrets(entry):
        if name not in context.secrets:
            # The name is not repeated: somebody may have written the secret itself.
            hint = did_you_mean(name, context.secrets) or "as in secrets: {esxi: keyring:esxi-root}"
            yield part.fault((*loc, "secret"), "no secret of this name stands under `secrets`", hint)


def _is_plain(names: Sequence[str]) -> bool:
    """Whether the names are those of hosts, without globs: then it is known how many they are."""
    return bool(names) and not any(_GLOB & set(name) for name in names)


def _check_vmknic(
    vmknic: VmknicEntry, index: int, entry: HostEntry, names: Sequence[str], part: Part, context: HostContext
) -> Iterator[DocumentFault]:
    loc: Loc = ("vmknics", index)
    if any(other.network == vmknic.network for other in entry.vmknics[:index]):
        message = f"the network {vmknic.network!r} has a VMkernel NIC in this entry already"
        yield part.fault((*loc, "network"), message, "remove one")
    cabling = context.networks.get(vmknic.network)
    if cabling is not None and cabling.is_physical:
        message = f"{vmknic.network!r} is cabling alone (`physical`), and a VMkernel NIC needs a portgroup"
        yield part.fault((*loc, "network"), message, "choose another network")
    is_shared = len(names) != 1 or not _is_plain(names)
    if vmknic.address and vmknic.address != "dhcp":
        if is_shared:
            hint = "write addresses: {HOST: ADDRESS}, with one for each, or dhcp"
            yield part.fault((*loc, "address"), "one address cannot serve several hosts", hint)
        else:
            yield from _claimed(names[0], vmknic.address, (*loc, "address"), vmknic.network, part, context)
    for host, address in vmknic.addresses.items():
        place = (*loc, "addresses", host)
        if _is_plain(names) and host not in names:
            hint = did_you_mean(host, names) or "give the name as it stands in `names`"
            yield part.fault(place, f"{host!r} is not one of the hosts of this entry", hint)
        yield from _claimed(host, address, place, vmknic.network, part, context)
    network = context.networks.get(vmknic.network)
    if network is not None and network.mtu and vmknic.mtu and vmknic.mtu > network.mtu:
        message = (
            f"an mtu of {vmknic.mtu} is more than the {network.mtu} of {network.name!r} under `networks`"
        )
        yield part.fault((*loc, "mtu"), message, f"write at most {network.mtu}")


def _claimed(
    host: str, address: str, loc: Loc, network: str, part: Part, context: HostContext
) -> Iterator[DocumentFault]:
    ip = address.partition("/")[0]
    owner = context.addresses.setdefault((network, ip), host)
    if owner != host:
        yield part.fault(
            loc, f"the address {ip} on {network!r} is that of {owner!r} too", "give each its own"
        )


def _check_pvrdma(entry: HostEntry, part: Part) -> Iterator[DocumentFault]:
    if isinstance(entry.pvrdma, PvrdmaEntry):
        named = [key for key in ("vmknic", "network") if getattr(entry.pvrdma, key)]
        if len(named) != 1:
            message = "`pvrdma` needs a `vmknic` or a `network`, and not both"
            yield part.fault(("pvrdma",), message, "as in {network: rdma-vmk}")
    elif entry.pvrdma:
        hint = "as in {network: rdma-vmk}, or false for none"
        yield part.fault(("pvrdma",), "`pvrdma` must say which VMkernel NIC", hint)


def _check_packages(
    key: str, they_are: str, packages: DriverEntry | FirmwareToolsEntry, part: Part
) -> Iterator[DocumentFault]:
    if packages.depot and packages.by != "esxcli":
        message = f"`depot` is what esxcli installs from, and {they_are} installed by {packages.by}"
        yield part.fault((key, "depot"), message, "write by: esxcli, or remove `depot`")
    if packages.by == "esxcli" and not packages.depot:
        hint = f"as in depot: /vmfs/volumes/ds1/{'driver' if key == 'driver' else 'mft'}.zip"
        yield part.fault((key, "by"), "`by: esxcli` needs a `depot`", hint)


def _check_access(access: AccessEntry, part: Part) -> Iterator[DocumentFault]:
    given = access.model_fields_set
    if given & {"password", "key"} and "ssh" not in given:
        hint = "write ssh: open-and-close, or ssh: on where somebody has started it"
        yield part.fault(("access",), "`access` has credentials, and without `ssh` nothing uses them", hint)


def _check_disruption(
    disruption: DisruptionEntry, names: Sequence[str], part: Part
) -> Iterator[DocumentFault]:
    loc: Loc = ("disruption",)
    if disruption.allow and Disruption.MAINTENANCE not in disruption.allow:
        what = part.data["disruption"]["allow"][0]
        message = f"`{what}` is allowed, and maintenance mode, which comes before it, is not"
        yield part.fault((*loc, "allow", 0), message, f"write [maintenance, {what}]")
    if disruption.canary and _is_plain(names) and disruption.canary > len(names):
        message = f"{disruption.canary} hosts cannot go first: `names` has {len(names)}"
        yield part.fault((*loc, "canary"), message, f"at most {len(names)}")


def _check_cluster_options(entry: HostEntry, part: Part) -> Iterator[DocumentFault]:
    options = entry.cluster_options
    if "cluster_options" in entry.model_fields_set and not entry.cluster:
        message = "`cluster_options` hold for a whole cluster, and this entry names none"
        yield part.fault(("cluster_options",), message, "add `cluster`")
    if "evacuate_vgpu" in options.model_fields_set and _EVACUATION in options.drs:
        message = f"`evacuate_vgpu` and {_EVACUATION} are one option of DRS"
        yield part.fault(("cluster_options", "drs", _EVACUATION), message, "remove one of them")


def _secrets(entry: HostEntry) -> Iterator[tuple[Loc, str]]:
    if entry.access.password is not None:
        yield ("access", "password"), entry.access.password
    if entry.access.key is not None:
        yield ("access", "key"), entry.access.key
    if entry.licence is not None:
        yield ("licence",), entry.licence
