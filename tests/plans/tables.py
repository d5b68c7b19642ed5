"""What a case leaves out: the tables in `cases/`, and the ordinary words that a plan is filled in with.

README.md beside this file tells how a table is written. A table is read when a case of it is first asked for;
which cases there are is known from the lines at which they begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.plans.estate import PLAN_ID
from vgpu_cfg.documents import read_document
from vgpu_cfg.model.ranges import read_members

Row = Mapping[str, Any]

TABLES = Path(__file__).parent / "cases"

ORDINARY_PLAN: Row = {"version": 1, "name": "demo", "id": PLAN_ID, "vcenter": "vc.example"}
ORDINARY_VM: Row = {
    "template": "ubuntu",
    "cluster": "gpu",
    "folder": "training",
    "cpus": 16,
    "memory": "64GiB",
}
"""What every VM says that says nothing else; a table's `ordinary` goes first, and null leaves a key out."""

INPUTS = ("estate", "plan", "options", "files")
EXPECTED = (
    "findings",
    "placed",
    "started",
    "changes",
    "edits",
    "blocked",
    "in_sync",
    "hosts_in_sync",
    "orphans",
    "one_by_one",
    "canary",
    "unknown",
)
ABOUT = ("about", "ordinary", "estates", "plans")
_CASE = re.compile(r"  ([a-z0-9][a-z0-9.-]*):")
_ADDRESS = re.compile(r"[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_GPU = re.compile(rf"(?P<board>.+?) (?P<pci>{_ADDRESS.pattern})(?: node (?P<node>\d))?(?: (?P<way>\w+))?")
_WAYS: Row = {
    "mig": {"sharing": "mig"},
    "mixed_size": {"mode": "mixed_size"},
    "passthrough": {"passthrough": True},
}


@dataclass(frozen=True, slots=True)
class Case:
    """One case: what comes in, written out, and what is expected, in the words of its table."""

    name: str
    statement: str
    estate: Row
    plan: Row
    options: Row = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    expected: Row = field(default_factory=dict)


def _tables() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in sorted(TABLES.glob("*.yaml")):
        for name in _names(path.read_text(encoding="utf-8")):
            assert name not in found, f"two cases are called {name}: in {found[name].name} and {path.name}"
            found[name] = path
    return found


def _names(text: str) -> Iterator[str]:
    is_statement = False
    for line in text.splitlines():
        if line and line[0] not in " #":
            is_statement = line.partition(":")[0] not in ABOUT
        elif is_statement and (found := _CASE.match(line)):
            yield found[1]


TABLE_OF = _tables()
CASES = tuple(TABLE_OF)


def case_of(name: str) -> Case:
    return _read(TABLE_OF[name])[name]


@cache
def _read(path: Path) -> Mapping[str, Case]:
    rows = read_document(path, name=f"cases/{path.name}").data
    ordinary = {**ORDINARY_VM, **(rows.get("ordinary") or {})}
    estates, plans = rows.get("estates") or {}, rows.get("plans") or {}
    return {
        name: _case(
            name,
            statement,
            row,
            _written_out(_named(row["estate"], estates)),
            _plan(_named(row["plan"], plans), ordinary),
        )
        for statement, cases in rows.items()
        if statement not in ABOUT
        for name, row in cases.items()
    }


def _case(name: str, statement: str, row: Row, estate: Row, plan: Row) -> Case:
    unknown = set(row) - {*INPUTS, *EXPECTED}
    assert not unknown, f"{name}: no case has {', '.join(sorted(unknown))}"
    return Case(
        name=name,
        statement=statement,
        estate=estate,
        plan=plan,
        options=row.get("options") or {},
        files=row.get("files") or {},
        expected={key: row[key] for key in EXPECTED if key in row},
    )


def _named(row: str | Row, known: Row) -> Row:
    """Return what the table has under a name, or what is `like` it but for what it says itself."""
    if isinstance(row, str):
        return _named(known[row], known)
    if "like" not in row:
        return row
    own = {key: value for key, value in row.items() if key != "like"}
    whole: Row = _laid_over(_named(row["like"], known), own)
    return whole


def _laid_over(below: Any, above: Any) -> Any:
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        return above
    return {**below, **{key: _laid_over(below.get(key), value) for key, value in above.items()}}


def _written_out(value: Any, key: str = "") -> Any:
    """Write out ranges of hosts and VMs, addresses (`21:00.0`) and GPUs (`A100 e2:00.0 node 1 mig`)."""
    if isinstance(value, Mapping):
        return {
            name: _written_out(each, name)
            for written, each in value.items()
            for name in (members_of(written) if key in ("hosts", "vms") else [_address(written)])
        }
    if isinstance(value, list):
        return [_gpu(one) if key == "gpus" else _written_out(one) for one in value]
    return _address(value) if isinstance(value, str) else value


def members_of(name: str) -> list[str]:
    """Write a range of names out, as in `s-{1..7}`."""
    return [member.name for member in read_members(name)]


def _address(text: str) -> str:
    return f"0000:{text}" if _ADDRESS.fullmatch(text) else text


def _gpu(row: Any) -> Any:
    found = _GPU.fullmatch(row) if isinstance(row, str) else None
    if found is None:
        return _written_out(row)  # in other words, or the profile of a VM's vGPU
    way = _WAYS[found["way"]] if found["way"] else {}
    return {"board": found["board"], "pci": f"0000:{found['pci']}", "node": int(found["node"] or 0), **way}


def _plan(row: Row, ordinary: Row) -> Row:
    plan: dict[str, Any] = {**ORDINARY_PLAN, **row}
    if "vms" in plan:
        told = plan.get("defaults") or {}
        missing = {key: value for key, value in ordinary.items() if key not in told}
        plan["vms"] = [_without_nulls({"name": None, **missing, **vm}) for vm in plan["vms"]]
    return _without_nulls(plan)


def _without_nulls(row: Row) -> dict[str, Any]:
    return {key: value for key, value in row.items() if value is not None}
