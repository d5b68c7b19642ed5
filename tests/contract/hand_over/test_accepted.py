"""The tools take what `hand-over` writes as it is, and refuse what it once wrote or somebody broke."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vgpu_cfg.documents import dump, parse_text
from vgpu_cfg.model.host_list import HostList, ListedHost, ListedHostGpu
from vgpu_cfg.staging.export import FORMATS, ExportOptions

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[2] / ".cache"
BUILT = CACHE / "hand-over"
ANSIBLE = CACHE / "ansible"
AGES = ("newest", "oldest")
"""Folders of the schemas: of the newest release, and of the oldest that is supported."""
pytestmark = pytest.mark.long("what judges hand-overs: script/build-hand-over fetches it")

WHOLE = ListedHostGpu(profile="grid_a100-40c", board="A100", memory_mib=40960)
MIG = ListedHostGpu(profile="grid_a100-3-20c", board="A100", memory_mib=20480)


def host(number: int, *gpus: ListedHostGpu, **more: Any) -> ListedHost:
    stated = {
        "vm": f"w-{number:02}",
        "host_name": f"w-{number:02}",
        "address": f"192.0.2.{number}",
        "training_address": f"10.111.0.{number}",
        "slots": len(gpus),
        "gpus": gpus,
        "cpus": 16,
        "memory_mib": 65536,
        "user": "vgpu-cfg",
        **more,
    }
    return ListedHost.model_validate(stated)


def plan_of(name: str, *workers: ListedHost, **more: Any) -> HostList:
    pulled = {"image": "nvcr.io/nvidia/pytorch:24.01-py3", "mounts": ("/srv/data:/data",)}
    return HostList.model_validate({"plan": name, "workers": workers, **pulled, **more})


PLANS = {
    "pair": plan_of("pair", host(1, WHOLE), host(2, WHOLE)),
    "head": plan_of(
        "Head_and some",
        host(1, WHOLE, has_rdma=True),
        host(2, WHOLE, has_rdma=True),
        head=host(9, vm="head", host_name="head"),
        environment={"NCCL_DEBUG": "INFO"},
        framework="mpi",
    ),
    "mig": plan_of("7.mig", host(1, MIG), host(2, MIG, exists=False), image=""),
    "several": plan_of("several", host(1, *(WHOLE,) * 4), host(2, WHOLE, MIG)),
    "alone": plan_of("alone", host(1, *(WHOLE,) * 8, driver_in_guest=False)),
    "placed": plan_of(
        "placed", *(host(n, WHOLE, esxi_host=f"esx-0{n % 2}.lab", cluster="gpu a") for n in (1, 2, 3))
    ),
    "ipv6": plan_of("six", host(1, WHOLE, address="2001:db8::1"), host(2, WHOLE)),
}
Judge = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Return what runs one of the judges on words, in a folder and with a home of its own."""
    if not (BUILT / "installed").exists():
        pytest.skip("the tools are not there: script/build-hand-over says why")
    if not (ANSIBLE / "fetched").exists():
        pytest.skip("Ansible is not there: script/build-ansible says why")

    def run(program: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
        script = HERE / "judges" / program
        programs = (ANSIBLE if program.startswith("ansible") else BUILT) / "env" / "bin"
        first = [programs / "python", script] if script.exists() else [programs / program]
        return subprocess.run(
            [*first, *words],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run


@pytest.fixture(params=PLANS)
def plan(request: pytest.FixtureRequest) -> HostList:
    """Return each plan's hosts."""
    found: HostList = PLANS[request.param]
    return found


def put(folder: Path, name: str, plan: HostList) -> dict[str, Path]:
    """Write a plan's files for a tool; their key is a file that is there."""
    key = folder / "id"
    key.write_text("a key", encoding="utf-8")
    files = FORMATS[name].write(plan, ExportOptions(key_file=str(key))).files
    for file, text in files.items():
        (folder / file).write_text(text, encoding="utf-8")
    return {file: folder / file for file in files}


def data_of(path: Path) -> Any:
    return parse_text(path.read_text(encoding="utf-8"), path.name).data


def test_skypilot_takes_the_pool(judge: Judge, plan: HostList, tmp_path: Path) -> None:
    pool = put(tmp_path, "skypilot", plan)["ssh_node_pools.yaml"]
    done = judge("skypilot-pool", pool)
    assert done.returncode == 0, done.stderr
    (hosts,) = json.loads(done.stdout).values()
    assert [(one["ip"], one["user"], one["identity_file"]) for one in hosts] == [
        (one.address, "vgpu-cfg", str(tmp_path / "id")) for one in plan.workers
    ]


@pytest.mark.parametrize("missing", ["user", "identity_file", "hosts"])
def test_skypilot_refuses_a_pool_without_account_key_or_hosts(
    judge: Judge, missing: str, tmp_path: Path
) -> None:
    pool = put(tmp_path, "skypilot", PLANS["pair"])["ssh_node_pools.yaml"]
    data = data_of(pool)
    del data["pair"][missing]
    pool.write_text(dump(data), encoding="utf-8")
    done = judge("skypilot-pool", pool)
    assert done.returncode != 0
    assert f"must include `{missing}`" in done.stderr or f"`{missing}` or `password`" in done.stderr


@pytest.mark.sampled(3)
def test_dstack_takes_the_fleet(judge: Judge, plan: HostList, tmp_path: Path) -> None:
    fleet = put(tmp_path, "dstack", plan)["fleet.dstack.yml"]
    done = judge("dstack-fleet", fleet)
    assert done.returncode == 0, done.stderr
    hosts = json.loads(done.stdout)["ssh_config"]["hosts"]
    assert [(one["hostname"], one["internal_ip"]) for one in hosts] == [
        (one.address, one.training_address) for one in plan.workers
    ]


def test_dstack_refuses_the_inner_address_of_one_host_only(judge: Judge, tmp_path: Path) -> None:
    fleet = put(tmp_path, "dstack", PLANS["pair"])["fleet.dstack.yml"]
    data = data_of(fleet)
    del data["ssh_config"]["hosts"][0]["internal_ip"]
    fleet.write_text(dump(data), encoding="utf-8")
    done = judge("dstack-fleet", fleet)
    assert done.returncode != 0
    assert "internal_ip must be specified for all hosts" in done.stderr


@pytest.mark.sampled(3)
def test_ansible_reads_the_inventory(judge: Judge, plan: HostList, tmp_path: Path) -> None:
    inventory = put(tmp_path, "ansible", plan)["inventory.yaml"]
    done = judge("ansible-inventory", "-i", inventory, "--list")
    assert (done.returncode, done.stderr) == (0, "")
    read = json.loads(done.stdout)
    assert set(read["_meta"]["hostvars"]) == {one.vm for one in plan.everyone}
    workers = next(group for name, group in read.items() if name.endswith("_workers"))
    assert workers["hosts"] == [one.vm for one in plan.workers]
    for one in plan.workers:
        variables = read["_meta"]["hostvars"][one.vm]
        assert (variables["ansible_host"], variables["ansible_user"]) == (one.address, "vgpu-cfg")
        assert variables["vgpu_cfg_slots"] == one.slots


def test_kubernetes_takes_queues_and_jobs(judge: Judge, tmp_path: Path) -> None:
    paths: list[Path] = []
    for name, plan in PLANS.items():
        (tmp_path / name).mkdir()
        files = put(tmp_path / name, "kubernetes", plan)
        wanted = {"kueue.yaml", *(["mpijob.yaml", "trainjob.yaml", "pytorchjob.yaml"] if plan.image else [])}
        assert wanted <= files.keys()
        paths += (files[file] for file in sorted(wanted))
    for age in AGES:
        done = judge("schema", BUILT / age, *paths)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {str(path): [] for path in paths}, age


BROKEN = (
    ("mpijob.yaml", ("slotsPerWorker", "slotsperworker"), "slotsperworker"),
    ("mpijob.yaml", ("slotsPerWorker: 1", "slotsPerWorker: one"), "'one'"),
    ("pytorchjob.yaml", ("nprocPerNode: '1'", "nprocPerNode: [1]"), "nprocPerNode"),
    ("pytorchjob.yaml", ("hostNetwork: true", "hostNetwork: maybe"), "maybe"),
    ("trainjob.yaml", ("numNodes: 3", "numNodes: two"), "two"),
    ("trainjob.yaml", ("runtimeRef", "runtimeref"), "runtime"),
    ("kueue.yaml", ("nominalQuota: 3", "nominalQuota: two"), "two"),
    ("kueue.yaml", ("nodeLabels", "nodelabels"), "nodelabels"),
    ("kueue.yaml", ("- nodeLabel:", "- label:"), "nodeLabel"),
)


def test_kubernetes_refuses_what_is_broken(judge: Judge, tmp_path: Path) -> None:
    files = put(tmp_path, "kubernetes", PLANS["placed"])
    said = {}
    for number, (file, words, saying) in enumerate(BROKEN):
        text = files[file].read_text(encoding="utf-8")
        assert words[0] in text
        path = tmp_path / f"{number}.yaml"
        path.write_text(text.replace(*words), encoding="utf-8")
        said[str(path)] = saying
    told = json.loads(judge("schema", BUILT / "newest", *said).stdout)
    assert {path: said[path] in (errors or [""])[0] for path, errors in told.items()} == dict.fromkeys(
        said, True
    )


CHART = {name: kind for kind, names in data_of(HERE / "gpu-operator-values.yaml").items() for name in names}


def unknown_values(values: dict[str, Any], path: str = "") -> set[str]:
    """Return the values that the operator's chart does not have, or has with another type."""
    found: set[str] = set()
    for key, value in values.items():
        if isinstance(value, dict):
            found |= unknown_values(value, f"{path}{key}.")
        elif CHART.get(f"{path}{key}") != type(value).__name__:
            found.add(f"{path}{key}")
    return found


def test_the_operators_values_are_those_of_its_chart(plan: HostList, tmp_path: Path) -> None:
    assert unknown_values(data_of(put(tmp_path, "kubernetes", plan)["gpu-operator-values.yaml"])) == set()


def test_the_operators_chart_has_no_other_values() -> None:
    values = {"driver": {"enabled": "yes", "rdma": {"enable": True}}, "toolkit": {"enabled": True}}
    assert unknown_values(values) == {"driver.enabled", "driver.rdma.enable"}


@pytest.mark.skipif(not Path("/usr/bin/torchrun").exists(), reason="the distribution has no torchrun here")
def test_torchrun_reads_its_command(tmp_path: Path) -> None:
    (tmp_path / "torchrun").write_text(TORCHRUN, encoding="utf-8")
    (tmp_path / "torchrun").chmod(0o755)
    lines, expected = [], []
    for name, plan in PLANS.items():
        (tmp_path / name).mkdir()
        for rank, path in enumerate(put(tmp_path / name, "torchrun", plan).values()):
            lines += subprocess.run(
                ["/bin/sh", path, "train.py", "--epochs", "5"],
                env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
                capture_output=True,
                text=True,
                check=True,
                timeout=120,
            ).stdout.splitlines()
            expected.append(
                {
                    "nnodes": str(len(plan.workers)),
                    "node_rank": rank,
                    "nproc_per_node": str(plan.workers[rank].slots),
                    "rdzv_backend": "static",
                    "master_addr": plan.workers[0].training_address,
                    "master_port": 29400,
                    "training_script_args": ["--epochs", "5"],
                }
            )
    done = subprocess.run(
        ["/usr/bin/python3", "-c", READ_TORCHRUN],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout)
    assert [{key: one[key] for key in expected[0]} for one in read] == expected


TORCHRUN = """#!/usr/bin/python3 -IS
import json, sys
print(json.dumps(sys.argv[1:]))
"""
READ_TORCHRUN = """
import json, sys
from torch.distributed.run import parse_args
json.dump([vars(parse_args(json.loads(line))) for line in sys.stdin], sys.stdout, default=str)
"""
"""The parser of the distribution's torchrun, without what it starts."""


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI is not on this machine")
def test_open_mpi_reads_the_host_file(plan: HostList, tmp_path: Path) -> None:
    hosts = put(tmp_path, "mpi", plan)["hostfile"]
    words = ["--allow-run-as-root", "--display-map", "--do-not-launch", "--do-not-resolve"]
    done = subprocess.run(
        [shutil.which("mpirun") or "", *words, "--hostfile", hosts, "-np", str(plan.processes), "true"],
        capture_output=True,
        text=True,
        check=False,  # 4.1 says where each process would be, and breaks off
        timeout=120,
    )
    for one in plan.workers:
        counts = f"{one.slots}\tMax slots: 0\tNum procs: {one.slots}"
        assert f"Data for node: {one.host_name}\tNum slots: {counts}" in done.stdout


HOROVOD = HERE.parents[2] / ".cache" / "horovod"
READ_HOSTS = """
import ast, json, sys
source = ast.parse(open(sys.argv[1]).read())
scope = {}
exec("import re, os, io, collections", scope)
for one in source.body:
    if isinstance(one, (ast.ClassDef, ast.FunctionDef)):
        try:
            exec(compile(ast.Module([one], []), "hosts.py", "exec"), scope)
        except NameError:
            pass
read = scope["parse_host_files"](sys.argv[2])
json.dump(read, sys.stdout)
"""


@pytest.mark.parametrize("version", ["0.19.5", "0.22.1", "0.24.3", "0.25.0", "0.28.1"])
def test_each_horovod_reads_the_host_file(version: str, tmp_path: Path) -> None:
    places = ("horovod/runner/common/util/hosts.py", "horovod/run/runner.py")
    sources = [one for place in places if (one := HOROVOD / version / place).exists()]
    if not sources:
        pytest.skip("there are no sources of this Horovod: script/build-horovod says why")
    for plan in PLANS.values():
        hosts = put(tmp_path, "horovod", plan)["hostfile"]
        done = subprocess.run(
            [sys.executable, "-c", READ_HOSTS, sources[0], hosts],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        read = ",".join(f"{one.host_name}:{one.slots}" for one in plan.workers)
        assert json.loads(done.stdout) == read
