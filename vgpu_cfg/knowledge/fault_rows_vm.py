"""Known failures of one VM: it cannot be configured, powered on, snapshotted or moved.

Sources: NVIDIA AI Enterprise user guides, NVIDIA forums, Broadcom knowledge base,
VMware's vhpc-toolkit and blogs. Rows marked inferred follow from a documented rule.
"""

from __future__ import annotations

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow

_TRAIT = r"(ECC|MIG|NVLink topology|GPU type)"
_DIFFERS = r"(differ|mismatch|not (the same|identical|compatible))"
_MOVE = r"(migrat|destination|target)"

VM_ROWS = (
    FaultRow(
        "mmio-too-small",
        (r"total number of pages needed \(\d+\) exceeds limit",),
        cause="the 64-bit MMIO window is too small for the GPU's memory, or the VM boots by BIOS",
        remedy="use EFI firmware, pciPassthru.use64bitMMIO TRUE and a larger pciPassthru.64bitMMIOSizeGB",
    ),
    FaultRow(
        "graphics-resources",
        (r"amount of graphics resource available in the parent resource pool is insufficient",),
        cause=(
            "no GPU of the host can take this profile as they are held now: each is full, locked to another"
            " size, or has no free slice where it may start; or the graphics type is not sharedDirect"
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
        cause=(
            "the vGPU manager refused to start the vGPU: SR-IOV is off in the BIOS, ECC is on where it is"
            " not supported, the graphics type is not sharedDirect, or not all memory is reserved"
        ),
        remedy="check these in this order; the lines vmiop_log in the VM's vmware.log say more",
    ),
    FaultRow(
        "no-device-for-profile",
        (r"no graphics device is available for vGPU",),
        cause=(
            "every GPU that offers this profile runs another size or type already, is in MIG mode, or the"
            " host driver does not match the product that is licensed"
        ),
        remedy=(
            "take the size that runs there, set mixed-size mode where the board can, or choose another GPU"
        ),
    ),
    FaultRow(
        "memory-not-reserved",
        (r"memory reservation \(sched\.mem\.min\) should be equal to memsize",),
        cause="a VM with a GPU must reserve all its memory",
        remedy="reserve all guest memory (memoryReservationLockedToMax) and apply again",
    ),
    FaultRow(
        "not-a-passthrough-device",
        (r"device [0-9a-f]+:[0-9a-f]+\.[0-7] is not a passthrough device",),
        cause=(
            "the PCI address is not passed through now: passthrough is set but not active yet, or hot-plug"
            " renumbered the devices (seen on HPE servers)"
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
        cause=(
            "the VM holds a fixed passthrough device of another host, or its ids were written in another form"
        ),
        remedy="remove the device and add it as the VM's present host offers it",
    ),
    FaultRow(
        "viommu-with-vgpu",
        (r"IOMMU virtualization is not allowed with VGPU",),
        cause="the VM has a virtual IOMMU, which more than 128 vCPUs need, and a vGPU",
        remedy=(
            "use 128 vCPUs at most, or allow it: vvtd.enable, pciPassthru.vmiop.allowViommu (on AMD also"
            " amd.iommu.supportsPcip), guest kernel option iommu=pt"
        ),
    ),
    FaultRow(
        "hot-migration-off",
        (r"vGPU hot migration is not enabled",),
        cause="vCenter's advanced setting for migrating running vGPU VMs is off",
        remedy="set vgpu.hotmigrate.enabled to true in vCenter's advanced settings",
    ),
    FaultRow(
        "migration-feature",
        (r"a required migration feature is not supported on the .?source",),
        cause=(
            "unified memory, debugging or profiling is on for the vGPU, or the VM has a device that cannot"
            " move"
        ),
        remedy="switch these vGPU options off, or migrate the VM while it is off",
        faults=frozenset({"MigrationFeatureNotSupported"}),
    ),
    FaultRow(
        "migration-hosts-differ",
        (
            rf"{_TRAIT}[^.\n]*{_DIFFERS}[^.\n]*{_MOVE}",
            rf"{_MOVE}[^.\n]*{_TRAIT}[^.\n]*{_DIFFERS}",
        ),
        cause="source and destination host differ in ECC, MIG mode, NVLink topology or GPU model",
        remedy="set both hosts alike, or migrate the VM while it is off",
    ),
    FaultRow(
        "bios-to-efi",
        (
            r"EFI (network|vmware virtual [^\n]*)[^\n]*unsuccessful",
            r"no (operating system|bootable) [^\n]*\bEFI\b",
        ),
        cause="the guest was installed in BIOS mode, and its VM now boots by EFI",
        remedy="install the guest anew in EFI mode, or clone a template that is EFI already",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "device-backing",
        (r"invalid (device backing|configuration for device|backing)",),
        cause=(
            "a device's backing does not fit the host: often a PCI id written as another number than"
            " vSphere's (device ids are signed 16-bit there)"
        ),
        remedy="take the ids as the host's own configuration target lists them",
        faults=frozenset({"InvalidDeviceBacking", "DeviceBackingNotSupported"}),
    ),
    FaultRow(
        "parameter-ignored",
        (r"pciPassthru\d+\.cfg\.\w+[^\n]*(ignored|no effect|not applied|has no such)",),
        cause=(
            "a vGPU parameter was set while the VM ran, carries the number of another device, or was lost"
            " when the host restarted"
        ),
        remedy="power the VM off, count the device as its key minus 13000, set the parameter, power on",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "snapshot-refused",
        (
            r"(snapshot|suspend)[^.\n]*(not (supported|allowed)|cannot)[^.\n]*(vGPU|passthrough|PCI)",
            r"(vGPU|passthrough)[^.\n]*(snapshot|suspend)[^.\n]*(not (supported|allowed)|cannot)",
        ),
        cause="the vGPU does not support it on this host, or the VM has a passthrough device",
        remedy="see the host's shared GPU capabilities first; power the VM off for a snapshot",
        confidence=Confidence.INFERRED,
    ),
)

GENERAL_ROWS = (
    FaultRow(
        "concurrent-access",
        (r"changed by another (client|user|session) since", r"\bConcurrentAccess\b"),
        cause="somebody changed the VM after it was read",
        remedy="run the same command again: it plans anew from what is there now",
        faults=frozenset({"ConcurrentAccess"}),
    ),
    FaultRow(
        "duplicate-name",
        (r"the name '[^']+' already exists",),
        cause="a VM of this name stands in the folder already, and it is not this plan's",
        remedy="rename one of the two, or give the plan's VMs another folder",
        faults=frozenset({"DuplicateName"}),
    ),
    FaultRow(
        "task-in-progress",
        (r"another task is already in progress",),
        cause="vCenter is busy with another task on the same object",
        remedy="wait for it to end (see the recent tasks in vCenter), then run the same command again",
        faults=frozenset({"TaskInProgress"}),
    ),
    FaultRow(
        "no-permission",
        (r"permission to perform this operation was denied",),
        cause="the account lacks a privilege for this operation",
        remedy="give the account the privilege that the message names, then run the same command again",
        faults=frozenset({"NoPermission"}),
    ),
    FaultRow(
        "memory-resources",
        (r"insufficient memory resources", r"host does not have sufficient memory"),
        cause="the host has less unreserved memory than this VM must reserve",
        remedy="free memory on the host, give the VM less, or place it on another host",
        faults=frozenset({"InsufficientMemoryResourcesFault"}),
    ),
    FaultRow(
        "hardware-version",
        (r"virtual machine (hardware )?version[^.\n]*not supported",),
        cause="the host is too old for the VM's hardware version",
        remedy="place the VM on a newer host, or clone a template of an older version",
        faults=frozenset({"VirtualHardwareVersionNotSupported"}),
    ),
    FaultRow(
        "device-power-on",
        (r"module '?DevicePowerOn'? power on failed",),
        cause=(
            "ESXi could not attach one of the VM's devices; the reason stands in the VM's vmware.log, most"
            " often a 64-bit MMIO window that is too small or a GPU that is taken"
        ),
        remedy="read the last lines of vmware.log and give them to `vgpu-cfg explain`",
        is_general=True,
    ),
)
