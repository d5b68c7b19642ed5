"""How a run goes past a canary: it is read, planned for and verified again; then somebody is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpu_cfg.cli.flows.verify_flow import Wanted, verify_in
from vgpu_cfg.cli.output.terminal import confirm
from vgpu_cfg.errors import NotFound, VgpuCfgError
from vgpu_cfg.model.plan.report import CanaryResult
from vgpu_cfg.model.verification import CheckState
from vgpu_cfg.planning.canaries.verdict import problems_of
from vgpu_cfg.planning.expand.ranges import fold_names

if TYPE_CHECKING:
    from vgpu_cfg.cli.compose import Estate
    from vgpu_cfg.model.observed.inventory import Inventory
    from vgpu_cfg.model.plan.change import Canary, Plan
    from vgpu_cfg.render.text.run.progress import RunDisplay
    from vgpu_cfg.settings.secrets import SecretStore

_CHECKS = ("connected", "host-driver", "graphics", "mig", "host-ats", "host-roce", "nic-firmware")
"""The checks of hosts that `verify` makes, but for licences: a guest fetches its own after it has started."""


@dataclass(frozen=True, slots=True)
class CanaryWatch:
    """What verifying the canaries of a plan takes, and whether anybody is asked."""

    plan: Plan
    read_back: Callable[[], Inventory]
    plan_for: Callable[[Inventory], Plan]
    check: Callable[[Canary, Inventory], tuple[str, ...]]
    yes: bool

    def pass_canary(self, canary: Canary, display: RunDisplay, stop: Callable[[], bool]) -> CanaryResult:
        """Verify a canary; where it is as planned, ask whether to go on. Once stopped nobody is asked."""
        result = CanaryResult(names=canary.names, others=canary.others, problems=self._problems(canary))
        if result.problems or stop():
            return result
        question = (
            f"The canary {fold_names(canary.names)} is as planned. Go on with {fold_names(canary.others)}?"
        )
        return result.model_copy(update={"goes_on": self.yes or _is_agreed(question, display)})

    def _problems(self, canary: Canary) -> tuple[str, ...]:
        try:
            after = self.read_back()
            found = problems_of(canary, self.plan, after, self.plan_for(after))
            return found or self.check(canary, after)
        except VgpuCfgError as error:
            return (f"it could not be verified: {error.message}",)


def _is_agreed(question: str, display: RunDisplay) -> bool:
    from vgpu_cfg.execution import one_is_enough

    with display.aside(), one_is_enough():
        return confirm(question)


def check_hosts(
    canary: Canary, plan: Plan, after: Inventory, estate: Estate, secrets: SecretStore
) -> tuple[str, ...]:
    """Make the checks of `verify` on the hosts that a canary is, or runs on; say what failed."""
    from vgpu_cfg.planning.estate.own import own_vms
    from vgpu_cfg.verification import Choice

    running = {
        vm.host_moid or "" for name, vm in own_vms(plan.desired, after).items() if name in canary.names
    }
    hosts = {host.name for host in after.hosts if host.name in canary.names or host.moid in running}
    wanted = Wanted(Choice(only=_CHECKS), hosts=tuple(sorted(hosts)))
    try:
        found = verify_in(plan.desired, estate, wanted, secrets, server=plan.target.address)
    except NotFound:  # no VM of the plan runs there, so that there is nothing to hold the host against
        return ()
    return tuple(
        f"{one.subject.name}: {one.title}: {one.message}"
        for one in found.results
        if one.state is CheckState.FAILED
    )
