"""What a vCenter far away makes whole commands wait, with one request at a time and with several in flight.

Each command is a process of its own on a served lab behind a proxy that answers later by so much. What one
request at a time takes is what every command took before several were sent at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.hosts import write_bare
from tests.bench.proxy import CountingProxy, proxy_to
from tests.bench.reading import served
from vgpu_cfg.model.plan_values import Limits
from vgpu_cfg.settings.connection import LAB_PASSWORD, LAB_USER

DELAYS = (0, 5, 50)
"""Milliseconds that each request waits besides."""
HOSTS = (20, 100)
TRIES = 2
"""Of so many the quickest counts: other work on the machine only makes them slower."""
FIT = ("fit", "grid_a100-10c")


@dataclass(frozen=True, slots=True)
class Waited:
    """What a command asked, and how long it took by milliseconds of delay, one at a time and in flight."""

    what: str
    hosts: int
    trips: int
    seconds: Mapping[int, tuple[float, float]] = field(default_factory=dict)


def print_far(sizes: Sequence[int] = HOSTS, delays: Sequence[int] = DELAYS) -> None:
    """Print seconds with one request at a time and with several, and their ratio."""
    heads = "".join(f"{f'{delay} ms: 1':>12}{Limits().in_flight:>7}{'ratio':>7}" for delay in delays)
    print(f"\n{'':10}{'hosts':>7}{'round trips':>13}{heads}")
    for row in measure_far(sizes, delays):
        taken = "".join(f"{one:>12.1f}{some:>7.1f}{some / one:>7.2f}" for one, some in row.seconds.values())
        print(f"{row.what:10}{row.hosts:>7}{row.trips:>13}{taken}")


def measure_far(sizes: Sequence[int], delays: Sequence[int]) -> Iterator[Waited]:
    """Yield a row for the plan of so many bare hosts each, and for `fit` on a fleet of four kinds."""
    with tempfile.TemporaryDirectory() as folder:
        for count in sizes:
            estate, plan = write_bare(count, Path(folder))
            yield _measured("plan", count, str(estate), ("plan", str(plan)), delays)
    yield _measured("fit", sizes[-1], f"fleet-{sizes[-1]}x8", FIT, delays)


def _measured(what: str, hosts: int, estate: str, words: Sequence[str], delays: Sequence[int]) -> Waited:
    seconds: dict[int, tuple[float, float]] = {}
    with served(estate) as (address, *_), proxy_to(address) as proxy:
        _took(words, proxy, 1)  # what is compiled once
        trips = proxy.taken().requests
        for delay in delays:
            proxy.delay_seconds = delay / 1000
            tries = [(_took(words, proxy, 1), _took(words, proxy, Limits().in_flight)) for _ in range(TRIES)]
            seconds[delay] = min(one for one, _ in tries), min(some for _, some in tries)
    return Waited(what, hosts, trips, seconds)


def _took(words: Sequence[str], proxy: CountingProxy, in_flight: int) -> float:
    trust = ("--thumbprint", proxy.certificate.thumbprint, "--user", LAB_USER)
    environment = {"VGPU_CFG_PASSWORD": LAB_PASSWORD, "VGPU_CFG_IN_FLIGHT": str(in_flight)}
    command = [sys.executable, "-m", "vgpu_cfg", *words, "--server", proxy.address, *trust]
    begun = time.perf_counter()
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode not in (0, 10):
        raise SystemExit(f"{' '.join(words)}: {done.stdout[-800:]}{done.stderr[-800:]}")
    return time.perf_counter() - begun
