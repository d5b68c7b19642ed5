"""Run command lines with the package of one folder: `python player.py FOLDER < jobs.json > told.jsonl`.

It uses the standard library alone, so it runs with older packages as well. The package is imported once, and
each command is a fork. Two runs of one version must not differ: the clock is frozen, ids and keys are drawn
from a fixed seed, and the user, machine and process are always the same.
"""

from __future__ import annotations

import base64
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
import types
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

Job = dict[str, Any]
START = datetime(2026, 11, 2, 8, 0, tzinfo=UTC).timestamp()
BETWEEN_COMMANDS = 600
LIMIT_SECONDS = 240
"""A command that takes longer is ended: its exit code is then that of a signal, below 0."""
PROCESS = 4_194_300
HEARD = ("exchange", "execute", "write_file", "read_file")
"""Methods of the lab that requests, lines of shell and files arrive at."""
ENVIRONMENT = {
    "COLUMNS": "100",
    "ESXI_PASSWORD": "lab",
    "NO_COLOR": "1",
    "TZ": "UTC",
    "USER": "jane",
    "VGPU_CFG_CONFIG": "config.yaml",
    "VGPU_CFG_LAB_SPEED": "0",
    "VGPU_CFG_STATE_FOLDER": "state",
}
INHERITED = ("PATH", "LANG", "TMPDIR")
_clock = START
_seed = ""
_drawn: dict[int, random.Random] = {}
_wire: list[str] | None = None


def main(folder: str) -> None:
    """Play the jobs on standard input, and print a line of JSON for each."""
    jobs = json.load(sys.stdin)
    sys.path[0] = folder
    fix_surroundings()
    load_package()
    version = importlib.import_module("vgpu_cfg").__version__
    for job in jobs:
        print(json.dumps({**play(job), "package": folder, "version": version}), flush=True)


# ------------------------------------------------------------------ chance


def fix_surroundings() -> None:
    """Fix the clock, chance and the machine, before the package takes hold of them.

    Only a wait moves the clock, so a duration is what was waited for. Random bytes of each length have a
    stream of their own, so another id of one length does not shift those of others.
    """
    os.urandom = random._urandom = _random_bytes  # type: ignore[attr-defined]  # `secrets` asks it
    os.getpid = lambda: PROCESS
    socket.gethostname = lambda: "desk-01"
    time.time = time.monotonic = time.perf_counter = lambda: _clock
    time.time_ns = time.monotonic_ns = time.perf_counter_ns = lambda: int(_clock * 1e9)
    time.sleep = _sleep  # noqa: TID251 - no wait is real here
    _replace(datetime, now=_now, today=_now, utcnow=lambda cls: _now(cls, UTC).replace(tzinfo=None))
    _replace(date, today=lambda cls: cls.fromtimestamp(_clock))


def _random_bytes(size: int) -> bytes:
    return _drawn.setdefault(size, random.Random(f"{_seed} {size}")).randbytes(size)


def _sleep(seconds: Any) -> None:
    global _clock  # noqa: PLW0603 - there is one clock
    _clock += seconds


def _now(cls: type[datetime], tz: Any = None) -> datetime:
    return cls.fromtimestamp(_clock, tz)


def _replace(cls: type, **functions: Callable[..., Any]) -> None:
    """Replace class methods of a class that is written in C: others have imported it by its name."""
    (members,) = gc.get_referents(cls.__dict__)
    for name, function in functions.items():
        members[name] = classmethod(function)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))


# -------------------------------------------------------------------- wire


def load_package() -> None:
    """Import all of the package, so that no fork has to, and listen where requests arrive at the lab."""
    package = importlib.import_module("vgpu_cfg")
    if Path(str(package.__file__)).parents[1] != Path(sys.path[0]):
        raise SystemExit(f"same-as: {package.__file__} was imported, not the package in {sys.path[0]}")
    for found in pkgutil.walk_packages(package.__path__, "vgpu_cfg."):
        if not found.name.startswith("vgpu_cfg.testing"):
            module = importlib.import_module(found.name)
            if f"{found.name}.".startswith("vgpu_cfg.lab."):
                listen_in(module)
    _build_models()
    gc.freeze()
    if "exchange" not in {name for _, name in _listened}:
        raise SystemExit("same-as: no class of vgpu_cfg.lab has a method `exchange`, so no request is heard")


def _build_models() -> None:
    """Let pydantic build its models now: it puts that off until one is first used, in each fork anew."""
    models = list(importlib.import_module("pydantic").BaseModel.__subclasses__())
    for model in models:
        models += model.__subclasses__()
        model.model_rebuild()


_listened: set[tuple[str, str]] = set()


def listen_in(module: types.ModuleType) -> None:
    """Note each call of the methods in HEARD of a module's own classes."""
    for cls in vars(module).values():
        if not isinstance(cls, type) or cls.__module__ != module.__name__:
            continue
        for name in HEARD:
            method = vars(cls).get(name)
            if isinstance(method, types.FunctionType):
                setattr(cls, name, noting(name, method))
                _listened.add((cls.__name__, name))


def noting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that first notes what it is called with."""

    def noted(self: Any, *given: Any, **named: Any) -> Any:
        if _wire is not None:
            _wire.append("\n".join([name, *map(_as_text, given), *map(_as_text, sorted(named.items()))]))
        return method(self, *given, **named)

    return noted


def _as_text(given: Any) -> str:
    if isinstance(given, bytes):
        try:
            return given.decode().replace("><", ">\n<")
        except UnicodeDecodeError:
            return base64.b64encode(given).decode()
    if isinstance(given, dict):
        return "\n".join(f"{name}: {value}" for name, value in sorted(given.items()))
    return str(given)


# ---------------------------------------------------------------- commands


def play(job: Job) -> Job:
    """Run a job's commands one after the other in a new folder; return what they printed, sent and wrote."""
    with tempfile.TemporaryDirectory(prefix="same-as-") as name:
        folder = Path(name).resolve()
        work, home = folder / "work", folder / "home"
        home.mkdir()
        work.mkdir()
        for source, copy in job["folders"]:
            shutil.copytree(source, work / copy, ignore=shutil.ignore_patterns("*.id"))
        _write(job["files"], work)
        told = [_told(command, number, job["name"], folder) for number, command in enumerate(job["commands"])]
        files = _files(folder)
    return {
        "name": job["name"],
        "folder": str(folder),
        "told": told,
        "files": files,
    }


def _write(files: dict[str, str], folder: Path) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def _files(folder: Path) -> dict[str, str]:
    """Return what the files in the folders of a job hold, by path."""
    paths = (path for path in folder.glob("*/**/*") if path.is_file())
    return {str(path.relative_to(folder)): _content(path) for path in paths}


def _told(command: Job, number: int, job: str, folder: Path) -> Job:
    global _clock, _seed  # noqa: PLW0603 - the command is a fork of this process
    _clock = START + number * BETWEEN_COMMANDS
    _seed = f"{job} {number}"
    _drawn.clear()
    paths = {name: folder / f"{number}.{name}" for name in ("out", "err", "wire")}
    _write(command["files"], folder / "work")
    child = os.fork()
    if not child:
        code = 70
        try:
            signal.alarm(LIMIT_SECONDS)
            code = _run(command, folder, paths)
        except BaseException:  # noqa: BLE001 - the fork must not go on as its parent
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {"words": command["words"], "code": code} | {name: _content(path) for name, path in paths.items()}


def _run(command: Job, folder: Path, paths: dict[str, Path]) -> int:
    global _wire  # noqa: PLW0603 - as above
    from vgpu_cfg.__main__ import main as run

    os.chdir(folder / "work")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in enumerate(("out", "err"), 1):
        os.dup2(os.open(paths[name], os.O_WRONLY | os.O_CREAT), number)
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    os.environ.clear()
    os.environ |= kept | ENVIRONMENT | {"HOME": str(folder / "home")} | command["environment"]
    _wire = []
    sys.argv = ["vgpu-cfg", *command["words"]]
    try:
        run()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        paths["wire"].write_text("\n\n".join(_wire), encoding="utf-8")
    return 0


def _content(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="backslashreplace") if path.exists() else ""


if __name__ == "__main__":
    main(sys.argv[1])
