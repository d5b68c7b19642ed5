"""The formats of other tools: each is read again by what reads it, with odd names and with many hosts."""

from __future__ import annotations

import base64
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from vgpu_cfg.documents import parse_text
from vgpu_cfg.errors import DoesNotFit
from vgpu_cfg.model.host_list import HostList, ListedHost, ListedHostGpu
from vgpu_cfg.staging.export import FORMATS, Exported, ExportOptions
from vgpu_cfg.staging.export.slurm import enroot_image

GPU = ListedHostGpu(profile="grid_a100-40c", board="A100", memory_mib=40960)
SMALL = ListedHostGpu(profile="grid_a100-10c", board="A100", memory_mib=10240)
ODD = "it's a $(touch owned) `VM` %n -x"
ODD_KEY = "~/my keys/it's $(id)"
MARKED = ("slurm", "torchrun", "kubernetes", "ansible", "skypilot", "dstack")
"""Formats whose files have comments."""


def host(number: int, **more: Any) -> ListedHost:
    stated = {
        "vm": f"hvd-{number:02}",
        "host_name": f"hvd-{number:02}",
        "address": f"192.0.2.{number}",
        "training_address": f"10.111.0.{10 + number}",
        "slots": 1,
        "gpus": (GPU,),
        "cpus": 16,
        "user": "vgpu-cfg",
        **more,
    }
    return ListedHost.model_validate(stated)


PAIR = HostList(plan="horovod-a100", workers=(host(1), host(2)), mesh_port=2222)
HEAD = host(9, vm="head", host_name="head", slots=0, gpus=(), user="ubuntu", key_file="/etc/id")
WITH_HEAD = PAIR.model_copy(update={"head": HEAD})
UNEVEN = HostList(
    plan="7.odd_Plan", workers=(host(1, slots=3, gpus=(GPU, SMALL, GPU)), host(2, slots=4, gpus=(GPU,) * 4))
)
STRANGE = HostList(plan="p", workers=(host(1, vm=ODD, host_name="odd", key_file=ODD_KEY),))


def written(name: str, hosts: HostList = PAIR, **options: Any) -> Exported:
    return FORMATS[name].write(hosts, ExportOptions(**options))


def only(exported: Exported) -> str:
    (text,) = exported.files.values()
    return text


def yaml_of(text: str) -> dict[str, Any]:
    return parse_text(text, "written.yaml").data


@pytest.mark.parametrize("name", ["horovod", "mpi"])
def test_a_host_file_has_a_name_and_its_slots_on_each_line_and_nothing_else(name: str) -> None:
    assert only(written(name)) == "hvd-01 slots=1\nhvd-02 slots=1\n"
    assert only(written(name, UNEVEN)) == "hvd-01 slots=3\nhvd-02 slots=4\n"
    assert only(written(name, WITH_HEAD)) == only(written(name)), "a head runs no work"


def test_the_launcher_is_told_the_port_of_the_containers_where_there_are_any() -> None:
    assert written("horovod").notes == (
        "use it with: horovodrun -np 2 --hostfile hostfile -p 2222 python train.py",
    )
    assert "-p " not in written("horovod", UNEVEN).notes[0]
    assert "-np 7" in written("mpi", UNEVEN).notes[0]


def test_torchrun_meets_at_the_first_worker_and_each_has_its_rank() -> None:
    files = written("torchrun").files
    assert list(files) == ["torchrun-hvd-01.sh", "torchrun-hvd-02.sh"]
    commands = [shlex.split(text.splitlines()[-2]) for text in files.values()]
    assert commands[0] == [
        "set",
        "--",
        "torchrun",
        "--nnodes=2",
        "--node_rank=0",
        "--nproc_per_node=1",
        "--master_addr=10.111.0.11",
        "--master_port=29400",
        "$@",
    ]
    assert {first: second for first, second in zip(*commands, strict=True) if first != second} == {
        "--node_rank=0": "--node_rank=1"
    }


def test_torchruns_port_and_unequal_workers() -> None:
    exported = written("torchrun", UNEVEN, port=4000)
    words = [
        re.findall(r"--(?:nproc_per_node|master_addr|master_port)=(\S+)", text)
        for text in exported.files.values()
    ]
    assert words == [["3", "10.111.0.11", "4000"], ["4", "10.111.0.11", "4000"]]
    assert "different GPU counts" in exported.notes[1]


@pytest.mark.parametrize("has_rank", [True, False])
def test_torchruns_script_starts_what_it_is_given_with_the_workers_settings(
    tmp_path: Path, has_rank: bool
) -> None:
    for name in ("torchrun", "rank"):
        (tmp_path / name).write_text('#!/bin/sh\nfor word in "${0##*/}" "$@"; do echo "$word"; done\n')
        (tmp_path / name).chmod(0o755)
    if not has_rank:
        (tmp_path / "rank").unlink()
    script = tmp_path / "start.sh"
    hosts = PAIR.model_copy(update={"environment": {"NCCL_DEBUG": ODD}})
    text = written("torchrun", hosts).files["torchrun-hvd-02.sh"]
    read_by_shell(text)
    script.write_text(text.replace("/opt/vgpu-cfg", str(tmp_path)), encoding="utf-8")

    def started(*words: str) -> list[str]:
        ran = subprocess.run(
            ["/bin/sh", script, *words],
            env={"PATH": str(tmp_path)},
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        )
        first, *rest = ran.stdout.splitlines()
        assert first == ("rank" if has_rank else "torchrun")
        return rest[6:] if has_rank else rest[5:]

    assert started() == ["train.py"]
    assert started("own script.py", "--name", ODD) == ["own script.py", "--name", ODD]


def test_ipv6_stands_in_brackets_before_a_port() -> None:
    hosts = HostList(plan="p", workers=(host(1, training_address="2001:db8::1"),))
    assert written("torchrun", hosts).notes[0].endswith("they connect to [2001:db8::1]:29400")
    assert "--master_addr=2001:db8::1 " in only(written("torchrun", hosts))
    assert json.loads(only(written("tf-config", hosts)))["cluster"] == {"worker": ["[2001:db8::1]:12345"]}


def test_tf_config_tells_each_worker_who_it_is() -> None:
    read = [json.loads(text) for text in written("tf-config", port=2000).files.values()]
    assert read == [
        {
            "cluster": {"worker": ["10.111.0.11:2000", "10.111.0.12:2000"]},
            "task": {"type": "worker", "index": index},
        }
        for index in (0, 1)
    ]


def slurm_lines(hosts: HostList, file: str) -> list[str]:
    text = written("slurm", hosts).files[file]
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_slurm_counts_gpus_of_each_kind() -> None:
    assert slurm_lines(UNEVEN, "slurm-nodes.conf") == [
        "GresTypes=gpu",
        "NodeName=hvd-01 NodeAddr=192.0.2.1 CPUs=16 Gres=gpu:a100-40c:2,gpu:a100-10c:1 State=UNKNOWN",
        "NodeName=hvd-02 NodeAddr=192.0.2.2 CPUs=16 Gres=gpu:a100-40c:4 State=UNKNOWN",
        "PartitionName=7.odd_Plan Nodes=hvd-01,hvd-02 MaxTime=INFINITE State=UP",
    ]
    assert slurm_lines(UNEVEN, "gres.conf") == [
        "NodeName=hvd-01 Name=gpu Type=a100-40c File=/dev/nvidia[0,2]",
        "NodeName=hvd-01 Name=gpu Type=a100-10c File=/dev/nvidia1",
        "NodeName=hvd-02 Name=gpu Type=a100-40c File=/dev/nvidia[0-3]",
    ]


def test_slurm_goes_without_what_is_not_known() -> None:
    bare = host(1, address="", training_address="", cpus=None, gpus=(ListedHostGpu(),))
    hosts = HostList(plan="p", workers=(bare,))
    assert slurm_lines(hosts, "slurm-nodes.conf")[1] == "NodeName=hvd-01 Gres=gpu:1 State=UNKNOWN"
    assert slurm_lines(hosts, "gres.conf") == ["NodeName=hvd-01 Name=gpu File=/dev/nvidia0"]
    assert slurm_lines(hosts, "topology.conf") == ["SwitchName=no-host-yet Nodes=hvd-01"]
    note = "the memory of hvd-01 is unknown: use RealMemory from `slurmd -C` on the machine"
    assert note in written("slurm", hosts).notes


@pytest.mark.parametrize(
    ("memory", "told"),
    [(65536, 63458), (24576, 23317), (2_097_152, 2_054_441), (1024, 512), (8192, 7261)],
)
def test_slurm_is_told_of_less_memory_than_the_vm_has(memory: int, told: int) -> None:
    hosts = HostList(plan="p", workers=(host(1, memory_mib=memory),))
    assert f" RealMemory={told} " in slurm_lines(hosts, "slurm-nodes.conf")[1]


@pytest.mark.parametrize(
    ("cores", "told"), [(8, " CPUs=16 Sockets=2 CoresPerSocket=8 ThreadsPerCore=1 "), (5, " CPUs=16 Gres")]
)
def test_slurm_is_told_of_sockets_where_they_are_known(cores: int, told: str) -> None:
    hosts = HostList(plan="p", workers=(host(1, cores_per_socket=cores),))
    assert told in slurm_lines(hosts, "slurm-nodes.conf")[1]


def test_slurms_switches_are_the_hosts_that_vms_are_on() -> None:
    placed = [host(n, esxi_host=name, cluster="gpu") for n, name in ((1, "esx-01"), (2, "esx 02"), (3, ""))]
    workers = (*placed, host(4, esxi_host="esx-01", cluster="gpu"))
    hosts = HostList(plan="p", workers=workers, network="roce-111")
    assert slurm_lines(hosts, "topology.conf") == [
        "SwitchName=esx-01 Nodes=hvd-01,hvd-04",
        "SwitchName=esx-02 Nodes=hvd-02",
        "SwitchName=cluster-gpu-no-host-yet Nodes=hvd-03",
        "SwitchName=net-roce-111 Switches=esx-01,esx-02,cluster-gpu-no-host-yet",
    ]


def test_schedulers_prefer_one_host_and_then_one_cluster() -> None:
    places = ((1, "esx-1", "east"), (2, "esx-2", "east"), (3, "esx-1", "east"), (4, "esx-3", "west"))
    workers = tuple(host(n, esxi_host=name, cluster=cluster) for n, name, cluster in places)
    hosts = HostList(plan="p", workers=workers, image="repo/image:1")
    assert slurm_lines(hosts, "topology.conf") == [
        "SwitchName=esx-1 Nodes=hvd-01,hvd-03",
        "SwitchName=esx-2 Nodes=hvd-02",
        "SwitchName=cluster-east Switches=esx-1,esx-2",
        "SwitchName=esx-3 Nodes=hvd-04",
        "SwitchName=cluster-west Switches=esx-3",
        "SwitchName=net-p Switches=cluster-east,cluster-west",
    ]
    made = written("kubernetes", hosts)
    assert "vgpu-cfg/cluster=east vgpu-cfg/esxi-host=esx-2" in made.files["label-nodes.sh"]
    topology, flavour, *_ = all_of(made, "kueue.yaml")
    labels = ["vgpu-cfg/cluster", "vgpu-cfg/esxi-host", "kubernetes.io/hostname"]
    assert topology["spec"]["levels"] == [{"nodeLabel": label} for label in labels]
    assert flavour["spec"]["topologyName"] == topology["metadata"]["name"]
    worker = yaml_of(made.files["mpijob.yaml"])["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    preferred = {"kueue.x-k8s.io/podset-preferred-topology": "vgpu-cfg/esxi-host"}
    assert worker["metadata"]["annotations"] == preferred


def test_a_worker_without_a_host_leaves_kueue_without_a_topology() -> None:
    hosts = HostList(plan="p", workers=(host(1, esxi_host="esx-1"), host(2)), image="repo/image:1")
    made = written("kubernetes", hosts)
    kinds = [one["kind"] for one in all_of(made, "kueue.yaml")]
    assert kinds == ["ResourceFlavor", "ClusterQueue", "LocalQueue"]
    assert [name for name, text in made.files.items() if "topology" in text] == []
    assert any("no topology" in note for note in made.notes)


def test_slurms_controller_is_the_head_else_the_first_worker() -> None:
    assert "SlurmctldHost=head(192.0.2.9)" in slurm_lines(WITH_HEAD, "slurm.conf")
    assert "SlurmctldHost=hvd-01(192.0.2.1)" in slurm_lines(PAIR, "slurm.conf")
    unseen = HostList(plan="p", workers=(host(1, address=""),))
    assert "SlurmctldHost=hvd-01(10.111.0.11)" in slurm_lines(unseen, "slurm.conf")


CONTAINED = {"framework": "horovod", "image": "nvcr.io/nvidia/tensorflow:x", "mounts": ("/srv/d:/d",)}


@pytest.mark.parametrize("update", [{}, CONTAINED, {"environment": {"X": ODD}}])
def test_a_job_is_a_script_that_a_shell_reads(update: dict[str, Any]) -> None:
    read_by_shell(written("slurm", PAIR.model_copy(update=update)).files["train.sbatch"])


def test_a_job_runs_in_the_plans_image_by_pyxis() -> None:
    assert "--container" not in written("slurm").files["train.sbatch"]
    files = written("slurm", PAIR.model_copy(update=CONTAINED)).files
    assert "'--container-image=nvcr.io#nvidia/tensorflow:x'" in files["train.sbatch"]
    assert "--container-mounts=/opt/vgpu-cfg:/opt/vgpu-cfg,/srv/d:/d" in files["train.sbatch"]
    assert files["pyxis.conf"].splitlines()[-1] == "required /usr/local/lib/slurm/spank_pyxis.so"


@pytest.mark.parametrize(
    ("image", "told"),
    [
        ("tensorflow/tensorflow:2.12", "tensorflow/tensorflow:2.12"),
        ("nvcr.io/nvidia/pytorch:24.01-py3", "nvcr.io#nvidia/pytorch:24.01-py3"),
        ("localhost:5000/x", "localhost:5000#x"),
        ("ubuntu", "ubuntu"),
    ],
)
def test_an_image_is_called_as_enroot_calls_it(image: str, told: str) -> None:
    assert enroot_image(image) == told


def read_by_shell(text: str) -> None:
    """Let a shell and shellcheck read a script; a rank's own words are expanded where the rank runs."""
    for judge in (["sh", "-n"], ["shellcheck", "-s", "sh", "-e", "SC2016", "-"]):
        if shutil.which(judge[0]) is not None:
            subprocess.run(judge, input=text, text=True, check=True, timeout=120)


@pytest.mark.parametrize("name", [name for name in FORMATS if name in MARKED])
def test_who_is_not_made_yet_is_marked_as_such(name: str) -> None:
    to_come = host(2, exists=False), host(3, exists=False, key_file="")
    hosts = HostList(plan="p", workers=(host(1), *to_come))
    for text in written(name, hosts, key_file="/k").files.values():
        assert "# hvd-02 does not exist yet: 192.0.2.2 will not respond until `apply` has run.\n" in text
        assert "# hvd-03 does not exist yet: 192.0.2.3 will not respond until `apply` has run.\n" in text
        assert "hvd-01 is not" not in text


LABEL = re.compile(r"vgpu-cfg/[a-z-]+=([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)")


@pytest.mark.parametrize("hosts", [WITH_HEAD, UNEVEN, STRANGE])
def test_kubernetes_labels_are_such_as_it_takes(hosts: HostList, tmp_path: Path) -> None:
    text = written("kubernetes", hosts).files["label-nodes.sh"]
    read_by_shell(text)
    (tmp_path / "kubectl").write_text('#!/bin/sh\nfor word; do echo "$word"; done\n', encoding="utf-8")
    (tmp_path / "kubectl").chmod(0o755)
    ran = subprocess.run(
        ["/bin/sh", "-c", text],
        cwd=tmp_path,
        env={"PATH": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    words = ran.stdout.splitlines()
    labels = [word for word in words if "/" in word]
    assert labels
    assert all(LABEL.fullmatch(label) for label in labels)
    assert words.count("--overwrite") == len(hosts.everyone)
    assert {word for word in words if word in {one.host_name for one in hosts.everyone}} == {
        one.host_name for one in hosts.everyone
    }
    assert not (tmp_path / "owned").exists()


def test_kubernetes_labels_tell_rank_role_and_gpus() -> None:
    line = written("kubernetes", WITH_HEAD).files["label-nodes.sh"].splitlines()[-1]
    assert shlex.split(line) == [
        "kubectl", "label", "nodes", "hvd-02", "--overwrite", "vgpu-cfg/plan=horovod-a100",
        "vgpu-cfg/vm=hvd-02", "vgpu-cfg/role=worker",
        "vgpu-cfg/rank=1", "vgpu-cfg/gpus=1", "vgpu-cfg/gpu-profile=grid_a100-40c",
        "vgpu-cfg/gpu-memory-mib=40960",
    ]  # fmt: skip


def values_of(*workers: ListedHost) -> tuple[dict[str, Any], Exported]:
    exported = written("kubernetes", HostList(plan="p", workers=workers))
    return yaml_of(exported.files["gpu-operator-values.yaml"]), exported


def test_the_operator_leaves_a_driver_that_is_in_the_guest_alone() -> None:
    values, exported = values_of(host(1))
    assert values == {
        "driver": {"enabled": False},
        "toolkit": {"enabled": True},
        "migManager": {"enabled": False},
    }
    assert "licence-secret.sh" not in exported.files


def test_the_operator_brings_a_driver_with_its_licence_where_guests_have_none() -> None:
    values, exported = values_of(host(1, driver_in_guest=False, has_rdma=True))
    assert values["driver"] == {
        "enabled": True,
        "licensingConfig": {"secretName": "licensing-config", "nlsEnabled": True},
        "rdma": {"enabled": True, "useHostMofed": True},
    }
    read_by_shell(exported.files["licence-secret.sh"])
    whole = host(1, driver_in_guest=False, gpus=(ListedHostGpu(board="A100"),))
    assert values_of(whole)[0]["driver"] == {"enabled": True}
    mixed, told = values_of(host(1, driver_in_guest=False), host(2))
    assert mixed["driver"] == {"enabled": False}
    why = (
        "the plan does not install a driver in hvd-01, but the operator's driver setting applies to all nodes"
    )
    assert why in told.notes


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on this machine")
def test_kubectl_makes_the_licences_secret_from_the_tokens_file(tmp_path: Path) -> None:
    token = tmp_path / "it's a token"
    token.write_text("eyJ.token.x", encoding="utf-8")
    _, exported = values_of(host(1, driver_in_guest=False))
    assert "eyJ" not in exported.files["licence-secret.sh"]
    ran = subprocess.run(
        ["/bin/sh", "-s", "--", str(token), "--dry-run=client", "-o", "json"],
        input=exported.files["licence-secret.sh"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    secret = json.loads(ran.stdout)
    assert (secret["metadata"]["name"], secret["metadata"]["namespace"]) == (
        "licensing-config",
        "gpu-operator",
    )
    held = {name: base64.b64decode(text).decode() for name, text in secret["data"].items()}
    assert held == {"gridd.conf": "FeatureType=4\n", "client_configuration_token.tok": "eyJ.token.x"}


def all_of(exported: Exported, file: str) -> list[dict[str, Any]]:
    return [yaml_of(text) for text in exported.files[file].split("---\n")]


def test_a_queue_counts_what_the_workers_have_by_kinds_of_gpus() -> None:
    known = {"memory_mib": 65536}
    hosts = HostList(
        plan="P_1", workers=(host(1, **known), host(2, **known), host(3, gpus=(SMALL,), **known))
    )
    large, small, queue, local = all_of(written("kubernetes", hosts), "kueue.yaml")
    assert large["metadata"] == {"name": "p-1-grid-a100-40c"}
    assert large["spec"]["nodeLabels"] == {
        "vgpu-cfg/plan": "P_1",
        "vgpu-cfg/role": "worker",
        "vgpu-cfg/gpu-profile": "grid_a100-40c",
    }
    (group,) = queue["spec"]["resourceGroups"]
    assert group["coveredResources"] == ["cpu", "memory", "nvidia.com/gpu"]
    assert group["flavors"][0]["resources"] == [
        {"name": "cpu", "nominalQuota": 32},
        {"name": "memory", "nominalQuota": "126916Mi"},
        {"name": "nvidia.com/gpu", "nominalQuota": 2},
    ]
    assert group["flavors"][1]["name"] == small["metadata"]["name"] == "p-1-grid-a100-10c"
    assert local["spec"]["clusterQueue"] == queue["metadata"]["name"] == "p-1"
    unknown = all_of(written("kubernetes", PAIR), "kueue.yaml")[1]
    assert unknown["spec"]["resourceGroups"][0]["coveredResources"] == ["nvidia.com/gpu"]


def test_jobs_run_in_the_plans_image_in_the_nodes_network_with_the_workers_settings() -> None:
    hosts = WITH_HEAD.model_copy(update={**CONTAINED, "environment": {"NCCL_DEBUG": "INFO"}})
    exported = written("kubernetes", hosts)
    mpi, torch = (yaml_of(exported.files[file]) for file in ("mpijob.yaml", "pytorchjob.yaml"))
    runtime, job = all_of(exported, "trainjob.yaml")
    (node,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    its_pod = node["template"]["spec"]["template"]["spec"]
    assert (its_pod["hostNetwork"], its_pod["containers"][0]["name"]) == (True, "node")
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
    assert job["spec"]["trainer"] == {"numNodes": 2, "numProcPerNode": 1}
    replicas = mpi["spec"]["mpiReplicaSpecs"] | torch["spec"]["pytorchReplicaSpecs"]
    assert list(replicas) == ["Launcher", "Worker", "Master"]
    assert {one["replicas"] for one in replicas.values()} == {1}
    assert mpi["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == 2
    for one in replicas.values():
        pod = one["template"]["spec"]
        assert pod["hostNetwork"] is True
        assert pod["containers"][0]["image"] == CONTAINED["image"]
        assert pod["containers"][0]["env"] == [{"name": "NCCL_DEBUG", "value": "INFO"}]
    (worker,) = torch["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    mounts = {one["mountPath"] for one in worker["volumeMounts"]}
    assert mounts == {"/opt/vgpu-cfg", "/d", "/dev/shm"}
    assert worker["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    assert "securityContext" not in worker
    (launcher,) = mpi["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    assert launcher["command"][:4] == ["mpirun", "--allow-run-as-root", "-np", "2"]
    assert "-o ConnectionAttempts=10 -p 22022" in launcher["command"], (
        "mpi-operator's own option, and the port"
    )


def test_a_job_of_one_worker_has_a_master_only_and_a_plan_without_an_image_has_none() -> None:
    alone = HostList(plan="p", workers=(host(1, slots=4, gpus=(GPU,) * 4, has_rdma=True),), image="x")
    job = yaml_of(written("kubernetes", alone).files["pytorchjob.yaml"])["spec"]
    assert list(job["pytorchReplicaSpecs"]) == ["Master"]
    assert job["nprocPerNode"] == "4"
    (container,) = job["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"]
    assert container["securityContext"] == {"privileged": True}
    assert "mpijob.yaml" not in written("kubernetes", PAIR).files


def test_an_inventory_has_a_group_for_workers_and_one_for_the_head() -> None:
    exported = written("ansible", WITH_HEAD)
    groups = yaml_of(only(exported))["all"]["children"]["horovod_a100"]["children"]
    assert set(groups) == {"horovod_a100_workers", "horovod_a100_head"}
    assert groups["horovod_a100_workers"]["hosts"]["hvd-02"] == {
        "ansible_host": "192.0.2.2",
        "ansible_port": 22,
        "ansible_user": "vgpu-cfg",
        "vgpu_cfg_host_name": "hvd-02",
        "vgpu_cfg_training_address": "10.111.0.12",
        "vgpu_cfg_gpus": ["grid_a100-40c"],
        "vgpu_cfg_slots": 1,
    }
    assert groups["horovod_a100_head"]["hosts"]["head"]["ansible_ssh_private_key_file"] == "/etc/id"
    assert exported.notes == (
        "no private key file is known for vgpu-cfg: specify one with --identity-file, or use --login",
    )


def test_an_inventorys_groups_are_words() -> None:
    groups = yaml_of(only(written("ansible", UNEVEN)))["all"]["children"]
    assert list(groups) == ["plan_7_odd_Plan"]


def test_names_and_paths_with_odd_characters_come_through_yaml_as_they_are() -> None:
    hosts = yaml_of(only(written("ansible", STRANGE)))["all"]["children"]["p"]["children"]["p_workers"][
        "hosts"
    ]
    assert hosts[ODD]["ansible_ssh_private_key_file"] == ODD_KEY
    assert yaml_of(only(written("skypilot", STRANGE)))["p"]["identity_file"] == ODD_KEY
    assert yaml_of(only(written("dstack", STRANGE)))["ssh_config"]["hosts"][0]["identity_file"] == ODD_KEY


@pytest.mark.parametrize("name", ["ansible", "skypilot", "dstack"])
def test_another_account_comes_with_its_own_key_or_none(name: str) -> None:
    hosts = HostList(plan="p", workers=(host(1, user="ubuntu", key_file="/etc/id"),))
    assert "/etc/id" in only(written(name, hosts))
    assert not [note for note in written(name, hosts).notes if "private key" in note]
    if name == "ansible":
        other = written(name, hosts, user="anna")
        assert "anna" in only(other)
        assert "/etc/id" not in only(other)
        assert [note for note in other.notes if "no private key file is known for anna" in note]
    else:
        with pytest.raises(DoesNotFit, match="no private key file is known for anna, and"):
            written(name, hosts, user="anna")
    assert "/home/anna/id" in only(written(name, hosts, user="anna", key_file="/home/anna/id"))


def test_a_pool_has_an_account_and_a_key_and_names_by_config_who_listens_elsewhere() -> None:
    assert yaml_of(only(written("skypilot", WITH_HEAD, key_file="/k"))) == {
        "horovod-a100": {
            "user": "vgpu-cfg",
            "identity_file": "/k",
            "hosts": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}],
        }
    }
    workers = (
        host(1, key_file="/a"),
        host(2, port=2200, key_file="/a"),
        host(3, user="x", key_file="/b"),
    )
    elsewhere = HostList(plan="p", workers=workers)
    exported = written("skypilot", elsewhere)
    assert yaml_of(only(exported))["p"]["hosts"][1:] == [
        "hvd-02",
        {"ip": "192.0.2.3", "user": "x", "identity_file": "/b"},
    ]
    assert "SSH uses a port other than 22 on hvd-02" in exported.notes[-1]


def test_a_fleet_knows_both_addresses() -> None:
    assert yaml_of(only(written("dstack", key_file="/k"))) == {
        "type": "fleet",
        "name": "horovod-a100",
        "placement": "cluster",
        "ssh_config": {
            "hosts": [
                {
                    "hostname": f"192.0.2.{n}",
                    "port": 22,
                    "user": "vgpu-cfg",
                    "identity_file": "/k",
                    "internal_ip": f"10.111.0.{10 + n}",
                }
                for n in (1, 2)
            ]
        },
    }


@pytest.mark.parametrize("address", ["", "203.0.114.7"])
def test_a_fleet_has_private_addresses_of_all_hosts_or_of_none(address: str) -> None:
    hosts = HostList(plan="p", workers=(host(1), host(2, training_address=address)))
    exported = written("dstack", hosts, key_file="/k")
    assert not [one for one in yaml_of(only(exported))["ssh_config"]["hosts"] if "internal_ip" in one]
    assert "internal_ip is omitted" in exported.notes[-1]
    same = HostList(plan="p", workers=(host(1, address="10.111.0.11"), host(2)))
    fleet = yaml_of(only(written("dstack", same, key_file="/k")))
    inside = [one["internal_ip"] for one in fleet["ssh_config"]["hosts"]]
    assert inside == ["10.111.0.11", "10.111.0.12"]


@pytest.mark.parametrize("plan", ["a", "7.odd_Plan", "A" * 63, "x-" * 20, "9" * 63])
def test_a_fleets_name_is_one_that_dstack_takes(plan: str) -> None:
    hosts = HostList(plan=plan, workers=(host(1),))
    fleet = yaml_of(only(written("dstack", hosts, key_file="/k")))
    assert re.fullmatch("[a-z][a-z0-9-]{1,40}", fleet["name"])
    assert "placement" not in fleet


@pytest.mark.parametrize("name", ["ansible", "skypilot", "dstack"])
def test_who_logs_in_from_outside_needs_an_address(name: str) -> None:
    hosts = HostList(plan="p", workers=(host(1), host(2, address="")))
    with pytest.raises(DoesNotFit, match="hvd-02's address is unknown"):
        written(name, hosts, key_file="/k")


@pytest.mark.parametrize("name", FORMATS)
def test_nobody_cannot_be_handed_over_nor_somebody_without_a_name(name: str) -> None:
    with pytest.raises(DoesNotFit, match="no VM with GPUs"):
        written(name, HostList(plan="p", workers=()))
    with pytest.raises(DoesNotFit, match=r"the name _\._ cannot be used as a host name"):
        written(name, HostList(plan="p", workers=(host(1, vm="_._", host_name=""),)))


@pytest.mark.parametrize("name", FORMATS)
def test_every_file_ends_with_its_last_line_and_is_made_alike_each_time(name: str) -> None:
    files = written(name, WITH_HEAD, key_file="/k").files
    assert all(text.endswith("\n") and not text.endswith("\n\n") for text in files.values())
    assert files == written(name, WITH_HEAD, key_file="/k").files
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", file) for file in files)
