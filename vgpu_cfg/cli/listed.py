"""Which commands there are, under which heading help lists them, and which module knows each."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from vgpu_cfg.cli.options import panels


@dataclass(frozen=True, slots=True)
class Listed:
    """A command's line in help, and its module in `cli/commands`, imported when the command is run."""

    name: str
    module: str
    panel: str
    purpose: str
    """The first line of the command's own docstring; a test compares the two."""


LISTED = (
    Listed("validate", "plan", panels.PLAN,
           "Check a plan file by itself, without a vCenter: every fault with its line."),
    Listed("plan", "plan", panels.PLAN, "Show what would change, and why; nothing is changed."),
    Listed("apply", "plan", panels.PLAN, "Apply a plan: show it, ask, carry it out, read back the result."),
    Listed("status", "plan", panels.LOOK,
           "Show what the plan owns, where it runs, what has drifted, and by whose hand."),
    Listed("destroy", "plan", panels.PLAN,
           "Delete the VMs that the plan file names and owns, and their rules."),
    Listed("import", "ownership", panels.PLAN,
           "Make VMs the plan's that are there already, by name and folder; show what apply "
           "would change then."),
    Listed("forget", "ownership", panels.PLAN,
           "Give VMs up: take the plan's marks and rules away from them; they run on as they are."),
    Listed("verify", "verify", panels.CHECK,
           "Check inside hosts and guests that training will work; exit 8 where a check fails, 9 "
           "if it cannot."),
    Listed("explain", "explain", panels.CHECK,
           "Say what a finding's code, an error text or a VM's last failure means, and what to do about it."),
    Listed("inventory", "estate", panels.LOOK,
           "Show hosts, GPUs, NICs and NUMA nodes, who holds them, and what is free."),
    Listed("profiles", "estate", panels.LOOK,
           "List the vGPU profiles of the catalogue: boards, sizes, how many fit on a GPU."),
    Listed("schema", "estate", panels.HAND, "Print the JSON schema of the plan file, for editors and CI."),
    Listed("record", "estate", panels.HAND,
           "Save a vCenter's answers, scrubbed of secrets, for offline planning and for tests."),
    Listed("history", "history", panels.LOOK,
           "Show who ran what, when, from where and how it ended, from any machine."),
    Listed("metrics", "metrics", panels.LOOK,
           "Tell Prometheus of capacity, holders, use, drift and last runs."),
    Listed("usage", "usage", panels.LOOK,
           "Count the GPU-hours that VMs held, from vCenter's power events, as far as they reach."),
    Listed("fit", "fit", panels.LOOK,
           "Count how many more of a profile, or of a VM of a plan file, fit on each host, and "
           "say why no more."),
    Listed("size", "size", panels.LOOK,
           "Estimate which profiles or GPUs a model takes, how long a step lasts, and what it takes of "
           "the room."),
    Listed("rebalance", "rebalance", panels.PLAN,
           "Propose the fewest moves of running VMs after which every VM of a plan fits."),
    Listed("cordon", "upkeep", panels.HOSTS,
           "Keep new VMs off hosts or GPUs, for everybody; what runs there stays."),
    Listed("drain", "upkeep", panels.HOSTS,
           "Empty a host for work on it: cordon it, move its VMs away, and remember where they were."),
    Listed("uncordon", "upkeep", panels.HOSTS,
           "Give hosts or GPUs back that were cordoned, and bring home the VMs that a drain took away."),
    Listed("unlock", "unlock", panels.PLAN,
           "Remove the locks that a run left which has died; without a run, list who has locked what."),
    Listed("runbook", "runbook", panels.HAND,
           "Print the plan as a runbook in Markdown: every step with why, commands, proof and undo."),
    Listed("export", "export", panels.HAND,
           "Write a plan file for VMs and hosts that are there: planning on it changes nothing."),
    Listed("hand-over", "hand_over", panels.HAND,
           "Write the plan's hosts as a host file, an inventory or a pool for another tool."),
    Listed("privileges", "privileges", panels.HAND,
           "Tell which privileges a plan needs at vCenter, on which objects, and write the roles."),
    Listed("lab", "lab", panels.LAB,
           "A simulated vCenter with GPUs, to learn and rehearse on: --server lab:two-a100."),
)  # fmt: skip


class Commands(TyperGroup):
    """All commands: help lists them by their lines; one that is named is imported then."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Loaded()

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - Typer's signature
        """Print the help of all commands without importing one."""
        from vgpu_cfg.cli.output.overview import Row, print_overview

        options: list[Row] = []
        for option in self.get_params(ctx):
            spelled = sorted(option.opts, key=len, reverse=True)
            options.append((spelled[0], " ".join(spelled[1:]), getattr(option, "help", "") or ""))
        panels: dict[str, list[Row]] = {"Options": options}
        for heading in dict.fromkeys(row.panel for row in LISTED):
            panels[heading] = [(row.name, row.purpose) for row in LISTED if row.panel == heading]
        print_overview(self.get_usage(ctx), self.help or "", panels)


class _Loaded(MutableMapping[str, Any]):
    """Commands by name, in the order of help; a module is imported when one of its commands is asked for."""

    def __init__(self) -> None:
        self._modules = {row.name: row.module for row in LISTED}
        self._found: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._found:
            within = typer.Typer()
            import_module(f"vgpu_cfg.cli.commands.{self._modules[name]}").register(within)
            group: Any = typer.main.get_group(within)
            self._found |= group.commands
        return self._found[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._found[name] = command

    def __delitem__(self, name: str) -> None:
        del self._modules[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)
