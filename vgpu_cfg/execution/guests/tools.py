"""What a run needs beyond a reader and a writer in order to set guests up, and what it keeps of them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from vgpu_cfg.errors import GuestError
from vgpu_cfg.execution.run.session import RunSession
from vgpu_cfg.model.guests.guest import BEGUN, GUEST_MARK_KEY, REPORT_KEY, GuestSpec
from vgpu_cfg.model.observed.vm import GuestSeen, Vm
from vgpu_cfg.model.plan.change import CreateVm, StageGuest
from vgpu_cfg.ports import GuestShell, GuestShells, GuestStager, GuestTarget


def new_run_id() -> str:
    """Make a word that no other attempt has."""
    return secrets.token_hex(4)


@dataclass(frozen=True, slots=True)
class GuestTools:
    """What sets guests up in the name of a plan.

    `stager` makes what is sent to them, `shells` logs in, `new_run` names an attempt.
    """

    stager: GuestStager
    shells: GuestShells
    new_run: Callable[[], str] = new_run_id


class GuestSession:
    """The guests of one run, beside its `run` session for everything.

    What clones carry to their first boot is made at once: where it cannot be made, nothing was touched yet.
    Raises GuestError.
    """

    def __init__(self, run: RunSession, tools: GuestTools) -> None:
        self.run = run
        self.tools = tools
        self._open: dict[str, GuestShell] = {}
        made = {change.vm.name for change in run.plan.changes if isinstance(change, CreateVm)}
        self._seeds = {
            change.vm.name: {
                # A template that was once a VM of a plan hands these down.
                GUEST_MARK_KEY: BEGUN,
                REPORT_KEY: "",
                **(tools.stager.seed(change.spec) if change.with_clone else {}),
            }
            for change in run.plan.changes
            if isinstance(change, StageGuest) and change.vm.name in made
        }

    def seed_of(self, change: CreateVm) -> Mapping[str, str]:
        """Return the extraConfig that a new VM gets for its guest; secrets may be in it."""
        return self._seeds.get(change.vm.name, {})

    def shell(self, spec: GuestSpec, vm: Vm) -> GuestShell:
        """Return the shell of a guest, logged in to once. Raises GuestError."""
        if spec.vm not in self._open:
            target = target_of(spec, vm)
            self._open[spec.vm] = self.tools.shells.connect(target, spec.login)
        return self._open[spec.vm]

    def forget(self, name: str) -> None:
        """Let go of a login that has died, or is not needed any more."""
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
    """Say where a guest is found: the plan's addresses first, then those that its tools tell."""
    seen = vm.detail.guest if vm.detail is not None and vm.detail.guest is not None else GuestSeen()
    reported = [seen.address, *(one for nic in seen.nics if nic.network for one in nic.addresses)]
    addresses = [one.partition("/")[0] for one in (*spec.addresses, *reported)]
    return GuestTarget(
        name=spec.vm,
        moid=vm.moid,
        addresses=tuple(dict.fromkeys(one for one in addresses if _is_reachable(one))),
        prefers_ssh=spec.by == "ssh",
    )


def _is_reachable(address: str) -> bool:
    """Whether an address means the same machine wherever it is used."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    return not (found.is_loopback or found.is_link_local or found.is_unspecified)
