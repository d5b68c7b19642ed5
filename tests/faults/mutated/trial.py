"""How broken files are tried: a process for many of them, another where one has ended it, results kept."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from tests.faults.mutated.inputs import ROOT

KEPT = ROOT / ".cache" / "mutated-inputs"
CHUNK = 500


def try_inputs(originals: Path, first: int, last: int) -> Iterator[dict[str, Any]]:
    """Yield what became of each input from the first to the one before the last."""
    while first < last:
        command = [sys.executable, "-m", "tests.faults.mutated.child", str(originals), str(first), str(last)]
        begun: dict[str, Any] = {}
        with (
            TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints,
            subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=complaints, text=True
            ) as child,
        ):
            for line in child.stdout or ():
                told = json.loads(line)
                first = told["index"] + 1
                if told["wrong"] == "begun":
                    begun = told
                else:
                    begun = {}
                    yield told
            code = child.wait(timeout=120)
            complaints.seek(0)
            complaint = complaints.read()[-1000:]
        if begun:
            yield {**begun, "wrong": f"it was ended ({code}): {complaint}"}
        elif code:
            raise AssertionError(f"the process did not begin: {complaint}")


def try_chunk(originals: Path, first: int) -> Sequence[dict[str, Any]]:
    """Return what became of a chunk of inputs, tried now or before with the same code."""
    path = KEPT / f"{_code()}-{first:05}.json"
    if path.exists():
        return list(json.loads(path.read_text(encoding="utf-8")))
    found = list(try_inputs(originals, first, first + CHUNK))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found), encoding="utf-8")
    return found


@cache
def _code() -> str:
    """Return a digest of the program and of what breaks the files."""
    digest = hashlib.sha256()
    for folder in (ROOT / "vgpu_cfg", Path(__file__).parent, ROOT / "examples", ROOT / "tests" / "malformed"):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
