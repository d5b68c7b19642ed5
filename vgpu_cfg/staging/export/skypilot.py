"""SkyPilot's pool of machines reached by ssh: ~/.sky/ssh_node_pools.yaml.

A pool has `hosts`, each with `ip`, and `user` and `identity_file` for all or for one (docs.skypilot.co,
"Deploy SkyPilot on existing machines"; sky/ssh_node_pools/utils.py, prepare_hosts_info). It has no key for a
port: a host with another than 22 is named as ~/.ssh/config knows it.
"""

from __future__ import annotations

from typing import Any

from vgpu_cfg.documents import dump
from vgpu_cfg.model.host_list import HostList, ListedHost
from vgpu_cfg.staging.export.parts import Exported, ExportOptions, address_of, key_notes, text_of

_SSH_PORT = 22


def write_skypilot(host_list: HostList, options: ExportOptions) -> Exported:
    """Write the pool; machines that only launch are none of it."""
    pool = {"hosts": [_host(host, options) for host in host_list.workers]}
    text = dump({text_of(host_list.plan, "-").lower(): pool})
    notes = [
        "it belongs into ~/.sky/ssh_node_pools.yaml on the machine of SkyPilot's API server",
        "SkyPilot wants Debian or Ubuntu, sudo without a password, and port 6443 open among the workers",
        *key_notes((host for host in host_list.workers if host.port == _SSH_PORT), options),
    ]
    if odd := [host for host in host_list.workers if host.port != _SSH_PORT]:
        names = ", ".join(host.host_name for host in odd)
        notes.append(f"{names} listen on another port than 22: give HostName and Port in ~/.ssh/config")
    return Exported({"ssh_node_pools.yaml": text}, tuple(notes))


def _host(host: ListedHost, options: ExportOptions) -> dict[str, Any] | str:
    if host.port != _SSH_PORT:
        return host.host_name
    entry: dict[str, Any] = {"ip": address_of(host), "user": options.user_of(host)}
    if key := options.key_of(host):
        entry["identity_file"] = key
    return entry
