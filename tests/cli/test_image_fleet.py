"""The driver of a whole cluster that an image manages: VMs move, and no host needs a manual step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.host_watch import is_tidy, watch_labs
from tests.cli.test_images import ESTATE, NEW
from vgpu_cfg.documents import dump, parse_text
from vgpu_cfg.lab.state.inventory import Cluster, Host, VirtualMachine

PLAN = """
version: 1
name: driver
vcenter: lab:fleet.yaml
hosts:
- cluster: gpu
  driver: {kind: nvd-aie, version: "580.*", by: image}
  cluster_options: {evacuate_vgpu: true, hot_migrate: true}
  disruption: {max_hosts_down: 2, canary: 1, allow: [maintenance, reboot], window: "daily 00:00-24:00 UTC"}
"""
UPGRADE = ("upgrade", "--driver", "580.95", "--window", "Sat 06:00-08:00 UTC", "--max-hosts-down", "2")


def fleet(vgpu_cfg: CommandLine, count: int) -> None:
    """Write an estate: an image manages so many hosts, each runs a VM, and every second one with a vGPU."""
    estate: dict[str, Any] = parse_text(ESTATE.read_text(encoding="utf-8"), ESTATE.name).data
    names = [f"esx-{number:02}.lab" for number in range(1, count + 1)]
    estate["clusters"][0]["hosts"][0] |= {"names": names}
    estate["folders"] = ["others"]
    estate["vms"] = [vm for number, host in enumerate(names, 1) for vm in _vms(number, host)]
    vgpu_cfg.write("fleet.yaml", dump(estate))
    vgpu_cfg.write("plan.yaml", PLAN)


def _vms(number: int, host: str) -> Iterator[dict[str, Any]]:
    common = {"folder": "others", "host": host, "cpus": 2, "memory": "4GiB"}
    yield {"name": f"web-{number:02}", **common}
    if number % 2:
        yield {"name": f"research-{number:02}", **common, "gpus": ["grid_a100-20c"]}


@pytest.mark.parametrize(
    "count",
    [4, pytest.param(50, marks=pytest.mark.exhaustive("50 hosts, one after the other; 4 take the same way"))],
)
def test_a_cluster_is_upgraded_without_manual_steps(
    count: int, vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet(vgpu_cfg, count)
    before = {vm.name: vm.boot_time for vm in vgpu_cfg.lab("fleet.yaml").state.all(VirtualMachine)}
    planned = json.loads(vgpu_cfg("plan", "plan.yaml", "--output", "json").out)["plan"]
    kinds = [change["kind"] for change in planned["changes"]]
    assert kinds.count("set_image") == 1
    assert kinds.count("remediate_host") == count
    assert "manual_step" not in kinds
    watch = watch_labs(monkeypatch)
    vgpu_cfg.done("apply", "--yes", "plan.yaml")
    state = vgpu_cfg.lab("fleet.yaml").state
    hosts = state.all(Host)
    assert {host.driver.version for host in hosts if host.driver is not None} == {NEW}
    assert watch.restarts == {host.name: 1 for host in hosts}
    assert watch.most_down == 1
    assert len(next(iter(state.all(Cluster))).image.commits) == 1  # type: ignore[union-attr]  # it has an image
    assert {vm.name: vm.boot_time for vm in state.all(VirtualMachine)} == before
    assert is_tidy(state)


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
@pytest.mark.long(
    "windows are played in processes of their own; test_upgrade plays those of hosts without images"
)
def test_waves_learn_from_remediations(vgpu_cfg: CommandLine) -> None:
    """The first wave is the canary, and the second is forecast by its times."""
    fleet(vgpu_cfg, 6)
    words = (*UPGRADE, "--server", "lab:fleet.yaml", "--rehearse", "--output", "json")
    first, second = json.loads(vgpu_cfg.done(*words).out)["rehearsal"]
    assert [(one["exit_code"], one["done"]) for one in (first, second)] == [(0, 1), (0, 5)]
    assert second["seconds"] == pytest.approx(second["expected_seconds"], rel=0.15)
