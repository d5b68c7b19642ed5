"""What runs vgpu-cfg by itself: units that systemd takes, a CronJob, and commands that there are."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_help import COMMANDS, options_of
from tests.unit.staging.sandbox import tool
from vgpu_cfg.documents import parse_text

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "nightly"
SCHEMAS = ROOT / ".cache" / "hand-over" / "schemas"
UNITS = sorted(path.name for path in EXAMPLES.iterdir() if path.suffix in (".service", ".timer"))
PROGRAM = "/opt/vgpu-cfg/bin/vgpu-cfg"


def verify(root: Path, **changed: str) -> str:
    """Return what systemd says of the units in a root folder, with the texts of some changed."""
    for name in (PROGRAM, "etc/systemd/system/sysinit.target"):
        place = root / name.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("#!/bin/sh\n" if name == PROGRAM else "[Unit]\n")
        place.chmod(0o755)
    for name in UNITS:
        text = changed.get(name, (EXAMPLES / name).read_text(encoding="utf-8"))
        (root / "etc/systemd/system" / name).write_text(text)
    words = [tool("systemd-analyze"), "verify", f"--root={root}", "--man=no", "--recursive-errors=no", *UNITS]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    return done.stderr + done.stdout + (f"status {done.returncode}" if done.returncode else "")


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    assert verify(tmp_path) == ""


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("vgpu-cfg-drift.service", "Type=oneshot", "Type=onceshot"),
        ("vgpu-cfg-drift.timer", "OnCalendar=*-*-* 03:30:00", "OnCalendar=nightly"),
        ("vgpu-cfg-metrics.service", "KillSignal=SIGINT", "KillSignal=INTERRUPT"),
    ],
)
def test_systemd_refuses_a_unit_that_is_broken(name: str, before: str, after: str, tmp_path: Path) -> None:
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    assert before in text
    assert verify(tmp_path, **{name: text.replace(before, after)}) != ""


def job() -> Any:
    return parse_text((EXAMPLES / "cronjob.yaml").read_text(encoding="utf-8"), "cronjob.yaml").data


def typed() -> Iterator[list[str]]:
    """Yield the commands of units and the CronJob, without the program."""
    for name in UNITS:
        for line in (EXAMPLES / name).read_text(encoding="utf-8").splitlines():
            if line.startswith("ExecStart="):
                program, *words = shlex.split(line.removeprefix("ExecStart="))
                assert program == PROGRAM
                yield words
    (container,) = job()["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    yield container["args"]


def test_what_they_run_can_be_typed() -> None:
    found = list(typed())
    assert len(found) == 4
    for command, *words in found:
        used = {word.partition("=")[0] for word in words if word.startswith("-")}
        assert command in COMMANDS
        assert used <= options_of(command)


def test_the_cronjob_runs_as_the_image_does() -> None:
    recipe = (ROOT / "Containerfile").read_text(encoding="utf-8")
    pod = job()["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    user, group = pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]
    assert f"USER {user}:{group}\n" in recipe
    mounted = {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert {"/config", "/state"} <= mounted
    named = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    assert named == {one["name"] for one in pod["volumes"]}


def test_kubernetes_knows_every_key_of_the_pod() -> None:
    """The schema of a pod is that in the MPI operator's definition, which holds the whole of one."""
    file = SCHEMAS / "mpijob.yaml"
    if not file.is_file():
        pytest.skip("nobody looked: script/build-hand-over fetches the schema of a pod")
    (version,) = parse_text(file.read_text(encoding="utf-8"), "mpijob.yaml").data["spec"]["versions"]
    replicas = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["mpiReplicaSpecs"]
    pod = replicas["additionalProperties"]["properties"]["template"]["properties"]["spec"]
    spec = job()["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert list(unknown(spec, pod, "spec")) == []
    assert list(unknown(spec | {"restartpolicy": "Never"}, pod, "spec")) == ["spec.restartpolicy"]
    assert list(unknown(spec | {"restartPolicy": 1}, pod, "spec")) == ["spec.restartPolicy: int"]


KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}


def unknown(value: Any, schema: Any, place: str) -> Iterator[str]:
    """List what a value has that its schema does not."""
    kinds = (int, str) if schema.get("x-kubernetes-int-or-string") else KINDS[schema["type"]]
    if not isinstance(value, kinds):
        yield f"{place}: {type(value).__name__}"
    elif isinstance(value, dict):
        for key, inner in value.items():
            below = schema.get("properties", {}).get(key) or schema.get("additionalProperties")
            if below is None:
                yield f"{place}.{key}"
            else:
                yield from unknown(inner, below, f"{place}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from unknown(inner, schema["items"], f"{place}[]")
