"""What /opt/vgpu-cfg/nccl.env of a guest says: variables that are set, and why one is not."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.errors import UnreadableOutput

SETTINGS = "/opt/vgpu-cfg/nccl.env"

_LINE = re.compile(r"export ([A-Z][A-Z0-9_]*)=(.*)")
_REMARK = re.compile(r"# (NCCL_[A-Z0-9_]*): (.*)")


class NcclSettings(Frozen):
    """The variables, and by variable why it is left out."""

    variables: Mapping[str, str]
    remarks: Mapping[str, str]


def parse_nccl_settings(text: str) -> NcclSettings:
    """Read the file. Raises `UnreadableOutput` for a line that no shell would take as it was meant."""
    variables: dict[str, str] = {}
    remarks: dict[str, str] = {}
    for line in text.splitlines():
        remark = _REMARK.fullmatch(line)
        if remark is not None:
            remarks[remark[1]] = remark[2]
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        try:
            words = shlex.split(found[2]) if found is not None else []
        except ValueError:
            words = []
        if found is None or len(words) > 1 or (found[2] and not words):
            raise UnreadableOutput(SETTINGS, "a line that sets no variable", line=line[:200])
        variables[found[1]] = words[0] if words else ""
    return NcclSettings(variables=variables, remarks=remarks)
