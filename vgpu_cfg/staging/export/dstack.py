"""An SSH fleet of dstack: fleet.dstack.yml (dstack.ai, concepts "Fleets", reference of `fleet`).

`placement: cluster` makes distributed tasks possible. Of each host `hostname` is how dstack reaches it, and
`internal_ip` how the hosts reach each other (since 0.18.29).
"""

from __future__ import annotations

from typing import Any

from vgpu_cfg.documents import dump
from vgpu_cfg.model.host_list import HostList, ListedHost
from vgpu_cfg.staging.export.parts import Exported, ExportOptions, address_of, key_notes, text_of


def write_dstack(host_list: HostList, options: ExportOptions) -> Exported:
    """Write the fleet; machines that only launch are none of it."""
    fleet: dict[str, Any] = {"type": "fleet", "name": _name(host_list.plan)}
    if len(host_list.workers) > 1:
        fleet["placement"] = "cluster"
    fleet["ssh_config"] = {"hosts": [_host(host, options) for host in host_list.workers]}
    notes = (
        "apply it with: dstack apply -f fleet.dstack.yml",
        "dstack wants docker and NVIDIA's container toolkit on the hosts, and sudo without a password",
        *key_notes(host_list.workers, options),
    )
    return Exported({"fleet.dstack.yml": dump(fleet)}, notes)


def _host(host: ListedHost, options: ExportOptions) -> dict[str, Any]:
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
    name = text_of(plan.lower(), "-", longest=36)
    return name if name[:1].isalpha() and len(name) > 1 else f"plan-{name}"
