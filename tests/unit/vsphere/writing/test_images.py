"""Drafts and tasks of a cluster's image: every request is stored, and each answer is read as it is meant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.unit.vsphere.scripted import session_on
from vgpu_cfg.changes.change import SetImage
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.errors import StalePlan, VCenterError
from vgpu_cfg.model.observed.host_facts import BASE_IMAGE, ClusterImage, HostImage
from vgpu_cfg.ports import ImageAction, TaskState
from vgpu_cfg.vsphere.host_facts.images import read_image
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.writing import images

SOFTWARE = "/api/esx/settings/clusters/domain-c%201/software"
DRAFTS = f"{SOFTWARE}/drafts"
TASK = "/api/cis/tasks/task%201"
TASKS = "/api/cis/tasks?action=list"
IMAGE = {"base_image": {"version": "8.0", "details": {"a": 1}}, "components": {"x": {"version": "1"}}}
ASKED = {"nvd": "5", BASE_IMAGE: "8.1"}


def change(components: Mapping[str, str] = ASKED) -> SetImage:
    return SetImage(
        id="set_image:gpu",
        subject=Subject(kind="cluster", name="gpu"),
        cluster_moid="domain-c 1",
        components=components,
        hosts=("host-1",),
        message="for the plan",
    )


def draft(owner: str, software: object) -> dict[str, Any]:
    """Answer that the account `U` has one draft, with this content."""
    return {
        f"GET {DRAFTS}": {"d 1": {"metadata": {"owner": owner}}, "d 2": {"metadata": {"owner": "V"}}},
        f"GET {DRAFTS}/d%201": {"software": software},
        f"GET {SOFTWARE}": IMAGE,
        f"POST {DRAFTS}": "d 3",
        f"DELETE {DRAFTS}/d%201": None,
        f"PUT {DRAFTS}/d%203/software/base-image": None,
        f"PATCH {DRAFTS}/d%203/software/components": None,
    }


def drafted(components: Mapping[str, str] = ASKED) -> Callable[[Session], object]:
    return lambda session: images.draft_image(session, change(components))


def begun(action: ImageAction, body: Mapping[str, object]) -> Callable[[Session], object]:
    return lambda session: images.begin_image_task(session, "domain-c 1", action, body)


NEW = {"base_image": {"version": "8.1"}, "components": {"x": {"version": "1"}, "nvd": {"version": "5"}}}
OTHER = {"base_image": {"version": "8.0"}, "components": {"x": {"version": "2"}}}
CALLS: dict[str, tuple[dict[str, Any], Callable[[Session], object], object]] = {
    "a first draft": (draft("V", NEW), drafted(), "d 3"),
    "a draft of the same": (draft("u", NEW), drafted(), "d 3"),
    "a draft of the image": (draft("U", {**IMAGE, "solutions": None}), drafted(), "d 3"),
    "a draft by domain": (draft("\\U", NEW), drafted(), "d 3"),
    "a draft of another domain": (draft("U@lab", OTHER), drafted(), "d 3"),
    "only a component": (draft("V", NEW), drafted({"nvd": "5"}), "d 3"),
    "only a base image": (draft("V", NEW), drafted({BASE_IMAGE: "8.1"}), "d 3"),
    "a draft with other changes": (draft("u", OTHER), drafted(), StalePlan),
    "a draft of another base": (draft("u", NEW), drafted({"nvd": "5"}), StalePlan),
    "a draft that is no text": ({**draft("V", NEW), f"POST {DRAFTS}": {}}, drafted(), VCenterError),
    "drafts that are no mapping": ({f"GET {DRAFTS}": [7]}, drafted(), VCenterError),
    "drop": (
        draft("V", NEW),
        lambda session: images.drop_draft(session, "domain-c 1", "d 1"),
        None,
    ),
    "drop what is gone": ({}, lambda session: images.drop_draft(session, "domain-c 1", "d 1"), None),
    "a commit": (
        {f"POST {DRAFTS}/d%201?action=commit&vmw-task=true": "task 1"},
        begun(("commit", "d 1"), {"message": "for the plan"}),
        "task 1",
    ),
    "a check": (
        {f"POST {SOFTWARE}?action=check&vmw-task=true": "task 1"},
        begun(("check", ""), {}),
        "task 1",
    ),
    "no task": ({f"POST {SOFTWARE}?action=check&vmw-task=true": {}}, begun(("check", ""), {}), VCenterError),
    "tasks": (
        {
            f"POST {TASKS}": {
                "task 1": {"target": {"id": "domain-c 1"}},
                "task 2": {"target": {"id": "domain-c2"}},
                "task 3": {},
            }
        },
        lambda session: images.running_image_tasks(session, "domain-c 1"),
        ("task 1", "task 3"),
    ),
    "no tasks": ({f"POST {TASKS}": None}, lambda session: images.running_image_tasks(session, "c"), ()),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_sent_as_it_is_stored(name: str) -> None:
    answers, call, expected = CALLS[name]
    with session_on({name: [one] for name, one in answers.items()}) as (session, _):
        if isinstance(expected, type) and issubclass(expected, VCenterError | StalePlan):
            with pytest.raises(expected):
                call(session)
        else:
            assert call(session) == expected


def said(*texts: str) -> list[dict[str, Any]]:
    return [{"message": {"default_message": text}} for text in texts]


@pytest.mark.parametrize(
    ("info", "state", "error"),
    [
        ({"status": "PENDING"}, TaskState.QUEUED, ""),
        ({"status": "RUNNING"}, TaskState.RUNNING, ""),
        ({"status": "BLOCKED"}, TaskState.RUNNING, ""),
        ({"status": "a new word"}, TaskState.RUNNING, ""),
        ({"status": "RUNNING", "result": {"errors": said("later")}}, TaskState.RUNNING, ""),
        ({"status": "SUCCEEDED"}, TaskState.SUCCESS, ""),
        ({"status": "SUCCEEDED", "result": "commit-1"}, TaskState.SUCCESS, ""),
        ({"status": "SUCCEEDED", "result": {"status": "OK", "issues": said("x")}}, TaskState.SUCCESS, ""),
        ({"status": "SUCCEEDED", "result": {"status": {"status": "TIMED_OUT"}}}, TaskState.ERROR, ""),
        *(
            ({"status": "SUCCEEDED", "result": {"status": word}}, TaskState.ERROR, "")
            for word in ("ERROR", "TIMED_OUT", "RETRY_PENDING", "SKIPPED")
        ),
        ({"status": "SUCCEEDED", "result": {"failed_hosts": ["host-1"]}}, TaskState.ERROR, ""),
        ({"status": "SUCCEEDED", "result": {"failed_hosts": []}}, TaskState.SUCCESS, ""),
        (
            {"status": "SUCCEEDED", "result": {"hosts": [{"errors": said("no", "no"), "a": 1}]}},
            TaskState.ERROR,
            "no",
        ),
        (
            {"status": "SUCCEEDED", "result": {"checks": [{"status": "ERROR", "issues": said("why")}]}},
            TaskState.ERROR,
            "why",
        ),
        (
            {
                "status": "FAILED",
                "error": {"messages": [{"default_message": "first"}, {"id": "x"}, 7]},
                "result": {"errors": said("second")},
            },
            TaskState.ERROR,
            "first second",
        ),
        ({"status": "FAILED", "error": {"messages": None}}, TaskState.ERROR, ""),
    ],
)
def test_a_task_is_read_with_its_errors(info: dict[str, Any], state: TaskState, error: str) -> None:
    with session_on({f"GET {TASK}": info}) as (session, script):
        found = images.read_image_task(session, "task 1")
    assert (found.task, found.state, found.error) == ("task 1", state, error)
    assert script.methods == [f"GET {TASK}"]


@pytest.mark.parametrize("name", ["corp\\anna", "anna@corp", "CORP\\Anna"])
def test_an_account_is_the_same_in_either_form(name: str) -> None:
    assert images._user(name) == ("corp", "anna")


# ---------------------------------------------------------------- reading

DEPOT = "/api/esx/settings/depot-content"
REPORTS: dict[str, Any] = {
    f"GET {SOFTWARE}": {**IMAGE, "components": {"nvd": {"version": "4"}, "none": None}},
    f"GET {DEPOT}/components": [
        {"name": "nvd", "versions": [{"version": "4"}, {"version": "5"}]},
        {"name": "x"},
    ],
    f"GET {DEPOT}/base-images": [{"version": "8.0"}, {"version": "8.1"}],
    f"GET {SOFTWARE}/compliance": {
        "hosts": {
            "host-1": {
                "status": "NON_COMPLIANT",
                "impact": "REBOOT_REQUIRED",
                "base_image": {
                    "status": "NON_COMPLIANT",
                    "current": {"version": "7.0"},
                    "target": {"version": "8.0"},
                },
                "components": {
                    "nvd": {"status": "NON_COMPLIANT", "current": None, "target": {"version": "4"}},
                    "x": {"status": "COMPLIANT", "current": {"version": "1"}, "target": {"version": "1"}},
                },
            },
            "host-2": {"status": "COMPLIANT", "base_image": {"status": "COMPLIANT"}},
        }
    },
    f"GET {SOFTWARE}/reports/apply-impact": {
        "host_impact": {"host-1": [{"message": {"default_message": "it reboots"}}, {}]}
    },
}
WHOLE = ClusterImage(
    components={"nvd": "4", "none": "", BASE_IMAGE: "8.0"},
    depot={"nvd": ("4", "5"), "x": (), BASE_IMAGE: ("8.0", "8.1")},
    hosts={
        "host-1": HostImage(
            status="NON_COMPLIANT",
            impact="REBOOT_REQUIRED",
            differs={"nvd": ("", "4"), BASE_IMAGE: ("7.0", "8.0")},
            effects=("it reboots",),
        ),
        "host-2": HostImage(status="COMPLIANT"),
    },
)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, WHOLE),
        ({f"GET {SOFTWARE}/compliance": 404}, WHOLE.model_copy(update={"hosts": {}})),
        ({f"GET {SOFTWARE}/compliance": None}, WHOLE.model_copy(update={"hosts": {}})),
        *(
            (
                {f"GET {SOFTWARE}/reports/apply-impact": status},
                WHOLE.model_copy(
                    update={
                        "hosts": {
                            moid: host.model_copy(update={"effects": ()})
                            for moid, host in WHOLE.hosts.items()
                        }
                    }
                ),
            )
            for status in (403, 404)
        ),
        ({f"GET {SOFTWARE}": 403}, "reading the cluster's image: HTTP status 403"),
        ({f"GET {SOFTWARE}": [7]}, "reading the cluster's image: cannot read the response"),
        ({f"GET {SOFTWARE}/compliance": 403}, "reading the cluster's compliance: HTTP status 403"),
        (
            {f"GET {SOFTWARE}/reports/apply-impact": 500},
            "reading the cluster's apply-impact: HTTP status 500",
        ),
    ],
)
def test_an_image_is_read_with_its_depot_and_compliance(
    changed: dict[str, Any], expected: ClusterImage | str
) -> None:
    with session_on({name: [one] for name, one in {**REPORTS, **changed}.items()}) as (session, _):
        found = read_image(session, "domain-c 1")
    assert found == (ClusterImage(unread=expected) if isinstance(expected, str) else expected)
