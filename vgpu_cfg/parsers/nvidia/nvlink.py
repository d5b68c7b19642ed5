"""Which NVLinks of each GPU carry traffic: `nvidia-smi nvlink --status`.

Source: nvidia-smi manual page, "nvlink"; public outputs of A100 and H100: a line for each GPU, then
`Link 0: 25 GB/s`, or `Link 0: <inactive>` for one that is down. A vGPU without NVLink lists none.
"""

from __future__ import annotations

import re

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.text import lines_with_content

_GPU = re.compile(r"GPU (?P<gpu>\d{1,3}): .*")
_LINK = re.compile(r"Link \d{1,3}: (?P<state>.*)")


class Lanes(Frozen):
    """The links of one GPU: how many carry traffic, and how many do not."""

    gpu: int
    active: int = 0
    inactive: int = 0


def parse_lanes(text: str) -> tuple[Lanes, ...]:
    """Read the links of each GPU that is listed; other lines are left out."""
    found: list[Lanes] = []
    for line in lines_with_content(text):
        words = line.text.strip()
        if (gpu := _GPU.fullmatch(words)) is not None:
            found.append(Lanes(gpu=int(gpu["gpu"])))
        elif found and (link := _LINK.fullmatch(words)) is not None:
            last = found[-1]
            is_down = "inactive" in link["state"].casefold()
            more = {"inactive": last.inactive + 1} if is_down else {"active": last.active + 1}
            found[-1] = last.model_copy(update=more)
    return tuple(found)
