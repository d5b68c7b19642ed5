"""User data and metadata for cloud-init's VMware datasource, in guestinfo.

The user's own #cloud-config is merged under ours: lists that both have are joined, any other key that
both set must be set alike.

Belief: cloud-init-redacts, cloud-init-copies-of-user-data, cloud-init-accepts-empty-copies,
cloud-init-makes-host-keys.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from vgpu_cfg.documents.foreign import read_foreign, write_foreign
from vgpu_cfg.errors import DocumentError, GuestError
from vgpu_cfg.model.guests.guest import HEADER, JOINED, GuestFile, GuestSpec, clashes
from vgpu_cfg.model.guests.guestinfo import MOST_BYTES, pack
from vgpu_cfg.model.guests.modules import HostNameModule, HostsModule, NetworkModule, UsersModule
from vgpu_cfg.staging.bundle import RUNNER
from vgpu_cfg.staging.modules.machine import accounts
from vgpu_cfg.staging.netplan import network_config
from vgpu_cfg.staging.rendering import StagingContext

FIRST_RUN = "first"
"""The word by which the run that cloud-init starts is known in the report."""

ENCODING = "gzip+base64"
_INSTANCES = uuid.UUID("6f0ad9a3-7f6d-5b1c-9f5e-3d2a7c0f5d11")
"""The name space of our instance-ids; any fixed number does."""


def guest_info(context: StagingContext, files: Sequence[GuestFile]) -> dict[str, str]:
    """Return the extraConfig of a clone: user data with these files, and metadata. Raises `GuestError`."""
    packed = pack(user_data(context, files))
    if len(packed) > MOST_BYTES:
        raise _too_large(context.spec, files, len(packed))
    return {
        "guestinfo.userdata": packed,
        "guestinfo.userdata.encoding": ENCODING,
        "guestinfo.metadata": pack(metadata(context.spec)),
        "guestinfo.metadata.encoding": ENCODING,
    }


def metadata(spec: GuestSpec) -> str:
    """Return the metadata: who the guest is, and its network at the first boot. It holds no secret."""
    name = spec.get(HostNameModule)
    content: dict[str, Any] = {
        "instance-id": str(uuid.uuid5(_INSTANCES, json.dumps([spec.plan, spec.vm]))),
        "local-hostname": name.host_name if name is not None else spec.vm,
        # Our part of it is public; what a user's own #cloud-config holds nobody knows.
        "redact": ["userdata"],
    }
    network = spec.get(NetworkModule)
    if network is not None and network.nics:
        content["network"] = network_config(network.nics)
    return write_foreign(content)


def user_data(context: StagingContext, files: Sequence[GuestFile]) -> str:
    """Return the #cloud-config: accounts, the bundle's files, and the runner's first run."""
    theirs = _read_theirs(context.spec)
    merged = _merge(theirs, _ours(context, files, default_user="users" not in theirs), context.spec.vm)
    return f"{HEADER}\n{write_foreign(merged)}"


def _ours(context: StagingContext, files: Sequence[GuestFile], *, default_user: bool) -> dict[str, Any]:
    spec = context.spec
    content: dict[str, Any] = {}
    name = spec.get(HostNameModule)
    if name is not None:
        content["hostname"] = name.host_name
        if name.domain:
            content["fqdn"] = f"{name.host_name}.{name.domain}"
        content["preserve_hostname"] = False
    if spec.get(HostsModule) is not None:
        content["manage_etc_hosts"] = False
    users = _users(context)
    if users:
        # Without the word cloud-init would leave out the account that the distribution's image has.
        content["users"] = ["default", *users] if default_user else users
    # The template's host keys go, since all of its clones would have them, and cloud-init makes new ones.
    content["ssh_deletekeys"] = True
    if spec.is_exposed:
        # It makes none where it is given some (cc_ssh, 22.4 and newer).
        host_key = context.keys.host_key(spec.vm)
        content["ssh_keys"] = {"ed25519_private": host_key.private, "ed25519_public": host_key.public}
    content["write_files"] = [
        {
            "path": one.path,
            "owner": "root:root",
            "permissions": f"0{one.mode:o}",
            "content": one.content,
        }
        for one in files
    ]
    content["runcmd"] = [[RUNNER, "--run", FIRST_RUN, *spec.carried]]
    return content


def _users(context: StagingContext) -> list[Any]:
    module = context.spec.get(UsersModule)
    if module is None:
        return []
    return [
        {
            "name": one.name,
            "lock_passwd": True,
            "shell": one.shell,
            **({"ssh_authorized_keys": list(one.keys)} if one.keys else {}),
            **({"sudo": "ALL=(ALL) NOPASSWD:ALL"} if one.sudo else {}),
        }
        for one in accounts(module, context)
        if one.name != "root"
    ]


def _read_theirs(spec: GuestSpec) -> dict[str, Any]:
    text = spec.user_data
    if not text.strip():
        return {}
    first = text.lstrip("\ufeff").splitlines()[0].strip()
    if first != HEADER:
        raise GuestError(
            f"the user data does not begin with {HEADER}, so it cannot be merged with vgpu-cfg's",
            subject=spec.vm,
            remedy=f"write it as {HEADER}, and put scripts under runcmd",
        )
    try:
        return read_foreign(text.lstrip("\ufeff"), "user_data")
    except DocumentError as error:
        raise GuestError(
            "; ".join(str(fault) for fault in error.faults),
            subject=spec.vm,
            remedy="fix the user data; `cloud-init schema --config-file FILE` validates it as the guest does",
        ) from error


def _merge(theirs: Mapping[str, Any], ours: Mapping[str, Any], vm: str) -> dict[str, Any]:
    for clash in clashes(theirs, ours):
        raise GuestError(f"the user data cannot be merged: {clash.message}", subject=vm, remedy=clash.remedy)
    joined = {key: [*theirs[key], *ours[key]] for key in JOINED if key in theirs and key in ours}
    return {**theirs, **ours, **joined}


def _too_large(spec: GuestSpec, files: Sequence[GuestFile], size: int) -> GuestError:
    weights = {one.path: len(pack(one.content)) for one in files}
    if spec.user_data:
        weights["guest.user_data"] = len(pack(spec.user_data))
    largest = sorted(weights.items(), key=lambda pair: (-pair[1], pair[0]))[:3]
    reported = ", ".join(f"{path} ({weight:,} bytes)" for path, weight in largest)
    return GuestError(
        f"the compressed cloud-init user data has {size:,} bytes, but guestinfo accepts only "
        f"{MOST_BYTES:,}. The largest files: {reported}",
        subject=spec.vm,
        remedy="reduce their size, or stage this guest over SSH or guest operations",
    )
