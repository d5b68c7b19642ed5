"""A #cloud-config document: the parts that the lab's guests apply, and cloud-init's copies of it.

Names and forms are those of cloud-init's documentation. Unlike cloud-init, an unknown key is an error: there
it is an easily overlooked warning, here a test meets it.

Source of the copies: cloud-init's source: `Paths` and `ud_proc` of 24.x, and
`get_runpath("combined_cloud_config")`.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import re
import shlex
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgpu_cfg import documents
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.lab.guest.system import files
from vgpu_cfg.lab.guest.system.guestinfo import BadDocumentError, check_keys, mapping
from vgpu_cfg.lab.state.guest import ROOT, Account, Guest

HEADER = "#cloud-config"
TOP = frozenset(
    {
        "bootcmd", "chpasswd", "disable_root", "final_message", "fqdn", "growpart", "hostname", "locale",
        "manage_etc_hosts", "mounts", "ntp", "package_update", "package_upgrade", "packages", "password",
        "prefer_fqdn_over_hostname", "preserve_hostname", "resize_rootfs", "runcmd", "ssh_authorized_keys",
        "ssh_deletekeys", "ssh_genkeytypes", "ssh_keys", "ssh_pwauth", "ssh_quiet_keygen", "swap", "timezone",
        "users", "user", "write_files", "no_ssh_fingerprints", "merge_how", "merge_type", "apt", "ca_certs",
    }
)  # fmt: skip
OF_USER = frozenset(
    {
        "name", "gecos", "groups", "hashed_passwd", "homedir", "lock_passwd", "no_create_home",
        "no_user_group", "passwd", "plain_text_passwd", "primary_group", "shell", "ssh_authorized_keys",
        "sudo", "system", "uid", "expiredate", "inactive", "create_groups", "doas", "no_log_init",
    }
)  # fmt: skip
OF_FILE = frozenset({"path", "content", "encoding", "permissions", "owner", "append", "defer", "source"})
KEY_TYPES = ("rsa", "ecdsa", "ed25519")
OF_KEYS = frozenset(f"{kind}_{part}" for kind in KEY_TYPES for part in ("private", "public", "certificate"))
PERMISSIONS = re.compile(r"0?[0-7]{3,4}")
BASE64, GZIPPED = frozenset({"b64", "base64"}), frozenset({"gz+base64", "gzip+base64", "gz+b64", "gzip+b64"})
PLAIN = frozenset({"", "text/plain"})


@dataclass(frozen=True, slots=True)
class CloudUser:
    """An account to be."""

    name: str
    keys: tuple[str, ...] = ()
    sudo: bool = False
    shell: str = "/bin/bash"
    groups: tuple[str, ...] = ()
    password: str = ""
    home: str = ""


@dataclass(frozen=True, slots=True)
class CloudFile:
    """A file to be."""

    path: str
    content: bytes
    mode: int = 0o644
    owner: str = "root"
    append: bool = False


@dataclass(slots=True)
class CloudConfig:
    """The document's content. `keeps_default_user` means that the template's own account stays."""

    host_name: str = ""
    users: list[CloudUser] = field(default_factory=list)
    keeps_default_user: bool = True
    default_user_keys: tuple[str, ...] = ()
    files: list[CloudFile] = field(default_factory=list)
    host_keys: dict[str, str] = field(default_factory=dict)
    commands: list[list[str]] = field(default_factory=list)


def read_cloud_config(text: str) -> CloudConfig:
    """Take a document apart. Raises BadDocumentError."""
    if text.partition("\n")[0].strip() != HEADER:
        raise BadDocumentError(f"user data does not begin with {HEADER}")
    try:
        data = documents.parse_text(text, "user-data").data
    except DocumentError as error:
        raise BadDocumentError(f"user data: {error.message} in line {error.faults[0].line}") from error
    check_keys(data, TOP, "user data")
    config = CloudConfig(host_name=str(data.get("hostname") or data.get("fqdn") or "").partition(".")[0])
    config.default_user_keys = _texts(data.get("ssh_authorized_keys", []), "ssh_authorized_keys")
    if "users" in data:
        _read_users(config, _list(data["users"], "users"))
    config.files = [_file(part) for part in _list(data.get("write_files", []), "write_files")]
    config.host_keys = _host_keys(data.get("ssh_keys", {}))
    for name in ("bootcmd", "runcmd"):
        config.commands += [_command(part, name) for part in _list(data.get(name, []), name)]
    return config


def _read_users(config: CloudConfig, parts: Sequence[Any]) -> None:
    config.keeps_default_user = "default" in parts
    for part in parts:
        if part != "default":
            config.users.append(_user(mapping(part, "an entry of users")))


def _user(part: Mapping[str, Any]) -> CloudUser:
    check_keys(part, OF_USER, "users")
    name = part.get("name")
    if not isinstance(name, str) or not name:
        raise BadDocumentError("users: an account has no name")
    groups = part.get("groups", [])
    if isinstance(groups, str):
        groups = [each.strip() for each in groups.split(",") if each.strip()]
    return CloudUser(
        name,
        _texts(part.get("ssh_authorized_keys", []), "ssh_authorized_keys"),
        bool(part.get("sudo", False)),
        str(part.get("shell", "/bin/sh")),
        _texts(groups, "groups"),
        "" if part.get("lock_passwd", True) else str(part.get("plain_text_passwd", "")),
        str(part.get("homedir", "")),
    )


def _file(value: Any) -> CloudFile:
    part = mapping(value, "an entry of write_files")
    check_keys(part, OF_FILE, "write_files")
    path = part.get("path")
    if not isinstance(path, str) or not path.startswith("/"):
        raise BadDocumentError(f"write_files: {path!r} is not an absolute path")
    permissions = part.get("permissions", "0644")
    if not isinstance(permissions, str) or not PERMISSIONS.fullmatch(permissions):
        raise BadDocumentError(f"write_files: {path}: permissions must be text such as '0644'")
    return CloudFile(
        path,
        _content(path, part.get("content", ""), str(part.get("encoding", ""))),
        int(permissions, 8),
        str(part.get("owner", "root:root")).partition(":")[0],
        bool(part.get("append", False)),
    )


def _content(path: str, value: Any, encoding: str) -> bytes:
    if not isinstance(value, str):
        raise BadDocumentError(f"write_files: {path}: content is not text")
    if encoding in PLAIN:
        return value.encode()
    if encoding not in BASE64 | GZIPPED:
        raise BadDocumentError(f"write_files: {path}: unknown encoding {encoding!r}")
    try:
        content = base64.b64decode(value, validate=False)
        return gzip.decompress(content) if encoding in GZIPPED else content
    except (binascii.Error, EOFError, OSError, zlib.error) as error:
        raise BadDocumentError(f"write_files: {path}: content is not valid {encoding}") from error


def _host_keys(value: Any) -> dict[str, str]:
    part = mapping(value, "ssh_keys")
    check_keys(part, OF_KEYS, "ssh_keys")
    return {str(name): str(text) for name, text in part.items()}


def _command(value: Any, name: str) -> list[str]:
    if isinstance(value, list):
        return [str(word) for word in value]
    if not isinstance(value, str):
        raise BadDocumentError(f"{name}: a command must be text or a list")
    try:
        return shlex.split(value)
    except ValueError:
        return [value]


def _texts(value: Any, where: str) -> tuple[str, ...]:
    return tuple(str(each) for each in _list(value, where))


def _list(value: Any, where: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise BadDocumentError(f"{where} is not a list")
    return value


_LASTING = ("user-data.txt", "cloud-config.txt")
_RUNNING = tuple(
    f"/run/cloud-init/{name}.json" for name in ("combined-cloud-config", "instance-data-sensitive")
)


def keep_copies(guest: Guest, instance: str, text: str, now: float) -> None:
    """Write cloud-init's copies of its user data, in the instance's folder and below /run."""
    for name in _LASTING:
        files.write(
            guest,
            f"/var/lib/cloud/instances/{instance}/{name}",
            text.encode(),
            mode=0o600,
            now=now,
            parents=True,
        )
    for path in _RUNNING:
        content = json.dumps({"userdata": text}).encode()
        files.write(guest, path, content, mode=0o600, now=now, parents=True)


def forget_copies(guest: Guest, now: float) -> None:
    """Empty them, as the stage command does when cloud-init's run of it ends."""
    for path in guest.files:
        if path in _RUNNING:
            files.write(guest, path, b"{}\n", mode=0o600, now=now)
        elif path.startswith("/var/lib/cloud/instances/"):
            files.write(guest, path, b"", mode=0o600, now=now)


def add_account(guest: Guest, user: CloudUser) -> None:
    """Make an account, or change one."""
    home = user.home or ("/root" if user.name == ROOT else f"/home/{user.name}")
    guest.accounts[user.name] = Account(user.password, user.keys, user.sudo, user.shell, user.groups, home)
    guest.folders.setdefault(home, 0o755)
