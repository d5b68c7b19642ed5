"""Carries the Containerfile out on root folders that mmdebstrap makes, where nothing runs containers.

It knows the instructions that the recipe uses, and refuses any other. What this machine needs to reach its
mirrors is lent to the steps, and taken away at the end.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "Containerfile"
STEP_SECONDS = 1800
_LENT = ("http_proxy", "https_proxy", "no_proxy", "PIP_INDEX_URL", "PIP_FIND_LINKS", "PIP_DEFAULT_TIMEOUT")
LENT_CERTIFICATES = "/run/lent-ca.crt"


class UnknownInstructionError(ValueError):
    """The recipe has an instruction that is not known here."""


@dataclass(slots=True)
class Stage:
    """A stage while it is built: its root folder, and what its instructions have said so far."""

    root: Path
    workdir: str = "/"
    env: dict[str, str] = field(default_factory=dict)
    user: str = "0:0"
    volumes: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()

    def described(self) -> str:
        """Say as JSON how the image is run."""
        return json.dumps(
            {
                "env": self.env,
                "user": self.user,
                "workdir": self.workdir,
                "volumes": self.volumes,
                "entrypoint": self.entrypoint,
                "command": self.command,
            }
        )


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a recipe with what follows them, lines that go on put together."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield name, rest.strip()


def build(recipe: Path, base: Path, places: Path) -> Stage:
    """Carry a recipe out, each stage on a copy of `base` below `places`; return the last stage."""
    stages: dict[str, Stage] = {}
    arguments: dict[str, str] = {}
    stage: Stage | None = None
    places.mkdir(parents=True, exist_ok=True)
    for name, rest in instructions(recipe.read_text(encoding="utf-8")):
        if name == "ARG":
            key, _, value = rest.partition("=")
            arguments[key] = value
        elif name == "FROM":
            image, *alias = rest.split()
            if image not in {f"${{{key}}}" for key in arguments}:
                raise UnknownInstructionError(f"FROM {image}: only what an ARG names stands for the base")
            label = alias[1] if alias else "final"
            stage = stages[label] = Stage(places / label)
            subprocess.run(["cp", "-a", str(base), str(stage.root)], check=True, timeout=STEP_SECONDS)  # noqa: S607 - coreutils have it
        elif stage is None:
            raise UnknownInstructionError(f"{name} before FROM")
        else:
            _follow(stage, name, rest, stages, recipe.parent)
    if stage is None:
        raise UnknownInstructionError("no FROM")
    return stage


def _follow(stage: Stage, name: str, rest: str, stages: Mapping[str, Stage], context: Path) -> None:
    match name:
        case "RUN":
            print(f"RUN {rest}", flush=True)  # noqa: T201 - a command prints
            run(stage, ["/bin/sh", "-c", rest], lends=True)
        case "COPY":
            _copy(stage, rest.split(), stages, context)
        case "WORKDIR":
            stage.workdir = rest
            (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        case "ENV":
            stage.env |= dict(pair.split("=", 1) for pair in shlex.split(rest))
        case "USER":
            stage.user = rest
        case "VOLUME":
            stage.volumes = tuple(json.loads(rest))
        case "ENTRYPOINT":
            stage.entrypoint = tuple(json.loads(rest))
        case "CMD":
            stage.command = tuple(json.loads(rest))
        case _:
            raise UnknownInstructionError(name)


def _copy(stage: Stage, words: list[str], stages: Mapping[str, Stage], context: Path) -> None:
    """Copy as an engine does: what a folder holds into the target, files into it where it ends in a slash."""
    source_root = context
    if words[0].startswith("--from="):
        source_root = stages[words.pop(0).removeprefix("--from=")].root
    *sources, target = words
    for source in sources:
        path, place = source_root / source.lstrip("/"), stage.root / target.lstrip("/")
        if path.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(path, place, symlinks=True, dirs_exist_ok=True, ignore=ignored)
        else:
            place = place / path.name if target.endswith("/") else place
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, place)


def run(stage: Stage, words: list[str], *, lends: bool = False) -> str:
    """Run a command in a stage's root as its user, and return what it prints. Raises CalledProcessError."""
    env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp"} | stage.env
    resolver = stage.root / "etc" / "resolv.conf"
    certificates = stage.root / LENT_CERTIFICATES.lstrip("/")
    if lends:
        env |= {name: os.environ[name] for name in _LENT if name in os.environ}
        shutil.copy("/etc/resolv.conf", resolver)
        if authority := os.environ.get("PIP_CERT"):
            shutil.copy(authority, certificates)
            env["PIP_CERT"] = LENT_CERTIFICATES
    script = f"cd {shlex.quote(stage.workdir)} && exec {shlex.join(words)}"
    try:
        done = subprocess.run(
            ["/usr/sbin/chroot", f"--userspec={stage.user}", str(stage.root), "/bin/sh", "-c", script],
            env=env,
            check=True,
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=STEP_SECONDS,
        )
    finally:
        if lends:
            resolver.write_text("", encoding="utf-8")
            certificates.unlink(missing_ok=True)
    return done.stdout


def main() -> None:
    """Build the image's root from `argv[1]`, the base, into the folder `argv[2]`."""
    base, places = map(Path, sys.argv[1:3])
    if re.search(r"\s", str(places)):
        raise SystemExit(f"{places}: a path without blanks is wanted")
    stage = build(RECIPE, base, places)
    (places / "image.json").write_text(stage.described(), encoding="utf-8")


if __name__ == "__main__":
    main()
