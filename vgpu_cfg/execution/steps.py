"""Map each kind of change to its step; each step checks, writes and confirms.

A step yields the moid of a task it started and is sent the task's last update, or yields a `Pause` and is
sent None after that time; meanwhile other changes run. Each step reads before it writes, raises if it must
not or cannot go on, and returns a `StepResult` once the request is confirmed.
"""

from __future__ import annotations

from vgpu_cfg.changes.change import (
    Change,
    ChangeNetwork,
    CreateVm,
    ManualStep,
    PauseTraining,
    ResumeTraining,
    SetClusterOption,
    SetImage,
    SetVCenterOption,
    StageGuest,
)
from vgpu_cfg.execution.guests.session import GuestSession
from vgpu_cfg.execution.guests.steps import stage_guest
from vgpu_cfg.execution.guests.training import ask_training
from vgpu_cfg.execution.hosts.images import set_image
from vgpu_cfg.execution.hosts.networks import change_network, set_cluster_option, set_vcenter_option
from vgpu_cfg.execution.hosts.session import HostSession
from vgpu_cfg.execution.hosts.steps import HostStep, make_host_step
from vgpu_cfg.execution.run.session import RunSession
from vgpu_cfg.execution.run.step import Step
from vgpu_cfg.execution.vms.steps import create_vm, make_vm_step

_OfHosts = HostStep | SetClusterOption | SetVCenterOption | SetImage | ChangeNetwork


def is_for_hosts(change: Change) -> bool:
    """Whether a change is to a host, a cluster's options, a network or vCenter itself."""
    return isinstance(change, _OfHosts)


def make_step(
    change: Change, session: RunSession, hosts: HostSession | None = None, guests: GuestSession | None = None
) -> Step:
    """Return the generator that carries a change out; nothing happens until it is advanced.

    Without `hosts` and `guests` only VMs and their rules are changed; anything else raises ValueError.
    """
    match change:
        case ManualStep():
            raise ValueError(f"{change.id} is a manual step")
        case CreateVm():
            return create_vm(change, session, guests.seed_of(change) if guests is not None else {})
        case StageGuest():
            if guests is None:
                raise ValueError(f"{change.id} requires `guests`")
            return stage_guest(change, guests)
        case PauseTraining() | ResumeTraining():
            if guests is None:
                raise ValueError(f"{change.id} requires `guests`")
            return ask_training(change, guests)
        case _ if isinstance(change, _OfHosts):
            if hosts is None:
                raise ValueError(f"{change.id} requires `hosts`")
            return _make_step_for_hosts(change, hosts)
        case _:
            return make_vm_step(change, session)


def _make_step_for_hosts(change: _OfHosts, hosts: HostSession) -> Step:
    match change:
        case SetClusterOption():
            return set_cluster_option(change, hosts)
        case SetVCenterOption():
            return set_vcenter_option(change, hosts)
        case SetImage():
            return set_image(change, hosts)
        case ChangeNetwork():
            return change_network(change, hosts)
        case _:
            return make_host_step(change, hosts)
