"""The files that a verification's figures are kept in: a baseline, and a history of one line for each run.

Both are files of the user's choice: they may lie in a repository or on a share, where every machine that
verifies reads the same ones. Nothing is kept on this machine beside them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Literal

from vgpu_cfg.documents import build, read_document
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.verification import Baseline, CheckState, Verification

KIND, FORMAT = "verify-baseline", 1
_ONLY_OWNER_WRITES = 0o644


class BaselineFile(Baseline):
    """A whole file: the figures, and what kind of file it is."""

    kind: Literal["verify-baseline"]
    format: Literal[1]


def read_baseline(path: Path, plan: str) -> Baseline:
    """Read the figures of an earlier run. Raises DocumentError, also for those of another plan."""
    found = build(read_document(path), BaselineFile)
    if found.plan != plan:
        message = f"these are figures of the plan {found.plan!r}, and this one is {plan!r}"
        fault = DocumentFault(str(path), 1, 1, message)
        raise DocumentError([fault], remedy="name the file that `verify --save` wrote for this plan")
    return Baseline(**found.model_dump(include=set(Baseline.model_fields)))


def write_baseline(path: Path, found: Verification) -> bool:
    """Write the figures of a run; False where it has none. Raises DocumentError."""
    from vgpu_cfg.cli.kept.whole_file import write_whole
    from vgpu_cfg.verification import baseline_of

    made = baseline_of(found)
    if not made.figures:
        return False
    data = {"kind": KIND, "format": FORMAT, **made.model_dump(mode="json")}
    write_whole(path, f"{json.dumps(data, indent=2)}\n")
    return True


def add_to_history(path: Path, found: Verification) -> None:
    """Add a line to a file, in one write so that two machines' lines do not mix. Raises DocumentError."""
    from vgpu_cfg.verification import figures_of

    data = {
        "kind": "verify-run",
        "format": FORMAT,
        "plan": found.plan,
        "server": found.server,
        "begun": found.begun.isoformat(),
        "seconds": found.seconds,
        "is_quick": found.is_quick,
        "passes": found.passes,
        "counts": {state.value: len(found.in_state(state)) for state in CheckState},
        "failed": [
            {"code": one.code, "check": one.check, "subject": one.subject.name} for one in found.failed
        ],
        "figures": [figure.model_dump() for figure in figures_of(found.results)],
    }
    line = f"{json.dumps(data, separators=(',', ':'))}\n".encode()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _ONLY_OWNER_WRITES)
        try:
            os.write(handle, line)
        finally:
            os.close(handle)
    except OSError as error:
        fault = DocumentFault(str(path), 1, 1, f"the file cannot be written: {error.strerror or error}")
        raise DocumentError([fault], remedy="name a file in a folder that you may write to") from error
