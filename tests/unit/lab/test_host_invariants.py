"""Hosts rest, leave, reboot and go dark at random under running VMs, and nothing contradicts itself."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from tests.extent import examples
from tests.unit.lab.test_invariants import LabMachine
from vgpu_cfg.lab.operations.hosts.power import VGPU_OPTION
from vgpu_cfg.lab.rules.drs import HOT_MIGRATE
from vgpu_cfg.lab.state.inventory import Cluster, Host, VirtualMachine

NAMES = ("esx-a100-01.lab", "esx-a100-02.lab", "esx-l40s-01.lab")
HOSTS = st.sampled_from(NAMES)


class HostMachine(LabMachine):
    """What the other machine does, while hosts come and go."""

    @rule(level=st.sampled_from(["manual", "fullyAutomated"]), moves_vgpus=st.booleans())
    def automate(self, level: str, moves_vgpus: bool) -> None:
        for cluster in self.lab.state.all(Cluster):
            cluster.drs_enabled = not cluster.is_standalone
            cluster.drs_behavior = level
            cluster.drs_options = {VGPU_OPTION: "-1"} if moves_vgpus else {}
        self.lab.state.settings[HOT_MIGRATE] = moves_vgpus

    @rule(name=HOSTS, timeout=st.sampled_from([0, 60]))
    def enter(self, name: str, timeout: int) -> None:
        self.ask(name, "EnterMaintenanceMode_Task", timeout=timeout)

    @rule(name=HOSTS)
    def leave(self, name: str) -> None:
        self.ask(name, "ExitMaintenanceMode_Task", timeout=0)

    @rule(name=HOSTS, force=st.booleans())
    def reboot(self, name: str, force: bool) -> None:
        self.ask(name, "RebootHost_Task", force=force)

    @rule(name=HOSTS)
    def shut_down(self, name: str) -> None:
        self.ask(name, "ShutdownHost_Task", force=False)

    @rule(name=HOSTS)
    def press_the_button(self, name: str) -> None:
        host = self.rig.host(name)
        if host.is_off and host.moid not in self.lab.state.leaving:
            self.lab.at_server(host, "power_on")

    @rule()
    def wait(self) -> None:
        self.lab.wait()

    def ask(self, name: str, method: str, **arguments: object) -> None:
        host = self.rig.host(name)
        if may(self, host, method, force=bool(arguments.get("force"))):
            self.lab.call(host, method, **arguments)
            self.lab.run_until_idle()

    @invariant()
    def nothing_runs_where_nothing_can(self) -> None:
        for host in self.hosts():
            if host.name in NAMES and (host.in_maintenance or host.connection == "notResponding"):
                running = [self.lab.state.get(moid, VirtualMachine) for moid in host.vms]
                assert not any(vm.is_on for vm in running), host.name

    @invariant()
    def who_enters_has_a_task_for_it(self) -> None:
        if hasattr(self, "lab"):
            entering = {host.moid for host in self.hosts() if host.entering_maintenance}
            tasks = [self.lab.state.objects[moid] for moid in self.lab.state.open_tasks]
            assert entering == {
                getattr(task, "subject", "") for task in tasks if task.name == "EnterMaintenanceMode_Task"
            }

    @invariant()
    def who_is_away_comes_back_or_is_off(self) -> None:
        for host in self.hosts():
            if host.name in NAMES and host.connection == "notResponding":
                assert host.is_off != (host.moid in self.lab.state.booting)


def may(machine: HostMachine, host: Host, method: str, *, force: bool) -> bool:
    """Whether the call is taken: what the state must be is told here once more, apart from the lab."""
    if host.connection != "connected" or host.moid in machine.lab.state.leaving:
        return False
    if method == "EnterMaintenanceMode_Task":
        return not host.in_maintenance and not host.entering_maintenance
    return host.in_maintenance or (force and not host.entering_maintenance)


HostMachine.TestCase.settings = settings(max_examples=examples(7, 20), stateful_step_count=30)
TestHosts = HostMachine.TestCase
