"""The course of a trial: its experiments in order, each judging some beliefs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.changes.change import CreateVm
from vgpu_cfg.changes.kinds.move_vm import Destination
from vgpu_cfg.contact.tools import Tools
from vgpu_cfg.errors import HostShellError, NotPermitted, TaskFailed, Unreachable, VCenterError
from vgpu_cfg.knowledge.beliefs import load_beliefs
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.verdicts import Verdict
from vgpu_cfg.planning.doctor.trials import Experiment, Step, TrialMark
from vgpu_cfg.planning.doctor.tried import Tried
from vgpu_cfg.ports import HostShell

_POLL_SECONDS = 1.0
_SHOWS_WITHIN = 10


@dataclass(slots=True)
class Bench:
    """A trial that is under way."""

    tools: Tools
    mark: TrialMark
    planned: Mapping[str, CreateVm] = field(default_factory=dict)
    """The requests that the planner makes for VMs, by the part of their names."""
    vms: dict[str, Vm] = field(default_factory=dict)
    """VMs as they were read last, likewise."""
    expected: tuple[str, ...] = ()
    """The GPUs of which the planner expects one for the VM with a vGPU; empty if there is no choice."""
    most_mib: int = 0
    """The most space of the VMs on the datastore."""
    has_drs: bool = False
    """Whether DRS is enabled in the cluster of these VMs."""
    move_to: Destination | None = None
    shells: tuple[tuple[Host, Callable[[], HostShell]], ...] = ()
    """The hosts whose shells are read, each with its login."""

    def shown(self, ask: Callable[[], bool], seconds: int = _SHOWS_WITHIN) -> bool:
        """Ask once a second until it is true; False if it does not become true in time."""
        for _ in range(seconds):
            if ask():
                return True
            self.tools.clock.pause(_POLL_SECONDS)
        return ask()


Verdicts = Iterator[Tried]
Course = Callable[[Bench], Verdicts]
"""The course of an experiment: it makes its objects, and yields verdicts on its beliefs."""


def verdict_on(belief: str, seen: str, *, is_so: bool) -> Tried:
    """Return the verdict on a belief by an observation."""
    return Tried(belief, Verdict.HOLDS if is_so else Verdict.FAILS, seen)


def rejection(call: Callable[[], object]) -> str:
    """Make a request, and return vCenter's message if it rejects it. Raises NotPermitted and Unreachable."""
    try:
        call()
    except (NotPermitted, Unreachable):
        raise
    except (VCenterError, TaskFailed) as error:
        return error.message
    return ""


def run_all(experiments: Sequence[Experiment], courses: Mapping[str, Course], bench: Bench) -> Verdicts:
    """Run experiments in turn, and yield a verdict on each of their beliefs.

    An experiment that vCenter refuses ends there, with the reason. Raises Unreachable if vCenter is away.
    """
    for one in experiments:
        left, reason = dict.fromkeys(one.beliefs), "the time limit was reached"
        try:
            for tried in () if bench.tools.is_late else courses[one.does](bench):
                left.pop(tried.belief)
                yield tried
                reason = ""
        except Unreachable:
            raise
        except (VCenterError, TaskFailed, HostShellError) as error:
            reason = error.message
        yield from (Tried(belief, Verdict.OPEN, reason) for belief in left)


def all_tried(found: Iterable[Tried], steps: Iterable[Step]) -> tuple[Tried, ...]:
    """Return one verdict on each belief that these steps could try; one that does not hold goes first."""
    best: dict[str, Tried] = {
        one.id: Tried(one.id, Verdict.OPEN, "")
        for one in load_beliefs().values()
        if one.trial in {step.trial for step in steps}
    }
    order = (Verdict.OPEN, Verdict.HOLDS, Verdict.FAILS)
    for tried in found:
        known = best.get(tried.belief)
        if known is None or order.index(tried.verdict) >= order.index(known.verdict):
            best[tried.belief] = tried
    return tuple(best.values())
