"""Completion of manual steps: the acknowledgement and its validity.

A reading takes precedence as proof. A step without proof is acknowledged with `--done`: that counts for the
run, and the host keeps the value of each setting of the step, or a digest of the step's text. It counts for
as long as the plan asks for the same.
"""

from __future__ import annotations

import hashlib
import json

from vgpu_cfg.changes.change import ManualStep
from vgpu_cfg.changes.values import HostRef
from vgpu_cfg.errors import VgpuCfgError
from vgpu_cfg.execution.hosts.assess import State
from vgpu_cfg.execution.hosts.session import HostSession, is_connected
from vgpu_cfg.model.observed.host_facts import HostAttribute
from vgpu_cfg.planning.host_settings.entry import HostView


def step_digest(step: ManualStep) -> str:
    """Sixteen hex digits over the instructions of a manual step."""
    reported = json.dumps([step.text, step.proof, list(step.commands)], separators=(",", ":"))
    return hashlib.sha256(reported.encode()).hexdigest()[:16]


def host_of(step: ManualStep) -> HostRef | None:
    """Return the host that a step is done at, None where it is none."""
    if step.subject.kind != "host" or step.subject.moid is None:
        return None
    return HostRef(name=step.subject.name, moid=step.subject.moid)


def is_done(step: ManualStep, hosts: HostSession) -> bool:
    """Whether a step was acknowledged, in this run or an earlier one, or is shown to be done."""
    if step.id in hosts.run.options.done_by_hand:
        return True
    ref = host_of(step)
    if ref is None:
        return False
    view = hosts.read(ref, step.proves)
    return bool(_why_done(step, view, hosts))


def settle(step: ManualStep, hosts: HostSession) -> str:
    """Say why a step counts as done, and keep an acknowledgement on the host; "" where it is still to do.

    Read and write errors are noted: the step stays open, or its acknowledgement is not kept.
    """
    is_acknowledged = step.id in hosts.run.options.done_by_hand
    ref = host_of(step)
    if ref is None:
        return "done manually" if is_acknowledged else ""
    why = ""
    try:
        view = hosts.read(ref, step.proves)
        why = _why_done(step, view, hosts)
        if (
            is_acknowledged
            and not why
            and is_connected(view.host)
            and not _is_shown_by_reading(step, view, hosts)
        ):
            # A setting is believed while the plan asks for the same, a step while it says the same.
            done = {**view.facts.done, **_acknowledged(step)}
            text = json.dumps(done, sort_keys=True, separators=(",", ":"))
            hosts.tools.writer.set_host_attribute(ref.moid, HostAttribute.DONE, text)
    except VgpuCfgError as error:
        hosts.run.note(step.id, error.message)
    if is_acknowledged or why:
        hosts.accept_as_done(ref, step.proves)
        return why or "done manually"
    hosts.note_reason(ref, step.text)
    return ""


def _why_done(step: ManualStep, view: HostView, hosts: HostSession) -> str:
    if not is_connected(view.host):
        return ""
    if step.proves and all(one.state is State.HOLDS for one in hosts.assess(view, step.proves)):
        return "detected as complete"
    is_kept = all(view.facts.done.get(name) == word for name, word in _acknowledged(step).items())
    if is_kept and not _is_shown_by_reading(step, view, hosts):
        return "completed manually, as confirmed on the host"
    return ""


def _acknowledged(step: ManualStep) -> dict[str, str]:
    """Return the kept record of an acknowledged step: the values of its settings, or a digest of its text."""
    return {target.id: target.value for target in step.proves} or {step.id: step_digest(step)}


def _is_shown_by_reading(step: ManualStep, view: HostView, hosts: HostSession) -> bool:
    """Whether readings alone prove a step: then no acknowledgement is kept."""
    return bool(step.proves) and all(one.state is not State.UNREAD for one in hosts.assess(view, step.proves))
