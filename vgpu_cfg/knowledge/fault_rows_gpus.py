"""Known failures of GPUs and of the hosts that hold them: modes, drivers, placement, maintenance.

Sources: NVIDIA AI Enterprise user guides, NVIDIA forums, Broadcom knowledge base,
Frank Denneman's articles. Rows marked inferred follow from a documented rule.
"""

from __future__ import annotations

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow

GPU_ROWS = (
    FaultRow(
        "mig-pending",
        (
            r"MIG mode[^\n]*pending",
            r"MIG[^\n]*pending (mode )?enable",
            r"pending[^\n]*MIG",
            r"MIG stays pending",
        ),
        symptom="MIG mode stays pending",
        cause=(
            "the change of MIG mode waits: something still uses the GPU, or an Ampere host was not rebooted"
        ),
        check=(
            (
                "nvidia-smi --query-gpu=pci.bus_id,mig.mode.current,mig.mode.pending --format=csv on the"
                " host: the two modes differ"
            ),
            "nvidia-smi vgpu on the host: the VMs whose vGPUs hold the GPU",
        ),
        remedy="stop what uses the GPU; on Ampere reboot the host",
    ),
    FaultRow(
        "fragmented-by-breadth",
        (r"larger profile[^\n]*(cannot|does not|fails)", r"GPUs? half[- ]empty"),
        symptom="a larger profile does not start although GPUs are half empty",
        cause="the host spreads small vGPUs over all GPUs, so that none is left whole for a large one",
        check=(
            "vgpu-cfg inventory --host HOST -v: small vGPUs on every GPU",
            "esxcli graphics host get: Shared Passthru Assignment Policy is Performance",
        ),
        remedy="set the assignment policy to consolidation, or power the large ones on first",
    ),
    FaultRow(
        "placement-gaps",
        (
            r"placement id",
            r"no (valid|free) placement",
            r"fits by (the )?sum",
        ),
        symptom="a vGPU of another size fits by the sum and does not start",
        cause=(
            "mixed-size vGPUs may start only at set places of the framebuffer, and the free ones do not"
            " hold it"
        ),
        check=(
            "nvidia-smi vgpu -s -v on the host: the places where each type may start",
            "vgpu-cfg inventory --host HOST -v: what stands on the GPU",
        ),
        remedy="power the large vGPUs on first; power off a small one that stands in the way",
    ),
    FaultRow(
        "mig-4g-slice",
        (
            r"\b4g\.\d+gb\b[^\n]*(fail|insufficient|no )",
            r"(fail|insufficient|unable)[^\n]*\b4g\.\d+gb\b",
            r"(4|four)-slice MIG profile (fails|does not)",
        ),
        symptom="a four-slice MIG profile does not start while other slices are in use",
        cause="a four-slice MIG instance may start at slice 0 only, and something stands there",
        check=("nvidia-smi mig -lgi on the host: the column Start:Size of the instances",),
        remedy="power the four-slice VM on first",
    ),
    FaultRow(
        "graphics-driver-only",
        (r"only B(-series)?[^\n]*Q(-series)?[^\n]*(profiles|types)", r"no C-series (profiles|types)"),
        symptom="profiles are missing: only B and Q types are shown",
        cause=(
            "the host has the vGPU driver for graphics, not that of NVIDIA AI Enterprise: it offers B and Q"
            " profiles only"
        ),
        check=(
            "esxcli software vib list: the driver's name does not begin with NVD-AIE",
            "nvidia-smi vgpu -s on the host: no type ends with c",
        ),
        remedy="install the NVIDIA AI Enterprise host driver",
    ),
    FaultRow(
        "driver-does-not-claim",
        (r"module name: pciPassthru",),
        symptom="the NVIDIA driver does not claim the GPU: its module is pciPassthru",
        cause="the GPU was handed through before the NVIDIA driver came, so the driver does not claim it",
        check=(
            "esxcli hardware pci list: Module Name of the GPU is pciPassthru, not nvidia",
            "Host > Configure > Hardware > PCI Devices: the GPU is among those enabled for passthrough",
        ),
        remedy="take passthrough off the GPU, then reboot the host",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "t4-sriov",
        (r"\bT4\b[^\n]*SR-?IOV[^\n]*reboot", r"SR-?IOV[^\n]*reboot[^\n]*\bT4\b"),
        symptom="a T4 shows for ever that SR-IOV needs a reboot",
        cause="SR-IOV was switched on in vCenter for a T4, which neither has nor needs it",
        check=("Host > Configure > Hardware > PCI Devices: SR-IOV of the T4, Enabled / Needs reboot",),
        remedy="switch SR-IOV off for the T4 again",
    ),
    FaultRow(
        "fabric-manager-missing",
        (r"fabric manager[^\n]*(not|missing|fail)", r"\bB[23]00\b[^\n]*NVLink"),
        symptom="no NVLink on an HGX B200 or B300",
        cause=(
            "the Fabric Manager does not run on the host; NVIDIA AI Enterprise Infra 9.0 lacks it for B200"
            " and B300"
        ),
        check=(
            "/etc/init.d/nvdGpuMgmtDaemon status on the host: it must be running",
            "esxcli software component list: the version of the NVD component",
        ),
        remedy=(
            "use a driver that carries it (Infra 8.2), and see /etc/init.d/nvdGpuMgmtDaemon status on the"
            " host"
        ),
    ),
    FaultRow(
        "passthrough-on-nvswitch",
        (r"\b(HGX|NVSwitch)\b[^\n]*passthrough", r"passthrough[^\n]*\b(HGX|NVSwitch)\b"),
        symptom="GPU passthrough on an HGX server fails, or has no NVLink",
        cause="GPU passthrough is not supported on NVSwitch servers up to NVIDIA AI Enterprise Infra 8",
        check=("esxcli hardware pci list: the host has NVSwitch bridges beside its GPUs",),
        remedy="use full vGPUs or NVLink device groups",
    ),
    FaultRow(
        "maintenance-blocked",
        (
            r"(cannot|unable to|failed to|not) enter maintenance mode",
            r"maintenance mode[^\n]*(timed out|blocked)",
        ),
        symptom="a host does not enter maintenance mode",
        cause="running vGPU VMs are not moved away by themselves (before 7.0 U3f, or with the option unset)",
        check=(
            "nvidia-smi vgpu on the host: the VMs that still run there with a vGPU",
            "Cluster > Configure > vSphere DRS > Advanced Options: VgpuMMAutomationTimeoutSecs",
        ),
        remedy="power them off or move them; or set VgpuMMAutomationTimeoutSecs to -1 for the cluster's DRS",
    ),
    FaultRow(
        "mode-reverted",
        (
            r"(mixed[- ]size|MIG)[^\n]*(reset|reverted|off|disabled)[^\n]*(after|by)[^\n]*reboot",
            r"\bmode (is |was )?reverted",
        ),
        symptom="mixed-size or MIG mode is off again after a reboot",
        cause="a reboot of the host resets the mixed-size mode, and MIG mode from Hopper on",
        check=(
            "vgpu-cfg inventory --host HOST: the mode of each GPU",
            "nvidia-smi --query-gpu=pci.bus_id,name,mig.mode.current --format=csv on the host",
        ),
        remedy="set the mode again after each reboot, before the first VM is powered on",
        confidence=Confidence.INFERRED,
    ),
)
