"""What other people and time do to the estate of a job between two commands; it is estate.yaml."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from pyVmomi import vim

from tests.cli.colleague import Colleague
from tests.cli.command_line import CommandLine
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.state.inventory import Host, VirtualMachine

ESTATE = "estate.yaml"


def migrate(run: CommandLine, name: str, host: str) -> None:
    """Migrate a VM to a host, as `govc vm.migrate -host` does."""
    lab = run.lab(ESTATE)
    moid = next(one.moid for one in lab.state.all(Host) if one.name == host)
    Colleague(lab).does(name, "RelocateVM_Task", vim.vm.RelocateSpec(host=vim.HostSystem(moid)))


def power(run: CommandLine, name: str, method: str) -> None:
    """Power a VM on or off, as the vSphere Client does."""
    Colleague(run.lab(ESTATE)).does(name, method)


def fails_to_start(run: CommandLine, name: str) -> None:
    """Try to power a VM on, in vain."""
    with pytest.raises(AssertionError):
        Colleague(run.lab(ESTATE)).does(name, "PowerOnVM_Task")


def boot(run: CommandLine) -> None:
    """Wait until no host boots."""
    lab = run.lab(ESTATE)
    while lab.state.booting and lab.wait():
        continue
    lab.save()


def lose_license(run: CommandLine, *names: str) -> None:
    """Let the licenses of VMs run out at the license server."""
    lab = run.lab(ESTATE)
    for vm in lab.state.all(VirtualMachine):
        if vm.name in names:
            guest_of(vm).licence = ""
            lab.state.touch(vm)
    lab.save()


HANDS: Mapping[str, Callable[..., None]] = {
    "migrate": migrate,
    "power": power,
    "fails to start": fails_to_start,
    "hosts boot": boot,
    "lose license": lose_license,
}
