"""Known failures of containers with GPUs: Docker, containerd, NVIDIA's container toolkit."""

from __future__ import annotations

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow

CONTAINER_ROWS = (
    FaultRow(
        "docker-no-gpu-driver",
        (r"could not select device driver(?! 'cdi')",),
        sample=(
            'docker: Error response from daemon: could not select device driver "" with capabilities:'
            " [[gpu]]."
        ),
        symptom="Docker has no driver for GPUs",
        cause=(
            "in this order: the NVIDIA Container Toolkit is not installed, Docker was not restarted after its"
            " installation, Docker is installed as a snap and cannot see it"
        ),
        check=(
            "nvidia-ctk --version; nvidia-smi in the guest, outside any container: both must work",
            "docker info: nvidia is listed under Runtimes; snap list docker: Docker should not be listed",
        ),
        remedy=(
            "install nvidia-container-toolkit, then run nvidia-ctk runtime configure --runtime=docker and"
            " systemctl restart docker"
        ),
        source="github.com/NVIDIA/nvidia-docker/issues/1034 and 1637",
    ),
    FaultRow(
        "container-driver-not-loaded",
        (r"nvidia-container-cli[^\n]*driver not loaded", r"nvml error: driver not loaded"),
        sample="nvidia-container-cli: initialization error: nvml error: driver not loaded",
        symptom="a container does not start: the NVIDIA driver is not loaded in the guest",
        cause=(
            "the guest's driver is not installed, not built for its kernel, or was blocked by nouveau or"
            " Secure Boot"
        ),
        check=(
            "nvidia-smi in the guest, outside any container: it also fails",
            "lsmod | grep nvidia; dmesg | grep -i nvidia",
        ),
        remedy=(
            "fix the guest driver first: run `vgpu-cfg explain` on the error that nvidia-smi reports in the"
            " guest"
        ),
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
            "the driver's libraries are not installed in the guest, or the runtime runs in a snap or a"
            " separate VM that cannot see them"
        ),
        check=(
            "ldconfig -p | grep libnvidia-ml in the guest: its location",
            "snap list docker; docker context ls: which daemon responds",
        ),
        remedy=(
            "install the complete guest driver, including its libraries; use Docker from its packages, not"
            " the snap or Docker Desktop"
        ),
        source=(
            "github.com/docker/for-win/issues/13835; github.com/NVIDIA/nvidia-container-toolkit/issues/154"
        ),
    ),
    FaultRow(
        "cdi-unresolvable",
        (r"unresolvable CDI devices?", r"\bCDI\b[^\n]*(unresolv|not found|no such device)"),
        sample="CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all",
        symptom="the runtime finds no CDI device with that name",
        cause=(
            "the CDI specification was never generated, or was generated before the GPUs or the driver"
            " changed"
        ),
        check=(
            "nvidia-ctk cdi list: the available names",
            "ls -l /etc/cdi /var/run/cdi: the specifications and their age",
        ),
        remedy=(
            "run nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, and again after each change of the"
            " driver, GPUs, or MIG"
        ),
        source=(
            "NVIDIA Container Toolkit documentation: Container Device Interface; wording from memory, not"
            " verified"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "runtime-nvidia-unknown",
        (r"unknown or invalid runtime name: nvidia", r"unknown runtime[^\n]*nvidia"),
        sample="docker: Error response from daemon: unknown or invalid runtime name: nvidia.",
        symptom="Docker does not recognize the nvidia runtime",
        cause=(
            "daemon.json does not define this runtime, or Docker was not restarted after the file was changed"
        ),
        check=("cat /etc/docker/daemon.json: runtimes; docker info: Runtimes",),
        remedy="run nvidia-ctk runtime configure --runtime=docker, then systemctl restart docker",
        source="NVIDIA Container Toolkit installation guide; wording from memory, not verified",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "container-cuda-requirement",
        (r"unsatisfied condition: cuda ?>=", r"requirement error[^\n]*cuda"),
        sample=(
            "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your"
            " driver to a newer version"
        ),
        symptom="the image requires a newer CUDA version than the guest driver supports",
        cause=(
            "the image specifies the minimum CUDA version that it requires (NVIDIA_REQUIRE_CUDA), and the"
            " driver is too old"
        ),
        check=("nvidia-smi in the guest: CUDA Version in the header",),
        remedy=(
            "use an older image, or a newer guest driver from a branch that the host's vGPU manager supports"
        ),
        source="NVIDIA Container Toolkit documentation: NVIDIA_REQUIRE_*; wording from memory, not verified",
        confidence=Confidence.INFERRED,
        words="image too new",
    ),
    FaultRow(
        "container-shm",
        (
            r"dev/shm/nccl-",
            r"insufficient shared memory",
            r"shared memory segment[^\n]*(size|creat|nccl)",
            r"DataLoader worker[^\n]*(bus error|out of shared memory)",
            r"call to posix_fallocate failed",
            r"no space left on device: '?/dev/shm",
        ),
        sample="NCCL WARN Error while creating shared memory segment /dev/shm/nccl-9vUQ7L (size 9637888)",
        symptom="a container runs out of shared memory",
        cause="Docker's default /dev/shm size is 64 MB per container; NCCL and data loaders need more",
        check=("df -h /dev/shm in the container: its size",),
        remedy=(
            "use docker run with --shm-size=1g --ulimit memlock=-1 (or --ipc=host); `vgpu-cfg` sets this for"
            " its workers"
        ),
        source=(
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html; wording from"
            " memory, not verified"
        ),
        confidence=Confidence.INFERRED,
        words="bus error dataloader",
    ),
)
