"""Who gets into a host's shell, and what becomes of a login."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.lab.shell.logged_in import Desk
from vgpu_cfg.errors import HostShellError
from vgpu_cfg.lab.shell.shell import ShellAccess, open_shell
from vgpu_cfg.lab.state.host import Host


def test_root_gets_in_where_ssh_runs(desk: Desk) -> None:
    assert (
        open_shell(desk.lab, desk.esx.name, "root", password="any").execute("esxcli graphics host get")[0]
        == 0
    )


def stop_ssh(host: Host) -> None:
    host.services["TSM-SSH"].running = False


def close_port(host: Host) -> None:
    host.rulesets["sshServer"].enabled = False


def lock(host: Host) -> None:
    host.lockdown = "lockdownNormal"


def lock_strictly(host: Host) -> None:
    host.lockdown = "lockdownStrict"


def power_off(host: Host) -> None:
    host.power_state = "poweredOff"


def cut_off(host: Host) -> None:
    host.connection = "notResponding"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (stop_ssh, "refused"),
        (close_port, "timed out"),
        (power_off, "timed out"),
        (cut_off, "timed out"),
        (lock, "was rejected"),
        (lock_strictly, "was rejected"),
    ],
)
def test_nobody_gets_in_otherwise(desk: Desk, spoil: Callable[[Host], None], message: str) -> None:
    spoil(desk.esx)
    with pytest.raises(HostShellError, match=message):
        open_shell(desk.lab, desk.esx.name, password="any")


@pytest.mark.parametrize(("user", "password"), [("root", ""), ("admin", "any")])
def test_only_root_with_a_password_gets_in(desk: Desk, user: str, password: str) -> None:
    with pytest.raises(HostShellError, match="was rejected"):
        open_shell(desk.lab, desk.esx.name, user, password=password)


def test_a_password_can_be_asked_for(desk: Desk) -> None:
    access = ShellAccess(password="right")
    open_shell(desk.lab, desk.esx.name, password="right", access=access)
    with pytest.raises(HostShellError):
        open_shell(desk.lab, desk.esx.name, password="wrong", access=access)


def test_a_key_gets_in_where_it_is_known(desk: Desk) -> None:
    open_shell(desk.lab, desk.esx.name, key="ssh-x AAAA", access=ShellAccess(keys={"ssh-x AAAA"}))
    with pytest.raises(HostShellError):
        open_shell(desk.lab, desk.esx.name, key="ssh-x AAAA")


def test_an_unknown_host_has_no_shell(desk: Desk) -> None:
    with pytest.raises(HostShellError, match="unknown"):
        open_shell(desk.lab, "elsewhere", password="any")


def test_a_login_ends_with_the_host(desk: Desk) -> None:
    cut_off(desk.esx)
    with pytest.raises(HostShellError, match="closed by the host"):
        desk.run_line("nvidia-smi")


def test_a_login_does_not_outlive_a_restart(desk: Desk) -> None:
    desk.esx.boot_time += 400
    with pytest.raises(HostShellError, match="closed by the host"):
        desk.run_line("nvidia-smi")


def test_a_login_outlives_the_service(desk: Desk) -> None:
    stop_ssh(desk.esx)
    assert desk.tell("esxcli graphics host get")


def test_a_command_that_the_host_lacks_is_not_found(bare: Desk) -> None:
    for line in (
        "nvidia-smi",
        "rm -rf /",
        "mlxconfig -d x q",
        "/etc/init.d/nvdGpuMgmtDaemon status",
        "esxcli | cat",
    ):
        status, out, err = bare.run_line(line)
        assert (status, out) == (127, "")
        assert err.endswith("not found\n")


def test_firmware_tools_come_with_their_packages(bare: Desk) -> None:
    assert bare.run_line("/opt/mellanox/bin/mst status")[0] == 0
    del bare.esx.software["mft"]
    assert bare.run_line("/opt/mellanox/bin/mst status")[0] == 127


def test_nothing_is_no_command(desk: Desk) -> None:
    assert desk.run_line("  ") == (0, "", "")
