"""What reading a whole estate takes where the lab is a process of its own: round trips, bytes, CPU, memory.

`python -m tests.bench.reading ADDRESS THUMBPRINT PID` reads once and prints a row as JSON, PID being the
lab's. Each size is read by a process of its own, so that its memory is that of one reading.
"""

from __future__ import annotations

import gc
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat

from vgpu_cfg.__main__ import COLLECT_AFTER
from vgpu_cfg.cli.compose import SystemClock
from vgpu_cfg.model.plan_values import Limits
from vgpu_cfg.ports import ReadScope, Transport
from vgpu_cfg.settings.connection import LAB_PASSWORD, LAB_USER
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.wire.transport import HttpsTransport, Trust

PROGRAM = (sys.executable, "-m", "vgpu_cfg", "lab", "serve")
_MB = 1_000_000
_TOKEN = re.compile(rb"<token[^>]*>([^<]*)</token>")


@dataclass(slots=True)
class Reading:
    """One reading. CPU seconds and memory are this process's.

    `floor_seconds` are those in which the same answers were fetched once more and parsed by expat alone,
    which took `parser_seconds` of them. Meanwhile this process worked `least_cpu_seconds`, and the lab
    `lab_cpu_seconds`.
    """

    hosts: int = 0
    with_gpus: int = 0
    vms: int = 0
    trips: int = 0
    answered_mb: float = 0
    cpu_seconds: float = 0
    seconds: float = 0
    parser_seconds: float = 0
    floor_seconds: float = 0
    least_cpu_seconds: float = 0
    lab_cpu_seconds: float = 0
    memory_mb: float = 0

    @property
    def of_the_floor(self) -> float:
        """The time of the reading in times of the floor."""
        return self.seconds / self.floor_seconds

    @property
    def of_the_least_work(self) -> float:
        """The work of both processes in times of that of the floor: what it is if nothing is done meanwhile.

        Other work on the machine does not change it.
        """
        return (self.lab_cpu_seconds + self.cpu_seconds) / (self.lab_cpu_seconds + self.least_cpu_seconds)


@dataclass
class Counted:
    """A Transport that keeps what was asked, counts what is answered, and can ask it all once more."""

    transport: Transport
    answered: int = 0
    asked: list[tuple[str, str, Mapping[str, str], bytes]] = field(default_factory=list)

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        answer = self.transport.exchange(method, path, headers, body)
        self.asked.append((method, path, headers, body))
        self.answered += len(answer[2])
        return answer

    def close(self) -> None:
        self.transport.close()

    def floor(self) -> tuple[float, float]:
        """Fetch everything again for a bare parser; return the seconds of both, and those of the parser."""
        begun, parser_seconds, token = time.perf_counter(), 0.0, b""
        for method, path, headers, body in self.asked:
            if b"<Login " in body:
                continue
            again = _TOKEN.sub(b"<token>" + token + b"</token>", body)
            answer = self.transport.exchange(method, path, headers, again)[2]
            token = found[1] if (found := _TOKEN.search(answer)) else b""
            parsing = time.process_time()
            expat.ParserCreate().Parse(answer, True)
            parser_seconds += time.process_time() - parsing
        return time.perf_counter() - begun, parser_seconds


def read_once(address: str, thumbprint: str, pid: str) -> Reading:
    """Read everything that is read without a plan."""
    limits = Limits(timeout_seconds=600)
    counted = Counted(HttpsTransport(address, trust=Trust(thumbprint=thumbprint), limits=limits))
    cpu, begun = time.process_time(), time.perf_counter()
    with Session(counted, address, LAB_USER, LAB_PASSWORD) as session:
        found = VCenterReader(session, SystemClock()).read_inventory(ReadScope(for_planning=False))
        spent, seconds = time.process_time() - cpu, time.perf_counter() - begun
        trips = session.round_trips
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        answered = counted.answered
        cpu, lab_cpu = time.process_time(), _cpu_of(pid)
        floor_seconds, parser_seconds = counted.floor()
        least, lab = time.process_time() - cpu, _cpu_of(pid) - lab_cpu
    return Reading(
        hosts=len(found.hosts),
        with_gpus=sum(bool(host.gpus) for host in found.hosts),
        vms=len(found.vms),
        trips=trips,
        answered_mb=answered / _MB,
        cpu_seconds=spent,
        seconds=seconds,
        parser_seconds=parser_seconds,
        floor_seconds=floor_seconds,
        least_cpu_seconds=least,
        lab_cpu_seconds=lab,
        memory_mb=memory / _MB,
    )


def _cpu_of(pid: str) -> float:
    """Return the CPU seconds of a process, as proc(5) has them."""
    user, system = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def print_readings(estates: Iterable[str]) -> None:
    """Print a row for each estate."""
    head = ("round trips", "MB", "CPU s", "expat alone", "x the floor", "x its work", "memory MB")
    print(f"\n{'read':12}{'with GPUs':>12}{'VMs':>7}" + "".join(f"{words:>13}" for words in head))
    for row in map(_read_apart, estates):
        print(
            f"{row.hosts:>6,} hosts{row.with_gpus:>12,}{row.vms:>7,}{row.trips:>13}{row.answered_mb:>13.1f}"
            f"{row.cpu_seconds:>13.1f}{row.parser_seconds:>13.1f}{row.of_the_floor:>13.2f}"
            f"{row.of_the_least_work:>13.2f}{row.memory_mb:>13.0f}"
        )


def _read_apart(estate: str) -> Reading:
    """Serve an estate and read it, each by a process of its own."""
    with served(estate) as (address, thumbprint, pid):
        again = [sys.executable, "-m", "tests.bench.reading", address, thumbprint, str(pid)]
        done = subprocess.run(again, capture_output=True, text=True, check=True, timeout=600)
    return Reading(**json.loads(done.stdout))


@contextmanager
def served(estate: str) -> Iterator[tuple[str, str, int]]:
    """Serve a new estate by a process of its own until the block ends.

    Yields HOST:PORT, the thumbprint, and the process's id.
    """
    words = [*PROGRAM, estate, "--port", "0", "--output", "json"]
    with (
        tempfile.TemporaryDirectory() as state,
        subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, env=os.environ | {"XDG_STATE_HOME": state}
        ) as server,
    ):
        try:
            told = _told_by(server)
            yield told["url"].removeprefix("https://").removesuffix("/sdk"), told["thumbprint"], server.pid
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
    print(json.dumps(asdict(read_once(*sys.argv[1:4]))))
