"""A guest in a folder: modules are staged there and their scripts run, with a few commands stood in."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vgpu_cfg.model.guests.guest import GuestSpec
from vgpu_cfg.model.guests.modules import GuestModule
from vgpu_cfg.shells.keys import PlanKeyRing
from vgpu_cfg.staging.bundle import stage_module
from vgpu_cfg.staging.rendering import Staged, StagingContext, compose

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SEED = b"a seed for tests, of thirty-two bytes and more"


def context_for(
    *modules: GuestModule,
    vm: str = "hvd-01",
    secrets: dict[str, str] | None = None,
    seed: bytes = SEED,
    host_keys: Mapping[str, str] | None = None,
) -> StagingContext:
    spec = GuestSpec(plan="horovod-a100", vm=vm, modules=modules)
    return StagingContext(spec, PlanKeyRing(seed), secrets or {}, host_keys or {})


@dataclass
class Sandbox:
    """The folder, what its commands print, and what was called: a line of words for each call."""

    root: Path
    why: str = ""
    output: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    way: tuple[str, ...] = ()
    """What goes before the words of each command."""

    @property
    def commands(self) -> Path:
        return self.root / "stand-ins"

    @property
    def calls(self) -> list[str]:
        log = self.root / "calls"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    def forget_calls(self) -> None:
        (self.root / "calls").unlink(missing_ok=True)

    def stand_in(self, name: str, body: str = "") -> None:
        """Make a command that notes its words, then does what `body` says in sh."""
        self.commands.mkdir(parents=True, exist_ok=True)
        path = self.commands / name
        note = f"printf '%s\\n' \"{name}${{*:+ $*}}\" >>'{self.root}/calls'"
        path.write_text(f"#!/bin/sh\n{note}\n{body}\n", encoding="utf-8")
        path.chmod(0o755)

    def hide(self, name: str) -> None:
        """Take a command away, whether this machine has it or not."""
        (self.commands / name).unlink(missing_ok=True)
        self.hidden.add(name)

    def read(self, path: str) -> str:
        return (self.root / path.lstrip("/")).read_text(encoding="utf-8")

    def write(self, path: str, text: str, mode: int = 0o644) -> Path:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        place.chmod(mode)
        return place

    def mode(self, path: str) -> str:
        return format((self.root / path.lstrip("/")).stat().st_mode & 0o7777, "o")

    def bring(self, module: GuestModule, context: StagingContext) -> Staged:
        """Put a module's files and its script in the guest."""
        staged = stage_module(module, context)
        for one in staged.files:
            self.write(one.path, one.content, one.mode)
        self.write(f"/scripts/{module.kind}.sh", compose(module.kind, staged))
        return staged

    def run(self, kind: str, half: str) -> int:
        """Run one half of a script; return its exit status."""
        why = self.root / "why"
        why.write_text("", encoding="utf-8")
        done = self.command(["sh", str(self.root / "scripts" / f"{kind}.sh"), half], VGPU_CFG_WHY=str(why))
        lines = why.read_text(encoding="utf-8").splitlines()
        self.why = lines[-1] if lines else ""
        self.output = done.stdout + done.stderr
        return done.returncode

    def command(self, words: list[str], **more: str) -> subprocess.CompletedProcess[str]:
        self.commands.mkdir(parents=True, exist_ok=True)
        path = f"{self.commands}:{self._tools()}"
        environment = {"PATH": path, "HOME": str(self.root), "VGPU_CFG_ROOT": str(self.root)}
        return subprocess.run(
            [*self.way, *words],
            env={**environment, **self.environment, **more},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            cwd=self.root,
        )

    def _tools(self) -> str:
        """Return a PATH with the tools of this machine, but for those that are hidden."""
        if not self.hidden:
            return SYSTEM_PATH
        folder = self.root / "tools"
        folder.mkdir(exist_ok=True)
        for place in SYSTEM_PATH.split(":"):
            for tool in Path(place).iterdir() if Path(place).is_dir() else ():
                link = folder / tool.name
                if tool.name not in self.hidden and not link.is_symlink():
                    link.symlink_to(tool)
        for name in self.hidden:
            (folder / name).unlink(missing_ok=True)
        return str(folder)

    def apply(self, module: GuestModule, context: StagingContext) -> int:
        """Bring a module and apply it; the check that follows is the caller's."""
        self.bring(module, context)
        return self.run(module.kind, "apply")
