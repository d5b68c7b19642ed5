"""Which files are broken, how many of each kind, and which command is given each."""

from __future__ import annotations

import gzip
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.faults.mutated.mutations import mutated

ROOT = Path(__file__).resolve().parents[3]
SEED = 15
PLAN = "version: 1\nname: p\nvcenter: lab:two-a100\nvars: {net: a, x: b}\n"
WITH_USER_DATA = PLAN + "vms: [{name: a, template: t, guest: {user_data: user.yaml}}]\n"
USER_DATA = (
    "#cloud-config\nusers: [default, {name: ada}]\nruncmd: [[ls]]\n"
    "write_files:\n- {path: /etc/motd, content: hi}\n"
)
CONFIG = (
    "current: lab\ncontexts:\n"
    "  lab: {server: 'lab:two-a100', user: a@b, protect: {names: [x*]}, change_pattern: 'C.*'}\n"
    "  prod: {server: vc.example.com, user: a, password: env:X, timeout_seconds: 5, thumbprint: 'aa:bb'}\n"
)
ID = "# The id of the plan.\n7c1f0a52-3b44-4d0e-9b6e-0f2a5d8c1e01\n"
FIXED: Mapping[str, str] = {"plan.yaml": PLAN, "with-user-data.yaml": WITH_USER_DATA}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file: its name when it is tried, the commands that read it, and its share of all."""

    file: str
    commands: Sequence[Sequence[str]]
    share: int


KINDS: Mapping[str, Kind] = {
    "plan": Kind("tried.yaml", [["validate", "tried.yaml"]] * 9 + [["plan", "tried.yaml"]], 60),
    "variables": Kind("vars.yaml", [["validate", "plan.yaml", "--vars", "vars.yaml"]], 5),
    "user data": Kind("user.yaml", [["validate", "with-user-data.yaml"]], 5),
    "id": Kind("plan.yaml.id", [["validate", "plan.yaml"]], 3),
    "config": Kind("config.yaml", [["inventory"]], 6),
    "estate": Kind("estate.yaml", [["inventory", "--server", "lab:estate.yaml"]], 6),
    "saved plan": Kind("saved.json", [["validate", "saved.json"], ["apply", "--yes", "saved.json"]], 6),
    "recording": Kind("r.json.gz", [["inventory", "--from", "r.json.gz"]], 5),
    "journal": Kind(
        "state/journals/p-00000000-20261123T040000Z.jsonl",
        [["history", "--server", "lab:two-a100"], ["runbook", "plan.yaml", "--as-run"]],
        4,
    ),
}


@cache
def originals(folder: Path) -> Mapping[str, Sequence[bytes]]:
    """Return the files that are broken, by kind; those that commands write lie in a folder."""

    def of(*patterns: str) -> list[bytes]:
        paths = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
        return [path.read_bytes() for path in paths]

    return {
        "plan": of("examples/*.yaml", "tests/malformed/*.yaml", "tests/cli/plans/*.yaml"),
        "variables": [b"net: dvs-train\nx: 1\n", b'{"net": "a", "x": 2}'],
        "user data": [USER_DATA.encode(), *of("tests/malformed/parts/user-data-*.yaml")],
        "id": [ID.encode()],
        "config": [CONFIG.encode()],
        "estate": of("vgpu_cfg/lab/estates/*a100*.yaml", "tests/cli/estates/*.yaml"),
        "saved plan": [(folder / "saved.json").read_bytes()],
        "recording": [(folder / "r.json").read_bytes()],
        "journal": [path.read_bytes() for path in sorted((folder / "journals").glob("*.jsonl"))],
    }


@dataclass(frozen=True, slots=True)
class Input:
    """One broken file and the command that reads it."""

    kind: str
    file: str
    content: bytes
    command: Sequence[str]


def make_input(index: int, folder: Path) -> Input:
    """Make the n-th input: the same one on every machine."""
    luck = random.Random(f"{SEED}:{index}")  # noqa: S311 - no secret follows from it
    name = luck.choices(list(KINDS), [kind.share for kind in KINDS.values()])[0]
    known = originals(folder)
    content = mutated(luck.choice(known[name]), known[luck.choice(list(known))], luck)
    kind = KINDS[name]
    if name == "recording":
        packed = gzip.compress(content, compresslevel=1, mtime=0)
        content = packed if luck.random() < 0.8 else mutated(packed, [b"x"], luck)
    return Input(name, kind.file, content, luck.choice(kind.commands))
