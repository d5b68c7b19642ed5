"""Drafts of a cluster's image, and the tasks that Lifecycle Manager runs with it.

Sources: vSphere Automation API 7.0.3 to 9.1 (esx.settings.clusters.software and its drafts; cis.tasks); the
list of tasks is `POST /api/cis/tasks?action=list` there.

Belief: one-draft-per-account, image-task-in-result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from vgpu_cfg.changes.change import SetImage
from vgpu_cfg.errors import NotFound, StalePlan, VCenterError
from vgpu_cfg.model.observed.host_facts import BASE_IMAGE
from vgpu_cfg.ports import ImageAction, TaskState, TaskUpdate
from vgpu_cfg.vsphere.host_facts.images import software_path
from vgpu_cfg.vsphere.wire.rest import mapping_of, unreadable
from vgpu_cfg.vsphere.wire.session import Session

TASKS = "/api/cis/tasks"
SERVICES = ("com.vmware.esx.settings.clusters.software", "com.vmware.esx.settings.clusters.software.drafts")

_STATES: Mapping[str, TaskState] = {
    "PENDING": TaskState.QUEUED,
    "RUNNING": TaskState.RUNNING,
    "BLOCKED": TaskState.RUNNING,
    "SUCCEEDED": TaskState.SUCCESS,
    "FAILED": TaskState.ERROR,
}
_HAS_ONE = "[ALREADY_EXISTS]"
_BAD = ("ERROR", "TIMED_OUT", "RETRY_PENDING", "SKIPPED")


def draft_image(session: Session, change: SetImage) -> str:
    """Make a draft with the change's components. Raises StalePlan where the account has another draft."""
    path = f"{software_path(change.cluster_moid)}/drafts"
    what = f"drafting {change.subject.name}'s image"
    for draft, one in mapping_of(
        session.rest.call("GET", path, None, what) or {}, what, session.address
    ).items():
        if _user((one.get("metadata") or {}).get("owner")) == _user(session.account):
            _check_left(session, change, draft)
            drop_draft(session, change.cluster_moid, draft)
    try:
        draft = session.rest.call("POST", path, None, what, repeats=False)
    except VCenterError as error:
        if _HAS_ONE not in error.message:
            raise
        raise _other_draft(change) from error
    if not isinstance(draft, str):
        raise unreadable(what, session.address)
    software, wanted = f"{path}/{quote(draft)}/software", dict(change.components)
    if base := wanted.pop(BASE_IMAGE, ""):
        session.rest.call("PUT", f"{software}/base-image", {"version": base}, what)
    if wanted:
        session.rest.call("PATCH", f"{software}/components", {"components_to_set": wanted}, what)
    return draft


def _check_left(session: Session, change: SetImage, draft: str) -> None:
    """See that a draft of this account has nothing but the image and the change's own components."""
    what = f"reading a draft of {change.subject.name}'s image"
    path = software_path(change.cluster_moid)
    found = mapping_of(session.rest.call("GET", f"{path}/drafts/{quote(draft)}", None, what), what, "")
    image = session.rest.call("GET", path, None, what)
    if _document(found.get("software"), change) != _document(image, change):
        raise _other_draft(change, " with other changes")


def _other_draft(change: SetImage, which: str = "") -> StalePlan:
    return StalePlan(
        f"the account has a draft of {change.subject.name}'s image{which}",
        subject=change.subject.name,
        remedy="save or discard it on the cluster's Updates tab, then run the command again",
    )


def _document(software: Any, change: SetImage) -> dict[str, Any]:
    """Return what an image asks for, without the change's own components and without descriptions."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: bare(one) for name, one in value.items() if name != "details" and one is not None}
        return value

    found = bare(software or {})
    kept = {k: v for k, v in (found.get("components") or {}).items() if k not in change.components}
    base = None if BASE_IMAGE in change.components else found.get("base_image")
    return {**found, "components": kept, "base_image": base}


def drop_draft(session: Session, cluster_moid: str, draft: str) -> None:
    """Delete a draft, if it is there."""
    path = f"{software_path(cluster_moid)}/drafts/{quote(draft)}"
    try:
        session.rest.call("DELETE", path, None, "deleting an image draft")
    except NotFound:
        return


def begin_image_task(
    session: Session, cluster_moid: str, action: ImageAction, body: Mapping[str, object]
) -> str:
    """Begin a task and return its id; it is not sent again where its answer is lost."""
    verb, draft = action
    path = software_path(cluster_moid) + (f"/drafts/{quote(draft)}" if draft else "")
    what = f"{verb} of the image"
    sent = f"{path}?action={verb}&vmw-task=true"
    found = session.rest.call("POST", sent, dict(body) or None, what, repeats=False)
    if not isinstance(found, str):
        raise unreadable(what, session.address)
    return found


def read_image_task(session: Session, task: str) -> TaskUpdate:
    """Return what became of a task, with the errors in its result."""
    what = "reading a Lifecycle Manager task"
    info = mapping_of(session.rest.call("GET", f"{TASKS}/{quote(task)}", None, what), what, session.address)
    state = _STATES.get(str(info.get("status")), TaskState.RUNNING)
    result = info.get("result")
    words = [*_texts((info.get("error") or {}).get("messages")), *_errors(result)]
    if state is TaskState.SUCCESS and (words or _is_bad(result)):
        state = TaskState.ERROR
    return TaskUpdate(
        task=task, state=state, error=" ".join(dict.fromkeys(words)) if state is TaskState.ERROR else ""
    )


def running_image_tasks(session: Session, cluster_moid: str) -> tuple[str, ...]:
    """Return the tasks that go on at a cluster."""
    what = "listing Lifecycle Manager's tasks"
    asked = {"filter_spec": {"services": list(SERVICES), "status": ["PENDING", "RUNNING", "BLOCKED"]}}
    found = session.rest.call("POST", f"{TASKS}?action=list", asked, what) or {}
    return tuple(
        task
        for task, info in mapping_of(found, what, session.address).items()
        if (info.get("target") or {}).get("id") in (None, cluster_moid)
    )


def _is_bad(result: Any) -> bool:
    """Whether a task that has ended says of itself that it did not come to its end."""
    status = result.get("status") if isinstance(result, dict) else None
    word = status.get("status") if isinstance(status, dict) else status
    return word in _BAD or bool(isinstance(result, dict) and result.get("failed_hosts"))


def _errors(result: Any) -> Iterator[str]:
    """Yield the messages of all `errors` in a result, and of the issues of failed checks."""
    if isinstance(result, list):
        for one in result:
            yield from _errors(one)
    elif isinstance(result, dict):
        for name, one in result.items():
            is_failed = name == "issues" and result.get("status") in _BAD
            yield from _texts(one) if name == "errors" or is_failed else _errors(one)


def _texts(messages: Any) -> Iterator[str]:
    for one in messages if isinstance(messages, list) else ():
        message = one.get("message", one) if isinstance(one, dict) else {}
        if isinstance(message, dict) and message.get("default_message"):
            yield str(message["default_message"])


def _user(name: Any) -> tuple[str, str]:
    """Return an account's domain and name: vCenter writes both before and after the name."""
    text = str(name or "").casefold()
    domain, separator, user = text.partition("\\")
    if separator:
        return domain, user
    user, _, domain = text.partition("@")
    return domain, user
