"""What a guest's programs print, and that it follows the host, the VM and what was staged."""

from __future__ import annotations

import json

import pytest

from tests.unit.lab.guest.guest_rig import IMAGE, GuestRig, pair
from vgpu_cfg.errors import GuestError
from vgpu_cfg.lab.guest.login import LabGuestShell, open_guest_shell
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.state.inventory import Host

MEASURE = "ib_write_bw -d mlx5_0 -x 3 -R -F --report_gbits"
TARGET = "192.168.10.12"


@pytest.fixture(scope="module")
def staged() -> GuestRig:
    """Two workers, before anybody restarted their hosts. Whoever changes them makes his own."""
    rig = GuestRig()
    pair(rig)
    return rig


@pytest.fixture
def shell(staged: GuestRig) -> LabGuestShell:
    return staged.shell(staged.vm("hvd-01"))


def gbps(rig: GuestRig, *options: str) -> float:
    """Return what a transfer from the first to the second worker reaches."""
    first, second = (rig.shell(rig.vm(name)) for name in ("hvd-01", "hvd-02"))
    words = " ".join([MEASURE, *options])
    assert second.execute(f"systemd-run --quiet --unit=bw {words}")[0] == 0
    status, out, err = first.execute(f"timeout 40 {words} {TARGET}")
    assert status == 0, err
    row = next(line for line in out.splitlines() if line.startswith(" 65536"))
    return float(row.split()[3])


def test_nvidia_smi_shows_the_vgpu_and_its_licence(shell: LabGuestShell) -> None:
    assert shell.execute("nvidia-smi -L")[1].startswith("GPU 0: GRID A100-40C (UUID: GPU-")
    report = shell.execute("nvidia-smi -q")[1]
    assert "Virtualization Mode               : VGPU" in report
    assert "vGPU Software Licensed Product" in report
    assert "License Status                    : Licensed (Expiry: 2036-" in report
    csv = shell.execute("nvidia-smi --query-gpu=driver_version,memory.total --format=csv,noheader")[1]
    assert csv == "580.95.05, 40960 MiB\n"
    matrix = shell.execute("nvidia-smi topo -m")[1].splitlines()
    assert matrix[1].split("\t")[:3] == ["GPU0", " X ", "PHB"]
    assert "  NIC0: mlx5_0" in matrix


def test_rdma_devices_and_gids(shell: LabGuestShell) -> None:
    assert "state:\t\t\tPORT_ACTIVE (4)" in shell.execute("ibv_devinfo -d mlx5_0")[1]
    assert "active_mtu:\t\t4096 (5)" in shell.execute("ibv_devinfo")[1]
    rows = [line.split() for line in shell.execute("show_gids")[1].splitlines()]
    assert [
        "mlx5_0",
        "1",
        "3",
        "0000:0000:0000:0000:0000:ffff:c0a8:0a0b",
        "192.168.10.11",
        "v2",
        "ens33np0",
    ] in rows
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    assert shell.execute(f"cat {port}/gid_attrs/types/3")[1] == "RoCE v2\n"
    assert shell.execute("cat /sys/class/infiniband/*/ports/1/rate")[1] == "100 Gb/sec (4X EDR)\n"
    assert shell.execute("ibdev2netdev")[1] == "mlx5_0 port 1 ==> ens33np0 (Up)\n"
    assert "nvidia_peermem" in shell.execute("lsmod")[1]
    qos = shell.execute("mlnx_qos -i ens33np0")[1]
    assert "Priority trust state: dscp" in qos
    assert "enabled     0   0   0   1   0   0   0   0" in qos
    assert shell.execute("cat /sys/class/infiniband/mlx5_0/tc/1/traffic_class")[1] == "Global tclass=106\n"


def test_addresses_follow_netplan(shell: LabGuestShell) -> None:
    links = {one["ifname"]: one for one in json.loads(shell.execute("ip -j addr")[1])}
    assert links["ens33np0"]["mtu"] == 9000
    assert links["ens33np0"]["addr_info"][0]["local"] == "192.168.10.11"
    assert links["ens192"]["addr_info"][0]["prefixlen"] == 16
    assert shell.execute(f"ping -M do -c 3 -s 8972 {TARGET}")[0] == 0
    assert "message too long" in shell.execute(f"ping -M do -c 3 -s 9000 {TARGET}")[2]


def test_containers(shell: LabGuestShell) -> None:
    run = f"docker run --rm --pull never --gpus all {IMAGE}"
    assert shell.execute(f"{run} nvidia-smi -L")[1].startswith("GPU 0: GRID A100-40C")
    assert "Horovod v" in shell.execute(f"{run} horovodrun --check-build")[1]
    assert shell.execute("docker run --rm nobody/nothing true")[0] == 125
    assert shell.execute("docker info --format '{{.Runtimes}}'")[1].split() == [
        "io.containerd.runc.v2",
        "nvidia",
        "runc",
    ]
    assert shell.execute("systemctl is-active docker vgpu-cfg-worker.service")[1] == "active\nactive\n"
    assert shell.execute("systemctl is-active nobody")[0] == 3


def test_horovodrun_is_of_the_images_version_and_reads_its_words_as_that_does(shell: LabGuestShell) -> None:
    run = "docker exec vgpu-cfg-worker horovodrun"
    assert shell.execute(f"{run} --check-build")[1].startswith("Horovod v0.22.0:\n")
    assert shell.execute(f"{run} --version")[1] == "0.22.0\n"
    assert shell.execute(f"{run} -np 2 --network-interface ens224 python3 train.py -v") == (0, "", "")
    status, _, said = shell.execute(f"{run} -np 2 --network-interfaces ens224 python3 train.py")
    assert (status, said.splitlines()[-1]) == (
        2,
        "horovodrun: error: unrecognized arguments: --network-interfaces",
    )


def test_train_that_knows_only_the_newer_word_does_not_start_the_older_horovod(
    staged: GuestRig, shell: LabGuestShell
) -> None:
    train = guest_of(staged.vm("hvd-01")).files["/opt/vgpu-cfg/train"]
    train.content = "exec horovodrun --network-interfaces ens224"
    status, _, said = shell.execute("train -- python3 train.py")
    assert status == 2
    assert "unrecognized arguments: --network-interfaces" in said
    train.content += " || exec horovodrun --network-interface ens224"
    assert shell.execute("train -- python3 train.py")[0] == 0


def test_workers_reach_each_other_and_train(staged: GuestRig, shell: LabGuestShell) -> None:
    ssh = "ssh -F /etc/vgpu-cfg/mesh/ssh_config -o BatchMode=yes hvd-02 true"
    assert shell.execute(ssh)[0] == 0
    out = shell.execute("env NCCL_DEBUG=INFO train -- all_reduce_perf -b 256M")[1]
    assert "via NET/IB/0/GDRDMA" in out
    assert "# Out of bounds values : 0 OK" in out
    worker = guest_of(staged.vm("hvd-02"))
    worker.services["vgpu-cfg-worker"] = False
    try:
        assert "Connection refused" in shell.execute(ssh)[2]
        assert shell.execute("train true")[0] != 0
    finally:
        worker.services["vgpu-cfg-worker"] = True


def test_every_link_of_the_ats_chain_counts() -> None:
    rig = GuestRig()
    first, second = pair(rig)
    shell = rig.shell(first)
    assert "Address Translation Service" not in shell.execute("lspci -vvv -d 15b3:")[1]
    assert 95 < gbps(rig) < 98
    assert 47 < gbps(rig, "--use_cuda=0") < 49
    rig.bring_firmware()
    assert "ATSCtl:\tEnable+" in shell.execute("lspci -vvv -s 02:02.0")[1]
    assert 95 < gbps(rig, "--use_cuda=0") < 98
    for vm in (first, second):
        vm.extra_config["pciPassthru.allowP2P"] = "FALSE"
    assert "ATSCtl:\tEnable-" in shell.execute("lspci -vvv -s 02:02.0")[1]
    assert 47 < gbps(rig, "--use_cuda=0") < 49
    for vm in (first, second):
        vm.extra_config["pciPassthru.allowP2P"] = "TRUE"
    for host in rig.lab.state.all(Host):
        host.kernel["atsSupport"].runtime = "FALSE"
    assert "ATSCtl:\tEnable-" in shell.execute("lspci -vvv -s 02:02.0")[1]


def test_mtu_pfc_and_peermem_count() -> None:
    rig = GuestRig()
    first, second = pair(rig)
    whole = gbps(rig)
    guest = guest_of(second)
    guest.roce[rig.mac(2)].priority = None
    assert gbps(rig) < 0.75 * whole
    guest.roce[rig.mac(2)].priority = 3
    guest.settings[rig.mac(2)].mtu = 1500
    assert gbps(rig) < 0.9 * whole
    guest.peermem = False
    assert rig.shell(second).execute(f"{MEASURE} --use_cuda=0")[0] == 1
    refused = rig.shell(first).execute(f"{MEASURE} 192.168.10.99")
    assert "Couldn't connect to 192.168.10.99:18515" in refused[2]


def test_a_driver_that_the_hosts_does_not_take_drives_nothing(staged: GuestRig) -> None:
    rig = GuestRig()
    vm = rig.up("a", source="old-driver")
    status, out, _ = rig.shell(vm).execute("nvidia-smi")
    assert status == 9
    assert "couldn't communicate with the NVIDIA driver" in out


def test_a_shell_wants_a_guest_that_is_up_and_an_account_that_is_let_in(staged: GuestRig) -> None:
    vm = staged.vm("hvd-02")
    for user, password in (("root", "x"), ("nobody", "x"), ("ubuntu", "")):
        with pytest.raises(GuestError, match="was rejected"):
            open_guest_shell(staged.lab, vm.moid, user, password=password)
    with pytest.raises(GuestError, match="was rejected"):
        open_guest_shell(staged.lab, vm.moid, "root", public_key="ssh-ed25519 AAAAother")
    with pytest.raises(GuestError, match="does not respond"):
        open_guest_shell(staged.lab, staged.vm("ubuntu-22.04-efi").moid, "ubuntu", password="x")


def test_a_shell_ends_with_its_guest() -> None:
    rig = GuestRig()
    vm = rig.up("a")
    shell = rig.shell(vm)
    rig.done(vm, "ResetVM_Task")
    with pytest.raises(GuestError, match="does not respond"):
        shell.execute("true")
    rig.booted(vm)
    with pytest.raises(GuestError, match="was restarted"):
        shell.execute("true")


def test_lines_of_shell(shell: LabGuestShell) -> None:
    assert shell.execute("umask 077; cat >/root/x && chmod 640 /root/x && cat /root/x", b"a b\n") == (
        0,
        "a b\n",
        "",
    )
    assert shell.execute("test -f /root/x && echo yes || echo no")[1] == "yes\n"
    assert shell.execute('sh -c \'echo "$1" | grep -q "^ *b\\$"\' sh b')[0] == 0
    assert shell.execute("cat /nothing >/tmp/out 2>/tmp/err; cat /tmp/err")[1].startswith("cat: /nothing")
    assert (
        shell.execute("X=1 env; mkdir -p -m 0700 -- /a/b; mv /root/x /a/b/y; ls /a/b; rm -rf /a")[1] == "y\n"
    )
    assert shell.execute("if true; then echo; fi")[0] == 2
    assert shell.execute("echo $(id)")[0] == 2
    assert shell.execute("nobody-has-this")[0] == 127
    shell.write_file("/etc/deep/file", b"\xff\x00", 0o600)
    assert shell.read_file("/etc/deep/file") == b"\xff\x00"
    assert shell.read_file("/etc/none") is None
