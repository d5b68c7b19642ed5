"""The guest's clock: whichever daemon is there follows the plan's servers; chronyd itself reads its file."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.unit.staging.sandbox import Sandbox
from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.modules import TimeModule

MODULE = TimeModule(servers=("ntp1.example.com", "10.0.0.1"))
TIMESYNCD = "/etc/systemd/timesyncd.conf.d/90-vgpu-cfg.conf"


@pytest.mark.parametrize(
    ("folder", "path", "unit"),
    [
        ("/etc/chrony/x", "/etc/chrony/chrony.conf", "chrony.service"),
        ("/etc/x", "/etc/chrony.conf", "chronyd.service"),
    ],
)
def test_chronyd_follows_these_servers_and_no_others(
    guest: Sandbox, folder: str, path: str, unit: str
) -> None:
    guest.write(folder, "")
    guest.write(path, "pool 2.debian.pool.ntp.org iburst\n")
    for name in ("chronyd", "chronyc", "systemctl"):
        guest.stand_in(name)
    guest.bring(guest.stage(MODULE))
    assert "server ntp1.example.com iburst\nserver 10.0.0.1 iburst\n" in guest.read(path)
    assert "pool" not in guest.read(path)
    assert f"systemctl restart {unit}" in guest.calls("systemctl")


def test_chronyd_reads_the_file(guest: Sandbox) -> None:
    chronyd = shutil.which("chronyd", path="/usr/sbin:/sbin:/usr/local/sbin")
    if chronyd is None:
        pytest.skip("chronyd is not here: apt-get install chrony")
    guest.write("/etc/chrony/x", "")
    for name in ("chronyd", "chronyc", "systemctl"):
        guest.stand_in(name)
    guest.bring(guest.stage(MODULE))
    words = [chronyd, "-p", "-f", str(guest.path("/etc/chrony/chrony.conf"))]
    read = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert (read.returncode, read.stderr) == (0, "")
    assert "server ntp1.example.com iburst" in read.stdout


def test_timesyncd_follows_them_where_only_that_is_there(guest: Sandbox) -> None:
    guest.write("/usr/lib/systemd/systemd-timesyncd", "", 0o755)
    guest.stand_in("systemctl")
    guest.stand_in("timedatectl", "echo yes")
    guest.bring(guest.stage(MODULE))
    assert guest.read(TIMESYNCD).endswith("[Time]\nNTP=ntp1.example.com 10.0.0.1\nFallbackNTP=\n")


def test_chrony_is_installed_where_neither_is_there(guest: Sandbox) -> None:
    guest.write("/etc/chrony/x", "")
    for name in ("chronyc", "systemctl"):
        guest.stand_in(name)
    guest.real("touch") if not (guest.bin / "touch").exists() else None
    guest.stand_in("apt-get", f'case "$*" in *install*) ln -sf /bin/true "{guest.bin}/chronyd" ;; esac')
    script = guest.stage(MODULE)
    assert guest.run(script, "apply").status == 0
    assert any("install -- chrony" in call for call in guest.calls("apt-get"))
    assert guest.run(script, "check").status == 0


def test_servers_that_do_not_answer_fail_it(guest: Sandbox) -> None:
    guest.write("/etc/chrony/x", "")
    guest.stand_in("chronyd")
    guest.stand_in("systemctl")
    guest.stand_in("chronyc", "exit 1")
    ran = guest.run(guest.stage(MODULE), "apply")
    assert ran.status == 1
    assert ran.why.startswith("the clock did not synchronize with ntp1.example.com, 10.0.0.1")


@pytest.mark.parametrize("server", ["a b", "$(reboot)", "", "ntp.example.com\nserver evil", "-x"])
def test_a_server_that_no_file_can_carry_is_refused(guest: Sandbox, server: str) -> None:
    with pytest.raises(GuestError):
        guest.stage(TimeModule(servers=(server,)))
