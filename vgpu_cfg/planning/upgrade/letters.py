"""Texts to send to the owners of VMs on hosts that are upgraded: VMs, actions and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import as_counted
from vgpu_cfg.planning.upgrade.assess import Assessment, Fate
from vgpu_cfg.planning.upgrade.waves import Wave

UNKNOWN_OWNER = "unknown owner"

_ASKS = {
    Fate.MOVES: "Moved by vMotion, no action required",
    Fate.OFF: "Power off before this time, power on afterward",
    Fate.STAYS: "Move or power off before this time: vgpu-cfg cannot move them",
}


def letters(found: Assessment, waves: Sequence[Wave]) -> Mapping[str, str]:
    """Return a text for each owner, by name; an owner is an attribute's value, or a plan."""
    owners = sorted({vm.owner for wave in waves for host in wave.hosts for vm in host.vms})
    return {owner or UNKNOWN_OWNER: _letter(owner, found, waves) for owner in owners}


def _letter(owner: str, found: Assessment, waves: Sequence[Wave]) -> str:
    lines = [f"Subject: {found.target.words} on the hosts of your VMs", ""]
    for wave in waves:
        own = [vm for host in wave.hosts for vm in host.vms if vm.owner == owner]
        if not own:
            continue
        lines.append(f"{wave.opens:%a %Y-%m-%d %H:%M %Z}, until about {wave.ends:%H:%M}:")
        for fate, asks in _ASKS.items():
            by_reason: dict[str, list[str]] = {}
            for vm in own:
                if vm.fate is fate:
                    by_reason.setdefault(vm.why, []).append(vm.name)
            for why, names in by_reason.items():
                lines.append(
                    f"  {asks}{f' ({why})' if why else ''}: {fold_names(sorted(names, key=as_counted))}"
                )
        stun = max((vm.stun_ms or 0 for vm in own), default=0)
        if stun:
            lines.append(f"  vMotion pauses a VM for up to {stun / 1000:.0f} seconds.")
    lines += [f"\n{first.text}." for first in found.firsts if first.is_for_owners]
    return "\n".join(lines) + "\n"
