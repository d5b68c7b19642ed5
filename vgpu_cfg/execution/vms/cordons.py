"""How a host or a GPU is kept from new VMs, or given back: written, and read back; nothing is disturbed."""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.changes.change import SetCordon
from vgpu_cfg.errors import NotConfirmed, StalePlan
from vgpu_cfg.execution.run.session import PLAN_AGAIN, RunSession
from vgpu_cfg.execution.run.step import Step, StepResult
from vgpu_cfg.model.observed.cordon import Cordon


def set_cordon(change: SetCordon, session: RunSession) -> Step:
    """Write the attributes of a host that hold cordons, and see that they show; no task is started."""
    yield from ()
    found = _cordons(change, session)
    lacking = [name for name, text in change.values.items() if _text(found, name) != text]
    if not lacking:
        return StepResult(is_needed=False, message="it is so already")
    taken = [name for name in lacking if name in found and found[name].words != _seen(change, name)]
    if taken:
        raise StalePlan(
            f"somebody cordoned something of {change.host.name} meanwhile: {found[taken[0]].words}",
            subject=change.host.name,
            remedy=PLAN_AGAIN,
        )
    session.begin(lambda: session.writer.set_host_attributes(change.host.moid, change.values))
    shown = _cordons(change, session)
    lacking = sorted(name for name, text in change.values.items() if _text(shown, name) != text)
    if lacking:
        raise NotConfirmed(
            f"{change.host.name} does not show {', '.join(lacking)} as it was written",
            subject=change.host.name,
            remedy=f"look at the custom attributes of {change.host.name} in vCenter; then {PLAN_AGAIN}",
        )
    return StepResult()


def _seen(change: SetCordon, name: str) -> str | None:
    """Return the words of the cordon that the plan saw in an attribute, and told; None where it saw none."""
    told = (edit.before for edit in change.edits if f"customValue[{name}]" in edit.sets)
    return next(told, None)


def _text(found: Mapping[str, Cordon], name: str) -> str:
    return found[name].text if name in found else ""


def _cordons(change: SetCordon, session: RunSession) -> dict[str, Cordon]:
    hosts = session.reader.read_hosts([change.host.moid])
    if not hosts:
        raise StalePlan(f"the host {change.host.name} has gone", subject=change.host.name, remedy=PLAN_AGAIN)
    return {cordon.attribute: cordon for cordon in hosts[0].cordons}
