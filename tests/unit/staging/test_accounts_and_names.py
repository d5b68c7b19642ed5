"""The guest's name, its accounts and /etc/hosts: run for real, in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.staging.sandbox import SEED, Sandbox, context, need_root, spec_of
from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.modules import HostEntry, HostNameModule, HostsModule, UsersModule
from vgpu_cfg.model.plan_file import UserEntry
from vgpu_cfg.shells.keys import PlanKeyRing
from vgpu_cfg.staging.bundle import stage_module

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBBC7/GF1cpmxeYKiIn05Ip598TMagwjRARK0BoBICkU ada@desk"
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPxT2m0cJqRv4yGJ2Ff9Gk1VQmU4nq6w2b7aYlD3o5sH theirs"
LOGIN = PlanKeyRing(SEED).login_key().public
HOSTS = HostsModule(
    entries=(
        HostEntry(address="10.111.0.11", names=("hvd-01.example.com", "hvd-01")),
        HostEntry(address="fd00::12", names=("hvd-02",)),
    )
)


@pytest.fixture
def named(guest: Sandbox) -> Sandbox:
    guest.write("/etc/hostname", "ubuntu\n")
    guest.write("/proc/sys/kernel/hostname", "ubuntu\n")
    guest.stand_in("hostnamectl", 'printf "%s\\n" "$2" >"$ROOT/proc/sys/kernel/hostname"')
    return guest


def test_the_host_name_is_brought(named: Sandbox) -> None:
    named.bring(named.stage(HostNameModule(host_name="hvd-01", domain="example.com")))
    assert named.calls("hostnamectl") == ["hostnamectl set-hostname hvd-01"]
    assert named.read("/etc/hostname") == "hvd-01\n"
    assert "127.0.1.1 hvd-01.example.com hvd-01\n" in named.read("/etc/hosts")


def test_a_guest_without_systemd_is_named_too(named: Sandbox) -> None:
    named.stand_in("hostnamectl", "exit 1")
    named.stand_in("hostname", 'printf "%s\\n" "$1" >"$ROOT/proc/sys/kernel/hostname"')
    named.bring(named.stage(HostNameModule(host_name="hvd-01")))


def test_a_name_with_an_address_of_the_plan_is_not_the_loopbacks(named: Sandbox) -> None:
    module = HostNameModule(host_name="hvd-01")
    named.bring(named.stage(module, spec_of(module, HOSTS)))
    assert "hvd-01" not in named.read("/etc/hosts")


def test_hosts_are_written_in_place(guest: Sandbox) -> None:
    before = guest.path("/etc/hosts").stat().st_ino
    guest.bring(guest.stage(HOSTS))
    assert guest.path("/etc/hosts").stat().st_ino == before
    assert guest.read("/etc/hosts") == (
        "127.0.0.1 localhost\n127.0.1.1 ubuntu\n::1 localhost ip6-localhost\n"
        "# begin vgpu-cfg hosts\n10.111.0.11 hvd-01.example.com hvd-01\nfd00::12 hvd-02\n"
        "# end vgpu-cfg hosts\n"
    )


def test_a_worker_more_changes_the_block_alone(guest: Sandbox) -> None:
    guest.bring(guest.stage(HOSTS))
    with guest.path("/etc/hosts").open("a") as file:
        file.write("10.0.0.9 storage\n")
    more = HostsModule(entries=(*HOSTS.entries, HostEntry(address="10.111.0.13", names=("hvd-03",))))
    guest.bring(guest.stage(more))
    text = guest.read("/etc/hosts")
    assert text.count("hvd-01.example.com") == 1
    assert text.count("begin vgpu-cfg") == 1
    assert "10.111.0.13 hvd-03\n" in text
    assert "10.0.0.9 storage\n" in text


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("127.0.1.1 hvd-01.example.com hvd-01", ""),
        ("127.0.1.1 hvd-01 ubuntu  # made by the installer", "127.0.1.1 ubuntu"),
        ("::1 localhost hvd-02", "::1 localhost"),
        ("127.0.1.1 hvd-010", "127.0.1.1 hvd-010"),
        ("10.9.9.9 hvd-01", "10.9.9.9 hvd-01"),
    ],
)
def test_names_of_the_plan_leave_the_loopback(guest: Sandbox, line: str, left: str) -> None:
    guest.write("/etc/hosts", f"127.0.0.1 localhost\n{line}\n")
    guest.bring(guest.stage(HOSTS))
    head = guest.read("/etc/hosts").partition("# begin")[0]
    assert head == "127.0.0.1 localhost\n" + (f"{left}\n" if left else "")


def test_a_block_without_its_end_costs_nobody_a_line(guest: Sandbox) -> None:
    guest.write("/etc/hosts", "127.0.0.1 localhost\n# begin vgpu-cfg hosts\n10.0.0.9 storage\n")
    guest.bring(guest.stage(HOSTS))
    assert "10.0.0.9 storage\n" in guest.read("/etc/hosts")


@pytest.fixture
def peopled(guest: Sandbox) -> Sandbox:
    need_root()
    guest.real("useradd", "usermod", "visudo")
    guest.write("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\nada:x:1000:1000::/home/ada:/bin/sh\n")
    guest.write("/etc/group", "root:x:0:\nada:x:1000:\n")
    guest.write("/etc/shadow", "root:*:19000:0:99999:7:::\nada:!:19000:0:99999:7:::\n", 0o640)
    guest.write("/etc/login.defs", Path("/etc/login.defs").read_text())
    for shell in ("/bin/bash", "/bin/sh"):
        guest.write(shell, "", 0o755)
    return guest


def test_accounts_are_made(peopled: Sandbox) -> None:
    peopled.write("/home/ada/.ssh/authorized_keys", f"{OTHER}\n{KEY}\n", 0o600)
    module = UsersModule(users=(UserEntry(name="ada", keys=(KEY,), sudo=False),))
    peopled.bring(peopled.stage(module))
    passwd = peopled.read("/etc/passwd")
    assert "ada:x:1000:1000::/home/ada:/bin/bash\n" in passwd
    assert "vgpu-cfg:x:1001:1001::/home/vgpu-cfg:/bin/bash\n" in passwd
    assert "\nvgpu-cfg:!:" in peopled.read("/etc/shadow")
    block = f"# begin vgpu-cfg keys\n{KEY}\n# end vgpu-cfg keys\n"
    assert peopled.read("/home/ada/.ssh/authorized_keys") == f"{OTHER}\n{block}"
    assert peopled.mode("/home/ada/.ssh/authorized_keys") == 0o600
    there = peopled.path("/home/vgpu-cfg/.ssh")
    assert (there.stat().st_mode & 0o777, there.stat().st_uid) == (0o700, 1001)
    assert LOGIN in (there / "authorized_keys").read_text()
    assert peopled.read("/etc/sudoers.d/90-vgpu-cfg").splitlines()[1:] == ["vgpu-cfg ALL=(ALL) NOPASSWD:ALL"]
    assert peopled.mode("/etc/sudoers.d/90-vgpu-cfg") == 0o440


def test_an_old_key_of_the_plan_goes(peopled: Sandbox) -> None:
    peopled.bring(peopled.stage(UsersModule(users=(UserEntry(name="ada", keys=(KEY,)),), machine_user="")))
    peopled.bring(peopled.stage(UsersModule(users=(UserEntry(name="ada", keys=(OTHER,)),), machine_user="")))
    assert KEY not in peopled.read("/home/ada/.ssh/authorized_keys")


def test_a_link_in_a_home_is_not_followed(peopled: Sandbox) -> None:
    peopled.write("/home/ada/x", "")
    peopled.path("/home/ada/.ssh").symlink_to(peopled.path("/etc"))
    script = peopled.stage(UsersModule(users=(UserEntry(name="ada", keys=(KEY,)),), machine_user=""))
    ran = peopled.run(script, "apply")
    assert ran.status == 1
    assert "symbolic link" in ran.why
    assert not peopled.path("/etc/authorized_keys").exists()


def test_a_shell_that_is_not_there_is_named(peopled: Sandbox) -> None:
    bob = UserEntry.model_validate({"name": "bob", "shell": "/usr/bin/fish"})
    module = UsersModule(users=(bob,), machine_user="")
    ran = peopled.run(peopled.stage(module), "apply")
    assert (ran.status, ran.why) == (
        1,
        "shell /usr/bin/fish for account bob is not installed in the guest",
    )


NASTY = ["a b", "$(reboot)", "`reboot`", "a\nb", "-rf", "a'b", 'a"b', "a%b", "", "ä"]


@pytest.mark.parametrize("text", NASTY)
def test_what_a_guest_cannot_carry_is_refused(text: str) -> None:
    for module in (
        HostNameModule(host_name=text),
        HostNameModule(host_name="hvd-01", domain=text or "-"),
        HostsModule(entries=(HostEntry(address="10.0.0.1", names=(text,)),)),
        HostsModule(entries=(HostEntry(address=text, names=("a",)),)),
        # The plan file's own checks are passed by: what a script holds is checked where it is written.
        UsersModule(users=(UserEntry.model_construct(name=text),)),
        UsersModule(users=(UserEntry.model_construct(name="ada", shell=text),)),
        UsersModule(users=(UserEntry.model_construct(name="ada", keys=(text,)),)),
    ):
        with pytest.raises(GuestError) as caught:
            stage_module(module, context(spec_of(module)))
        assert caught.value.remedy


def test_a_key_with_a_comment_of_any_kind_is_carried(peopled: Sandbox) -> None:
    line = f"""{KEY} $(reboot) `reboot` 'x' %h"""
    peopled.bring(peopled.stage(UsersModule(users=(UserEntry(name="ada", keys=(line,)),), machine_user="")))
    assert f"{line}\n" in peopled.read("/home/ada/.ssh/authorized_keys")


def test_an_account_twice_is_refused() -> None:
    module = UsersModule(users=(UserEntry(name="vgpu-cfg"),))
    with pytest.raises(GuestError, match="the account vgpu-cfg is specified twice"):
        stage_module(module, context(spec_of(module)))


def test_visudo_refuses_what_it_would_not_read(peopled: Sandbox) -> None:
    script = peopled.stage(UsersModule())
    peopled.write("/var/lib/vgpu-cfg/files/sudoers", "vgpu-cfg ALL=(ALL NOPASSWD:ALL\n")
    ran = peopled.run(script, "apply")
    assert (ran.status, ran.why) == (1, "visudo rejects the accounts' rules")
    assert not peopled.path("/etc/sudoers.d/90-vgpu-cfg").exists()
