"""The one place that knows whether a server is a lab, an address or a recording.

Everything above it gets a reader, and a writer only if it is going to write.
"""

from __future__ import annotations

import secrets
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.errors import (
    CertificateRejected,
    HostShellError,
    Interrupted,
    NotFound,
    Unreachable,
    UnsafePlan,
)
from vgpu_cfg.model.identity import new_id
from vgpu_cfg.settings.connection import LAB_ADDRESS, LAB_PASSWORD, LAB_PORT, LAB_USER, Connection
from vgpu_cfg.settings.folders import state_folder
from vgpu_cfg.settings.lab import lab_settings
from vgpu_cfg.vsphere.wire.outage import Outage

if TYPE_CHECKING:
    from vgpu_cfg.changes.kinds.restart_host import BmcRef
    from vgpu_cfg.execution import RunClock
    from vgpu_cfg.lab.vcenter import Lab
    from vgpu_cfg.model.plan_file import AccessEntry
    from vgpu_cfg.model.plan_values import Limits
    from vgpu_cfg.ports import (
        ChangeWriter,
        GuestShells,
        HostShell,
        HostShells,
        HostWriter,
        InventoryReader,
        LockKeeper,
        MakeId,
        RunLog,
        ServerPowers,
        Transport,
    )
    from vgpu_cfg.render.markdown.quoting import LabAccess
    from vgpu_cfg.shells.keys import PlanKeyRing
    from vgpu_cfg.vsphere.wire.session import Session

ServerAct = Literal["power_on", "fail", "cut_off", "reconnect"]
"""What can be let happen to a server of the lab, beside its BIOS."""


_STOPPED: ContextVar[threading.Event | None] = ContextVar("stopped", default=None)
"""What says that the command was stopped, where several servers are read at once; None where one is."""


@contextmanager
def beside_others(stopped: threading.Event) -> Iterator[None]:
    """Let sessions that are opened inside end once `stopped` is set, and say whose lines they tell.

    Ctrl-C reaches one thread only; the others must be told.
    """
    before = _STOPPED.set(stopped)
    try:
        yield
    finally:
        _STOPPED.reset(before)


@dataclass(frozen=True, slots=True)
class _UntilStopped:
    """A wire on which nothing but the logout is sent any more once the command was stopped."""

    transport: Transport
    stopped: threading.Event
    server: str

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        if self.stopped.is_set() and b"<Logout " not in body:
            raise Interrupted("stopped before it was read", subject=self.server)
        return self.transport.exchange(method, path, headers, body)

    def close(self) -> None:
        self.transport.close()


def until_stopped(transport: Transport, server: str) -> Transport:
    """Return a wire that ends with the command, where several servers are read at once; else the same one."""
    stopped = _STOPPED.get()
    return transport if stopped is None else _UntilStopped(transport, stopped, server)


def make_id() -> str:
    """Make an id that nobody has made before."""
    return new_id()


class SystemClock:
    """The machine's own clock, in UTC."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def pause(self, seconds: float) -> None:
        threading.Event().wait(seconds)


class LabRunClock:
    """The clock of a run on the lab: what it waits for passes there, at the lab's speed.

    Time that a real run would have waited and this one did not is added to what it tells.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._spared = 0.0

    def now(self) -> datetime:
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


@contextmanager
def connect_reader(connection: Connection) -> Iterator[InventoryReader]:
    """Log in and hand out what can only read; log out and close at the end."""
    from vgpu_cfg.vsphere.reading.reader import VCenterReader

    if connection.recording is not None:
        with _recorded(connection.recording) as recorded:
            yield recorded
        return
    with open_session(connection, make_transport(connection)) as session:
        yield VCenterReader(session, SystemClock())


@contextmanager
def _recorded(path: Path) -> Iterator[InventoryReader]:
    """Read a recording as if it were the vCenter, at the time when it was made."""
    from vgpu_cfg.recording import PlayingTransport, load_recording
    from vgpu_cfg.vsphere.reading.reader import RecordedReader
    from vgpu_cfg.vsphere.wire.session import Session

    player = PlayingTransport(load_recording(path))
    with Session(player, player.recording.address, "recorded", "recorded") as session:
        yield RecordedReader(session, player)


def _no_guests(_keys: PlanKeyRing, _secrets: Mapping[str, str]) -> GuestShells:
    raise ValueError("whoever made this estate reaches no guests")


def _no_powers(_secrets: Mapping[str, str]) -> ServerPowers | None:
    return None


def _make_run() -> str:
    return secrets.token_hex(_RUN_BYTES)


_RUN_BYTES = 6


@dataclass(frozen=True, slots=True)
class Estate:
    """What a run works with: readers and writers on one session, its clock, and logins to hosts and guests.

    `make_id` makes the instance UUIDs of new VMs. `run_log` is where a run leaves word at vCenter, `locks`
    where it keeps others away, and `outage` how it waits for one that is away. `run` is the id of the run,
    whatever the command does.
    `logins` takes the values of the secrets that the plan's hosts name, `guest_logins` the plan's keys and
    the secrets of its guests.
    """

    reader: InventoryReader
    writer: ChangeWriter
    host_writer: HostWriter
    clock: RunClock
    logins: Callable[[Mapping[str, str]], HostShells]
    run_log: RunLog
    locks: LockKeeper
    run: str = field(default_factory=_make_run)
    powers: Callable[[Mapping[str, str]], ServerPowers | None] = _no_powers
    guest_logins: Callable[[PlanKeyRing, Mapping[str, str]], GuestShells] = _no_guests
    is_lab: bool = False
    make_id: MakeId = make_id
    outage: Outage = field(default_factory=Outage)


@contextmanager
def connect_writer(connection: Connection) -> Iterator[Estate]:
    """Log in and hand out what reads and what changes; a signal ends the block as Ctrl-C does."""
    from vgpu_cfg.cli.guest_logins import FirstThatAnswers
    from vgpu_cfg.execution import one_is_enough
    from vgpu_cfg.vsphere.guest_operations import GuestOperations
    from vgpu_cfg.vsphere.reading.reader import VCenterReader
    from vgpu_cfg.vsphere.writing.host_writer import VCenterHostWriter
    from vgpu_cfg.vsphere.writing.locks import VCenterLocks
    from vgpu_cfg.vsphere.writing.run_log import VCenterRunLog
    from vgpu_cfg.vsphere.writing.writer import VCenterWriter

    lab = open_lab_of(connection.lab_estate) if connection.is_lab else None
    transport = lab or make_transport(connection)
    clock = _clock_of(transport)
    with one_is_enough(), open_session(connection, transport) as session:
        yield Estate(
            VCenterReader(session, clock),
            VCenterWriter(session),
            VCenterHostWriter(session),
            clock,
            lambda secrets: make_logins(connection, secrets, lab),
            VCenterRunLog(session),
            VCenterLocks(session),
            powers=lambda secrets: make_powers(connection, secrets, lab),
            guest_logins=lambda keys, secrets: FirstThatAnswers(
                GuestOperations(session, transport, clock, secrets),
                _make_guest_logins(keys, secrets, lab, session.limits),
            ),
            is_lab=connection.is_lab,
            outage=session.outage,
        )


def make_logins(connection: Connection, secrets: Mapping[str, str], lab: Lab | None = None) -> HostShells:
    """Build what logs in to hosts: SSH, or the lab's own shell in this process."""
    if connection.is_lab:
        return LabShells(lab or open_lab_of(connection.lab_estate), secrets)
    from vgpu_cfg.shells.esxi.logins import EsxiShells

    return EsxiShells(
        secrets, state_folder() / "known_hosts", ssh_config=_ssh_config(), limits=connection.limits
    )


def make_powers(connection: Connection, secrets: Mapping[str, str], lab: Lab | None = None) -> ServerPowers:
    """Build what speaks to BMCs: Redfish over HTTPS, or the lab's own BMCs in this process.

    A BMC is believed as vCenter's authorities say, or by the thumbprint that the plan file names.
    """
    from vgpu_cfg.bmc.redfish import RedfishPowers, reached

    if connection.is_lab:
        from vgpu_cfg.lab.operations.hosts.bmc import LabBmc

        played = lab or open_lab_of(connection.lab_estate)
        return RedfishPowers(lambda bmc: LabBmc(played, bmc.address), secrets, LAB_PASSWORD)
    from vgpu_cfg.vsphere.wire.transport import HttpsTransport, Trust

    def transport(bmc: BmcRef) -> Transport:
        trust = Trust(ca_file=connection.ca_file, thumbprint=bmc.thumbprint)
        return reached(bmc, lambda: HttpsTransport(bmc.address, trust=trust, limits=_bmc_limits()))

    return RedfishPowers(transport, secrets)


def _bmc_limits() -> Limits:
    from vgpu_cfg.model.plan_values import Limits

    return Limits(timeout_seconds=60, answer_mib=4)


def _make_guest_logins(
    keys: PlanKeyRing, secrets: Mapping[str, str], lab: Lab | None, limits: Limits
) -> GuestShells:
    """Build what logs in to guests without vCenter: SSH, or the lab's own guests in this process."""
    if lab is not None:
        from vgpu_cfg.cli.guest_logins import LabGuestShells
        from vgpu_cfg.lab.guest.login import host_key_of, open_guest_shell

        return LabGuestShells(
            keys,
            secrets,
            lambda moid, user, password, key: (
                open_guest_shell(lab, moid, user, password=password, public_key=key).execute
            ),
            lambda moid: host_key_of(lab, moid),
        )
    from vgpu_cfg.shells.guest.logins import SshGuestShells

    return SshGuestShells(keys, secrets, ssh_config=_ssh_config(), limits=limits)


def _ssh_config() -> Path | None:
    config = Path.home() / ".ssh" / "config"
    return config if config.is_file() else None


class LabShells:
    """Logs in to the lab's hosts without a wire."""

    def __init__(self, lab: Lab, secrets: Mapping[str, str]) -> None:
        self._lab = lab
        self._secrets = secrets

    def connect(self, host_name: str, access: AccessEntry) -> HostShell:
        """Log in, as SSH would: only where the host's service runs.

        A secret that is not there is the lab's own; one that is there must be right. Any private key is.
        """
        from vgpu_cfg.cli.guest_logins import DirectChannel
        from vgpu_cfg.lab.shell.access import ShellAccess, open_shell
        from vgpu_cfg.shells.esxi.shell import EsxiShell

        key = self._secrets.get(access.key or "")
        if key is not None:
            _see_key(key, host_name)
        secret = self._secrets.get(access.password or "", LAB_PASSWORD) if key is None else LAB_PASSWORD
        own = ShellAccess(password=LAB_PASSWORD)
        shell = open_shell(self._lab, host_name, access.user, password=secret, access=own)
        return EsxiShell(DirectChannel(lambda line, _: shell.execute(line)), host_name)


def _see_key(text: str, host_name: str) -> None:
    """Raise HostShellError where a text is no private key, as ssh would."""
    from vgpu_cfg.shells.ssh import SshFailure, private_key

    try:
        private_key(text)
    except SshFailure as failure:
        raise HostShellError(
            "the secret that `access` names as key cannot be used: it is none, or has a passphrase",
            subject=f"{host_name}:22",
            remedy="give the whole text of an OpenSSH or PEM private key without a passphrase",
        ) from failure


def record(connection: Connection, path: Path) -> int:
    """Save one fixed set of reads of a vCenter to a file; return how many answers it holds."""
    from vgpu_cfg.recording import RecordingTransport, save_recording
    from vgpu_cfg.vsphere.reading.reader import VCenterReader

    transport = RecordingTransport(make_transport(connection), connection.server)
    with open_session(connection, transport, in_flight=1) as session:  # so answers come in one order
        VCenterReader(session, SystemClock()).read_everything()
    recording = transport.recording(SystemClock().now())
    save_recording(recording, path)
    return len(recording.exchanges)


def make_transport(connection: Connection) -> Transport:
    """Build the wire to a server: the lab in this process, or HTTPS."""
    if connection.is_lab:
        return open_lab_of(connection.lab_estate)
    from vgpu_cfg.vsphere.wire.transport import HttpsTransport, Trust

    if connection.insecure and connection.thumbprint:
        raise CertificateRejected(
            "--insecure and --thumbprint exclude each other",
            subject=connection.server,
            remedy="leave --insecure out",
        )
    return HttpsTransport(
        connection.server,
        trust=Trust(
            ca_file=connection.ca_file, thumbprint=connection.thumbprint, insecure=connection.insecure
        ),
        limits=connection.limits,
    )


@contextmanager
def open_session(
    connection: Connection, transport: Transport, *, in_flight: int | None = None
) -> Iterator[Session]:
    """Log in, and wait later on for a vCenter that is away; log out and close at the end.

    `in_flight` is as in `Limits`, unless it is given. The lab in this process is asked one thing at a time.
    """
    from vgpu_cfg.vsphere.wire.session import Session

    clock, limits = _clock_of(transport), connection.limits
    outage = Outage(limits.outage_seconds, clock.pause, clock.now, _say)
    stopped = _STOPPED.get()
    if stopped is not None:
        outage.tell = lambda line: _say(f"{connection.server}: {line}")
        outage.is_called_off = stopped.is_set
    with Session(
        until_stopped(transport, connection.server),
        connection.server,
        connection.user,
        connection.password,
        token=connection.token if connection.token_source else None,
        outage=outage,
        limits=limits,
    ) as session:
        session.in_flight = in_flight or (1 if connection.is_lab else limits.in_flight)
        yield session


def _clock_of(transport: Transport) -> SystemClock | LabRunClock:
    """Return the clock by which is waited: where the lab is in this process its own time must pass."""
    from vgpu_cfg.lab.vcenter import Lab

    return LabRunClock(transport) if isinstance(transport, Lab) else SystemClock()


def _say(line: str) -> None:
    """Tell whoever watches a command that it waits."""
    from rich.text import Text

    from vgpu_cfg.render.layout.console import make_console

    make_console(sys.stderr).print(Text(line))


# ---------------------------------------------------------------- the lab


@dataclass(frozen=True, slots=True)
class ServedLab:
    """A lab behind HTTPS: how to reach it, and a wait until somebody ends it."""

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
    from vgpu_cfg.lab.soap.certificate import CERTIFICATE_FILE
    from vgpu_cfg.render.markdown.quoting import LabAccess

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
    """Return where the lab keeps what was done to an estate.

    Raises NotFound for what can be no estate, and would name a folder around it.
    """
    from vgpu_cfg.lab.estates.files import place_of
    from vgpu_cfg.lab.state.store import STATE_FILE

    name = Path(estate).stem
    if name in ("", "..") or "\0" in estate:
        raise NotFound(
            f"{estate!r} is no estate",
            subject="lab",
            remedy="`vgpu-cfg lab list` shows the built-in ones; a file of your own is named by its path",
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
    """Return the built-in estates, each with a line on what it is."""
    from vgpu_cfg.lab import about_estate, estate_names

    known = {name: about_estate(name) for name in estate_names()}
    return known | {"fleet-HOSTSxGPUS[-VMSvms]": "As many hosts, GPUs per host and VMs as the name says."}


@contextmanager
def serve_lab(estate: str, address: str, port: int, *, with_ssh: bool = False) -> Iterator[ServedLab]:
    """Serve a lab over HTTPS, and its hosts' shells by SSH, for as long as the context lasts."""
    from vgpu_cfg.lab.soap.certificate import CERTIFICATE_FILE, keep_certificate
    from vgpu_cfg.lab.soap.server import LabServer

    lab = open_lab_of(estate)
    folder = state_folder() / "lab"
    try:
        server = LabServer(lab, address=address, port=port, certificate=keep_certificate(folder))
    except OSError as error:
        raise Unreachable(
            f"cannot listen there: {error.strerror or error}",
            subject=f"{address}:{port}",
            remedy="choose another --port; 0 takes a free one",
        ) from error
    with server, ExitStack() as closing:
        config = None
        if with_ssh:
            from vgpu_cfg.lab.shell.access import ShellAccess
            from vgpu_cfg.lab.shell.ssh_server import serve_ssh

            access = ShellAccess(password=LAB_PASSWORD)
            closing.enter_context(serve_ssh(lab, folder / "ssh", access=access))
            config = folder / "ssh" / "ssh_config"
        yield ServedLab(
            estate, server.url, server.thumbprint, folder / CERTIFICATE_FILE, config, threading.Event()
        )


def reset_labs(estates: Sequence[str]) -> list[str]:
    """Forget what was done to estates, or to all of them; return those that had something to forget."""
    from vgpu_cfg.lab import reset_lab

    root = state_folder() / "lab"
    if not estates:
        kept = sorted(item for item in root.iterdir() if item.is_dir()) if root.is_dir() else []
        return [item.name for item in kept if reset_lab(item)]
    return [name for name in estates if reset_lab(lab_folder(name))]


def restart_lab(estate: str, away_seconds: float, starting_seconds: float, *, forgets_tasks: bool) -> None:
    """Restart the vCenter of a lab, whoever serves it: its state says so."""
    from vgpu_cfg.lab.simulation.restart import restart

    lab = open_lab_of(estate)
    with lab.transaction():
        restart(
            lab,
            away_seconds=away_seconds,
            starting_seconds=starting_seconds,
            forgets_tasks=forgets_tasks,
        )


def operate_servers(
    estate: str, hosts: Sequence[str], bios: Mapping[str, bool], acts: Sequence[ServerAct]
) -> None:
    """Do at the lab's servers what is only done on site, and let happen there what happens to servers.

    Raises NotFound for a host that is not there, and UnsafePlan where its state forbids it.
    """
    from vgpu_cfg.lab.state.inventory import Host

    lab = open_lab_of(estate)
    known = [host.name for host in lab.state.all(Host)]
    for name in hosts:
        if name not in known:
            remedy = did_you_mean(name, known, noun="hosts")
            raise NotFound(f"lab:{estate} has no host {name!r}", subject="lab", remedy=remedy)
        try:
            if bios:
                lab.at_server(name, "bios", **bios)
            for act in acts:
                lab.at_server(name, act)
                while not lab_settings().speed and lab.state.booting and lab.wait():
                    continue  # where no time passes by itself, it passes here
        except ValueError as error:
            raise UnsafePlan(
                str(error), subject=name, remedy="see `vgpu-cfg inventory` for its state"
            ) from error
