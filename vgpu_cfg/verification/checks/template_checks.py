"""Checks of a clone of a template against the plan's requirements.

Paths are those of Debian, Ubuntu and RHEL; `/run/cloud-init/cloud-id` holds cloud-init's own word for its
data source ("vmware": DataSourceVMware), and `/sys/firmware/efi` is there where the kernel was booted by EFI.

Belief: template-room.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from vgpu_cfg.catalog.version_pairs import Effect, version_pair
from vgpu_cfg.model.guest_looks import TemplateRow, TemplateState
from vgpu_cfg.ports import ShellResult

Run = Callable[[Sequence[str]], ShellResult]

_VERSION = re.compile(r"\d{3}(?:\.\d+)+")
_KIB_A_GIB = 1024 * 1024
# Belief: cloud-id-is-vmware.
_CLOUD_ID = "/run/cloud-init/cloud-id"
_SSHD = "/usr/sbin/sshd"


@dataclass(frozen=True, slots=True)
class TemplateNeeds:
    """The requirements of all VMs of a plan that are made from one template, combined.

    `driver` is the source of NVIDIA's driver: "template", "package", or "" if the plan does not manage it.
    `refused` are the driver branches that their hosts do not accept. `disk_gib` is the free room required on
    the first disk.
    """

    efi: bool = False
    cloud_init: bool = True
    ssh: bool = True
    driver: str = ""
    refused: tuple[str, ...] = ()
    builds: bool = False
    disk_gib: int = 0


def look_inside(run: Run, needs: TemplateNeeds) -> tuple[TemplateRow, ...]:
    """Read a guest's content; raises GuestError if it does not answer."""
    return tuple(_rows(run, needs))


def seen_from_outside(
    needs: TemplateNeeds, *, firmware: str, has_tools: bool, reported: bool
) -> tuple[TemplateRow, ...]:
    """Return the facts from vCenter alone about a clone without guest access."""
    unknown = [
        _row("VMware Tools", needs=True, has=has_tools or None, found="running" if has_tools else ""),
        _row("cloud-init (VMware datasource)", needs=needs.cloud_init, has=reported, found="no report"),
    ]
    rest = ("sshd", "root privileges", "kernel headers", "NVIDIA driver", "disk space")
    return (
        _row("EFI", needs=needs.efi, has=firmware.casefold() == "efi" if firmware else None, found=firmware),
        *unknown,
        *(TemplateRow(name=name, state=TemplateState.UNKNOWN, why="could not be inspected") for name in rest),
    )


def _rows(run: Run, needs: TemplateNeeds) -> Iterator[TemplateRow]:
    is_efi = _is_there(run, "/sys/firmware/efi")
    yield _row("EFI", needs=needs.efi, has=is_efi, found="efi" if is_efi else "bios")
    tools = run(("vmtoolsd", "-v"))
    yield _row("VMware Tools", needs=True, has=tools.status == 0, found=_first_line(tools.stdout))
    source = run(("cat", _CLOUD_ID))
    seen = source.stdout.strip() if source.status == 0 else ""
    row = _row("cloud-init (VMware datasource)", needs=needs.cloud_init, has=seen == "vmware", found=seen)
    yield (
        row if row.state is not TemplateState.LACKS else row.model_copy(update={"why": _why_not_vmware(run)})
    )
    has_sshd = _is_there(run, _SSHD)
    yield _row("sshd", needs=needs.ssh, has=has_sshd, found=_SSHD if has_sshd else "")
    user = run(("id", "-u")).stdout.strip()
    yield _row("root privileges", needs=True, has=user == "0", found=f"user id {user}")
    kernel = run(("uname", "-r")).stdout.strip()
    has_headers = _is_there(run, f"/lib/modules/{kernel}/build")
    yield _headers(kernel, needs, has=has_headers)
    yield _driver(run(("modinfo", "-F", "version", "nvidia")), needs)
    yield _disk(run(("df", "-Pk", "/")), needs)


def _why_not_vmware(run: Run) -> str:
    """Return why cloud-init does not read guestinfo, if its version shows it."""
    answer = run(("cloud-init", "--version"))
    words = answer.stdout.split()  # `/usr/bin/cloud-init 22.4.2`
    needs = version_pair("VMware datasource", Effect.REQUIRES, "cloud-init").rows[0]
    if answer.status != 0 or not words or needs.accepts(words[-1]):
        return ""
    return f"cloud-init {words[-1]} has no VMware datasource, which requires {needs.needs} or later"


def _headers(kernel: str, needs: TemplateNeeds, *, has: bool) -> TemplateRow:
    if has or not needs.builds:
        return _row("kernel headers", needs=needs.builds, has=has, found=kernel)
    why = (
        "building the driver requires them; the module installs them if the guest can access its package "
        "sources"
    )
    return TemplateRow(name="kernel headers", state=TemplateState.UNKNOWN, found=f"none ({kernel})", why=why)


def _driver(answer: ShellResult, needs: TemplateNeeds) -> TemplateRow:
    found = _VERSION.match(answer.stdout.strip()) if answer.status == 0 else None
    version = found.group() if found is not None else ""
    if needs.driver == "package" and version.partition(".")[0] not in needs.refused:
        return TemplateRow(
            name="NVIDIA driver", state=TemplateState.NOT_ASKED, found=version, why="installed from a package"
        )
    if version and needs.driver and version.partition(".")[0] in needs.refused:
        why = f"the hosts do not support branch {version.partition('.')[0]}"
        return TemplateRow(name="NVIDIA driver", state=TemplateState.LACKS, found=version, why=why)
    return _row("NVIDIA driver", needs=needs.driver == "template", has=bool(version), found=version)


def _disk(answer: ShellResult, needs: TemplateNeeds) -> TemplateRow:
    words = answer.stdout.splitlines()[-1].split() if answer.stdout.strip() else []
    free = int(words[3]) // _KIB_A_GIB if len(words) > 3 and words[3].isdecimal() else None
    has = None if free is None else free >= needs.disk_gib
    why = f"{needs.disk_gib} GiB are required before the disk grows" if needs.disk_gib else ""
    row = _row("disk space", needs=bool(needs.disk_gib), has=has, found="" if free is None else f"{free} GiB")
    return row.model_copy(update={"why": why})


def _row(name: str, *, needs: bool, has: bool | None, found: str) -> TemplateRow:
    if not needs:
        state = TemplateState.NOT_ASKED
    elif has is None:
        state = TemplateState.UNKNOWN
    else:
        state = TemplateState.HAS if has else TemplateState.LACKS
    return TemplateRow(name=name, state=state, found=found)


def _is_there(run: Run, path: str) -> bool:
    return run(("test", "-e", path)).status == 0


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else ""
