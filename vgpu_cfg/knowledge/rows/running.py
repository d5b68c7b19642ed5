"""Known failures of a VM that starts, and cannot be moved, snapshotted or configured, and of any VM.

Sources: NVIDIA AI Enterprise user guides, NVIDIA forums, Broadcom knowledge base, VMware's blogs; for any VM
the vSphere API reference (the faults' types and their texts), whose rows rank after those of GPUs. Rows
marked inferred follow from a documented rule.
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
        symptom="vMotion is rejected because vGPU hot migration is not enabled",
        cause="the vCenter advanced setting that allows migration of running vGPU VMs is off",
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
        symptom="vMotion is rejected because a required feature is not supported on the source host",
        cause=(
            "unified memory, debugging, or profiling is enabled for the vGPU, or the VM has a device that"
            " cannot be migrated"
        ),
        check=(
            (
                "govc vm.info -e VM: pciPassthru<n>.cfg.enable_uvm, enable_debugging and enable_profiling"
                " must not be 1"
            ),
            "govc device.ls -vm VM: no fixed passthrough device, no SR-IOV NIC",
        ),
        remedy="disable these vGPU options, or power off the VM before you migrate it",
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
        symptom="vMotion is rejected because ECC, MIG mode, NVLink topology, or GPU type differs",
        cause=(
            "the source and destination hosts have a different ECC setting, MIG mode, NVLink topology,"
            " or GPU model"
        ),
        check=(
            "nvidia-smi -q on both hosts: Product Name, Ecc Mode and MIG Mode must be the same",
            "nvidia-smi topo -m on both hosts: the GPUs must have the same NVLinks",
        ),
        remedy="configure both hosts identically, or power off the VM before you migrate it",
        source="NVIDIA vGPU software user guide: migrating a VM configured with vGPU",
    ),
    FaultRow(
        "parameter-ignored",
        (
            r"pciPassthru\d+\.cfg\.\w+[^\n]*(ignored|no effect|not applied|has no such)",
            r"plugin parameter[^\n]*(ignored|no effect)",
        ),
        sample="pciPassthru0.cfg.enable_uvm is ignored",
        symptom="a vGPU parameter such as enable_uvm is set but has no effect",
        cause=(
            "a vGPU parameter was set while the VM was running, has the number of a different device,"
            " or was lost when the host rebooted"
        ),
        check=(
            (
                "govc device.ls -vm VM pcipassthrough-13000: the vGPU's key minus 13000 is the n in"
                " pciPassthru<n>.cfg"
            ),
            "govc vm.info -e VM: the key exists; govc tasks VM: it was set before the last power-on",
        ),
        remedy=(
            "power off the VM, set the parameter for device number n (the device key minus 13000), and"
            " power on the VM"
        ),
        source=(
            "NVIDIA AI Enterprise 5.0 user guide: setting vGPU plugin parameters (wording from memory,"
            " not verified)"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "snapshot-refused",
        (
            r"(snapshot|suspend)[^.\n]*(not (supported|allowed)|cannot)[^.\n]*(vGPU|passthrough|PCI)",
            r"(vGPU|passthrough)[^.\n]*(snapshot|suspend)[^.\n]*(not (supported|allowed)|cannot)",
            r"\b(snapshots?|suspend) ((is|are|was|were) )?refused",
        ),
        sample="A snapshot cannot be taken of a VM with a passthrough device",
        symptom="a snapshot or suspend of the VM is rejected",
        cause="the vGPU does not support this operation on this host, or the VM has a passthrough device",
        check=(
            (
                "govc object.collect -json HOST config.sharedGpuCapabilities: diskSnapshotSupported,"
                " memorySnapshotSupported, and suspendSupported for the VM's profile"
            ),
            "govc device.ls -vm VM: no passthrough devices other than vGPUs",
        ),
        remedy="check the host's shared GPU capabilities, and power off the VM before you take a snapshot",
        source="vSphere API reference: SharedGpuCapabilities (wording from memory, not verified)",
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
            "DRS does not migrate vGPU VMs unless its automation level is partially automated or"
            " manual, or if their stun time is too long"
        ),
        check=(
            "Cluster > Configure > vSphere DRS: the automation level and the advanced options",
            (
                "VM > Edit Settings > VM Options > Advanced: the vMotion stun time limit (vSphere 8.0 U2 and"
                " later)"
            ),
        ),
        remedy=(
            "configure DRS as described in NVIDIA's guide, and check the stun time limit on vSphere 8.0"
            " U2 and later"
        ),
        source="NVIDIA vGPU software user guide and VMware's blog on vSphere 8.0 U2",
    ),
    FaultRow(
        "console-black",
        (r"console (is|stays|remains|goes|turned|was) black\b", r"black (console|screen)"),
        sample="the console is black after the driver install",
        symptom="the VM's console is black once the guest driver is installed",
        cause=(
            "when the NVIDIA guest driver is running, the vGPU drives the display, so the vSphere"
            " console stays black"
        ),
        check=("log in to the guest over SSH: the guest responds, and nvidia-smi shows the vGPU",),
        remedy="this is expected behavior, so use SSH or VNC instead",
        source="NVIDIA AI Enterprise 5.0 user guide: the console after the driver's installation",
    ),
    FaultRow(
        "guestinfo-denied",
        (r"guestinfo[^\n]*permission denied", r"info-get[^\n]*permission denied"),
        sample="vmware-rpctool info-get guestinfo.metadata: Permission denied",
        symptom="permission to read guestinfo is denied in the guest",
        cause="the VM option guest_rpc.rpci.auth.cmd.info-get allows only root to read guestinfo",
        check=(
            "govc vm.info -e VM: guest_rpc.rpci.auth.cmd.info-get is TRUE",
            "in the guest, as root: vmtoolsd --cmd 'info-get guestinfo.metadata' returns the data",
        ),
        remedy="read guestinfo as root; cloud-init then uses `vmtoolsd --cmd`",
        source="github.com/canonical/cloud-init: its VMware data source",
    ),
    FaultRow(
        "stun-time",
        (r"stun time[^\n]*(exceed|above|longer|limit)",),
        sample=(
            "The virtual machine's estimated maximum stun time of 41 seconds exceeds the limit of 30 seconds"
        ),
        symptom="a power-on or vMotion is rejected because of the stun time",
        cause=(
            "the VM would be paused longer than its limit while its GPU memory is copied; the estimate"
            " is based on the slower vMotion network of the two hosts"
        ),
        check=(
            (
                "VM > Edit Settings > VM Options > Advanced: the vMotion stun time limit (vSphere 8.0 U2 and"
                " later)"
            ),
            "Host > Configure > Networking > VMkernel adapters: the speed of the vMotion network",
        ),
        remedy=(
            "increase the limit so that it exceeds the sum for the VM's vGPUs, or use a faster vMotion"
            " network"
        ),
        source=(
            "docs.vmware.com, vSphere 8.0: GUID-02E3B010-476B-4E70-A407-BBE0EA250E29 (wording from"
            " memory, not verified)"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "vmotion-network",
        (
            r"(not able|failed) to connect over the vMotion network",
            r"did not receive data from the source host on the vMotion network",
            r"failed to connect to remote host <[^\n]*> from host <",
            r"failed to initialize migration at source",
            r"vMotion (interface|network)[^\n]*(not configured|not enabled|unreachable)",
        ),
        sample=(
            "The vMotion migrations failed because the ESX hosts were not able to connect over the vMotion"
            " network."
        ),
        symptom="vMotion fails because the hosts cannot reach each other over the vMotion network",
        cause=(
            "the vMotion VMkernel adapters are on different networks or VLANs, or their MTU is larger"
            " than the network's MTU"
        ),
        check=(
            (
                "vmkping -I VMK -d -s 8972 ADDRESS on the source host: the other host's vMotion address"
                " must reply"
            ),
        ),
        remedy="use the same VLAN, subnet, and MTU for all vMotion adapters, and then migrate the VM again",
        source="vSphere API reference: VMotionInterfaceIssue (wording from memory, not verified)",
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
        symptom="the backing of a VM device is not available on the destination host",
        cause="the destination host does not have the GPU profile, passthrough device, network, or datastore",
        check=(
            "govc device.info -vm VM: the device in the message, and its backing",
            "vgpu-cfg inventory --host HOST: the profiles that the destination offers",
        ),
        remedy="choose a host that has the missing resource, or add it to the destination host",
        source="vSphere API reference: CannotAccessVmDevice (wording from memory, not verified)",
        confidence=Confidence.INFERRED,
        faults=frozenset({"CannotAccessVmDevice", "CannotAccessVmComponent"}),
    ),
    FaultRow(
        "target-lacks-features",
        (
            r"(target|destination) host does not support the virtual machine's current hardware requirements",
            r"CPU (of the host )?is incompatible (?!with EVC)",
            r"requires hardware features that are unsupported or disabled on the target host",
        ),
        sample="The target host does not support the virtual machine's current hardware requirements.",
        symptom=(
            "vMotion is rejected because the destination's CPU does not have features used by the running VM"
        ),
        cause=(
            "the hosts' CPUs are from different generations, and EVC is off or was enabled after the VM was"
            " started"
        ),
        check=(
            ("Cluster > Configure > VMware EVC: the cluster's EVC mode; VM > Summary: the VM's own EVC mode"),
        ),
        remedy="power off the VM before you migrate it, or enable EVC and power-cycle the VM",
        source="vSphere API reference: CpuIncompatible (wording from memory, not verified)",
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
        symptom="the operation is not possible in the VM's current power state",
        cause=(
            "GPUs, memory reservation, and firmware can be changed only while the VM is powered off, or"
            " the VM to power on is already running"
        ),
        check=("govc vm.info VM: its power state",),
        remedy=(
            "run `vgpu-cfg apply --allow-power-cycle`, which stops, changes, and starts the VM; to do"
            " this manually, shut down the guest first"
        ),
        source="vSphere API reference: InvalidPowerState (wording from memory, not verified)",
        confidence=Confidence.INFERRED,
        faults=frozenset({"InvalidPowerState"}),
    ),
)


GENERAL_ROWS = (
    FaultRow(
        "concurrent-access",
        (r"changed by another (client|user|session) since", r"\bConcurrentAccess\b"),
        sample="vim.fault.ConcurrentAccess",
        symptom="the VM was changed by another user or process",
        cause="the VM was changed after vgpu-cfg read its state",
        check=("govc tasks VM: who reconfigured it and when",),
        remedy="run the same command again, which plans again from the current state",
        source="vSphere API reference: ConcurrentAccess",
        faults=frozenset({"ConcurrentAccess"}),
        words="somebody else changed it",
    ),
    FaultRow(
        "duplicate-name",
        (r"the name '[^']+' already exists",),
        sample="The name 'hvd-01' already exists.",
        symptom="the name already exists",
        cause=(
            "a VM with this name already exists in the folder, and its owner mark does not belong to"
            " this plan"
        ),
        check=("govc find / -type m -name NAME: the locations of VMs with this name",),
        remedy="rename one of the VMs, or use a different folder for the plan's VMs",
        source="vSphere API reference: DuplicateName",
        faults=frozenset({"DuplicateName"}),
    ),
    FaultRow(
        "task-in-progress",
        (r"another task is already in progress",),
        sample="Another task is already in progress.",
        symptom="another task is in progress",
        cause="vCenter is already running another task on the same object",
        check=("govc tasks VM: the running task and who started it",),
        remedy=(
            "wait until the task is complete (see Recent Tasks in vCenter), and then run the same"
            " command again"
        ),
        source="vSphere API reference: TaskInProgress",
        faults=frozenset({"TaskInProgress"}),
    ),
    FaultRow(
        "no-permission",
        (r"permission to perform this operation was denied",),
        sample="Permission to perform this operation was denied.",
        symptom="permission is denied",
        cause="the account does not have a privilege that this operation requires",
        check=(
            "govc permissions.ls PATH: the account's role on the object, and whether it propagates",
            "govc role.ls ROLE: the privileges in that role",
        ),
        remedy="grant the account the privilege in the message, and then run the same command again",
        source="vSphere API reference: NoPermission",
        faults=frozenset({"NoPermission"}),
    ),
    FaultRow(
        "memory-resources",
        (
            r"insufficient memory resources",
            r"host does not have sufficient memory",
            r"admission check failed for memory resource",
            r"amount of memory resource available in the parent resource pool is insufficient",
            r"available memory resources in the parent resource pool are insufficient",
        ),
        sample="The host does not have sufficient memory resources to satisfy the reservation.",
        symptom="there is not enough unreserved memory",
        cause="the host or the resource pool has less unreserved memory than this VM must reserve",
        check=(
            "Cluster > Monitor > Resource Allocation > Memory: reserved memory and the pools' limits",
            "vgpu-cfg inventory --host HOST: the host's memory",
        ),
        remedy=(
            "free up memory, increase the resource pool's limit, reduce the VM's memory, or place the"
            " VM elsewhere"
        ),
        source="vSphere API reference: InsufficientMemoryResourcesFault",
        faults=frozenset({"InsufficientMemoryResourcesFault"}),
    ),
    FaultRow(
        "hardware-version",
        (
            r"virtual machine (hardware )?version[^.\n]*not supported",
            r"does not support the virtual hardware version",
            r"virtual machine version is not compatible with the version of the host",
        ),
        sample="The virtual machine version is not supported by this host.",
        symptom="the host does not support the VM's hardware version",
        cause="the host's ESXi version is too old for the VM's hardware version",
        check=(
            (
                "VM > Summary > Compatibility: the VM's hardware version; ESXi 7.0 U2 supports up to"
                " 19, 8.0 up to 20, 8.0 U2 up to 21, and 9.0 up to 22"
            ),
        ),
        remedy=(
            "place the VM on a host with a newer ESXi version, or clone a template with an older"
            " hardware version"
        ),
        source="vSphere API reference: VirtualHardwareVersionNotSupported",
        faults=frozenset({"VirtualHardwareVersionNotSupported"}),
    ),
    FaultRow(
        "device-power-on",
        (r"module '?DevicePowerOn'? power on failed", r"' ?DevicePowerOn ?'"),
        sample="Module 'DevicePowerOn' power on failed.",
        symptom="the module DevicePowerOn fails, and vCenter does not give further details",
        cause=(
            "ESXi could not attach one of the VM's devices, usually because its 64-bit MMIO space is"
            " too small or a GPU is in use; vmware.log shows the reason"
        ),
        check=(
            (
                "vgpu-cfg explain --vm NAME --server VCENTER: reads vmware.log and reports the causes it can"
                " rule out"
            ),
            "govc datastore.tail -n 200 -ds DATASTORE FOLDER/vmware.log: the lines before this one",
        ),
        remedy="run `vgpu-cfg explain --vm NAME`, which reads vmware.log and reports the cause",
        source="https://www.dell.com/support/kbdoc/en-us/000199172 and Broadcom KB 323402",
        is_general=True,
    ),
    FaultRow(
        "cpu-resources",
        (
            r"insufficient CPU resources",
            r"host does not have sufficient CPU",
            r"available CPU resources in the parent resource pool are insufficient",
        ),
        sample="The host does not have sufficient CPU resources to satisfy the reservation.",
        symptom="there is not enough unreserved CPU",
        cause=(
            "the VM reserves more MHz than the host or its resource pool has available (high latency"
            " sensitivity reserves CPU)"
        ),
        check=("Cluster > Monitor > Resource Allocation > CPU: reserved CPU",),
        remedy="reduce the VM's CPU count, remove its CPU reservation, or place the VM on a different host",
        source="vSphere API reference: InsufficientCpuResourcesFault (wording from memory, not verified)",
        confidence=Confidence.INFERRED,
        faults=frozenset({"InsufficientCpuResourcesFault"}),
    ),
    FaultRow(
        "disk-space",
        (r"insufficient disk space on datastore", r"no space left on datastore"),
        sample="Insufficient disk space on datastore 'vsan-01'.",
        symptom="the datastore is full",
        cause=(
            "there is not enough space for the VM's disks, or for the swap file for its unreserved memory"
        ),
        check=("govc datastore.info DATASTORE: its free space",),
        remedy="free up space, or specify a different datastore",
        source=(
            "vSphere API reference: NoDiskSpace, InsufficientStorageSpace (wording from memory, not verified)"
        ),
        confidence=Confidence.INFERRED,
        faults=frozenset({"NoDiskSpace", "InsufficientStorageSpace"}),
    ),
    FaultRow(
        "file-locked",
        (r"unable to access file [^\n]*since it is locked", r"failed to lock the file"),
        sample="Unable to access file [vsan-01] hvd-01/hvd-01.vmdk since it is locked",
        symptom="one of the VM's files is locked",
        cause=(
            "another host is still running the VM, or a backup, a clone, or a host without network"
            " access has locked its disk"
        ),
        check=(
            (
                "vmkfstools -D FILE on a host: the MAC address of the lock owner; govc tasks VM: a running"
                " task. Location: /vmfs/volumes/ > the VM's folder"
            ),
        ),
        remedy="wait until the other task is complete, or stop the VM on the host where it is running",
        source="vSphere API reference: FileLocked (wording from memory, not verified)",
        confidence=Confidence.INFERRED,
        faults=frozenset({"FileLocked"}),
    ),
    FaultRow(
        "network-not-accessible",
        (r"uses network '[^']*', which is not accessible",),
        sample="Network interface 'Network adapter 1' uses network 'training', which is not accessible.",
        symptom="the host does not have the VM's network",
        cause=(
            "the port group does not exist on this host, or the host is not connected to the"
            " distributed switch"
        ),
        check=("vgpu-cfg inventory --host HOST -v: the host's networks",),
        remedy=(
            "add the host to the distributed switch (or the port group to the host), or choose a"
            " different host"
        ),
        source="vSphere API reference: CannotAccessNetwork (wording from memory, not verified)",
        confidence=Confidence.INFERRED,
        faults=frozenset({"CannotAccessNetwork"}),
    ),
)
