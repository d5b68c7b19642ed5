"""The lab's SSH servers, spoken to by OpenSSH's own client, by paramiko and by this tool's shells."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from vgpu_cfg.errors import HostShellError
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.shell.shell import ShellAccess
from vgpu_cfg.lab.shell.ssh_server import KNOWN_HOSTS, SSH_CONFIG, Endpoints, LabSshServer, serve_ssh
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.state.host_defaults import MFT_VIBS
from vgpu_cfg.lab.state.inventory import Host
from vgpu_cfg.lab.vcenter import Lab
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.model.plan_file import AccessEntry
from vgpu_cfg.shells.esxi.logins import EsxiShells

HOST, OTHER = "esx-r12-01.lab", "esx-r12-02.lab"
ANY = "any"
ACCESS = AccessEntry(ssh="on", password="ROOT")


@pytest.fixture
def lab() -> Lab:
    """A lab of bare hosts of which the first two have SSH on."""
    lab = open_lab("bare", clock=VirtualClock())
    for name in (HOST, OTHER):
        set_ssh(lab, name, is_on=True)
    return lab


@pytest.fixture
def endpoints(lab: Lab, tmp_path: Path) -> Iterator[Endpoints]:
    with serve_ssh(lab, tmp_path) as endpoints:
        yield endpoints


def host_of(lab: Lab, name: str) -> Host:
    return next(host for host in lab.state.all(Host) if host.name == name)


def set_ssh(lab: Lab, name: str, *, is_on: bool) -> None:
    with lab.transaction():
        host = host_of(lab, name)
        host.services["TSM-SSH"].running = is_on
        lab.state.touch(host)


def connect(
    where: tuple[str, int], folder: Path, password: str = ANY, user: str = "root"
) -> paramiko.SSHClient:
    client = paramiko.SSHClient()
    client.load_host_keys(str(folder / KNOWN_HOSTS))
    try:
        client.connect(
            *where, username=user, password=password, allow_agent=False, look_for_keys=False, timeout=120
        )
    except BaseException:
        client.close()
        raise
    return client


def ask(client: paramiko.SSHClient, line: str) -> tuple[int, str, str]:
    stdin, stdout, stderr = client.exec_command(line, timeout=120)
    stdin.close()
    out, err = stdout.read().decode(), stderr.read().decode()
    return stdout.channel.recv_exit_status(), out, err


def is_listening(where: tuple[str, int]) -> bool:
    try:
        socket.create_connection(where, timeout=120).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_command_runs_and_tells_status_and_both_streams(endpoints: Endpoints, tmp_path: Path) -> None:
    with connect(endpoints[HOST], tmp_path) as client:
        status, out, err = ask(client, "esxcli graphics host get")
        assert (status, err) == (0, "")
        assert out.splitlines()[0] == "   Default Graphics Type: Shared"
        assert ask(client, "nvidia-smi -q") == (127, "", "sh: nvidia-smi: not found\n")


def test_many_commands_run_over_one_connection(endpoints: Endpoints, tmp_path: Path) -> None:
    with connect(endpoints[HOST], tmp_path) as client:
        answers = {ask(client, "esxcli hardware pci list")[1] for _ in range(20)}
    assert len(answers) == 1


def test_each_host_has_its_own_port_key_and_state(lab: Lab, endpoints: Endpoints, tmp_path: Path) -> None:
    with connect(endpoints[OTHER], tmp_path) as client:
        ask(client, "esxcli system settings kernel set -s atsSupport -v FALSE")
    assert host_of(lab, OTHER).kernel["atsSupport"].configured == "FALSE"
    assert host_of(lab, HOST).kernel["atsSupport"].configured == "TRUE"
    assert len(set(endpoints.values())) == len(endpoints) == 4
    assert len({line.split()[2] for line in (tmp_path / KNOWN_HOSTS).read_text().splitlines()}) == 4


def test_hosts_keep_their_keys_where_there_is_a_folder(lab: Lab, tmp_path: Path) -> None:
    def keys() -> list[str]:
        with LabSshServer(lab, folder=tmp_path) as server:
            return [line.split()[2] for line in server.known_hosts_text().splitlines()]

    assert keys() == keys()


@pytest.fixture
def server(lab: Lab, tmp_path: Path) -> Iterator[LabSshServer]:
    with LabSshServer(lab) as server:
        (tmp_path / KNOWN_HOSTS).write_text(server.known_hosts_text(), encoding="ascii")
        yield server


def test_a_stopped_service_refuses_and_a_started_one_answers(lab: Lab, server: LabSshServer) -> None:
    name = "esx-r12-03.lab"
    where = server.endpoints[name]
    assert not is_listening(where)
    set_ssh(lab, name, is_on=True)
    assert server.wait_until(name, is_open=True)
    assert is_listening(where)
    set_ssh(lab, name, is_on=False)
    assert server.wait_until(name, is_open=False)
    assert not is_listening(where)
    set_ssh(lab, name, is_on=True)
    assert server.wait_until(name, is_open=True)
    assert is_listening(where)


def test_a_closed_port_goes_to_no_other_process(lab: Lab, server: LabSshServer) -> None:
    name = "esx-r12-03.lab"
    for is_on in (True, False):
        set_ssh(lab, name, is_on=is_on)
        assert server.wait_until(name, is_open=is_on)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(server.endpoints[name])


def test_what_another_process_did_is_followed(tmp_path: Path) -> None:
    ours, theirs = (open_lab("bare", folder=tmp_path / "lab", clock=VirtualClock()) for _ in range(2))
    with LabSshServer(ours) as server:
        set_ssh(theirs, HOST, is_on=True)
        assert server.wait_until(HOST, is_open=True)
        assert is_listening(server.endpoints[HOST])


def test_stopping_the_service_leaves_a_login_alone(lab: Lab, server: LabSshServer, tmp_path: Path) -> None:
    with connect(server.endpoints[HOST], tmp_path) as client:
        set_ssh(lab, HOST, is_on=False)
        assert server.wait_until(HOST, is_open=False)
        assert ask(client, "vmkload_mod -l")[0] == 0


def test_a_host_that_goes_takes_its_connections_along(lab: Lab, server: LabSshServer, tmp_path: Path) -> None:
    with connect(server.endpoints[HOST], tmp_path) as client:
        transport = client.get_transport()
        assert transport is not None
        with lab.transaction():
            host_of(lab, HOST).connection = "notResponding"
            lab.state.touch(host_of(lab, HOST))
        assert server.wait_until(HOST, is_open=False)
        transport.join(timeout=120)
        assert not transport.is_active()
    assert not is_listening(server.endpoints[HOST])


def test_lockdown_mode_keeps_root_out(lab: Lab, endpoints: Endpoints, tmp_path: Path) -> None:
    host_of(lab, HOST).lockdown = "lockdownNormal"
    with pytest.raises(paramiko.AuthenticationException):
        connect(endpoints[HOST], tmp_path)


@pytest.mark.parametrize(("user", "password"), [("root", ""), ("admin", "any")])
def test_others_and_empty_passwords_are_not_let_in(
    endpoints: Endpoints, tmp_path: Path, user: str, password: str
) -> None:
    with pytest.raises(paramiko.SSHException):
        connect(endpoints[HOST], tmp_path, password=password, user=user)


def test_a_key_opens_where_it_is_known(lab: Lab) -> None:
    key = paramiko.ECDSAKey.generate()
    access = ShellAccess(keys={f"{key.get_name()} {key.get_base64()}"})
    with LabSshServer(lab, access=access) as server, paramiko.Transport(server.endpoints[HOST]) as transport:
        transport.connect(username="root", pkey=key)
        assert transport.is_authenticated()


def test_no_login_shell_is_given(endpoints: Endpoints, tmp_path: Path) -> None:
    with connect(endpoints[HOST], tmp_path) as client, pytest.raises(paramiko.SSHException):
        client.invoke_shell()


def own_client(folder: Path) -> EsxiShells:
    return EsxiShells(
        {"ROOT": ANY},
        folder / "pinned",
        known_hosts=[folder / KNOWN_HOSTS],
        ssh_config=folder / SSH_CONFIG,
        sleep=lambda _seconds: None,
    )


def test_this_tools_own_client_reads_what_the_shell_tells(tmp_path: Path) -> None:
    lab = open_lab("two-a100", clock=VirtualClock())
    host = lab.state.all(Host)[0]
    host.software |= {vib.name: vib for vib in MFT_VIBS}
    set_ssh(lab, host.name, is_on=True)
    with serve_ssh(lab, tmp_path):
        shell = own_client(tmp_path).connect(host.name, ACCESS)
        assert shell.run(["nvidia-smi", "-i", "0", "-mig", "1"]).status == 0
        facts = shell.read_facts(frozenset({FactGroup.SHELL_GPUS, FactGroup.SHELL_NICS}), ["0000:24:00.0"])
        shell.close()
    assert not facts.unread
    first, second = facts.gpus["0000:21:00.0"], facts.gpus["0000:e2:00.0"]
    assert (first.mig_current, first.mig_pending) == (False, True)
    assert (second.mig_current, second.mig_pending) == (False, False)
    assert facts.firmware["0000:24:00.0"]["ATS_ENABLED"].current == "False"


def test_this_tools_own_client_reads_whom_nvlink_joins(tmp_path: Path) -> None:
    lab = open_lab("nvlink-4xa100", clock=VirtualClock())
    host = lab.state.all(Host)[0]
    set_ssh(lab, host.name, is_on=True)
    with serve_ssh(lab, tmp_path):
        shell = own_client(tmp_path).connect(host.name, ACCESS)
        facts = shell.read_facts(frozenset({FactGroup.SHELL_TOPOLOGY}), [])
        shell.close()
    assert not facts.unread
    assert facts.links is not None
    row = facts.links.links["0000:4a:00.0"]
    assert row["0000:61:00.0"].startswith("NV")
    assert row["0000:ca:00.0"] == "SYS"
    assert facts.links.numa_nodes["0000:e1:00.0"] == 1


def test_this_tools_own_client_reads_where_mig_instances_stand(tmp_path: Path) -> None:
    lab = open_lab("mixed-fleet", clock=VirtualClock())
    (host,) = [one for one in lab.state.all(Host) if any(gpu.mig_enabled and gpu.uses for gpu in one.gpus)]
    set_ssh(lab, host.name, is_on=True)
    with serve_ssh(lab, tmp_path):
        shell = own_client(tmp_path).connect(host.name, ACCESS)
        facts = shell.read_facts(frozenset({FactGroup.SHELL_MIG}), [])
        shell.close()
    assert not facts.unread
    assert facts.mig is not None
    assert {pci_id: {one.start for one in found} for pci_id, found in facts.mig.items()} == {
        gpu.pci_id: {use.start for use in gpu.uses} for gpu in host.gpus if gpu.uses
    }


def test_this_tools_own_client_is_told_of_lockdown_mode(
    lab: Lab, endpoints: Endpoints, tmp_path: Path
) -> None:
    host_of(lab, HOST).lockdown = "lockdownStrict"
    with pytest.raises(HostShellError):
        own_client(tmp_path).connect(HOST, ACCESS)


@pytest.fixture
def openssh(lab: Lab, tmp_path: Path) -> Iterator[list[str]]:
    """The words before a command by which OpenSSH logs in to the first host, by its own name."""
    client = shutil.which("ssh")
    keygen = shutil.which("ssh-keygen")
    if client is None or keygen is None:
        pytest.skip("OpenSSH's client is not on this machine")
    key = tmp_path / "id"
    subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True, timeout=120)
    public = " ".join(key.with_suffix(".pub").read_text(encoding="ascii").split()[:2])
    with serve_ssh(lab, tmp_path, access=ShellAccess(keys={public})):
        yield [
            client,
            *("-F", str(tmp_path / SSH_CONFIG), "-i", str(key)),
            *("-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "ConnectTimeout=30"),
        ]


def run_ssh(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
    )


def test_openssh_finds_a_host_by_its_name_and_trusts_its_key(openssh: list[str]) -> None:
    done = run_ssh([*openssh, HOST, "esxcli system settings kernel list -o atsSupport"])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[2].split()[:4] == ["atsSupport", "Bool", "TRUE", "TRUE"]


def test_openssh_hands_the_status_on(openssh: list[str]) -> None:
    done = run_ssh([*openssh, HOST, "nvidia-smi"])
    assert (done.returncode, done.stdout) == (127, "")
    assert done.stderr == "sh: nvidia-smi: not found\n"


def test_openssh_is_refused_where_the_service_is_off(openssh: list[str]) -> None:
    done = run_ssh([*openssh, "esx-r12-03.lab", "nvidia-smi"])
    assert done.returncode == 255
    assert "refused" in done.stderr
