"""An SSH fleet of dstack: fleet.dstack.yml (dstack.ai, concepts "Fleets", reference of `fleet`).

`placement: cluster` makes distributed tasks possible. Of each host `hostname` is how dstack reaches it, and
`internal_ip` how the hosts reach each other (since 0.18.29).
"""

from __future__ import annotations

from typing import Any

from vgpu_cfg.documents import dump
from vgpu_cfg.model.host_list import HandOver, HandOverHost
from vgpu_cfg.staging.export.parts import Handed, HandOverOptions, address_of, key_notes, words_of


def write_dstack(hand_over: HandOver, options: HandOverOptions) -> Handed:
    """Write the fleet; machines that only launch are none of it."""
    fleet: dict[str, Any] = {"type": "fleet", "name": _name(hand_over.plan)}
    if len(hand_over.workers) > 1:
        fleet["placement"] = "cluster"
    fleet["ssh_config"] = {"hosts": [_host(host, options) for host in hand_over.workers]}
    notes = (
        "apply it with: dstack apply -f fleet.dstack.yml",
        "dstack wants docker and NVIDIA's container toolkit on the hosts, and sudo without a password",
        *key_notes(hand_over.workers, options),
    )
    return Handed({"fleet.dstack.yml": dump(fleet)}, notes)


def _host(host: HandOverHost, options: HandOverOptions) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "hostname": address_of(host),
        "port": host.port,
        "user": options.user_of(host),
    }
    if key := options.key_of(host):
        entry["identity_file"] = key
    if host.training_address and host.training_address != entry["hostname"]:
        entry["internal_ip"] = host.training_address
    return entry


def _name(plan: str) -> str:
    """Make a name as dstack takes it: a letter, then 1 to 40 small letters, digits and hyphens."""
    name = words_of(plan.lower(), "-", longest=36)
    return name if name[:1].isalpha() and len(name) > 1 else f"plan-{name}"
