"""The lab of this machine: opening, serving, restarting it, and its simulated hosts and guests.

Nothing else imports the lab; `compose` gets a command's parts of it here.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.errors import HostShellError, NotFound, Unreachable, UnsafePlan
from vgpu_cfg.settings.connection import LAB_ADDRESS, LAB_PASSWORD, LAB_PORT, LAB_USER, Connection
from vgpu_cfg.settings.environment import state_folder
from vgpu_cfg.settings.variables import lab_settings
from vgpu_cfg.shells.channel import opened

if TYPE_CHECKING:
    from vgpu_cfg.changes.kinds.restart_host import BmcRef
    from vgpu_cfg.lab.vcenter import Lab
    from vgpu_cfg.model.plan_file import AccessEntry
    from vgpu_cfg.ports import GuestShells, HostShell, Transport
    from vgpu_cfg.render.markdown.runbook import LabAccess
    from vgpu_cfg.shells.keys import PlanKeyRing

ServerAct = Literal["power_on", "fail", "cut_off", "reconnect"]
"""The events that can happen to a server of the lab, apart from its BIOS."""


class LabRunClock:
    """The clock of a run on the lab: waits take place there, at the lab's speed.

    The time saved by not waiting is added to its readings. If a time to begin at is set and the lab never
    waits, that is a rehearsal: only the lab's time passes, and none while this machine computes.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._spared = 0.0
        self._began: tuple[datetime, float] | None = None
        settings = lab_settings()
        if settings.time is not None and settings.speed:
            self._spared = (settings.time - datetime.now(UTC)).total_seconds()
        elif settings.time is not None:
            lab.settle()  # a saved state has a time of its own
            self._began = settings.time.astimezone(UTC), lab.clock.now()

    def now(self) -> datetime:
        if self._began is not None:
            began, of_lab = self._began
            return began + timedelta(seconds=self._lab.clock.now() - of_lab)
        return datetime.now(UTC) + timedelta(seconds=self._spared)

    def pause(self, seconds: float) -> None:
        begun = time.monotonic()
        with self._lab.changed:
            clock = self._lab.clock
            end = clock.now() + clock.scaled(seconds)
            while clock.now() < end:
                clock.wait(end, self._lab.changed)
        self._lab.settle()
        self._spared += max(0.0, seconds - (time.monotonic() - begun))


def clock_of(transport: Transport) -> LabRunClock | None:
    """Return the clock of a lab in this process; None for another wire."""
    from vgpu_cfg.lab.vcenter import Lab

    return LabRunClock(transport) if isinstance(transport, Lab) else None


class LabShells:
    """Logs in to the lab's hosts without a wire."""

    def __init__(self, lab: Lab, secrets: Mapping[str, str], calls: Path | None = None) -> None:
        self._lab = lab
        self._secrets = secrets
        self._calls = calls

    def connect(self, host_name: str, access: AccessEntry) -> HostShell:
        """Log in, as SSH would: only where the host's service runs.

        A secret that is not there is the lab's own; one that is there must be right. Any private key is.
        """
        from vgpu_cfg.cli.guest_logins import DirectChannel
        from vgpu_cfg.lab.shell.shell import ShellAccess, open_shell
        from vgpu_cfg.shells.esxi.shell import EsxiShell

        key = self._secrets.get(access.key or "")
        if key is not None:
            _see_key(key, host_name)
        secret = self._secrets.get(access.password or "", LAB_PASSWORD) if key is None else LAB_PASSWORD
        own = ShellAccess(password=LAB_PASSWORD)

        def log_in() -> DirectChannel:
            shell = open_shell(self._lab, host_name, access.user, password=secret, access=own)
            return DirectChannel(lambda line, _: shell.execute(line))

        return EsxiShell(opened(self._calls, host_name, "ssh", log_in), host_name)


def _see_key(text: str, host_name: str) -> None:
    """Raise HostShellError where a text is no private key, as ssh would."""
    from vgpu_cfg.shells.ssh import SshFailure, private_key

    try:
        private_key(text)
    except SshFailure as failure:
        raise HostShellError(
            "the private key that `access` refers to is invalid or has a passphrase",
            subject=f"{host_name}:22",
            remedy="provide the full text of an OpenSSH or PEM private key without a passphrase",
        ) from failure


def bmcs_of(lab: Lab) -> Callable[[BmcRef], Transport]:
    """Return what reaches the lab's BMCs."""
    from vgpu_cfg.lab.operations.hosts.bmc import LabBmc

    return lambda bmc: LabBmc(lab, bmc.address)


def guest_shells_of(
    lab: Lab, keys: PlanKeyRing, secrets: Mapping[str, str], calls: Path | None
) -> GuestShells:
    """Return what logs in to the lab's guests."""
    from vgpu_cfg.cli.guest_logins import LabGuestShells
    from vgpu_cfg.lab.guest.login import host_key_of, open_guest_shell

    return LabGuestShells(
        keys,
        secrets,
        lambda moid, user, password, key: (
            open_guest_shell(lab, moid, user, password=password, public_key=key).execute
        ),
        lambda moid: host_key_of(lab, moid),
        calls,
    )


@dataclass(frozen=True, slots=True)
class ServedLab:
    """A lab over HTTPS: its address, and a wait until it is stopped."""

    estate: str
    url: str
    thumbprint: str
    certificate: Path
    ssh_config: Path | None
    _thread_ended: threading.Event

    def wait(self) -> None:
        """Wait for Ctrl-C."""
        self._thread_ended.wait()


def lab_access(connection: Connection) -> LabAccess | None:
    """Say how a person reaches the lab of a connection with other tools; None where it is no lab."""
    if not connection.is_lab:
        return None
    from vgpu_cfg.lab.soap.server import CERTIFICATE_FILE
    from vgpu_cfg.render.markdown.runbook import LabAccess

    folder = state_folder() / "lab"
    return LabAccess(
        serve=shlex.join(["vgpu-cfg", "lab", "serve", connection.lab_estate, "--ssh"]),
        url=f"https://{LAB_ADDRESS}:{LAB_PORT}/sdk",
        user=LAB_USER,
        password=LAB_PASSWORD,
        certificate=shlex.quote(str(folder / CERTIFICATE_FILE)),
        ssh_config=shlex.quote(str(folder / "ssh" / "ssh_config")),
    )


def lab_folder(estate: str) -> Path:
    """Return where the lab keeps the changes to an estate.

    Raises NotFound for an invalid name of an estate, which would name a folder around it.
    """
    from vgpu_cfg.lab.estates.files import place_of
    from vgpu_cfg.lab.state.store import STATE_FILE

    name = Path(estate).stem
    if name in ("", "..") or "\0" in estate:
        raise NotFound(
            f"{estate!r} is not a valid estate",
            subject="lab",
            remedy="`vgpu-cfg lab list` shows the built-in estates; for your own file, specify its path",
        )
    return place_of(estate, state_folder() / "lab", STATE_FILE)


def open_lab_of(estate: str) -> Lab:
    """Open the lab on a built-in estate or an estate file, as the last command left it."""
    from vgpu_cfg.lab import open_lab
    from vgpu_cfg.lab.estates.files import own
    from vgpu_cfg.lab.simulation.clock import RealClock, VirtualClock

    own(estate, lab_folder(estate))
    settings = lab_settings()
    clock = RealClock(settings.speed) if settings.speed else VirtualClock()
    return open_lab(
        estate,
        folder=lab_folder(estate),
        clock=clock,
        gpu_choice=settings.gpu_choice,
        seed=settings.seed,
        attribute_length=settings.attribute_length,
    )


def lab_estates() -> dict[str, str]:
    """Return the built-in estates, each with a line that describes it."""
    from vgpu_cfg.lab import about_estate, estate_names

    known = {name: about_estate(name) for name in estate_names()}
    return known | {
        "fleet-HOSTSxGPUS[-VMSvms]": ("A fleet; its name sets the number of hosts, GPUs per host, and VMs.")
    }


@contextmanager
def serve_lab(estate: str, address: str, port: int, *, with_ssh: bool = False) -> Iterator[ServedLab]:
    """Serve a lab over HTTPS, and its hosts' shells by SSH, for as long as the context lasts."""
    from vgpu_cfg.lab.soap.server import CERTIFICATE_FILE, LabServer, keep_certificate

    lab = open_lab_of(estate)
    folder = state_folder() / "lab"
    try:
        server = LabServer(lab, address=address, port=port, certificate=keep_certificate(folder))
    except OSError as error:
        raise Unreachable(
            f"cannot listen on this port: {error.strerror or error}",
            subject=f"{address}:{port}",
            remedy="choose a different --port; 0 selects a free one",
        ) from error
    with server, ExitStack() as closing:
        config = None
        if with_ssh:
            from vgpu_cfg.lab.shell.shell import ShellAccess
            from vgpu_cfg.lab.shell.ssh_server import serve_ssh

            access = ShellAccess(password=LAB_PASSWORD)
            closing.enter_context(serve_ssh(lab, folder / "ssh", access=access))
            config = folder / "ssh" / "ssh_config"
        yield ServedLab(
            estate, server.url, server.thumbprint, folder / CERTIFICATE_FILE, config, threading.Event()
        )


def reset_labs(estates: Sequence[str]) -> list[str]:
    """Forget the changes to estates, or to all of them; return those that had changes."""
    from vgpu_cfg.lab import reset_lab

    root = state_folder() / "lab"
    if not estates:
        kept = sorted(item for item in root.iterdir() if item.is_dir()) if root.is_dir() else []
        return [item.name for item in kept if reset_lab(item)]
    return [name for name in estates if reset_lab(lab_folder(name))]


def restart_lab(estate: str, away_seconds: float, starting_seconds: float, *, forgets_tasks: bool) -> None:
    """Restart the vCenter of a lab, served anywhere: its state records it."""
    from vgpu_cfg.lab.simulation.restart import restart

    lab = open_lab_of(estate)
    with lab.transaction():
        restart(
            lab, away_seconds=away_seconds, starting_seconds=starting_seconds, forgets_tasks=forgets_tasks
        )


def host_names(lab: Lab) -> list[str]:
    """Return the names of a lab's hosts."""
    from vgpu_cfg.lab.state.inventory import Host

    return [host.name for host in lab.state.all(Host)]


def operate_servers(
    estate: str, hosts: Sequence[str], bios: Mapping[str, bool], acts: Sequence[ServerAct]
) -> None:
    """Carry out on-site work at the lab's servers, and simulate events of servers.

    Raises NotFound for an unknown host, and UnsafePlan if its state forbids it.
    """
    lab = open_lab_of(estate)
    known = host_names(lab)
    for name in hosts:
        if name not in known:
            remedy = did_you_mean(name, known, noun="hosts")
            raise NotFound(f"lab:{estate} has no host named {name!r}", subject="lab", remedy=remedy)
        try:
            if bios:
                lab.at_server(name, "bios", **bios)
            for act in acts:
                lab.at_server(name, act)
                while not lab_settings().speed and lab.state.booting and lab.wait():
                    continue  # where no time passes by itself, it passes here
        except ValueError as error:
            raise UnsafePlan(
                str(error), subject=name, remedy="check its state with `vgpu-cfg inventory`"
            ) from error


def prepare_upgrade(estate: str, off: Collection[str]) -> None:
    """Act as admins and owners before a wave: set DRS to fully automated, and power off VMs, by moid."""
    from vgpu_cfg.lab.operations.vms.power import halt
    from vgpu_cfg.lab.state.inventory import Cluster, VirtualMachine

    lab = open_lab_of(estate)
    with lab.transaction():
        for cluster in lab.state.all(Cluster):
            cluster.drs_enabled, cluster.drs_behavior = True, "fullyAutomated"
            lab.state.touch(cluster)
        for vm in lab.state.all(VirtualMachine):
            if vm.moid in off and vm.is_on:
                halt(lab, vm)
                lab.state.touch(vm)
