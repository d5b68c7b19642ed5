"""A folder that stands for a guest: scripts run in it for real, with stand-ins for what is not here."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from vgpu_cfg.model.guests.guest import GuestFile, GuestSpec
from vgpu_cfg.model.guests.modules import GuestModule
from vgpu_cfg.shells.keys import PlanKeyRing
from vgpu_cfg.staging.bundle import stage_module
from vgpu_cfg.staging.rendering import StagingContext, compose

SEED = b"the seed of a plan under test, 32 bytes and more"
BASE_TOOLS = [
    "awk", "basename", "cat", "chmod", "chown", "cmp", "cp", "cut", "date", "df", "dirname", "env", "false",
    "grep", "head", "id", "ln", "ls", "mkdir", "mktemp", "mv", "printf", "pwd", "readlink", "rm", "rmdir",
    "sed", "sh", "sha256sum", "sort", "stat", "tail", "tar", "touch", "tr", "true", "uname", "wc",
]  # fmt: skip
"""What every guest has; whatever else a script may find is put into the sandbox by the test."""

PACKAGES = {
    "cloud-init": "cloud-init", "netplan": "netplan.io", "sshd": "openssh-server", "visudo": "sudo",
    "ssh-keygen": "openssh-client", "systemd-analyze": "systemd", "systemctl": "systemd", "useradd": "passwd",
    "usermod": "passwd", "dash": "dash", "shellcheck": "shellcheck", "flock": "util-linux",
}  # fmt: skip


def tool(name: str) -> str:
    """Return the path of a tool of this machine; the test is skipped, and says why, where it is not here."""
    path = shutil.which(name, path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    if path is None:
        pytest.skip(f"{name} is not here: install the package {PACKAGES.get(name, name)}")
    return path


def need_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("this needs root's rights, as the scripts have them in a guest")


def context(spec: GuestSpec, **secrets: str) -> StagingContext:
    return StagingContext(spec, PlanKeyRing(SEED), secrets)


def spec_of(*modules: GuestModule, vm: str = "hvd-01", **other: object) -> GuestSpec:
    return GuestSpec.model_validate({"plan": "horovod-a100", "vm": vm, "modules": modules, **other})


@dataclass(frozen=True)
class Ran:
    """What half of a script left: its status, what it told the user, all it printed, whether it warned."""

    status: int
    why: str
    output: str
    warned: bool = False


class Sandbox:
    """A guest's root folder, and the folder of the tools that its scripts find."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "guest"
        self.bin = folder / "bin"
        self.calls_file = folder / "calls"
        self.why_file = folder / "why"
        self.bin.mkdir(parents=True)
        for path in ("etc", "proc", "sys/class/net", "var/lib/vgpu-cfg", "var/log", "usr/local/sbin"):
            (self.root / path).mkdir(parents=True)
        self.write("/proc/modules", "")
        self.write("/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 ubuntu\n::1 localhost ip6-localhost\n")
        for name in BASE_TOOLS:
            self.real(name)

    def real(self, *names: str) -> None:
        """Let scripts find tools of this machine."""
        for name in names:
            (self.bin / name).symlink_to(tool(name))

    def stand_in(self, name: str, body: str = ":") -> None:
        """Let scripts find a tool that notes its call and then does what `body` says."""
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(
            f'#!/bin/sh\nprintf "%s\\n" "{name} $*" >>"{self.calls_file}"\nROOT="{self.root}"\n{body}\n'
        )
        path.chmod(0o755)

    def without(self, name: str) -> None:
        (self.bin / name).unlink()

    def calls(self, name: str = "") -> list[str]:
        """Return how stand-ins were called since the last time this was asked, those of one tool or all."""
        if not self.calls_file.exists():
            return []
        lines = self.calls_file.read_text().splitlines()
        self.calls_file.unlink()
        return [line for line in lines if line.split(" ")[0] == name or not name]

    def path(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        there = self.path(path)
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(text)
        there.chmod(mode)

    def read(self, path: str) -> str:
        return self.path(path).read_text()

    def mode(self, path: str) -> int:
        return self.path(path).stat().st_mode & 0o7777

    def nic(
        self, name: str, mac: str, *, driver: str = "mlx5_core", pci: str = "0000:03:00.0", rdma: str = ""
    ) -> None:
        """Put a NIC into /sys; with `rdma` it has that RDMA device."""
        device = self.path(f"/sys/devices/{pci}")
        (device / "net" / name).mkdir(parents=True)
        drivers = self.path(f"/sys/bus/pci/drivers/{driver}")
        drivers.mkdir(parents=True, exist_ok=True)
        (device / "driver").symlink_to(drivers)
        if rdma:
            (device / "infiniband" / rdma).mkdir(parents=True)
        home = device / "net" / name
        (home / "device").symlink_to(device)
        (home / "address").write_text(f"{mac}\n")
        (home / "mtu").write_text("1500\n")
        self.path(f"/sys/class/net/{name}").symlink_to(home)

    def put(self, files: Sequence[GuestFile]) -> None:
        for one in files:
            self.write(one.path, one.content, one.mode)

    def stage(self, module: GuestModule, spec: GuestSpec | None = None, **secrets: str) -> str:
        """Bring a module's files into the guest, and return its script."""
        staged = stage_module(module, context(spec or spec_of(module), **secrets))
        self.put(staged.files)
        return compose(module.kind, staged)

    def run(self, script: str, *words: str) -> Ran:
        """Run a script in the guest."""
        path = self.root.parent / "script.sh"
        path.write_text(script)
        self.why_file.write_text("")
        warned = self.why_file.with_suffix(".warned")
        warned.unlink(missing_ok=True)
        done = subprocess.run(
            [tool("dash"), str(path), *words],
            env={
                "PATH": str(self.bin),
                "VGPU_CFG_ROOT": str(self.root),
                "VGPU_CFG_WHY": str(self.why_file),
            },
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=120,
        )
        told = self.why_file.read_text().splitlines()
        return Ran(done.returncode, told[-1] if told else "", done.stdout + done.stderr, warned.exists())

    def bring(self, script: str) -> None:
        """Check, apply, check: missing at first, there in the end; then applying changes nothing."""
        assert self.run(script, "check").status != 0
        applied = self.run(script, "apply")
        assert applied.status == 0, applied
        checked = self.run(script, "check")
        assert checked.status == 0, checked
        before = self.picture()
        again = self.run(script, "apply")
        assert again.status == 0, again
        assert self.picture() == before

    def picture(self) -> dict[str, tuple[bytes, int, int]]:
        """Return content, mode and inode of every file outside the staging's own folder."""
        return {
            str(path.relative_to(self.root)): (path.read_bytes(), path.stat().st_mode, path.stat().st_ino)
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and not path.is_relative_to(self.root / "var/lib/vgpu-cfg")
        }


def only_own_tools(guest: Sandbox) -> None:
    """Keep the staged program of RoCE from finding this machine's tools beside the guest's."""
    path = guest.path("/var/lib/vgpu-cfg/files/vgpu-cfg-roce")
    path.write_text(path.read_text().replace(":/usr/sbin:/usr/bin:/sbin:/bin", ""))
