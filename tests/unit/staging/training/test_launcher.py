"""`train`: run for real in folders with the sysfs of guests; horovodrun, mpirun and ssh are stood in."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.staging.training.sandbox import SYSTEM_PATH, Sandbox, context_for
from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.model.guests.guest import parse_training
from vgpu_cfg.model.guests.modules import NcclModule, RoceModule, SharedFolderModule
from vgpu_cfg.model.guests.training_modules import (
    LauncherModule,
    MeshPeer,
    RankModule,
    SshMeshModule,
    TrainWorker,
    WorkerModule,
)
from vgpu_cfg.staging.bundle import stage_module

IMAGE = "nvcr.io/nvidia/tensorflow:21.07-tf1-py3"
PEERS = tuple(MeshPeer(vm=f"hvd-0{n}", names=(f"hvd-0{n}",), addresses=(f"10.111.0.1{n}",)) for n in (1, 2))
WORKERS = tuple(TrainWorker(name=f"hvd-0{n}", address=f"10.111.0.1{n}") for n in (1, 2))
ROCE_NIC = GuestNic(mac="00:50:56:aa:00:01", name="ens224")
BUILD = """
case "$*" in
--version) echo 0.28.1 ;;
*--check-build*) printf 'Horovod v0.28.1:\\n\\nAvailable Controllers:\\n    [X] MPI\\n    [X] Gloo\\n' ;;
*) printf '<%s>' "$@" >"$VGPU_CFG_ROOT/started"
   env >"$VGPU_CFG_ROOT/environment" ;;
esac
"""
MPIRUN = BUILD.replace("echo 0.28.1", 'echo "mpirun (Open MPI) 4.1.4"')
# It goes to a folder with the name of the host that is asked.
SSH = """
while [ "$#" -gt 2 ]; do
    shift
done
[ -d "$VGPU_CFG_ROOT/../$1" ] || { echo "ssh: connect to host $1 port 2222: No route to host" >&2; exit 255; }
VGPU_CFG_ROOT=$VGPU_CFG_ROOT/../$1 exec sh -c "$2"
"""
ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
ens192\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0
ens192\t0000000A\t00000000\t0001\t0\t0\t100\t000000FF\t0\t0\t0
docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
{roce}\t00006F0A\t00000000\t0001\t0\t0\t101\t00FFFFFF\t0\t0\t0
"""
# index: (gid, type, interface), as a ConnectX-6 Dx with one IPv4 address shows them.
GIDS = {
    0: ("fe80:0000:0000:0000:0250:56ff:feaa:0001", "IB/RoCE v1", "{roce}"),
    1: ("fe80:0000:0000:0000:0250:56ff:feaa:0001", "RoCE v2", "{roce}"),
    2: ("0000:0000:0000:0000:0000:ffff:0a6f:00{last:02x}", "IB/RoCE v1", "{roce}"),
    3: ("0000:0000:0000:0000:0000:ffff:0a6f:00{last:02x}", "RoCE v2", "{roce}"),
}


def furnish(
    root: Path, last: int, *, roce: str = "ens224", rdma: str = "mlx5_0", peermem: bool = True, shift: int = 0
) -> None:
    """Give a guest two NICs, and the RDMA device of the second."""
    guest = Sandbox(root)
    guest.write("/proc/net/route", ROUTES.format(roce=roce))
    for name, mac in (("ens192", f"00:50:56:00:00:{last:02x}"), (roce, f"00:50:56:aa:00:{last - 10:02x}")):
        guest.write(f"/sys/class/net/{name}/address", f"{mac}\n")
        guest.write(f"/sys/class/net/{name}/device/vendor", "0x15b3\n")
    if peermem:
        (root / "sys/module/nvidia_peermem").mkdir(parents=True, exist_ok=True)
    if not rdma:
        return
    port = f"/sys/class/infiniband/{rdma}/ports/1"
    guest.write(f"{port}/state", "4: ACTIVE\n")
    for index, (gid, kind, interface) in GIDS.items():
        at = index + shift
        guest.write(f"{port}/gids/{at}", gid.format(last=last) + "\n")
        guest.write(f"{port}/gid_attrs/types/{at}", f"{kind}\n")
        guest.write(f"{port}/gid_attrs/ndevs/{at}", interface.format(roce=roce) + "\n")
    guest.write(f"{port}/gids/9", "0000:0000:0000:0000:0000:0000:0000:0000\n")


def launcher(**more: object) -> LauncherModule:
    return LauncherModule.model_validate({"workers": WORKERS, "nics": (ROCE_NIC,), **more})


@pytest.fixture
def first(tmp_path: Path) -> Sandbox:
    """The first worker; the second lies beside it, where the ssh that is stood in finds it."""
    furnish(tmp_path / "hvd-01", 11)
    furnish(tmp_path / "hvd-02", 12)
    guest = Sandbox(tmp_path / "hvd-01")
    guest.stand_in("horovodrun", BUILD)
    guest.stand_in("mpirun", MPIRUN)
    guest.stand_in("ssh", SSH)
    return guest


def install(
    guest: Sandbox, module: LauncherModule | None = None, *others: object, rank: RankModule | None = None
) -> None:
    module = module or launcher()
    mesh = SshMeshModule(vm="hvd-01", peers=PEERS)
    worker = WorkerModule(image=IMAGE)
    context = context_for(mesh, worker, *others, rank or RankModule(), module)  # type: ignore[arg-type]  # modules of all kinds
    guest.stand_in("systemctl", "exit 1")
    for one in (mesh, rank or RankModule(), module):
        assert guest.apply(one, context) == 0, guest.output
        assert guest.run(one.kind, "check") == 0, guest.output


def rank_of(guest: Sandbox) -> str:
    return f"{guest.root}/opt/vgpu-cfg/rank"


ALONE = ("unshare", "--pid", "--fork", "--mount-proc") if os.geteuid() == 0 else ()
"""Trainings are found among all processes. With this, those of other tests are neither seen nor stopped."""


def train(
    guest: Sandbox, *words: str, way: tuple[str, ...] = (), **environment: str
) -> tuple[int, dict[str, str], str]:
    """Run `train`; return its status, the variables that it told, and what else it said."""
    done = guest.command([*way, "sh", f"{guest.root}/opt/vgpu-cfg/train", *words], **environment)
    told = {}
    for line in done.stdout.splitlines():
        name, sign, value = line.partition("=")
        if sign and name.isidentifier():
            told[name] = value
    command = done.stdout.splitlines()[-1] if done.stdout else ""
    return done.returncode, told, f"{command}\n{done.stderr}"


def test_both_launchers_read_one_host_file(first: Sandbox) -> None:
    install(first, launcher(workers=(WORKERS[0], TrainWorker(name="hvd-02", address="10.111.0.12", slots=2))))
    assert first.read("/opt/vgpu-cfg/hostfile") == "hvd-01 slots=1\nhvd-02 slots=2\n"


def test_nccl_is_told_what_each_guests_own_file_says_and_nothing_else(first: Sandbox) -> None:
    """The file is what staging writes; `train` shows it, and a rank has it whole."""
    install(first, None, RoceModule(nics=(ROCE_NIC,)))
    settings = {}
    for worker in WORKERS:
        guest = Sandbox(first.root.parent / worker.name)
        module = NcclModule(nics=(ROCE_NIC,), address=worker.address, traffic_class=106, is_direct=True)
        staged = stage_module(module, context_for(module))
        text = next(one.content for one in staged.files if one.path.endswith("/nccl-env"))
        program = guest.write("/opt/vgpu-cfg/nccl-env", text)
        assert guest.command(["sh", str(program), "apply"]).returncode == 0
        lines = guest.read("/opt/vgpu-cfg/nccl.env").replace("'", "").splitlines()
        settings[worker.name] = [one.removeprefix("export ") for one in lines if one.startswith("export ")]
    assert [one.partition("=")[0] for one in settings["hvd-02"]] == [
        *("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_IB_TC", "NCCL_NET_GDR_LEVEL")
    ]
    status, told, rest = train(first, "--check")
    assert (status, told) == (0, {"HOROVOD_GLOO_IFACE": "ens224"})
    for name, lines in settings.items():
        assert f"train: {name} itself: {' '.join(lines)}\n" in rest
    started = first.command([rank_of(first), "env"]).stdout.splitlines()
    assert {one for one in started if one.startswith("NCCL_")} == set(settings["hvd-01"])


def test_a_worker_without_settings_is_named(first: Sandbox) -> None:
    install(first)
    first.write("/opt/vgpu-cfg/nccl.env", SETTINGS.format(n=1))
    _, told, rest = train(first, "--check")
    assert "hvd-02 has no /opt/vgpu-cfg/nccl.env, so NCCL uses its own detection there" in rest
    assert "hvd-01 has no" not in rest
    assert not [name for name in told if name.startswith("NCCL_")]


SETTINGS = "# NCCL_TOPO_FILE: not known\nexport NCCL_IB_HCA='=mlx5_{n}:1'\nexport NCCL_IB_GID_INDEX=3\n"


def test_workers_that_have_found_their_own_settings_are_left_to_them(first: Sandbox) -> None:
    """What `rank` reads on each is shown, and nothing that it says is computed again."""
    install(first)
    for n in (1, 2):
        Sandbox(first.root.parent / f"hvd-0{n}").write("/opt/vgpu-cfg/nccl.env", SETTINGS.format(n=n))
    status, told, rest = train(first, "--check")
    assert status == 0, rest
    assert told == {"HOROVOD_GLOO_IFACE": "ens224"}
    for n in (1, 2):
        assert f"train: hvd-0{n} itself: NCCL_IB_HCA==mlx5_{n}:1 NCCL_IB_GID_INDEX=3\n" in rest


def test_it_finds_what_is_there_and_starts_horovodrun(first: Sandbox) -> None:
    install(first, None, RoceModule(nics=(ROCE_NIC,)))
    status, told, rest = train(first, "--dry-run", "--", "python", "train.py", "--lr", "0.1 $(reboot)")
    assert status == 0, rest
    assert told == {"HOROVOD_GLOO_IFACE": "ens224"}
    assert shlex.split(rest.splitlines()[0]) == [
        *("horovodrun", "-np", "2", "-p", "2222", "--disable-cache"),
        *("--hostfile", f"{first.root}/opt/vgpu-cfg/hostfile", "--network-interfaces", "ens224"),
        *("env", "-u", "NCCL_SOCKET_IFNAME", rank_of(first), "python", "train.py", "--lr", "0.1 $(reboot)"),
    ]
    assert not (first.root / "started").exists()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("version", "word"),
    [
        ("0.19.5", "--network-interface"),
        ("0.22.0", "--network-interface"),
        ("0.22.1+nv21.07", "--network-interface"),
        ("0.24.3", "--network-interface"),
        ("0.25.0", "--network-interfaces"),
        ("0.28.1", "--network-interfaces"),
        ("0.30", "--network-interfaces"),
        ("1.0.0", "--network-interfaces"),
    ],
)
def test_horovodrun_is_called_as_its_version_wants(first: Sandbox, version: str, word: str) -> None:
    first.stand_in("horovodrun", BUILD.replace("0.28.1", version))
    install(first)
    status, _, rest = train(first, "--dry-run", "python")
    assert status == 0, rest
    assert rest.splitlines()[0].split()[-7:-3] == [word, "ens224", "env", "-u"]


def test_a_horovodrun_that_tells_its_version_is_not_asked_for_its_build(first: Sandbox) -> None:
    first.stand_in("horovodrun", BUILD.replace("--check-build*) ", "--check-build*) exit 1;"))
    install(first)
    status, _, rest = train(first, "--dry-run", "python")
    assert (status, "--network-interfaces ens224" in rest) == (0, True)


def test_a_horovodrun_that_tells_its_version_elsewhere_is_asked_once_more(first: Sandbox) -> None:
    first.stand_in("horovodrun", BUILD.replace("echo 0.28.1", "exit 2"))
    install(first)
    _, _, rest = train(first, "--dry-run", "python")
    assert "--network-interfaces ens224" in rest
    assert "does not report its version" not in rest


NAMELESS = BUILD.replace("Horovod v0.28.1", "A build of our own").replace("echo 0.28.1", "echo ours")


def test_a_horovodrun_that_tells_no_version_is_called_by_the_word_that_all_know(first: Sandbox) -> None:
    first.stand_in("horovodrun", NAMELESS)
    install(first)
    status, _, rest = train(first, "--dry-run", "python")
    assert status == 0
    assert rest.splitlines()[0].split()[-7:-3] == ["--network-interface", "ens224", "env", "-u"]
    assert "horovodrun does not report its version: treating it as older than 0.25" in rest


HELP = "--help) echo '--min-np N --max-np N --reset-limit N --host-discovery-script PATH' ;;\n"
ELASTIC_BUILD = BUILD.replace('case "$*" in\n', f'case "$*" in\n{HELP}')


def elastic_line(guest: Sandbox, *words: str, **more: object) -> dict[str, str]:
    """Return the words of horovodrun that have a value, by the word."""
    guest.stand_in("horovodrun", ELASTIC_BUILD)
    install(guest, launcher(elastic=(1, 2), **more))
    status, _, rest = train(guest, "--dry-run", *words, "python")
    assert status == 0, rest
    line = shlex.split(rest.splitlines()[0])
    return {word: after for word, after in itertools.pairwise(line) if word.startswith("-")}


def test_an_elastic_training_says_how_few_and_how_many(first: Sandbox) -> None:
    line = elastic_line(first, max_restarts=2)
    assert (line["-np"], line["--min-np"], line["--max-np"], line["--reset-limit"]) == ("2", "1", "2", "2")
    assert line["--host-discovery-script"].endswith("/hosts-up")
    assert "--hostfile" not in line


def test_without_restarts_horovod_keeps_its_own_limit_of_resets(first: Sandbox) -> None:
    assert "--reset-limit" not in elastic_line(first)


def test_an_elastic_training_waits_for_no_more_than_its_most(first: Sandbox, tmp_path: Path) -> None:
    furnish(tmp_path / "hvd-03", 13)
    three = (*WORKERS, TrainWorker(name="hvd-03", address="10.111.0.13", slots=4))
    line = elastic_line(first, workers=three)
    # The two largest of three workers.
    assert (line["-np"], line["--min-np"], line["--max-np"]) == ("5", "1", "5")


def test_fewer_processes_than_elastic_goes_on_with_are_refused(first: Sandbox) -> None:
    first.stand_in("horovodrun", ELASTIC_BUILD)
    pairs = tuple(worker.model_copy(update={"slots": 2}) for worker in WORKERS)
    install(first, launcher(elastic=(2, 2), workers=pairs))
    status, _, rest = train(first, "--np", "3", "--dry-run", "python")
    assert (status, "--np 3 is fewer than the 4 processes that `elastic` requires" in rest) == (1, True)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (BUILD.replace("0.28.1", "0.19.5"), "Horovod 0.19.5 does not support elastic training"),
        (NAMELESS, "Horovod does not support elastic training"),
        (ELASTIC_BUILD.replace("[X] Gloo", "[ ] Gloo"), "this Horovod was built without Gloo"),
    ],
)
def test_a_horovod_that_cannot_be_elastic_is_told_before_workers_are_asked(
    first: Sandbox, build: str, said: str
) -> None:
    first.stand_in("horovodrun", build)
    install(first, launcher(elastic=(1, 2)))
    status, _, rest = train(first, "python")
    assert status == 1
    assert said in rest
    assert "take `elastic` out of the plan file's training, and apply it" in rest
    assert not [call for call in first.calls if call.startswith("ssh")]


def test_it_starts_what_it_was_told_to_word_for_word(first: Sandbox) -> None:
    install(first, rank=RankModule(environment={"NCCL_DEBUG": "INFO", "NOTE": "a 'b'\n$(reboot) `x` %d -y"}))
    words = ["python", "a b.py", "it's", "$HOME", "`x`", "one\ntwo", "--", "-v", ""]
    status, _, rest = train(first, "--np", "1", *words, NCCL_DEBUG="WARN")
    assert status == 0, rest
    started = first.read("/started")
    assert started.endswith("".join(f"<{word}>" for word in words))
    assert started.startswith("<-np><1>")
    environment = first.read("/environment")
    assert "NOTE=a 'b'\n$(reboot) `x` %d -y\n" in environment
    # What the caller has set goes first.
    assert "NCCL_DEBUG=WARN\n" in environment
    # horovodrun finds the ssh that insists on known hosts.
    assert f"PATH={first.root}/etc/vgpu-cfg/mesh/bin:" in environment


def test_mpirun_is_given_the_variables_and_the_ssh_of_the_mesh(first: Sandbox) -> None:
    install(first, rank=RankModule(environment={"NCCL_DEBUG": "INFO"}))
    status, _, rest = train(first, "--mpi", "--dry-run", "python", "train.py")
    assert status == 0, rest
    words = shlex.split(rest.splitlines()[0])
    assert words[:7] == [
        *(f"{first.commands}/mpirun", "--allow-run-as-root", "-np", "2"),
        *("--hostfile", f"{first.root}/opt/vgpu-cfg/hostfile", "--bind-to"),
    ]
    line = " ".join(words)
    assert f"--mca plm_rsh_agent {first.root}/etc/vgpu-cfg/mesh/bin/ssh --mca plm_rsh_args -p 2222" in line
    assert "--mca pml ob1 --mca btl ^openib" in line
    assert "--mca oob_tcp_if_include ens224 --mca btl_tcp_if_include ens224" in line
    passed = {words[at + 1] for at, word in enumerate(words) if word == "-x"}
    assert passed >= {"PATH", "NCCL_DEBUG", "HOROVOD_GLOO_IFACE"}
    assert words[-3:] == [rank_of(first), "python", "train.py"]


def test_open_mpi_5_is_told_by_the_words_of_its_runtime(first: Sandbox) -> None:
    first.stand_in("mpirun", MPIRUN.replace("4.1.4", "5.0.11"))
    install(first)
    status, _, rest = train(first, "--mpi", "--dry-run", "python")
    assert status == 0, rest
    line = " ".join(shlex.split(rest.splitlines()[0]))
    ssh = f"{first.root}/etc/vgpu-cfg/mesh/bin/ssh"
    assert f"--prtemca plm_ssh_agent {ssh} --prtemca plm_ssh_args -p 2222 --mca pml ob1" in line
    assert "--prtemca prte_if_include ens224 --mca btl_tcp_if_include ens224" in line
    assert "plm_rsh" not in line
    assert "oob_tcp" not in line


def test_an_mpirun_of_another_maker_is_refused(first: Sandbox) -> None:
    first.stand_in("mpirun", 'echo "HYDRA build details: Version: 4.1.2"')
    install(first)
    status, _, rest = train(first, "--mpi", "python")
    assert (status, "mpirun is not Open MPI," in rest) == (1, True)


def test_without_rdma_it_says_so_and_uses_tcp(first: Sandbox, tmp_path: Path) -> None:
    install(first)
    for name in ("hvd-01", "hvd-02"):
        (tmp_path / name / "sys/class/infiniband").rename(tmp_path / name / "gone")
    status, told, rest = train(first, "--check")
    assert (status, told) == (0, {"HOROVOD_GLOO_IFACE": "ens224"})
    assert "no RDMA device found for the training network: NCCL will use TCP" in rest


def test_one_worker_without_rdma_turns_it_off_for_all(first: Sandbox, tmp_path: Path) -> None:
    install(first)
    (tmp_path / "hvd-02/sys/class/infiniband/mlx5_0/ports/1/state").write_text("1: DOWN\n")
    _, told, rest = train(first, "--check")
    assert told["NCCL_IB_DISABLE"] == "1"
    assert "no RDMA device found for the training network on hvd-02" in rest


def test_interfaces_of_other_names_are_left_to_horovod(first: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "hvd-02").rename(tmp_path / "gone")
    furnish(tmp_path / "hvd-02", 12, roce="ens256")
    install(first)
    _, told, rest = train(first, "--dry-run", "python")
    assert "GLOO_SOCKET_IFNAME" not in told
    assert "--network-interfaces" not in rest
    assert "the training network's interface on hvd-02: ens256" in rest


def test_a_head_meets_its_workers_on_the_management_network(first: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "hvd-01").rename(tmp_path / "head")
    furnish(tmp_path / "hvd-01", 11)
    head = Sandbox(tmp_path / "head")
    for gone in ("sys/class/net/ens224", "sys/class/infiniband", "sys/module/nvidia_peermem"):
        (head.root / gone).rename(head.root / gone.replace("/", "-"))
    head.write("/proc/net/route", ROUTES.format(roce="ens224").replace("ens224", "docker1"))
    install(head, launcher(runs_work=False, control_nics=(GuestNic(name="ens192"),)))
    status, told, rest = train(head, "--dry-run", "python", "train.py")
    assert status == 0, rest
    assert told["HOROVOD_GLOO_IFACE"] == "ens192"
    # horovodrun would have NCCL use the network by which it meets the workers.
    assert rest.splitlines()[0].split()[-8:] == [
        *("--network-interfaces", "ens192", "env", "-u", "NCCL_SOCKET_IFNAME"),
        *(rank_of(head), "python", "train.py"),
    ]


@pytest.mark.parametrize(("elastic", "word"), [(None, "--master_addr="), ((1, 2), "--rdzv_endpoint=")])
def test_processes_meet_on_the_training_network_where_the_head_is_not(
    first: Sandbox, tmp_path: Path, elastic: tuple[int, int] | None, word: str
) -> None:
    (tmp_path / "hvd-01").rename(tmp_path / "head")
    furnish(tmp_path / "hvd-01", 11)
    head = Sandbox(tmp_path / "head")
    control = (GuestNic(name="ens192"),)
    install(head, launcher(framework="torchrun", runs_work=False, control_nics=control, elastic=elastic))
    status, told, rest = train(head, "--dry-run", "python")
    assert status == 0, rest
    assert told["MASTER_ADDR"] == "10.111.0.11"
    assert f"{word}10.111.0.11" in rest


def test_workers_whose_address_is_not_known_are_met_by_name(first: Sandbox) -> None:
    install(
        first, launcher(framework="torchrun", workers=tuple(TrainWorker(name=one.name) for one in WORKERS))
    )
    status, told, rest = train(first, "--dry-run", "python")
    assert status == 0, rest
    assert (told["MASTER_ADDR"], told["GLOO_SOCKET_IFNAME"]) == ("hvd-01", "ens224")


def test_a_head_finds_the_management_network_by_its_route(first: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "hvd-01").rename(tmp_path / "head")
    furnish(tmp_path / "hvd-01", 11)
    head = Sandbox(tmp_path / "head")
    # The MAC address is that of the first worker's NIC: nobody else has it.
    install(head, launcher(runs_work=False, nics=(), control_nics=(GuestNic(mac="00:50:56:00:00:0b"),)))
    status, told, rest = train(head, "--check")
    assert status == 0, rest
    assert told["HOROVOD_GLOO_IFACE"] == "ens192"


def test_a_worker_alone_leaves_the_loopback_to_horovod(first: Sandbox) -> None:
    install(first, launcher(workers=WORKERS[:1]))
    status, _, rest = train(first, "--dry-run", "python")
    assert status == 0
    assert "--network-interfaces" not in rest


def test_a_worker_that_does_not_answer_is_named(first: Sandbox, tmp_path: Path) -> None:
    install(first)
    (tmp_path / "hvd-02").rename(tmp_path / "gone")
    status, _, rest = train(first, "python", "train.py")
    assert status == 1
    assert (
        "hvd-02 does not respond over SSH on port 2222: ssh: connect to host hvd-02 port 2222: No route"
    ) in rest
    assert not (first.root / "started").exists()


def test_without_horovod_nothing_starts(first: Sandbox) -> None:
    install(first)
    (first.commands / "horovodrun").unlink()
    status, _, rest = train(first, "python")
    assert (status, "does not contain Horovod" in rest) == (1, True)
    first.stand_in("horovodrun", "echo 'ImportError: libcudart.so.11.0'; exit 1")
    status, _, rest = train(first, "python")
    assert status == 1
    assert "ImportError: libcudart.so.11.0" in rest
    assert "horovodrun --check-build failed" in rest


def test_a_rank_of_mpirun_finds_what_torchrun_would_tell_it(first: Sandbox) -> None:
    """And the caller's PATH, before which mpirun has put its own folder."""
    install(first)
    of_mpi = {
        "VGPU_CFG_RANK_IN": "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_RANK": "5",
        "OMPI_COMM_WORLD_SIZE": "8",
        "OMPI_COMM_WORLD_LOCAL_RANK": "1",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
        "VGPU_CFG_PATH": "/venv/bin:/usr/bin:/bin",
    }
    done = first.command(["sh", rank_of(first), "env"], **of_mpi)
    told = {"RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "NODE_RANK=1", "PATH=/venv/bin:/usr/bin:/bin"}
    assert told <= set(done.stdout.splitlines()), done.stderr
    of_mpi["NODE_RANK"] = "3"
    done = first.command(["sh", rank_of(first), "env"], **of_mpi)
    assert "NODE_RANK=3" in done.stdout.splitlines()
    done = first.command(["sh", rank_of(first), "env"])
    assert "NODE_RANK" not in done.stdout


def test_mpi_needs_a_horovod_that_knows_it(first: Sandbox) -> None:
    install(first)
    first.stand_in("horovodrun", BUILD.replace("[X] MPI", "[ ] MPI"))
    status, _, rest = train(first, "--mpi", "python")
    assert (status, "built without MPI" in rest) == (1, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no command"),
        (["--np"], "--np requires a number"),
        (["--np", "3", "x"], "--np 3 exceeds the 2 slots"),
        (["--np", "0", "x"], "--np must be a number from 1 to 2, not 0"),
        (["--np=1;reboot", "x"], "not 1;reboot"),
        (["--gpus", "x"], "unknown option --gpus"),
        (["--", "-x"], "a command cannot begin with a dash: -x"),
    ],
)
def test_wrong_words_are_answered_with_the_usage(first: Sandbox, words: list[str], said: str) -> None:
    install(first)
    status, _, rest = train(first, *words)
    assert status == 2
    assert said in rest
    assert "usage: train" in rest


@pytest.mark.parametrize("port", ["", "0", "08080", "29500/tcp", "65536", "one"])
def test_a_port_that_is_none_is_refused(first: Sandbox, port: str) -> None:
    install(first)
    status, _, rest = train(first, "python", MASTER_PORT=port)
    assert status == 2
    assert f"MASTER_PORT must be a port from 1 to 65535, not {port}\n" in rest


def test_a_port_is_passed_on(first: Sandbox) -> None:
    install(first, launcher(framework="torchrun"))
    status, _, rest = train(first, "--dry-run", "python", MASTER_PORT="65535")
    assert (status, "--master_port=65535" in rest) == (0, True)


def test_fewer_processes_than_an_elastic_training_waits_for(first: Sandbox) -> None:
    install(first, launcher(framework="torchrun", elastic=(2, 2)))
    status, _, rest = train(first, "--np", "1", "python")
    assert status == 2
    assert "--np 1 uses only 1 of the workers, but elastic training waits for 2" in rest
    status, _, rest = train(first, "--dry-run", "--np", "2", "python")
    assert (status, "--nnodes=2:2" in rest) == (0, True)


@pytest.mark.parametrize(
    "more",
    [
        {"workers": ()},
        {"workers": (TrainWorker(name="a b"),)},
        {"workers": (TrainWorker(name="a=1"),)},
        {"workers": (TrainWorker(name="$(reboot)"),)},
        {"workers": (TrainWorker(name="a\nb"),)},
        {"workers": (TrainWorker(name="a", address="1.2.3.4; reboot"),)},
        {"workers": (TrainWorker(name="a", slots=0),)},
        {"nics": (GuestNic(name="ens; reboot"),)},
        {"port": 70000},
    ],
)
def test_what_its_files_cannot_carry_is_refused(first: Sandbox, more: dict[str, object]) -> None:
    module = launcher(**more)
    with pytest.raises(GuestError):
        first.bring(module, context_for(module, WorkerModule(image=IMAGE)))


@pytest.mark.parametrize("environment", [{"A B": "x"}, {"A=$(reboot)": "x"}, {"A": "x\0y"}])
def test_variables_that_no_shell_can_carry_are_refused(first: Sandbox, environment: dict[str, str]) -> None:
    module = RankModule(environment=environment)
    with pytest.raises(GuestError):
        first.bring(module, context_for(module))


def test_a_rank_takes_the_callers_variables_before_the_plans_and_those_before_the_guests(
    first: Sandbox,
) -> None:
    install(first, rank=RankModule(environment={"NCCL_DEBUG": "INFO", "NCCL_IB_TC": "106"}))
    first.write(
        "/opt/vgpu-cfg/nccl.env", "export NCCL_IB_TC=0\nexport NCCL_IB_HCA='=mlx5_0:1'\nexport OF_ONE=1\n"
    )
    shown = "$NCCL_DEBUG $NCCL_IB_TC $NCCL_IB_HCA $NOTE"
    words = [f"{first.root}/opt/vgpu-cfg/rank", "sh", "-c", f'echo "{shown}"; exit 3']
    done = first.command(words, NCCL_DEBUG="WARN", NOTE="it's $HOME")
    assert (done.returncode, done.stdout) == (3, "WARN 106 =mlx5_0:1 it's $HOME\n")


# ---- the outer one ----

DOCKER = """
case "$*" in
"image inspect "*) [ -e "$VGPU_CFG_ROOT/image" ] ;;
"container inspect "*) [ -e "$VGPU_CFG_ROOT/runs" ] && echo true ;;
exec*) printf '<%s>' "$@" >"$VGPU_CFG_ROOT/executed" ;;
esac
"""


def test_the_command_of_the_guest_goes_into_the_container(first: Sandbox) -> None:
    first.stand_in("docker", DOCKER)
    first.stand_in("id", "echo 0")
    shared = SharedFolderModule(role="client", path=f"{first.root}/srv/it's shared", server="10.0.0.1")
    install(first, launcher(image=IMAGE), shared)
    outer = [f"{first.root}/usr/local/bin/train"]
    done = first.command(outer)
    assert f"the image {IMAGE} is not available: run sudo vgpu-cfg-stage image" in done.stderr
    first.write("/image", "")
    done = first.command(outer)
    assert (
        "the worker container vgpu-cfg-worker is not running: for the reason, run systemctl status"
        in done.stderr
    )
    first.write("/runs", "")
    folder = first.write("/srv/it's shared/code/x", "").parent
    script = f'cd "$1" && exec "{outer[0]}" --np 2 python "a b.py"'
    done = first.command(["sh", "-c", script, "sh", str(folder)], NCCL_DEBUG="INFO", SECRET="no")
    assert done.returncode == 0, done.stderr
    word = first.read("/executed").partition("VGPU_CFG_TRAIN=")[2].partition(">")[0]
    assert first.read("/executed") == (
        f"<exec><--interactive><--env><VGPU_CFG_TRAIN={word}><--workdir><{folder}><--env><NCCL_DEBUG>"
        "<vgpu-cfg-worker></opt/vgpu-cfg/train><--np><2><python><a b.py>"
    )


def test_without_an_image_training_runs_on_the_guest(first: Sandbox) -> None:
    install(first)
    assert first.read("/usr/local/bin/train").endswith('exec /opt/vgpu-cfg/train "$@"\n')


# ---- runs on two workers: each in a folder of its own, reached by an ssh that is stood in ----

LIKE_SSH = """
while [ "$#" -gt 2 ]; do
    shift
done
VGPU_CFG_ROOT=$VGPU_CFG_ROOT/../$1
export VGPU_CFG_ROOT
case $2 in
*" run") exec python3 -c "$(cat "$VGPU_CFG_ROOT/copies")" "$2" ;;
*) exec sh -c "$2" ;;
esac
"""
COPIES = """
import os, select, subprocess, sys, threading
def copy(source, to):
    while data := os.read(source, 65536):
        while data:
            try:
                data = data[os.write(to, data):]
            except BlockingIOError:
                select.select([], [to], [])
for to in (1, 2):
    os.set_blocking(to, False)
open("begun", "w").close()
run = subprocess.Popen(["sh", "-c", sys.argv[1]], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
pipes = (1, run.stdout), (2, run.stderr)
copies = [threading.Thread(target=copy, args=(pipe.fileno(), to)) for to, pipe in pipes]
for one in copies:
    one.start()
for one in copies:
    one.join(60)
sys.exit(run.wait(60))
"""
"""OpenSSH's client makes its output pipes non-blocking, also for other programs that share them."""


@pytest.fixture
def both(first: Sandbox) -> Sandbox:
    """Two workers that `train` is installed on."""
    first.stand_in("ssh", LIKE_SSH)
    install(first, launcher(framework="none"))
    second = first.root.parent / "hvd-02"
    for folder in ("opt", "etc"):
        shutil.copytree(first.root / folder, second / folder)
    (second / "copies").write_text(COPIES)
    return first


def train_of(guest: Sandbox) -> str:
    return f"{guest.root}/opt/vgpu-cfg/train"


@pytest.mark.parametrize("stream", [1, 2])
def test_a_slow_reader_loses_nothing(both: Sandbox, stream: int) -> None:
    lines = 50_000
    os.mkfifo(both.root / "begun")
    process = subprocess.Popen(
        ["/bin/sh", train_of(both), "sh", "-c", f"seq -f @%06.0f {lines} >&{stream}"],
        env={
            "PATH": f"{both.commands}:{SYSTEM_PATH}",
            "HOME": str(both.root),
            "VGPU_CFG_ROOT": str(both.root),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=both.root,
    )
    # Nothing is read before ssh is there, and then little at a time: the pipe is always full.
    (both.root / "begun").read_text()
    with process.stdout as pipe:  # type: ignore[union-attr]  # it is a pipe
        text = b"".join(iter(lambda: os.read(pipe.fileno(), 64), b""))
    assert process.wait(timeout=120) == 0, text[-500:]
    # Two workers write at once, and a line may be cut by another's: bytes are counted, not lines.
    assert text.count(b"@") == 2 * lines


def test_output_that_cannot_be_written_is_no_success(both: Sandbox) -> None:
    done = both.command(["sh", "-c", f"exec sh {train_of(both)} seq 10 >/dev/full"])
    assert done.returncode == 74, done.stderr
    assert "could not be written" in done.stderr


def test_a_second_training_on_the_same_workers_is_refused_by_who_has_them(both: Sandbox) -> None:
    inner = (
        f"env -u VGPU_CFG_JOB -u VGPU_CFG_LOGS sh {train_of(both)} --by none true; echo inner ended with $?"
    )
    status, _, rest = train(both, "--np", "1", "sh", "-c", f": the outer; {inner} >&2", way=ALONE)
    assert status == 0, rest
    assert "training is already running on here: " in rest
    assert ": the outer" in rest.partition("training is already running on here: ")[2].partition("\n")[0]
    assert "inner ended with 75" in rest
    # They are free again.
    assert train(both, "true")[0] == 0


def test_what_runs_is_told_and_stopped(both: Sandbox) -> None:
    assert "no training is running on the 2 workers" in train(both, "--status", way=ALONE)[2]
    assert "no training is running on this machine" in train(both, "--stop", way=ALONE)[2]
    os.mkfifo(both.root / "never")
    alone = f"env -u VGPU_CFG_JOB -u VGPU_CFG_LOGS sh {train_of(both)}"
    waits = f"exec cat {both.root}/never"
    asks = f"{alone} --status >&2; {alone} --stop >&2; {waits}"
    status, _, rest = train(both, "sh", "-c", f"test $NODE_RANK = 0 || {waits}; {asks}", way=ALONE)
    assert status == 143, rest
    assert " on hvd-01 hvd-02: " in rest
    assert "none, 2 ranks: sh -c " in rest


SINCE = "since 2026-11-30 08:00:00 UTC, torchrun, 4 ranks"


def test_a_worker_stops_what_another_has_started_there(both: Sandbox) -> None:
    """Its keeper ends, by which `train` learns of it."""
    node = f"{both.root}/opt/vgpu-cfg/node"
    who = f"anna on hvd-01 {SINCE}: train.py --token x"
    keeper = subprocess.Popen(
        [*ALONE, "/bin/sh", node, "keep", "0-job", "there", "1", who],
        env={"PATH": SYSTEM_PATH, "VGPU_CFG_ROOT": str(both.root)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with keeper:
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == "ready\n"
        inside = Path(f"/proc/{keeper.pid}/task/{keeper.pid}/children").read_text(encoding="ascii").split()
        beside = ("nsenter", "-t", inside[0], "-p", "-m") if ALONE else ()
        # vCenter hears of it once, without its command; then of its end.
        both.stand_in("vmtoolsd", f'printf "%s\\n" "$2" >>{both.root}/guestinfo')
        (both.root / "run").mkdir(exist_ok=True)
        for _ in range(2):
            assert both.command([*beside, "sh", node, "report"]).returncode == 0
        assert f"0-job anna on hvd-01 {SINCE}: " in both.command([*beside, "sh", node, "stop"]).stdout
        assert keeper.stdout.readline() == "left=0 ended=0 forced=0\n"
    assert keeper.returncode == 0
    both.command(["sh", node, "report"])
    told = both.read("/guestinfo").replace("info-set guestinfo.vgpu_cfg.training ", "").splitlines()
    # Others may train on this machine meanwhile.
    assert (told.index(SINCE), told.count(SINCE), told[-1] != SINCE) == (0, 1, True)
    assert parse_training(SINCE) == SINCE


def test_a_training_starts_again_where_it_failed(both: Sandbox) -> None:
    install(both, launcher(framework="none", max_restarts=1))
    once = f"test $NODE_RANK = 1 || ! mkdir {both.root}/once 2>/dev/null || exit 9"
    status, _, rest = train(both, "sh", "-c", once)
    assert status == 0, rest
    assert "it exited with status 9; restarting (1 of 1)" in rest
    assert "File exists" not in rest


@pytest.mark.parametrize("by", ["none", "mpi"])
def test_a_worker_that_is_gone_ends_the_training(both: Sandbox, by: str) -> None:
    """The connection that holds it ends when ssh hears nothing for 45 seconds."""
    both.stand_in("ssh", LIKE_SSH.replace("case $2 in", 'case $2 in *" keep "*) echo ready; exit 255 ;;'))
    os.mkfifo(both.root / "never")
    both.stand_in(
        "mpirun",
        f'case "$*" in --version) echo "mpirun (Open MPI) 4.1.4"; exit ;; esac\ncat {both.root}/never',
    )
    status, _, rest = train(both, "--by", by, "cat", f"{both.root}/never")
    assert status == 255, rest
    assert "hvd-02: the connection ended, and training cannot continue" in rest


@pytest.mark.parametrize(("said", "status"), [("77", 77), ("-9", 137)])
def test_a_failed_rank_ends_with_its_own_status_by_torchrun(both: Sandbox, said: str, status: int) -> None:
    install(both, launcher(framework="torchrun"))
    report = f"Root Cause (first observed failure):\\n  rank      : 1\\n  exitcode  : {said} (pid: 4242)\\n"
    both.stand_in("torchrun", f"echo '  exitcode  : 5 (pid: 1)' >&2\nprintf '{report}' >&2\nexit 1")
    found = train(both, "--np", "1", "python", "x.py")
    assert (found[0], f"exitcode  : {said} (pid: 4242)" in found[2]) == (status, True)
