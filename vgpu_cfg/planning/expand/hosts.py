"""From the entries of `hosts` to what is desired of hosts: ranges written out, defaults filled in."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgpu_cfg.documents import Part, build
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.desired import DesiredNetwork
from vgpu_cfg.model.desired_hosts import (
    DesiredAccess,
    DesiredBios,
    DesiredClusterOptions,
    DesiredDeviceMatch,
    DesiredDisruption,
    DesiredDriver,
    DesiredHostGpu,
    DesiredHostNic,
    DesiredHosts,
    DesiredPvrdma,
    DesiredRoce,
    DesiredVmknic,
)
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan_file import (
    AccessEntry,
    DriverEntry,
    GpuMatch,
    HostEntry,
    HostNicEntry,
    NicMatch,
    PvrdmaEntry,
    RoceEntry,
    SecretUse,
)
from vgpu_cfg.planning.expand.host_checks import HostContext, check_hosts
from vgpu_cfg.planning.expand.ranges import read_members


@dataclass(slots=True)
class HostExpansion:
    """The entries in the order of the files, and what is wrong; entries with faults are left out."""

    hosts: list[DesiredHosts] = field(default_factory=list)
    faults: list[DocumentFault] = field(default_factory=list)


def expand_hosts(
    sections: Sequence[Part],
    *,
    networks: Sequence[DesiredNetwork],
    secrets: Collection[str],
    has_vms: bool,
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
    for index, name in enumerate(entry.names or ()):
        try:
            yield from (member.name for member in read_members(name))
        except ValueError as error:
            message, _, hint = str(error).partition("\n")
            out.faults.append(part.fault(("names", index), message, hint))


def make_hosts(entry: HostEntry, names: Sequence[str], origin: str, *, has_vms: bool) -> DesiredHosts:
    """Make one entry; `check_hosts` must have found nothing against it. `names` have no ranges."""
    given = entry.model_fields_set
    stated: dict[str, Any] = {
        **_stated(entry, "cluster", "mode", "graphics_type", "assignment_policy", "ats"),
        "gpus": tuple(
            DesiredHostGpu(
                match=_match(rule.match),
                **_stated(rule, "use", "sharing", "vgpu_mode", "scheduler", "ecc", "label"),
            )
            for rule in entry.gpus or ()
        ),
        "nics": tuple(_nic(rule) for rule in entry.nics or ()),
        "vmknics": tuple(
            DesiredVmknic(**_stated(one, "network", "address", "addresses", "mtu"))
            for one in entry.vmknics or ()
        ),
    }
    if "pvrdma" in given:
        stated["pvrdma"] = _pvrdma(entry.pvrdma)
    if "driver" in given:
        stated["driver"] = _driver(entry.driver)
    if "bios" in given:
        stated["bios"] = DesiredBios(**_stated(entry.bios, *DesiredBios.model_fields))
    if "licence" in given:
        stated["licence"] = entry.licence.secret
    if "cluster_options" in given:
        options = _stated(entry.cluster_options, *DesiredClusterOptions.model_fields)
        stated["cluster_options"] = DesiredClusterOptions(**options)
    if "access" in given:
        stated["access"] = _access(entry.access)
    if "disruption" in given:
        disruption = _stated(entry.disruption, *DesiredDisruption.model_fields)
        stated["disruption"] = DesiredDisruption.model_validate(disruption)
    by_default = "from_vms" if has_vms else "none"
    prepare = entry.prepare if "prepare" in given else by_default
    return DesiredHosts.model_validate(
        {**stated, "names": tuple(names), "prepare": prepare, "origin": origin}
    )


def _stated(entry: Frozen, *keys: str) -> dict[str, Any]:
    """Return the keys that stand in the file with a value."""
    return {
        key: getattr(entry, key)
        for key in keys
        if key in entry.model_fields_set and getattr(entry, key) is not None
    }


def _match(match: GpuMatch | NicMatch | None) -> DesiredDeviceMatch:
    if match is None:
        return DesiredDeviceMatch()
    return DesiredDeviceMatch(**_stated(match, *DesiredDeviceMatch.model_fields))


def _nic(rule: HostNicEntry) -> DesiredHostNic:
    stated = _stated(rule, "use", "vfs", "label", "firmware", "switch")
    if "roce" in rule.model_fields_set:
        stated["roce"] = _roce(rule.roce)
    return DesiredHostNic(match=_match(rule.match), **stated)


def _roce(roce: RoceEntry | bool) -> DesiredRoce:  # noqa: FBT001 - what the plan file holds
    if isinstance(roce, RoceEntry):
        return DesiredRoce(**_stated(roce, "trust", "dscp", "priority"))
    return DesiredRoce(enabled=roce)


def _pvrdma(pvrdma: PvrdmaEntry | bool) -> DesiredPvrdma:  # noqa: FBT001 - what the plan file holds
    if isinstance(pvrdma, PvrdmaEntry):
        return DesiredPvrdma(vmknic=pvrdma.vmknic, network=pvrdma.network)
    return DesiredPvrdma(enabled=False)


def _driver(driver: DriverEntry) -> DesiredDriver:
    return DesiredDriver(depots=driver.depot or (), **_stated(driver, "kind", "version", "by"))


def _access(access: AccessEntry) -> DesiredAccess:
    stated = _stated(access, "ssh", "user", "password", "key", "host_keys")
    named = {key: use.secret if isinstance(use, SecretUse) else use for key, use in stated.items()}
    return DesiredAccess.model_validate(named)
