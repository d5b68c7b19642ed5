"""What is handed over to Slurm is taken as written: its daemons run a job over two hosts made of namespaces.

slurmctld, slurmd, munged and torchrun are the distribution's. slurmd reads two other words of slurm.conf and
one more of cgroup.conf, since a host made of namespaces has no cgroups of its own. The GPU is a device file
without a driver behind it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.proof.hosts import Host, NotPermitted, Port, check_permitted, host, switch
from vgpu_cfg.model.host_list import HostList, ListedHost
from vgpu_cfg.staging.export import FORMATS, ExportOptions
from vgpu_cfg.staging.rendering import render

pytestmark = pytest.mark.long("it starts Slurm's daemons on two hosts")

CPUS = os.cpu_count() or 1
NETWORK = "lan"
ADDRESSES = {"w-01": "192.0.2.11", "w-02": "192.0.2.12"}
CONF = "/etc/slurm"
KNOWN = (
    "MailProg", "state file", "backup state save file", "default partition not set",  # of a first start
    "a different slurm.conf",  # slurmd's two words
    "mpi/pmix",  # without libpmix2
)  # fmt: skip
"""What the daemons complain of that has nothing to do with what was written."""
DEVICES = """
set -e
mount -t tmpfs -o mode=755 tmpfs /dev
mknod -m 666 /dev/null c 1 3; mknod -m 666 /dev/zero c 1 5
mknod -m 666 /dev/random c 1 8; mknod -m 666 /dev/urandom c 1 9
mknod -m 666 /dev/nvidia0 c 195 0
mkdir /dev/shm /dev/pts
mount -t tmpfs tmpfs /dev/shm
rm -rf /var/lib/slurm/slurmctld/* /var/lib/slurm/slurmd/*
"""
TORCHRUN = """#!/usr/bin/python3
from torch.distributed import run
from torch.distributed.elastic.multiprocessing.api import Std
read = Std.from_str
Std.from_str = lambda text: Std.NONE if text == "0" else read(text)
run.main()
"""
"""Debian 12's torchrun 1.13, which under Python 3.11 takes its own default of `--redirects` for None."""
TRAIN = """
import os, socket, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
own = torch.arange(1000, dtype=torch.float64) * (dist.get_rank() + 1)
dist.all_reduce(own)
whole = torch.arange(1000, dtype=torch.float64) * sum(range(1, dist.get_world_size() + 1))
assert torch.equal(own, whole)
print("RESULT", socket.gethostname(), os.environ["STARTED_BY_RANK"], dist.get_world_size(), sys.argv[1:])
"""


MPI = """
import ctypes, os, socket
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
handle = lambda name: ctypes.byref(ctypes.c_char.in_dll(mpi, name))
world = handle("ompi_mpi_comm_world")
mpi.MPI_Init(None, None)
rank, own, total = ctypes.c_int(), ctypes.c_double(1), ctypes.c_double()
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Allreduce(
    ctypes.byref(own), ctypes.byref(total), 1, handle("ompi_mpi_double"), handle("ompi_mpi_op_sum"), world
)
print("RESULT", socket.gethostname(), os.environ["STARTED_BY_RANK"], rank.value, int(total.value), flush=True)
mpi.MPI_Finalize()
"""
PMIX = "/usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so"
"""What Debian's Slurm looks for; only libpmix-dev has it, as a link to what libpmix2 has."""


def plan_of(memory_mib: int) -> str:
    return f"""version: 1
name: slurm-pair
vcenter: lab:two-a100
vms:
- name: w-{{01..02}}
  template: ubuntu-22.04-efi
  cluster: gpu
  cpus: {CPUS}
  memory: {memory_mib}MiB
  gpus: grid_a100-40c
  nics: [{{network: vm-network, ip: "192.0.2.1{{i}}/24"}}]
training: {{workers: w-*, framework: none, environment: {{GLOO_SOCKET_IFNAME: eth0}}}}
"""


def installed_mib() -> int:
    """Return this machine's memory as its maker says: what the guest of a VM with so much sees is less."""
    folder = Path("/sys/devices/system/memory")
    if not (folder / "block_size_bytes").exists():
        pytest.skip("the kernel does not tell the memory that is installed")
    size = int((folder / "block_size_bytes").read_text(encoding="ascii"), 16)
    online = [
        one for one in folder.glob("memory*/state") if one.read_text(encoding="ascii").strip() == "online"
    ]
    return size * len(online) // (1 << 20)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Two hosts with Slurm's daemons, and the folder of what was handed over."""

    hosts: tuple[Host, ...]
    files: Path

    def run(self, *words: str) -> str:
        """Run a command where slurmctld is."""
        done = self.hosts[0].execute(*words, seconds=120)
        assert done.returncode == 0, done.stdout + done.stderr + self.logs()
        return done.stdout

    def logs(self) -> str:
        """Return the ends of the daemons' logs."""
        found = [one.execute("sh", "-c", "tail -n 15 /var/log/slurm*.log").stdout for one in self.hosts]
        return "\n".join(found)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start munged and Slurm's daemons with the files that were handed over."""
    for tool in ("slurmctld", "slurmd", "munged"):
        if shutil.which(tool) is None and not Path("/usr/sbin", tool).exists():
            pytest.skip(f"{tool} is not on this machine: apt-get install slurmctld slurmd slurm-client munge")
    try:
        check_permitted()
    except NotPermitted as reason:
        pytest.skip(f"no two hosts can be made of namespaces here: {reason}")
    folder = tmp_path_factory.mktemp("slurm")
    plan = folder / "plan.yaml"
    plan.write_text(plan_of(installed_mib()), encoding="utf-8")
    words = ("hand-over", str(plan), "--format", "slurm", "--to", str(folder))
    subprocess.run(
        [sys.executable, "-m", "vgpu_cfg", *words], check=True, capture_output=True, timeout=120, cwd=folder
    )
    with ExitStack() as leaving:
        between = leaving.enter_context(switch([NETWORK]))
        ports = [Port(NETWORK, f"02:00:00:00:00:0{n}", f"{ip}/24") for n, ip in enumerate(ADDRESSES.values())]
        hosts = tuple(
            leaving.enter_context(host(name, [ports[n]], between, [NETWORK], 70 + n))
            for n, name in enumerate(ADDRESSES)
        )
        for number, one in enumerate(hosts):
            _start(one, folder, is_controller=number == 0)
        made = Cluster(hosts, folder)
        _wait_for_nodes(made)
        yield made


def _start(one: Host, folder: Path, *, is_controller: bool) -> None:
    done = one.execute("sh", "-c", DEVICES)
    assert done.returncode == 0, done.stderr
    one.write(
        "/etc/hosts", "127.0.0.1 localhost\n" + "".join(f"{ip} {name}\n" for name, ip in ADDRESSES.items())
    )
    one.write("/etc/resolv.conf", "")  # nobody answers there: names that are unknown are so at once
    one.write("/opt/vgpu-cfg/rank", render("train/rank.sh.j2"), 0o755)
    one.write("/opt/vgpu-cfg/nccl.env", f"export STARTED_BY_RANK={one.name}\n")
    for file in folder.glob("*.conf"):
        one.write(f"{CONF}/{file.name}", file.read_text(encoding="utf-8"))
    own = (folder / "slurm.conf").read_text(encoding="utf-8")
    own = re.sub("ProctrackType=.*", "ProctrackType=proctrack/linuxproc", own)
    own = re.sub("TaskPlugin=.*", "TaskPlugin=task/none", own)
    one.write(f"{CONF}/slurmd.conf", own)
    limits = (folder / "cgroup.conf").read_text(encoding="utf-8")
    one.write(f"{CONF}/cgroup.conf", f"{limits}CgroupPlugin=cgroup/v1\n")
    if Path(f"{PMIX}.2").exists():
        one.execute("ln", "-sf", "libpmix.so.2", PMIX)
    one.write("/etc/munge/munge.key", "k" * 128, 0o400)
    done = one.execute(
        "sh", "-c", "mkdir -p /run/munge; chown munge: /etc/munge/munge.key /run/munge; chmod 755 /run/munge"
    )
    assert done.returncode == 0, done.stderr
    one.start("setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged", "--foreground")
    if is_controller:
        one.start("slurmctld", "-D", "-c", "-L", "/var/log/slurmctld.log")
    one.start("slurmd", "-D", "-f", f"{CONF}/slurmd.conf", "-L", "/var/log/slurmd.log")


WAIT = """
tries=300
until [ "$(sinfo --noheader --Node --format='%N %T' 2>&1 | tr '\\n' ' ')" = 'w-01 idle w-02 idle ' ]; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || exit 1
    sleep 0.3
done
"""


def _wait_for_nodes(cluster: Cluster) -> None:
    done = cluster.hosts[0].execute("sh", "-c", WAIT)
    assert done.returncode == 0, f"the nodes do not become idle\n{cluster.logs()}"


def test_no_daemon_finds_fault_with_what_was_written(cluster: Cluster) -> None:
    faults = [line for line in cluster.logs().splitlines() if "error" in line.lower()]
    assert [line for line in faults if not any(word in line for word in KNOWN)] == []


def test_slurm_reads_the_nodes_as_the_plan_has_them(cluster: Cluster) -> None:
    shown = cluster.run("scontrol", "show", "node", "w-02")
    assert f"CPUTot={CPUS}" in shown
    assert "Gres=gpu:a100-40c:1" in shown
    assert "NodeAddr=192.0.2.12" in shown
    memory = re.search(r"RealMemory=(\d+)", shown)
    assert memory is not None
    seen = re.search(r"RealMemory=(\d+)", cluster.hosts[1].execute("slurmd", "-C").stdout)
    assert seen is not None
    assert 0.5 * int(seen[1]) < int(memory[1]) <= int(seen[1]), "slurmd -C sees at least what was handed over"
    assert "Nodes=w-01,w-02" in cluster.run("scontrol", "show", "topology")


def test_srun_starts_on_both_hosts_with_a_gpu_each_and_memory(cluster: Cluster) -> None:
    ran = cluster.run(
        "srun", "--partition=slurm-pair", "--nodes=2", "--ntasks=2", "--gres=gpu:a100-40c:1", "--mem=1G",
        "sh", "-c", 'echo "$(hostname) $CUDA_VISIBLE_DEVICES"',
    )  # fmt: skip
    assert sorted(ran.splitlines()) == ["w-01 0", "w-02 0"]


def test_more_than_there_is_is_refused(cluster: Cluster) -> None:
    for words in (["--gres=gpu:2"], ["--gres=gpu:h100:1"], ["--mem=4T"]):
        refused = cluster.hosts[0].execute("srun", "--partition=slurm-pair", *words, "true")
        assert refused.returncode != 0
        assert "not available" in refused.stderr + refused.stdout or "Invalid" in refused.stderr


def test_the_job_that_was_handed_over_trains_on_both_hosts(cluster: Cluster) -> None:
    if not Path("/usr/bin/torchrun").exists():
        pytest.skip("torchrun is not on this machine: apt-get install python3-torch")
    for one in cluster.hosts:
        one.write("/srv/train.py", TRAIN)
        one.write("/usr/local/bin/torchrun", TORCHRUN, 0o755)
    cluster.hosts[0].write("/srv/train.sbatch", (cluster.files / "train.sbatch").read_text(encoding="utf-8"))
    # Every machine has the file: no folder is shared, and the output is the first one's.
    cluster.run("sh", "-c", "cd /srv && sbatch --wait train.sbatch train.py --epochs 5 || cat *.out >&2")
    told = cluster.run("sh", "-c", "cat /srv/slurm-pair-*.out")
    results = sorted(line for line in told.splitlines() if line.startswith("RESULT"))
    expected = [f"RESULT {name} {name} 2 ['--epochs', '5']" for name in ADDRESSES]
    assert results == expected, told


def test_ranks_that_srun_starts_itself_find_each_other_by_mpi(cluster: Cluster) -> None:
    if not (Path(f"{PMIX}.2").exists() and shutil.which("mpirun")):
        pytest.skip("Open MPI and PMIx are not on this machine: apt-get install openmpi-bin")
    workers = tuple(ListedHost(vm=name, host_name=name, slots=1) for name in ADDRESSES)
    written = FORMATS["slurm"].write(
        HostList(plan="slurm-pair", workers=workers, framework="mpi"), ExportOptions()
    )
    for one in cluster.hosts:
        one.write("/srv/ranks.py", MPI)
    cluster.hosts[0].write("/srv/mpi.sbatch", written.files["train.sbatch"])
    cluster.run(
        "sh", "-c", "cd /srv && sbatch --wait --output mpi.out mpi.sbatch ranks.py || cat mpi.out >&2"
    )
    told = cluster.run("cat", "/srv/mpi.out")
    results = sorted(line for line in told.splitlines() if line.startswith("RESULT"))
    assert results == ["RESULT w-01 w-01 0 2", "RESULT w-02 w-02 1 2"], told
