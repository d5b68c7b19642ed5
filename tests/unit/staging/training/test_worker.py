"""The worker's container: systemd verifies its unit, a shell and docker's own client read its words."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.unit.staging.training.sandbox import Sandbox, context_for
from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.modules import LimitsModule, SharedFolderModule
from vgpu_cfg.model.guests.training_modules import WorkerModule
from vgpu_cfg.staging.modules.shared_folder import unit_name

IMAGE = "nvcr.io/nvidia/tensorflow:21.07-tf1-py3"
UNIT = "/etc/systemd/system/vgpu-cfg-worker.service"
RUN = "/opt/vgpu-cfg/containers/vgpu-cfg-worker"
NOTE = 'printf "<%s>" "$@" >>"$VGPU_CFG_ROOT/words"; echo >>"$VGPU_CFG_ROOT/words"'


def worker(**more: object) -> WorkerModule:
    return WorkerModule.model_validate({"image": IMAGE, "rdma": True, **more})


def started(guest: Sandbox, module: WorkerModule, *others: SharedFolderModule | LimitsModule) -> str:
    """Stage the worker and run what its unit runs; return the words of the runtime, each in <>."""
    guest.stand_in("systemctl")
    guest.stand_in("docker", NOTE)
    guest.stand_in("nerdctl", NOTE)
    guest.stand_in("apptainer", NOTE)
    assert guest.apply(module, context_for(module, *others)) == 0, guest.output
    done = guest.command([f"{guest.root}{RUN}", "run"])
    assert done.returncode == 0, done.stderr
    return guest.read("/words")


def verify(guest: Sandbox, unit: str) -> str:
    """Return what systemd has to say of a unit, once what it starts is there."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here: apt-get install systemd")
    text = guest.read(unit).replace("/opt/vgpu-cfg/", f"{guest.root}/opt/vgpu-cfg/")
    # docker.service need not be on this machine.
    for service in ("docker.service", "containerd.service"):
        text = text.replace(f" {service}", "").replace(f"Requires={service}\n", "")
    place = guest.write(f"/verify/{unit.rsplit('/', 1)[1]}", text)
    done = guest.command(["systemd-analyze", "verify", str(place)])
    return done.stderr if done.returncode or done.stderr else ""


def test_the_container_has_what_horovod_wants(guest: Sandbox) -> None:
    words = started(guest, worker(mounts=("/data:/data", "/a b/it's $(x):/c")))
    for wanted in (
        "<run><--rm><--name><vgpu-cfg-worker><--gpus><all><--network=host><--ipc=host>",
        "<--ulimit><memlock=-1><--ulimit><stack=67108864>",
        "<--volume></etc/vgpu-cfg/mesh:/etc/vgpu-cfg/mesh:ro>",
        "<--volume></opt/vgpu-cfg:/opt/vgpu-cfg:ro><--volume></etc/hosts:/etc/hosts:ro>",
        "<--volume></data:/data><--volume></a b/it's $(x):/c>",
        f"<--entrypoint></bin/sh><{IMAGE}></opt/vgpu-cfg/worker-start>",
    ):
        assert wanted in words
    script = guest.read(RUN)
    assert '"$@" --cap-add=IPC_LOCK --device=/dev/infiniband' in script
    assert words.endswith("></opt/vgpu-cfg/worker-start>\n")


def test_dockers_own_client_takes_every_word(guest: Sandbox) -> None:
    docker = shutil.which("docker")
    if docker is None:
        pytest.skip("docker's client is not here: apt-get install docker.io, or docker-cli")
    words = started(guest, worker(mounts=("/data:/data",))).strip()
    listed = words.removeprefix("<").removesuffix(">").split("><")
    # No daemon is asked: the client reads its words before it looks for one.
    environment = {
        "DOCKER_HOST": "unix:///nowhere/docker.sock",
        "PATH": "/usr/bin:/bin",
        "HOME": str(guest.root),
    }
    more = ["--cap-add=IPC_LOCK", "--device=/dev/infiniband"]

    def said(*inserted: str) -> str:
        line = [docker, *listed[:1], *inserted, *listed[1:]]
        return subprocess.run(
            line, env=environment, capture_output=True, text=True, check=False, timeout=120
        ).stderr.lower()

    answers = ("cannot connect", "failed to connect", "unknown server os")
    assert any(answer in said(*more) for answer in answers)
    assert "unknown flag" in said("--gpu-of-mine")
    assert "invalid" in said("--ulimit", "memlock=much")


def test_without_gpus_and_rdma_nothing_of_them_is_asked_for(guest: Sandbox) -> None:
    words = started(guest, worker(gpus=False, rdma=False))
    assert "--gpus" not in words
    assert "infiniband" not in guest.read(RUN)
    assert "/dev/nvidia" not in guest.read(RUN)


def test_shared_memory_of_its_own_size(guest: Sandbox) -> None:
    assert "<--shm-size><64g>" in started(guest, worker(shared_memory="64GiB"))


def test_shared_memory_that_the_guest_has_is_the_guests(guest: Sandbox) -> None:
    limits = LimitsModule(shared_memory="64GiB")
    assert "<--ipc=host>" in started(guest, worker(shared_memory="64GiB"), limits)


def test_the_shared_folder_is_mounted_at_its_place(guest: Sandbox) -> None:
    shared = SharedFolderModule(role="client", server="10.0.0.1")
    assert "<--volume></srv/training:/srv/training>" in started(guest, worker(), shared)


@pytest.mark.parametrize("runtime", ["containerd", "apptainer"])
def test_other_runtimes_have_their_own_words(guest: Sandbox, runtime: str) -> None:
    words = started(guest, worker(runtime=runtime, mounts=("/data:/data",)))
    if runtime == "containerd":
        assert words.startswith("<run><--rm><--name><vgpu-cfg-worker><--gpus><all>")
    else:
        assert words.startswith("<exec><--writable-tmpfs><--no-home><--nv><--bind></etc/vgpu-cfg/mesh:")
        assert words.endswith(".sif></bin/sh></opt/vgpu-cfg/worker-start>\n")
        assert "<--bind></dev/infiniband:/dev/infiniband>" in words
    assert verify(guest, UNIT) == ""


@pytest.mark.parametrize("word", ["remove", "stop", "reload"])
def test_what_systemd_asks_of_it(guest: Sandbox, word: str) -> None:
    started(guest, worker())
    guest.forget_calls()
    assert guest.command([f"{guest.root}{RUN}", word]).returncode == 0
    expected = {
        "remove": "docker rm --force vgpu-cfg-worker",
        "stop": "docker stop --time 20 vgpu-cfg-worker",
        "reload": "docker kill --signal HUP vgpu-cfg-worker",
    }
    assert guest.calls == [expected[word]]


@pytest.mark.parametrize(("answer", "lives", "status"), [("echo true", True, 0), ("exit 1", False, 1)])
def test_it_is_started_once_the_container_runs(guest: Sandbox, answer: str, lives: bool, status: int) -> None:
    started(guest, worker())
    guest.stand_in("docker", answer)
    script = "exec sh $VGPU_CFG_ROOT" + RUN + " ready"
    words = ["sh", "-c", f"MAINPID=$$; export MAINPID; {script}"] if lives else ["sh", "-c", script]
    done = guest.command(words, **({} if lives else {"MAINPID": "999999999"}))
    assert done.returncode == status
    assert ("the container is not running" in done.stderr) == bool(status)


def test_a_container_that_comes_late_is_waited_for(guest: Sandbox) -> None:
    started(guest, worker())
    guest.stand_in(
        "sleep", '[ "$(grep -c ^sleep "$VGPU_CFG_ROOT/calls")" -lt 3 ] || : >"$VGPU_CFG_ROOT/runs"'
    )
    guest.stand_in("docker", '[ ! -e "$VGPU_CFG_ROOT/runs" ] || echo true')
    words = ["sh", "-c", f"MAINPID=$$; export MAINPID; sh $VGPU_CFG_ROOT{RUN} ready"]
    assert guest.command(words).returncode == 0
    assert guest.calls.count("sleep 1") == 3


def test_systemd_takes_the_unit_and_finds_a_fault_in_it(guest: Sandbox) -> None:
    started(guest, worker())
    text = guest.read(UNIT)
    assert "Requires=docker.service\n" in text
    assert f"ExecStartPre=-{RUN} remove\n" in text
    assert "Restart=on-failure\n" in text
    assert verify(guest, UNIT) == ""
    guest.write(UNIT, text.replace("RestartSec=10", "RestartSec=soon"))
    assert "soon" in verify(guest, UNIT)
    guest.write(UNIT, text.replace(f"ExecStart={RUN} run", "ExecStart=docker-of-mine run"))
    assert "docker-of-mine" in verify(guest, UNIT)


def test_what_changed_starts_it_anew_and_nothing_else_does(guest: Sandbox) -> None:
    module = worker()
    started(guest, module)
    assert "systemctl restart vgpu-cfg-worker.service" in guest.calls
    assert guest.run("worker", "check") == 0
    guest.forget_calls()
    assert guest.run("worker", "apply") == 0
    assert not [call for call in guest.calls if "restart" in call or " start " in call]
    # A port of its own stands in the unit's words, though the container has the host's network.
    changed = worker(port=2223)
    guest.bring(changed, context_for(changed))
    assert guest.run("worker", "check") != 0
    assert guest.run("worker", "apply") == 0
    assert "systemctl restart vgpu-cfg-worker.service" in guest.calls


def test_a_container_that_does_not_start_is_told(guest: Sandbox) -> None:
    guest.stand_in("systemctl", '[ "$1" != restart ]')
    assert guest.apply(worker(), context_for(worker())) == 1
    assert guest.why == "the worker container does not start: journalctl -u vgpu-cfg-worker says why"
    assert guest.run("worker", "check") != 0


def test_the_first_process_gives_logins_the_environment_of_the_image(guest: Sandbox) -> None:
    started(guest, worker())
    text = guest.read("/opt/vgpu-cfg/worker-start")
    for path in ("/run/sshd", "/root/", "/etc/vgpu-cfg"):
        text = text.replace(path, f"{guest.root}{path}")
    script = guest.write("/worker-start", text, 0o755)
    guest.write("/etc/vgpu-cfg/mesh/ssh_config", "Host hvd-02\n")
    guest.stand_in("sshd")
    done = guest.command(
        ["sh", str(script)], LD_LIBRARY_PATH="/usr/local/cuda/lib64", NOTE="two\nlines", TERM="x"
    )
    assert done.returncode == 0, done.stderr
    assert guest.calls[-1] == f"sshd -D -e -f {guest.root}/etc/vgpu-cfg/mesh/sshd_config"
    lines = guest.read("/root/.ssh/environment").splitlines()
    assert "LD_LIBRARY_PATH=/usr/local/cuda/lib64" in lines
    assert any(line.startswith("PATH=") for line in lines)
    assert not any(line.startswith(("TERM=", "HOME=", "PWD=")) for line in lines)
    assert guest.mode("/root/.ssh/environment") == "600"
    assert guest.read("/root/.ssh/config") == "Host hvd-02\n"


@pytest.mark.parametrize(
    "mounts",
    [
        ("data:/data",),
        ("/data:data",),
        ("/a\nb:/c",),
        ("/a,b:/c",),
        ("/a:/b:rw",),
        ("/x:/etc/vgpu-cfg/mesh",),
        ("/x:/opt/vgpu-cfg/",),
        ("/x:/",),
        ("/x/../y:/z",),
        ("-v:/x",),
    ],
)
def test_a_mount_that_cannot_be_is_refused(guest: Sandbox, mounts: tuple[str, ...]) -> None:
    with pytest.raises(GuestError):
        guest.bring(worker(mounts=mounts), context_for(worker(mounts=mounts)))


@pytest.mark.parametrize(
    "more", [{"image": "-x"}, {"image": "a b"}, {"shared_memory": "much"}, {"shared_memory": "-1"}]
)
def test_a_worker_that_cannot_be_is_refused(guest: Sandbox, more: dict[str, object]) -> None:
    with pytest.raises(GuestError):
        guest.bring(worker(**more), context_for(worker(**more)))


# ---- the shared folder ----


def shared(**more: object) -> SharedFolderModule:
    base = {"role": "server", "clients": ("10.111.0.11", "10.111.0.12")}
    return SharedFolderModule.model_validate({**base, **more})


def test_the_head_exports_to_its_workers_alone(guest: Sandbox) -> None:
    guest.stand_in("systemctl")
    guest.stand_in("exportfs")
    module = shared()
    guest.bring(module, context_for(module))
    assert guest.run("shared-folder", "check") != 0
    assert guest.run("shared-folder", "apply") == 0, guest.output
    options = "rw,sync,no_subtree_check,no_root_squash"
    assert guest.read("/etc/exports.d/vgpu-cfg.exports") == (
        f"/srv/training 10.111.0.11({options}) 10.111.0.12({options})\n"
    )
    assert (guest.root / "srv/training").is_dir()
    assert guest.calls[-1] == "exportfs -ra"
    assert guest.run("shared-folder", "check") == 0


def test_exportfs_reads_the_line_and_finds_a_fault_in_it(guest: Sandbox) -> None:
    """exportfs with a table of its own, in a namespace where nothing is exported."""
    exportfs = shutil.which("exportfs", path="/usr/sbin:/sbin")
    unshare = shutil.which("unshare")
    if exportfs is None or unshare is None:
        pytest.skip("exportfs is not here: apt-get install nfs-kernel-server")
    guest.stand_in("systemctl")
    guest.stand_in("exportfs")
    module = shared(path="/tmp", clients=("10.111.0.11", "fd00::/64"))
    assert guest.apply(module, context_for(module)) == 0
    line = guest.write("/line", guest.read("/etc/exports.d/vgpu-cfg.exports"))

    def said(path: str) -> str:
        script = (
            f"mount -t tmpfs none /var/lib/nfs && touch /var/lib/nfs/etab && "
            f"mount --bind {path} /etc/exports && "
            f"{exportfs} -ra; {exportfs} -s"
        )
        words = [unshare, "--mount", "--net", "sh", "-c", script]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        if "Operation not permitted" in done.stderr or "failed: " in done.stderr:
            pytest.skip(f"no namespace can be made here: {done.stderr.strip()}")
        return done.stdout + done.stderr

    listed = said(str(line))
    assert "/tmp" in listed
    assert "10.111.0.11" in listed
    assert "no_root_squash" in listed
    line.write_text(line.read_text().replace("no_subtree_check", "no_subtree_czech"))
    assert "no_subtree_czech" in said(str(line))


def test_a_worker_mounts_it_at_its_first_use(guest: Sandbox) -> None:
    guest.stand_in("systemctl")
    guest.stand_in("mount.nfs4")
    module = shared(role="client", path="/srv/our-data", server="head.example.com", clients=())
    assert guest.apply(module, context_for(module)) == 0, guest.output
    unit = r"srv-our\x2ddata"
    mount = guest.read(f"/etc/systemd/system/{unit}.mount")
    assert "What=head.example.com:/srv/our-data\nWhere=/srv/our-data\nType=nfs\n" in mount
    assert rf"systemctl restart {unit}.automount" in guest.calls
    assert guest.run("shared-folder", "check") == 0
    for kind in ("mount", "automount"):
        assert verify(guest, f"/etc/systemd/system/{unit}.{kind}") == ""
    guest.write(f"/etc/systemd/system/{unit}.mount", mount.replace("Where=/srv", "Where=/srv/other"))
    assert "Where= setting doesn't match unit name" in verify(guest, f"/etc/systemd/system/{unit}.mount")


@pytest.mark.parametrize("path", ["/srv/training", "/srv/our-data", "/data_1/x.y", "/.hidden/a@b+c"])
def test_units_are_named_as_systemd_names_them(path: str) -> None:
    escape = shutil.which("systemd-escape")
    if escape is None:
        pytest.skip("systemd-escape is not here: apt-get install systemd")
    done = subprocess.run([escape, "--path", path], capture_output=True, text=True, check=True, timeout=120)
    assert unit_name(path) == done.stdout.strip()


@pytest.mark.parametrize(
    "more",
    [
        {"path": "srv"},
        {"path": "/a b"},
        {"path": "/a\n/ *(rw)"},
        {"path": "/$(x)"},
        {"path": "/a%h"},
        {"path": "/"},
        {"path": "/a/../b"},
        {"clients": ()},
        {"clients": ("*",)},
        {"clients": ("10.0.0.0/8(rw) *",)},
        {"role": "client", "server": "-o x"},
        {"role": "client", "server": ""},
    ],
)
def test_a_share_that_cannot_be_is_refused(guest: Sandbox, more: dict[str, object]) -> None:
    with pytest.raises(GuestError):
        guest.bring(shared(**more), context_for(shared(**more)))
