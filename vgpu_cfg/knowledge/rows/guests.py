"""Known failures that show inside guests: peers, ATS and RoCE, drivers, containers, Horovod.

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
            "the GPUs of the VM talk over PCIe although NVLink joins them: unified memory is on for a VM"
            " with several vGPUs"
        ),
        check=(
            "nvidia-smi topo -m in the guest: PIX instead of NV12",
            "govc vm.info -e VM: pciPassthru<n>.cfg.enable_uvm is 1",
        ),
        remedy="set pciPassthru<n>.cfg.enable_uvm to 0 on every vGPU of the VM",
        source="NVIDIA AI Enterprise: peer-to-peer CUDA transfers over NVLink",
    ),
    FaultRow(
        "ats-half-speed",
        (r"GPUDirect[^\n]*half", r"half[^\n]*bandwidth[^\n]*(ATS|GPUDirect)"),
        sample="GPUDirect reaches half the bandwidth after enabling ATS",
        symptom="GPUDirect reaches half the bandwidth after ATS was switched on",
        cause=(
            "ATS is not in force: the host was rebooted but not switched off after it was set, or GPU and"
            " NIC hang on different root complexes"
        ),
        check=(
            "lspci -vvv -s NIC in the guest: ATSCtl must be Enable+",
            "mlxconfig -d DEVICE -e query, where the NIC is: ATS_ENABLED must be True(1) as Current too",
            "vgpu-cfg inventory --host HOST -v: GPU and NIC on the same NUMA node",
        ),
        remedy="switch the host's power off and on; if that does not help, move the NIC beside the GPU",
        source="NVIDIA AI Enterprise 5.0 user guide, chapter 4: GPUDirect RDMA with ATS",
    ),
    FaultRow(
        "nic-firmware-no-ats",
        (r"mlxconfig[^\n]*grep[^\n]*ATS", r"ATS_ENABLED[^\n]*(not (found|supported)|unknown parameter)"),
        sample="mlxconfig -d 0000:3c:00.0 query | grep -i ATS prints nothing",
        symptom="mlxconfig does not list ATS_ENABLED",
        cause="the NIC's firmware is too old to know ATS_ENABLED",
        check=(
            "mlxconfig -d DEVICE query | grep -i ATS: prints nothing",
            "cat /sys/class/infiniband/mlx5_0/fw_ver in the guest: the firmware's version",
        ),
        remedy="update the NIC's firmware, then set ATS_ENABLED",
        source="NVIDIA AI Enterprise 5.0 user guide, chapter 4: GPUDirect RDMA with ATS",
    ),
    FaultRow(
        "gsp-firmware",
        (r"invalid feature requested for the underlying GSP firmware configuration",),
        sample=(
            "Invalid feature requested for the underlying GSP firmware configuration. Disable GSP firmware"
            " to use this feature."
        ),
        symptom="the guest's driver refuses a feature because of the GSP firmware",
        cause=(
            "the guest's driver uses the GSP firmware, which this licence does not go with on a passthrough"
            " GPU"
        ),
        check=(
            "nvidia-smi -q in the guest: a version at GSP Firmware Version means that it is in use",
            "FeatureType in /etc/nvidia/gridd.conf: 2 is the workstation licence, 4 that for compute",
        ),
        remedy="set NVreg_EnableGpuFirmware=0 for the nvidia module in the guest",
        source="NVIDIA vGPU software user guide: disabling the GSP firmware",
    ),
    FaultRow(
        "no-peer-access",
        (r"cuDeviceCanAccessPeer", r"peer access is not supported between these two devices"),
        sample="cuDeviceCanAccessPeer = 0",
        symptom="cuDeviceCanAccessPeer answers 0 although P2P is allowed",
        cause=(
            "passed-through GPUs under different root ports cannot reach each other; vGPUs never do over PCIe"
        ),
        check=(
            "nvidia-smi topo -m on the host, or in the guest: PIX or NV between the GPUs, not SYS or PHB",
            "govc vm.info -e VM: pciPassthru.allowP2P is TRUE",
        ),
        remedy="take GPUs under one switch, or GPUs joined by NVLink",
        source="NVIDIA forums; CUDA driver API: cuDeviceCanAccessPeer",
    ),
    FaultRow(
        "guest-driver-branch",
        (
            r"no devices were found",
            r"vGPU[^\n]*(disabled|unsupported)[^\n]*driver",
            r"incompatible guest/host drivers",
            r"guest VGX version is (older|newer)",
            r"\bvGPU (is )?disabled\b",
        ),
        sample=(
            "vmiop_log: (0x0): Incompatible Guest/Host drivers: Guest VGX version is older than the minimum"
            " version supported by the Host. Disabling vGPU."
        ),
        symptom="nvidia-smi in the guest finds no device, or the vGPU is disabled",
        cause="the guest's driver is too new or too old for the host's vGPU manager",
        check=(
            "dmesg | grep NVRM in the guest, and grep vmiop_log vmware.log: both name the versions",
            "nvidia-smi on the host: its driver; the guest's is of the same release or the branch before",
        ),
        remedy="install the guest driver of the host's branch",
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
            "Horovod's workers do not find each other: it took the docker0 interface, or ssh works one way"
            " only"
        ),
        check=(
            "ip -br address in every guest: whether docker0 has an address too",
            "ssh -p PORT OTHER true, from each VM's container to each other one: none may ask anything",
        ),
        remedy="exclude docker0 and lo from its interfaces, and exchange ssh keys both ways",
        source="github.com/horovod/horovod/issues/468 and its documentation",
    ),
    FaultRow(
        "nvml-lost",
        (r"failed to initialize NVML(?!: driver/library)",),
        sample="Failed to initialize NVML: Unknown Error",
        symptom="a container that had a GPU has lost it",
        cause="a container lost its GPU: systemd manages cgroups and reloaded its units",
        check=(
            "docker info: Cgroup Driver is systemd",
            "nvidia-smi in the guest, outside the container: it still shows the GPU",
        ),
        remedy="pass the devices by name or CDI, or use the cgroupfs driver",
        source="github.com/NVIDIA/nvidia-container-toolkit: its troubleshooting page; recalled",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "mig-instances-lost",
        (
            r"compute instances?[^\n]*(lost|gone|missing|no longer)",
            r"half[^\n]*MIG[^\n]*(count|devices|instances)",
        ),
        sample="compute instances are gone after the reboot",
        symptom="a VM has fewer MIG devices after its restart",
        cause="compute instances made inside a guest do not outlive its restart",
        check=("nvidia-smi mig -lci in the guest: the instances that are there",),
        remedy="make them again at each boot",
        source="https://docs.nvidia.com/datacenter/tesla/mig-user-guide; the wording is recalled",
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
            "flow control differs on the way: pfctx and pfcrx are not alike, the trust mode differs, or the"
            " switch's MTU is smaller than the NIC's"
        ),
        check=(
            "esxcli system module parameters list -m nmlx5_core on the host: pfctx equals pfcrx; trust_state",
            "mlnx_qos -i INTERFACE in the guest: the trust state, and PFC for priority 3",
            "ping -M do -s 8972 PEER between guests with MTU 9000: it must get through",
        ),
        remedy="set pfctx equal to pfcrx, one trust mode everywhere, and an MTU of 9216 on the switch",
        source="NVIDIA's RoCE documents; the wording is recalled",
        confidence=Confidence.INFERRED,
    ),
)
