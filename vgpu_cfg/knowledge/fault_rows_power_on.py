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
    ),
    FaultRow(
        "graphics-resources",
        (r"amount of graphics resource available in the parent resource pool is insufficient",),
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
        faults=frozenset({"InsufficientGraphicsResourcesFault"}),
    ),
    FaultRow(
        "vgpu-plugin",
        (r"could not initialize plugin '[^']*libnvidia-vgx\.so'",),
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
    ),
    FaultRow(
        "no-device-for-profile",
        (r"no graphics device is available for vGPU",),
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
    ),
    FaultRow(
        "memory-not-reserved",
        (r"memory reservation \(sched\.mem\.min\) should be equal to memsize",),
        symptom="the memory reservation is not the memory size",
        cause="a VM with a GPU must reserve all its memory",
        check=("VM > Edit Settings > Memory: Reserve all guest memory must be ticked",),
        remedy="reserve all guest memory (memoryReservationLockedToMax) and apply again",
    ),
    FaultRow(
        "not-a-passthrough-device",
        (r"device [0-9a-f]+:[0-9a-f]+\.[0-7] is not a passthrough device",),
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
    ),
    FaultRow(
        "wrong-system-id",
        (r"systemId does not match the current system or the deviceId",),
        symptom="the device's systemId or deviceId is not the host's",
        cause=(
            "the VM holds a fixed passthrough device of another host, or its ids were written in another form"
        ),
        check=(
            "govc device.info -json -vm VM 'pcipassthrough-*': systemId, deviceId, vendorId of the backing",
            "VM > Summary > Host: the host that the device must be of",
        ),
        remedy="remove the device and add it as the VM's present host offers it",
    ),
    FaultRow(
        "viommu-with-vgpu",
        (r"IOMMU virtualization is not allowed with VGPU",),
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
    ),
    FaultRow(
        "interrupt-vectors",
        (
            r"(out of|no (more|free)|exhaust\w*|insufficient)[^\n]*(interrupt|MSI-?X) vectors?",
            r"intrFirstMsixVector",
            r"interrupt[- ]vectors? exhaust",
        ),
        symptom="a VM with many devices does not start, and vmkernel.log tells of interrupt vectors",
        cause="the host ran out of MSI-X interrupt vectors (ESXi 7.0.1 to 8.0, many passthrough devices)",
        check=(
            "grep -i vector /var/log/vmkernel.log on the host, at the time of the power-on",
            "esxcli system settings kernel list -o intrFirstMsixVector: 0x70 where nobody changed it",
        ),
        remedy="set the kernel option intrFirstMsixVector as Broadcom KB 313395 says, then reboot the host",
    ),
    FaultRow(
        "bios-to-efi",
        (
            r"EFI (network|vmware virtual [^\n]*)[^\n]*unsuccessful",
            r"no (operating system|bootable) [^\n]*\bEFI\b",
            r"does not boot after[^\n]*EFI",
        ),
        symptom="the guest does not boot after its firmware was changed to EFI",
        cause="the guest was installed in BIOS mode, and its VM now boots by EFI",
        check=(
            "VM > Edit Settings > VM Options > Boot Options: with Firmware BIOS again the guest boots",
            "in the guest, booted so: /sys/firmware/efi is missing, and its disk has no EFI system partition",
        ),
        remedy="reinstall the guest in EFI mode, or clone a template that is EFI already",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "device-backing",
        (r"invalid (device backing|configuration for device|backing)",),
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
        faults=frozenset({"InvalidDeviceBacking", "DeviceBackingNotSupported"}),
    ),
)
