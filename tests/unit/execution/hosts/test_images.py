"""Images of clusters: each answer of Lifecycle Manager, and the result of a step.

The errors and calls are compared with stored texts; see `conftest.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.fakes.fake_hosts import FakeHosts
from tests.unit.execution.host_makers import ATS, enter, in_order, only, ref, run
from vgpu_cfg.changes.change import RemediateHost, SetImage
from vgpu_cfg.changes.report import Outcome
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.observed.host_facts import ClusterFacts, ClusterImage, EstateFacts, FactGroup, HostImage
from vgpu_cfg.ports import ImageAction, TaskState, TaskUpdate

CLUSTER, DRIVER, OLD, NEW = "domain-c1", "NVD-AIE-800", "570.1", "580.2"
DIFFERS = HostImage(
    status="NON_COMPLIANT",
    impact="REBOOT_REQUIRED",
    differs={DRIVER: (OLD, NEW)},
    effects=("Reboot the host.",),
)


@dataclass
class FakeImages(FakeHosts):
    """Hosts whose cluster has an image. `loses` are components that a commit drops."""

    image: ClusterImage | None = field(
        default_factory=lambda: ClusterImage(components={DRIVER: OLD}, hosts={"host-1": DIFFERS})
    )
    loses: frozenset[str] = frozenset()
    others: int = 0
    """How often another task is still running when it is asked for."""
    unread: str = ""
    """Why the image cannot be read after the hosts have been checked against it."""
    drafts: dict[str, Mapping[str, str]] = field(default_factory=dict)
    bodies: list[Mapping[str, object]] = field(default_factory=list)

    def read_facts(self, host_moids: Any, groups: frozenset[FactGroup]) -> EstateFacts:
        found = super().read_facts(host_moids, groups)
        clusters = {CLUSTER: ClusterFacts(image=self.image)} if self.image is not None else {}
        return found.model_copy(update={"clusters": clusters})

    def draft_image(self, change: SetImage) -> str:
        self._note("draft_image", change.subject.name)
        self.drafts["draft-1"] = change.components
        return "draft-1"

    def drop_draft(self, cluster_moid: str, draft: str) -> None:
        self._note("drop_draft", f"{cluster_moid} {draft}")
        del self.drafts[draft]

    def begin_image_task(self, cluster_moid: str, action: ImageAction, body: Mapping[str, object]) -> str:
        verb, draft = action
        self.bodies.append(body)

        def finish() -> None:
            if verb == "commit" and self.image is not None:
                kept = {key: value for key, value in self.drafts.pop(draft).items() if key not in self.loses}
                components = {**self.image.components, **kept}
                self.image = self.image.model_copy(update={"components": components})
            if verb == "check" and self.image is not None:
                self.image = self.image.model_copy(update={"unread": self.unread})
            if verb == "apply":
                self.hosts["host-1"].configure("ats", "TRUE")
                self._boot(self.hosts["host-1"], ("ats",))

        return self._start(f"{verb} image", cluster_moid, None, finish)

    def read_image_task(self, task: str) -> TaskUpdate:
        self._tick()
        found = self._tasks[task]
        return self._end(found) if found.due <= self.time else TaskUpdate(task=task, state=TaskState.RUNNING)

    def running_image_tasks(self, cluster_moid: str) -> tuple[str, ...]:
        self._note("running_image_tasks", cluster_moid)
        self.others -= 1
        return ("another",) if self.others >= 0 else ()


def estate(**fields: Any) -> FakeImages:
    server = FakeImages(**fields)
    server.add_host("esx-01")
    return server


def set_image(**fields: Any) -> SetImage:
    return SetImage(
        id="set image",
        subject=Subject(kind="cluster", name="gpu"),
        cluster_moid=CLUSTER,
        components={DRIVER: NEW},
        hosts=("host-1",),
        message="by plan demo",
        **fields,
    )


def remediate(**fields: Any) -> RemediateHost:
    host = ref()
    return RemediateHost(
        id="remediate",
        subject=Subject(kind="host", name=host.name, moid=host.moid),
        host=host,
        host_moid=host.moid,
        wave="hosts 1",
        cluster_moid=CLUSTER,
        cluster_name="gpu",
        settles=(ATS,),
        changes=(DRIVER,),
        **fields,
    )


def test_an_image_is_drafted_validated_committed_and_the_hosts_are_checked() -> None:
    server = estate()
    outcome = only(run(server, set_image())[0])
    assert (outcome.status, outcome.message) == (
        "done",
        "non-compliant, reboot required; vCenter expects: Reboot the host.",
    )
    assert server.image is not None
    assert server.image.components == {DRIVER: NEW}
    assert server.bodies == [{}, {"message": "by plan demo"}, {"hosts": ["host-1"]}]
    assert only(run(server, set_image())[0]).status == "not_needed"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"image": None}, "gpu's image cannot be edited: the cluster is not managed with an image"),
        ({"image": ClusterImage(unread="HTTP 503")}, "gpu's image cannot be edited: HTTP 503"),
        ({"unread": "HTTP 503"}, "gpu's image cannot be edited: HTTP 503"),
        ({"image": ClusterImage(manager="SDDC Manager")}, "SDDC Manager"),
        ({"loses": frozenset({DRIVER})}, "does not contain the committed components"),
        ({"failures": {("validate image", 1): ("Error", "The draft is invalid.")}}, "The draft is invalid."),
        ({"failures": {("check image", 1): ("Error", "Nothing was checked.")}}, "Nothing was checked."),
        ({"others": 10**9}, "another Lifecycle Manager task has not finished after 4 h"),
        ({"task_seconds": 1e9}, "the image's validate task has not finished after 4 h"),
    ],
)
def test_an_image_that_is_not_as_wanted_fails_its_step(fields: dict[str, Any], message: str) -> None:
    server = estate(**fields)
    outcome = only(run(server, set_image())[0])
    assert outcome.status == "failed"
    assert message in f"{outcome.message} {outcome.cause}"
    assert not server.drafts or "validate" in message


def remediated(server: FakeImages, **fields: Any) -> Outcome:
    report, _ = run(server, *in_order(enter(), remediate(**fields)))
    return next(one for one in report.outcomes if one.change_id == "remediate")


def test_a_host_is_remediated_once() -> None:
    server = estate()
    assert remediated(server).status == "done"
    assert server.bodies == [{"hosts": ["host-1"], "accept_eula": True}]
    again = remediated(server)
    assert (again.status, again.message) == ("not_needed", "already matches the image")


def test_another_task_is_waited_for() -> None:
    server = estate(others=2)
    assert remediated(server).status == "done"
    assert len(server.asked("running_image_tasks")) == 3


@pytest.mark.parametrize(
    ("differs", "message"),
    [
        (
            {DRIVER: (OLD, NEW), "vmtools": ("1", "2"), "esx-update": ("1", "2")},
            "also changes esx-update, vmtools on",
        ),
        ({DRIVER: (OLD, NEW)}, ""),
        ({}, ""),
    ],
)
def test_an_image_with_components_that_were_not_shown_is_not_applied(
    differs: dict[str, tuple[str, str]], message: str
) -> None:
    host = HostImage(status="NON_COMPLIANT", differs=differs)
    server = estate(image=ClusterImage(components={DRIVER: NEW}, hosts={"host-1": host}))
    outcome = remediated(server)
    assert outcome.status == ("failed" if message else "done")
    assert message in outcome.message
    assert bool(server.asked("apply image")) is not bool(message)


def test_a_host_without_a_report_is_checked_and_not_remediated_unseen() -> None:
    server = estate(image=ClusterImage(components={DRIVER: NEW}))
    assert "does not report how gpu's image changes esx-01" in remediated(server).message
    assert server.asked("check image")
    assert not server.asked("apply image")


def test_a_failed_remediation_fails_the_step() -> None:
    server = estate(failures={("apply image", 1): ("Error", "The host did not come up.")})
    outcome = remediated(server)
    assert outcome.status == "failed"
    assert "The host did not come up." in f"{outcome.message} {outcome.cause}"
