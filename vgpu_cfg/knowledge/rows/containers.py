"""Known failures of containers with GPUs: Docker, containerd, NVIDIA's container toolkit."""

from __future__ import annotations

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow

CONTAINER_ROWS = (
    FaultRow(
        "docker-no-gpu-driver",
        (r"could not select device driver[^\n]*capabilit", r"could not select device driver"),
        sample=(
            'docker: Error response from daemon: could not select device driver "" with capabilities:'
            " [[gpu]]."
        ),
        symptom="Docker knows no driver for GPUs",
        cause=(
            "in this order: NVIDIA's container toolkit is not installed, Docker was not restarted after it,"
            " Docker is a snap that does not see it"
        ),
        check=(
            "nvidia-ctk --version; nvidia-smi in the guest, outside any container: both must answer",
            "docker info: Runtimes names nvidia; snap list docker: it should not be there",
        ),
        remedy=(
            "install nvidia-container-toolkit, nvidia-ctk runtime configure --runtime=docker, systemctl"
            " restart docker"
        ),
        source="github.com/NVIDIA/nvidia-docker/issues/1034 and 1637",
    ),
    FaultRow(
        "container-driver-not-loaded",
        (r"nvidia-container-cli[^\n]*driver not loaded", r"nvml error: driver not loaded"),
        sample="nvidia-container-cli: initialization error: nvml error: driver not loaded",
        symptom="a container does not start: the NVIDIA driver is not loaded in the guest",
        cause=(
            "the guest's own driver is not installed, not built for its kernel, or was kept out by nouveau"
            " or Secure Boot"
        ),
        check=(
            "nvidia-smi in the guest, outside any container: it fails, too",
            "lsmod | grep nvidia; dmesg | grep -i nvidia",
        ),
        remedy="bring the guest's driver up first: `vgpu-cfg explain` what nvidia-smi says there",
        source=(
            "github.com/NVIDIA/nvidia-docker/issues/1393;"
            " github.com/NVIDIA/nvidia-container-toolkit/issues/1269"
        ),
    ),
    FaultRow(
        "container-no-libnvidia-ml",
        (r"libnvidia-ml\.so(\.1)?:? cannot open", r"load library failed: libnvidia-ml"),
        sample=(
            "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open"
            " shared object file: no such file or directory: unknown."
        ),
        symptom="a container does not start: libnvidia-ml is not found",
        cause=(
            "the driver's libraries are not installed in the guest, or the runtime is in a snap or a VM of"
            " its own that does not see them"
        ),
        check=(
            "ldconfig -p | grep libnvidia-ml in the guest: where it is",
            "snap list docker; docker context ls: which daemon answers",
        ),
        remedy=(
            "install the guest driver whole (libraries, too); use Docker from its packages, not the snap or"
            " Docker Desktop"
        ),
        source=(
            "github.com/docker/for-win/issues/13835; github.com/NVIDIA/nvidia-container-toolkit/issues/154"
        ),
    ),
    FaultRow(
        "cdi-unresolvable",
        (r"unresolvable CDI devices?", r"\bCDI\b[^\n]*(unresolv|not found|no such device)"),
        sample="CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all",
        symptom="the runtime finds no CDI device of that name",
        cause="the CDI specification was never generated, or before GPUs or the driver changed",
        check=(
            "nvidia-ctk cdi list: the names there are",
            "ls /etc/cdi /var/run/cdi: the specifications, and their age",
        ),
        remedy=(
            "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, again after each change of driver, GPUs"
            " or MIG"
        ),
        source="NVIDIA Container Toolkit documentation: Container Device Interface; the wording is recalled",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "runtime-nvidia-unknown",
        (r"unknown or invalid runtime name: nvidia", r"unknown runtime[^\n]*nvidia"),
        sample="docker: Error response from daemon: unknown or invalid runtime name: nvidia.",
        symptom="Docker does not know the runtime nvidia",
        cause="daemon.json names no such runtime, or Docker was not restarted after it was written",
        check=("cat /etc/docker/daemon.json: runtimes; docker info: Runtimes",),
        remedy="nvidia-ctk runtime configure --runtime=docker, then systemctl restart docker",
        source="NVIDIA Container Toolkit installation guide; the wording is recalled",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "container-cuda-requirement",
        (r"unsatisfied condition: cuda ?>=", r"requirement error[^\n]*cuda"),
        sample=(
            "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your"
            " driver to a newer version"
        ),
        symptom="the image wants a newer CUDA than the guest's driver has",
        cause=(
            "the image states the lowest CUDA that it runs with (NVIDIA_REQUIRE_CUDA), and the driver is"
            " older"
        ),
        check=("nvidia-smi in the guest: CUDA Version at its top",),
        remedy="take an older image, or a newer guest driver of a branch that the host's vGPU manager takes",
        source="NVIDIA Container Toolkit documentation: NVIDIA_REQUIRE_*; the wording is recalled",
        confidence=Confidence.INFERRED,
        words="image too new",
    ),
    FaultRow(
        "container-shm",
        (r"dev/shm/nccl-", r"insufficient shared memory", r"shared memory segment[^\n]*(size|creat|nccl)"),
        sample="NCCL WARN Error while creating shared memory segment /dev/shm/nccl-9vUQ7L (size 9637888)",
        symptom="a container runs out of shared memory",
        cause="Docker gives a container 64 MB of /dev/shm; NCCL and data loaders need more",
        check=("df -h /dev/shm in the container: its size",),
        remedy=(
            "docker run with --shm-size=1g --ulimit memlock=-1 (or --ipc=host); `vgpu-cfg` workers have it"
        ),
        source=(
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html; the wording is"
            " recalled"
        ),
        confidence=Confidence.INFERRED,
        words="bus error dataloader",
    ),
)
