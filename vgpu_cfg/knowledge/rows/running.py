"""Known failures of a VM with GPUs that starts, and cannot be moved, snapshotted or configured.

Sources: NVIDIA AI Enterprise user guides, NVIDIA forums, Broadcom knowledge base,
VMware's blogs. Rows marked inferred follow from a documented rule.
"""

from __future__ import annotations

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow

_TRAIT = r"(ECC|MIG|NVLink topology|GPU type)"
_DIFFERS = r"(differ|mismatch|not (the same|identical|compatible))"
_MOVE = r"(migrat|destination|target)"

VM_ROWS = (
    FaultRow(
        "hot-migration-off",
        (r"vGPU hot migration is not enabled",),
        sample=(
            "Migration was temporarily disabled due to another migration activity. vGPU hot migration is not"
            " enabled."
        ),
        symptom="vMotion is refused: vGPU hot migration is not enabled",
        cause="vCenter's advanced setting for migrating running vGPU VMs is off",
        check=("govc option.ls vgpu.hotmigrate.enabled: it must be true",),
        remedy="set vgpu.hotmigrate.enabled to true in vCenter's advanced settings",
        source="docs.vmware.com, vSphere 7.0: GUID-8FE6A0DA-49E9-472B-815B-D630CF2014AD",
    ),
    FaultRow(
        "migration-feature",
        (
            r"a required migration feature is not supported on the .?source",
            r"(vmotion|migrat\w*)[^\n]*gr[ea]yed out",
            r"PCI device[^\n]*can ?not (be )?migrate",
        ),
        sample='A required migration feature is not supported on the "Source" host',
        symptom="vMotion is refused: a required feature is not supported on the source host",
        cause=(
            "unified memory, debugging or profiling is on for the vGPU, or the VM has a device that cannot"
            " move"
        ),
        check=(
            (
                "govc vm.info -e VM: pciPassthru<n>.cfg.enable_uvm, enable_debugging and enable_profiling"
                " must not be 1"
            ),
            "govc device.ls -vm VM: no fixed passthrough device, no SR-IOV NIC",
        ),
        remedy="switch these vGPU options off, or migrate the VM while it is off",
        source="NVIDIA vGPU software user guide: migrating a VM configured with vGPU",
        faults=frozenset({"MigrationFeatureNotSupported"}),
    ),
    FaultRow(
        "migration-hosts-differ",
        (
            rf"{_TRAIT}[^.\n]*{_DIFFERS}[^.\n]*{_MOVE}",
            rf"{_MOVE}[^.\n]*{_TRAIT}[^.\n]*{_DIFFERS}",
        ),
        sample="Cannot migrate: the destination host's ECC state is not the same",
        symptom="vMotion is refused: ECC, MIG mode, NVLink topology or the GPU's type differs",
        cause="source and destination host differ in ECC, MIG mode, NVLink topology or GPU model",
        check=(
            "nvidia-smi -q on both hosts: Product Name, Ecc Mode and MIG Mode must be the same",
            "nvidia-smi topo -m on both hosts: the same NVLinks between the GPUs",
        ),
        remedy="set both hosts alike, or migrate the VM while it is off",
        source="NVIDIA vGPU software user guide: migrating a VM configured with vGPU",
    ),
    FaultRow(
        "parameter-ignored",
        (
            r"pciPassthru\d+\.cfg\.\w+[^\n]*(ignored|no effect|not applied|has no such)",
            r"plugin parameter[^\n]*(ignored|no effect)",
        ),
        sample="pciPassthru0.cfg.enable_uvm is ignored",
        symptom="a vGPU parameter such as enable_uvm is set and has no effect",
        cause=(
            "a vGPU parameter was set while the VM ran, carries the number of another device, or was lost"
            " when the host restarted"
        ),
        check=(
            (
                "govc device.ls -vm VM pcipassthrough-13000: the vGPU's key less 13000 is the n of"
                " pciPassthru<n>.cfg"
            ),
            "govc vm.info -e VM: the key is there; govc tasks VM: and was written before the last power-on",
        ),
        remedy="power the VM off, count the device as its key minus 13000, set the parameter, power on",
        source="NVIDIA AI Enterprise 5.0 user guide: setting vGPU plugin parameters; the wording is recalled",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "snapshot-refused",
        (
            r"(snapshot|suspend)[^.\n]*(not (supported|allowed)|cannot)[^.\n]*(vGPU|passthrough|PCI)",
            r"(vGPU|passthrough)[^.\n]*(snapshot|suspend)[^.\n]*(not (supported|allowed)|cannot)",
            r"(snapshot|suspend)\w*[^\n]*refused",
        ),
        sample="A snapshot cannot be taken of a VM with a passthrough device",
        symptom="a snapshot or a suspend of the VM is refused",
        cause="the vGPU does not support it on this host, or the VM has a passthrough device",
        check=(
            (
                "govc object.collect -json HOST config.sharedGpuCapabilities: diskSnapshotSupported,"
                " memorySnapshotSupported and suspendSupported of the VM's profile"
            ),
            "govc device.ls -vm VM: no passthrough device besides vGPUs",
        ),
        remedy="see the host's shared GPU capabilities first; power the VM off for a snapshot",
        source="vSphere API reference: SharedGpuCapabilities; the wording is recalled",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "drs-does-not-balance",
        (
            r"\bDRS\b[^\n]*\b(not|never)\b[^\n]*(balanc|mov|migrat)[^\n]*vGPU",
            r"vGPU[^\n]*\b(not|never)\b[^\n]*(balanced|moved|migrated)[^\n]*\bDRS\b",
        ),
        sample="vGPU VMs are not balanced by DRS",
        symptom="DRS does not balance VMs with vGPUs",
        cause=(
            "DRS leaves vGPU VMs alone unless it is partially automated or manual, or their stun time is"
            " too long"
        ),
        check=(
            "Cluster > Configure > vSphere DRS: the automation level, and the advanced options",
            "VM > Edit Settings > VM Options > Advanced: the vMotion stun time limit (vSphere 8.0 U2 on)",
        ),
        remedy="set DRS as NVIDIA's guide says; from vSphere 8.0 U2 see the limit for the stun time",
        source="NVIDIA vGPU software user guide and VMware's blog on vSphere 8.0 U2",
    ),
    FaultRow(
        "console-black",
        (r"console[^\n]*\bblack\b", r"black (console|screen)"),
        sample="the console is black after the driver install",
        symptom="the VM's console is black once the guest's driver is installed",
        cause=(
            "once the guest's NVIDIA driver runs, the vGPU owns the display: vSphere's console stays black"
        ),
        check=("log in to the guest by SSH: it answers, and nvidia-smi there shows the vGPU",),
        remedy="this is expected: use SSH or VNC",
        source="NVIDIA AI Enterprise 5.0 user guide: the console after the driver's installation",
    ),
    FaultRow(
        "guestinfo-denied",
        (r"guestinfo[^\n]*permission denied", r"info-get[^\n]*permission denied"),
        sample="vmware-rpctool info-get guestinfo.metadata: Permission denied",
        symptom="the guest may not read its guestinfo",
        cause="the VM option guest_rpc.rpci.auth.cmd.info-get lets only root read guestinfo",
        check=(
            "govc vm.info -e VM: guest_rpc.rpci.auth.cmd.info-get is TRUE",
            "in the guest, as root: vmtoolsd --cmd 'info-get guestinfo.metadata' answers",
        ),
        remedy="read it as root; cloud-init goes by `vmtoolsd --cmd` then",
        source="github.com/canonical/cloud-init: its VMware data source",
    ),
    FaultRow(
        "stun-time",
        (r"stun time",),
        sample=(
            "The virtual machine's estimated maximum stun time of 41 seconds exceeds the limit of 30 seconds"
        ),
        symptom="a start or a vMotion is refused because of the stun time",
        cause=(
            "the time that the VM would stand still while its GPU's memory is copied is longer than the VM's"
            " limit allows; the estimate goes by the slower vMotion network of the two hosts"
        ),
        check=(
            "VM > Edit Settings > VM Options > Advanced: the vMotion stun time limit (vSphere 8.0 U2 on)",
            "Host > Configure > Networking > VMkernel adapters: the speed of the vMotion network",
        ),
        remedy="raise the limit above the sum over the VM's vGPUs, or give vMotion a faster network",
        source=(
            "docs.vmware.com, vSphere 8.0: GUID-02E3B010-476B-4E70-A407-BBE0EA250E29; the wording is recalled"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "vmotion-network",
        (
            r"not able to connect over the vMotion network",
            r"vMotion (interface|network)[^\n]*(not configured|not enabled|unreachable)",
        ),
        sample=(
            "The vMotion migrations failed because the ESX hosts were not able to connect over the vMotion"
            " network."
        ),
        symptom="vMotion fails: the hosts do not reach each other over the vMotion network",
        cause=(
            "the vMotion VMkernel adapters are on other networks or VLANs, or their MTU is larger than the"
            " network's"
        ),
        check=(
            "vmkping -I VMK -d -s 8972 ADDRESS on the source host: the other host's vMotion address answers",
        ),
        remedy="set VLAN, address and MTU of the vMotion adapters alike; then move the VM again",
        source="vSphere API reference: VMotionInterfaceIssue; the wording is recalled",
        confidence=Confidence.INFERRED,
        faults=frozenset({"VMotionInterfaceIssue", "VMotionNotConfigured"}),
    ),
    FaultRow(
        "device-backing-elsewhere",
        (
            r"uses backing '[^']*', which is not accessible",
            r"device '[^']*' (uses|is) [^\n]*not (accessible|available)[^\n]*(destination|target|host)",
        ),
        sample="Currently connected device 'PCI device 0' uses backing '', which is not accessible.",
        symptom="the destination host does not have what a device of the VM is backed by",
        cause="the other host has no such GPU profile, passthrough device, network or datastore",
        check=(
            "govc device.info -vm VM: the device that it names, and its backing",
            "vgpu-cfg inventory --host HOST: the profiles that the destination offers",
        ),
        remedy="choose a host that has it, or give the destination what it lacks",
        source="vSphere API reference: CannotAccessVmDevice; the wording is recalled",
        confidence=Confidence.INFERRED,
        faults=frozenset({"CannotAccessVmDevice", "CannotAccessVmComponent"}),
    ),
    FaultRow(
        "target-lacks-features",
        (
            r"(target|destination) host does not support the virtual machine's current hardware requirements",
            r"CPU of the host is incompatible",
        ),
        sample="The target host does not support the virtual machine's current hardware requirements.",
        symptom="vMotion is refused: the destination's CPU lacks features that the running VM uses",
        cause=(
            "the hosts' CPUs are of different generations, and EVC is off or was set after the VM was started"
        ),
        check=("Cluster > Configure > VMware EVC: its mode; VM > Summary: the VM's own EVC mode",),
        remedy="move the VM while it is off, or set EVC and power the VM off and on",
        source="vSphere API reference: CpuIncompatible; the wording is recalled",
        confidence=Confidence.INFERRED,
        faults=frozenset({"CpuIncompatible"}),
    ),
    FaultRow(
        "vm-powered-on",
        (
            r"cannot be performed in the current state \(powered on\)",
            r"attempted operation cannot be performed in the current state",
        ),
        sample="The attempted operation cannot be performed in the current state (Powered on).",
        symptom="the operation is not possible while the VM is in its present power state",
        cause=(
            "GPUs, memory reservation and firmware change only while the VM is off; a start needs it off, too"
        ),
        check=("govc vm.info VM: its power state",),
        remedy=(
            "`vgpu-cfg apply --allow-power-cycle` stops, changes and starts it; by hand: shut the guest"
            " down first"
        ),
        source="vSphere API reference: InvalidPowerState; the wording is recalled",
        confidence=Confidence.INFERRED,
        faults=frozenset({"InvalidPowerState"}),
    ),
)
