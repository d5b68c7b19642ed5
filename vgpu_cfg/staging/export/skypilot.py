"""SkyPilot's pool of machines reached by ssh: ~/.sky/ssh_node_pools.yaml.

A pool has `hosts`, each with `ip`, and `user` and `identity_file` for all or for one (docs.skypilot.co,
"Deploy SkyPilot on existing machines"; sky/ssh_node_pools/utils.py, prepare_hosts_info). It has no key for a
port: a host with another than 22 is named as ~/.ssh/config knows it.
"""

from __future__ import annotations

from typing import Any

from vgpu_cfg.documents import dump
from vgpu_cfg.model.host_list import HandOver, HandOverHost
from vgpu_cfg.staging.export.parts import Handed, HandOverOptions, address_of, key_notes, words_of

_SSH_PORT = 22


def write_skypilot(hand_over: HandOver, options: HandOverOptions) -> Handed:
    """Write the pool; machines that only launch are none of it."""
    pool = {"hosts": [_host(host, options) for host in hand_over.workers]}
    text = dump({words_of(hand_over.plan, "-").lower(): pool})
    notes = [
        "it belongs into ~/.sky/ssh_node_pools.yaml on the machine of SkyPilot's API server",
        "SkyPilot wants Debian or Ubuntu, sudo without a password, and port 6443 open among the workers",
        *key_notes((host for host in hand_over.workers if host.port == _SSH_PORT), options),
    ]
    if odd := [host for host in hand_over.workers if host.port != _SSH_PORT]:
        names = ", ".join(host.host_name for host in odd)
        notes.append(f"{names} listen on another port than 22: give HostName and Port in ~/.ssh/config")
    return Handed({"ssh_node_pools.yaml": text}, tuple(notes))


def _host(host: HandOverHost, options: HandOverOptions) -> dict[str, Any] | str:
    if host.port != _SSH_PORT:
        return host.host_name
    entry: dict[str, Any] = {"ip": address_of(host), "user": options.user_of(host)}
    if key := options.key_of(host):
        entry["identity_file"] = key
    return entry
