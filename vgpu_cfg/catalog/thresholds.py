"""The default bandwidths that `verify` requires, if a plan or command line sets none: profiles/verify.

Belief: healthy-share-of-line-rate.
"""

from __future__ import annotations

from functools import cache

from pydantic import Field

from vgpu_cfg.catalog.data_files import data_path
from vgpu_cfg.documents import build, read_document
from vgpu_cfg.model.verification import Thresholds


class ThresholdFile(Thresholds):
    """A whole file: the thresholds, and what of them is recalled."""

    unproven: dict[str, str] = Field(default_factory=dict)
    sources: dict[str, str]
    date: str


@cache
def load_thresholds() -> Thresholds:
    """Return the thresholds that come with the program."""
    found = build(read_document(data_path("verify", "thresholds.yaml")), ThresholdFile)
    return Thresholds(**found.model_dump(include=set(Thresholds.model_fields)))
