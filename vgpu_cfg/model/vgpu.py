"""The grammar of vGPU names as vSphere writes them, and the words for how a GPU is shared.

    grid_a100-40c                             time-sliced: <prefix>-<GB><series>
    grid_a100-1-5cme                          MIG-backed:  <prefix>-<slices>-<GB><series><suffix>
    nvidia_rtx_pro_6000_blackwell_dc-4-96q    a prefix may hold digits and more than one word

vSphere's name is the driver's type name in lower case with `_` for each space; a
driver name that begins with "GRID" gives `grid_`, one with "NVIDIA" gives `nvidia_`.
The catalog knows the properties of a name on real hardware.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal, Self, TypeAlias, get_args

from pydantic import model_serializer, model_validator

from vgpu_cfg.model.frozen import Frozen

Series: TypeAlias = Literal["A", "B", "C", "Q"]
"""Apps, PC, compute, workstation."""

Suffix: TypeAlias = Literal["", "4", "me", "nome", "meall", "gfx"]
"""A type's features beyond its size. On MIG: one or all media engines, none, or graphics.
Time-sliced: `4` on a B type that trades resolution for displays (`2b4`)."""


class Sharing(StrEnum):
    """How the vGPUs of one GPU share it: by turns, or each on slices of its own."""

    TIME_SLICED = "time_sliced"
    MIG = "mig"


class VgpuMode(StrEnum):
    """Whether all time-sliced vGPUs of one GPU must have the same framebuffer size."""

    SAME_SIZE = "same_size"
    MIXED_SIZE = "mixed_size"


_PREFIX = r"(?:grid|nvidia)_[a-z0-9]+(?:_[a-z0-9]+)*(?:-[a-z][a-z0-9]*)*"
_BARE = re.compile(r"(?:(?P<slices>[1-7])g\.)?(?P<gb>[1-9]\d{0,2})(?:c|gb)", re.IGNORECASE)
_NAME = re.compile(
    rf"(?P<prefix>{_PREFIX})"
    r"(?:-(?P<slices>[1-9]))?"
    r"-(?P<framebuffer_gb>0|[1-9][0-9]{0,3})"
    r"(?P<series>[abcq])"
    r"(?P<suffix>4|me|nome|meall|gfx)?",
    re.ASCII,
)


class VgpuProfile(Frozen):
    """A VM's vGPU type, parsed.

    Plain text represents it in models, and is also the form in which it
    is dumped. `framebuffer_gb` is the number as printed, which NVIDIA rounds: the
    catalog knows the MiB. 0 means the 512 MiB types of old boards.
    """

    prefix: str
    series: Series
    slices: int | None = None
    framebuffer_gb: int
    suffix: Suffix = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a name; ValueError describes the format of names."""
        return cls(**_fields(text))

    @model_validator(mode="before")
    @classmethod
    def _accept_name(cls, data: Any) -> Any:
        return _fields(data) if isinstance(data, str) else data

    @model_validator(mode="after")
    def _has_a_name(self) -> Self:
        if _NAME.fullmatch(self.name) is None or _fields(self.name) != self._parts():
            raise ValueError(f"{self.name!r} is not a valid vGPU name")
        return self

    @model_serializer
    def _dump(self) -> str:
        return self.name

    def _parts(self) -> dict[str, Any]:
        return {field: getattr(self, field) for field in type(self).model_fields}

    @property
    def name(self) -> str:
        """The name as vSphere writes it."""
        slices = f"-{self.slices}" if self.slices is not None else ""
        return f"{self.prefix}{slices}-{self.label}"

    @property
    def label(self) -> str:
        """The part after the prefix and slices: `40c`, `5cme`."""
        return f"{self.framebuffer_gb}{self.series.lower()}{self.suffix}"

    @property
    def sharing(self) -> Sharing:
        return Sharing.TIME_SLICED if self.slices is None else Sharing.MIG

    def __str__(self) -> str:
        return self.name


NAMES_NO_BOARD = " does not include a board"
"""The end of the complaint about a size without a board."""


@lru_cache(maxsize=4096)
def _fields(text: str) -> dict[str, Any]:
    match = _NAME.fullmatch(text)
    if match is None:
        raise ValueError(_complaint(text))
    slices, suffix = match["slices"], match["suffix"] or ""
    if (suffix == "4") is not (slices is None) and suffix:
        where = "a time-sliced" if slices is None else "a MIG-backed"
        raise ValueError(
            f"{text!r} is not a valid vGPU name: {where} profile does not have the suffix {suffix!r}"
        )
    return {
        "prefix": match["prefix"],
        "series": match["series"].upper(),
        "slices": int(slices) if slices else None,
        "framebuffer_gb": int(match["framebuffer_gb"]),
        "suffix": suffix,
    }


def bare_size(text: str) -> tuple[int, bool] | None:
    """Return the GB of a size without a board, and whether it is MIG: 10c, 40GB, 3g.20gb. None for others."""
    found = _BARE.fullmatch(text.strip())
    return found and (int(found["gb"]), found["slices"] is not None)


def _complaint(text: str) -> str:
    """Say why this is no name, from the most likely slip to the general form."""
    spelled = "_".join(text.strip().lower().split())
    if spelled != text and _NAME.fullmatch(spelled):
        return f"in vSphere, the vGPU name {text!r} is spelled {spelled!r}"
    if size := bare_size(text):
        return (
            f"{text!r}{NAMES_NO_BOARD}\nuse {size[0]}GiB for any board, or a name that "
            f"`vgpu-cfg fit {text.strip()} --server ADDRESS` lists"
        )
    if not spelled.startswith(("grid_", "nvidia_")):
        return (
            f"{text!r} is not a valid vGPU name: it must begin with 'grid_' or 'nvidia_', like "
            "'grid_a100-40c'"
        )
    if re.search(r"-[0-9]+$", spelled):
        return (
            f"{text!r} is not a valid vGPU name: the series is missing after the size; use one of "
            f"{', '.join(series.lower() for series in get_args(Series))}"
        )
    return (
        f"{text!r} is not a valid vGPU name: it must end with a size in GB and a series, as in "
        "'grid_a100-40c' (time-sliced) or 'grid_a100-1-5c' (MIG-backed)"
    )
