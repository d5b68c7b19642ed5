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
        symptom="vMotion is refused: vGPU hot migration is not enabled",
        cause="vCenter's advanced setting for migrating running vGPU VMs is off",
        check=("govc option.ls vgpu.hotmigrate.enabled: it must be true",),
        remedy="set vgpu.hotmigrate.enabled to true in vCenter's advanced settings",
    ),
    FaultRow(
        "migration-feature",
        (r"a required migration feature is not supported on the .?source",),
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
        faults=frozenset({"MigrationFeatureNotSupported"}),
    ),
    FaultRow(
        "migration-hosts-differ",
        (
            rf"{_TRAIT}[^.\n]*{_DIFFERS}[^.\n]*{_MOVE}",
            rf"{_MOVE}[^.\n]*{_TRAIT}[^.\n]*{_DIFFERS}",
        ),
        symptom="vMotion is refused: ECC, MIG mode, NVLink topology or the GPU's type differs",
        cause="source and destination host differ in ECC, MIG mode, NVLink topology or GPU model",
        check=(
            "nvidia-smi -q on both hosts: Product Name, Ecc Mode and MIG Mode must be the same",
            "nvidia-smi topo -m on both hosts: the same NVLinks between the GPUs",
        ),
        remedy="set both hosts alike, or migrate the VM while it is off",
    ),
    FaultRow(
        "parameter-ignored",
        (
            r"pciPassthru\d+\.cfg\.\w+[^\n]*(ignored|no effect|not applied|has no such)",
            r"plugin parameter[^\n]*(ignored|no effect)",
        ),
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
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "snapshot-refused",
        (
            r"(snapshot|suspend)[^.\n]*(not (supported|allowed)|cannot)[^.\n]*(vGPU|passthrough|PCI)",
            r"(vGPU|passthrough)[^.\n]*(snapshot|suspend)[^.\n]*(not (supported|allowed)|cannot)",
            r"(snapshot|suspend)\w*[^\n]*refused",
        ),
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
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "drs-does-not-balance",
        (
            r"\bDRS\b[^\n]*\b(not|never)\b[^\n]*(balanc|mov|migrat)[^\n]*vGPU",
            r"vGPU[^\n]*\b(not|never)\b[^\n]*(balanced|moved|migrated)[^\n]*\bDRS\b",
            r"stun time",
        ),
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
    ),
    FaultRow(
        "console-black",
        (r"console[^\n]*\bblack\b", r"black (console|screen)"),
        symptom="the VM's console is black once the guest's driver is installed",
        cause=(
            "once the guest's NVIDIA driver runs, the vGPU owns the display: vSphere's console stays black"
        ),
        check=("log in to the guest by SSH: it answers, and nvidia-smi there shows the vGPU",),
        remedy="this is expected: use SSH or VNC",
    ),
    FaultRow(
        "guestinfo-denied",
        (r"guestinfo[^\n]*permission denied", r"info-get[^\n]*permission denied"),
        symptom="the guest may not read its guestinfo",
        cause="the VM option guest_rpc.rpci.auth.cmd.info-get lets only root read guestinfo",
        check=(
            "govc vm.info -e VM: guest_rpc.rpci.auth.cmd.info-get is TRUE",
            "in the guest, as root: vmtoolsd --cmd 'info-get guestinfo.metadata' answers",
        ),
        remedy="read it as root; cloud-init goes by `vmtoolsd --cmd` then",
    ),
)
