"""Kubernetes objects for a plan: labels of its nodes, Kueue's queues, values of NVIDIA's operator, and jobs.

A label's key is a prefix, which is a DNS name, and a name; its value has at most 63 letters, digits, `-`, `_`
and `.`, and begins and ends with a letter or a digit (kubernetes.io, "Labels and Selectors"). Those of
NVIDIA's GPU feature discovery (`nvidia.com/...`) are made in the cluster from the node's devices, and are
left to it: these labels hold facts that only the plan has. A node is called as its host.

Kueue's objects (kueue.x-k8s.io/v1beta2, of Kueue 0.15 and later) are a flavour for each kind of GPU, and
queues. A ResourceFlavor names nodes by their labels, a ClusterQueue says how much of each there is, and jobs
ask for a LocalQueue of their namespace (kueue.sigs.k8s.io, "Concepts"). Every flavour of a group lists the
resources that the group covers, in their order; a job that asks for one that is not covered waits for ever.

A Topology (kueue.sigs.k8s.io, "Topology Aware Scheduling") lists node labels from the widest place to the
narrowest. Pods that prefer one place share an ESXi host if it has room, and otherwise a cluster. Kueue
ignores nodes that lack one of the labels, so it is written only if the host of every worker is known.

Written for the chart of NVIDIA's gpu-operator are values, and the licence of its driver if it brings one. If
the plan manages the guest's driver, or has no guest settings, the driver is in the VM and holds its own
license: the operator leaves both alone. Else it brings a vGPU guest driver, from an image that its maker
builds and keeps in a private registry, since NVIDIA's may not be published. That driver takes the licence
from a secret with gridd.conf and client_configuration_token.tok (docs.nvidia.com, GPU Operator, "Using NVIDIA
vGPU": driver.licensingConfig.secretName; older charts take a ConfigMap, by configMapName).

Jobs are an MPIJob (kubeflow.org/v2beta1), a TrainJob with the TrainingRuntime that it refers to
(trainer.kubeflow.org/v1alpha1), and its predecessor PyTorchJob (kubeflow.org/v1). Their pods are in the
node's network: NCCL's settings on a worker name interfaces and devices that no other network has. So the sshd
that mpi-operator starts in workers listens at a port of its own, which the launcher's mpirun gets as an
option. It replaces the operator's option ConnectionAttempts (ompiEnvVars in mpi_job_controller.go), so mpirun
gets both. A TrainJob cannot use the node's network, but its runtime can; the trainer sets all of PET_*, which
torchrun reads (torch.go). For a PyTorchJob the operator sets nodes, ranks and processes by PET_*, but the
master by MASTER_ADDR, which torchrun does not read (training-operator's source, envvar.go). With RDMA a pod
is privileged, since /dev/infiniband is none of its devices otherwise.

Belief: mpi-operator-workers, gpu-operator-licence-secret, gpu-operator-without-driver.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from vgpu_cfg.model.host_list import HostList, ListedHost
from vgpu_cfg.staging.export.parts import (
    RANK,
    SETTINGS_FOLDER,
    Exported,
    ExportOptions,
    header,
    real_memory_mib,
    text_of,
    yaml_of,
)

PREFIX = "vgpu-cfg"
PLAN, ROLE, GPU_PROFILE = f"{PREFIX}/plan", f"{PREFIX}/role", f"{PREFIX}/gpu-profile"
"""Keys of node labels."""
CLUSTER, ESXI_HOST, HOSTNAME = f"{PREFIX}/cluster", f"{PREFIX}/esxi-host", "kubernetes.io/hostname"
"""Keys of node labels that say where a node is, from the widest to the narrowest; every node has the last."""
GPU = "nvidia.com/gpu"
"""The resource by which NVIDIA's device plugin counts GPUs."""
QUEUE = "kueue.x-k8s.io/queue-name"
"""The label by which a job asks for a LocalQueue of Kueue."""
PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"
"""The annotation by which pods ask to be close together, up to a node label."""

_API = "kueue.x-k8s.io/v1beta2"
_TRAINER_API = "trainer.kubeflow.org/v1alpha1"

LICENCE_SECRET, NAMESPACE = "licensing-config", "gpu-operator"
VALUES = "gpu-operator-values.yaml"
_COMPUTE = 4
"""FeatureType of gridd.conf for compute."""

SSH_PORT = 22022
"""Of the sshd in an MPIJob's workers: no port of the node's own, nor of the plan's containers."""
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 -- NCCL's ranks of one pod share memory there
_INFINIBAND = "/dev/infiniband"
_SHELL = ["sh", "-c"]
_TRAIN = "train.py"


def write_kubernetes(host_list: HostList, options: ExportOptions) -> Exported:
    """Write a shell script that labels every node, the operator's values, queues and jobs."""
    lines = [
        shlex.join(
            ["kubectl", "label", "nodes", host.host_name.lower(), "--overwrite", *_labels(host_list, host)]
        )
        for host in host_list.everyone
    ]
    labels = "\n".join(["#!/bin/sh", *header(host_list), "set -e", *lines, ""])
    parts = [
        Exported(
            {"label-nodes.sh": labels}, ("the nodes must have joined the cluster under their host names",)
        ),
        write_gpu_operator(host_list),
        write_kueue(host_list),
        write_jobs(host_list, options),
    ]
    return Exported(
        {name: text for part in parts for name, text in part.files.items()},
        tuple(note for part in parts for note in part.notes),
    )


def _labels(host_list: HostList, host: ListedHost) -> list[str]:
    worker = host in host_list.workers
    labels = {
        PLAN: host_list.plan,
        f"{PREFIX}/vm": host.vm,
        ROLE: "worker" if worker else "head",
    }
    if worker:
        labels[f"{PREFIX}/rank"] = str(host_list.workers.index(host))
    if host.gpus:
        labels[f"{PREFIX}/gpus"] = str(len(host.gpus))
        labels[GPU_PROFILE] = ".".join(host.gpu_kinds)
    if host.gpus and host.gpus[0].memory_mib:
        labels[f"{PREFIX}/gpu-memory-mib"] = str(min(gpu.memory_mib or 0 for gpu in host.gpus))
    labels |= {key: name for key, name in ((CLUSTER, host.cluster), (ESXI_HOST, host.esxi_host)) if name}
    return [f"{key}={label_value(value)}" for key, value in labels.items()]


def _levels(host_list: HostList) -> list[str]:
    """List the labels of a topology; empty if the host of a worker is not known."""
    workers = host_list.workers
    if not all(host.esxi_host for host in workers):
        return []
    return [*([CLUSTER] if all(host.cluster for host in workers) else []), ESXI_HOST, HOSTNAME]


def write_kueue(host_list: HostList) -> Exported:
    """Write the topology, the flavours, and the queues; topology and queues are called as the plan."""
    by_kind: dict[str, list[ListedHost]] = {}
    for host in host_list.workers:
        by_kind.setdefault(".".join(host.gpu_kinds), []).append(host)
    covered = ["cpu", "memory", GPU]
    if not all(host.cpus and host.memory_mib for host in host_list.workers):
        covered = [GPU]
    flavours = {kind: object_name(f"{host_list.plan}-{kind or 'gpu'}") for kind in by_kind}
    queue = queue_of(host_list)
    objects = [
        *_topology(host_list),
        *(_flavour(host_list, name, kind) for kind, name in flavours.items()),
        {
            "apiVersion": _API,
            "kind": "ClusterQueue",
            "metadata": {"name": queue},
            "spec": {
                "namespaceSelector": {},
                "resourceGroups": [
                    {
                        "coveredResources": covered,
                        "flavors": [
                            {"name": flavours[kind], "resources": _quotas(hosts, covered)}
                            for kind, hosts in by_kind.items()
                        ],
                    }
                ],
            },
        },
        {
            "apiVersion": _API,
            "kind": "LocalQueue",
            "metadata": {"name": queue},
            "spec": {"clusterQueue": queue},
        },
    ]
    notes = [
        "kueue.yaml is for a cluster with Kueue; create the LocalQueue in the jobs' namespace",
        "if a VM moves to another ESXi host, export again and rerun label-nodes.sh"
        if _levels(host_list)
        else "kueue.yaml has no topology because some VMs have no host yet: export it again later",
    ]
    return Exported({"kueue.yaml": yaml_of(host_list, *objects)}, tuple(notes))


def _topology(host_list: HostList) -> list[dict[str, Any]]:
    levels = [{"nodeLabel": label} for label in _levels(host_list)]
    if not levels:
        return []
    name = queue_of(host_list)
    return [{"apiVersion": _API, "kind": "Topology", "metadata": {"name": name}, "spec": {"levels": levels}}]


def _flavour(host_list: HostList, name: str, kind: str) -> dict[str, Any]:
    labels = {PLAN: label_value(host_list.plan), ROLE: "worker"}
    if kind:
        labels[GPU_PROFILE] = label_value(kind)
    topology = {"topologyName": queue_of(host_list)} if _levels(host_list) else {}
    return {
        "apiVersion": _API,
        "kind": "ResourceFlavor",
        "metadata": {"name": name},
        "spec": {"nodeLabels": labels, **topology},
    }


def _quotas(hosts: Sequence[ListedHost], covered: Sequence[str]) -> list[dict[str, str | int]]:
    amounts: dict[str, str | int] = {
        "cpu": sum(host.cpus or 0 for host in hosts),
        "memory": f"{sum(real_memory_mib(host.memory_mib or 0) for host in hosts)}Mi",
        GPU: sum(len(host.gpus) for host in hosts),
    }
    return [{"name": name, "nominalQuota": amounts[name]} for name in covered]


def write_gpu_operator(host_list: HostList) -> Exported:
    """Write the chart's values, and a script that makes the licence's secret where the operator needs it."""
    with_gpus = [host for host in host_list.workers if host.gpus]
    own = [host for host in with_gpus if host.driver_in_guest]
    is_brought = bool(with_gpus) and not own
    has_vgpus = any(gpu.profile for host in with_gpus for gpu in host.gpus)
    driver: dict[str, Any] = {"enabled": is_brought}
    if is_brought and has_vgpus:
        driver["licensingConfig"] = {"secretName": LICENCE_SECRET, "nlsEnabled": True}
    if is_brought and any(host.has_rdma for host in with_gpus):
        driver["rdma"] = {"enabled": True, "useHostMofed": True}
    values = {"driver": driver, "toolkit": {"enabled": True}, "migManager": {"enabled": False}}
    files = {VALUES: yaml_of(host_list, values)}
    notes = [f"helm install gpu-operator nvidia/gpu-operator -n {NAMESPACE} -f {VALUES}"]
    if not is_brought:
        notes.append("the guests already have the driver and its license: the operator installs neither")
    if own and len(own) < len(with_gpus):
        without = ", ".join(host.vm for host in with_gpus if not host.driver_in_guest)
        notes.append(
            f"the plan does not install a driver in {without}, but the operator's driver setting applies to "
            "all nodes"
        )
    if is_brought and has_vgpus:
        files["licence-secret.sh"] = _secret(host_list)
        notes.append("use your own driver image: --set driver.repository=... --set driver.version=...")
        notes.append("before helm, run licence-secret.sh with the path to the license token")
    return Exported(files, tuple(notes))


def _secret(host_list: HostList) -> str:
    lines = [
        "#!/bin/sh",
        *header(host_list),
        "# sh licence-secret.sh TOKEN_FILE [more kubectl arguments]",
        "set -eu",
        "token=${1:?specify the path to the client configuration token}",
        "shift",
        f"printf 'FeatureType=%s\\n' {_COMPUTE} |",
        f"    kubectl create secret generic {LICENCE_SECRET} --namespace {NAMESPACE} \\",
        '        --from-file=gridd.conf=/dev/stdin --from-file=client_configuration_token.tok="$token" "$@"',
    ]
    return "".join(f"{line}\n" for line in lines)


def write_jobs(host_list: HostList, _options: ExportOptions) -> Exported:
    """Write all jobs; none of a plan without an image, since a pod needs one."""
    if not host_list.image:
        return Exported(
            {}, ("jobs are not exported because the plan has no image: training: {image: IMAGE}",)
        )
    notes = [f"the jobs run {_TRAIN} from the image: replace it with your own command"]
    if len({host.slots for host in host_list.workers}) > 1:
        notes.append("the workers have different GPU counts: the jobs use the lowest count on every worker")
    files = {
        "mpijob.yaml": yaml_of(host_list, _mpi_job(host_list)),
        "trainjob.yaml": yaml_of(host_list, *_train_job(host_list)),
        "pytorchjob.yaml": yaml_of(host_list, _pytorch_job(host_list)),
    }
    return Exported(files, tuple(notes))


def _slots(host_list: HostList) -> int:
    return min(host.slots for host in host_list.workers)


def _metadata(host_list: HostList) -> dict[str, Any]:
    return {"name": queue_of(host_list), "labels": {QUEUE: queue_of(host_list)}}


def _mpi_job(host_list: HostList) -> dict[str, Any]:
    count, slots = len(host_list.workers), _slots(host_list)
    mpirun = [
        *[
            "mpirun",
            "--allow-run-as-root",
            "-np",
            str(count * slots),
            "--bind-to",
            "none",
            "--map-by",
            "slot",
        ],
        *["--mca", "plm_rsh_args", f"-o ConnectionAttempts=10 -p {SSH_PORT}"],
        *(word for name in sorted(host_list.environment) for word in ("-x", name)),
        *[*_SHELL, RANK, "rank", "python3", _TRAIN],
    ]
    sshd = ["/usr/sbin/sshd", "-De", "-p", str(SSH_PORT)]
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": _metadata(host_list),
        "spec": {
            "slotsPerWorker": slots,
            "runPolicy": {"cleanPodPolicy": "Running"},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": _pod(host_list, mpirun, "mpi", is_worker=False)},
                "Worker": {"replicas": count, "template": _pod(host_list, sshd, "mpi", is_worker=True)},
            },
        },
    }


def _train_job(host_list: HostList) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make the runtime, with the pods, and the job that refers to it by name."""
    name, count = queue_of(host_list), len(host_list.workers)
    pod = _pod(host_list, [*_SHELL, RANK, "rank", "torchrun", _TRAIN], "node", is_worker=True)
    job = {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"template": pod},
    }
    runtime = {
        "apiVersion": _TRAINER_API,
        "kind": "TrainingRuntime",
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {
            "mlPolicy": {"numNodes": count, "torch": {}},
            "template": {"spec": {"replicatedJobs": [{"name": "node", "template": job}]}},
        },
    }
    return runtime, {
        "apiVersion": _TRAINER_API,
        "kind": "TrainJob",
        "metadata": _metadata(host_list),
        "spec": {
            "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": name},
            "trainer": {"numNodes": count, "numProcPerNode": _slots(host_list)},
        },
    }


def _pytorch_job(host_list: HostList) -> dict[str, Any]:
    start = f'set -- torchrun --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" "$@"; {RANK}'
    command = [*_SHELL, start, "rank", _TRAIN]
    replicas = {"Master": 1, "Worker": len(host_list.workers) - 1}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": _metadata(host_list),
        "spec": {
            "nprocPerNode": str(_slots(host_list)),
            "pytorchReplicaSpecs": {
                role: {
                    "replicas": count,
                    "restartPolicy": "OnFailure",
                    "template": _pod(host_list, command, "pytorch", is_worker=True),
                }
                for role, count in replicas.items()
                if count
            },
        },
    }


def _pod(host_list: HostList, command: list[str], container: str, *, is_worker: bool) -> dict[str, Any]:
    folders = {"settings": (SETTINGS_FOLDER, SETTINGS_FOLDER)} | {
        f"mount-{number}": (source, target)
        for number, (source, _, target) in enumerate(one.partition(":") for one in host_list.mounts)
    }
    has_rdma = is_worker and any(host.has_rdma for host in host_list.workers)
    if has_rdma:
        folders["infiniband"] = (_INFINIBAND, _INFINIBAND)
    main: dict[str, Any] = {"name": container, "image": host_list.image, "command": command}
    if host_list.environment:
        main["env"] = [
            {"name": name, "value": value} for name, value in sorted(host_list.environment.items())
        ]
    if is_worker:
        main["resources"] = {"limits": {GPU: min(len(host.gpus) for host in host_list.workers)}}
        if has_rdma:
            main["securityContext"] = {"privileged": True}
        main["volumeMounts"] = [
            *({"name": name, "mountPath": target} for name, (_, target) in folders.items()),
            {"name": "shm", "mountPath": _SHARED_MEMORY},
        ]
    spec: dict[str, Any] = {
        "hostNetwork": True,
        "dnsPolicy": "ClusterFirstWithHostNet",
        "nodeSelector": {PLAN: label_value(host_list.plan)} | ({ROLE: "worker"} if is_worker else {}),
        "containers": [main],
    }
    if is_worker:
        spec["volumes"] = [
            *(
                {"name": name, "hostPath": {"path": source, "type": _folder_type(source)}}
                for name, (source, _) in folders.items()
            ),
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
        ]
    if is_worker and _levels(host_list):
        return {"metadata": {"annotations": {PREFERRED_TOPOLOGY: ESXI_HOST}}, "spec": spec}
    return {"spec": spec}


def _folder_type(path: str) -> str:
    return "Directory" if path == _INFINIBAND else "DirectoryOrCreate"


def label_value(text: str) -> str:
    """Make the value of a label."""
    return text_of(text, "-_.")


def object_name(text: str, *, longest: int = 50) -> str:
    """Make the name of an object: small letters, digits and hyphens, as of a DNS label (RFC 1123)."""
    return text_of(text.lower(), "-", longest=longest) or "plan"


def queue_of(host_list: HostList) -> str:
    """Name the plan's queue."""
    return object_name(host_list.plan)
