"""A run at a canary: it is read, planned and verified again; then the user is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from vgpu_cfg.changes.report import CanaryResult
from vgpu_cfg.cli.flows.verify_flow import Wanted, verify_in
from vgpu_cfg.cli.notice import confirm
from vgpu_cfg.errors import NotFound, VgpuCfgError
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.verification import CheckResult, CheckState
from vgpu_cfg.planning.canaries import problems_of, upgraded_hosts

if TYPE_CHECKING:
    from vgpu_cfg.changes.plan import Canary, Plan
    from vgpu_cfg.cli.compose import Estate
    from vgpu_cfg.model.observed.inventory import Inventory
    from vgpu_cfg.render.text.run.progress import RunDisplay
    from vgpu_cfg.settings.secrets import SecretStore

_GUEST_CHECKS = ("reached", "driver", "gpus", "container-gpus")
"""The guest checks of a host with another driver: whether theirs still loads with it."""
_GUEST_SECONDS = 600.0
"""For how long a guest that was just started may be silent."""
_GUEST_PAUSE_SECONDS = 10.0
_CHECKS = ("connected", "host-driver", "graphics", "mig", "host-ats", "host-roce", "nic-firmware")
"""The checks of hosts that `verify` makes, but for licences: a guest fetches its own after it has started."""


@dataclass(frozen=True, slots=True)
class CanaryFindings:
    """Deviations of a canary from the plan, and checks that were not possible."""

    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CanaryWatch:
    """The means to verify the canaries of a plan, and whether to ask."""

    plan: Plan
    read_back: Callable[[], Inventory]
    plan_for: Callable[[Inventory], Plan]
    check: Callable[[Canary, Inventory], CanaryFindings]
    yes: bool

    def pass_canary(self, canary: Canary, display: RunDisplay, stop: Callable[[], bool]) -> CanaryResult:
        """Verify a canary; if it is as planned, ask whether to go on. Once stopped, do not ask."""
        found = self._found(canary)
        result = CanaryResult(
            names=canary.names, others=canary.others, problems=found.problems, notes=found.notes
        )
        if result.problems or stop():
            return result
        said = "; ".join((f"The canary {fold_names(canary.names)} matches the plan", *found.notes))
        question = f"{said}. Continue with {fold_names(canary.others)}?"
        return result.model_copy(update={"goes_on": self.yes or _is_agreed(question, display)})

    def _found(self, canary: Canary) -> CanaryFindings:
        try:
            after = self.read_back()
            found = problems_of(canary, self.plan, after, self.plan_for(after))
            return CanaryFindings(found) if found else self.check(canary, after)
        except VgpuCfgError as error:
            return CanaryFindings((f"verification failed: {error.message}",))


def _is_agreed(question: str, display: RunDisplay) -> bool:
    from vgpu_cfg.execution import one_is_enough

    with display.aside(), one_is_enough():
        return confirm(question)


def check_hosts(
    canary: Canary, plan: Plan, after: Inventory, estate: Estate, secrets: SecretStore
) -> CanaryFindings:
    """Make the checks of `verify` on the hosts of a canary; return the failures.

    On hosts with another driver the guests are asked too, since theirs must load with it: the plan has
    started its VMs there again by then. If none runs, the driver is untested, which is reported.
    """
    from vgpu_cfg.planning.estate.ownership import own_vms
    from vgpu_cfg.verification import Choice

    running = {
        vm.host_moid or "" for name, vm in own_vms(plan.desired, after).items() if name in canary.names
    }
    hosts = {host.name for host in after.hosts if host.name in canary.names or host.moid in running}
    problems = _failed(plan, estate, secrets, Wanted(Choice(only=_CHECKS), hosts=tuple(sorted(hosts))))
    notes: list[str] = []
    own = own_vms(plan.desired, after)
    for moid, name in upgraded_hosts(canary, plan).items():
        tried = [one for one, vm in own.items() if vm.host_moid == moid and vm.is_on]
        if not tried:
            notes.append(
                f"the new driver on {name} has not been tested: none of the plan's VMs run on that host"
            )
            continue
        choice = Choice(only=_GUEST_CHECKS, is_quick=True)
        found = _of_guests(plan, estate, secrets, Wanted(choice, vms=tuple(tried)))
        problems += _told(found)
        if not any(one.state in (CheckState.PASSED, CheckState.FAILED) for one in found):
            notes.append(f"the new driver on {name} has not been tested: no guest on it could be checked")
    return CanaryFindings(tuple(dict.fromkeys(problems)), tuple(notes))


def _of_guests(plan: Plan, estate: Estate, secrets: SecretStore, wanted: Wanted) -> tuple[CheckResult, ...]:
    """Ask guests that were just started, again and again for as long as one of them does not answer yet."""
    until = estate.clock.now() + timedelta(seconds=_GUEST_SECONDS)
    while True:
        found = _results(plan, estate, secrets, wanted)
        is_silent = any(one.check == "reached" and one.state is CheckState.FAILED for one in found)
        if not is_silent or estate.clock.now() >= until:
            return found
        estate.clock.pause(_GUEST_PAUSE_SECONDS)


def _failed(plan: Plan, estate: Estate, secrets: SecretStore, wanted: Wanted) -> list[str]:
    return _told(_results(plan, estate, secrets, wanted))


def _results(plan: Plan, estate: Estate, secrets: SecretStore, wanted: Wanted) -> tuple[CheckResult, ...]:
    try:
        return tuple(verify_in(plan.desired, estate, wanted, secrets, server=plan.target.address).results)
    except NotFound:  # no VM of the plan runs there, so that there is nothing to hold the host against
        return ()


def _told(results: Sequence[CheckResult]) -> list[str]:
    return [
        f"{one.subject.name}: {one.title}: {one.message}" for one in results if one.state is CheckState.FAILED
    ]
