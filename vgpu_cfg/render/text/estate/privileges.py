"""The roles of a plan for people: a table on a terminal, and scripts for govc and PowerCLI.

Scripts name objects by their vCenter ids, with their paths as comments: a path may hold characters that a
shell or govc takes for a pattern. That PowerCLI finds each kind of object by such an id is read in its
reference and not tried.

Belief: govc-script-of-roles, powercli-script-of-roles.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from rich.text import Text

from vgpu_cfg.changes.privileges import READ_ONLY, Place
from vgpu_cfg.model.wording import shown
from vgpu_cfg.planning.privileges import Reason, Role, Target
from vgpu_cfg.render.layout.lines import Column, both_ends, hanging, table

_COLUMNS = (Column("PRIVILEGE"), Column("COMMANDS", is_flexible=True), Column("FOR", is_flexible=True))
_TYPES = {
    Place.ROOT: "Folder",
    Place.DATACENTER: "Datacenter",
    Place.FOLDER: "Folder",
    Place.POOL: "ResourcePool",
    Place.DATASTORE: "Datastore",
    Place.NETWORK: "Network",
    Place.SWITCH: "VmwareDistributedVirtualSwitch",
    Place.PORTGROUP: "DistributedVirtualPortgroup",
    Place.CLUSTER: "ClusterComputeResource",
    Place.HOST: "HostSystem",
    Place.TEMPLATE: "VirtualMachine",
    Place.VM: "VirtualMachine",
}
_OTHER_TYPES = {"dvportgroup": "DistributedVirtualPortgroup", "domain-s": "ComputeResource"}
_CMDLETS = {
    "Datacenter": "Get-Datacenter",
    "Folder": "Get-Folder",
    "ResourcePool": "Get-ResourcePool",
    "Datastore": "Get-Datastore",
    "Network": "Get-VirtualNetwork",
    "VmwareDistributedVirtualSwitch": "Get-VDSwitch",
    "DistributedVirtualPortgroup": "Get-VDPortgroup",
    "ClusterComputeResource": "Get-Cluster",
    "ComputeResource": "Get-VMHost",
    "HostSystem": "Get-VMHost",
    "VirtualMachine": "Get-VM",
}
READ_ONLY_ROLE = "ReadOnly"
"""vCenter's name of its own role Read-only."""


def render_privileges(
    roles: Sequence[Role], plan: str, server: str, commands: Sequence[str], width: int
) -> list[Text]:
    """Lay the roles out that `commands` need."""
    lines = both_ends(Text(plan, style="bold"), Text(server, style="dim"), width)
    for role in roles:
        lines += [
            Text(""),
            *hanging("ROLE", role.name or "Read-only (built into vCenter)", width, style="bold", indent=0),
        ]
        for target in role.targets:
            lines += hanging("ON", _where(target), width, indent=0)
        if role.reasons:
            lines += table(_COLUMNS, [_cells(reason, commands) for reason in role.reasons], width)
    return lines


def _where(target: Target) -> str:
    reaches = ", and all objects below it" if target.propagates else ""
    return f"{target.path}{reaches}" if target.moid else f"{target.path} in question{reaches}"


def _cells(reason: Reason, commands: Sequence[str]) -> list[str]:
    words = "; ".join(reason.uses)
    if reason.is_recalled:
        words += " (from memory; not verified)"
    if reason.without:
        words += f"; optional: without it, {reason.without}"
    return [reason.privilege, _by(reason, commands), words]


def _by(reason: Reason, commands: Sequence[str]) -> str:
    if len(reason.commands) == len(commands):
        return "all" if len(commands) > 1 else ""
    return ", ".join(reason.commands)


def govc_script(roles: Sequence[Role], *, title: str) -> str:
    """Write a shell script that makes the roles, or sets them right, and gives them to an account."""
    return "".join(f"{line}\n" for line in _govc(roles, title))


def _govc(roles: Sequence[Role], title: str) -> Iterator[str]:
    yield "#!/bin/sh"
    yield f"# {title}"
    yield "# Run this as a user with permission to create roles: sh roles.sh vgpu-cfg@vsphere.local"
    yield "set -eu"
    yield 'account=${1:?"specify the account"}'
    yield "role() {"
    yield '    if govc role.ls "$1" >/dev/null 2>&1'
    yield '    then govc role.update "$@"; else govc role.create "$@"; fi'
    yield "}"
    yield 'give() { govc permissions.set -principal "$account" -role "$1" -propagate="$2" "$3"; }'
    for role in roles:
        name = shlex.quote(role.name or READ_ONLY_ROLE)
        yield ""
        if role.name:
            yield f"role {name} {' '.join(role.privileges)}"
        for target in role.targets:
            reaches = str(target.propagates).lower()
            if target.moid:
                yield f"give {name} {reaches} {_type(target)}:{target.moid}  # {shown(target.path)}"
            else:
                yield f"# give {name} {reaches} PATH, for {target.path}"


def powercli_script(roles: Sequence[Role], *, title: str) -> str:
    """Write a PowerShell script that makes the roles and gives them to an account."""
    return "".join(f"{line}\n" for line in _powercli(roles, title))


def _powercli(roles: Sequence[Role], title: str) -> Iterator[str]:
    yield f"# {title}"
    yield "# Run this after Connect-VIServer: ./roles.ps1 -Account 'VSPHERE.LOCAL\\\\vgpu-cfg'"
    yield "param([Parameter(Mandatory = $true)][string]$Account)"
    yield "$ErrorActionPreference = 'Stop'"
    for role in roles:
        yield ""
        if role.name:
            privileges = ", ".join(_quoted(one) for one in role.privileges if one not in READ_ONLY)
            yield f"$held = Get-VIPrivilege -Id {privileges}"
            yield f"$role = New-VIRole -Name {_quoted(role.name)} -Privilege $held"
        else:
            yield f"$role = Get-VIRole -Name {_quoted(READ_ONLY_ROLE)}"
        for target in role.targets:
            reaches = f"-Propagate:${str(target.propagates).lower()}"
            given = f"New-VIPermission -Principal $Account -Role $role {reaches} -Entity"
            if target.moid:
                yield f"{given} ({_found(target)})  # {shown(target.path)}"
            else:
                yield f"# {given} (…), for {target.path}"


def _found(target: Target) -> str:
    kind = _type(target)
    cmdlet = "Get-Template" if target.place is Place.TEMPLATE else _CMDLETS[kind]
    found = f"{kind}-{target.moid}"
    return f"{cmdlet} -Id {_quoted(found)}"


def _type(target: Target) -> str:
    return next(
        (kind for start, kind in _OTHER_TYPES.items() if target.moid.startswith(start)), _TYPES[target.place]
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
