"""The process that is given broken files, one after another, within hard limits of CPU time and memory.

    python -m tests.faults.mutated.child ORIGINALS FIRST LAST

It says on standard output which input it begins and how that ended, a line of JSON each. Whoever goes
beyond a limit is ended by the system, and its last line tells which input that was.
"""

from __future__ import annotations

import io
import json
import os
import re
import resource
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.faults.mutated.inputs import FIXED, Input, make_input
from vgpu_cfg.cli.app import main
from vgpu_cfg.model.wording import is_obeyed

MOST_CPU_SECONDS = 5
MOST_MEMORY = 1 << 30
MOST_ADDRESSES = 4 << 30
"""Libraries reserve addresses that they never use."""
HANGS = "VGPU_CFG_MUTATED_HANGS_AT"
"""Names an input that never ends, for who tries the limits themselves."""
ENDINGS = {0, 2, 3, 4, 5, 6, 7, 10}
_PLACE = re.compile(r"^\S.*:\d+:\d+: ", re.MULTILINE)


def try_input(one: Input) -> str:
    """Give a file to its command; return what is wrong with the answer, "" where nothing is."""
    for name, text in FIXED.items():
        Path(name).write_text(text, encoding="utf-8")
    path = Path(one.file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(one.content)
    out, err, sys.argv = io.StringIO(), io.StringIO(), ["vgpu-cfg", *one.command]
    code: object = 0
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as ended:
        code = ended.code
    finally:
        path.unlink()
    told = f"{out.getvalue()}{err.getvalue()}"
    if code not in ENDINGS or "Traceback" in told or "a bug in vgpu-cfg" in told:
        return f"exit {code}: {err.getvalue()[-300:]}"
    if code == 3 and not _PLACE.search(err.getvalue()):
        return f"a fault without its place: {err.getvalue()[-300:]}"
    if obeyed := {sign for sign in told if is_obeyed(sign) and sign != "\n"}:
        return f"it showed {sorted(map(ascii, obeyed))}"
    return ""


def run(originals: Path, first: int, last: int) -> None:
    """Try some inputs, and tell of each."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES))
    for index in range(first, last):
        one = make_input(index, originals)
        _tell(index, one, "begun")
        used = resource.getrusage(resource.RUSAGE_SELF)
        before = used.ru_utime + used.ru_stime
        # Whole seconds, counted from the process's beginning.
        resource.setrlimit(resource.RLIMIT_CPU, (int(before) + 1 + MOST_CPU_SECONDS, resource.RLIM_INFINITY))
        while str(index) == os.environ.get(HANGS):
            pass
        wrong = try_input(one)
        if _peak() > MOST_MEMORY:
            wrong = wrong or "it took more than 1 GiB"
        _tell(index, one, wrong)


def _peak() -> int:
    """Return the most memory that this program has had, in bytes.

    `ru_maxrss` counts the process that started it as well: until it calls execve() it is a copy of that.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)[0]) * 1024


def _tell(index: int, one: Input, wrong: str) -> None:
    line = {"index": index, "kind": one.kind, "command": list(one.command), "wrong": wrong}
    sys.__stdout__.write(json.dumps(line) + "\n")  # type: ignore[union-attr]  # there is one
    sys.__stdout__.flush()  # type: ignore[union-attr]  # there is one


if __name__ == "__main__":
    place = Path(sys.argv[1]).resolve()
    numbers = int(sys.argv[2]), int(sys.argv[3])
    with TemporaryDirectory() as work:
        os.chdir(work)
        os.environ |= {
            "VGPU_CFG_STATE_FOLDER": "state",
            "VGPU_CFG_CONFIG": "config.yaml",
            "VGPU_CFG_LAB_SPEED": "0",
        }
        run(place, *numbers)
