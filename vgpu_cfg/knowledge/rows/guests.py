"""Known failures that show inside guests: peers, ATS and RoCE, drivers, containers with GPUs, Horovod.

Sources: NVIDIA AI Enterprise user guides, NVIDIA forums, issues of nccl-tests and Horovod,
NVIDIA's container toolkit. Rows marked inferred follow from a documented rule.
"""

from __future__ import annotations

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow

GUEST_ROWS = (
    FaultRow(
        "p2p-through-pcie",
        (r"\bPIX\b[^\n]*\b(not|instead of|where)\b[^\n]*\bNV\d+", r"\bNCCL\b[^\n]*slow[^\n]*\bPIX\b"),
        sample="topology shows PIX instead of NV12",
        symptom="NCCL is slow, and the guest's topology shows PIX where NVLink should be",
        cause=(
            "the VM's GPUs communicate over PCIe despite their NVLink connection, because unified memory is"
            " enabled for several vGPUs"
        ),
        check=(
            "nvidia-smi topo -m in the guest: PIX instead of NV12",
            "govc vm.info -e VM: pciPassthru<n>.cfg.enable_uvm is 1",
        ),
        remedy="set pciPassthru<n>.cfg.enable_uvm to 0 for every vGPU of the VM",
        source="NVIDIA AI Enterprise: peer-to-peer CUDA transfers over NVLink",
    ),
    FaultRow(
        "ats-half-speed",
        (r"GPUDirect[^\n]*half", r"half[^\n]*bandwidth[^\n]*(ATS|GPUDirect)"),
        sample="GPUDirect reaches half the bandwidth after enabling ATS",
        symptom="GPUDirect reaches only half the bandwidth after ATS was enabled",
        cause=(
            "ATS is not active because the host was rebooted but not power-cycled after ATS was enabled, or"
            " the GPU and NIC are on different root complexes"
        ),
        check=(
            "lspci -vvv -s NIC in the guest: ATSCtl must be Enable+",
            (
                "mlxconfig -d DEVICE -e query on the machine with the NIC: the Current value of ATS_ENABLED"
                " must also be True(1)"
            ),
            "vgpu-cfg inventory --host HOST -v: GPU and NIC on the same NUMA node",
        ),
        remedy="power-cycle the host; if this does not help, move the NIC to a slot near the GPU",
        source="NVIDIA AI Enterprise 5.0 user guide, chapter 4: GPUDirect RDMA with ATS",
    ),
    FaultRow(
        "nic-firmware-no-ats",
        (r"mlxconfig[^\n]*grep[^\n]*ATS", r"ATS_ENABLED[^\n]*(not (found|supported)|unknown parameter)"),
        sample="mlxconfig -d 0000:3c:00.0 query | grep -i ATS prints nothing",
        symptom="mlxconfig does not list ATS_ENABLED",
        cause="the NIC's firmware is too old to support ATS_ENABLED",
        check=(
            "mlxconfig -d DEVICE query | grep -i ATS: no output",
            "cat /sys/class/infiniband/mlx5_0/fw_ver in the guest: the firmware version",
        ),
        remedy="update the NIC's firmware, and then set ATS_ENABLED",
        source="NVIDIA AI Enterprise 5.0 user guide, chapter 4: GPUDirect RDMA with ATS",
    ),
    FaultRow(
        "gsp-firmware",
        (r"invalid feature requested for the underlying GSP firmware configuration",),
        sample=(
            "Invalid feature requested for the underlying GSP firmware configuration. Disable GSP firmware"
            " to use this feature."
        ),
        symptom="the guest driver rejects a feature because of the GSP firmware",
        cause=(
            "the guest driver uses the GSP firmware, which does not support this license type for"
            " passthrough GPUs"
        ),
        check=(
            "nvidia-smi -q in the guest: if GSP Firmware Version shows a version, the GSP firmware is in use",
            (
                "FeatureType in /etc/nvidia/gridd.conf: 2 is the workstation license, and 4 is the compute"
                " license"
            ),
        ),
        remedy="set NVreg_EnableGpuFirmware=0 for the nvidia module in the guest",
        source="NVIDIA vGPU software user guide: disabling the GSP firmware",
    ),
    FaultRow(
        "no-peer-access",
        (
            r"cuDeviceCanAccessPeer",
            r"(?<!Cuda\x20failure\x20217\x20')(?<!')peer access is not supported between these two devices",
            r"cudaErrorPeerAccessUnsupported|CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
        ),
        sample="cuDeviceCanAccessPeer = 0",
        symptom="cuDeviceCanAccessPeer returns 0 even though P2P is allowed",
        cause=(
            "passthrough GPUs under different root ports cannot access each other, and vGPUs can never do"
            " so over PCIe"
        ),
        check=(
            (
                "nvidia-smi topo -m on the host or in the guest: the connection between the GPUs must be"
                " PIX or NV, not SYS or PHB"
            ),
            "govc vm.info -e VM: pciPassthru.allowP2P is TRUE",
        ),
        remedy="use GPUs under the same PCIe switch, or GPUs connected by NVLink",
        source="NVIDIA forums; CUDA driver API: cuDeviceCanAccessPeer",
    ),
    FaultRow(
        "guest-driver-branch",
        (
            r"vGPU[^\n]*(disabled|unsupported)[^\n]*driver",
            r"incompatible guest/host drivers",
            r"guest VGX version is (older|newer)",
            r"\bvGPU (is )?disabled\b",
        ),
        sample=(
            "vmiop_log: (0x0): Incompatible Guest/Host drivers: Guest VGX version is older than the minimum"
            " version supported by the Host. Disabling vGPU."
        ),
        symptom="nvidia-smi in the guest finds no devices, or the vGPU is disabled",
        cause="the guest driver is too new or too old for the host's vGPU manager",
        check=(
            "dmesg | grep NVRM in the guest, and grep vmiop_log vmware.log: both show the versions",
            (
                "nvidia-smi on the host: the guest driver must be from the host driver's release or the"
                " previous branch"
            ),
        ),
        remedy="install a guest driver from the same branch as the host driver",
        source=(
            "https://docs.nvidia.com/vgpu/19.0/grid-vgpu-release-notes-vmware-vsphere (compatibility);"
            " github.com/mbilker/vgpu_unlock-rs/issues/10"
        ),
    ),
    FaultRow(
        "hvd-init-hangs",
        (r"(hang|stuck|stall|block)[^\n]*hvd\.init\(\)", r"hvd\.init\(\)[^\n]*(hang|stuck|stall|block)"),
        sample="training hangs at hvd.init()",
        symptom="training hangs at hvd.init()",
        cause=(
            "Horovod's workers cannot find each other because Horovod chose the docker0 interface or SSH"
            " works in only one direction"
        ),
        check=(
            "ip -br address in every guest: whether docker0 also has an IP address",
            (
                "ssh -p PORT OTHER true from each VM's container to every other one: no connection may"
                " prompt for input"
            ),
        ),
        remedy="exclude docker0 and lo from Horovod's interfaces, and exchange SSH keys in both directions",
        source="github.com/horovod/horovod/issues/468 and its documentation",
    ),
    FaultRow(
        "nvml-lost",
        (r"failed to initialize NVML(?!: (driver|insufficient|function|no))",),
        sample="Failed to initialize NVML: Unknown Error",
        symptom="a container has lost its GPU",
        cause=(
            "systemd manages the cgroups, and when it reloaded its units, the container lost access to the"
            " GPU"
        ),
        check=(
            "docker info: the Cgroup Driver is systemd",
            "nvidia-smi in the guest, outside the container: the GPU is still listed",
        ),
        remedy="specify the devices by name or with CDI, or use the cgroupfs driver",
        source="github.com/NVIDIA/nvidia-container-toolkit: its troubleshooting page (from memory)",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "mig-instances-lost",
        (
            r"compute instances?[^\n]*(lost|gone|missing|no longer)",
            r"half[^\n]*MIG[^\n]*(count|devices|instances)",
        ),
        sample="compute instances are gone after the reboot",
        symptom="a VM has fewer MIG devices after a restart",
        cause="compute instances that are created inside a guest are lost when the guest restarts",
        check=("nvidia-smi mig -lci in the guest: the existing instances",),
        remedy="create the compute instances again at each boot",
        source=(
            "https://docs.nvidia.com/datacenter/tesla/mig-user-guide (wording from memory, not verified)"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "roce-drops",
        (
            r"pfc[tr]x[^\n]*(differ|mismatch|must[^\n]*equal|not (equal|the same))",
            r"RoCE[^\n]*(drop|retrans|unstable)",
        ),
        sample="RoCE is unstable, with drops",
        symptom="RoCE is unstable and drops packets",
        cause=(
            "flow control differs along the path: pfctx and pfcrx differ, the trust mode differs, or the"
            " switch's MTU is smaller than the NIC's"
        ),
        check=(
            "esxcli system module parameters list -m nmlx5_core on the host: pfctx equals pfcrx; trust_state",
            "mlnx_qos -i INTERFACE in the guest: the trust state and PFC for priority 3",
            "ping -M do -s 8972 PEER between guests with MTU 9000: the ping must succeed",
        ),
        remedy=(
            "set pfctx and pfcrx to the same value, use the same trust mode everywhere, and set the"
            " switch's MTU to 9216"
        ),
        source="NVIDIA's RoCE documents (wording from memory, not verified)",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "apt-locked",
        (
            r"could not get lock /var/lib/(dpkg/lock(-frontend)?|apt/lists/lock)",
            r"unable to (lock directory /var/lib/apt/lists|acquire the dpkg frontend lock)",
            r"waiting for cache lock",
            r"dpkg frontend lock was locked by another process",
            r"failed to lock (apt for exclusive operation|directory /var/lib/)",
        ),
        sample="E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 812 (apt-get)",
        symptom="another process is using the package manager",
        cause=(
            "apt-daily or unattended-upgrades is running, as is common in the first minutes after the first"
            " boot"
        ),
        check=(
            "fuser -v /var/lib/dpkg/lock-frontend /var/lib/apt/lists/lock: the process that holds the lock",
            "systemctl list-timers apt-daily apt-daily-upgrade",
            "journalctl -u apt-daily -u unattended-upgrades",
        ),
        remedy=(
            "wait until the process has ended, and then run the command again; do not delete the lock file,"
            " but in templates, disable the timers apt-daily and apt-daily-upgrade"
        ),
        source="apt: messages of apt-pkg (init.cc, debsystem.cc), apt.conf(5) DPkg::Lock::Timeout",
        is_verbatim=True,
    ),
    FaultRow(
        "ssh-key-refused",
        (r"permission denied \(publickey",),
        sample="Permission denied (publickey,password).",
        symptom="an SSH server does not accept any of the client's keys",
        cause=(
            "the public key is not on the account because a different account or key is used or cloud-init"
            " did not add it, or other users can write to the home folder or authorized_keys"
        ),
        check=(
            "ssh -v ACCOUNT@GUEST: the keys that the client offers",
            "on the guest's console: the sshd journal, and the owner and mode of ~/.ssh/authorized_keys",
            "cloud-init status --long in the guest",
        ),
        remedy="add the public key to the account, or specify the correct account and key",
        source="OpenSSH: sshconnect2.c; sshd(8), StrictModes and authorized_keys",
        is_verbatim=True,
    ),
)


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
            "check in this order: the NVIDIA Container Toolkit is not installed, Docker was not restarted"
            " after its installation, or Docker is installed as a snap, which cannot use the toolkit"
        ),
        check=(
            "nvidia-ctk --version; nvidia-smi in the guest, outside any container: both commands must work",
            (
                "docker info: nvidia must be listed under Runtimes; snap list docker: Docker must not be"
                " listed"
            ),
        ),
        remedy=(
            "install nvidia-container-toolkit, and then run nvidia-ctk runtime configure --runtime=docker"
            " and systemctl restart docker"
        ),
        source="github.com/NVIDIA/nvidia-docker/issues/1034 and 1637",
    ),
    FaultRow(
        "container-driver-not-loaded",
        (r"nvidia-container-cli[^\n]*driver not loaded", r"nvml error: driver not loaded"),
        sample="nvidia-container-cli: initialization error: nvml error: driver not loaded",
        symptom="a container does not start because the NVIDIA driver is not loaded in the guest",
        cause=(
            "the guest's driver is not installed or was not built for its kernel, or nouveau or Secure Boot"
            " blocked the driver"
        ),
        check=(
            "nvidia-smi in the guest, outside any container: this command also fails",
            "lsmod | grep nvidia; dmesg | grep -i nvidia",
        ),
        remedy=(
            "fix the guest driver first, using `vgpu-cfg explain` on the error that nvidia-smi reports in"
            " the guest"
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
        symptom="a container does not start because libnvidia-ml is not found",
        cause=(
            "the driver's libraries are not installed in the guest, or the container runtime runs in a snap"
            " or a separate VM that cannot access them"
        ),
        check=(
            "ldconfig -p | grep libnvidia-ml in the guest: the library's location",
            "snap list docker; docker context ls: which Docker daemon responds",
        ),
        remedy=(
            "install the complete guest driver with its libraries, and install Docker from packages instead"
            " of the snap or Docker Desktop"
        ),
        source=(
            "github.com/docker/for-win/issues/13835; github.com/NVIDIA/nvidia-container-toolkit/issues/154"
        ),
    ),
    FaultRow(
        "cdi-unresolvable",
        (r"unresolvable CDI devices?", r"\bCDI\b[^\n]*(unresolv|not found|no such device)"),
        sample="CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all",
        symptom="the runtime cannot find a CDI device with that name",
        cause=(
            "the CDI specification was never generated, or the GPUs or the driver have changed since it was"
            " generated"
        ),
        check=(
            "nvidia-ctk cdi list: the available device names",
            "ls -l /etc/cdi /var/run/cdi: the specifications and their age",
        ),
        remedy=(
            "run nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, and repeat this after each change"
            " to the driver, GPUs, or MIG"
        ),
        source=(
            "NVIDIA Container Toolkit documentation: Container Device Interface (wording from memory,"
            " not verified)"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "runtime-nvidia-unknown",
        (r"unknown or invalid runtime name: nvidia", r"unknown runtime[^\n]*nvidia"),
        sample="docker: Error response from daemon: unknown or invalid runtime name: nvidia.",
        symptom="Docker does not recognize the nvidia runtime",
        cause=(
            "daemon.json does not define this runtime, or Docker was not restarted after daemon.json was"
            " changed"
        ),
        check=("cat /etc/docker/daemon.json: the runtimes section; docker info: the Runtimes line",),
        remedy="run nvidia-ctk runtime configure --runtime=docker, and then systemctl restart docker",
        source="NVIDIA Container Toolkit installation guide (wording from memory, not verified)",
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
            " driver is too old for that version"
        ),
        check=("nvidia-smi in the guest: the CUDA version in the header",),
        remedy=(
            "use an older image, or a newer guest driver from a branch that the host's vGPU manager supports"
        ),
        source=(
            "NVIDIA Container Toolkit documentation: NVIDIA_REQUIRE_* (wording from memory, not verified)"
        ),
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
        cause=(
            "by default, Docker limits /dev/shm to 64 MB per container, which is too small for NCCL and"
            " data loaders"
        ),
        check=("df -h /dev/shm in the container: the size of /dev/shm",),
        remedy=(
            "use docker run with --shm-size=1g --ulimit memlock=-1 (or --ipc=host); `vgpu-cfg` sets these"
            " for its workers"
        ),
        source=(
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html (wording"
            " from memory, not verified)"
        ),
        confidence=Confidence.INFERRED,
        words="bus error dataloader",
    ),
)
