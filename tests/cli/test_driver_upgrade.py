"""Hosts get another driver: one goes first, and the guests that run there again are asked before the next."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.state.host import Host
from vgpu_cfg.lab.state.inventory import VirtualMachine

PLAN = "plans/drivers-to-upgrade.yaml"
ESTATE = "estates/drivers-to-upgrade.yaml"
SECRETS = {"LICENCE_TOKEN": "token", "ESXI_PASSWORD": "esxi"}
HOSTS = """
hosts:
- cluster: gpu
  driver:
    kind: nvd-aie
    version: "580.*"
    by: esxcli
    depot:
    - /vmfs/volumes/vsan/NVD-AIE-800_580.95.02.zip
    - /vmfs/volumes/vsan/nvd-gpu-mgmt-daemon_580.95.02.zip
  access: {ssh: open-and-close, user: root, password: {secret: esxi}, host_keys: pin}
  disruption: {canary: 1, allow: [maintenance, reboot]}
"""


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the VMs once, on hosts with the older driver."""
    folder = tmp_path_factory.mktemp("applied")
    with pytest.MonkeyPatch.context() as patch:
        CommandLine(folder, patch).done("apply", PLAN, "--yes", **SECRETS)
    return folder / "state"


@pytest.fixture
def line(vgpu_cfg: CommandLine, applied: Path) -> CommandLine:
    """Ask for the newer driver in the same plan file."""
    shutil.copytree(applied, vgpu_cfg.state_folder)
    vgpu_cfg.keep_id(PLAN)
    path = Path(PLAN)
    path.write_text(path.read_text(encoding="utf-8") + HOSTS, encoding="utf-8")
    return vgpu_cfg


def drivers(line: CommandLine) -> dict[str, str]:
    hosts = line.lab(ESTATE).state.all(Host)
    return {host.name: host.driver.version for host in hosts if host.driver is not None}


@pytest.mark.long("hosts that follow a canary with another driver, to the end")
def test_the_others_follow_once_the_first_hosts_guests_have_answered(line: CommandLine) -> None:
    ran = line.done("apply", PLAN, "--yes", "--allow-power-cycle", **SECRETS)
    assert "CANARY esx-01.lab: as planned; continued with esx-02.lab" in ran.told
    assert drivers(line) == {"esx-01.lab": "580.95.02", "esx-02.lab": "580.95.02"}
    assert all(host.driver.gpu_daemon for host in line.lab(ESTATE).state.all(Host) if host.driver)


def test_a_guest_whose_driver_the_new_one_refuses_stops_the_run_at_the_first_host(line: CommandLine) -> None:
    lab = line.lab(ESTATE)
    with lab.transaction():
        for vm in lab.state.all(VirtualMachine):
            if vm.name.startswith("hvd"):
                guest_of(vm).driver = "550.54.15"
                lab.state.touch(vm)
    ran = line("apply", PLAN, "--yes", "--allow-power-cycle", **SECRETS)
    assert ran.code == 6, ran.told
    assert "CANARY esx-01.lab: does not match the plan: hvd-0" in ran.told
    assert drivers(line) == {"esx-01.lab": "580.95.02", "esx-02.lab": "570.10.01"}
