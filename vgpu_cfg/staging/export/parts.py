"""The common input and result of every format: options in, files and notes out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from vgpu_cfg.documents import dump
from vgpu_cfg.errors import DoesNotFit
from vgpu_cfg.model.host_list import HostList, ListedHost

SETTINGS_FOLDER = "/opt/vgpu-cfg"
"""The path of each worker's NCCL settings (`nccl.env`), and of the program that starts a rank with them."""

RANK = f'! [ -x {SETTINGS_FOLDER}/rank ] || exec {SETTINGS_FOLDER}/rank "$@"; exec "$@"'
"""For `sh -c`: start a command as a rank, with the worker's settings where it has them. No single quotes."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The user's own options: the account and the key for logins of the other tool, a port."""

    user: str = ""
    key_file: str = ""
    port: int | None = None
    """The port at which the workers meet, for formats that name one."""

    def user_of(self, host: ListedHost) -> str:
        """Return the account on a host."""
        return self.user or host.user

    def key_of(self, host: ListedHost) -> str:
        """Return the file of the private key for a host; "" where it is not known."""
        return self.key_file or ("" if self.user else host.key_file)


@dataclass(frozen=True, slots=True)
class Exported:
    """Files by name, in their order, and notes for their users."""

    files: Mapping[str, str]
    notes: tuple[str, ...] = ()


def address_of(host: ListedHost) -> str:
    """Return the address by which a host is reached from outside.

    Raises DoesNotFit where none is known.
    """
    if host.address:
        return host.address
    raise DoesNotFit(
        f"{host.vm}'s address is unknown",
        subject=f"vm {host.vm}",
        remedy="power it on and wait for VMware Tools, or set `ip` for its NIC in the plan file",
    )


def header(host_list: HostList) -> tuple[str, ...]:
    """Return comments on the file's origin, and the hosts that only the plan file names."""
    lines = [f"# Written by `vgpu-cfg hand-over` for plan {text_of(host_list.plan, '-_.')}."]
    for host in host_list.everyone:
        if not host.exists:
            says = (
                (f"{host.address} will not respond until `apply` has run")
                if host.address
                else "it has no address"
            )
            lines.append(f"# {host.host_name} does not exist yet: {says}.")
    return tuple(lines)


def real_memory_mib(memory_mib: int) -> int:
    """Return the memory that a guest of this size shows at least.

    The kernel keeps a 64th for its page table and less than a 256th for hash tables (derived), and a crash
    kernel, if there is one, up to 512 MiB (RHEL's default); firmware takes some more.
    """
    return max(memory_mib - memory_mib // 50 - 768, memory_mib // 2)


def yaml_of(host_list: HostList, *objects: Any) -> str:
    """Write objects as one file of YAML, under its header; repeated content is repeated in it."""
    texts = (dump(json.loads(json.dumps(one))) for one in objects)
    return "".join(f"{line}\n" for line in header(host_list)) + "---\n".join(texts)


def with_port(address: str, port: int) -> str:
    """Join an address and a port; one of IPv6 is put into brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def refuse_keyless(hosts: Iterable[ListedHost], options: ExportOptions, tool: str) -> None:
    """Raise DoesNotFit where a tool that logs in with a key alone would have none."""
    for host in hosts:
        if not options.key_of(host):
            raise DoesNotFit(
                f"no private key file is known for {options.user_of(host)}, and {tool} requires one for "
                "every host",
                subject=f"vm {host.vm}",
                remedy="specify an account and the path to its key: --login USER --identity-file PATH",
            )


def key_notes(hosts: Iterable[ListedHost], options: ExportOptions) -> tuple[str, ...]:
    """List the hosts whose private key is missing from the output."""
    without = [host for host in hosts if not options.key_of(host)]
    if not without:
        return ()
    users = ", ".join(sorted({options.user_of(host) for host in without}))
    return (f"no private key file is known for {users}: specify one with --identity-file, or use --login",)


def text_of(text: str, signs: str = "_", *, longest: int = 63) -> str:
    """Make a name of letters, digits and the first of `signs`, for tools that take no other."""
    made = re.sub(rf"[^A-Za-z0-9{re.escape(signs)}]+", signs[0], text).strip(signs)
    return made[:longest].strip(signs)


def refuse_unnamed(host_list: HostList) -> None:
    """Raise DoesNotFit if there is no host to list, or one lacks a host name."""
    if not host_list.workers:
        raise DoesNotFit(
            "the plan has no VM with GPUs and no `training`",
            subject=f"plan {host_list.plan}",
            remedy="specify the training VMs: training: {workers: GLOB}",
        )
    for host in host_list.everyone:
        if not host.host_name:
            raise DoesNotFit(
                f"the name {host.vm} cannot be used as a host name",
                subject=f"vm {host.vm}",
                remedy="specify one in the plan file: guest: {hostname: NAME}",
            )
