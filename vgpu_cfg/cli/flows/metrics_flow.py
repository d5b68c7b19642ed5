"""Publish metrics: read pool, drift and last runs, and print them, or answer by HTTP.

The server uses Prometheus' own client library and ends every exchange: few clients at a time, each within a
time limit.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from socketserver import ThreadingMixIn
from time import monotonic
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from vgpu_cfg.cli.flows import flow
from vgpu_cfg.cli.flows.doctor_flow import look
from vgpu_cfg.cli.flows.history import look_back
from vgpu_cfg.cli.flows.preparing.request import read_request
from vgpu_cfg.cli.output import show
from vgpu_cfg.errors import DocumentError, DocumentFault, VgpuCfgError
from vgpu_cfg.render.metrics import UP, Site, samples
from vgpu_cfg.settings.connection import resolve_connection
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    from prometheus_client.core import GaugeMetricFamily

    from vgpu_cfg.execution import PastRun
    from vgpu_cfg.model.locks import Locks
    from vgpu_cfg.render.metrics import LastRun, PlanState

RUNS_SINCE = timedelta(days=90)
"""So far back runs are looked for."""
ReadSite = Callable[[], Site]
MOST_CLIENTS: Final = 16
REQUEST_SECONDS: Final = 10.0
"""So long a client may take for its request, and for each part of the answer that it does not fetch."""
_Address = Any
"""As `socketserver` has it: a pair for IPv4, four parts for IPv6."""


def read_metrics(flags: ConnectionFlags, plans: Sequence[Path], *, days: float, idle_below: float) -> Site:
    """Read vCenter once, and once for each plan file. Raises `VgpuCfgError`."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.planning.pool.spare import spare_states
    from vgpu_cfg.planning.pool.summary import read_pool
    from vgpu_cfg.planning.pool.use import owner_of
    from vgpu_cfg.render.metrics import Site

    connection = resolve_connection(flags)
    observed = flow.read_all(connection, use_days=days, with_licences=True, with_locks=True)
    spares = spare_states(flow.quotas_of(connection), observed, load_catalog())
    history = look_back(flags, age=RUNS_SINCE)
    if history.failure is not None:
        raise history.failure
    return Site(
        pool=read_pool(observed, load_catalog(), idle_below=idle_below),
        read_at=observed.read_at,
        owners={
            (host.moid, vm.name): (vm.mark.plan if vm.mark else "", owner_of(vm))
            for host in observed.hosts
            for vm in observed.vms_by_host.get(host.moid, ())
        },
        licences=tuple(
            (host.name, licence.name)
            for host in observed.hosts
            if host.gpus
            for licence in (observed.licences or {}).get(host.moid, ())
        ),
        maintenance={host.name: host.is_in_maintenance_mode for host in observed.hosts if host.gpus},
        cordons=tuple((host.name, one.pci_id) for host in observed.hosts for one in host.cordons),
        spares={one.cluster: one.count for one in spares},
        locks=tuple(_locks(observed.locks)) if observed.locks is not None else (),
        plans=tuple(_state(path, flags) for path in plans),
        runs=tuple(_newest(history.runs)),
    )


def _locks(locks: Locks) -> Iterator[tuple[str, str, str, datetime]]:
    for run in locks.runs:
        holder = locks.of_run(run)[0].holder
        if holder is not None:
            yield run, holder.command, holder.plan, locks.beat_of(run)


def _state(path: Path, flags: ConnectionFlags) -> PlanState:
    from vgpu_cfg.changes.severity import Severity
    from vgpu_cfg.planning.findings.options import PlanOptions
    from vgpu_cfg.planning.sync import is_in_sync
    from vgpu_cfg.render.metrics import PlanState

    answer, differences = look(read_request(path, {}, ()), flags, PlanOptions(allow_power_cycle=True))
    counts = Counter(found.severity for found in answer.plan.diagnostics)
    return PlanState(
        name=answer.plan.desired.name,
        differences=len(differences),
        findings={severity: counts[severity] for severity in Severity},
        is_in_sync=is_in_sync(answer.plan),
        expires={
            vm.name: datetime.combine(vm.expires, time.max, UTC)
            for vm in answer.plan.desired.vms
            if vm.expires is not None
        },
    )


def _newest(runs: Sequence[PastRun]) -> list[LastRun]:
    """Return the newest run of each plan; runs come newest first.

    A run known only from a lock may be a question that waits for its answer, or a look into shells.
    """
    from vgpu_cfg.render.metrics import LastRun

    found: dict[str, LastRun] = {}
    for run in runs:
        at = run.ended_at or run.began_at
        if run.entry.digest and run.entry.plan and run.entry.plan not in found and at is not None:
            result = "" if run.entry.result is None else str(run.entry.result)
            found[run.entry.plan] = LastRun(run.entry.plan, run.entry.command, at, result)
    return list(found.values())


class SiteCollector:
    """Reads when it is asked, but no more often than every so many seconds; one reading at a time."""

    def __init__(
        self, read: ReadSite, *, every_seconds: float, clock: Callable[[], float] = monotonic
    ) -> None:
        self._read = read
        self._every = every_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: list[GaugeMetricFamily] = []
        self._read_at: float | None = None

    def describe(self) -> list[GaugeMetricFamily]:
        """Name nothing beforehand: a registry would read vCenter to learn the names."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield every metric; only `vgpu_cfg_up` where vCenter cannot be read, and why on standard error."""
        with self._lock:
            if self._read_at is None or self._clock() - self._read_at >= self._every:
                try:
                    self._kept = families(self._read())
                except VgpuCfgError as error:
                    show.say(f"could not be read: {error.message} ({error.subject})")
                    self._kept = [_family(UP.name, UP.meaning, (), [((), 0.0)])]
                self._read_at = self._clock()
            yield from self._kept


def families(site: Site) -> list[GaugeMetricFamily]:
    """Return the metrics of a reading; one without a sample is left out."""
    found = [_family(UP.name, UP.meaning, (), [((), 1.0)])]
    found += [_family(one.name, one.meaning, one.labels, told) for one, told in samples(site) if told]
    return found


def as_text(site: Site) -> str:
    """Return the metrics of a reading in Prometheus' text format, as a text-file collector takes them."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(SiteCollector(lambda: site, every_seconds=0))
    return generate_latest(registry).decode()


@contextmanager
def listening(collector: SiteCollector, address: str, port: int) -> Iterator[int]:
    """Answer at /metrics for the length of a block; yield the port, which 0 lets the system choose.

    Raises DocumentError where that address cannot be listened on.
    """
    from prometheus_client import CollectorRegistry, make_wsgi_app

    registry = CollectorRegistry()
    registry.register(collector)
    try:
        server = make_server(address, port, make_wsgi_app(registry))
    except OSError as error:
        fault = DocumentFault(
            f"{address}:{port}", 1, 1, f"cannot listen on this address: {error.strerror or error}"
        )
        raise DocumentError([fault], remedy="specify a different --listen ADDRESS:PORT") from error
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def write(text: str) -> None:
    """Print metrics on standard output."""
    sys.stdout.write(text)


def _family(
    name: str, meaning: str, labels: tuple[str, ...], told: list[tuple[tuple[str, ...], float]]
) -> GaugeMetricFamily:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(name, meaning, labels=labels)
    for values, value in told:
        family.add_metric(values, value)
    return family


class _Handler(WSGIRequestHandler):
    """Reads one request within its time, and logs none."""

    timeout = REQUEST_SECONDS

    def handle(self) -> None:
        deadline = threading.Timer(REQUEST_SECONDS, self._end_reading)
        deadline.daemon = True
        deadline.start()
        try:
            with suppress(OSError):  # a client that has gone, or was too slow
                super().handle()
        finally:
            deadline.cancel()

    def _end_reading(self) -> None:
        """End a request that comes a byte now and then; an answer under way is not touched."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RD)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's signature
        """Log nothing."""


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each client; one client more than may be served is closed at once."""

    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        self._places = threading.BoundedSemaphore(MOST_CLIENTS)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: _Address) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: _Address) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: _Address) -> None:
        """Print nothing of a client that broke off."""


class _ServerV6(_Server):
    address_family = socket.AF_INET6


def make_server(address: str, port: int, app: WSGIApplication) -> WSGIServer:
    """Listen at an address; 0 lets the system choose the port. Raises OSError."""
    family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
    server = (_ServerV6 if family is socket.AF_INET6 else _Server)((address, port), _Handler)
    server.set_app(app)
    return server
