"""Requests about images of clusters and the lab's answers agree with the types of VMware's Automation SDK."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.test_images import ESXI, Images, draft
from vgpu_cfg.lab.vcenter import Lab

pytestmark = pytest.mark.long("the types of the Automation SDK: script/build-automation-sdk fetches them")

HERE = Path(__file__).resolve().parent
PYTHON = HERE.parents[2] / ".cache" / "automation-sdk" / "env" / "bin" / "python"
OF_IMAGES = ("/api/esx/settings/", "/api/cis/tasks")
SOFTWARE = "com.vmware.esx.settings.clusters.software"

Exchange = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The operations that the SDK recognizes among exchanges, and the faults that it finds."""

    operations: tuple[str, ...] = field(default=())
    faults: tuple[str, ...] = field(default=())


def judge(exchanges: list[Exchange]) -> Verdict:
    if not PYTHON.exists():
        pytest.skip("the Automation SDK is not there: run script/build-automation-sdk")
    ran = subprocess.run(
        [str(PYTHON), str(HERE / "judge.py")],
        input=json.dumps(exchanges),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    return Verdict(tuple(found["operations"]), tuple(found["faults"]))


def kept(patch: pytest.MonkeyPatch) -> list[Exchange]:
    """Keep every exchange about images from now on."""
    found: list[Exchange] = []
    exchange = Lab.exchange

    def keep(lab: Lab, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Any:
        status, more, answer = exchange(lab, method, url, headers, body)
        if url.startswith(OF_IMAGES):
            sent, said = (json.loads(one) if one else None for one in (body, answer))
            found.append({"method": method, "url": url, "body": sent, "status": status, "answer": said})
        return status, more, answer

    patch.setattr(Lab, "exchange", keep)
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> list[Exchange]:
    """The exchanges of a whole upgrade: with a draft to replace, an invalid draft, and a refusal."""
    with pytest.MonkeyPatch.context() as patch:
        images = Images(CommandLine(tmp_path_factory.mktemp("judged"), patch))
        left = draft(owner="VSPHERE.LOCAL\\administrator", **images.image.components)
        images.change(lambda image: image.drafts.update({"7": left}))
        images.change(lambda image: image.conflicts.update({"NVD-AIE-800": "It does not fit."}))
        found = kept(patch)
        assert images.run("apply", "--yes", "plan.yaml").code == 6
        images.change(lambda image: image.conflicts.clear())
        images.run.script(images.estate, lacking=["VcIntegrity.lifecycleSoftwareSpecification.Read"])
        assert images.run("apply", "--yes", "plan.yaml").code != 0
        images.run.script(images.estate)
        images.run.done("apply", "--yes", "plan.yaml")
        images.run.write("esxi.yaml", ESXI.replace("ESTATE", images.estate).replace("BUILD", "24280767"))
        images.run.done("apply", "--yes", "esxi.yaml")
    return found


def test_the_sdk_knows_all_that_is_sent_and_answered(run: list[Exchange]) -> None:
    verdict = judge(run)
    assert verdict.faults == ()
    assert {one["method"] for one in run} == {"GET", "POST", "PATCH", "PUT", "DELETE"}
    assert {f"{SOFTWARE} apply$task", f"{SOFTWARE} check$task"} <= set(verdict.operations)
    assert {f"{SOFTWARE}.drafts commit$task", f"{SOFTWARE}.drafts validate$task"} <= set(verdict.operations)
    assert {one["status"] for one in run} >= {200, 201, 202, 204, 403}


def _edit(method: str, end: str, change: Callable[[Exchange], Any]) -> Callable[[list[Exchange]], Exchange]:
    def edited(run: list[Exchange]) -> Exchange:
        found = next(one for one in run if one["method"] == method and end in one["url"])
        copied: Exchange = json.loads(json.dumps(found))
        change(copied)
        return copied

    return edited


SPOILT: Mapping[str, tuple[Callable[[list[Exchange]], Exchange], str]] = {
    "a path": (
        _edit("GET", "/compliance", lambda one: one.update(url=f"{one['url']}s")),
        "no such operation",
    ),
    "a parameter": (
        _edit("GET", "/compliance", lambda one: one.update(url=f"{one['url']}?now=1")),
        "no parameters",
    ),
    "a field that is sent": (
        _edit("POST", "action=apply", lambda one: one["body"].update(accept_EULA=True)),
        "ApplySpec has no field accept_EULA",
    ),
    "a type that is sent": (
        _edit("POST", "action=apply", lambda one: one["body"].update(hosts="host-1")),
        "body: ",
    ),
    "a status": (_edit("POST", "action=apply", lambda one: one.update(status=200)), "status 200"),
    "a value that is answered": (
        _edit("GET", "/compliance", lambda one: one["answer"].update(impact="BIG")),
        "ComplianceImpact has no value BIG",
    ),
    "a field that is missing": (
        _edit("GET", "/compliance", lambda one: one["answer"].pop("scan_time")),
        "scan_time",
    ),
    "an operation of a task": (
        _edit("GET", "/cis/tasks/", lambda one: one["answer"].update(operation="apply")),
        "has no apply",
    ),
    "an error": (
        _edit("GET", "/software", lambda one: one.update(status=400, answer={"error_type": "TOO_LATE"})),
        "error TOO_LATE",
    ),
}


def test_the_sdk_refuses_what_is_spoilt(run: list[Exchange]) -> None:
    verdict = judge([spoil(run) for spoil, _ in SPOILT.values()])
    for name, (_, said) in SPOILT.items():
        assert any(said in fault for fault in verdict.faults), f"{name}: {verdict.faults}"
