"""What the example's plan puts into guests works: on two hosts, with real ssh and a real Horovod.

The files are those that a clone of the plan carries, unchanged, staged by a real cloud-init.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.proof.guests import MESH_PORT, Guests, changed
from vgpu_cfg.model.guests.training_modules import LauncherModule, MeshPeer, SshMeshModule, TrainWorker

pytestmark = pytest.mark.timeout(1200)  # guests boot, and several programs import TensorFlow at once

STRICT = ("-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes")
PAIRS = [("hvd-01", "hvd-02"), ("hvd-02", "hvd-01")]

ALLREDUCE = """
import json
import numpy, tensorflow, horovod.tensorflow as hvd
hvd.init()
own = numpy.arange(1_000_003, dtype=numpy.float64) * (hvd.rank() + 1)
found = hvd.allreduce(tensorflow.constant(own), op=hvd.Sum).numpy()
whole = numpy.arange(1_000_003, dtype=numpy.float64) * sum(range(1, hvd.size() + 1))
assert (found == whole).all(), "the sum is not exact"
names = hvd.allgather_object(__import__("socket").gethostname())
if hvd.rank() == 0:
    print("RESULT", json.dumps({"size": hvd.size(), "hosts": names, "local": hvd.local_size()}), flush=True)
"""


def test_cloud_init_makes_the_guests_what_the_plan_says(guests: Guests) -> None:
    for host in guests.hosts:
        assert host.execute("hostname").stdout.strip() == host.name
        assert host.execute("cat", "/etc/hostname").stdout.strip() == host.name
        ran = json.loads(host.read("/run/cloud-init/result.json"))["v1"]
        assert "NoCloud" in ran["datasource"]
        assert [line for line in ran["errors"] if not guests.is_known(line)] == []
        warned = [line for line in host.read("/var/log/cloud-init.log").splitlines() if "WARNING" in line]
        assert [line for line in warned if not guests.is_known(line)] == []
        shown = host.execute("id", "-un", "vgpu-cfg")
        assert shown.stdout.strip() == "vgpu-cfg"


def test_each_guest_makes_its_own_host_key_and_tells_it(guests: Guests) -> None:
    for host in guests.hosts:
        shown = host.read("/etc/ssh/ssh_host_ed25519_key.pub").split()[:2]
        assert " ".join(shown) == guests.host_keys[host.name]
        # The mesh's sshd shows the same.
        assert host.read("/etc/vgpu-cfg/mesh/host_key") == host.read("/etc/ssh/ssh_host_ed25519_key")
    assert len({*guests.host_keys.values()}) == len(guests.hosts)


def test_no_secret_is_left_where_others_can_read_it(guests: Guests) -> None:
    for host in guests.hosts:
        private = guests.keys.mesh_key().private.splitlines()[4]
        places = (
            "/etc",
            "/opt",
            "/usr/local",
            "/var/lib/cloud",
            "/var/lib/vgpu-cfg",
            "/var/log",
            "/root/.ssh",
        )
        found = host.execute("grep", "-rlF", private, *places)
        assert found.stdout.split() == ["/etc/vgpu-cfg/mesh/id"]
        assert host.execute("stat", "-c", "%a %U", "/etc/vgpu-cfg/mesh/id").stdout.split() == ["600", "root"]
        held = host.execute("find", "/var/lib/vgpu-cfg/secrets", "-type", "f", "-name", "mesh*").stdout
        assert held == ""


@pytest.mark.parametrize(("here", "there"), PAIRS)
def test_ssh_is_strict_and_works_both_ways(guests: Guests, here: str, there: str) -> None:
    done = guests[here].execute(*guests.ssh(there), "hostname")
    assert (done.returncode, done.stdout.strip()) == (0, there), done.stderr


@pytest.mark.parametrize(("here", "there"), PAIRS)
def test_ssh_fails_with_a_wrong_host_key(guests: Guests, here: str, there: str) -> None:
    # A stranger at the other's place: everything is right there but its host key.
    with guests.stranger_at(there):
        done = guests[here].execute(*guests.ssh(there), "hostname")
    assert done.returncode == 255
    assert "Host key verification failed" in done.stderr
    assert guests[here].execute(*guests.ssh(there), "hostname").returncode == 0


def test_ssh_fails_without_the_plans_key(guests: Guests) -> None:
    done = guests["hvd-01"].execute(
        "ssh",
        "-F",
        "none",
        *STRICT,
        "-o",
        "UserKnownHostsFile=/etc/vgpu-cfg/mesh/known_hosts",
        "-p",
        str(MESH_PORT),
        "root@hvd-02",
        "true",
    )
    assert done.returncode == 255
    assert "Permission denied" in done.stderr


@pytest.mark.parametrize("start_on", ["hvd-01"])
def test_horovod_trains_on_both_hosts(guests: Guests, horovod: Path, start_on: str) -> None:
    done = guests.train(start_on, horovod, ALLREDUCE)
    assert done.returncode == 0, done.stdout + done.stderr
    result = guests.result_of(done.stdout)
    assert result["size"] == 2
    assert sorted(result["hosts"]) == ["hvd-01", "hvd-02"]


def test_horovod_takes_uneven_slots_and_starts_no_more_than_asked_for(guests: Guests, horovod: Path) -> None:
    # Horovod 0.28 alone starts a process in every slot of a host file, whatever -np says.
    spec = guests.specs["hvd-01"]
    launcher = spec.module("launcher")
    assert isinstance(launcher, LauncherModule)
    workers = [TrainWorker(name="hvd-01", slots=2), TrainWorker(name="hvd-02", slots=1)]
    uneven = changed(spec, launcher.model_copy(update={"workers": tuple(workers)}))
    guests.restage("hvd-01", uneven, "launcher")
    assert guests["hvd-01"].read("/opt/vgpu-cfg/hostfile") == "hvd-01 slots=2\nhvd-02 slots=1\n"
    done = guests.train("hvd-01", horovod, ALLREDUCE, "--np", "2")
    guests.restage("hvd-01", spec, "launcher")
    assert done.returncode == 0, done.stdout + done.stderr
    assert guests.result_of(done.stdout)["hosts"] == ["hvd-01", "hvd-01"]


def test_a_worker_that_is_added_is_known_to_the_others_and_restarts_nothing(guests: Guests) -> None:
    third = MeshPeer(vm="hvd-03", names=("hvd-03",), addresses=("10.111.0.13",))
    for host in guests.hosts:
        spec = guests.specs[host.name]
        mesh = spec.module("ssh-mesh")
        assert isinstance(mesh, SshMeshModule)
        before = host.execute("pgrep", "-f", "/etc/vgpu-cfg/mesh/sshd_config").stdout
        guests.host_keys["hvd-03"] = " ".join(guests.keys.host_key("a third").public.split()[:2])
        grown = changed(spec, mesh.model_copy(update={"peers": (*mesh.peers, third)}))
        guests.restage(host.name, grown, "ssh-mesh")
        known = host.execute(
            "ssh-keygen", "-F", f"[hvd-03]:{MESH_PORT}", "-f", "/etc/vgpu-cfg/mesh/known_hosts"
        )
        assert guests.host_keys["hvd-03"] in known.stdout
        assert host.execute("pgrep", "-f", "/etc/vgpu-cfg/mesh/sshd_config").stdout == before != ""
    for here, there in PAIRS:
        assert guests[here].execute(*guests.ssh(there), "true").returncode == 0


def test_a_failure_on_one_rank_fails_the_run(guests: Guests, horovod: Path) -> None:
    broken = ALLREDUCE + "\nassert hvd.rank() == 0, 'this rank is broken'\n"
    done = guests.train("hvd-01", horovod, broken)
    assert done.returncode != 0
    assert "this rank is broken" in done.stdout + done.stderr


def test_training_does_not_start_where_a_worker_does_not_answer(guests: Guests, horovod: Path) -> None:
    with guests.unplugged("hvd-02"):
        done = guests.train("hvd-01", horovod, ALLREDUCE)
    assert done.returncode == 1
    assert "hvd-02 does not respond over SSH" in done.stderr


def test_training_does_not_start_with_a_wrong_host_key(guests: Guests, horovod: Path) -> None:
    # horovodrun alone would go on: it turns the check of host keys off.
    with guests.stranger_at("hvd-02"):
        done = guests.train("hvd-01", horovod, ALLREDUCE)
    assert done.returncode == 1
    assert "Host key verification failed" in done.stderr
