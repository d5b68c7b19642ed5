"""The ssh mesh: real sshd, ssh and ssh-keygen read what was generated, and refuse what is wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.staging.training.sandbox import SEED, Sandbox, context_for
from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.guest import DERIVED, UNKNOWN
from vgpu_cfg.model.guests.training_modules import MeshPeer, SshMeshModule, WorkerModule
from vgpu_cfg.shells.keys import PlanKeyRing
from vgpu_cfg.staging.rendering import StagingContext

MESH = "/etc/vgpu-cfg/mesh"
PEERS = (
    MeshPeer(vm="hvd-01", names=("hvd-01", "hvd-01.example.com"), addresses=("10.111.0.11", "10.0.0.21")),
    MeshPeer(vm="hvd-02", names=("hvd-02",), addresses=("10.111.0.12",)),
)
WORKER = WorkerModule(image="nvcr.io/nvidia/tensorflow:21.07-tf1-py3")

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("ssh", "ssh-keygen"))) or not Path("/usr/sbin/sshd").exists(),
    reason="needs OpenSSH's client and server: apt-get install openssh-client openssh-server",
)


@pytest.fixture(autouse=True)
def privilege_separation() -> None:
    """Make the folder without which root's sshd does not start: systemd does that on a guest."""
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)


GUESTS = PlanKeyRing(b"what guests make their own host keys of, at random")
TOLD = {vm: " ".join(GUESTS.host_key(vm).public.split()[:2]) for vm in ("hvd-01", "hvd-02", "hvd-03")}
DERIVED_ALL = dict.fromkeys(TOLD, DERIVED)


def mesh(vm: str = "hvd-01", **more: object) -> SshMeshModule:
    return SshMeshModule.model_validate({"vm": vm, "peers": PEERS, **more})


def staged(
    guest: Sandbox,
    module: SshMeshModule,
    *,
    contained: bool = True,
    seed: bytes = SEED,
    host_keys: Mapping[str, str] = TOLD,
) -> StagingContext:
    """Stage the mesh in a guest that has made its host key."""
    own = GUESTS.host_key(module.vm)
    guest.write("/etc/ssh/ssh_host_ed25519_key", own.private, 0o600)
    guest.write("/etc/ssh/ssh_host_ed25519_key.pub", f"{own.public}\n")
    guest.stand_in("systemctl", '[ -e $VGPU_CFG_ROOT/active ] || [ "$1" != is-active ]')
    more = (WORKER,) if contained else ()
    context = context_for(module, *more, vm=module.vm, seed=seed, host_keys=host_keys)
    assert guest.apply(module, context) == 0, guest.output
    return context


def here(guest: Sandbox, name: str) -> Path:
    """Return a file with the paths of the guest in place of those of a real one."""
    text = guest.read(f"{MESH}/{name}").replace(MESH, f"{guest.root}{MESH}")
    return guest.write(f"/here/{name}", text, 0o600)


def test_the_folder_is_as_sshd_wants_it(guest: Sandbox) -> None:
    staged(guest, mesh())
    assert {name: guest.mode(f"{MESH}/{name}") for name in ("host_key", "id")} == {
        "host_key": "600",
        "id": "600",
    }
    public = ("sshd_config", "host_key.pub", "id.pub", "authorized_keys", "known_hosts", "ssh_config")
    assert {guest.mode(f"{MESH}/{name}") for name in public} == {"644"}
    assert guest.mode(f"{MESH}/bin/ssh") == "755"
    assert guest.run("ssh-mesh", "check") == 0
    # Once the check passes, no copy of a private key is left.
    assert list((guest.root / "var/lib/vgpu-cfg/secrets").iterdir()) == []
    assert guest.run("ssh-mesh", "check") == 0


@pytest.mark.parametrize(
    "fault",
    [
        "chmod 644 id",
        "chmod 640 host_key",
        "rm known_hosts",
        "echo >>authorized_keys",
        "cp id host_key",
        "chmod 600 ssh_config",
    ],
)
def test_the_check_finds_a_fault_and_apply_mends_it(guest: Sandbox, fault: str) -> None:
    module = mesh()
    context = staged(guest, module)
    assert guest.run("ssh-mesh", "check") == 0
    assert guest.command(["sh", "-c", f"cd $VGPU_CFG_ROOT{MESH} && {fault}"]).returncode == 0
    assert guest.run("ssh-mesh", "check") != 0
    guest.bring(module, context)
    assert guest.run("ssh-mesh", "apply") == 0
    assert guest.run("ssh-mesh", "check") == 0


def test_a_private_key_that_is_gone_is_asked_for_by_name(guest: Sandbox) -> None:
    staged(guest, mesh())
    assert guest.run("ssh-mesh", "check") == 0
    (guest.root / "etc/vgpu-cfg/mesh/id").unlink()
    assert guest.run("ssh-mesh", "apply") == 1
    assert (
        guest.why
        == "the SSH mesh's private key id no longer exists: run vgpu-cfg apply to stage ssh-mesh again"
    )


def sshd_test(path: Path) -> subprocess.CompletedProcess[str]:
    words = ["/usr/sbin/sshd", "-t", "-f", str(path)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


def test_sshd_takes_its_configuration(guest: Sandbox) -> None:
    staged(guest, mesh())
    path = here(guest, "sshd_config")
    done = sshd_test(path)
    assert (done.returncode, done.stderr) == (0, "")
    path.write_text(path.read_text().replace("UsePAM no", "UsePam nein"))
    assert sshd_test(path).returncode != 0
    # A host key that others may read is refused too.
    (guest.root / "etc/vgpu-cfg/mesh/host_key").chmod(0o644)
    assert sshd_test(here(guest, "sshd_config")).returncode != 0


@pytest.mark.parametrize("name", ["hvd-02", "10.111.0.12"])
def test_ssh_reads_how_a_peer_is_reached(guest: Sandbox, name: str) -> None:
    staged(guest, mesh())
    words = ["ssh", "-G", "-F", str(here(guest, "ssh_config")), name]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    told = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert told["hostname"] == "10.111.0.12"
    assert (told["user"], told["port"]) == ("root", "2222")
    assert told["stricthostkeychecking"] in ("true", "yes")
    assert told["identityfile"] == f"{guest.root}{MESH}/id"
    assert told["userknownhostsfile"] == f"{guest.root}{MESH}/known_hosts"
    other = subprocess.run(
        [*words[:-1], "elsewhere"], capture_output=True, text=True, check=True, timeout=120
    )
    assert "port 22\n" in other.stdout


@pytest.mark.parametrize(
    "name", ["hvd-02", "[hvd-02]:2222", "10.111.0.12", "[10.111.0.12]:2222", "[hvd-01.example.com]:2222"]
)
def test_the_host_key_is_known_by_every_name_and_port(guest: Sandbox, name: str) -> None:
    staged(guest, mesh())
    words = ["ssh-keygen", "-F", name, "-f", f"{guest.root}{MESH}/known_hosts"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    vm = "hvd-01" if "hvd-01" in name else "hvd-02"
    assert done.returncode == 0
    assert TOLD[vm] in done.stdout
    words[2] = "hvd-03"
    assert subprocess.run(words, capture_output=True, check=False, timeout=120).returncode == 1


def test_a_guest_that_has_told_no_key_has_no_line(guest: Sandbox) -> None:
    staged(guest, mesh(), host_keys={"hvd-01": TOLD["hvd-01"], "hvd-02": UNKNOWN})
    text = guest.read(f"{MESH}/known_hosts")
    assert "hvd-01" in text
    assert "hvd-02" not in text
    assert len(text.splitlines()) == 1


def test_derived_host_keys_stay_what_they_were(guest: Sandbox) -> None:
    staged(guest, mesh(), host_keys=DERIVED_ALL)
    own = PlanKeyRing(SEED).host_key("hvd-01")
    assert guest.read(f"{MESH}/host_key") == own.private
    assert own.public.split()[1] in guest.read(f"{MESH}/known_hosts")
    assert guest.run("ssh-mesh", "check") == 0
    assert list((guest.root / "var/lib/vgpu-cfg/secrets").iterdir()) == []


def test_a_guest_without_a_host_key_makes_one(guest: Sandbox) -> None:
    guest.stand_in("systemctl", "exit 1")
    module = mesh()
    assert guest.apply(module, context_for(module, WORKER, host_keys=TOLD)) == 0, guest.output
    own = guest.read("/etc/ssh/ssh_host_ed25519_key")
    assert own.startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
    assert guest.read(f"{MESH}/host_key") == own
    assert guest.mode(f"{MESH}/host_key") == "600"
    assert guest.run("ssh-mesh", "check") == 0


def test_a_host_key_that_was_made_anew_is_found_and_shown(guest: Sandbox) -> None:
    context = staged(guest, mesh())
    assert guest.run("ssh-mesh", "check") == 0
    own = GUESTS.host_key("hvd-02")
    guest.write("/etc/ssh/ssh_host_ed25519_key", own.private, 0o600)
    guest.write("/etc/ssh/ssh_host_ed25519_key.pub", f"{own.public}\n")
    assert guest.run("ssh-mesh", "check") != 0
    guest.bring(mesh(), context)
    assert guest.run("ssh-mesh", "apply") == 0
    assert guest.read(f"{MESH}/host_key") == own.private


def login(
    guest: Sandbox, name: str, *, other: Path | None = None, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Log in from this guest to the sshd of another (or its own), through pipes instead of a network."""
    there = guest if other is None else Sandbox(other)
    sshd = f"/usr/sbin/sshd -i -e -o StrictModes=no -f {here(there, 'sshd_config')}"
    guest.write("/etc/vgpu-cfg/mesh/ssh_config", here(guest, "ssh_config").read_text())
    words = [*options, "-o", f"ProxyCommand={sshd}", name, "echo it is $((6 * 7))"]
    return guest.command([f"{guest.root}{MESH}/bin/ssh", *words])


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="a login as root needs an sshd of root's")


@needs_root
def test_a_peer_logs_in_without_a_question(guest: Sandbox) -> None:
    staged(guest, mesh())
    done = login(guest, "hvd-01")
    assert (done.stdout, done.returncode) == ("it is 42\n", 0), done.stderr


@needs_root
def test_a_wrong_host_key_is_refused_whatever_horovodrun_says(guest: Sandbox, tmp_path: Path) -> None:
    staged(guest, mesh())
    other = Sandbox(tmp_path / "other")
    other.root.mkdir()
    staged(other, mesh("hvd-02"))
    assert login(guest, "hvd-02", other=other.root).returncode == 0
    # It answers as hvd-02, and has the host key of hvd-01.
    options = ("-o", "PasswordAuthentication=no", "-o", "StrictHostKeyChecking=no")
    done = login(guest, "hvd-02", options=options)
    assert done.returncode == 255
    assert "Host key verification failed" in done.stderr


@needs_root
def test_another_plans_key_does_not_log_in(guest: Sandbox, tmp_path: Path) -> None:
    staged(guest, mesh())
    other = Sandbox(tmp_path / "other")
    other.root.mkdir()
    staged(other, mesh(), seed=b"another seed, just as long as the first one")
    other.write(f"{MESH}/known_hosts", guest.read(f"{MESH}/known_hosts"))
    done = login(other, "hvd-01", other=guest.root)
    assert done.returncode == 255
    assert "Permission denied (publickey)" in done.stderr


def test_a_worker_more_restarts_nothing(guest: Sandbox) -> None:
    staged(guest, mesh())
    (guest.root / "active").touch()
    guest.forget_calls()
    before = {
        name: guest.read(f"{MESH}/{name}") for name in ("host_key", "id", "sshd_config", "authorized_keys")
    }
    more = mesh(peers=(*PEERS, MeshPeer(vm="hvd-03", names=("hvd-03",), addresses=("10.111.0.13",))))
    context = context_for(more, WORKER, host_keys=TOLD)
    guest.bring(more, context)
    assert guest.run("ssh-mesh", "check") != 0
    assert guest.run("ssh-mesh", "apply") == 0
    assert {name: guest.read(f"{MESH}/{name}") for name in before} == before
    assert "hvd-03" in guest.read(f"{MESH}/known_hosts")
    assert "hvd-03" in guest.read(f"{MESH}/ssh_config")
    assert guest.calls == []


def test_another_key_makes_the_sshd_in_the_container_read_it(guest: Sandbox) -> None:
    module = mesh()
    staged(guest, module)
    (guest.root / "active").touch()
    guest.forget_calls()
    staged(guest, module, seed=b"another seed, just as long as the first one")
    assert guest.calls == [
        "systemctl is-active --quiet vgpu-cfg-worker.service",
        "systemctl reload vgpu-cfg-worker.service",
    ]


def test_without_a_container_the_guest_has_an_sshd_for_it(guest: Sandbox) -> None:
    staged(guest, mesh(), contained=False)
    assert "systemctl restart vgpu-cfg-mesh.service" in guest.calls
    (guest.root / "active").touch()
    assert guest.run("ssh-mesh", "check") == 0
    unit = guest.root / "etc/systemd/system/vgpu-cfg-mesh.service"
    done = guest.command(["systemd-analyze", "verify", str(unit)])
    assert (done.returncode, done.stderr) == (0, "")
    unit.write_text(unit.read_text().replace("Restart=on-failure", "Restart=sometimes"))
    assert "restart specifier" in guest.command(["systemd-analyze", "verify", str(unit)]).stderr


FIREWALL = """
for word in "$@"; do
    case $word in
    --add-source=*) : >"$VGPU_CFG_ROOT/${word#*=}" ;;
    --query-source=*) [ -e "$VGPU_CFG_ROOT/${word#*=}" ] || exit 1 ;;
    esac
done
"""


def test_firewalld_and_selinux_let_workers_in(guest: Sandbox) -> None:
    guest.stand_in("getenforce", "echo Enforcing")
    guest.stand_in("semanage", 'case "$*" in *--list) echo "ssh_port_t   tcp   22" ;; esac')
    guest.stand_in("firewall-cmd", FIREWALL)
    staged(guest, mesh(), contained=False)
    (other,) = PEERS[1].addresses
    assert f"firewall-cmd --zone=trusted --add-source={other}" in guest.calls
    assert "semanage port --add --type ssh_port_t --proto tcp 2222" in guest.calls
    (guest.root / "active").touch()
    assert guest.run("ssh-mesh", "check") == 0
    (guest.root / other).unlink()
    assert guest.run("ssh-mesh", "check") == 1


def test_a_container_that_comes_later_gets_the_port(guest: Sandbox) -> None:
    staged(guest, mesh(), contained=False)
    guest.forget_calls()
    module = mesh()
    guest.bring(module, context_for(module, WORKER, host_keys=TOLD))
    assert guest.run("ssh-mesh", "check") != 0
    assert guest.run("ssh-mesh", "apply") == 0
    assert "systemctl disable --quiet --now vgpu-cfg-mesh.service" in guest.calls
    assert not (guest.root / "etc/systemd/system/vgpu-cfg-mesh.service").exists()
    assert guest.run("ssh-mesh", "check") == 0


def test_another_user_must_be_there(guest: Sandbox) -> None:
    module = mesh(user="trainer")
    guest.stand_in("systemctl", "exit 1")
    assert guest.apply(module, context_for(module, WORKER)) == 1
    assert guest.why == "the guest has no account trainer for the ssh mesh"
    text = guest.read(f"{MESH}/sshd_config")
    assert "AllowUsers trainer\nPermitRootLogin no\n" in text


@pytest.mark.parametrize(
    "module",
    [
        mesh(user="root *"),
        mesh(user="-oProxyCommand=x"),
        mesh(user="a\nPermitRootLogin yes"),
        mesh(peers=(MeshPeer(vm="x", names=("a b",)),)),
        mesh(peers=(MeshPeer(vm="x", names=("*",)),)),
        mesh(peers=(MeshPeer(vm="x", names=("$(reboot)",)),)),
        mesh(peers=(MeshPeer(vm="x", names=("-a",)),)),
        mesh(peers=(MeshPeer(vm="x", names=("a\nHost *",)),)),
        mesh(peers=(MeshPeer(vm="x", names=("a",), addresses=("10.0.0.1,*",)),)),
        mesh(peers=(MeshPeer(vm="x", names=()),)),
        mesh(port=0),
    ],
)
def test_what_its_files_cannot_carry_is_refused(guest: Sandbox, module: SshMeshModule) -> None:
    with pytest.raises(GuestError):
        guest.bring(module, context_for(module))
