"""The one place that knows whether a server is a lab, an address or a recording.

Everything above it gets a reader, and a writer only if it is going to write.
"""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from vgpu_cfg.cli import labs
from vgpu_cfg.errors import CertificateRejected, Interrupted
from vgpu_cfg.model.identity import new_id
from vgpu_cfg.settings.connection import LAB_PASSWORD, Connection
from vgpu_cfg.settings.environment import state_folder
from vgpu_cfg.vsphere.wire.outage import Outage

if TYPE_CHECKING:
    from vgpu_cfg.bmc.redfish import RedfishPowers
    from vgpu_cfg.changes.kinds.restart_host import BmcRef
    from vgpu_cfg.contact.bench import Tools
    from vgpu_cfg.execution import RunClock
    from vgpu_cfg.lab.vcenter import Lab
    from vgpu_cfg.model.plan_values import Limits
    from vgpu_cfg.ports import (
        ChangeWriter,
        GuestShells,
        HostShells,
        HostWriter,
        InventoryReader,
        LockKeeper,
        MakeId,
        RunLog,
        ServerPowers,
        Transport,
    )
    from vgpu_cfg.shells.keys import PlanKeyRing
    from vgpu_cfg.vsphere.wire.session import Session

_STOPPED: ContextVar[threading.Event | None] = ContextVar("stopped", default=None)
"""The signal that the command was stopped, if several servers are read at once; None for one server."""


@contextmanager
def beside_others(stopped: threading.Event) -> Iterator[None]:
    """Let sessions that are opened inside end once `stopped` is set, and label their lines.

    Ctrl-C reaches one thread only; the others must be stopped by it.
    """
    before = _STOPPED.set(stopped)
    try:
        yield
    finally:
        _STOPPED.reset(before)


@dataclass(frozen=True, slots=True)
class _UntilStopped:
    """A wire that sends only the logout once the command was stopped."""

    transport: Transport
    stopped: threading.Event
    server: str

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        if self.stopped.is_set() and b"<Logout " not in body:
            raise Interrupted("stopped before it could be read", subject=self.server)
        return self.transport.exchange(method, path, headers, body)

    def close(self) -> None:
        self.transport.close()


def until_stopped(transport: Transport, server: str) -> Transport:
    """Return a wire that ends with the command, if several servers are read at once; else the same one."""
    stopped = _STOPPED.get()
    return transport if stopped is None else _UntilStopped(transport, stopped, server)


def make_id() -> str:
    """Make a unique id."""
    return new_id()


class SystemClock:
    """The machine's own clock, in UTC."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def pause(self, seconds: float) -> None:
        threading.Event().wait(seconds)


@contextmanager
def connect_reader(connection: Connection) -> Iterator[InventoryReader]:
    """Log in and hand out what can only read; log out and close at the end."""
    from vgpu_cfg.vsphere.reading.reader import VCenterReader

    if connection.recording is not None:
        with _recorded(connection.recording) as recorded:
            yield recorded
        return
    with open_session(connection, make_transport(connection), reads_only=True) as session:
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
    raise ValueError("guests in this estate cannot be reached")


def _no_powers(_secrets: Mapping[str, str]) -> ServerPowers | None:
    return None


def _make_run() -> str:
    return secrets.token_hex(_RUN_BYTES)


_RUN_BYTES = 6


@dataclass(frozen=True, slots=True)
class Estate:
    """The tools of a run: readers and writers on one session, its clock, and logins to hosts and guests.

    `make_id` makes the instance UUIDs of new VMs. `run_log` is where a run records itself at vCenter, `locks`
    how it keeps others away, and `outage` how it waits for an unavailable vCenter. `run` is the id of the run
    of every command. `logins` accepts the values of the secrets that the plan's hosts name, `guest_logins`
    the plan's keys and the secrets of its guests.
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
    from vgpu_cfg.vsphere.writing.alarms import VCenterLocks
    from vgpu_cfg.vsphere.writing.host_writer import VCenterHostWriter
    from vgpu_cfg.vsphere.writing.run_log import VCenterRunLog
    from vgpu_cfg.vsphere.writing.writer import VCenterWriter

    lab = labs.open_lab_of(connection.lab_estate) if connection.is_lab else None
    transport = lab or make_transport(connection)
    clock, calls = _clock_of(transport), connection.log_calls
    with one_is_enough(), open_session(connection, transport) as session:
        yield Estate(
            VCenterReader(session, clock),
            VCenterWriter(session),
            VCenterHostWriter(session),
            clock,
            lambda secrets: make_logins(connection, secrets, lab),
            VCenterRunLog(session),
            VCenterLocks(session, connection.locks.heartbeat_seconds),
            powers=lambda secrets: make_powers(connection, secrets, lab),
            guest_logins=lambda keys, secrets: FirstThatAnswers(
                GuestOperations(
                    session, logged(transport, connection, connection.server), clock, secrets, calls
                ),
                _make_guest_logins(keys, secrets, lab, session.limits, calls),
            ),
            is_lab=connection.is_lab,
            outage=session.outage,
        )


@contextmanager
def connect_trial(connection: Connection, minutes: float) -> Iterator[Tools]:
    """Log in and hand out the tools of a trial, whose tasks end after so long; a signal ends the block."""
    from vgpu_cfg.contact.bench import Tools
    from vgpu_cfg.execution import one_is_enough
    from vgpu_cfg.vsphere.reading.reader import VCenterReader
    from vgpu_cfg.vsphere.writing.alarms import VCenterLocks
    from vgpu_cfg.vsphere.writing.run_log import VCenterRunLog
    from vgpu_cfg.vsphere.writing.throw_away import VCenterThrowAway
    from vgpu_cfg.vsphere.writing.writer import VCenterWriter

    transport = make_transport(connection)
    clock = _clock_of(transport)
    with one_is_enough(), open_session(connection, transport) as session:
        yield Tools(
            VCenterReader(session, clock),
            VCenterWriter(session),
            VCenterLocks(session, connection.locks.heartbeat_seconds),
            VCenterRunLog(session),
            VCenterThrowAway(session),
            clock,
            clock.now() + timedelta(minutes=minutes),
        )


def make_logins(connection: Connection, secrets: Mapping[str, str], lab: Lab | None = None) -> HostShells:
    """Build what logs in to hosts: SSH, or the lab's own shell in this process."""
    calls = connection.log_calls
    if connection.is_lab:
        return labs.LabShells(lab or labs.open_lab_of(connection.lab_estate), secrets, calls)
    from vgpu_cfg.shells.esxi.logins import EsxiShells

    return EsxiShells(
        secrets,
        state_folder() / "known_hosts",
        ssh_config=_ssh_config(),
        limits=connection.limits,
        calls=calls,
    )


def make_powers(connection: Connection, secrets: Mapping[str, str], lab: Lab | None = None) -> RedfishPowers:
    """Build what speaks to BMCs: Redfish over HTTPS, or the lab's own BMCs in this process.

    A BMC is believed as vCenter's authorities say, or by the thumbprint that the plan file names.
    """
    from vgpu_cfg.bmc.redfish import RedfishPowers, reached

    if connection.is_lab:
        bmc_of = labs.bmcs_of(lab or labs.open_lab_of(connection.lab_estate))
        return RedfishPowers(lambda bmc: logged(bmc_of(bmc), connection, bmc.address), secrets, LAB_PASSWORD)
    from vgpu_cfg.vsphere.wire.transport import HttpsTransport, Trust

    def transport(bmc: BmcRef) -> Transport:
        trust = Trust(ca_file=connection.ca_file, thumbprint=bmc.thumbprint)

        def wire() -> Transport:
            https = HttpsTransport(bmc.address, trust=trust, limits=_bmc_limits())
            return logged(https, connection, bmc.address)

        return reached(bmc, wire)

    return RedfishPowers(transport, secrets)


def _bmc_limits() -> Limits:
    from vgpu_cfg.model.plan_values import Limits

    return Limits(timeout_seconds=60, answer_mib=4)


def _make_guest_logins(
    keys: PlanKeyRing, secrets: Mapping[str, str], lab: Lab | None, limits: Limits, calls: Path | None
) -> GuestShells:
    """Build what logs in to guests without vCenter: SSH, or the lab's own guests in this process."""
    if lab is not None:
        return labs.guest_shells_of(lab, keys, secrets, calls)
    from vgpu_cfg.shells.guest import SshGuestShells

    return SshGuestShells(keys, secrets, ssh_config=_ssh_config(), limits=limits, calls=calls)


def _ssh_config() -> Path | None:
    config = Path.home() / ".ssh" / "config"
    return config if config.is_file() else None


def record(connection: Connection, path: Path, *, anonymous: bool = False) -> int:
    """Save one fixed set of reads of a vCenter to a file; return how many answers it holds.

    If `anonymous`, nothing in it identifies the site.
    """
    from vgpu_cfg.recording import RecordingTransport, save_recording
    from vgpu_cfg.recording.anonymous import Anonymous
    from vgpu_cfg.vsphere.reading.reader import VCenterReader
    from vgpu_cfg.vsphere.wire.leaves import api_words

    scrubber = Anonymous(api_words()) if anonymous else None
    server = "vcenter" if anonymous else connection.server
    transport = RecordingTransport(make_transport(connection), server, scrubber)
    # One request at a time, so that the answers come in one order.
    with open_session(connection, transport, in_flight=1, reads_only=True) as session:
        reader = VCenterReader(session, SystemClock())
        reader.read_everything()
        reader.read_licences()
    recording = transport.recording(SystemClock().now())
    save_recording(recording, path)
    return len(recording.exchanges)


def make_transport(connection: Connection) -> Transport:
    """Build the wire to a server: the lab in this process, or HTTPS."""
    if connection.is_lab:
        return labs.open_lab_of(connection.lab_estate)
    from vgpu_cfg.vsphere.wire.transport import HttpsTransport, Trust

    if connection.insecure and connection.thumbprint:
        raise CertificateRejected(
            "--insecure and --thumbprint cannot be combined",
            subject=connection.server,
            remedy="omit --insecure",
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
    connection: Connection, transport: Transport, *, in_flight: int | None = None, reads_only: bool = False
) -> Iterator[Session]:
    """Log in, and wait later on for a vCenter that is away; log out and close at the end.

    `in_flight` is as in `Limits`, unless it is given. The lab in this process is asked one thing at a time.
    With `reads_only` nothing is sent that changes anything.
    """
    from vgpu_cfg.vsphere.wire.session import Session

    clock, limits = _clock_of(transport), connection.limits
    outage = Outage(limits.outage_seconds, clock.pause, clock.now, _say)
    stopped = _STOPPED.get()
    if stopped is not None:
        outage.tell = lambda line: _say(f"{connection.server}: {line}")
        outage.is_called_off = stopped.is_set
    wire = until_stopped(logged(transport, connection, connection.server), connection.server)
    if reads_only:
        from vgpu_cfg.vsphere.wire.wrapped import ReadingOnly

        wire = ReadingOnly(wire)
    with Session(
        wire,
        connection.server,
        connection.user,
        connection.password,
        token=connection.token if connection.token_source else None,
        outage=outage,
        limits=limits,
    ) as session:
        session.alarm_folder = connection.locks.at or ""
        session.in_flight = in_flight or (1 if connection.is_lab else limits.in_flight)
        yield session


def logged(transport: Transport, connection: Connection, server: str) -> Transport:
    """Return a wire whose requests are listed in the file that the user named; else the same one."""
    if connection.log_calls is None:
        return transport
    from vgpu_cfg.vsphere.wire.wrapped import Logged

    return Logged(transport, server, connection.log_calls)


def _clock_of(transport: Transport) -> RunClock:
    """Return the clock by which is waited: where the lab is in this process its own time must pass."""
    return labs.clock_of(transport) or SystemClock()


def _say(line: str) -> None:
    """Report to the user that a command waits."""
    from rich.text import Text

    from vgpu_cfg.render.layout.console import make_console

    make_console(sys.stderr).print(Text(line))
