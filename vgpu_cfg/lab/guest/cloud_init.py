"""cloud-init in a guest: its reading of guestinfo and Netplan at boot, and its work once per instance.

Its VMware datasource: an `instance-id` that the guest does not know yet makes a first run; then the values
to redact are redacted, host name, accounts, files and network set, a host key made unless some are given, and
the commands run. Of commands it knows the stage command, which goes on by itself; others are noted in its log
and do nothing.

Of Netplan (version 2) only settings that the lab's guests have are read: ethernets with addresses, DHCP, MTU,
routes and names. A key that netplan does not know is refused, as netplan does.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from ipaddress import ip_interface
from typing import Any

from vgpu_cfg import documents
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.lab.guest.staging.command import STAGE, begin_command
from vgpu_cfg.lab.guest.system import files, guestinfo
from vgpu_cfg.lab.guest.system.cloud_config import CloudConfig, add_account, keep_copies, read_cloud_config
from vgpu_cfg.lab.guest.system.creation import grow_root, guest_of, make_host_key
from vgpu_cfg.lab.guest.system.guestinfo import BadDocumentError, check_keys, mapping
from vgpu_cfg.lab.guest.system.nics import SeenNic, find_nic, nics_of_guest
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.guest import Guest, NicSetting
from vgpu_cfg.lab.state.inventory import VirtualMachine

TOP = frozenset({"version", "renderer", "ethernets"})
OF_DEVICE = frozenset(
    {
        "match", "set-name", "addresses", "dhcp4", "dhcp6", "mtu", "gateway4", "routes", "nameservers",
        "optional", "accept-ra", "link-local", "wakeonlan", "macaddress", "dhcp4-overrides",
        "dhcp6-overrides", "dhcp-identifier", "critical", "renderer", "optional-addresses",
    }
)  # fmt: skip
OF_MATCH = frozenset({"macaddress", "driver", "name"})


def settings_of(document: Any, seen: list[SeenNic]) -> dict[str, NicSetting]:
    """Return the settings by MAC. Raises BadDocumentError; a NIC that is not there is left out."""
    plan = mapping(document, "network")
    check_keys(plan, TOP, "network")
    if plan.get("version") != 2:
        raise BadDocumentError("network: version is not 2")
    found: dict[str, NicSetting] = {}
    for name, part in mapping(plan.get("ethernets", {}), "ethernets").items():
        device = mapping(part, name)
        check_keys(device, OF_DEVICE, name)
        nic = _matched(name, device, seen)
        setting = _setting(name, device)
        if nic is not None:
            found[nic.mac] = setting
    return found


def _matched(name: str, device: Mapping[str, Any], seen: list[SeenNic]) -> SeenNic | None:
    match = device.get("match")
    if match is None:
        return find_nic(seen, name=name)
    parts = mapping(match, f"{name}.match")
    check_keys(parts, OF_MATCH, f"{name}.match")
    if not parts:
        raise BadDocumentError(f"{name}.match is empty")
    driver = parts.get("driver", "")
    return find_nic(
        seen,
        mac=str(parts.get("macaddress", "")),
        driver=str(driver[0] if isinstance(driver, list) and driver else driver),
        name=str(parts.get("name", "")),
    )


def _setting(name: str, device: Mapping[str, Any]) -> NicSetting:
    addresses = device.get("addresses", [])
    if not isinstance(addresses, list):
        raise BadDocumentError(f"{name}.addresses is not a list")
    for address in addresses:
        try:
            ip_interface(str(address))
        except ValueError as error:
            raise BadDocumentError(f"{name}: {address!r} is not an address with a prefix length") from error
        if "/" not in str(address):
            raise BadDocumentError(f"{name}: {address!r} has no prefix length")
    mtu = device.get("mtu")
    if mtu is not None and (not isinstance(mtu, int) or mtu < 68):
        raise BadDocumentError(f"{name}.mtu is {mtu!r}")
    return NicSetting(
        name=str(device.get("set-name", "")),
        addresses=tuple(str(address) for address in addresses),
        dhcp=bool(device.get("dhcp4", False)),
        mtu=mtu,
        gateway=_gateway(device),
        dns=tuple(str(each) for each in (device.get("nameservers") or {}).get("addresses", ())),
    )


def _gateway(device: Mapping[str, Any]) -> str:
    for route in device.get("routes") or ():
        if isinstance(route, dict) and str(route.get("to")) in ("default", "0.0.0.0/0"):
            return str(route.get("via", ""))
    return str(device.get("gateway4", ""))


LOG = "/var/log/cloud-init-output.log"
OLD_REDACT = "cleanup-guestinfo"
DATA = ("userdata", "vendordata")


def boot(lab: Simulation, vm: VirtualMachine) -> None:
    """Do what cloud-init does in a guest that has just come up."""
    guest = guest_of(vm)
    if not guest.cloud_init or guest.datasource != "vmware" or not vm.tools_installed:
        return
    grow_root(vm)
    try:
        text = guestinfo.read(vm, "metadata")
        metadata = _metadata(text) if text else {}
        if not text and not guestinfo.read(vm, "userdata"):
            return
        _run(lab, vm, guest, metadata)
    except (guestinfo.BadGuestinfoError, BadDocumentError) as error:
        guest.cloud_state, guest.cloud_why = "error", str(error)
        _log(lab, guest, f"cloud-init: {error}")
    lab.state.touch(vm)


def _run(lab: Simulation, vm: VirtualMachine, guest: Guest, metadata: dict[str, Any]) -> None:
    text = guestinfo.read(vm, "userdata")
    instance = str(metadata.get("instance-id") or vm.uuid)
    redact = metadata.get("redact", metadata.get(OLD_REDACT)) or []
    for name in redact if isinstance(redact, list) else [redact]:
        if name in DATA:
            guestinfo.redact(vm, name)
    is_first = instance != guest.instance_id
    guest.instance_id = instance
    if is_first:
        guest.cloud_state, guest.cloud_why = "running", ""
        if metadata.get("local-hostname"):
            guest.host_name = str(metadata["local-hostname"]).partition(".")[0]
        if "network" in metadata:
            guest.settings = settings_of(_network(metadata), nics_of_guest(lab.state, vm))
    ipv4 = next((nic.ipv4 for nic in nics_of_guest(lab.state, vm) if nic.ipv4), "")
    if ipv4:
        guestinfo.write(vm, "local-ipv4", ipv4)
    if is_first:
        config = read_cloud_config(text) if text else CloudConfig()
        if not config.host_keys:
            make_host_key(guest, f"{vm.uuid} {instance}", lab.clock.now())
        if text:
            keep_copies(guest, instance, text, lab.clock.now())
            _apply(lab, vm, guest, config)
        guest.cloud_state = "done"


def _metadata(text: str) -> dict[str, Any]:
    """Read metadata, which is YAML, and so may be JSON. Raises BadGuestinfoError."""
    try:
        return documents.parse_text(text, "metadata").data
    except DocumentError as error:
        raise guestinfo.BadGuestinfoError(f"metadata: {error.message}") from error


def _network(metadata: dict[str, Any]) -> Any:
    """Return the netplan document, which may be encoded text, and may be below `network` or `config`."""
    found = metadata["network"]
    if isinstance(found, str):
        found = _metadata(guestinfo.decoded(found, str(metadata.get("network.encoding", "")), "network"))
    for name in ("network", "config"):
        if isinstance(found, dict) and name in found:
            found = found[name]
    return found


def _apply(lab: Simulation, vm: VirtualMachine, guest: Guest, config: CloudConfig) -> None:
    now = lab.clock.now()
    if config.host_name:
        guest.host_name = config.host_name
    if not config.keeps_default_user:
        for name in [name for name in guest.accounts if name != "root"]:
            del guest.accounts[name]
    elif config.default_user_keys:
        for name, account in guest.accounts.items():
            if name != "root":
                account.keys = (*account.keys, *config.default_user_keys)
    for user in config.users:
        add_account(guest, user)
    for name, text in config.host_keys.items():
        kind, _, part = name.partition("_")
        suffix = {"private": "", "public": ".pub", "certificate": "-cert.pub"}[part]
        mode = 0o600 if part == "private" else 0o644
        path = f"/etc/ssh/ssh_host_{kind}_key{suffix}"
        files.write(guest, path, text.encode(), mode=mode, now=now, parents=True)
    for file in config.files:
        content = file.content
        if file.append and file.path in guest.files:
            content = files.read(guest, file.path) + content
        files.write(guest, file.path, content, mode=file.mode, owner=file.owner, now=now, parents=True)
    for command in config.commands:
        if command[:1] in ([STAGE], [posixpath.basename(STAGE)]):
            status = begin_command(lab, vm, command[1:])
            if status is not None:
                _log(lab, guest, f"{STAGE} ended with {status}")
        else:
            _log(lab, guest, f"not run by the lab: {json.dumps(command)}")


def _log(lab: Simulation, guest: Guest, line: str) -> None:
    before = guest.files[LOG].content if LOG in guest.files else ""
    files.write(guest, LOG, files_text(before, line), mode=0o640, now=lab.clock.now(), parents=True)


def files_text(before: str, line: str) -> bytes:
    """Return a log with one line more."""
    return f"{before}{line}\n".encode("utf-8", "surrogateescape")
