"""What every part of an estate file is made of: mappings without unknown keys, and sizes with a unit."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_SIZE = re.compile(r"(\d+)\s*([MGT])iB")
_FACTOR = {"M": 1, "G": 1024, "T": 1024 * 1024}


def _mib(value: object) -> object:
    if isinstance(value, str):
        found = _SIZE.fullmatch(value.strip())
        if found is None:
            raise ValueError(f"{value!r} is no size: write it like 512MiB, 64GiB or 2TiB")
        return int(found[1]) * _FACTOR[found[2]]
    return value


Size = Annotated[int, BeforeValidator(_mib), Field(gt=0)]
"""Text with a unit (`64GiB`), or whole MiB."""

Room = Annotated[int, BeforeValidator(_mib), Field(ge=0)]
"""The same, which may be none."""


class Part(BaseModel):
    """Any mapping of the file: unknown keys are faults."""

    model_config = ConfigDict(extra="forbid", frozen=True)
