"""Error texts of public reports by which `explain` is measured, and what precision and recall come to.

`first.toml` was measured before rows were added, and the rows were mended by it. `held_out.toml` was
collected after that, and measured before anything was changed by it. `third.toml`, `fourth.toml`,
`fifth.toml`, `sixth.toml`, `seventh.toml`, `eighth.toml` and `ninth.toml` followed in the same way; half of
the sixth are near misses. Half of `tenth.toml` is from the sources of NCCL, Slurm and Linux.
`eleventh.toml`, `twelfth.toml`, `thirteenth.toml` and `fourteenth.toml` have texts of issues.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from vgpu_cfg.knowledge.faults import explain_text

HERE = Path(__file__).parent
SETS = (
    "first",
    "held_out",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
    "thirteenth",
    "fourteenth",
)


class FreshText(BaseModel):
    """A text with its true cause, and the rows that give it.

    With `unknown`, the report has no cause or is about another product: only no answer is right.
    `first` is the answer when the text was first tried.
    """

    model_config = ConfigDict(extra="forbid")
    says: str
    source: str
    cause: str
    first: str
    rows: list[str] = []
    unknown: bool = False

    @property
    def answer(self) -> str:
        """What `explain` answers now: right, wrong, or none."""
        keys = {found.explanation.key for found in explain_text(self.says)}
        if not keys:
            return "right" if self.unknown else "none"
        return "right" if keys <= set(self.rows) else "wrong"


@cache
def texts(name: str) -> tuple[FreshText, ...]:
    """Return the texts of a set."""
    found = tomllib.loads((HERE / f"{name}.toml").read_text(encoding="utf-8"))["texts"]
    return tuple(FreshText.model_validate(one) for one in found)


def unrelated() -> list[str]:
    """Return the lines that are about nothing that `explain` knows."""
    lines = (HERE / "unrelated.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def measured(name: str, *, at_first: bool = False) -> tuple[float, float]:
    """Return precision (right of all answers) and recall (of all texts with a known cause)."""
    answers = [(one, one.first if at_first else one.answer) for one in texts(name)]
    right = sum(answer == "right" and not one.unknown for one, answer in answers)
    wrong = sum(answer == "wrong" for _, answer in answers)
    return right / max(1, right + wrong), right / sum(not one.unknown for one in texts(name))


def summary() -> list[str]:
    """Say precision and recall of each set, at first and now."""
    lines = []
    for name in SETS:
        (then, then_known), (now, now_known) = measured(name, at_first=True), measured(name)
        lines.append(
            f"explain, {name.replace('_', ' ')}: {len(texts(name))} texts, precision {now:.2f}, "
            f"recall {now_known:.2f} (at first {then:.2f} and {then_known:.2f})"
        )
    return lines
