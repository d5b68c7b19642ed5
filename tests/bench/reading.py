"""What reading a whole estate takes where the lab is a process of its own: round trips, bytes, CPU, memory.

`python -m tests.bench.reading ADDRESS THUMBPRINT` reads once and prints a row as JSON; each size is read by a
process of its own, so that its memory is that of one reading.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any
from xml.parsers import expat

from vgpu_cfg.__main__ import COLLECT_AFTER
from vgpu_cfg.cli.compose import SystemClock
from vgpu_cfg.model.limits import Limits
from vgpu_cfg.ports import ReadScope, Transport
from vgpu_cfg.settings.connection import LAB_PASSWORD, LAB_USER
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.wire.transport import HttpsTransport, Trust

PROGRAM = (sys.executable, "-m", "vgpu_cfg", "lab", "serve")
_MB = 1_000_000


@dataclass(slots=True)
class Reading:
    """One reading. CPU seconds are this process's; `parser_seconds` are those of expat alone on the bytes."""

    hosts: int = 0
    vms: int = 0
    trips: int = 0
    answered_mb: float = 0
    cpu_seconds: float = 0
    parser_seconds: float = 0
    memory_mb: float = 0


@dataclass
class Measured:
    """A Transport that counts what is answered, and times a bare parser on it."""

    transport: Transport
    answered: int = 0
    parser_seconds: float = 0

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        answer = self.transport.exchange(method, path, headers, body)
        self.answered += len(answer[2])
        begun = time.process_time()
        expat.ParserCreate().Parse(answer[2], True)
        self.parser_seconds += time.process_time() - begun
        return answer

    def close(self) -> None:
        self.transport.close()


def read_once(address: str, thumbprint: str) -> Reading:
    """Read everything that is read without a plan."""
    limits = Limits(timeout_seconds=600)
    measured = Measured(HttpsTransport(address, trust=Trust(thumbprint=thumbprint), limits=limits))
    begun = time.process_time()
    with Session(measured, address, LAB_USER, LAB_PASSWORD) as session:
        found = VCenterReader(session, SystemClock()).read_inventory(ReadScope())
        trips = session.round_trips
    spent = time.process_time() - begun - measured.parser_seconds
    return Reading(
        hosts=len(found.hosts),
        vms=len(found.vms),
        trips=trips,
        answered_mb=measured.answered / _MB,
        cpu_seconds=spent,
        parser_seconds=measured.parser_seconds,
        memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _MB,
    )


def print_readings(sizes: tuple[tuple[int, int], ...]) -> None:
    """Print a row for each number of hosts, of eight GPUs each, and VMs."""
    head = ("round trips", "MB", "CPU s", "expat alone", "memory MB")
    print(f"\n{'read':24}{'VMs':>7}" + "".join(f"{words:>13}" for words in head))
    for hosts, vms in sizes:
        row = _read_apart(f"fleet-{hosts}x8-{vms}vms")
        print(
            f"{row.hosts:>5,} hosts{'':13}{row.vms:>7,}{row.trips:>13}{row.answered_mb:>13.1f}"
            f"{row.cpu_seconds:>13.1f}{row.parser_seconds:>13.1f}{row.memory_mb:>13.0f}"
        )


def _read_apart(estate: str) -> Reading:
    """Serve an estate and read it, each by a process of its own."""
    with served(estate) as (address, thumbprint):
        again = [sys.executable, "-m", "tests.bench.reading", address, thumbprint]
        done = subprocess.run(again, capture_output=True, text=True, check=True, timeout=600)
    return Reading(**json.loads(done.stdout))


@contextmanager
def served(estate: str) -> Iterator[tuple[str, str]]:
    """Serve a new estate by a process of its own until the block ends; yield HOST:PORT and the thumbprint."""
    words = [*PROGRAM, estate, "--port", "0", "--output", "json"]
    with (
        tempfile.TemporaryDirectory() as state,
        subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, env=os.environ | {"XDG_STATE_HOME": state}
        ) as server,
    ):
        try:
            told = _told_by(server)
            yield told["url"].removeprefix("https://").removesuffix("/sdk"), told["thumbprint"]
        finally:
            server.kill()


def _told_by(server: subprocess.Popen[str]) -> Any:
    assert server.stdout is not None
    text = ""
    for line in server.stdout:
        text += line
        if "}" in line:
            return json.loads(text)
    raise SystemExit("the lab does not serve")


if __name__ == "__main__":
    gc.set_threshold(COLLECT_AFTER)
    print(json.dumps(asdict(read_once(*sys.argv[1:3]))))
