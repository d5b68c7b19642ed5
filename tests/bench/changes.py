"""What whole commands ask of a vCenter, in round trips: GPU facts, and one VM that is made and changed.

Each is a process of its own on a served lab behind a proxy that counts, as is govc with its commands for the
same; where govc was not built its column is empty. govc keeps its session from one command to the next.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.side_by_side import GOVC, GPU_FACTS, POOL, PROFILE, TEMPLATE, Account, environment_of, lab_of

VMS = 1_000
"""How many VMs the estate has, ten on each host of eight GPUs; the hosts are of four kinds."""
_PLAN = """
version: 1
name: one
vcenter: {address}
vms:
- name: one
  template: {template}
  cpus: 4
  memory: {memory}
  gpus: {profile}
  power: {power}
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question: the plan that is applied for it, None for the facts of GPUs, and govc's commands for it."""

    what: str
    plan: Mapping[str, str] | None
    govc: Sequence[Sequence[str]] = ()


@dataclass(frozen=True, slots=True)
class Trips:
    """How often vCenter was asked; `by_govc` is None where it was not built, or has no such command."""

    what: str
    ours: int
    by_govc: int | None = None


def _of(memory: str, profile: str, power: str) -> Mapping[str, str]:
    return {"memory": memory, "profile": profile, "power": power}


_LARGER = "grid_a100-20c"
QUESTIONS = (
    Asked("GPU facts", None, [["collect", "-json", "-type", "h", "/", *GPU_FACTS]]),
    Asked(
        "one VM made and started",
        _of("16GiB", PROFILE, "on"),
        [
            ["vm.clone", "-vm", TEMPLATE, "-on=false", "-c", "4", "-m", "16384", "-pool", POOL, "by-govc"],
            ["vm.change", "-vm", "by-govc", "-memory-pin"],
            ["gpu.vm.add", "-vm", "by-govc", "-profile", PROFILE],
            ["vm.power", "-on", "by-govc"],
        ],
    ),
    Asked("nothing to do", _of("16GiB", PROFILE, "on")),
    Asked(
        "memory of one that runs",
        _of("24GiB", PROFILE, "on"),
        [
            ["vm.power", "-off", "by-govc"],
            ["vm.change", "-vm", "by-govc", "-m", "24576"],
            ["vm.power", "-on", "by-govc"],
        ],
    ),
    Asked("one switched off", _of("24GiB", PROFILE, "off"), [["vm.power", "-off", "by-govc"]]),
    Asked(
        "memory of one that is off",
        _of("32GiB", PROFILE, "off"),
        [["vm.change", "-vm", "by-govc", "-m", "32768"]],
    ),
    Asked(
        "profile of one that is off",
        _of("32GiB", _LARGER, "off"),
        [
            ["gpu.vm.remove", "-vm", "by-govc"],
            ["gpu.vm.add", "-vm", "by-govc", "-profile", _LARGER],
        ],
    ),
)


def print_changes() -> None:
    """Print what each command asks."""
    print(f"\n{'round trips':32}{'vgpu-cfg':>10}{'govc':>8}")
    for row in measure_changes():
        by_govc = "" if row.by_govc is None else row.by_govc
        print(f"{row.what:32}{row.ours:>10}{by_govc:>8}")


def measure_changes(vms: int = VMS) -> Iterator[Trips]:
    """Yield what each command asks, one after the other on one estate."""
    with tempfile.TemporaryDirectory() as folder, lab_of(vms) as account:
        environment = environment_of(account, Path(folder))
        for asked in QUESTIONS:
            own = [sys.executable, "-m", "vgpu_cfg", *_words(asked, account, Path(folder))]
            ours = _count([own], environment, account)
            commands = [[str(GOVC), *words] for words in asked.govc]
            is_there = bool(commands) and GOVC.is_file()
            yield Trips(asked.what, ours, _count(commands, environment, account) if is_there else None)


def _words(asked: Asked, account: Account, folder: Path) -> list[str]:
    if asked.plan is None:
        return ["inventory", "--gpus", "--output", "json"]
    path = folder / "one.yaml"
    text = _PLAN.format(address=account.proxy.address, template=TEMPLATE, **asked.plan)
    path.write_text(text, encoding="utf-8")
    return ["apply", "--yes", "--allow-power-cycle", str(path)]


def _count(commands: Sequence[Sequence[str]], environment: Mapping[str, str], account: Account) -> int:
    account.proxy.taken()
    for words in commands:
        done = subprocess.run(
            words,
            env=environment,
            cwd=environment["HOME"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(words[1:])}: {done.stdout[-800:]}{done.stderr[-800:]}")
    return account.proxy.taken().requests
