"""Edit the image of a cluster, and remediate one host: tasks of Lifecycle Manager, which are polled.

A cluster has one such task at a time: another one, of an interrupted run or of a person, is waited for first.

Belief: remediation-keeps-maintenance.
"""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.changes.change import RemediateHost, SetImage
from vgpu_cfg.errors import NotConfirmed, TaskFailed
from vgpu_cfg.execution.hosts.power import check_down, confirm_booted
from vgpu_cfg.execution.hosts.session import HostSession
from vgpu_cfg.execution.run.session import PLAN_AGAIN, succeeded
from vgpu_cfg.execution.run.step import Step, StepResult, Waiting, wait
from vgpu_cfg.model.observed.host_facts import ClusterImage, FactGroup
from vgpu_cfg.ports import ImageAction

_TASK_SECONDS = 14400.0
"""The longest wait for one task: a remediation includes vCenter's checks, firmware, and a reboot."""


def set_image(change: SetImage, hosts: HostSession) -> Step:
    """Draft, validate and commit the image, unless it is so; then have the hosts checked against it."""
    cluster, writer = change.cluster_moid, hosts.tools.writer
    yield from _await_others(cluster, change.subject.name, hosts)
    if _has_components(change, hosts):
        return StepResult(is_needed=False, message="the image already has these components")
    draft = hosts.run.begin(lambda: writer.draft_image(change))
    try:
        yield from _run(cluster, ("validate", draft), {}, change.subject.name, hosts)
    except TaskFailed:
        writer.drop_draft(cluster, draft)
        raise
    yield from _run(cluster, ("commit", draft), {"message": change.message}, change.subject.name, hosts)
    if not _has_components(change, hosts):
        raise NotConfirmed(
            f"{change.subject.name}'s image does not contain the committed components",
            subject=change.subject.name,
            remedy="check its image on the cluster's Updates tab; then " + PLAN_AGAIN,
        )
    yield from _run(cluster, ("check", ""), {"hosts": list(change.hosts)}, change.subject.name, hosts)
    image = _read_image(change.hosts[0], cluster, change.subject.name, hosts)
    outlooks = dict.fromkeys(image.hosts[moid].outlook for moid in change.hosts if moid in image.hosts)
    return StepResult(message="; ".join(outlooks))


def remediate_host(change: RemediateHost, hosts: HostSession) -> Step:
    """Apply the image to a host in maintenance mode, and read the values that it booted with."""
    ref, cluster = change.host, change.cluster_moid
    yield from _await_others(cluster, ref.name, hosts)
    view = yield from hosts.read_awake(ref, change.settles)
    if not hosts.is_in_force(change, view):
        check_down(view, hosts)
        yield from _check_changes(change, hosts)
        hosts.run.check_going_on()
        hosts.marks.keep(ref.moid, restart="reboot")
        hosts.shells.restarts(ref.moid)
        body = {"hosts": [ref.moid], "accept_eula": True}
        try:
            yield from _run(cluster, ("apply", ""), body, ref.name, hosts)
        except TaskFailed:
            hosts.shells.stays_up(ref.moid)
            raise
        back = yield from hosts.read_awake(ref, change.settles)
        hosts.shells.has_restarted(ref.moid, back.facts)
        is_needed = True
    else:
        is_needed = False
    hosts.marks.keep(ref.moid, restart="")
    yield from confirm_booted(change, hosts)
    hosts.marks.waits_no_more(ref.moid, *change.settles)
    return StepResult(is_needed=is_needed, message="" if is_needed else "already matches the image")


def _has_components(change: SetImage, hosts: HostSession) -> bool:
    image = _read_image(change.hosts[0], change.cluster_moid, change.subject.name, hosts)
    return change.components.items() <= image.components.items()


def _check_changes(change: RemediateHost, hosts: HostSession) -> Waiting[None]:
    """See that the image brings no component to a host that the plan did not show.

    A host that was never checked against the image is checked first.
    """
    name, moid, cluster = change.cluster_name, change.host.moid, change.cluster_moid
    found = _read_image(moid, cluster, name, hosts).hosts.get(moid)
    if found is None:
        yield from _run(cluster, ("check", ""), {"hosts": [moid]}, name, hosts)
        found = _read_image(moid, cluster, name, hosts).hosts.get(moid)
    if found is None:
        raise NotConfirmed(
            f"vCenter does not report how {name}'s image changes {change.host.name}",
            subject=change.host.name,
            remedy="check the host's compliance on the cluster's Updates tab; then " + PLAN_AGAIN,
        )
    others = set(found.differs) - {*change.changes}
    if others:
        raise NotConfirmed(
            f"{name}'s image also changes {', '.join(sorted(others))} on {change.host.name}, but the plan "
            "did not show this",
            subject=change.host.name,
            remedy=PLAN_AGAIN,
        )


def _read_image(host_moid: str, cluster: str, name: str, hosts: HostSession) -> ClusterImage:
    """Read an image that can be edited, with the last check of its hosts. Raises NotConfirmed for another."""
    facts = hosts.run.reader.read_facts([host_moid], frozenset({FactGroup.IMAGE})).clusters.get(cluster)
    image = facts.image if facts is not None else None
    if image is None or image.unread or image.manager:
        why = (
            image.unread or image.manager if image is not None else "the cluster is not managed with an image"
        )
        raise NotConfirmed(f"{name}'s image cannot be edited: {why}", subject=name, remedy=PLAN_AGAIN)
    return image


def _await_others(cluster: str, name: str, hosts: HostSession) -> Waiting[None]:
    """Wait until no task of Lifecycle Manager goes on at a cluster."""
    deadline = hosts.run.now() + _TASK_SECONDS
    while hosts.tools.writer.running_image_tasks(cluster):
        yield from _pause(deadline, "another Lifecycle Manager task", name, hosts)


def _run(
    cluster: str, action: ImageAction, body: Mapping[str, object], name: str, hosts: HostSession
) -> Waiting[None]:
    task = hosts.run.begin(lambda: hosts.tools.writer.begin_image_task(cluster, action, body))
    deadline = hosts.run.now() + _TASK_SECONDS
    while not (found := hosts.tools.writer.read_image_task(task)).state.is_over:
        yield from _pause(deadline, f"the image's {action[0]} task", name, hosts)
    succeeded(found, f"{action[0]} the image ({name})", name)


def _pause(deadline: float, what: str, name: str, hosts: HostSession) -> Waiting[None]:
    if hosts.run.now() >= deadline:
        raise NotConfirmed(
            f"{what} has not finished after {_TASK_SECONDS / 3600:.0f} h",
            subject=name,
            remedy="check the cluster's tasks in vCenter; then " + PLAN_AGAIN,
        )
    yield from wait(hosts.run.options.host_poll_seconds)
    hosts.run.check_going_on()
