"""Values that the shell completes: plan files, contexts, estates, hosts, profiles, boards, and check codes.

They come from files of this machine only: no vCenter is asked. Hosts are those of the lab's estate, or those
in the plan file. Without a value here, the shell completes file names.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import get_args

import typer

from vgpu_cfg.cli.options.typed import PLAN_SUFFIXES
from vgpu_cfg.errors import VgpuCfgError

_LAB = "lab:"


def attach(app: typer.Typer) -> None:
    """Let the parameters of an app's commands, also those in groups, complete their values."""
    for group in app.registered_groups:
        if group.typer_instance is not None:
            attach(group.typer_instance)
    for command in app.registered_commands:
        callback = command.callback or attach
        for name, parameter in inspect.signature(callback, eval_str=True).parameters.items():
            for one in get_args(parameter.annotation)[1:]:
                if name in _VALUES and hasattr(one, "autocompletion"):
                    one.autocompletion = _completer(_VALUES[name])
                    # Typer would otherwise make another option of the annotation's text.
                    callback.__annotations__[name] = parameter.annotation


def _completer(values: Callable[[str], Iterable[str]]) -> Callable[..., list[str]]:
    def complete(incomplete: str) -> list[str]:
        try:
            return [value for value in values(incomplete) if value.startswith(incomplete)]
        except (VgpuCfgError, OSError):
            return []  # the command itself reports it

    return complete


def _plan_files(incomplete: str) -> Iterable[str]:
    """Yield folders and plan files below the typed folder; saved plans too."""
    folder, _, _ = incomplete.rpartition("/")
    for path in sorted(Path(folder or ("/" if incomplete.startswith("/") else ".")).iterdir()):
        name = f"{folder}/{path.name}" if "/" in incomplete else path.name
        if path.is_dir() and not path.name.startswith("."):
            yield f"{name}/"
        elif path.suffix in PLAN_SUFFIXES:
            yield name


def _contexts(_: str) -> Iterable[str]:
    from vgpu_cfg.settings.connection import read_config

    return read_config()[0].contexts


def _estates(_: str) -> Iterable[str]:
    from vgpu_cfg.cli.labs import lab_estates

    return [name for name in lab_estates() if "[" not in name]


def _servers(incomplete: str) -> Iterable[str]:
    from vgpu_cfg.settings.connection import read_config

    yield from dict.fromkeys(one.server for one in read_config()[0].contexts.values())
    yield from (f"{_LAB}{name}" for name in _estates(incomplete))


def _hosts(incomplete: str) -> Iterable[str]:
    kind = "host:" if incomplete.startswith("host:") else ""
    return [f"{kind}{name}" for name in _host_names(_typed())]


def _typed() -> list[str]:
    """Return the words of the command line: Typer parses none of them if the last is an option."""
    return (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or "").split()


def _host_names(words: Sequence[str]) -> list[str]:
    from vgpu_cfg.plan_loading import load_plan

    files = (Path(word) for word in words if word.endswith((".yaml", ".yml")))
    plan = next((load_plan(path).desired for path in files if path.is_file()), None)
    said = next((after for word, after in pairwise(words) if word == "--server"), "")
    server = said or (plan.vcenter if plan is not None else "")
    if server.startswith(_LAB):
        from vgpu_cfg.cli.labs import host_names, open_lab_of

        return host_names(open_lab_of(server.removeprefix(_LAB)))
    return [name for entry in (plan.hosts if plan is not None else ()) for name in entry.names]


def _profiles(_: str) -> Iterable[str]:
    from vgpu_cfg.catalog import load_catalog

    return [entry.name for board in load_catalog().boards.values() for entry in board.profiles]


def _codes(_: str) -> Iterable[str]:
    from vgpu_cfg.planning.findings.codes import Code

    return [code.value for code in Code]


_VALUES: Mapping[str, Callable[[str], Iterable[str]]] = {
    "path": _plan_files,
    "plan": _plan_files,
    "context": _contexts,
    "contexts": _contexts,
    "server": _servers,
    "servers": _servers,
    "estate": _estates,
    "estates": _estates,
    "host": _hosts,
    "hosts": _hosts,
    "targets": _hosts,
    "profile": _profiles,
    "what": _codes,
}
"""By the name of a command's parameter."""
