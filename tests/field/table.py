"""The cases of the tables in `cases/`, by name.

    a-name:
      source: the public report
      happened: what happened there, in our own words
      first: what came before anybody looked at the code: right, wrong, misled or nothing
      open: why it is not right yet; without it, it is
      files: {estate.yaml: {…}, plan.yaml: {…}}
      runs:
      - run: plan plan.yaml
        exit: 0
        says: [texts of standard output and error, line breaks folded]
        never: [texts that must not be there]

An estate gets `about` from the case. `by_hand` in place of `run` names a function of `hands.py`.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict
from ruamel.yaml import YAML

from vgpu_cfg.documents import dump

HERE = Path(__file__).parent


class Run(BaseModel):
    """A command with its expected result, or a manual change in vCenter."""

    model_config = ConfigDict(extra="forbid")
    run: str | list[str] = ""
    by_hand: str = ""
    exit: int | None = None
    says: list[str] = []
    never: list[str] = []


class Case(BaseModel):
    """One report."""

    model_config = ConfigDict(extra="forbid")
    source: str
    happened: str
    first: str
    open: str = ""
    files: dict[str, dict[str, Any]] = {}
    environment: dict[str, str] = {}
    runs: list[Run]

    def write(self, folder: Path) -> None:
        """Write the files of the case."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            whole = {"about": self.happened, **content} if "clusters" in content else content
            path.write_text(dump(whole), encoding="utf-8")


@cache
def cases() -> dict[str, Case]:
    """Return every case of every table."""
    found: dict[str, Case] = {}
    for path in sorted((HERE / "cases").glob("*.yaml")):
        for name, row in YAML(typ="safe").load(path.read_text(encoding="utf-8")).items():
            assert name not in found, name
            found[name] = Case.model_validate(row)
    return found


def count() -> str:
    """Say how many cases were tried, and were right at first and now."""
    found = list(cases().values())
    first = Counter(one.first for one in found)["right"]
    return f"{len(found)} tried, {first} right at first, {sum(not one.open for one in found)} right now"
