"""The guests of a run: what their setup needs, how each is reached, and a running guest as steps use it.

A guest that does not answer yet is waited for, without blocking the run.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TypeVar

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import CreateVm, PauseTraining, ResumeTraining, StageGuest
from vgpu_cfg.errors import GuestError, GuestNotReady, StalePlan
from vgpu_cfg.execution.run.session import PLAN_AGAIN, RunSession
from vgpu_cfg.execution.run.step import Waiting, wait
from vgpu_cfg.model.guests.guest import (
    AWAITED,
    BEGUN,
    DERIVED,
    GUEST_MARK_KEY,
    HOST_KEY_KEY,
    REPORT_KEY,
    TRAINING_KEY,
    UNKNOWN,
    GuestSpec,
    kept_host_key,
    parse_report,
)
from vgpu_cfg.model.observed.vm import GuestSeen, Vm
from vgpu_cfg.ports import GuestShell, GuestShells, GuestStager, GuestTarget

GUEST_KEYS = frozenset({REPORT_KEY, GUEST_MARK_KEY, HOST_KEY_KEY, TRAINING_KEY})
"""Read with a VM. A reading shows only whether the VM has user data, which may hold secrets."""


def new_run_id() -> str:
    """Make a word that no other attempt has."""
    return secrets.token_hex(4)


@dataclass(frozen=True, slots=True)
class GuestTools:
    """Guest setup for a plan.

    `stager` makes their content, `shells` logs in, `new_run` names an attempt.
    """

    stager: GuestStager
    shells: GuestShells
    new_run: Callable[[], str] = new_run_id


class GuestSession:
    """The guests of one run, whose general state is in the `run` session.

    The first-boot data of clones is made at once: if that fails, nothing has been changed yet. Raises
    GuestError.
    """

    def __init__(self, run: RunSession, tools: GuestTools) -> None:
        self.run = run
        self.tools = tools
        self._open: dict[str, GuestShell] = {}
        made = {change.vm.name for change in of_kind(run.plan.changes, CreateVm)}
        self._seeds: dict[str, Mapping[str, str]] = {}
        for change in run.plan.changes:
            if isinstance(change, StageGuest) and change.vm.name in made:
                self._seeds.setdefault(change.vm.name, self._seed(change))

    def _seed(self, change: StageGuest) -> Mapping[str, str]:
        """Make the pairs of a VM whose guest is first set up by a change."""
        return {
            # A template that was once a VM of a plan hands these down.
            GUEST_MARK_KEY: BEGUN,
            REPORT_KEY: "",
            HOST_KEY_KEY: "" if change.spec.is_exposed else AWAITED,
            **(self.tools.stager.seed(change.spec) if change.with_clone else {}),
        }

    def seed_of(self, change: CreateVm) -> Mapping[str, str]:
        """Return the extraConfig that a new VM gets for its guest."""
        return self._seeds.get(change.vm.name, {})

    def host_keys(self, change: StageGuest) -> Mapping[str, str]:
        """Read by which host keys the guests are known whose keys a change writes, as their VMs say now."""
        moids = {peer.name: peer.moid or self.run.made.get(peer.name) for peer in change.peers}
        wanted = [moid for moid in moids.values() if moid is not None]
        found = {vm.moid: vm for vm in self.run.reader.read_vms(wanted, GUEST_KEYS)} if wanted else {}
        vms = {name: found.get(moid) if moid is not None else None for name, moid in moids.items()}
        return {
            name: self.former_host_key(change.spec, vm, name) or known_host_key(change.spec, vm)
            for name, vm in vms.items()
        }

    def former_host_key(self, spec: GuestSpec, vm: Vm | None, name: str) -> str:
        """Return the host key of a guest for which one was derived from keys before those of now, else ""."""
        settings = vm.detail.extra_config if vm is not None and vm.detail is not None else {}
        mark = settings.get(GUEST_MARK_KEY, "")
        is_derived = known_host_key(spec, vm) == DERIVED
        return self.tools.stager.former_host_key(name, mark) if is_derived else ""

    def shell(self, spec: GuestSpec, vm: Vm) -> GuestShell:
        """Return the shell of a guest, logged in to once. Raises GuestError."""
        if spec.vm not in self._open:
            target = target_of(spec, vm)
            self._open[spec.vm] = self.tools.shells.connect(target, spec.login)
        return self._open[spec.vm]

    def forget(self, name: str) -> None:
        """Close a login that has failed or is no longer needed."""
        shell = self._open.pop(name, None)
        if shell is not None:
            try:
                shell.close()
            except GuestError:
                return  # it is gone either way

    def close(self) -> None:
        """Log out everywhere."""
        for name in tuple(self._open):
            self.forget(name)


def target_of(spec: GuestSpec, vm: Vm) -> GuestTarget:
    """Return the guest's addresses: those of the plan first, then those that its tools report."""
    seen = vm.detail.guest if vm.detail is not None and vm.detail.guest is not None else GuestSeen()
    reported = [seen.address, *(one for nic in seen.nics if nic.network for one in nic.addresses)]
    addresses = [one.partition("/")[0] for one in (*spec.addresses, *reported)]
    return GuestTarget(
        name=spec.vm,
        moid=vm.moid,
        addresses=tuple(dict.fromkeys(one for one in addresses if _is_reachable(one))),
        host_key=known_host_key(spec, vm),
        prefers_ssh=spec.by == "ssh",
    )


def known_host_key(spec: GuestSpec, vm: Vm | None) -> str:
    """Return by which host key a guest is known, DERIVED or UNKNOWN (see `model.guests.host_keys`).

    `spec` is the VM's own or that of another of its mesh. The guest's own report counts until it is kept. The
    VM is None where it is not there.
    """
    settings = vm.detail.extra_config if vm is not None and vm.detail is not None else {}
    is_staged = bool(settings.get(GUEST_MARK_KEY, ""))
    known = kept_host_key(settings, is_staged=is_staged, is_exposed=spec.is_exposed)
    report = parse_report(settings.get(REPORT_KEY, ""))
    if known == UNKNOWN and settings.get(HOST_KEY_KEY) == AWAITED and report is not None:
        return report.host_key
    return known


def _is_reachable(address: str) -> bool:
    """Whether an address means the same machine wherever it is used."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    return not (found.is_loopback or found.is_link_local or found.is_unspecified)


T = TypeVar("T")
OfGuest = StageGuest | PauseTraining | ResumeTraining
"""The changes that are made in a guest."""


class InGuest:
    """The guest of one change: its VM as last read, its shell, and when its time is up."""

    def __init__(self, change: OfGuest, guests: GuestSession, seconds: float) -> None:
        self._id, self._of = change.id, change.vm
        self._spec = change.spec
        self._guests = guests
        self._run = guests.run
        self._options = guests.run.options
        self._deadline = self._run.now() + seconds
        self._no_shell: GuestError | None = None
        self._try_shell_after = float("-inf")
        self.vm: Vm

    def find(self) -> Waiting[None]:
        """See that the VM is this plan's and runs. Raises StalePlan."""
        self.vm = yield from self._run.present(self._of, GUEST_KEYS)
        if not self.vm.is_on:
            raise StalePlan(
                f"{self.vm.name} is {self.vm.power_state}; its guest can be set up only while it is running",
                subject=self.vm.name,
                remedy=PLAN_AGAIN,
            )

    def note(self, message: str) -> None:
        """Report to the observers of the run."""
        self._run.note(self._id, message)

    def _in_shell(self, act: Callable[[GuestShell], T]) -> Waiting[T]:
        """Do something in the guest's shell; a guest that is booting is waited for.

        One that has been up for longer than a boot takes is given less time. Raises GuestError.
        """
        uptime = self.vm.detail.uptime_seconds if self.vm.detail is not None else None
        is_booting = uptime is None or uptime < self._spec.wait_seconds
        patience = self._spec.wait_seconds if is_booting else self._options.guest_silence_seconds
        deadline = min(self._deadline, self._run.now() + patience)
        while True:
            try:
                done = act(self._guests.shell(self._spec, self.vm))
            except GuestNotReady as error:
                if self._no_shell is None:
                    self.note(f"the guest is not responding yet: {error.message}")
                self._lose_shell(error)
                if self._run.now() >= deadline:
                    raise
            else:
                self._no_shell = None
                return done
            yield from self._pause(self._options.guest_retry_seconds)
            # Its tools may tell its address only now.
            self.vm = yield from self._run.present(self._of, GUEST_KEYS)

    def _lose_shell(self, error: GuestError) -> None:
        self._guests.forget(self._spec.vm)
        self._no_shell = error
        self._try_shell_after = self._run.now() + self._options.guest_retry_seconds

    def _pause(self, seconds: float) -> Waiting[None]:
        yield from wait(seconds)
        self._run.check_going_on()

    def _settings(self) -> Mapping[str, str]:
        return self.vm.detail.extra_config if self.vm.detail is not None else {}


def text_of(content: bytes | None) -> str:
    """Return the text of a file in a guest."""
    return (content or b"").decode("utf-8", errors="replace")
