"""Obstacles outside the VMs' lines: entries of hosts and networks, protection, checks, flags."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any

from vgpu_cfg.changes.plan import lacking
from vgpu_cfg.changes.suggestion import FixKind
from vgpu_cfg.documents import Edit, Loc
from vgpu_cfg.model.choices import Approval
from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.guests.modules import branch_of_package, kind_of_package
from vgpu_cfg.model.plan_values import Disruption
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.findings.codes import Code, code_of
from vgpu_cfg.planning.findings.options import matches_any
from vgpu_cfg.planning.guests.drivers import guest_branches, host_branches
from vgpu_cfg.suggestions.candidate import Candidate, Cost
from vgpu_cfg.suggestions.situation import Situation


def propose_plan_keys(situation: Situation) -> Iterator[Candidate]:
    """Yield other values of keys, flags of the command, and what its author could allow."""
    yield from _flags(situation)
    yield from _identity(situation)
    yield from _host_entries(situation)
    yield from _host_rules(situation)
    yield from _networks(situation)
    yield from _training(situation)
    yield from _site(situation)
    yield from _protect(situation)
    yield from _checks(situation)


def _flags(situation: Situation) -> Iterator[Candidate]:
    if any(situation.errors(Code.POWER_CYCLE_NOT_ALLOWED, Code.OWN_VMS_OFF)):
        says = "allow the plan's running VMs to be powered off and on"
        yield Candidate(
            FixKind.FLAG, says, Cost.POWER_CYCLE, flag="allow_power_cycle", command="--allow-power-cycle"
        )
    away = {
        vm.name
        for found in situation.plan.diagnostics
        if found.code == Code.ELSEWHERE
        for vm in situation.vms(found)
    }
    if any(situation.errors(Code.HOST_FORBIDDEN)) or any(vm.name in away for vm in situation.unplaced):
        says = "allow the plan's VMs to be moved to their location in the plan file"
        yield Candidate(FixKind.FLAG, says, Cost.MOVE, flag="allow_move", command="--allow-move")
    lacked = tuple(lacking(situation.plan.disturbed, situation.desired.allow))
    for approval in Approval:
        what = ", ".join(dict.fromkeys(one.experience for one in lacked if one.needs is approval))
        if what:
            flag, command = f"allow={approval}", f"--allow {approval}"
            yield Candidate(FixKind.FLAG, f"approve: {what}", Cost.HOST_RESTART, flag=flag, command=command)
    if any(situation.errors(Code.NOT_PINNED)):
        says = "download packages and archives without verifying checksums"
        yield Candidate(FixKind.LEAVE, says, Cost.WORK, (Edit(("unpinned",), True),))
    if any(situation.errors(Code.MANY_DELETIONS)):
        count = sum(change.deletes is not None for change in situation.plan.changes)
        says = f"allow {counted(count, 'VM')} to be deleted"
        yield Candidate(
            FixKind.FLAG, says, Cost.WORK, flag=f"allow_destroy={count}", command=f"--allow-destroy {count}"
        )
    if any(found for found in situation.errors(Code.NETWORK_NOT_FOUND) if found.subject.kind == "vm"):
        made = {network.name for network in situation.desired.networks if network.switch}
        if any(nic.network in made for vm in situation.desired.vms for nic in vm.nics):
            says = "create the networks first, then the VMs in a second run"
            yield Candidate(FixKind.FLAG, says, flag="only=host:*", command="--only 'host:*'")


def _identity(situation: Situation) -> Iterator[Candidate]:
    """Say that this is the plan whose id the marks hold, or that it is another one."""
    name = situation.desired.name
    if any(situation.errors(Code.NAMESAKE)):
        marks = [vm.mark for vm in situation.observed.vms if vm.mark is not None and vm.mark.plan == name]
        for known in dict.fromkeys(mark.id for mark in marks if mark.id):
            says = f"if this plan created those VMs: set its ID {known}"
            yield Candidate(FixKind.LEAVE, says, Cost.WORK, (Edit(("id",), known),))
        says = f"if this is a different plan: rename it to {name}-2"
        yield Candidate(FixKind.LEAVE, says, edits=(Edit(("name",), f"{name}-2"),))
    for found in situation.errors(Code.MARK_WITHOUT_ID):
        vm = found.subject.name
        says = f"omit --delete {vm}; have the VM's owner delete it in vCenter"
        yield Candidate(FixKind.FLAG, says, flag=f"keep={vm}")


def _set(
    loc: Loc | None, key: str, value: Any, says: str, kind: FixKind, cost: Cost = Cost.NOTHING
) -> Iterator[Candidate]:
    if loc is not None:
        yield Candidate(kind, says, cost, (Edit((*loc, *key.split(".")), value),))


def _host_entries(situation: Situation) -> Iterator[Candidate]:
    for found in situation.plan.errors:
        if found.subject.kind != "host":
            continue
        name = found.subject.name
        entries = [(entry, situation.entry_of(entry)) for entry in situation.entries_for(name)]
        for entry, loc in entries:
            match found.code:
                case Code.DISRUPTION_NOT_ALLOWED:
                    for allowed in _allowances(entry.disruption.allow):
                        says = f"allow {', '.join(allowed)} on {name}"
                        yield from _set(
                            loc, "disruption.allow", allowed, says, FixKind.LEAVE, Cost.HOST_RESTART
                        )
                case Code.OWN_VMS_OFF:
                    says = f"allow the plan's VMs on {name} to be powered off"
                    yield from _set(
                        loc, "disruption.power_off_own", True, says, FixKind.LEAVE, Cost.POWER_CYCLE
                    )
                case Code.SETTING_OWNED:
                    for key, what in (("driver", "the driver"), ("firmware_tools", "the firmware tools")):
                        stated = situation.data_at((*loc, key)) if loc is not None else None
                        if getattr(entry, key) is None:
                            continue
                        kept = {name: value for name, value in (stated or {}).items() if name != "depot"}
                        says = f"use the cluster's image for {what}"
                        yield from _set(loc, key, {**kept, "by": "lifecycle"}, says, FixKind.FILE)
                    says = f"only check {name} without changing it"
                    yield from _set(loc, "mode", "check", says, FixKind.LEAVE)
                case Code.NO_IMAGE | Code.IMAGE_MANAGED | Code.COMPONENT_LACKS:
                    kept = dict((situation.data_at((*loc, "driver")) if loc is not None else None) or {})
                    by = "hand" if found.code == Code.NO_IMAGE else "lifecycle"
                    says = f"install the driver on {name} as a manual step in the plan"
                    yield from _set(loc, "driver", {**kept, "by": by}, says, FixKind.FILE, Cost.HOST_RESTART)
                case Code.NO_FIRMWARE_TOOLS:
                    says = f"install NVIDIA's firmware tools on {name} as a step in the plan"
                    yield from _set(
                        loc, "firmware_tools", {"by": "hand"}, says, FixKind.FILE, Cost.HOST_RESTART
                    )
                case Code.LOCKDOWN | Code.SETTING_UNREAD:
                    says = f"do not use {name}'s shell; perform those steps manually"
                    yield from _set(loc, "access", {"ssh": "off"}, says, FixKind.LEAVE)
                case Code.HOST_NOT_EMPTIED if entry.cluster:
                    value = {"evacuate_vgpu": True, "hot_migrate": True}
                    says = f"allow maintenance mode to migrate VMs with vGPUs in {entry.cluster}"
                    yield from _set(loc, "cluster_options", value, says, FixKind.FILE, Cost.MOVE)
                case Code.HOST_TWICE:
                    yield from _named_once(situation, name, loc)
                case Code.HOST_SILENT | Code.HOST_NOT_EMPTIED | Code.OTHERS_MAINTENANCE:
                    yield from _without_host(name, loc, situation)
                case _:
                    pass


def _allowances(allowed: frozenset[Disruption]) -> Iterator[list[str]]:
    """Yield what else could be allowed, the least first."""
    order = (Disruption.MAINTENANCE, Disruption.REBOOT, *Disruption)
    steps = [one for one in dict.fromkeys(order) if one not in allowed]
    for count in range(1, len(steps) + 1):
        yield sorted(str(one) for one in {*allowed, *steps[:count]})


def _named_once(situation: Situation, name: str, loc: Loc | None) -> Iterator[Candidate]:
    names = situation.data_at((*loc, "names")) if loc is not None else None
    if loc is None:
        return
    if isinstance(names, list) and len(names) > 1 and name in names:
        rest = [one for one in names if one != name]
        yield from _set(loc, "names", rest, f"list {name} in only one entry of `hosts`", FixKind.FILE)
    else:
        yield Candidate(FixKind.FILE, f"list {name} in only one entry of `hosts`", edits=(Edit(loc),))


def _without_host(name: str, loc: Loc | None, situation: Situation) -> Iterator[Candidate]:
    names = situation.data_at((*loc, "names")) if loc is not None else None
    if isinstance(names, list) and name in names and len(names) > 1:
        rest = [one for one in names if one != name]
        yield from _set(loc, "names", rest, f"remove {name} from `hosts`", FixKind.LEAVE)


def _host_rules(situation: Situation) -> Iterator[Candidate]:
    """Rules for devices with impossible requests."""
    wanted = (Code.NOT_SUPPORTED, Code.NIC_IN_USE, Code.GPU_SERVES_VGPUS)
    for found in situation.errors(*wanted):
        for entry in situation.entries_for(found.subject.name):
            loc = situation.entry_of(entry)
            for section in ("gpus", "nics"):
                yield from _rules(situation, loc, section, found.code)


def _rules(situation: Situation, loc: Loc | None, section: str, code: str) -> Iterator[Candidate]:
    raw = situation.data_at((*loc, section)) if loc is not None else None
    rules = raw if isinstance(raw, list) else [] if raw is None else [raw]
    for index, rule in enumerate(rules):
        at: Loc = (*(loc or ()), section, index) if isinstance(raw, list) else (*(loc or ()), section)
        if code == Code.NOT_SUPPORTED:
            if rule.get("sharing") == "mig":
                says = "use time slicing for the GPU: its board does not support MIG"
                yield Candidate(FixKind.FILE, says, edits=(Edit((*at, "sharing"), "time_sliced"),))
            if rule.get("vgpu_mode") == "mixed_size":
                says = "use vGPUs of one size: the board does not support mixed sizes"
                yield Candidate(FixKind.FILE, says, edits=(Edit((*at, "vgpu_mode"), "same_size"),))
            if rule.get("graphics_type") == "shared" or "vgpu_mode" in rule:
                says = "use the GPU for vGPUs"
                yield Candidate(FixKind.FILE, says, edits=(Edit((*at, "use"), "vgpu"),))
            for key in ("vgpu_mode", "sharing", "firmware", "scheduler"):
                if key in rule:
                    yield Candidate(
                        FixKind.LEAVE,
                        f"remove `{key}` from a rule under `{section}`",
                        edits=(Edit((*at, key)),),
                    )
        elif rule.get("use") not in (None, "passthrough"):
            says = "keep passthrough enabled for the device"
            yield Candidate(FixKind.LEAVE, says, edits=(Edit((*at, "use"), "passthrough"),))
    if code == Code.NOT_SUPPORTED and loc is not None and situation.data_at((*loc, "graphics_type")):
        says = "use the graphics type that vGPUs need"
        yield Candidate(FixKind.FILE, says, edits=(Edit((*loc, "graphics_type"), "sharedDirect"),))


def _networks(situation: Situation) -> Iterator[Candidate]:
    for network in situation.desired.networks:
        loc = situation.entry_of(network)
        if any(situation.errors(Code.MTU_TOO_SMALL)):
            for mtu in sorted(_mtus(situation)):
                says = f"set the MTU of {network.name} to {mtu}"
                yield from _set(loc, "mtu", mtu, says, FixKind.FILE)
            says = f"keep the current MTU of {network.name}"
            yield from _set(loc, "mtu", None, says, FixKind.FILE)
        if network.pool is not None and any(situation.errors(Code.POOL_EXHAUSTED)):
            wider = _wider(network.pool, network.subnet, len(situation.desired.vms))
            yield from _set(loc, "pool", wider, f"enlarge the pool of {network.name}", FixKind.FILE)
        refused = {found.subject.name for found in situation.errors(Code.DISRUPTION_NOT_ALLOWED)}
        if network.name in refused and network.vlan is not None:
            new = f"{network.name}-vlan{network.vlan}"
            says = f"use a port group with a different name for VLAN {network.vlan}: {new}"
            yield from _set(loc, "name", new, says, FixKind.LEAVE)
    if any(situation.errors(Code.MTU_TOO_SMALL)):
        names = {one.moid: one.name for one in situation.observed.networks}
        known = {one.name for one in situation.desired.networks}
        used = {nic.network for vm in situation.desired.vms for nic in vm.nics}
        used |= {vmknic.network for entry in situation.desired.hosts for vmknic in entry.vmknics}
        for switch in situation.observed.facts.switches:
            for name in sorted({names.get(moid, "") for moid in switch.portgroup_vlans} & used - known):
                yield _switch_mtu(situation, name, switch.name, max(_mtus(situation)))


def _switch_mtu(situation: Situation, name: str, switch: str, mtu: int) -> Candidate:
    entries = situation.data_at(("networks",))
    at: Loc = ("networks", len(entries) if isinstance(entries, list) else 0)
    value = {"name": name, "switch": switch, "mtu": mtu}
    return Candidate(FixKind.FILE, f"set MTU {mtu} on switch {switch}", Cost.NOTHING, (Edit(at, value),))


def _mtus(situation: Situation) -> set[int]:
    facts = situation.observed.facts
    found = {switch.mtu for switch in facts.switches if switch.mtu}
    found |= {vmknic.mtu for host in facts.hosts.values() for vmknic in host.vmknics}
    found |= {network.mtu for network in situation.desired.networks if network.mtu}
    return {1500, 9000} | found


def _wider(pool: tuple[str, str], subnet: str | None, count: int) -> str:
    last = ipaddress.ip_address(pool[1]) + max(count, 1) * 2
    if subnet is not None:
        last = min(last, ipaddress.ip_network(subnet, strict=False).broadcast_address - 1)
    return f"{pool[0]}-{last}"


def _training(situation: Situation) -> Iterator[Candidate]:
    """Train with a fixed number of workers, or with a guest's driver of the branch that its host takes."""
    if any(situation.errors(Code.NOT_ELASTIC)):
        says = "train with the current number of workers"
        yield Candidate(FixKind.LEAVE, says, edits=(Edit(("training", "elastic")),))
    for vm in situation.lines(Code.GUEST_DRIVER_BRANCH):
        driver = vm.guest.driver if vm.guest is not None else None
        package = (driver.package if driver is not None else None) or ""
        own = branch_of_package(package)
        if kind_of_package(package) != "guest":
            package = re.sub(r"(-vgpu-kvm)?\.run$", "-grid.run", package)
        for branch in _branches(situation, vm) if own else ():
            says = f"{vm.line} with a guest driver from branch {branch}; add version and checksum"
            new = {"package": package.replace(own, branch), "sha256": "0" * 64}
            edits = situation.set_key(vm, ("guest.driver", new))
            yield Candidate(FixKind.LEAVE, says, edits=edits)


def _branches(situation: Situation, vm: DesiredVm) -> tuple[str, ...]:
    """Return the guest driver branches that the host of a VM supports, newest first."""
    known = host_branches(situation.desired, situation.observed)
    hosts = (one.host_moid for one in situation.plan.placements if one.vm == vm.name)
    return next((guest_branches(known[host]) for host in hosts if host in known), ())


def _site(situation: Situation) -> Iterator[Candidate]:
    """Count hosts to a closed site, which its author alone can know to be reached."""
    site = situation.desired.site
    words = [found.remedy.rpartition(" add ")[2].split() for found in situation.errors(Code.SITE_LEFT)]
    hosts = sorted({word[0] for word in words if word})
    if site is not None and hosts and situation.data_at(("site",)) is not None:
        says = f"add {', '.join(hosts)} to the site, if guests can reach them"
        edit = Edit(("site", "hosts"), [*site.hosts, *hosts])
        yield Candidate(FixKind.LEAVE, says, Cost.WORK, (edit,))


def _protect(situation: Situation) -> Iterator[Candidate]:
    if not any(situation.errors(Code.PROTECTED)):
        return
    stated = situation.data_at(("protect",))
    for key, globs in (stated or {}).items():
        texts = globs if isinstance(globs, list) else [globs]
        for glob in texts:
            rest = [one for one in texts if one != glob]
            says = f"remove {glob} from `protect` ({key})"
            yield Candidate(FixKind.LEAVE, says, edits=(Edit(("protect", key), rest or None),))
    for vm in situation.lines(Code.PROTECTED):
        loc = situation.line_of(vm)
        if loc is not None:
            new = f"{situation.desired.name}-{vm.line}"
            says = f"rename {vm.line} to {new}; the existing VM remains unchanged"
            yield Candidate(FixKind.LEAVE, says, edits=(Edit((*loc, "name"), new),))
    for found in situation.errors(Code.PROTECTED):
        for index, entry in enumerate(situation.desired.hosts):
            if found.subject.kind == "host" and matches_any(found.subject.name, entry.names):
                yield from _without_host(found.subject.name, situation.entry_of(entry), situation)
                if len(situation.desired.hosts) > 1:
                    loc = situation.entry_of(entry) or ("hosts", index)
                    says = f"remove {found.subject.name} from `hosts`"
                    yield Candidate(FixKind.LEAVE, says, edits=(Edit(loc),))


def _checks(situation: Situation) -> Iterator[Candidate]:
    """Let checks that rest on a fact which was not looked up only warn: their author may say so."""
    for code in dict.fromkeys(found.code for found in situation.plan.errors):
        known = code_of(code)
        if known is not None and known.is_relaxable:
            says = f"change {code} ({known.summary}) to a warning"
            yield Candidate(FixKind.LEAVE, says, Cost.WORK, (Edit(("checks", code), "warning"),))
