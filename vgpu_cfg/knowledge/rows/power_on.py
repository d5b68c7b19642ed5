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
        symptom="the power-on fails in DevicePowerOn, and vmware.log reports pages that exceed a limit",
        cause=(
            "the VM's 64-bit MMIO space is too small for the GPU's memory, or the VM boots with BIOS firmware"
        ),
        check=(
            (
                "govc vm.info -e VM: pciPassthru.use64bitMMIO must be TRUE, and pciPassthru.64bitMMIOSizeGB"
                " must be twice the sum of the GPUs' memory, rounded up to a power of two"
            ),
            "VM > Edit Settings > VM Options > Boot Options: Firmware must be EFI",
        ),
        remedy=(
            "use EFI firmware, set pciPassthru.use64bitMMIO to TRUE, and increase pciPassthru.64bitMMIOSizeGB"
        ),
        source="https://www.dell.com/support/kbdoc/en-us/000199172 and Broadcom KB 323402",
    ),
    FaultRow(
        "graphics-resources",
        (r"amount of graphics resource available in the parent resource pool is insufficient",),
        sample=(
            "The amount of graphics resource available in the parent resource pool is insufficient for the"
            " operation."
        ),
        symptom="vCenter cannot find a graphics resource for the VM",
        cause=(
            "no GPU on the host has space for this profile, because each GPU is full, is used for a"
            " different size, or has no free slice at a valid start position, or because the graphics type"
            " is not sharedDirect"
        ),
        check=(
            "vgpu-cfg inventory --host HOST: the vGPUs on each GPU, its mode, and its free space",
            "esxcli graphics host get: Default Graphics Type must be SharedPassthru",
            "nvidia-smi vgpu -c on the host: the profiles that can be created now",
        ),
        remedy=(
            "run `vgpu-cfg inventory` to see which VMs use the GPUs, and power off or migrate those VMs; if"
            " the graphics type is not sharedDirect, change it and restart the host's graphics service"
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
        symptom="the host's vGPU plugin libnvidia-vgx.so fails to initialize",
        cause=(
            "the vGPU manager did not start the vGPU because SR-IOV is disabled in the BIOS, ECC is enabled"
            " but not supported, the graphics type is not sharedDirect, or not all memory is reserved"
        ),
        check=(
            "grep vmiop_log vmware.log in the VM's folder: the reason that the vGPU manager reports",
            (
                "nvidia-smi -q on the host: Host VGPU Mode is SR-IOV on Ampere and later; Ecc Mode is as"
                " intended"
            ),
            "esxcli graphics device list: Graphics Type must be Shared Passthru",
            "VM > Edit Settings > Memory: Reserve all guest memory must be selected",
        ),
        remedy="check these causes in order; for details, see the vmiop_log lines in the VM's vmware.log",
        source="NVIDIA AI Enterprise 5.0 user guide and NVIDIA forums",
    ),
    FaultRow(
        "no-device-for-profile",
        (r"no graphics device is available for vGPU",),
        sample="No graphics device is available for vGPU 'nvidia_a40-1a'.",
        symptom="no graphics device is available for the vGPU's profile",
        cause=(
            "every GPU that offers this profile is already running a different size or type or is in MIG"
            " mode, or the host driver does not match the licensed product"
        ),
        check=(
            "vgpu-cfg inventory --host HOST: which sizes run on which GPU, and which GPUs are in MIG mode",
            (
                "on the host, compare nvidia-smi vgpu -s (all profiles of the host driver) with nvidia-smi"
                " vgpu -c (profiles that can be created now)"
            ),
            "esxcli software vib list: for NVIDIA AI Enterprise, the driver's name begins with NVD-AIE",
        ),
        remedy=(
            "use the size that is already running on the GPU, set mixed-size mode if the board supports it,"
            " or choose a different GPU"
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
        symptom="the memory reservation does not equal the memory size",
        cause="a VM with a GPU must reserve all its memory",
        check=("VM > Edit Settings > Memory: Reserve all guest memory must be selected",),
        remedy="reserve all guest memory (memoryReservationLockedToMax), and run apply again",
        source="github.com/vmware/vhpc-toolkit: requirements of its GPU commands; NVIDIA forums",
    ),
    FaultRow(
        "not-a-passthrough-device",
        (r"device [0-9a-f]+:[0-9a-f]+\.[0-7] is not a passthrough device",),
        sample="Failed to start the virtual machine. Device 6:0.0 is not a passthrough device.",
        symptom="the VM's device is not a passthrough device on the host",
        cause=(
            "passthrough is configured but not yet active for this PCI address, or hot-plug renumbered the"
            " devices (seen on HPE servers)"
        ),
        check=(
            (
                "vgpu-cfg inventory --host HOST -v: the device's current address, and whether passthrough is"
                " active for it"
            ),
            (
                "Host > Configure > Hardware > PCI Devices: whether passthrough is enabled and whether a"
                " reboot is pending"
            ),
            "esxcli system settings kernel list -o enablePCIEHotplug: its Runtime value",
        ),
        remedy=(
            "check whether passthrough is active after a reboot; if the server renumbers devices, disable"
            " PCIe hot-plug with esxcli system settings kernel set -s enablePCIEHotplug -v FALSE and reboot"
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
        symptom="the device's systemId or deviceId does not match the host's",
        cause=(
            "the VM has a fixed passthrough device from a different host, or the IDs were written in a"
            " different format"
        ),
        check=(
            (
                "govc device.info -json -vm VM 'pcipassthrough-*': systemId, deviceId, and vendorId of the"
                " backing"
            ),
            "VM > Summary > Host: the host on which the device must exist",
        ),
        remedy="remove the device, and add it again with the IDs that the VM's current host lists",
        source="github.com/vmware/vhpc-toolkit and Broadcom community threads",
    ),
    FaultRow(
        "viommu-with-vgpu",
        (r"IOMMU virtualization is not allowed with VGPU",),
        sample=(
            "The virtual machine cannot be powered on because IOMMU virtualization is not allowed with VGPU"
        ),
        symptom="a virtual IOMMU is not allowed in a VM with a vGPU",
        cause="the VM has both a vGPU and a virtual IOMMU, which VMs with more than 128 vCPUs require",
        check=(
            "VM > Edit Settings > CPU: the number of vCPUs and the I/O MMU setting",
            "govc vm.info -e VM: vvtd.enable and pciPassthru.vmiop.allowViommu",
        ),
        remedy=(
            "use up to 128 vCPUs, or allow both by setting vvtd.enable, pciPassthru.vmiop.allowViommu (on"
            " AMD also amd.iommu.supportsPcip), and the guest kernel option iommu=pt"
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
        symptom="a VM with many devices does not start, and vmkernel.log reports missing interrupt vectors",
        cause=(
            "the host ran out of MSI-X interrupt vectors (ESXi 7.0.1 to 8.0 with many passthrough devices)"
        ),
        check=(
            "grep -i vector /var/log/vmkernel.log on the host, for the time of the power-on",
            "esxcli system settings kernel list -o intrFirstMsixVector: 0x70 unless it was changed",
        ),
        remedy=(
            "set the kernel option intrFirstMsixVector as described in Broadcom KB 313395, then reboot the"
            " host"
        ),
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
        cause="the guest was installed in BIOS mode, but the VM now boots with EFI firmware",
        check=(
            (
                "VM > Edit Settings > VM Options > Boot Options: the guest boots again if Firmware is set"
                " to BIOS"
            ),
            (
                "in the guest, booted with BIOS: /sys/firmware/efi is missing, and the disk has no EFI"
                " system partition"
            ),
        ),
        remedy="reinstall the guest in EFI mode, or clone a template that already uses EFI",
        source="from memory; the exact wording was not found in any document",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "device-backing",
        (r"(invalid|incompatible) (device backing|configuration for device|backing)",),
        sample="Invalid device backing specified for the operation.",
        symptom="the device's backing is invalid, or the wrong device is attached",
        cause=(
            "a device's backing does not match the host, often because a PCI ID is not in vSphere's format"
            " (signed 16-bit numbers)"
        ),
        check=(
            "govc device.info -json -vm VM 'pcipassthrough-*': the IDs of the backing",
            "esxcli hardware pci list: Vendor ID and Device ID of the intended function",
        ),
        remedy="use the IDs exactly as listed in the host's configuration target",
        source="vSphere API reference: InvalidDeviceBacking, VirtualPCIPassthroughDeviceBackingInfo",
        faults=frozenset({"InvalidDeviceBacking", "DeviceBackingNotSupported"}),
    ),
    FaultRow(
        "no-compatible-host",
        (
            r"no (compatible host|host is compatible)",
            r"no host(s)? (is|are|was) compatible",
            r"user specified host is not compatible",
            r"placeVm\.emptyCompatSet",
            r"\bNoCompatibleHost\b",
        ),
        sample="No host is compatible with the virtual machine.",
        symptom="vCenter cannot find a host that can run the VM",
        cause=(
            "no host meets all the VM's requirements; for VMs with GPUs, the usual causes are, in order: no"
            " free GPU for the profile, a profile that the host does not offer, not enough unreserved"
            " memory, a missing network or datastore, an unsupported hardware version, or a rule that"
            " excludes the host"
        ),
        check=(
            "VM > Monitor > Tasks and Events: the task's error stack shows a reason for each host",
            "vgpu-cfg fit PROFILE: where there is room now",
            "vgpu-cfg explain --vm NAME --server VCENTER: what prevents the VM from starting on each host",
        ),
        remedy=(
            "fix the problem that the error stack shows for the intended host; for GPUs, see `vgpu-cfg"
            " inventory -v`"
        ),
        source=(
            "vSphere API reference: NoCompatibleHost; docs.vmware.com, vSphere 8.0:"
            " GUID-3A657A5B-011C-4C21-B1E4-1038D828C45B (wording from memory, not verified)"
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
        symptom="the host does not have a PCI device or vGPU that the VM requires",
        cause=(
            "another VM is using the GPU, the host does not offer the profile, or passthrough is not active"
            " for the device on that host"
        ),
        check=(
            (
                "vgpu-cfg inventory --host HOST -v: the users of each GPU, the profiles offered, and active"
                " passthrough"
            ),
            "govc device.info -json -vm VM 'pcipassthrough-*': the devices the VM requires",
        ),
        remedy="free up the GPU, place the VM on a different host, or use a profile that the host offers",
        source="from memory; the exact wording was not found in any document",
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
        symptom="the setting pciPassthru0.vgpu is rejected",
        cause=(
            "the profile was set in extraConfig instead of being added as a device, or the host has no"
            " profile with that name because of its driver, board, or mode"
        ),
        check=(
            "govc device.info -json -vm VM 'pcipassthrough-*': the VM's vGPUs and their profiles",
            "govc object.collect -json HOST config.sharedPassthruGpuTypes: the names that the host accepts",
        ),
        remedy=(
            "add the vGPU as a device (`gpus` in a plan file does this), and use a profile name that the"
            " host offers (`vgpu-cfg profiles BOARD`)"
        ),
        source=(
            "vSphere API reference: VirtualPCIPassthroughVmiopBackingInfo, InvalidArgument (wording"
            " from memory, not verified)"
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
        symptom="the VM's MMIO space is exhausted, so its firmware has no room for the GPUs' memory",
        cause="pciPassthru.64bitMMIOSizeGB is smaller than the total that the VM's GPUs and NICs require",
        check=(
            (
                "govc vm.info -e VM: pciPassthru.64bitMMIOSizeGB must be twice the GPUs' memory, rounded up"
                " to a power of two"
            ),
            "govc device.ls -vm VM: the number of passthrough devices",
        ),
        remedy=(
            "power off the VM and increase pciPassthru.64bitMMIOSizeGB (256 for one 80 GB GPU, 512 for"
            " two); `vgpu-cfg apply` calculates this value"
        ),
        source=(
            "seen on a PowerEdge R760 with L4 (notes in a public repository); Broadcom KB 323402 for the sum"
        ),
    ),
    FaultRow(
        "drs-no-host",
        (r"DRS cannot find a host to power on or migrate",),
        sample="DRS cannot find a host to power on or migrate the virtual machine.",
        symptom="DRS cannot find a host for the VM",
        cause=(
            'the causes are the same as for "no compatible host"; for vGPUs, DRS may also not be'
            " automated for these VMs, or all free GPUs are in a different mode"
        ),
        check=(
            "VM > Monitor > Tasks and Events: the fault for each host",
            "vgpu-cfg fit PROFILE: where there is room now",
        ),
        remedy="specify the host (`place.hosts` in a plan file), or fix the faults that the events show",
        source=(
            "vSphere API reference: NoCompatibleHost; NVIDIA vGPU software user guide (wording from"
            " memory, not verified)"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "ha-failover-level",
        (r"insufficient resources to satisfy configured failover level",),
        sample="Insufficient resources to satisfy configured failover level for vSphere HA.",
        symptom="vSphere HA admission control rejects the power-on",
        cause=(
            "the cluster reserves memory and CPU for host failures, and VMs with full memory reservations"
            " use up the rest"
        ),
        check=(
            (
                "Cluster > Monitor > vSphere HA > Summary: reserved and free capacity; Cluster > Configure >"
                " vSphere Availability: the admission control policy"
            ),
        ),
        remedy="add memory or hosts, or change the admission control policy; GPUs are not the cause",
        source=(
            "vSphere API reference: InsufficientFailoverResourcesFault (wording from memory, not verified)"
        ),
        confidence=Confidence.INFERRED,
        faults=frozenset({"InsufficientFailoverResourcesFault"}),
    ),
    FaultRow(
        "rule-violated",
        (r"would violate a[^\n]*(affinity|host) rule", r"violates? [^\n]*(anti-)?affinity rule"),
        sample=(
            "Virtual machine 'hvd-01' on host 'esx-01' would violate a virtual machine - host affinity rule."
        ),
        symptom="a DRS rule does not allow this host",
        cause='a "must" rule restricts the VM to other hosts, or keeps it apart from VMs on this host',
        check=("Cluster > Configure > VM/Host Rules: the rules that include the VM or its group",),
        remedy=(
            "choose a host that the rule allows, or change the rule (`place.spread` and `place.host_group` in"
            " a plan file create such rules)"
        ),
        source="vSphere API reference: VmHostAffinityRuleViolation (wording from memory, not verified)",
        confidence=Confidence.INFERRED,
        faults=frozenset({"VmHostAffinityRuleViolation", "RuleViolation"}),
    ),
)
