"""Known failures of a VM with GPUs that does not start.

Sources: NVIDIA AI Enterprise user guides, NVIDIA forums, Broadcom and Dell knowledge bases,
VMware's vhpc-toolkit. Rows marked inferred follow from a documented rule.
"""

from __future__ import annotations

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow

POWER_ON_ROWS = (
    FaultRow(
        "mmio-too-small",
        (r"total number of pages needed \(\d+\) exceeds limit",),
        sample="PCIPassthru: total number of pages needed (4206594) exceeds limit (917504), failing",
        symptom="the power-on ends in DevicePowerOn, and vmware.log tells of pages that exceed a limit",
        cause="the 64-bit MMIO window is too small for the GPU's memory, or the VM boots by BIOS",
        check=(
            (
                "govc vm.info -e VM: pciPassthru.use64bitMMIO must be TRUE, and pciPassthru.64bitMMIOSizeGB"
                " the sum of the GPUs' memory, rounded up to a power of two, times two"
            ),
            "VM > Edit Settings > VM Options > Boot Options: Firmware must be EFI",
        ),
        remedy="use EFI firmware, pciPassthru.use64bitMMIO TRUE and a larger pciPassthru.64bitMMIOSizeGB",
        source="https://www.dell.com/support/kbdoc/en-us/000199172 and Broadcom KB 323402",
    ),
    FaultRow(
        "graphics-resources",
        (r"amount of graphics resource available in the parent resource pool is insufficient",),
        sample=(
            "The amount of graphics resource available in the parent resource pool is insufficient for the"
            " operation."
        ),
        symptom="vCenter finds no graphics resource for the VM",
        cause=(
            "no GPU of the host can take this profile as they are held now: each is full, locked to another"
            " size, or has no free slice where it may start; or the graphics type is not sharedDirect"
        ),
        check=(
            "vgpu-cfg inventory --host HOST: what each GPU holds, its mode, and what is free",
            "esxcli graphics host get: Default Graphics Type must be SharedPassthru",
            "nvidia-smi vgpu -c on the host: the profiles that it can create now",
        ),
        remedy=(
            "see `vgpu-cfg inventory` for what holds the GPUs, and free or move what is in the way; where it"
            " shows another graphics type, set sharedDirect and restart the host's graphics service"
        ),
        source="NVIDIA forums and the vSphere API reference: InsufficientGraphicsResourcesFault",
        faults=frozenset({"InsufficientGraphicsResourcesFault"}),
    ),
    FaultRow(
        "vgpu-plugin",
        (
            r"could not initiali[sz]e plugin",
            r"failed to start (the )?vGPU plugin",
            r"vmiop[^\n]*plugin[^\n]*fail",
        ),
        sample="Could not initialize plugin 'libnvidia-vgx.so' for vGPU 'grid_a100-40c'",
        symptom="the host's vGPU plugin libnvidia-vgx.so does not initialise",
        cause=(
            "the vGPU manager refused to start the vGPU: SR-IOV is off in the BIOS, ECC is on where it is"
            " not supported, the graphics type is not sharedDirect, or not all memory is reserved"
        ),
        check=(
            "grep vmiop_log vmware.log, in the VM's folder: the manager's own reason",
            "nvidia-smi -q on the host: Host VGPU Mode is SR-IOV on Ampere and later; Ecc Mode as wanted",
            "esxcli graphics device list: Graphics Type must be Shared Passthru",
            "VM > Edit Settings > Memory: Reserve all guest memory must be ticked",
        ),
        remedy="check these in this order; the lines vmiop_log in the VM's vmware.log say more",
        source="NVIDIA AI Enterprise 5.0 user guide and NVIDIA forums",
    ),
    FaultRow(
        "no-device-for-profile",
        (r"no graphics device is available for vGPU",),
        sample="No graphics device is available for vGPU 'nvidia_a40-1a'.",
        symptom="no graphics device is available for the vGPU's profile",
        cause=(
            "every GPU that offers this profile runs another size or type already, is in MIG mode, or the"
            " host driver does not match the product that is licensed"
        ),
        check=(
            "vgpu-cfg inventory --host HOST: which sizes run on which GPU, and which are in MIG mode",
            (
                "nvidia-smi vgpu -s on the host (the profiles of its driver) against nvidia-smi vgpu -c"
                " (those that it can create now)"
            ),
            "esxcli software vib list: the driver's name begins with NVD-AIE for NVIDIA AI Enterprise",
        ),
        remedy=(
            "take the size that runs there, set mixed-size mode where the board can, or choose another GPU"
        ),
        source="NVIDIA vGPU software user guide and NVIDIA forums",
    ),
    FaultRow(
        "memory-not-reserved",
        (
            r"memory reservation \(sched\.mem\.min\) should be equal to memsize",
            r"(PCI|passthrough|vGPU|device)[^\n]*require\w* (a )?(full )?memory reservation",
            r"requires? (a )?full memory reservation",
        ),
        sample=(
            "Invalid memory setting: memory reservation (sched.mem.min) should be equal to memsize(32768)."
        ),
        symptom="the memory reservation is not the memory size",
        cause="a VM with a GPU must reserve all its memory",
        check=("VM > Edit Settings > Memory: Reserve all guest memory must be ticked",),
        remedy="reserve all guest memory (memoryReservationLockedToMax) and apply again",
        source="github.com/vmware/vhpc-toolkit: what its GPU commands ask for; NVIDIA forums",
    ),
    FaultRow(
        "not-a-passthrough-device",
        (r"device [0-9a-f]+:[0-9a-f]+\.[0-7] is not a passthrough device",),
        sample="Failed to start the virtual machine. Device 6:0.0 is not a passthrough device.",
        symptom="the VM's device is not a passthrough device of the host",
        cause=(
            "the PCI address is not passed through now: passthrough is set but not active yet, or hot-plug"
            " renumbered the devices (seen on HPE servers)"
        ),
        check=(
            (
                "vgpu-cfg inventory --host HOST -v: the address that the device has now, and whether its"
                " passthrough is active"
            ),
            "Host > Configure > Hardware > PCI Devices: enabled, and whether it waits for a reboot",
            "esxcli system settings kernel list -o enablePCIEHotplug: its Runtime value",
        ),
        remedy=(
            "see whether passthrough is active after a reboot; on servers that renumber, switch PCIe"
            " hot-plug off: esxcli system settings kernel set -s enablePCIEHotplug -v FALSE, then reboot"
            " the host"
        ),
        source="Broadcom KB on GPU passthrough and HPE's advisory a00121002en_us",
    ),
    FaultRow(
        "wrong-system-id",
        (r"systemId does not match the current system or the deviceId",),
        sample=(
            "The systemId does not match the current system or the deviceId, and the vendorId does not match"
            " the device currently at 97:0.0."
        ),
        symptom="the device's systemId or deviceId is not the host's",
        cause=(
            "the VM holds a fixed passthrough device of another host, or its ids were written in another form"
        ),
        check=(
            "govc device.info -json -vm VM 'pcipassthrough-*': systemId, deviceId, vendorId of the backing",
            "VM > Summary > Host: the host that the device must be of",
        ),
        remedy="remove the device and add it as the VM's present host offers it",
        source="github.com/vmware/vhpc-toolkit and Broadcom community threads",
    ),
    FaultRow(
        "viommu-with-vgpu",
        (r"IOMMU virtualization is not allowed with VGPU",),
        sample=(
            "The virtual machine cannot be powered on because IOMMU virtualization is not allowed with VGPU"
        ),
        symptom="a virtual IOMMU is refused beside a vGPU",
        cause="the VM has a virtual IOMMU, which more than 128 vCPUs need, and a vGPU",
        check=(
            "VM > Edit Settings > CPU: the number of vCPUs, and I/O MMU",
            "govc vm.info -e VM: vvtd.enable and pciPassthru.vmiop.allowViommu",
        ),
        remedy=(
            "use 128 vCPUs at most, or allow it: vvtd.enable, pciPassthru.vmiop.allowViommu (on AMD also"
            " amd.iommu.supportsPcip), guest kernel option iommu=pt"
        ),
        source="VMware KB 88161",
    ),
    FaultRow(
        "interrupt-vectors",
        (
            r"(out of|no (more|free)|exhaust\w*|insufficient)[^\n]*(interrupt|MSI-?X) vectors?",
            r"intrFirstMsixVector",
            r"interrupt[- ]vectors? exhaust",
        ),
        sample="vmkernel: out of interrupt vectors",
        symptom="a VM with many devices does not start, and vmkernel.log tells of interrupt vectors",
        cause="the host ran out of MSI-X interrupt vectors (ESXi 7.0.1 to 8.0, many passthrough devices)",
        check=(
            "grep -i vector /var/log/vmkernel.log on the host, at the time of the power-on",
            "esxcli system settings kernel list -o intrFirstMsixVector: 0x70 where nobody changed it",
        ),
        remedy="set the kernel option intrFirstMsixVector as Broadcom KB 313395 says, then reboot the host",
        source="https://knowledge.broadcom.com/external/article/313395",
    ),
    FaultRow(
        "bios-to-efi",
        (
            r"EFI (network|vmware virtual [^\n]*)[^\n]*unsuccessful",
            r"no (operating system|bootable) [^\n]*\bEFI\b",
            r"does not boot after[^\n]*EFI",
        ),
        sample="EFI Network... unsuccessful.",
        symptom="the guest does not boot after its firmware was changed to EFI",
        cause="the guest was installed in BIOS mode, and its VM now boots by EFI",
        check=(
            "VM > Edit Settings > VM Options > Boot Options: with Firmware BIOS again the guest boots",
            "in the guest, booted so: /sys/firmware/efi is missing, and its disk has no EFI system partition",
        ),
        remedy="reinstall the guest in EFI mode, or clone a template that is EFI already",
        source="recalled: no document was found for the wording",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "device-backing",
        (r"invalid (device backing|configuration for device|backing)",),
        sample="Invalid device backing specified for the operation.",
        symptom="the device's backing is invalid, or another device than meant is attached",
        cause=(
            "a device's backing does not fit the host: often a PCI id written as another number than"
            " vSphere's (device ids are signed 16-bit there)"
        ),
        check=(
            "govc device.info -json -vm VM 'pcipassthrough-*': the ids of the backing",
            "esxcli hardware pci list: Vendor ID and Device ID of the function that is meant",
        ),
        remedy="take the ids as the host's own configuration target lists them",
        source="vSphere API reference: InvalidDeviceBacking, VirtualPCIPassthroughDeviceBackingInfo",
        faults=frozenset({"InvalidDeviceBacking", "DeviceBackingNotSupported"}),
    ),
    FaultRow(
        "no-compatible-host",
        (
            r"no (compatible host|host is compatible)",
            r"no host(s)? (is|are|was) compatible",
            r"\bNoCompatibleHost\b",
        ),
        sample="No host is compatible with the virtual machine.",
        symptom="vCenter finds no host that could run the VM",
        cause=(
            "every host lacks something; in this order for a VM with GPUs: a free GPU that takes the"
            " profile, the profile itself (driver, graphics type), memory that is not reserved, a network or"
            " datastore of the VM, the hardware version, or a rule forbids it"
        ),
        check=(
            "VM > Monitor > Tasks and Events: the task's error stack names a reason for each host",
            "vgpu-cfg fit PROFILE: where there is room now",
            "vgpu-cfg explain --vm NAME --server VCENTER: what of the VM and its hosts stands in the way",
        ),
        remedy=(
            "make right what the error stack names for the host that you mean; for GPUs see `vgpu-cfg"
            " inventory -v`"
        ),
        source=(
            "vSphere API reference: NoCompatibleHost; docs.vmware.com, vSphere 8.0:"
            " GUID-3A657A5B-011C-4C21-B1E4-1038D828C45B; the wording is recalled"
        ),
        confidence=Confidence.INFERRED,
        faults=frozenset({"NoCompatibleHost", "NoCompatibleHostWithAccessToDevice"}),
    ),
    FaultRow(
        "device-not-available",
        (
            r"one or more devices \(?pciPassthru\d+[^\n]*not available",
            r"devices? [^\n]*required by VM [^\n]*not available on host",
        ),
        sample=(
            "Insufficient resources. One or more devices (pciPassthru0) required by VM hvd-01 are not"
            " available on host esx-01.example.com."
        ),
        symptom="the host lacks a PCI device or a vGPU that the VM has",
        cause=(
            "the GPU's slot is taken by another VM, the host does not offer the profile, or the passthrough"
            " device is not active there"
        ),
        check=(
            (
                "vgpu-cfg inventory --host HOST -v: what holds each GPU, the profiles offered, active"
                " passthrough"
            ),
            "govc device.info -json -vm VM 'pcipassthrough-*': what the VM asks for",
        ),
        remedy="free the GPU, place the VM on another host, or give it a profile that the host offers",
        source="recalled: no document was found for the wording",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "vgpu-key-refused",
        (
            (
                r"(specified parameter was not correct|invalid|refused|not"
                r" (supported|allowed|correct))[^\n]*pciPassthru\d+\.vgpu\b"
            ),
            (
                r"pciPassthru\d+\.vgpu\b[^\n]*(invalid|refused|not"
                r" (supported|allowed|correct|found|available)|unknown)"
            ),
        ),
        sample='A specified parameter was not correct: configSpec.extraConfig["pciPassthru0.vgpu"]',
        symptom="pciPassthru0.vgpu is refused",
        cause=(
            "the profile is written as a pair of extraConfig, where a device belongs; or the host has no"
            " profile of that name (its driver, its board, its mode)"
        ),
        check=(
            "govc device.info -json -vm VM 'pcipassthrough-*': the VM's vGPUs and their profiles",
            "govc object.collect -json HOST config.sharedPassthruGpuTypes: the names that the host takes",
        ),
        remedy=(
            "add the vGPU as a device (`gpus` of a plan file does), with a name that the host offers:"
            " `vgpu-cfg profiles BOARD`"
        ),
        source=(
            "vSphere API reference: VirtualPCIPassthroughVmiopBackingInfo, InvalidArgument; the wording is"
            " recalled"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "mmio-firmware",
        (
            r"firmware could not allocate \d+ [KM]B of PCI MMIO",
            r"increase the size of PCI MMIO",
            r"(MMIO|PCI memory)[^\n]*(exhaust|out of|insufficient|not enough)",
            r"(exhaust|out of|insufficient|not enough)[^\n]*MMIO (space|resources?|window)(?! for SR)",
        ),
        sample=(
            "The firmware could not allocate 33587200 KB of PCI MMIO. Increase the size of PCI MMIO and try"
            " again."
        ),
        symptom="the VM's MMIO space is exhausted: its firmware finds no place for the GPUs' memory",
        cause="pciPassthru.64bitMMIOSizeGB is smaller than all GPUs and NICs of the VM need together",
        check=(
            (
                "govc vm.info -e VM: pciPassthru.64bitMMIOSizeGB must be the GPUs' memory, rounded up to a"
                " power of two, times two"
            ),
            "govc device.ls -vm VM: how many passthrough devices it has",
        ),
        remedy=(
            "power the VM off and raise pciPassthru.64bitMMIOSizeGB (80 GB: 256, two of them: 512);"
            " `vgpu-cfg apply` computes it"
        ),
        source=(
            "met on a PowerEdge R760 with L4 (notes in a public repository); Broadcom KB 323402 for the sum"
        ),
    ),
    FaultRow(
        "drs-no-host",
        (r"DRS cannot find a host to power on or migrate",),
        sample="DRS cannot find a host to power on or migrate the virtual machine.",
        symptom="DRS finds no host for the VM",
        cause=(
            "as where no host is compatible; with vGPUs also: DRS is not automated for them, or each free"
            " GPU is in another mode"
        ),
        check=(
            "VM > Monitor > Tasks and Events: the fault of each host",
            "vgpu-cfg fit PROFILE: where there is room now",
        ),
        remedy="name the host (`place.hosts` of a plan file), or make right what the events name",
        source=(
            "vSphere API reference: NoCompatibleHost; NVIDIA vGPU software user guide; the wording is"
            " recalled"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "ha-failover-level",
        (r"insufficient resources to satisfy configured failover level",),
        sample="Insufficient resources to satisfy configured failover level for vSphere HA.",
        symptom="vSphere HA's admission control refuses the start",
        cause=(
            "the cluster keeps memory and CPU free for a host that fails, and VMs that reserve all their"
            " memory use it up"
        ),
        check=(
            (
                "Cluster > Monitor > vSphere HA > Summary: capacity kept and free; Cluster > Configure >"
                " vSphere Availability: its policy"
            ),
        ),
        remedy="add memory or hosts, or change the admission control policy; it is no matter of GPUs",
        source="vSphere API reference: InsufficientFailoverResourcesFault; the wording is recalled",
        confidence=Confidence.INFERRED,
        faults=frozenset({"InsufficientFailoverResourcesFault"}),
    ),
    FaultRow(
        "rule-violated",
        (r"would violate a[^\n]*(affinity|host) rule", r"violates? [^\n]*(anti-)?affinity rule"),
        sample=(
            "Virtual machine 'hvd-01' on host 'esx-01' would violate a virtual machine - host affinity rule."
        ),
        symptom="a DRS rule forbids this host",
        cause="a must-rule ties the VM to other hosts, or keeps it from VMs that run there",
        check=("Cluster > Configure > VM/Host Rules: the rules that name the VM or its group",),
        remedy=(
            "choose a host that the rule allows, or change the rule (`apart` and `together` of a plan file"
            " write them)"
        ),
        source="vSphere API reference: VmHostAffinityRuleViolation; the wording is recalled",
        confidence=Confidence.INFERRED,
        faults=frozenset({"VmHostAffinityRuleViolation", "RuleViolation"}),
    ),
)
