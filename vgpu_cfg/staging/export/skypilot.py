"""SkyPilot's pool of machines reached by ssh: ~/.sky/ssh_node_pools.yaml.

A pool has `user`, `identity_file` and `hosts`, each with `ip`; a host's own account and key go before the
pool's, which must be there all the same (docs.skypilot.co, "Deploy SkyPilot on existing machines"; SkyPilot
0.14.1: sky/ssh_node_pools/core.py, _validate_pool_config; utils.py, prepare_hosts_info). It has no key for a
port: a host with another than 22 is named as ~/.ssh/config knows it.
"""

from __future__ import annotations

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

_SSH_PORT = 22


def write_skypilot(host_list: HostList, options: ExportOptions) -> Exported:
    """Write the pool; machines that only launch are none of it. Raises DoesNotFit where there is no key."""
    refuse_keyless(host_list.workers, options, "SkyPilot")
    first = host_list.workers[0]
    user, key = options.user_of(first), options.key_of(first)
    pool: dict[str, Any] = {"user": user, "identity_file": key}
    pool["hosts"] = [_host(host, options, user, key) for host in host_list.workers]
    text = yaml_of(host_list, {text_of(host_list.plan, "-").lower(): pool})
    notes = [
        "it belongs into ~/.sky/ssh_node_pools.yaml on the machine of SkyPilot's API server, with the keys",
        "SkyPilot wants Debian or Ubuntu, sudo without a password, and port 6443 open among the workers",
    ]
    if odd := [host for host in host_list.workers if host.port != _SSH_PORT]:
        names = ", ".join(host.host_name for host in odd)
        notes.append(f"{names} listen on another port than 22: give HostName and Port in ~/.ssh/config")
    return Exported({"ssh_node_pools.yaml": text}, tuple(notes))


def _host(host: ListedHost, options: ExportOptions, user: str, key: str) -> dict[str, Any] | str:
    if host.port != _SSH_PORT:
        return host.host_name
    entry: dict[str, Any] = {"ip": address_of(host)}
    if options.user_of(host) != user:
        entry["user"] = options.user_of(host)
    if options.key_of(host) != key:
        entry["identity_file"] = options.key_of(host)
    return entry
