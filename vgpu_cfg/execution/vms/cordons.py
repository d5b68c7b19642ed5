"""How a host or a GPU is kept from new VMs, or given back: written, and read back; nothing is disturbed."""

from __future__ import annotations

from vgpu_cfg.errors import NotConfirmed, StalePlan
from vgpu_cfg.execution.run.session import PLAN_AGAIN, RunSession
from vgpu_cfg.execution.run.step import Step, StepResult
from vgpu_cfg.model.observed.cordon import Cordon
from vgpu_cfg.model.plan.change import SetCordon


def set_cordon(change: SetCordon, session: RunSession) -> Step:
    """Write the attributes of a host that hold cordons, and see that they show; no task is started."""
    yield from ()
    wanted = {name: text for name, text in change.values.items() if text}
    found = _cordons(change, session)
    if all(found.get(name, "") == text for name, text in change.values.items()):
        return StepResult(is_needed=False, message="it is so already")
    taken = [name for name in wanted if name in found and not _is_replaced(change, name)]
    if taken:
        raise StalePlan(
            f"somebody cordoned something of {change.host.name} meanwhile: {found[taken[0]]}",
            subject=change.host.name,
            remedy=PLAN_AGAIN,
        )
    session.begin(lambda: session.writer.set_host_attributes(change.host.moid, change.values))
    shown = _cordons(change, session)
    lacking = sorted(name for name, text in change.values.items() if shown.get(name, "") != text)
    if lacking:
        raise NotConfirmed(
            f"{change.host.name} does not show {', '.join(lacking)} as it was written",
            subject=change.host.name,
            remedy=f"look at the custom attributes of {change.host.name} in vCenter; then {PLAN_AGAIN}",
        )
    return StepResult()


def _is_replaced(change: SetCordon, name: str) -> bool:
    """Whether the plan saw a cordon there, and told it."""
    parsed = Cordon.parse(name, change.values[name])
    return any(edit.before is not None and edit.key == parsed.key for edit in change.edits)


def _cordons(change: SetCordon, session: RunSession) -> dict[str, str]:
    hosts = session.reader.read_hosts([change.host.moid])
    if not hosts:
        raise StalePlan(f"the host {change.host.name} has gone", subject=change.host.name, remedy=PLAN_AGAIN)
    return {cordon.attribute: cordon.text for cordon in hosts[0].cordons}
