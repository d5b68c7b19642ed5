"""Jobs that train on a plan's nodes: MPIJob (kubeflow.org/v2beta1) and PyTorchJob (kubeflow.org/v1).

Their pods are in the node's network: NCCL's settings on a worker name interfaces and devices that no other
network has. So the sshd that mpi-operator starts in workers listens at a port of its own, and the launcher's
mpirun is told so. Of a PyTorchJob the operator tells nodes, ranks and processes by PET_*, which torchrun
reads, but the master by MASTER_ADDR, which it does not (training-operator's source, envvar.go). With RDMA a
pod is privileged, since /dev/infiniband is none of its devices otherwise.
"""

from __future__ import annotations

from typing import Any

from vgpu_cfg.model.ranges import HostList
from vgpu_cfg.staging.export.kubernetes_names import GPU, PLAN, QUEUE, ROLE, label_value, queue_of
from vgpu_cfg.staging.export.parts import RANK, SETTINGS_FOLDER, Exported, ExportOptions, yaml_of

SSH_PORT = 22022
"""Of the sshd in an MPIJob's workers: no port of the node's own, nor of the plan's containers."""
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 -- NCCL's ranks of one pod share memory there
_INFINIBAND = "/dev/infiniband"
_SHELL = ["sh", "-c"]
_TRAIN = "train.py"


def write_jobs(host_list: HostList, _options: ExportOptions) -> Exported:
    """Write both jobs; none of a plan without an image, since a pod needs one."""
    if not host_list.image:
        return Exported({}, ("the plan names no image, so there is no job: training: {image: IMAGE}",))
    notes = [f"mpijob.yaml and pytorchjob.yaml run {_TRAIN} of the image: write your own command there"]
    if len({host.slots for host in host_list.workers}) > 1:
        notes.append("the workers have different numbers of GPUs: the jobs take of each what the least has")
    files = {
        "mpijob.yaml": yaml_of(host_list, _mpi_job(host_list)),
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
        *["--mca", "plm_rsh_args", f"-p {SSH_PORT}"],
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
    return {"spec": spec}


def _folder_type(path: str) -> str:
    return "Directory" if path == _INFINIBAND else "DirectoryOrCreate"
