"""The host's own scripts, and its list of modules."""

from __future__ import annotations

from tests.unit.lab.shell.logged_in import Desk
from vgpu_cfg.lab.state.host import HostDriver


def test_xorg_brings_graphics_types_into_force(desk: Desk) -> None:
    desk.esx.configured_default_graphics_type = "shared"
    desk.esx.configured_assignment_policy = "consolidation"
    assert desk.lines("/etc/init.d/xorg restart") == [
        "Getting Exclusive access, please wait...",
        "Exclusive access granted.",
    ]
    assert desk.esx.assignment_policy == "consolidation"
    assert desk.gpu().graphics_type == "shared"


def test_xorg_is_not_restarted_below_vgpus(desk: Desk) -> None:
    desk.running("one", "grid_a100-10c")
    desk.esx.configured_default_graphics_type = "shared"
    status, out, err = desk.run_line("/etc/init.d/xorg restart")
    assert (status, out) == (1, "")
    assert "in use" in err
    assert desk.gpu().graphics_type == "sharedDirect"


def test_xorg_tells_its_state(desk: Desk) -> None:
    assert desk.run_line("/etc/init.d/xorg status")[0] == 0
    desk.esx.services["xorg"].running = False
    assert desk.run_line("/etc/init.d/xorg status")[0] == 1


def test_the_gpu_daemon_runs_where_it_is_installed(desk: Desk) -> None:
    assert desk.tell("/etc/init.d/nvdGpuMgmtDaemon status") == "daemon_nvdGpuMgmtDaemon is running\n"
    desk.esx.driver = HostDriver(gpu_daemon=False)
    assert desk.run_line("/etc/init.d/nvdGpuMgmtDaemon status")[0] == 127


def test_loaded_modules_are_listed(desk: Desk, bare: Desk) -> None:
    lines = desk.lines("vmkload_mod -l")
    assert lines[0].split() == ["Name", "Used", "Size(kb)"]
    assert ["nvidia", "5", "8420"] in [line.split() for line in lines]
    assert "nvidia" not in bare.tell("vmkload_mod -l")


def test_other_words_are_refused(desk: Desk) -> None:
    for line in ("/etc/init.d/xorg", "/etc/init.d/nvdGpuMgmtDaemon dance", "vmkload_mod nvidia"):
        assert desk.run_line(line)[0] == 1
