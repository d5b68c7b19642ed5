"""A whole run of checks: machines in parallel, pairs, all together, and each check carried out.

Checks that rest on a failure are skipped: a check runs if its prerequisites hold. Pairs have an order. A
check's steps are carried out in shells; their answers and errors become verdicts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Self, TypeVar

from vgpu_cfg.errors import GuestError, Interrupted, ReachError
from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.model.verification import Baseline, CheckResult, CheckState, CheckSubject, Verification, VmPlace
from vgpu_cfg.parsers.text import UnreadableOutput
from vgpu_cfg.ports import GuestShell, HostShell, ShellResult
from vgpu_cfg.verification.asking import (
    Asking,
    Command,
    Pause,
    ReadClock,
    Step,
    Verdict,
    WriteFile,
    bounded,
    failed,
)
from vgpu_cfg.verification.checks.training_checks import TrainingView
from vgpu_cfg.verification.learned import Learned, held_against
from vgpu_cfg.verification.table import (
    BY_KEY,
    CHECKS,
    CheckBase,
    Choice,
    GuestCheck,
    HostCheck,
    PairCheck,
    TrainingCheck,
    needed_for,
)
from vgpu_cfg.verification.views import GuestView, HostView, PairView

Found = dict[tuple[str, str], CheckResult]
"""Results by (check, subject's name)."""

_S = TypeVar("_S")
_R = TypeVar("_R")

_BROKEN = (CheckState.FAILED, CheckState.NOT_ASKED)


@dataclass(frozen=True, slots=True)
class Channels:
    """How machines are reached: each function logs in, by name, and raises GuestError or HostShellError.

    `pause` waits. `now` is vCenter's clock. `on_result` hears of each result as it comes, from any thread.
    """

    guest: Callable[[str], GuestShell]
    host: Callable[[str], HostShell]
    pause: Callable[[float], None]
    now: Callable[[], datetime]
    on_result: Callable[[CheckResult], None] = field(default=lambda _: None)


def verify(  # noqa: PLR0913 - what a run is made of
    hosts: Sequence[HostView],
    guests: Sequence[GuestView],
    channels: Channels,
    choice: Choice,
    *,
    plan: str,
    server: str,
    begun: datetime,
    baseline: Baseline | None = None,
    vms: Sequence[str] = (),
) -> Verification:
    """Make the chosen checks, and those that they rest on.

    `vms` are all VMs to be verified, those without a guest that can be asked included.
    A check that was not chosen is shown only if it failed. With a `baseline`, figures that lost too much
    fail. Raises KeyboardInterrupt after everything that was started on machines has been stopped.
    """
    started = time.monotonic()
    with _Run(channels, choice) as run:
        run.on_hosts(hosts)
        seen = run.on_guests(guests)
        run.on_pairs(seen)
        run.on_all(seen)
        run.settle()
    results = run.results
    if baseline is not None:
        results = list(held_against(baseline, results, choice.thresholds))
    places = tuple(
        VmPlace(vm=guest.name, host=guest.host, profiles=guest.profiles, host_gpus=guest.host_gpus)
        for guest in guests
    )
    return Verification(
        plan=plan,
        server=server,
        begun=begun,
        seconds=round(time.monotonic() - started, 3),
        is_quick=choice.is_quick,
        thresholds=choice.thresholds,
        places=places,
        results=tuple(
            found for found in results if choice.shows(found.check) or found.state is CheckState.FAILED
        ),
        unasked=tuple(_unasked(vms, results, choice)),
    )


def _unasked(vms: Sequence[str], results: Iterable[CheckResult], choice: Choice) -> Iterable[str]:
    """Return the VMs in whose guests no check came to anything; none if no check of guests was chosen."""
    if not any(choice.shows(check.key) for check in CHECKS if isinstance(check, GuestCheck)):
        return ()
    silent = (CheckState.NOT_ASKED, CheckState.SKIPPED)
    asked = {one.subject.name for one in results if one.subject.kind == "vm" and one.state not in silent}
    return (name for name in vms if name not in asked)


class _Run:
    """The state of one run. Shells are opened when first needed, kept, and closed at the end."""

    def __init__(self, channels: Channels, choice: Choice) -> None:
        self.results: list[CheckResult] = []
        self._found: Found = {}
        self._channels = channels
        self._choice = choice
        wanted = [check for check in CHECKS if choice.takes(check)]
        needed = needed_for(check.key for check in wanted if choice.shows(check.key))
        self._checks = tuple(check for check in wanted if check.key in needed)
        self._stopped = threading.Event()
        self._guests: dict[str, GuestShell] = {}
        self._hosts: dict[str, HostShell] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        guests: list[GuestShell | HostShell] = [*self._guests.values(), *self._hosts.values()]
        for shell in guests:
            try:
                shell.close()
            except ReachError:
                continue  # it is gone already

    # ---- the four parts

    def on_hosts(self, hosts: Sequence[HostView]) -> None:
        """Check hosts, side by side."""
        self._gather(self._side_by_side(self._host_results, hosts))

    def _host_results(self, view: HostView) -> list[CheckResult]:
        subject = CheckSubject(kind="host", name=view.name)
        machines = self._machines({"": partial(self._host, view.name)})
        view = replace(view, thresholds=self._choice.thresholds)
        found: Found = {}
        for check in self._checks:
            if isinstance(check, HostCheck):
                ask = partial(check.ask, view)
                found[check.key, view.name], _ = self._made(check, subject, found, [view.name], ask, machines)
        return list(found.values())

    def on_guests(self, guests: Sequence[GuestView]) -> list[GuestView]:
        """Check guests in parallel; return them with their observations."""
        made = self._side_by_side(self._guest_results, guests)
        self._gather(results for _, results in made)
        return [view for view, _ in made]

    def _guest_results(self, view: GuestView) -> tuple[GuestView, list[CheckResult]]:
        view = replace(view, thresholds=self._choice.thresholds)
        subject = CheckSubject(kind="vm", name=view.name, vms=(view.name,))
        machines = self._machines({"": partial(self._guest, view.name)})
        found: Found = {}
        for check in self._checks:
            if isinstance(check, GuestCheck):
                ask = partial(check.ask, view)
                result, learned = self._made(check, subject, found, [view.name], ask, machines)
                found[check.key, view.name] = result
                view = view.knowing(learned) if learned is not None else view
        return view, list(found.values())

    def on_pairs(self, guests: Sequence[GuestView]) -> None:
        """Check pairs: what only asks, from each VM to all others; what measures, in disjoint pairs."""
        pair_checks = [check for check in self._checks if isinstance(check, PairCheck)]
        asking = [check for check in pair_checks if not check.measures]
        measuring = [check for check in pair_checks if check.measures]
        members = [guest for guest in guests if guest.mesh is not None]

        def from_one(source: GuestView) -> list[CheckResult]:
            targets = (one for one in members if one.name != source.name)
            views = (PairView(source, one, self._choice.thresholds) for one in targets)
            return [result for view in views for result in self._pair(view, asking)]

        if asking:
            self._gather(self._side_by_side(from_one, members))
        workers = [guest for guest in members if guest.is_worker]
        for pairs in rounds(len(workers)) if measuring else ():
            views = [
                PairView(workers[one], workers[other], self._choice.thresholds, number)
                for number, (one, other) in enumerate(pairs)
            ]
            self._gather(self._side_by_side(lambda view: self._pair(view, measuring), views))
            # A port can be slow in one direction only, so that each pair is measured both ways.
            back = [replace(view, source=view.target, target=view.source) for view in views]
            self._gather(self._side_by_side(lambda view: self._pair(view, measuring), back))

    def _pair(self, view: PairView, checks: Iterable[PairCheck]) -> list[CheckResult]:
        one, other = view.source.name, view.target.name
        subject = CheckSubject(kind="pair", name=view.name, vms=(one, other))
        machines = self._machines(
            {
                "": partial(self._guest, one),
                one: partial(self._guest, one),
                other: partial(self._guest, other),
            }
        )
        found: Found = {}
        among = [one, other, view.name, f"{other} -> {one}"]
        for check in checks:
            seen = {**self._found, **found}
            ask = partial(check.ask, replace(view, earlier=seen))
            found[check.key, view.name], _ = self._made(check, subject, seen, among, ask, machines)
        return list(found.values())

    def on_all(self, guests: Sequence[GuestView]) -> None:
        """Check all workers together."""
        launcher = next((guest for guest in guests if guest.launcher is not None), None)
        if launcher is None or launcher.launcher is None:
            return
        workers = tuple(guest for guest in guests if guest.is_worker)
        view = TrainingView(launcher, workers, self._choice.thresholds)
        names = [worker.name for worker in workers]
        subject = CheckSubject(kind="training", name=view.name, vms=tuple(names))
        machines = self._machines(
            {"": partial(self._guest, launcher.name)}
            | {name: partial(self._guest, name) for name in (*names, launcher.name)}
        )
        pairs = [f"{one} -> {other}" for one in names for other in names if one != other]
        for check in self._checks:
            if isinstance(check, TrainingCheck):
                among = [*names, launcher.name, *pairs]
                ask = partial(check.ask, view)
                result, _ = self._made(check, subject, self._found, among, ask, machines)
                self._gather([[result]])

    def settle(self) -> None:
        """Remove unproven results that a passed check proves for the same VMs."""
        for place, result in enumerate(self.results):
            by = BY_KEY[result.check].proven_by
            proof = next((one for one in self.results if one.check == by and _is_proof(one, result)), None)
            if result.state is CheckState.UNPROVEN and proof is not None:
                why = f"{result.why}; verified by {by}"
                self.results[place] = result.model_copy(update={"state": CheckState.SKIPPED, "why": why})

    # ---- parts of them

    def _made(
        self,
        check: CheckBase,
        subject: CheckSubject,
        found: Mapping[tuple[str, str], CheckResult],
        among: Sequence[str],
        ask: Callable[[], Asking],
        machines: Machines,
    ) -> tuple[CheckResult, Learned | None]:
        """Run one check, unless its prerequisite is broken for one of the subjects `among`."""
        started = time.monotonic()
        why = broken(check, found, among, own=subject.name)
        verdict = Verdict(CheckState.NOT_ASKED, why=why) if why else drive(ask(), machines)
        result = CheckResult(
            subject=subject,
            check=check.key,
            title=check.title,
            state=verdict.state,
            expected=bounded(verdict.expected),
            observed=bounded(verdict.observed),
            code=verdict.code.value if verdict.code is not None else "",
            meaning=bounded(verdict.meaning),
            remedy=bounded(verdict.remedy),
            why=bounded(verdict.why),
            measured=verdict.measured,
            is_asked=verdict.is_asked,
            evidence=verdict.evidence,
            seconds=round(time.monotonic() - started, 3),
        )
        self._channels.on_result(result)
        return result, verdict.learned

    def _gather(self, made: Iterable[Sequence[CheckResult]]) -> None:
        for results in made:
            for result in results:
                self.results.append(result)
                self._found[result.check, result.subject.name] = result

    def _machines(self, shells: Mapping[str, Callable[[], GuestShell | HostShell]]) -> Machines:
        return Machines(shells, self._channels.pause, self._stopped, self._channels.now)

    def _guest(self, name: str) -> GuestShell:
        if name not in self._guests:
            self._guests[name] = self._channels.guest(name)
        return self._guests[name]

    def _host(self, name: str) -> HostShell:
        if name not in self._hosts:
            self._hosts[name] = self._channels.host(name)
        return self._hosts[name]

    def _side_by_side(self, work: Callable[[_S], _R], subjects: Sequence[_S]) -> list[_R]:
        """Call a function for each subject at the same time, and return the results in their order.

        On Ctrl-C nothing new is begun, and running calls are waited for: each stops the processes it started.
        """
        if not subjects:
            return []
        with ThreadPoolExecutor(min(self._choice.parallel, len(subjects))) as pool:
            futures = [pool.submit(work, one) for one in subjects]
            try:
                return [future.result() for future in futures]
            except BaseException:
                self._stopped.set()
                for future in futures:
                    future.cancel()
                raise


def _is_proof(proof: CheckResult, of: CheckResult) -> bool:
    return proof.state is CheckState.PASSED and set(of.subject.vms) <= set(proof.subject.vms)


def broken(
    check: CheckBase, found: Mapping[tuple[str, str], CheckResult], among: Sequence[str], *, own: str
) -> str:
    """Say which broken link a check rests on, "" where none is.

    `among` names the subjects whose links count. The failed check itself is shown, not its followers.
    """
    for key in check.rests_on:
        for name in among:
            result = found.get((key, name))
            if result is None or result.state not in _BROKEN:
                continue
            if result.state is CheckState.NOT_ASKED:
                where = "" if name == own or " on " in result.why else f" on {name}"
                return f"{result.why}{where}"
            return f"{key} failed" if name == own else f"{key} failed on {name}"
    return ""


def rounds(count: int) -> list[list[tuple[int, int]]]:
    """Divide all pairs of `count` members into rounds in which each takes part once at most.

    The first member stays in its place while the others go round (the circle method).
    """
    places: list[int | None] = [*range(count), *([None] if count % 2 else [])]
    made: list[list[tuple[int, int]]] = []
    for _ in range(max(0, len(places) - 1)):
        half = len(places) // 2
        facing = zip(places[:half], reversed(places[half:]), strict=True)
        made.append(
            [
                (min(one, other), max(one, other))
                for one, other in facing
                if one is not None and other is not None
            ]
        )
        places = [places[0], places[-1], *places[1:-1]]
    return made


@dataclass(frozen=True, slots=True)
class Machines:
    """The shells that a check may use, by name; "" is its own subject's. `now` is vCenter's clock."""

    shells: Mapping[str, Callable[[], GuestShell | HostShell]]
    pause: Callable[[float], None]
    stopped: threading.Event
    now: Callable[[], datetime]


def drive(asking: Asking, machines: Machines) -> Verdict:
    """Carry a check out to its verdict.

    Raises Interrupted if the run is interrupted, after the check has stopped the processes it started.
    """
    try:
        return _drive(asking, machines)
    except UnreadableOutput as error:
        return failed(VerifyCode.NOT_UNDERSTOOD, error.message, remedy=error.remedy)
    except GuestError as error:
        return failed(VerifyCode.GUEST_UNREACHED, error.message, remedy=error.remedy)
    except ReachError as error:
        return failed(VerifyCode.NOT_UNDERSTOOD, error.message, remedy=error.remedy)


def _drive(asking: Asking, machines: Machines) -> Verdict:
    try:
        step = next(asking)
        while True:
            try:
                answer = _carry_out(step, machines)
            except BaseException as error:  # noqa: BLE001 - the check stops what it started, then raises it again
                step = asking.throw(error)
            else:
                step = asking.send(answer)
    except StopIteration as ended:
        verdict: Verdict = ended.value
        return verdict


def _carry_out(step: Step, machines: Machines) -> ShellResult:
    if isinstance(step, Command) and step.is_cleanup:
        try:
            return _run(step, machines)
        except ReachError as error:  # what was to be stopped ends by itself, and the reason is told already
            return ShellResult(status=1, stderr=error.message)
    if machines.stopped.is_set():
        raise Interrupted("stopped", remedy="run the command again")
    match step:
        case Command():
            return _run(step, machines)
        case WriteFile():
            shell: Any = machines.shells[step.on]()  # a guest's: no check writes to a host
            shell.write_file(step.path, step.content.encode(), step.mode)
            return ShellResult(status=0)
        case Pause():
            machines.pause(step.seconds)
            return ShellResult(status=0)
        case ReadClock():
            return ShellResult(status=0, stdout=f"{machines.now().timestamp():.6f}")


def _run(step: Command, machines: Machines) -> ShellResult:
    return machines.shells[step.on]().run(step.arguments, timeout_seconds=step.timeout_seconds)
