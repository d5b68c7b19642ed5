"""Where somebody sits who logs in to a host: their files, their secrets, the waits that were asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.contract.ssh_server import PASSWORD, SshServer
from vgpu_cfg.model.plan_file import AccessEntry
from vgpu_cfg.model.plan_values import Limits
from vgpu_cfg.ports import HostShell
from vgpu_cfg.shells.esxi.logins import EsxiShells

HOST = "esx01"
ACCESS = AccessEntry(ssh="on", password="ROOT")


@dataclass(slots=True)
class Desk:
    """A folder of their own, and a server that the SSH configuration there names."""

    folder: Path
    server: SshServer
    secrets: dict[str, str] = field(default_factory=lambda: {"ROOT": PASSWORD})
    slept: list[float] = field(default_factory=list)
    options: str = ""
    sleep: Callable[[float], None] | None = None
    timeout_seconds: float = 15.0
    limits: Limits = field(default_factory=Limits)

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def pinned(self) -> Path:
        return self.folder / "state" / "known_hosts"

    def trust(self) -> None:
        self.known_hosts.write_text(self.server.known_hosts_line, encoding="ascii")

    def connect(self, access: AccessEntry = ACCESS) -> HostShell:
        config = self.folder / "config"
        text = f"Host {HOST}\n  HostName 127.0.0.1\n  Port {self.server.port}\n{self.options}"
        config.write_text(text, encoding="utf-8")
        shells = EsxiShells(
            self.secrets,
            self.pinned,
            known_hosts=[self.known_hosts],
            ssh_config=config,
            timeout_seconds=self.timeout_seconds,
            limits=self.limits,
            sleep=self.sleep or self.slept.append,
        )
        return shells.connect(HOST, access)
