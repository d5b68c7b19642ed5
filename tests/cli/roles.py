"""Roles that `vgpu-cfg privileges` tells, given to an account of the lab, whole or short of a privilege."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from tests.cli.command_line import CommandLine
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import Host, LabState
from vgpu_cfg.lab.state.roles import Permission, Role

ACCOUNT = "vgpu-cfg@vsphere.local"
Pair = tuple[str, str]
"""An object's moid and a privilege on it."""


class Given:
    """The roles of one command for one plan, as `privileges --output json` tells them."""

    def __init__(self, vgpu_cfg: CommandLine, *words: str | Path) -> None:
        self.roles = json.loads(vgpu_cfg.done("privileges", *words, "--output=json").out)["roles"]

    def pairs(self) -> Iterator[Pair]:
        """Yield each privilege on each object."""
        for role in self.roles:
            for target in role["objects"]:
                yield from ((target["moid"], privilege["id"]) for privilege in role["privileges"])

    def path(self, moid: str) -> str:
        """Return the path of an object."""
        return next(
            str(target["path"]) for role in self.roles for target in role["objects"] if target["moid"] == moid
        )

    def give(self, vgpu_cfg: CommandLine, estate: str, without: Collection[Pair] = ()) -> None:
        """Give the account just these at the lab; whatever it had is taken away."""
        lab = vgpu_cfg.lab(estate)
        with lab.transaction():
            lab.state.roles.clear()
            lab.state.permissions.clear()
        self.add(lab, without)

    def add(self, lab: Simulation, without: Collection[Pair] = ()) -> None:
        """Give the account these at a lab, and leave other accounts their roles."""
        with lab.transaction():
            for role in self.roles:
                for target in role["objects"]:
                    privileges = tuple(
                        privilege["id"]
                        for privilege in role["privileges"]
                        if (target["moid"], privilege["id"]) not in without
                    )
                    number = len(lab.state.roles) + 1
                    lab.state.roles[number] = Role(f"{role['name']}-{number}", privileges)
                    lab.state.permissions.append(
                        Permission(target["moid"], ACCOUNT, number, propagates=target["propagates"])
                    )
            lab.state.touch()


def as_account(words: Sequence[str | Path]) -> tuple[str | Path, ...]:
    """Return a command line as the account types it."""
    return (*words, f"--user={ACCOUNT}")


def written(state: LabState) -> tuple[object, ...]:
    """Return what a run writes: tasks, custom attributes, alarms and locks, services of hosts."""
    running = {
        (host.name, key): service.running
        for host in state.all(Host)
        for key, service in host.services.items()
    }
    return state.tasks, state.custom_values, state.alarms, running
