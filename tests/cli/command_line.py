"""The command line run inside the test's process, and the lab looked at from behind."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from vgpu_cfg import execution
from vgpu_cfg.cli import compose
from vgpu_cfg.cli.app import main
from vgpu_cfg.documents import dump
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.simulation.faults import FILE_NAME
from vgpu_cfg.lab.state.inventory import Alarm, Cluster, LabState, VirtualMachine
from vgpu_cfg.lab.vcenter import Lab

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent


def plan_id(number: int) -> str:
    """Return the id that the n-th plan gets which has none."""
    return f"3f0c9a7e-52d1-4b86-9e24-{number:012d}"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command printed and returned."""

    code: int
    out: str
    err: str

    @property
    def told(self) -> str:
        """Standard output and standard error with line breaks and margins folded away."""
        return " ".join(f"{self.out} {self.err}".split())


class CommandLine:
    """Runs `vgpu-cfg` in a folder of its own, where copies of `examples`, `plans` and `estates` lie ready.

    The lab has a virtual clock and lives in `state`. New plans get the ids `plan_id(1)`, `plan_id(2)`, ….
    Runs are jane's, on `machine`.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.state_folder = folder / "state"
        self.machine = "desk-01"
        for name, content in _lying_ready().items():
            if content is None:
                (folder / name).mkdir()
            else:
                (folder / name).write_bytes(content)
        monkeypatch.chdir(folder)
        ids = count(1)
        monkeypatch.setattr(compose, "make_id", lambda: plan_id(next(ids)))
        monkeypatch.setattr(execution, "this_user", lambda: "jane")
        monkeypatch.setattr(execution, "this_machine", lambda: self.machine)
        monkeypatch.setenv("VGPU_CFG_STATE_FOLDER", "state")
        monkeypatch.setenv("VGPU_CFG_CONFIG", "config.yaml")
        monkeypatch.setenv("VGPU_CFG_LAB_SPEED", "0")

    def __call__(self, *words: str | Path, stdin: str | TextIO = "", **environment: str) -> Ran:
        """Run a command; `environment` adds variables for its length."""
        out, err = io.StringIO(), io.StringIO()
        surroundings = _surroundings(["vgpu-cfg", *map(str, words)], stdin, environment)
        with surroundings, redirect_stdout(out), redirect_stderr(err):
            try:
                main()
            except SystemExit as ended:
                code = ended.code
        assert isinstance(code, int), code
        return Ran(code, out.getvalue(), err.getvalue())

    def done(self, *words: str | Path, **environment: str) -> Ran:
        """Run a command that must succeed."""
        ran = self(*words, **environment)
        assert ran.code == 0, f"{' '.join(map(str, words))}: exit {ran.code}\n{ran.out}{ran.err}"
        return ran

    def lab(self, estate: str, clock: VirtualClock | None = None) -> Lab:
        """Open the lab that the commands work on."""
        folder = self.state_folder / "lab" / Path(estate).stem
        return open_lab(estate, folder=folder, clock=clock or VirtualClock())

    def look(self, estate: str) -> Seen:
        """Return what the lab shows now."""
        return Seen.of(self.lab(estate).state)

    def script(self, estate: str, *faults: dict[str, Any], lacking: Sequence[str] = ()) -> None:
        """Write down which faults the lab plays in the commands that follow."""
        folder = self.state_folder / "lab" / Path(estate).stem
        folder.mkdir(parents=True, exist_ok=True)
        text = dump({"faults": list(faults), "lacking": list(lacking)})
        (folder / FILE_NAME).write_text(text, encoding="utf-8")

    def keep_id(self, plan: str | Path) -> None:
        """Put the id file beside a plan file, as the first run of another such folder left it."""
        (self.folder / f"{plan}.id").write_text(f"{plan_id(1)}\n", encoding="utf-8")

    def write(self, name: str, text: str) -> Path:
        """Write a file into the folder that commands run in, and return its name there."""
        (self.folder / name).write_text(text, encoding="utf-8")
        return Path(name)


@cache
def _lying_ready() -> dict[str, bytes | None]:
    """Read what lies ready in every folder once: None for a folder, which comes before what is in it.

    Ids that somebody's runs have left beside plan files are none of it.
    """
    return {
        str(one.relative_to(place.parent)): None if one.is_dir() else one.read_bytes()
        for place in (ROOT / "examples", HERE / "plans", HERE / "estates")
        for one in (place, *sorted(place.rglob("*")))
        if one.suffix != ".id"
    }


@dataclass(frozen=True, slots=True)
class Seen:
    """What can be compared of a lab: its VMs (templates apart), its rules and all that was ever changed.

    Locks come and go; they leave nothing of that otherwise.
    """

    vms: frozenset[str]
    rules: frozenset[str]
    tasks: tuple[str, ...]
    revision: int

    @classmethod
    def of(cls, state: LabState) -> Seen:
        return cls(
            vms=frozenset(vm.name for vm in state.all(VirtualMachine) if not vm.is_template),
            rules=frozenset(rule.name for cluster in state.all(Cluster) for rule in cluster.rules),
            tasks=tuple(state.tasks),
            revision=max(
                *(thing.revision for thing in state.objects.values() if not isinstance(thing, Alarm)),
                *(at for moid, at in state.removed.items() if not moid.startswith(Alarm.moid_prefix)),
            ),
        )


@contextmanager
def _surroundings(argv: list[str], stdin: str | TextIO, environment: dict[str, str]) -> Iterator[None]:
    before = sys.argv, sys.stdin, {name: os.environ.get(name) for name in environment}
    sys.argv, sys.stdin = argv, io.StringIO(stdin) if isinstance(stdin, str) else stdin
    os.environ.update(environment)
    try:
        yield
    finally:
        sys.argv, sys.stdin, values = before
        for name, value in values.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
