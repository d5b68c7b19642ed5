"""A watch: make the checks, judge them against the last watch, and cordon as the plan file allows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows import flow
from vgpu_cfg.cli.flows.upkeep_flow import watch_cordon
from vgpu_cfg.cli.flows.verify_flow import Wanted, verify_in
from vgpu_cfg.cli.kept.watched import KeptWatch, kept_watch
from vgpu_cfg.errors import VgpuCfgError
from vgpu_cfg.verification.watching import to_cordon, watched

if TYPE_CHECKING:
    from vgpu_cfg.cli.compose import Estate
    from vgpu_cfg.cli.flows.preparing.request import PlanRequest
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.model.verification import Sign, Verification, Watch
    from vgpu_cfg.settings.connection import Connection
    from vgpu_cfg.settings.flags import ConnectionFlags


def watches(
    request: PlanRequest, flags: ConnectionFlags, wanted: Wanted, *, every: float | None
) -> Iterator[Watch]:
    """Yield a watch; with `every` another one each time so many seconds have passed, until Ctrl-C.

    Raises Locked if another watch of the plan is running on this machine, and whatever `verify` raises.
    """
    connection, desired = flow.locate(request, flags)
    secrets = request.secrets()
    secrets.allow_commands()
    server = connection.server
    name = f"{desired.id or desired.name}-{hashlib.sha256(server.encode()).hexdigest()[:8]}"
    with kept_watch(name) as kept:
        while True:
            with compose.connect_writer(connection) as estate:
                found = verify_in(desired, estate, wanted, secrets, server=server)
                pause = estate.clock.pause
                watch = _assessed(found, kept, estate).model_copy(update={"file": str(request.path)})
            yield _acted(watch, desired, connection, flags)
            if every is None:
                return
            pause(every)


def _assessed(found: Verification, kept: KeptWatch, estate: Estate) -> Watch:
    watch, memory = watched(kept.memory, found, estate.clock.now())
    kept.keep(memory)
    return watch


def _acted(watch: Watch, desired: DesiredPlan, connection: Connection, flags: ConnectionFlags) -> Watch:
    """Cordon the targets that the plan file allows; a failure is part of the report."""
    policy = desired.verify.watch if desired.verify is not None else None
    signs = to_cordon(watch.due, policy, watch.at) if policy is not None else ()
    if policy is None or not signs:
        return watch
    by_target: dict[str, Sign] = {}
    for one in signs:
        by_target.setdefault(one.sign.target, one.sign)
    try:
        done = watch_cordon(connection, flags, tuple(by_target.values()), desired, policy.per_cluster)
    except VgpuCfgError as error:
        done = dict.fromkeys(by_target, f"not cordoned: {error.message}")
    return watch.model_copy(update={"cordoned": done})
