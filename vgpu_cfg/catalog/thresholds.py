"""The default bandwidths that `verify` requires, if a plan or command line sets none: profiles/verify.

Belief: healthy-share-of-line-rate.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pydantic import Field

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
    package = Path(__file__).parents[1]
    for folder in (package / "_profiles", package.parent / "profiles"):  # installed; a source checkout
        path = folder / "verify" / "thresholds.yaml"
        if path.is_file():
            found = build(read_document(path), ThresholdFile)
            return Thresholds(**found.model_dump(include=set(Thresholds.model_fields)))
    raise FileNotFoundError(f"the thresholds are missing from {package}: reinstall vgpu-cfg")
