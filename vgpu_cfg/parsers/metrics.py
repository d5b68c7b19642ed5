"""Answers of exporters and Prometheus: samples in the text format, and the targets that are up.

Sources: Prometheus, "Exposition formats" and "HTTP API" (instant queries); DCGM exporter's labels (`gpu`,
`UUID`), which this tool's collector of nvidia-smi writes, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from vgpu_cfg.parsers.text import UnreadableOutput, lines_with_content

EXPORTER = "metrics"
QUERY_UP = "query=up"

_SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? +(?P<value>\S+)(?: +-?\d+)?")
_GPU = re.compile(r'\bgpu="(?P<gpu>[^"]*)"')


def gpus_in_metrics(text: str) -> frozenset[str]:
    """Return the GPUs with samples, by their label; empty if there are none."""
    samples = (_SAMPLE.fullmatch(line.text.strip()) for line in lines_with_content(text))
    named = (_GPU.search(one["labels"] or "") for one in samples if one and one["name"].startswith("DCGM_"))
    return frozenset(found["gpu"] for found in named if found is not None)


def names_in_metrics(text: str) -> frozenset[str]:
    """Return the names of all samples. Raises UnreadableOutput where there is none."""
    samples = (_SAMPLE.fullmatch(line.text.strip()) for line in lines_with_content(text))
    names = frozenset(one["name"] for one in samples if one is not None)
    if not names:
        raise UnreadableOutput(EXPORTER, "no metrics", line=text.strip()[:200])
    return names


def parse_up(text: str) -> dict[str, bool]:
    """Read Prometheus' answer to `up`: which targets it reaches. Raises UnreadableOutput."""
    try:
        answer: Any = json.loads(text)
        rows: list[Mapping[str, Any]] = answer["data"]["result"]
        return {str(row["metric"]["instance"]): str(row["value"][1]) == "1" for row in rows}
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise UnreadableOutput(QUERY_UP, "not a query result", line=text.strip()[:200]) from error
