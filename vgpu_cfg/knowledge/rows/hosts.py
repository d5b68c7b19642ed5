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
            r"pending[^\n]*MIG",
            r"MIG stays pending",
        ),
        sample="MIG mode is pending enable",
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
        source=(
            "https://docs.nvidia.com/datacenter/tesla/mig-user-guide and the NVIDIA AI Enterprise user guide"
        ),
    ),
    FaultRow(
        "fragmented-by-breadth",
        (r"larger profile[^\n]*(cannot|does not|fails)", r"GPUs? half[- ]empty"),
        sample="a larger profile cannot start",
        symptom="a larger profile does not start although GPUs are half empty",
        cause="the host spreads small vGPUs over all GPUs, so that none is left whole for a large one",
        check=(
            "vgpu-cfg inventory --host HOST -v: small vGPUs on every GPU",
            "esxcli graphics host get: Shared Passthru Assignment Policy is Performance",
        ),
        remedy="set the assignment policy to consolidation, or power the large ones on first",
        source="frankdenneman.nl, 2026-02-17",
    ),
    FaultRow(
        "placement-gaps",
        (
            r"placement id",
            r"no (valid|free) placement",
            r"fits by (the )?sum",
        ),
        sample="no free placement id for this vGPU",
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
        cause="a four-slice MIG instance may start at slice 0 only, and something stands there",
        check=("nvidia-smi mig -lgi on the host: the column Start:Size of the instances",),
        remedy="power the four-slice VM on first",
        source="https://docs.nvidia.com/datacenter/tesla/mig-user-guide: placements of GPU instances",
    ),
    FaultRow(
        "graphics-driver-only",
        (r"only B(-series)?[^\n]*Q(-series)?[^\n]*(profiles|types)", r"no C-series (profiles|types)"),
        sample="no C-series profiles shown",
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
        source="NVIDIA AI Enterprise 5.0 user guide: the host driver; NVIDIA forums",
    ),
    FaultRow(
        "driver-does-not-claim",
        (r"module name: pciPassthru",),
        sample="   Module Name: pciPassthru",
        symptom="the NVIDIA driver does not claim the GPU: its module is pciPassthru",
        cause="the GPU was handed through before the NVIDIA driver came, so the driver does not claim it",
        check=(
            "esxcli hardware pci list: Module Name of the GPU is pciPassthru, not nvidia",
            "Host > Configure > Hardware > PCI Devices: the GPU is among those enabled for passthrough",
        ),
        remedy="take passthrough off the GPU, then reboot the host",
        source="recalled: no document was found for the wording",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "t4-sriov",
        (r"\bT4\b[^\n]*SR-?IOV[^\n]*reboot", r"SR-?IOV[^\n]*reboot[^\n]*\bT4\b"),
        sample="Tesla T4: SR-IOV enabled, needs reboot",
        symptom="a T4 shows for ever that SR-IOV needs a reboot",
        cause="SR-IOV was switched on in vCenter for a T4, which neither has nor needs it",
        check=("Host > Configure > Hardware > PCI Devices: SR-IOV of the T4, Enabled / Needs reboot",),
        remedy="switch SR-IOV off for the T4 again",
        source="NVIDIA forums; NVIDIA vGPU software release notes for VMware vSphere",
    ),
    FaultRow(
        "fabric-manager-missing",
        (r"fabric manager[^\n]*(not|missing|fail)", r"\bB[23]00\b[^\n]*NVLink"),
        sample="Fabric Manager is not running",
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
        source="NVIDIA AI Enterprise release notes: Infra 9.0 on HGX B200 and B300",
    ),
    FaultRow(
        "passthrough-on-nvswitch",
        (r"\b(HGX|NVSwitch)\b[^\n]*passthrough", r"passthrough[^\n]*\b(HGX|NVSwitch)\b"),
        sample="GPU passthrough fails on HGX",
        symptom="GPU passthrough on an HGX server fails, or has no NVLink",
        cause="GPU passthrough is not supported on NVSwitch servers up to NVIDIA AI Enterprise Infra 8",
        check=("esxcli hardware pci list: the host has NVSwitch bridges beside its GPUs",),
        remedy="use full vGPUs or NVLink device groups",
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
        cause="running vGPU VMs are not moved away by themselves (before 7.0 U3f, or with the option unset)",
        check=(
            "nvidia-smi vgpu on the host: the VMs that still run there with a vGPU",
            "Cluster > Configure > vSphere DRS > Advanced Options: VgpuMMAutomationTimeoutSecs",
        ),
        remedy="power them off or move them; or set VgpuMMAutomationTimeoutSecs to -1 for the cluster's DRS",
        source="VMware KB 88271 and VMware's blog on vSphere 8.0 U2",
    ),
    FaultRow(
        "mode-reverted",
        (
            r"(mixed[- ]size|MIG)[^\n]*(reset|reverted|off|disabled)[^\n]*(after|by)[^\n]*reboot",
            r"\bmode (is |was )?reverted",
        ),
        sample="mixed-size mode was reset by a reboot",
        symptom="mixed-size or MIG mode is off again after a reboot",
        cause="a reboot of the host resets the mixed-size mode, and MIG mode from Hopper on",
        check=(
            "vgpu-cfg inventory --host HOST: the mode of each GPU",
            "nvidia-smi --query-gpu=pci.bus_id,name,mig.mode.current --format=csv on the host",
        ),
        remedy="set the mode again after each reboot, before the first VM is powered on",
        source=(
            "NVIDIA AI Enterprise 5.0 user guide and"
            " https://docs.nvidia.com/datacenter/tesla/mig-user-guide; the wording is recalled"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "mig-in-use",
        (r"in use by another client",),
        sample=(
            "Warning: MIG mode is in pending enable state for GPU 00000000:36:00.0:In use by another client"
        ),
        symptom="MIG mode cannot be changed now: the GPU is in use by another client",
        cause="a VM's vGPU, a monitoring program (dcgm, nvsm) or a container holds the GPU",
        check=("nvidia-smi vgpu on the host: VMs on it; nvidia-smi: processes",),
        remedy=(
            "power the VMs off or move them, stop monitoring (systemctl stop nvsm dcgm), then set the mode"
            " again"
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
        symptom="no MIG instance can be made for the VM",
        cause=(
            "the GPU has no free slices at a place where an instance of this size may begin, is not in MIG"
            " mode, or was divided by hand"
        ),
        check=(
            "nvidia-smi mig -lgi on the host: the instances there, and where each begins (Start:Size)",
            "nvidia-smi mig -lgipp on the host: where each size may begin",
            "nvidia-smi --query-gpu=pci.bus_id,mig.mode.current --format=csv on the host: Enabled",
        ),
        remedy=(
            "start the large VMs before the small ones; destroy instances made by hand (nvidia-smi mig -dci,"
            " then -dgi); see `vgpu-cfg fit`"
        ),
        source="https://docs.nvidia.com/datacenter/tesla/mig-user-guide; the wording is recalled",
        confidence=Confidence.INFERRED,
        words="slices insufficient resources",
    ),
    FaultRow(
        "ecc-with-vgpu",
        (
            r"not supported with ECC",
            r"\bECC\b[^\n]*(not supported|unsupported|must be (off|disabled)|disable)[^\n]*vGPU",
            r"vGPU[^\n]*\bECC\b[^\n]*(not supported|unsupported|enabled|disable)",
            r"cannot query ECC status",
        ),
        sample="vmiop_log: (0x0): Initialization: VGX not supported with ECC Enabled.",
        symptom="a vGPU is refused because ECC is on",
        cause=(
            "the board or the host driver's release has no vGPU with ECC (support came with vGPU 9.0), or"
            " hosts of the cluster differ in it"
        ),
        check=(
            "nvidia-smi -q -d ECC on the host: Current and Pending",
            "nvidia-smi on the host: the driver's release",
        ),
        remedy=(
            "update the host driver, or nvidia-smi -e 0 on the host and restart it; do the same on every"
            " host of the cluster"
        ),
        source=(
            "https://docs.nvidia.com/vgpu/9.0/grid-vgpu-release-notes-generic-linux-kvm (ECC since 9.0);"
            " NVIDIA vGPU software user guide; the wording is recalled"
        ),
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
        symptom="the GPU has no virtual functions, which vGPUs of Ampere and later need (SR-IOV)",
        cause=(
            "SR-IOV or the 64-bit MMIO space (above 4G decoding) is off in the server's firmware, or too"
            " small there"
        ),
        check=(
            "nvidia-smi -q on the host: Host VGPU Mode is SR-IOV on Ampere and later",
            "esxcli hardware pci list on the host: whether the GPU's virtual functions are there",
        ),
        remedy=(
            "switch SR-IOV, VT-d (or AMD-Vi) and above 4G decoding on in the server's firmware, then restart"
            " the host"
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
        symptom="the host driver is loaded, and the host offers no vGPU profile",
        cause=(
            "in this order: the graphics type is not sharedDirect, the host was not restarted after the"
            " driver came, SR-IOV or large BARs are off in the server's firmware, the board has no vGPU"
        ),
        check=(
            "esxcli graphics host get: Default Graphics Type must be SharedPassthru",
            "nvidia-smi vgpu -s on the host: what the driver itself offers",
            "vgpu-cfg inventory --host HOST -v: graphics types, driver, profiles",
        ),
        remedy=(
            "`vgpu-cfg apply` sets the graphics type; switch SR-IOV and above 4G decoding on in the"
            " firmware; restart the host"
        ),
        source="drpranayjha.com, Private AI Foundation, parts 4 and 8; NVIDIA AI Enterprise 5.0 user guide",
    ),
    FaultRow(
        "psod-iommu",
        (r"IOMMU fault detected for \(?vmgp", r"IOMMU fault[^\n]*nvidia"),
        sample="IOMMU Fault detected for (vmgp0/nvidia) Reason: 0x6 (PTE not set to allow Read.)",
        symptom="ESXi stopped with a purple screen: IOMMU fault of an NVIDIA GPU",
        cause="a fault of the host driver on Hopper and Ada GPUs, with an Xid 32 before it",
        check=("nvidia-smi on the host: its driver; grep -i xid /var/log/vmkernel.log",),
        remedy="install the host driver of vGPU 16.10 or later (or a newer branch)",
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
        symptom="ESXi stopped with a purple screen: a PCI device reported a fatal error",
        cause="the device whose address it names failed on PCIe: the board, its riser, its slot or power",
        check=("lspci | grep ADDRESS on the host: which device it is; the BMC's log at the same time",),
        remedy="ask the server's vendor with the address; reseat or replace the device",
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
        symptom="ESXi refuses to install the host driver: its acceptance level",
        cause="the host takes only packages that are signed at its own level or above",
        check=(
            (
                "esxcli software acceptance get on the host: its level; esxcli software sources vib list -d"
                " DEPOT: the package's"
            ),
        ),
        remedy="take NVIDIA's signed package for this ESXi; lower the level only where your rules allow it",
        source="Broadcom's documents on acceptance levels; the wording is recalled",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "host-disconnected",
        (
            r"not allowed in the current connection state of the host",
            r"cannot communicate with the host|unable to communicate with the remote host",
            r"\bHostNotConnected\b",
        ),
        sample="The operation is not allowed in the current connection state of the host.",
        symptom="vCenter is not connected to the host",
        cause="the host is off, restarting, or its management network or hostd does not answer",
        check=("govc host.info HOST: its connection state; ping HOST; /etc/init.d/hostd status on the host",),
        remedy="wait for a restart to end, or connect the host again; then run the same command again",
        source="vSphere API reference: HostNotConnected, HostCommunication; the wording is recalled",
        confidence=Confidence.INFERRED,
        faults=frozenset({"HostNotConnected", "HostCommunication"}),
    ),
    FaultRow(
        "host-not-responding",
        (
            r"\bhost \S+ in \S+ is not responding",
            r"\bon host \S+ in \S+ is disconnected",
            r"\bHostConnectionLostEvent\b|\bVmDisconnectedEvent\b",
        ),
        sample="Host esx-01.lab in dc1 is not responding",
        symptom="vCenter hears nothing from a host, and shows its VMs as they were last",
        cause="the host is dead, or it runs on and its management network or hostd does not answer",
        check=(
            "ping HOST; its console or management controller: whether it runs",
            "vgpu-cfg plan PLAN: which VMs of the plan are there, and where each could start",
        ),
        remedy=(
            "power it on or give it its network back; start its VMs elsewhere only once it is off for "
            "certain: docs/how-to/troubleshooting.md#a-host-does-not-respond"
        ),
        source="vSphere API reference: HostConnectionLostEvent, VmDisconnectedEvent; the wording is recalled",
        confidence=Confidence.INFERRED,
    ),
)
