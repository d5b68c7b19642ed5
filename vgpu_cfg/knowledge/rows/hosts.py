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
            r"MIG mode[^\n]*pending(?![\s\S]{0,80}in\s+use\s+by)",
            r"MIG[^\n]*pending (mode )?enable(?![\s\S]{0,80}in\s+use\s+by)",
            r"pending[^\n]*\bMIG\b",
            r"MIG stays pending",
        ),
        sample="MIG mode is pending enable",
        symptom="MIG mode remains pending",
        cause=(
            "the MIG mode change is pending because the GPU is still in use or, on Ampere, the host has not"
            " been rebooted"
        ),
        check=(
            (
                "nvidia-smi --query-gpu=pci.bus_id,mig.mode.current,mig.mode.pending --format=csv on the"
                " host: the current and pending modes differ"
            ),
            "nvidia-smi vgpu on the host: the VMs whose vGPUs use the GPU",
        ),
        remedy="stop everything that uses the GPU; on Ampere, also reboot the host",
        source=(
            "https://docs.nvidia.com/datacenter/tesla/mig-user-guide and the NVIDIA AI Enterprise user guide"
        ),
    ),
    FaultRow(
        "fragmented-by-breadth",
        (r"larger profile[^\n]*(cannot|does not|fails)", r"GPUs? half[- ]empty"),
        sample="a larger profile cannot start",
        symptom="a larger profile does not start even though GPUs are half empty",
        cause="the host spreads small vGPUs across all GPUs, so no GPU is empty for a large vGPU",
        check=(
            "vgpu-cfg inventory --host HOST -v: small vGPUs on every GPU",
            "esxcli graphics host get: Shared Passthru Assignment Policy is Performance",
        ),
        remedy="set the assignment policy to consolidation, or power on the large VMs first",
        source="frankdenneman.nl, 2026-02-17",
    ),
    FaultRow(
        "placement-gaps",
        (
            r"\bplacement ids?\b[^\n]*\bv?GPU",
            r"\bv?GPU[^\n]*\bplacement ids?\b",
            r"no (valid|free) placement (id\b|[^\n]*\bv?GPU)",
            r"fits by (the )?sum",
        ),
        sample="no free placement id for this vGPU",
        symptom="a vGPU of a different size does not start even though enough total memory is free",
        cause=(
            "mixed-size vGPUs can start only at fixed framebuffer positions, and none of the free positions"
            " has enough space"
        ),
        check=(
            "nvidia-smi vgpu -s -v on the host: the valid start positions for each vGPU type",
            "vgpu-cfg inventory --host HOST -v: the vGPUs on the GPU",
        ),
        remedy=(
            "power on the VMs with large vGPUs first, or power off a VM whose small vGPU blocks the position"
        ),
        source="NVIDIA vGPU software user guide: placement of mixed-size vGPUs",
    ),
    FaultRow(
        "mig-4g-slice",
        (
            r"\b4g\.\d+gb\b[^\n]*(fail|insufficient|no )",
            r"(fail|insufficient|unable)[^\n]*\b4g\.\d+gb\b",
            r"(4|four)-slice MIG profile (fails|does not)",
        ),
        sample="unable to create GPU instance 4g.20gb",
        symptom="a four-slice MIG profile does not start while other slices are in use",
        cause="a four-slice MIG instance can start only at slice 0, which is in use",
        check=("nvidia-smi mig -lgi on the host: the Start:Size column of the instances",),
        remedy="power on the VM with the four-slice instance first",
        source="https://docs.nvidia.com/datacenter/tesla/mig-user-guide: placements of GPU instances",
    ),
    FaultRow(
        "graphics-driver-only",
        (r"only B(-series)?[^\n]*Q(-series)?[^\n]*(profiles|types)", r"no C-series (profiles|types)"),
        sample="no C-series profiles shown",
        symptom="profiles are missing, and only B-series and Q-series types are listed",
        cause=(
            "the host has the graphics vGPU driver, which offers only B and Q profiles, instead of the"
            " NVIDIA AI Enterprise driver"
        ),
        check=(
            "esxcli software vib list: the driver's name does not begin with NVD-AIE",
            "nvidia-smi vgpu -s on the host: no vGPU type ends with c",
        ),
        remedy="install the NVIDIA AI Enterprise host driver",
        source="NVIDIA AI Enterprise 5.0 user guide: the host driver; NVIDIA forums",
    ),
    FaultRow(
        "driver-does-not-claim",
        (r"module name: pciPassthru",),
        sample="   Module Name: pciPassthru",
        symptom="the NVIDIA driver does not claim the GPU, and the GPU's module is pciPassthru",
        cause=(
            "passthrough was enabled for the GPU before the NVIDIA driver was installed, so the driver"
            " cannot claim it"
        ),
        check=(
            "esxcli hardware pci list: Module Name of the GPU is pciPassthru, not nvidia",
            "Host > Configure > Hardware > PCI Devices: the GPU is listed as enabled for passthrough",
        ),
        remedy="disable passthrough for the GPU, then reboot the host",
        source="from memory; the exact wording was not found in any document",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "t4-sriov",
        (r"\bT4\b[^\n]*SR-?IOV[^\n]*reboot", r"SR-?IOV[^\n]*reboot[^\n]*\bT4\b"),
        sample="Tesla T4: SR-IOV enabled, needs reboot",
        symptom="for a T4, vCenter always shows that SR-IOV needs a reboot",
        cause="SR-IOV was enabled in vCenter for a T4, which neither supports nor requires SR-IOV",
        check=("Host > Configure > Hardware > PCI Devices: SR-IOV for the T4 shows Enabled / Needs reboot",),
        remedy="disable SR-IOV for the T4",
        source="NVIDIA forums; NVIDIA vGPU software release notes for VMware vSphere",
    ),
    FaultRow(
        "fabric-manager-missing",
        (
            r"fabric ?manager (is |service is )?(not running|missing|inactive)",
            r"nvidia-fabricmanager\S* (could not be found|not found|is not (running|active))",
            r"\bB[23]00\b[^\n]*no NVLink",
        ),
        sample="Fabric Manager is not running",
        symptom="NVLink does not work on an HGX B200 or B300",
        cause=(
            "Fabric Manager is not running on the host, and NVIDIA AI Enterprise Infra 9.0 does not include"
            " it for B200 and B300"
        ),
        check=(
            "/etc/init.d/nvdGpuMgmtDaemon status on the host: it must be running",
            "esxcli software component list: the version of the NVD component",
        ),
        remedy=(
            "use a driver that includes Fabric Manager (Infra 8.2), and check /etc/init.d/nvdGpuMgmtDaemon"
            " status on the host"
        ),
        source="NVIDIA AI Enterprise release notes: Infra 9.0 on HGX B200 and B300",
    ),
    FaultRow(
        "passthrough-on-nvswitch",
        (r"passthrough[^\n]*(fail|not supported)[^\n]*\b(HGX|NVSwitch)\b",),
        sample="GPU passthrough fails on HGX",
        symptom="GPU passthrough on an HGX server fails or has no NVLink",
        cause="NVIDIA AI Enterprise Infra 8 and earlier do not support GPU passthrough on NVSwitch servers",
        check=("esxcli hardware pci list: the host has NVSwitch bridges in addition to its GPUs",),
        remedy="use full-size vGPUs or NVLink device groups",
        source="NVIDIA AI Enterprise Infra 8: NVSwitch",
    ),
    FaultRow(
        "maintenance-blocked",
        (
            r"(cannot|unable to|failed to|not) enter maintenance mode",
            r"maintenance mode[^\n]*(timed out|blocked)",
        ),
        sample="The host cannot enter maintenance mode",
        symptom="a host does not enter maintenance mode",
        cause=(
            "running vGPU VMs are not migrated automatically before 7.0 U3f, or if the DRS option is not set"
        ),
        check=(
            "nvidia-smi vgpu on the host: the vGPU VMs that are still running",
            "Cluster > Configure > vSphere DRS > Advanced Options: VgpuMMAutomationTimeoutSecs",
        ),
        remedy=(
            "power off or migrate the VMs, or set VgpuMMAutomationTimeoutSecs to -1 in the cluster's DRS"
            " advanced options"
        ),
        source="VMware KB 88271 and VMware's blog on vSphere 8.0 U2",
    ),
    FaultRow(
        "mode-reverted",
        (
            r"(mixed[- ]size|MIG)[^\n]*(reset|reverted|off|disabled)[^\n]*(after|by)[^\n]*reboot",
            r"(^|[,;:]|mixed[- ]size|\bMIG)\s*mode (is |was )?reverted",
        ),
        sample="mixed-size mode was reset by a reboot",
        symptom="mixed-size or MIG mode is off again after a reboot",
        cause="a host reboot resets mixed-size mode and, on Hopper and later, MIG mode",
        check=(
            "vgpu-cfg inventory --host HOST: the mode of each GPU",
            "nvidia-smi --query-gpu=pci.bus_id,name,mig.mode.current --format=csv on the host",
        ),
        remedy="set the mode again after each host reboot, before you power on the first VM",
        source=(
            "NVIDIA AI Enterprise 5.0 user guide and"
            " https://docs.nvidia.com/datacenter/tesla/mig-user-guide (wording from memory, not"
            " verified)"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "mig-in-use",
        (r"in use by another client",),
        sample=(
            "Warning: MIG mode is in pending enable state for GPU 00000000:36:00.0:In use by another client"
        ),
        symptom="MIG mode cannot be changed now because the GPU is in use by another client",
        cause="a VM's vGPU, a monitoring program (DCGM or nvsm), or a container is using the GPU",
        check=("nvidia-smi vgpu on the host: the VMs that use the GPU; nvidia-smi: the processes",),
        remedy=(
            "power off or migrate the VMs, stop monitoring (systemctl stop nvsm dcgm), and then set the"
            " mode again"
        ),
        source="https://docs.nvidia.com/datacenter/tesla/mig-user-guide",
    ),
    FaultRow(
        "mig-no-room",
        (
            r"unable to allocate (a )?MIG (instance|device)",
            r"unable to create a GPU instance",
            r"failed to (create|allocate) (a )?(GPU|MIG|compute) instance",
        ),
        sample="vmiop_log: Unable to allocate MIG instance",
        symptom="no MIG instance can be created for the VM",
        cause=(
            "no slices are free at a valid start position for an instance of this size, MIG mode is off, or"
            " the GPU was partitioned manually"
        ),
        check=(
            "nvidia-smi mig -lgi on the host: the existing instances and their start positions (Start:Size)",
            "nvidia-smi mig -lgipp on the host: the valid start positions for each size",
            "nvidia-smi --query-gpu=pci.bus_id,mig.mode.current --format=csv on the host: Enabled",
        ),
        remedy=(
            "power on large VMs before small ones, destroy manually created instances (nvidia-smi mig -dci,"
            " then -dgi), and see `vgpu-cfg fit`"
        ),
        source=(
            "https://docs.nvidia.com/datacenter/tesla/mig-user-guide (wording from memory, not verified)"
        ),
        confidence=Confidence.INFERRED,
        words="slices insufficient resources",
    ),
    FaultRow(
        "ecc-with-vgpu",
        (
            r"not supported with ECC",
            r"\bECC\b[^\n]*(not supported|unsupported|must be (off|disabled)|disable)[^\n]*vGPU",
            r"vGPU[^\n]*\bECC\b(?! status| support will)[^\n]*(not supported|unsupported|enabled|disable)",
        ),
        sample="vmiop_log: (0x0): Initialization: VGX not supported with ECC Enabled.",
        symptom="a vGPU is rejected because ECC is enabled",
        cause=(
            "the board or host driver release does not support vGPU with ECC (supported since vGPU 9.0), or"
            " the hosts in the cluster have different ECC settings"
        ),
        check=(
            "nvidia-smi -q -d ECC on the host: Current and Pending",
            "nvidia-smi on the host: the driver release",
        ),
        remedy=(
            "update the host driver, or run nvidia-smi -e 0 and reboot the host; do the same on every host"
            " in the cluster"
        ),
        source=(
            "https://docs.nvidia.com/vgpu/9.0/grid-vgpu-release-notes-generic-linux-kvm (ECC since"
            " 9.0); NVIDIA vGPU software user guide (wording from memory, not verified)"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "ecc-not-read",
        (r"cannot query ECC status",),
        sample="vmiop_log: (0x0): Cannot query ECC status. vGPU ECC support will be disabled.",
        symptom="a vGPU starts without ECC (a notice, not an error)",
        cause="ECC is turned off on the GPU, or the board does not support ECC",
        check=("nvidia-smi -q -d ECC on the host: Current and Pending",),
        remedy=(
            "if the guests do not require ECC, do nothing; otherwise, run nvidia-smi -e 1 on the host and"
            " reboot it"
        ),
        source="log in DualCoder/vgpu_unlock issue 110 (cause from memory, not verified)",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "sriov-off",
        (
            r"host vGPU mode\s*:\s*non\W+SR-?IOV",
            r"not enough MMIO resources for SR-?IOV",
            r"SR-?IOV[^\n]*(disabled|not enabled|is off)[^\n]*(BIOS|firmware|vGPU)",
            r"failed to (enable|create|allocate)[^\n]*(SR-?IOV|virtual functions?)",
        ),
        sample="Host VGPU Mode : Non SR-IOV",
        symptom="the GPU has no virtual functions, which vGPUs on Ampere and later require (SR-IOV)",
        cause=(
            "in the server's firmware, SR-IOV or 64-bit MMIO space (above 4G decoding) is disabled, or the"
            " MMIO space is too small"
        ),
        check=(
            "nvidia-smi -q on the host: Host VGPU Mode is SR-IOV on Ampere and later",
            "esxcli hardware pci list on the host: whether the GPU's virtual functions are listed",
        ),
        remedy=(
            "in the server's firmware, enable SR-IOV, VT-d (or AMD-Vi), and above 4G decoding, and then"
            " reboot the host"
        ),
        source="NVIDIA AI Enterprise 5.0 user guide: prerequisites; the Linux kernel: drivers/pci/iov.c",
        words="virtual function large BAR decoding",
    ),
    FaultRow(
        "no-profiles-offered",
        (
            r"no (supported )?vGPU (profiles|types) (are )?(shown|found|offered|available|listed)",
            r"(zero|no) vGPU profiles",
            r"host shows no (vGPU )?profiles",
        ),
        sample="the NVIDIA driver loads cleanly on the host while zero vGPU profiles appear",
        symptom="the host driver is loaded, but the host offers no vGPU profiles",
        cause=(
            "check in this order: the graphics type is not sharedDirect, the host was not rebooted after"
            " the driver was installed, SR-IOV or large BARs are disabled in the firmware, or the board"
            " does not support vGPU"
        ),
        check=(
            "esxcli graphics host get: Default Graphics Type must be SharedPassthru",
            "nvidia-smi vgpu -s on the host: the profiles that the driver itself offers",
            "vgpu-cfg inventory --host HOST -v: graphics types, driver, profiles",
        ),
        remedy=(
            "use `vgpu-cfg apply` to set the graphics type, enable SR-IOV and above 4G decoding in the"
            " firmware, and reboot the host"
        ),
        source="drpranayjha.com, Private AI Foundation, parts 4 and 8; NVIDIA AI Enterprise 5.0 user guide",
    ),
    FaultRow(
        "psod-iommu",
        (r"IOMMU fault detected for \(?vmgp", r"IOMMU fault[^\n]*nvidia"),
        sample="IOMMU Fault detected for (vmgp0/nvidia) Reason: 0x6 (PTE not set to allow Read.)",
        symptom="ESXi stopped with a purple screen because of an IOMMU fault of an NVIDIA GPU",
        cause="the host driver has a bug on Hopper and Ada GPUs that is preceded by an Xid 32",
        check=("nvidia-smi on the host: the driver version; grep -i xid /var/log/vmkernel.log",),
        remedy="install the host driver from vGPU 16.10 or later (or from a newer branch)",
        source="https://knowledge.broadcom.com/external/article/394974",
        words="PSOD purple screen crash",
    ),
    FaultRow(
        "psod-pci-error",
        (r"ApeiHEST[^\n]*fatal error", r"fatal error from [0-9a-f:.]+\s*\(PCI"),
        sample=(
            "ALERT: ApeiHEST: 327: Fatal error from 0000:3b:00.0(PCI Express Endpoint), VID:10de, DID:20b5"
            " DevSts: 0xd, AERUeSts: 0x2000."
        ),
        symptom="ESXi stopped with a purple screen because a PCI device reported a fatal error",
        cause=(
            "the device at the listed address had a PCIe error, possibly caused by the board, its riser,"
            " its slot, or its power supply"
        ),
        check=(
            ("lspci | grep ADDRESS on the host: the device at that address; the BMC log from the same time"),
        ),
        remedy="report the address to the server vendor's support, or reseat or replace the device",
        source="https://knowledge.broadcom.com/external/article/399748",
        words="PSOD purple screen NMI hardware",
    ),
    FaultRow(
        "vib-acceptance",
        (r"acceptance level[^\n]*(not compliant|does not meet|is not trusted)", r"\bAcceptanceConfigError\b"),
        sample=(
            "[AcceptanceConfigError] VIB NVD_bootbank_NVD-AIE_ESXi's acceptance level is community, which is"
            " not compliant with the ImageProfile acceptance level partner"
        ),
        symptom="ESXi refuses to install the host driver because of its acceptance level",
        cause="the host accepts only packages that are signed at its own acceptance level or higher",
        check=(
            (
                "esxcli software acceptance get on the host: its level; esxcli software sources vib list -d"
                " DEPOT: the package's level"
            ),
        ),
        remedy=(
            "use NVIDIA's signed package for this ESXi version, and lower the acceptance level only if your"
            " policies allow it"
        ),
        source="Broadcom's documents on acceptance levels (wording from memory, not verified)",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "host-disconnected",
        (
            r"not allowed in the current connection state of the host",
            r"cannot communicate with the host|unable to communicate with the remote host",
            r"error occurred while communicating with the remote host",
            r"cannot contact the specified host",
            r"\bHostNotConnected\b",
        ),
        sample="The operation is not allowed in the current connection state of the host.",
        symptom="vCenter is not connected to the host",
        cause="the host is powered off or rebooting, or its management network or hostd is not responding",
        check=("govc host.info HOST: its connection state; ping HOST; /etc/init.d/hostd status on the host",),
        remedy="wait until the host has rebooted, or reconnect it, and then run the same command again",
        source=(
            "vSphere API reference: HostNotConnected, HostCommunication (wording from memory, not verified)"
        ),
        confidence=Confidence.INFERRED,
        faults=frozenset({"HostNotConnected", "HostCommunication"}),
    ),
    FaultRow(
        "host-state",
        (r"not allowed in the current state of the host", r"\bInvalidHostState\b"),
        sample="The operation is not allowed in the current state of the host.",
        symptom="the state of the host does not permit the operation",
        cause=(
            "the host is in maintenance mode or is entering or exiting it, or the operation requires"
            " maintenance mode"
        ),
        check=("govc host.info HOST: its state; the host's recent tasks in vCenter",),
        remedy=(
            "wait for the host's task to finish, or exit (or enter) maintenance mode, and then repeat the"
            " operation"
        ),
        source="vSphere API reference: InvalidHostState (wording from memory, not verified)",
        confidence=Confidence.INFERRED,
        faults=frozenset({"InvalidHostState"}),
        is_verbatim=True,
    ),
    FaultRow(
        "host-not-responding",
        (
            r"\bhost \S+ in \S+ is not responding",
            r"\bon host \S+ in \S+ is disconnected",
            r"\bHostConnectionLostEvent\b|\bVmDisconnectedEvent\b",
        ),
        sample="Host esx-01.lab in dc1 is not responding",
        symptom="a host is not responding, and vCenter shows the last known state of its VMs",
        cause="the host is down, or it is running but its management network or hostd is not responding",
        check=(
            "ping HOST; check its console or BMC to see whether the host is running",
            "vgpu-cfg plan PLAN: which VMs of the plan are on the host, and where each could start",
        ),
        remedy=(
            "power on the host or restore its network; start its VMs on other hosts only if you are certain"
            " that it is powered off: docs/how-to/troubleshooting.md#a-host-does-not-respond"
        ),
        source=(
            "vSphere API reference: HostConnectionLostEvent, VmDisconnectedEvent (wording from memory,"
            " not verified)"
        ),
        confidence=Confidence.INFERRED,
        words="vCenter hears nothing from it",
    ),
)
