"""The entries of `hosts` as desired hosts: ranges written out, `prepare` decided, and faults of the entries.

The faults are visible in the file alone, in an entry whose keys are right one by one: words of a GPU's or a
NIC's rule that exclude each other, and rules that can never hold.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgpu_cfg.documents import Loc, Part, build, did_you_mean
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.desired import DesiredHosts, DesiredNetwork
from vgpu_cfg.model.plan_file import (
    AccessEntry,
    DisruptionEntry,
    DriverEntry,
    FirmwareToolsEntry,
    GpuMatch,
    HostEntry,
    HostGpuEntry,
    HostNicEntry,
    NicMatch,
    PvrdmaEntry,
    RoceEntry,
    VmknicEntry,
)
from vgpu_cfg.model.plan_values import Disruption, GpuUse, NicUse, SchedulerPolicy
from vgpu_cfg.model.ranges import read_members
from vgpu_cfg.model.vgpu import Sharing, VgpuMode

_EVACUATION = "VgpuMMAutomationTimeoutSecs"
_GLOB = frozenset("*?[")

_OF_VGPUS = ("sharing", "vgpu_mode", "scheduler")
_OF_TIME_SLICES = ("vgpu_mode",)
"""A scheduler may go with MIG: the board, and whether its instances are shared, are known from its host."""
_FALSE = ("False", "0")
_TRUE = ("True", "1")


@dataclass(slots=True)
class HostExpansion:
    """The entries in the order of the files, and the faults; entries with faults are left out."""

    hosts: list[DesiredHosts] = field(default_factory=list)
    faults: list[DocumentFault] = field(default_factory=list)


def expand_hosts(
    sections: Sequence[Part], *, networks: Sequence[DesiredNetwork], secrets: Collection[str], has_vms: bool
) -> HostExpansion:
    """Make every entry of `hosts` of every file, the weakest first; they only add up.

    `networks` and the names of `secrets` are those of the whole plan. An entry that does
    not state `prepare` prepares for the VMs where the plan has any.
    """
    out = HostExpansion()
    context = HostContext({network.name: network for network in networks}, frozenset(secrets))
    for section in sections:
        if not isinstance(section.data, list):
            out.faults.append(
                section.fault((), "'hosts' must be a list", "write each entry as an item: - cluster: gpu")
            )
            continue
        for index in range(len(section.data)):
            part = section.child(index)
            try:
                entry = build(part.document, HostEntry, loc=part.loc, data=part.data)
            except DocumentError as error:
                out.faults += error.faults
                continue
            names = list(_names(entry, part, out))
            faults = list(check_hosts(entry, names, part, context))
            out.faults += faults
            if not faults:
                out.hosts.append(make_hosts(entry, names, part.origin, has_vms=has_vms))
    return out


def _names(entry: HostEntry, part: Part, out: HostExpansion) -> Iterator[str]:
    for index, name in enumerate(entry.names):
        try:
            yield from (member.name for member in read_members(name))
        except ValueError as error:
            out.faults.append(part.refused(("names", index), error))


def make_hosts(entry: HostEntry, names: Sequence[str], origin: str, *, has_vms: bool) -> DesiredHosts:
    """Make one entry; `check_hosts` must have found nothing against it. `names` have no ranges."""
    by_default = "from_vms" if has_vms else "none"
    stated = {"prepare": by_default} | {key: getattr(entry, key) for key in entry.model_fields_set}
    return DesiredHosts(**{**stated, "names": tuple(names), "origin": origin})


@dataclass(slots=True)
class HostContext:
    """The context of an entry's checks: the plan's networks and secrets, and the addresses given so far."""

    networks: Mapping[str, DesiredNetwork]
    secrets: frozenset[str]
    addresses: dict[tuple[str, str], str] = field(default_factory=dict)
    """Whose an address on a network is."""


def check_hosts(
    entry: HostEntry, names: Sequence[str], part: Part, context: HostContext
) -> Iterator[DocumentFault]:
    """Yield contradictions in an entry, and names that the plan does not have."""
    if not entry.cluster and not entry.names:
        yield part.fault((), "an entry in `hosts` does not specify any hosts", "set `cluster` or `names`")
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
            hint = did_you_mean(name, context.secrets) or "example: secrets: {esxi: keyring:esxi-root}"
            yield part.fault((*loc, "secret"), "`secrets` does not contain a secret with this name", hint)


def _is_plain(names: Sequence[str]) -> bool:
    """Whether the names are those of hosts, without globs: then it is known how many they are."""
    return bool(names) and not any(_GLOB & set(name) for name in names)


def _check_vmknic(
    vmknic: VmknicEntry, index: int, entry: HostEntry, names: Sequence[str], part: Part, context: HostContext
) -> Iterator[DocumentFault]:
    loc: Loc = ("vmknics", index)
    if any(other.network == vmknic.network for other in entry.vmknics[:index]):
        message = f"the network {vmknic.network!r} already has a VMkernel NIC in this entry"
        yield part.fault((*loc, "network"), message, "remove one")
    cabling = context.networks.get(vmknic.network)
    if cabling is not None and cabling.is_physical:
        message = (
            f"{vmknic.network!r} describes cabling only (`physical`), but a VMkernel NIC requires a port "
            "group"
        )
        yield part.fault((*loc, "network"), message, "use another network")
    is_shared = len(names) != 1 or not _is_plain(names)
    if vmknic.address and vmknic.address != "dhcp":
        if is_shared:
            hint = "set addresses: {HOST: ADDRESS} with one address for each host, or dhcp"
            yield part.fault((*loc, "address"), "several hosts cannot share one address", hint)
        else:
            yield from _claimed(names[0], vmknic.address, (*loc, "address"), vmknic.network, part, context)
    for host, address in vmknic.addresses.items():
        place = (*loc, "addresses", host)
        if _is_plain(names) and host not in names:
            hint = did_you_mean(host, names) or "use the name as written in `names`"
            yield part.fault(place, f"{host!r} is not a host in this entry", hint)
        yield from _claimed(host, address, place, vmknic.network, part, context)
    network = context.networks.get(vmknic.network)
    if network is not None and network.mtu and vmknic.mtu and vmknic.mtu > network.mtu:
        message = f"the mtu {vmknic.mtu} exceeds the mtu {network.mtu} of {network.name!r} under `networks`"
        yield part.fault((*loc, "mtu"), message, f"set it to {network.mtu} or less")


def _claimed(
    host: str, address: str, loc: Loc, network: str, part: Part, context: HostContext
) -> Iterator[DocumentFault]:
    ip = address.partition("/")[0]
    owner = context.addresses.setdefault((network, ip), host)
    if owner != host:
        yield part.fault(
            loc,
            f"the address {ip} on {network!r} is also used by {owner!r}",
            "assign a different address to each",
        )


def _check_pvrdma(entry: HostEntry, part: Part) -> Iterator[DocumentFault]:
    if isinstance(entry.pvrdma, PvrdmaEntry):
        named = [key for key in ("vmknic", "network") if getattr(entry.pvrdma, key)]
        if len(named) != 1:
            message = "`pvrdma` requires either `vmknic` or `network`, not both"
            yield part.fault(("pvrdma",), message, "example: {network: rdma-vmk}")
    elif entry.pvrdma:
        hint = "example: {network: rdma-vmk}, or false for none"
        yield part.fault(("pvrdma",), "`pvrdma` must specify a VMkernel NIC", hint)


def _check_packages(
    key: str, they_are: str, packages: DriverEntry | FirmwareToolsEntry, part: Part
) -> Iterator[DocumentFault]:
    if packages.depot and packages.by != "esxcli":
        message = f"`depot` is used by esxcli, but {they_are} installed with `by: {packages.by}`"
        yield part.fault((key, "depot"), message, "set by: esxcli, or remove `depot`")
    if packages.by == "esxcli" and not packages.depot:
        hint = f"example: depot: /vmfs/volumes/ds1/{('driver' if key == 'driver' else 'mft')}.zip"
        yield part.fault((key, "by"), "`by: esxcli` requires a `depot`", hint)


def _check_access(access: AccessEntry, part: Part) -> Iterator[DocumentFault]:
    given = access.model_fields_set
    if given & {"password", "key"} and "ssh" not in given:
        hint = "set ssh: open-and-close, or ssh: on if the service is already running"
        yield part.fault(
            ("access",), "`access` contains credentials, but they are not used without `ssh`", hint
        )


def _check_disruption(
    disruption: DisruptionEntry, names: Sequence[str], part: Part
) -> Iterator[DocumentFault]:
    loc: Loc = ("disruption",)
    if disruption.allow and Disruption.MAINTENANCE not in disruption.allow:
        what = part.data["disruption"]["allow"][0]
        message = f"`{what}` requires maintenance mode, which is not allowed"
        yield part.fault((*loc, "allow", 0), message, f"set [maintenance, {what}]")
    if disruption.canary and _is_plain(names) and disruption.canary > len(names):
        message = f"`canary` is {disruption.canary}, but `names` contains {len(names)} hosts"
        yield part.fault((*loc, "canary"), message, f"set it to {len(names)} or less")


def _check_cluster_options(entry: HostEntry, part: Part) -> Iterator[DocumentFault]:
    options = entry.cluster_options
    if "cluster_options" in entry.model_fields_set and not entry.cluster:
        message = "`cluster_options` applies to an entire cluster, but this entry does not specify one"
        yield part.fault(("cluster_options",), message, "add `cluster`")
    if "evacuate_vgpu" in options.model_fields_set and _EVACUATION in options.drs:
        message = f"`evacuate_vgpu` and {_EVACUATION} set the same DRS option"
        yield part.fault(("cluster_options", "drs", _EVACUATION), message, "remove one of them")


def _secrets(entry: HostEntry) -> Iterator[tuple[Loc, str]]:
    if entry.access.password is not None:
        yield ("access", "password"), entry.access.password
    if entry.access.key is not None:
        yield ("access", "key"), entry.access.key
    if entry.licence is not None:
        yield ("licence",), entry.licence


def check_gpu_rules(entry: HostEntry, part: Part) -> Iterator[DocumentFault]:
    """Yield the conflicts between the keys of each rule for GPUs, and between rules."""
    rules = entry.gpus
    for index, rule in enumerate(rules):
        yield from _check_gpu(rule, ("gpus", index), part)
        yield from _check_reach([_criteria(one.match) for one in rules[: index + 1]], "gpus", part)


def _check_gpu(rule: HostGpuEntry, loc: Loc, part: Part) -> Iterator[DocumentFault]:
    given = {key for key in rule.model_fields_set if getattr(rule, key) is not None}
    if rule.use is GpuUse.LEAVE:
        for key in sorted(given - {"match", "use"}):
            message = f"`use: leave` leaves the GPU unchanged, so `{key}` cannot be set"
            yield part.fault((*loc, key), message, "remove one of them")
        return
    if rule.use is GpuUse.PASSTHROUGH:
        for key in _OF_VGPUS:
            if key in given:
                message = f"`{key}` applies to GPUs with vGPUs, but this GPU is in passthrough mode"
                yield part.fault((*loc, key), message, "remove this key, or set use: vgpu")
        if "ecc" in given:
            message = "ECC for a passthrough GPU must be set in the guest"
            yield part.fault((*loc, "ecc"), message, "remove this key, or set use: vgpu")
    elif rule.label:
        message = "a hardware `label` applies to passthrough devices"
        yield part.fault((*loc, "label"), message, "set use: passthrough, or remove this key")
    if rule.sharing is Sharing.MIG:
        for key in _OF_TIME_SLICES:
            if key in given and rule.use is not GpuUse.PASSTHROUGH:
                message = f"`{key}` applies to time-sliced vGPUs, but this GPU is in MIG mode"
                yield part.fault((*loc, key), message, "remove this key, or set sharing: time_sliced")
    mixes = rule.vgpu_mode is VgpuMode.MIXED_SIZE and rule.scheduler is SchedulerPolicy.FIXED_SHARE
    if mixes and rule.use is not GpuUse.PASSTHROUGH:
        message = "a GPU in mixed-size mode cannot use the fixed share scheduler"
        yield part.fault((*loc, "scheduler"), message, "use best_effort or equal_share")


def check_nic_rules(entry: HostEntry, part: Part) -> Iterator[DocumentFault]:
    """Yield the conflicts between the keys of each rule for NICs, and between rules."""
    rules = entry.nics
    for index, rule in enumerate(rules):
        loc: Loc = ("nics", index)
        yield from _check_nic_use(rule, loc, part)
        yield from _check_firmware(rule, loc, part)
        if entry.ats is False and rule.firmware.get("ATS_ENABLED") in _TRUE:
            message = "`ats: false` disables ATS on the host, but ATS_ENABLED enables it on the NIC"
            yield part.fault(
                (*loc, "firmware", "ATS_ENABLED"),
                message,
                "remove one of these keys: ATS requires both settings",
            )
        yield from _check_reach([_criteria(one.match) for one in rules[: index + 1]], "nics", part)


def _check_nic_use(rule: HostNicEntry, loc: Loc, part: Part) -> Iterator[DocumentFault]:
    given = rule.model_fields_set
    if rule.use is NicUse.SRIOV and "vfs" not in given:
        yield part.fault(
            (*loc, "use"), "`use: sriov` requires `vfs`, the number of functions", "example: vfs: 8"
        )
    if rule.use is not NicUse.SRIOV and "vfs" in given:
        message = "`vfs` requires `use: sriov`"
        yield part.fault((*loc, "vfs"), message, "set use: sriov, or remove this key")
    if rule.label and rule.use is not NicUse.PASSTHROUGH:
        message = "a hardware `label` applies to passthrough devices"
        yield part.fault((*loc, "label"), message, "set use: passthrough, or remove this key")
    if rule.use is NicUse.PASSTHROUGH and rule.switch:
        message = "a passthrough NIC cannot be a switch uplink"
        yield part.fault((*loc, "switch"), message, "remove this key, or set use: host")
    if rule.use is NicUse.PASSTHROUGH and "roce" in given and rule.roce is not False:
        message = "RoCE for a passthrough NIC must be set in the guest"
        yield part.fault((*loc, "roce"), message, "remove this key; the host's driver cannot access the NIC")
    if isinstance(rule.roce, RoceEntry) and rule.roce.trust == "pcp" and "dscp" in rule.roce.model_fields_set:
        message = "`dscp` is ignored with `trust: pcp`"
        yield part.fault((*loc, "roce", "dscp"), message, "remove this key, or set trust: dscp")


def _check_firmware(rule: HostNicEntry, loc: Loc, part: Part) -> Iterator[DocumentFault]:
    firmware = rule.firmware
    if not firmware:
        return
    if not {"model", "vmnic", "pci_id"} & _criteria(rule.match).keys():
        message = "`firmware` applies to one NIC model, but this rule matches all NICs"
        yield part.fault(
            (*loc, "firmware"), message, "add match: {model: ConnectX}, or match a vmnic or pci_id"
        )
    if rule.use is not NicUse.SRIOV:
        return
    if firmware.get("SRIOV_EN") in _FALSE:
        message = "`use: sriov` requires SRIOV_EN, but this rule disables it"
        yield part.fault((*loc, "firmware", "SRIOV_EN"), message, "set it to true, or remove this key")
    functions = firmware.get("NUM_OF_VFS", "")
    if functions.isdecimal() and int(functions) < (rule.vfs or 0):
        message = f"NUM_OF_VFS is {functions}, which is less than `vfs` ({rule.vfs})"
        yield part.fault((*loc, "firmware", "NUM_OF_VFS"), message, f"set it to {rule.vfs} or more")


def _criteria(match: GpuMatch | NicMatch) -> dict[str, Any]:
    """Return the criteria of a match, as far as it has any."""
    return match.model_dump(exclude_none=True)


def _check_reach(matches: Sequence[dict[str, Any]], section: str, part: Part) -> Iterator[DocumentFault]:
    """Complain of the last rule where an earlier one takes everything that it could.

    A NIC that the host itself needs is taken only by its vmnic: a rule that names one is not
    reached by the rules that name none.
    """
    last = matches[-1]
    for index, earlier in enumerate(matches[:-1]):
        if "vmnic" in last and "vmnic" not in earlier:
            continue
        if all(key in last and _takes(key, earlier[key], last[key]) for key in earlier):
            message = (
                f"this rule has no effect, because item {index + 1} of '{section}' already matches the same "
                "devices"
            )
            yield part.fault(
                (section, len(matches) - 1), message, "the first matching rule applies; move this one up"
            )
            return


def _takes(key: str, wider: Any, narrower: Any) -> bool:
    """Whether everything with the second value has the first one too; a model is part of a name."""
    if key == "model":
        return str(wider).casefold() in str(narrower).casefold()
    return bool(wider == narrower)
