"""Known failures of hosts, GPUs, networks and guests, as they show in logs and on consoles.

Sources: NVIDIA AI Enterprise user guides, NVIDIA forums, Broadcom knowledge base,
Frank Denneman's articles, Horovod's issues. Rows marked inferred follow from a documented rule.
"""

from __future__ import annotations

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow

FLEET_ROWS = (
    FaultRow(
        "interrupt-vectors",
        (
            r"(out of|no (more|free)|exhaust\w*|insufficient)[^\n]*(interrupt|MSI-?X) vectors?",
            r"intrFirstMsixVector",
        ),
        cause="the host ran out of MSI-X interrupt vectors (ESXi 7.0.1 to 8.0, many passthrough devices)",
        remedy="set the kernel option intrFirstMsixVector as Broadcom KB 313395 says, then reboot the host",
    ),
    FaultRow(
        "p2p-through-pcie",
        (r"\bPIX\b[^\n]*\b(not|instead of|where)\b[^\n]*\bNV\d+", r"\bNCCL\b[^\n]*slow[^\n]*\bPIX\b"),
        cause=(
            "the GPUs of the VM talk over PCIe although NVLink joins them: unified memory is on for a VM"
            " with several vGPUs"
        ),
        remedy="set pciPassthru<n>.cfg.enable_uvm to 0 on every vGPU of the VM",
    ),
    FaultRow(
        "ats-half-speed",
        (r"GPUDirect[^\n]*half", r"half[^\n]*bandwidth[^\n]*(ATS|GPUDirect)"),
        cause=(
            "ATS is not in force: the host was rebooted but not switched off after it was set, or GPU and"
            " NIC hang on different root complexes"
        ),
        remedy="switch the host's power off and on; if that does not help, move the NIC beside the GPU",
    ),
    FaultRow(
        "nic-firmware-no-ats",
        (r"mlxconfig[^\n]*grep[^\n]*ATS", r"ATS_ENABLED[^\n]*(not (found|supported)|unknown parameter)"),
        cause="the NIC's firmware is too old to know ATS_ENABLED",
        remedy="update the NIC's firmware, then set ATS_ENABLED",
    ),
    FaultRow(
        "mig-pending",
        (r"MIG mode[^\n]*pending", r"MIG[^\n]*pending (mode )?enable", r"pending[^\n]*MIG"),
        cause=(
            "the change of MIG mode waits: something still uses the GPU, or an Ampere host was not rebooted"
        ),
        remedy="stop what uses the GPU; on Ampere reboot the host",
    ),
    FaultRow(
        "fragmented-by-breadth",
        (r"larger profile[^\n]*(cannot|does not|fails)", r"GPUs? half[- ]empty"),
        cause="the host spreads small vGPUs over all GPUs, so that none is left whole for a large one",
        remedy="set the assignment policy to consolidation, or power the large ones on first",
    ),
    FaultRow(
        "placement-gaps",
        (r"placement id", r"no (valid|free) placement"),
        cause=(
            "mixed-size vGPUs may start only at set places of the framebuffer, and the free ones do not"
            " hold it"
        ),
        remedy="power the large vGPUs on first; power off a small one that stands in the way",
    ),
    FaultRow(
        "mig-4g-slice",
        (r"\b4g\.\d+gb\b[^\n]*(fail|insufficient|no )", r"(fail|insufficient|unable)[^\n]*\b4g\.\d+gb\b"),
        cause="a four-slice MIG instance may start at slice 0 only, and something stands there",
        remedy="power the four-slice VM on first",
    ),
    FaultRow(
        "graphics-driver-only",
        (r"only B(-series)?[^\n]*Q(-series)?[^\n]*(profiles|types)", r"no C-series (profiles|types)"),
        cause=(
            "the host has the vGPU driver for graphics, not that of NVIDIA AI Enterprise: it offers B and Q"
            " profiles only"
        ),
        remedy="install the NVIDIA AI Enterprise host driver",
    ),
    FaultRow(
        "driver-does-not-claim",
        (r"module name: pciPassthru",),
        cause="the GPU was handed through before the NVIDIA driver came, so the driver does not claim it",
        remedy="take passthrough off the GPU, then reboot the host",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "console-black",
        (r"console[^\n]*\bblack\b", r"black (console|screen)"),
        cause=(
            "once the guest's NVIDIA driver runs, the vGPU owns the display: vSphere's console stays black"
        ),
        remedy="this is expected: use SSH or VNC",
    ),
    FaultRow(
        "gsp-firmware",
        (r"invalid feature requested for the underlying GSP firmware configuration",),
        cause=(
            "the guest's driver uses the GSP firmware, which this licence does not go with on a passthrough"
            " GPU"
        ),
        remedy="set NVreg_EnableGpuFirmware=0 for the nvidia module in the guest",
    ),
    FaultRow(
        "t4-sriov",
        (r"\bT4\b[^\n]*SR-?IOV[^\n]*reboot", r"SR-?IOV[^\n]*reboot[^\n]*\bT4\b"),
        cause="SR-IOV was switched on in vCenter for a T4, which neither has nor needs it",
        remedy="switch SR-IOV off for the T4 again",
    ),
    FaultRow(
        "no-peer-access",
        (r"cuDeviceCanAccessPeer",),
        cause=(
            "passed-through GPUs under different root ports cannot reach each other; vGPUs never do over PCIe"
        ),
        remedy="take GPUs under one switch, or GPUs joined by NVLink",
    ),
    FaultRow(
        "fabric-manager-missing",
        (r"fabric manager[^\n]*(not|missing|fail)", r"\bB[23]00\b[^\n]*NVLink"),
        cause=(
            "the Fabric Manager does not run on the host; NVIDIA AI Enterprise Infra 9.0 lacks it for B200"
            " and B300"
        ),
        remedy=(
            "use a driver that carries it (Infra 8.2), and see /etc/init.d/nvdGpuMgmtDaemon status on the"
            " host"
        ),
    ),
    FaultRow(
        "guest-driver-branch",
        (
            r"nvidia-smi[^\n]*no devices were found",
            r"vGPU[^\n]*(disabled|unsupported)[^\n]*driver",
            r"couldn't communicate with the NVIDIA driver",
        ),
        cause="the guest's driver is too new or too old for the host's vGPU manager",
        remedy="install the guest driver of the host's branch",
    ),
    FaultRow(
        "drs-does-not-balance",
        (
            r"\bDRS\b[^\n]*\b(not|never)\b[^\n]*(balanc|mov|migrat)[^\n]*vGPU",
            r"vGPU[^\n]*\b(not|never)\b[^\n]*(balanced|moved|migrated)[^\n]*\bDRS\b",
            r"stun time",
        ),
        cause=(
            "DRS leaves vGPU VMs alone unless it is partially automated or manual, or their stun time is"
            " too long"
        ),
        remedy="set DRS as NVIDIA's guide says; from vSphere 8.0 U2 see the limit for the stun time",
    ),
    FaultRow(
        "passthrough-on-nvswitch",
        (r"\b(HGX|NVSwitch)\b[^\n]*passthrough", r"passthrough[^\n]*\b(HGX|NVSwitch)\b"),
        cause="GPU passthrough is not supported on NVSwitch servers up to NVIDIA AI Enterprise Infra 8",
        remedy="use full vGPUs or NVLink device groups",
    ),
    FaultRow(
        "guestinfo-denied",
        (r"guestinfo[^\n]*permission denied", r"info-get[^\n]*permission denied"),
        cause="the VM option guest_rpc.rpci.auth.cmd.info-get lets only root read guestinfo",
        remedy="read it as root; cloud-init goes by `vmtoolsd --cmd` then",
    ),
    FaultRow(
        "maintenance-blocked",
        (
            r"(cannot|unable to|failed to|not) enter maintenance mode",
            r"maintenance mode[^\n]*(timed out|blocked)",
        ),
        cause="running vGPU VMs are not moved away by themselves (before 7.0 U3f, or with the option unset)",
        remedy="power them off or move them; or set VgpuMMAutomationTimeoutSecs to -1 in vCenter",
    ),
    FaultRow(
        "hvd-init-hangs",
        (r"(hang|stuck|stall|block)[^\n]*hvd\.init\(\)", r"hvd\.init\(\)[^\n]*(hang|stuck|stall|block)"),
        cause=(
            "Horovod's workers do not find each other: it took the docker0 interface, or ssh works one way"
            " only"
        ),
        remedy="exclude docker0 and lo from its interfaces, and exchange ssh keys both ways",
    ),
    FaultRow(
        "nvml-lost",
        (r"failed to initialize NVML",),
        cause="a container lost its GPU: systemd manages cgroups and reloaded its units",
        remedy="pass the devices by name or CDI, or use the cgroupfs driver",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "mig-instances-lost",
        (r"compute instances?[^\n]*(lost|gone|missing|no longer)",),
        cause="compute instances made inside a guest do not outlive its restart",
        remedy="make them anew at each boot",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "roce-drops",
        (
            r"pfc[tr]x[^\n]*(differ|mismatch|must[^\n]*equal|not (equal|the same))",
            r"RoCE[^\n]*(drop|retrans|unstable)",
        ),
        cause=(
            "flow control differs on the way: pfctx and pfcrx are not alike, the trust mode differs, or the"
            " switch's MTU is smaller than the NIC's"
        ),
        remedy="set pfctx equal to pfcrx, one trust mode everywhere, and an MTU of 9216 on the switch",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "mode-reverted",
        (r"(mixed[- ]size|MIG)[^\n]*(reset|reverted|off|disabled)[^\n]*(after|by)[^\n]*reboot",),
        cause="a reboot of the host resets the mixed-size mode, and MIG mode from Hopper on",
        remedy="set the mode again after each reboot, before the first VM is powered on",
        confidence=Confidence.INFERRED,
    ),
)
