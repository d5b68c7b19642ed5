"""An allreduce over all workers: nccl-tests' table, this tool's own line, and NCCL's transports.

Sources: NVIDIA/nccl-tests, `src/common.cu` and `doc/PERFORMANCE.md` (the column "busbw" appears twice, out of
place and in place; up to 2.11 there was no column "root"; mpirun may prefix every line with
`[1,0]<stdout>:`, `srun -l` with `0: `); NVIDIA/nccl, lines of `NCCL_DEBUG=INFO` in public logs (`via
NET/IB/0/GDRDMA`, `via NET/Socket/0`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Literal

from pydantic import ValidationError

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.text import ToolFailed, UnreadableOutput, lines_with_content

NCCL_TESTS = "all_reduce_perf"
PROBE = "vgpu-cfg allreduce"
PROBE_MARK = "VGPU-CFG-ALLREDUCE "
"""How the one line begins that this tool's own probe prints on rank 0."""

_PREFIX = re.compile(r"^(?:\d{1,6}: *|(?:\[[^\]]*\](?:<\w+>)?:?\s*)+)")
_WRONG = re.compile(r"#\s*Out of bounds values\s*:\s*(?P<count>\d{1,18})\s+(?P<word>OK|FAILED)")
_RANK = re.compile(r"#\s+Rank\s+\d+\s")
_ROW = re.compile(r"\d{1,18}\s+\d{1,18}\s+\w+\s+\w+\s+.*")
_VIA = re.compile(r"NCCL INFO Channel .* via (?P<via>\S+)")
_RECEIVED = re.compile(r"NCCL INFO Channel .*\[receive\] via (?P<via>NET/\S+)")


class AllReduce(Frozen):
    """The result of an allreduce. `busbw_gigabytes` is in GB/s, of the largest size that was tried.

    `is_exact` is whether every number was right; None if they were not checked. `is_on_gpu` is None if
    unknown.
    """

    by: Literal["nccl-tests", "horovod", "torch"]
    ranks: int
    size_bytes: int
    busbw_gigabytes: float
    is_exact: bool | None = None
    is_on_gpu: bool | None = None
    framework: str = ""


def parse_nccl_tests(text: str) -> AllReduce:
    """Read the table of `all_reduce_perf`: the last row, which is of the largest size.

    Raises ToolFailed for the error it ended with, UnreadableOutput if there is no table.
    """
    ranks, rows, wrong = 0, [], None
    failure = ""
    for line in lines_with_content(text):
        words = _PREFIX.sub("", line.text.strip())
        if _RANK.match(words):
            ranks += 1
        elif (found := _WRONG.match(words)) is not None:
            wrong = found["word"] == "FAILED" or int(found["count"]) > 0
        elif _ROW.fullmatch(words):
            rows.append(words.split())
        elif "Test NCCL failure" in words or "Test CUDA failure" in words or "Test failure" in words:
            failure = failure or words
    if not rows:
        if failure:
            raise ToolFailed(NCCL_TESTS, line=failure)
        raise UnreadableOutput(NCCL_TESTS, "no table", line=text.strip()[-200:])
    return AllReduce(
        by="nccl-tests",
        ranks=ranks,
        size_bytes=int(rows[-1][0]),
        busbw_gigabytes=_bus_bandwidth(rows[-1]),
        is_exact=None if wrong is None else not wrong,
        is_on_gpu=True,
    )


def _bus_bandwidth(row: list[str]) -> float:
    """Return the out-of-place busbw; columns are counted from the right, since "root" may be absent.

    Each half of a row is time, algbw, busbw and #wrong; versions that skip in-place print one half.
    """
    halves = (-6, -2) if len(row) >= 12 else (-2,)
    for place in halves:
        try:
            return float(row[place])
        except (ValueError, IndexError):
            continue
    raise UnreadableOutput(NCCL_TESTS, "no busbw", line=" ".join(row))


def parse_probe(text: str) -> AllReduce:
    """Read the line of this tool's own probe in the output of the launcher and the ranks.

    Raises UnreadableOutput where there is none, or more than one.
    """
    lines = [line for line in lines_with_content(text) if PROBE_MARK in line.text]
    if len(lines) != 1:
        raise UnreadableOutput(PROBE, f"{len(lines)} results", line=text.strip()[-200:])
    said = lines[0].text.partition(PROBE_MARK)[2]
    try:
        value: object = json.loads(said)
        if not isinstance(value, Mapping) or value.get("v") != 1:
            raise UnreadableOutput(PROBE, "a result from a different version", line=said)
        return AllReduce.model_validate({"by": "horovod"} | {key: value[key] for key in value if key != "v"})
    except (ValueError, TypeError, ValidationError, RecursionError) as error:
        raise UnreadableOutput(PROBE, "no result", line=said, number=lines[0].number) from error


def transports(text: str) -> frozenset[str]:
    """Return by what NCCL reached other ranks: "NET/IB/GDRDMA", "NET/IB", "NET/Socket", "P2P", "SHM".

    Empty where NCCL_DEBUG=INFO was not set, or NCCL was not used.
    """
    found: set[str] = set()
    for line in lines_with_content(text):
        reported = _VIA.search(line.text)
        if reported is not None:
            parts = [part for part in reported["via"].split("/") if not part.isdigit()]
            found.add("/".join(parts))
    return frozenset(found)


def is_direct(text: str) -> bool | None:
    """Return whether the network reaches GPU memory on every channel; None if NCCL reported no network.

    If NCCL reports a channel's direction, receiving ones count: without NVLink it sends by way of the host's
    memory unless NCCL_NET_GDR_READ is 1.
    """
    received = [found["via"] for found in map(_RECEIVED.search, text.splitlines()) if found is not None]
    reported = received or [via for via in transports(text) if via.startswith("NET")]
    return all("GDRDMA" in via for via in reported) if reported else None
