"""The output of `ib_write_bw --report_gbits`: its table, and whether it really used GPU memory.

Source: linux-rdma/perftest, `src/perftest_parameters.c` and issues 61 and 241: builds without CUDA took
`--use_cuda` without a word, so that only "allocated GPU buffer" proves it. With `-D` the peak is 0. The table
may contain a warning on CPU frequencies; blanks and tabs separate the columns.

Belief: rdma-tool-output, perftest-early-client.
"""

from __future__ import annotations

import re

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.text import ToolFailed, UnreadableOutput, lines_with_content

WRITE_BW = "ib_write_bw --report_gbits"

_ROW = re.compile(r"\d{1,12}(?:\s+\d+(?:\.\d+)?){4,6}")
_HEADER = re.compile(
    r"#bytes\s+#?iterations\s+BW peak\[(?P<peak>[^\]]+)\]\s+BW average\[(?P<unit>[^\]]+)\].*"
)
_FAILURES = (
    "Couldn't connect",
    "Unable to",
    "Failed to",
    "Unexpected CM event",
    "IB device",
    "Device not",
    "Port number",
    "Completion with error",
    "Couldn't",
    "ib_write_bw:",
    "unrecognized option",
    "Parser function exited",
    "Did not detect devices",
)
_NO_INLINE = "Device not recognized to implement inline feature"


class Bandwidth(Frozen):
    """The last row of a table, in Gb/s. `used_gpu` is whether buffers were in GPU memory."""

    average_gbps: float
    used_gpu: bool = False


def parse_bandwidth(text: str) -> Bandwidth:
    """Read the table that the client prints.

    Raises ToolFailed with perftest's own message if it measured nothing, UnreadableOutput for a table in
    another unit than Gb/s and for any other text.
    """
    lines = lines_with_content(text)
    rows: list[tuple[str, ...]] = []
    header: re.Match[str] | None = None
    for line in lines:
        words = line.text.strip()
        if (found := _HEADER.fullmatch(words)) is not None:
            header = found
        elif header is not None and _ROW.fullmatch(words):
            rows.append(tuple(words.split()))
    if header is not None and header["unit"] != "Gb/sec":
        raise UnreadableOutput(WRITE_BW, "unit is not Gb/sec", line=header.group())
    if not rows:
        failed = [
            line
            for line in lines
            if any(word in line.text for word in _FAILURES) and _NO_INLINE not in line.text
        ]
        if failed:
            raise ToolFailed(WRITE_BW, line=failed[0].text, number=failed[0].number)
        raise UnreadableOutput(WRITE_BW, "no result", line=lines[-1].text if lines else "")
    _, _, _, average, *_ = rows[-1]
    used_gpu = any("allocated GPU buffer" in line.text for line in lines)
    return Bandwidth(average_gbps=float(average), used_gpu=used_gpu)


def lacks_cuda(text: str) -> bool:
    """Whether perftest said that it was built without CUDA, or cannot use it here."""
    return any(
        words in text
        for words in (
            "unrecognized option '--use_cuda",
            "unrecognized option: use_cuda",
            "not supported CUDA",
            "Unsupported memory type",  # 24.01 and later: the option is parsed, the memory is not compiled in
        )
    )
