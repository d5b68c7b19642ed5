"""The modules that make a system: its name, accounts, networks, limits, shared folders."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from vgpu_cfg.lab.guest.staging.work import (
    DONE,
    ModuleFailedError,
    Work,
    WorkResult,
    applies,
    check_host,
    check_packages,
    is_written,
)
from vgpu_cfg.lab.guest.system.cloud_config import CloudUser, add_account
from vgpu_cfg.lab.guest.system.nics import SeenNic
from vgpu_cfg.lab.guest.system.workloads import restart_runtime
from vgpu_cfg.lab.state.guest import NicSetting, fault_of

HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
USER_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
PUBLIC_KEY = re.compile(r"(?:ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp\d+) [A-Za-z0-9+/=]{20,}")
HOSTS = "/etc/hosts"
RUNTIME_TOLD = "site of the runtime"
"""The folder for digests of the settings that restart a container runtime when they change."""
OF_THE_RUNTIME = ("proxy", "registry_mirrors", "certificates", "apt", "dnf")
"""The script of `site` restarts it for package sources, too."""
BEGIN, END = "# vgpu-cfg: begin", "# vgpu-cfg: end"


def _has_host_name(work: Work) -> bool:
    return work.guest.host_name == work.text("host_name")


@applies("host-name", _has_host_name, seconds=0.5)
def set_host_name(work: Work) -> WorkResult:
    """Set the host name."""
    name = work.text("host_name")
    if not HOST_NAME.fullmatch(name):
        raise ModuleFailedError(f"{name} is not a valid host name")
    work.guest.host_name = name
    return DONE


def _wanted_users(work: Work) -> list[CloudUser]:
    users = [
        CloudUser(
            str(part.get("name", "")),
            tuple(" ".join(str(key).split()[:2]) for key in part.get("keys", ())),
            bool(part.get("sudo", True)),
            str(part.get("shell", "/bin/bash")),
            tuple(str(each) for each in part.get("groups", ())),
        )
        for part in work.parts("users")
    ]
    machine = work.text("machine_user")
    if machine:
        known = {key for user in users for key in user.keys}
        reported = "\n".join([work.bundle_file(f"keys.{machine}"), work.script])
        keys = [key for key in dict.fromkeys(PUBLIC_KEY.findall(reported)) if key not in known]
        account = work.guest.accounts.get(machine)
        before = account.keys if account is not None else ()
        users.append(CloudUser(machine, tuple(keys) or before, sudo=True))
    return users


def _has_users(work: Work) -> bool:
    for user in _wanted_users(work):
        account = work.guest.accounts.get(user.name)
        if account is None or not {" ".join(key.split()[:2]) for key in user.keys} <= _plain(account.keys):
            return False
    return True


def _plain(keys: tuple[str, ...]) -> set[str]:
    return {" ".join(key.split()[:2]) for key in keys}


@applies("users", _has_users)
def make_users(work: Work) -> WorkResult:
    """Make the accounts, and give them their keys."""
    for user in _wanted_users(work):
        if not USER_NAME.fullmatch(user.name):
            raise ModuleFailedError(f"{user.name!r} is not a valid account name")
        if user.name == work.text("machine_user") and not user.keys:
            raise ModuleFailedError(f"no key was given for {user.name}")
        password = ""
        if user.name in work.guest.accounts:
            password = work.guest.accounts[user.name].password
        add_account(work.guest, CloudUser(user.name, user.keys, user.sudo, user.shell, user.groups, password))
    return work.written()


def _hosts_block(work: Work) -> str:
    lines = [f"{part.get('address')} {' '.join(part.get('names', ()))}" for part in work.parts("entries")]
    return "\n".join([BEGIN, *lines, END])


def _has_hosts(work: Work) -> bool:
    found = work.guest.files.get(HOSTS)
    return found is not None and _hosts_block(work) in found.content


@applies("hosts", _has_hosts, seconds=0.5)
def write_hosts(work: Work) -> WorkResult:
    """Put the block into /etc/hosts; other lines stay."""
    found = work.guest.files.get(HOSTS)
    text = found.content if found is not None else "127.0.0.1 localhost\n"
    rest = re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}\n?", "", text, flags=re.DOTALL)
    work.guest.touch_file(HOSTS, f"{rest.rstrip()}\n{_hosts_block(work)}\n", now=work.lab.clock.now())
    return DONE


def _setting(part: Mapping[str, Any], nic: SeenNic) -> NicSetting:
    mtu = part.get("mtu")
    return NicSetting(
        str(part.get("name") or "") or nic.name,
        tuple(str(each) for each in part.get("addresses", ())),
        bool(part.get("dhcp", False)),
        int(mtu) if mtu is not None else None,
        str(part.get("gateway") or ""),
        tuple(str(each) for each in part.get("dns", ())),
    )


def _settings(work: Work) -> dict[str, NicSetting]:
    found: dict[str, NicSetting] = {}
    for part in work.parts("nics"):
        try:
            nic = work.nic(part)
        except ModuleFailedError:
            if part.get("optional"):
                continue
            raise
        found[nic.mac] = _setting(part, nic)
    return found


def _has_network(work: Work) -> bool:
    try:
        wanted = _settings(work)
    except ModuleFailedError:
        return False
    now = {nic.mac: nic for nic in work.seen_nics()}
    return all(
        mac in work.guest.settings
        and set(setting.addresses) <= set(now[mac].addresses)
        and (setting.mtu in (None, now[mac].mtu))
        and setting.name == now[mac].name
        for mac, setting in wanted.items()
    )


@applies("network", _has_network, seconds=3.0)
def set_network(work: Work) -> WorkResult:
    """Apply netplan: the link of each NIC whose setting changes goes down and up, which is assumed."""
    wanted, now = _settings(work), work.guest.settings
    for nic in work.seen_nics():
        if nic.mac in wanted and wanted[nic.mac] != now.get(nic.mac):
            work.lab.note(work.vm, "link", nic.name)
    work.guest.settings |= wanted
    return work.written()


@applies("site", is_written, seconds=2.0)
def set_site(work: Work) -> WorkResult:
    """Apply the site's settings in the guest; a proxy with a login gets one."""
    proxy = work.value("proxy")
    if isinstance(proxy, dict) and proxy.get("password") and not work.secret_files():
        raise ModuleFailedError("the proxy's password is missing")
    for text in work.texts("certificates"):
        if "BEGIN CERTIFICATE" not in text:
            raise ModuleFailedError("this is not a certificate")
    told = {name: value for name in OF_THE_RUNTIME if (value := work.parameters.get(name))}
    secrets = sorted(file.content for file in work.secret_files().values())
    digest = hashlib.sha256(json.dumps([told, secrets]).encode()).hexdigest() if told else ""
    if digest != work.guest.blocks.get(RUNTIME_TOLD, ""):
        restart_runtime(work.lab, work.vm, work.text("runtime"))
    work.guest.blocks[RUNTIME_TOLD] = digest
    return work.written()


def _has_time(work: Work) -> bool:
    return is_written(work) and not fault_of(work.guest, "clock")


@applies("time", _has_time, seconds=4.0)
def set_time(work: Work) -> WorkResult:
    """Follow the servers: the clock is right from here on."""
    for server in work.texts("servers"):
        check_host(work.lab.state.internet, server)
    work.guest.faults.pop("clock", None)
    work.guest.services["chrony"] = True
    return work.written()


@applies("limits", is_written)
def set_limits(work: Work) -> WorkResult:
    """Write the limits."""
    size = str(work.parameters.get("shared_memory") or "")
    work.guest.shm_mib = int(size.rstrip("mM")) if size.rstrip("mM").isdigit() else work.guest.shm_mib
    return work.written()


@applies("traffic", is_written, seconds=2.0)
def set_traffic(work: Work) -> WorkResult:
    """Set the traffic classes of the management NIC."""
    nic = work.value("nic")
    work.nic(nic if isinstance(nic, dict) else {})
    work.guest.services["vgpu-cfg-traffic"] = True
    return work.written()


@applies("shared-folder", is_written, seconds=15.0)
def share_folder(work: Work) -> WorkResult:
    """Export the folder, or mount it at its first use."""
    check_packages(work)
    if work.text("role") == "client" and not work.text("server"):
        raise ModuleFailedError("the shared folder's server is unknown")
    path = work.text("path").rstrip("/")
    for at in range(1, path.count("/") + 1):
        work.guest.folders.setdefault("/".join(path.split("/")[: at + 1]), 0o755)
    work.guest.mounts[path] = work.text("server") if work.text("role") == "client" else ""
    return work.written()
