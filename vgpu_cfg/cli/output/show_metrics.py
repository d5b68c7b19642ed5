"""How metrics go out, by Prometheus' own client library: as text, or to whoever asks by HTTP."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vgpu_cfg.cli.output import show
from vgpu_cfg.errors import DocumentError, DocumentFault, VgpuCfgError
from vgpu_cfg.render.metrics import UP, Site, samples

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

ReadSite = Callable[[], Site]


class SiteCollector:
    """Reads when it is asked, but no more often than every so many seconds; one reading at a time."""

    def __init__(
        self, read: ReadSite, *, every_seconds: float, clock: Callable[[], float] = time.monotonic
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
                    show.say(f"not read: {error.message} ({error.subject})")
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

    from vgpu_cfg.cli.output.metrics_server import make_server

    registry = CollectorRegistry()
    registry.register(collector)
    try:
        server = make_server(address, port, make_wsgi_app(registry))
    except OSError as error:
        fault = DocumentFault(
            f"{address}:{port}", 1, 1, f"nobody can listen there: {error.strerror or error}"
        )
        raise DocumentError([fault], remedy="give another with --listen ADDRESS:PORT") from error
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
