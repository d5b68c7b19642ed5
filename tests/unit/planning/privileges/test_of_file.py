"""What a command could need with a plan file, whatever stands in vCenter."""

from __future__ import annotations

import pytest

from vgpu_cfg.changes import privileges as table
from vgpu_cfg.model.desired import DesiredHosts, DesiredPlan
from vgpu_cfg.planning.privileges import Command, could_need

OF_HOSTS = {table.READ_MODULES, table.READ_PACKAGES}


@pytest.mark.parametrize("command", Command)
def test_whoever_destroys_vms_reads_no_options_of_hosts(command: Command) -> None:
    plan = DesiredPlan(name="p", vcenter="lab", hosts=(DesiredHosts(cluster="gpu"),))
    found = OF_HOSTS.intersection(could_need(command, plan))
    assert found == (set() if command is Command.DESTROY else OF_HOSTS)


def test_a_plan_without_hosts_reads_none_either() -> None:
    assert not OF_HOSTS.intersection(could_need(Command.APPLY, DesiredPlan(name="p", vcenter="lab")))
