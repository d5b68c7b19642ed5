"""Fleets of SSH hosts for dstack (fleet.dstack.yml) and SkyPilot (~/.sky/ssh_node_pools.yaml).

dstack (dstack.ai, concepts "Fleets", reference of `fleet`): `placement: cluster` makes distributed tasks
possible. Of each host `hostname` is how dstack reaches it, and `internal_ip` how the hosts reach each other
(since 0.18.29): a private address, and of every host or of none. A host without a key is refused (dstack
0.22.5: core/models/fleets.py, server/services/fleets.py).

SkyPilot: a pool has `user`, `identity_file` and `hosts`, each with `ip`; a host's own account and key go
before the pool's, which must be there all the same (docs.skypilot.co, "Deploy SkyPilot on existing machines";
SkyPilot 0.14.1: sky/ssh_node_pools/core.py, _validate_pool_config; utils.py, prepare_hosts_info). It has no
key for a port: a host with another than 22 is named as ~/.ssh/config knows it.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from vgpu_cfg.model.host_list import HostList, ListedHost
from vgpu_cfg.staging.export.parts import (
    Exported,
    ExportOptions,
    address_of,
    refuse_keyless,
    text_of,
    yaml_of,
)

_SSH_PORT = 22


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
        "dstack requires Docker and the NVIDIA Container Toolkit on the hosts, and passwordless sudo",
    ]
    if not is_private and len(host_list.workers) > 1:
        notes.append(
            "internal_ip is omitted because not every host has a private address; dstack detects the "
            "addresses"
        )
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


def write_skypilot(host_list: HostList, options: ExportOptions) -> Exported:
    """Write the pool; machines that only launch are none of it. Raises DoesNotFit where there is no key."""
    refuse_keyless(host_list.workers, options, "SkyPilot")
    first = host_list.workers[0]
    user, key = options.user_of(first), options.key_of(first)
    pool: dict[str, Any] = {"user": user, "identity_file": key}
    pool["hosts"] = [_skypilot_host(host, options, user, key) for host in host_list.workers]
    text = yaml_of(host_list, {text_of(host_list.plan, "-").lower(): pool})
    notes = [
        "copy it to ~/.sky/ssh_node_pools.yaml on the SkyPilot API server, together with the keys",
        "SkyPilot requires Debian or Ubuntu, passwordless sudo, and port 6443 open between the workers",
    ]
    if odd := [host for host in host_list.workers if host.port != _SSH_PORT]:
        names = ", ".join(host.host_name for host in odd)
        notes.append(f"SSH uses a port other than 22 on {names}: set HostName and Port in ~/.ssh/config")
    return Exported({"ssh_node_pools.yaml": text}, tuple(notes))


def _skypilot_host(host: ListedHost, options: ExportOptions, user: str, key: str) -> dict[str, Any] | str:
    if host.port != _SSH_PORT:
        return host.host_name
    entry: dict[str, Any] = {"ip": address_of(host)}
    if options.user_of(host) != user:
        entry["user"] = options.user_of(host)
    if options.key_of(host) != key:
        entry["identity_file"] = options.key_of(host)
    return entry
