"""An SSH fleet of dstack: fleet.dstack.yml (dstack.ai, concepts "Fleets", reference of `fleet`).

`placement: cluster` makes distributed tasks possible. Of each host `hostname` is how dstack reaches it, and
`internal_ip` how the hosts reach each other (since 0.18.29): a private address, and of every host or of none.
A host without a key is refused (dstack 0.22.5: core/models/fleets.py, server/services/fleets.py).
"""

from __future__ import annotations

import ipaddress
from typing import Any

from vgpu_cfg.model.ranges import HostList, ListedHost
from vgpu_cfg.staging.export.parts import (
    Exported,
    ExportOptions,
    address_of,
    refuse_keyless,
    text_of,
    yaml_of,
)


def write_dstack(host_list: HostList, options: ExportOptions) -> Exported:
    """Write the fleet; machines that only launch are none of it. Raises DoesNotFit where there is no key."""
    refuse_keyless(host_list.workers, options, "dstack")
    is_private = all(_is_private(host.training_address) for host in host_list.workers)
    fleet: dict[str, Any] = {"type": "fleet", "name": _name(host_list.plan)}
    if len(host_list.workers) > 1:
        fleet["placement"] = "cluster"
    fleet["ssh_config"] = {
        "hosts": [_host(host, options, with_internal=is_private) for host in host_list.workers]
    }
    notes = [
        "apply it with: dstack apply -f fleet.dstack.yml",
        "dstack wants docker and NVIDIA's container toolkit on the hosts, and sudo without a password",
    ]
    if not is_private and len(host_list.workers) > 1:
        notes.append("no internal_ip: dstack takes private addresses of all hosts or none, and finds its own")
    return Exported({"fleet.dstack.yml": yaml_of(host_list, fleet)}, tuple(notes))


def _host(host: ListedHost, options: ExportOptions, *, with_internal: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "hostname": address_of(host),
        "port": host.port,
        "user": options.user_of(host),
        "identity_file": options.key_of(host),
    }
    if with_internal:
        entry["internal_ip"] = host.training_address
    return entry


def _is_private(address: str) -> bool:
    return bool(address) and ipaddress.ip_address(address).is_private


def _name(plan: str) -> str:
    """Make a name as dstack takes it: a letter, then 1 to 40 small letters, digits and hyphens."""
    name = text_of(plan.lower(), "-", longest=36)
    return name if name[:1].isalpha() and len(name) > 1 else f"plan-{name}"
