"""What it takes until a command answers: CPU seconds, and modules, which are the same on every machine."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

PROGRAM = "from vgpu_cfg.__main__ import main; main()"
COUNTED = f"""
import atexit, sys
own = lambda: [name for name in sys.modules if name.partition(".")[0] == "vgpu_cfg"]
atexit.register(lambda: print(len(own()), len(sys.modules), file=sys.stderr))
{PROGRAM}
"""
COMMANDS = (
    "--help",
    "validate examples/four-10c.yaml",
    "explain VG107",
    "plan examples/four-10c.yaml",
    "plan examples/four-10c.yaml --from tests/recorded/recordings/lab-old-api.json.gz",
)


@dataclass(frozen=True, slots=True)
class Start:
    """One line of the table: the least CPU seconds of several starts, and how many modules were loaded."""

    words: str
    seconds: float
    own_modules: int
    modules: int


def print_start_up(starts: int = 7) -> None:
    """Print the table; its first line is what Python itself takes."""
    floor = cpu_seconds([sys.executable, "-c", "pass"], starts)
    print(f"\n{'start-up':68}{'CPU s':>8}{'of python':>11}{'own modules':>13}{'modules':>9}")
    print(f"{'python -c pass':68}{floor:>8.3f}{1:>11.1f}")
    for words in COMMANDS:
        start = measured(words, starts)
        ratio = start.seconds / floor
        print(f"{words:68}{start.seconds:>8.3f}{ratio:>11.1f}{start.own_modules:>13,}{start.modules:>9,}")


def measured(words: str, starts: int) -> Start:
    """Start a command several times."""
    command = [sys.executable, "-c", COUNTED, *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    own, everything = done.stderr.split()[-2:]
    seconds = cpu_seconds([sys.executable, "-c", PROGRAM, *words.split()], starts)
    return Start(words, seconds, int(own), int(everything))


def cpu_seconds(command: Sequence[str], starts: int) -> float:
    """Return the least CPU seconds, user's and system's, that a command took."""
    return min(_once(command) for _ in range(starts))


def _once(command: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(command, capture_output=True, check=False, timeout=120, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
