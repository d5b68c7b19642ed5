"""Failures that vCenter reports of any VM, in words of its own; they rank after those of GPUs.

Source: the vSphere API reference (the faults' types and their texts).
"""

from __future__ import annotations

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow

GENERAL_ROWS = (
    FaultRow(
        "concurrent-access",
        (r"changed by another (client|user|session) since", r"\bConcurrentAccess\b"),
        sample="vim.fault.ConcurrentAccess",
        symptom="the VM was changed by another user or process",
        cause="the VM was changed after vgpu-cfg read its state",
        check=("govc tasks VM: who reconfigured it and when",),
        remedy="run the same command again: it replans from the current state",
        source="vSphere API reference: ConcurrentAccess",
        faults=frozenset({"ConcurrentAccess"}),
        words="somebody else changed it",
    ),
    FaultRow(
        "duplicate-name",
        (r"the name '[^']+' already exists",),
        sample="The name 'hvd-01' already exists.",
        symptom="the name already exists",
        cause="a VM with this name already exists in the folder, and its owner mark is not from this plan",
        check=("govc find / -type m -name NAME: the locations of VMs with this name",),
        remedy="rename one of them, or use another folder for the plan's VMs",
        source="vSphere API reference: DuplicateName",
        faults=frozenset({"DuplicateName"}),
    ),
    FaultRow(
        "task-in-progress",
        (r"another task is already in progress",),
        sample="Another task is already in progress.",
        symptom="another task is in progress",
        cause="vCenter is busy with another task on the same object",
        check=("govc tasks VM: the running task and who started it",),
        remedy="wait for it to complete (see Recent Tasks in vCenter), then run the same command again",
        source="vSphere API reference: TaskInProgress",
        faults=frozenset({"TaskInProgress"}),
    ),
    FaultRow(
        "no-permission",
        (r"permission to perform this operation was denied",),
        sample="Permission to perform this operation was denied.",
        symptom="permission is denied",
        cause="the account does not have a privilege required for this operation",
        check=(
            "govc permissions.ls PATH: the account's role on the object, and whether it propagates",
            "govc role.ls ROLE: the privileges in that role",
        ),
        remedy="grant the account the privilege shown in the message, then run the same command again",
        source="vSphere API reference: NoPermission",
        faults=frozenset({"NoPermission"}),
    ),
    FaultRow(
        "memory-resources",
        (
            r"insufficient memory resources",
            r"host does not have sufficient memory",
            r"amount of memory resource available in the parent resource pool is insufficient",
        ),
        sample="The host does not have sufficient memory resources to satisfy the reservation.",
        symptom="there is not enough unreserved memory",
        cause="the host has less unreserved memory than this VM must reserve",
        check=(
            "Cluster > Monitor > Resource Allocation > Memory: reserved memory and the pools' limits",
            "vgpu-cfg inventory --host HOST: the host's memory",
        ),
        remedy="free memory on the host, reduce the VM's memory, or place the VM on another host",
        source="vSphere API reference: InsufficientMemoryResourcesFault",
        faults=frozenset({"InsufficientMemoryResourcesFault"}),
    ),
    FaultRow(
        "hardware-version",
        (
            r"virtual machine (hardware )?version[^.\n]*not supported",
            r"does not support the virtual hardware version",
        ),
        sample="The virtual machine version is not supported by this host.",
        symptom="the host does not support the VM's hardware version",
        cause="the host is too old for the VM's hardware version",
        check=(
            (
                "VM > Summary > Compatibility: the VM's version; ESXi 7.0 U2 supports up to 19, 8.0 up to 20,"
                " 8.0 U2 up to 21, 9.0 up to 22"
            ),
        ),
        remedy="place the VM on a newer host, or clone a template with an older hardware version",
        source="vSphere API reference: VirtualHardwareVersionNotSupported",
        faults=frozenset({"VirtualHardwareVersionNotSupported"}),
    ),
    FaultRow(
        "device-power-on",
        (r"module '?DevicePowerOn'? power on failed", r"' ?DevicePowerOn ?'"),
        sample="Module 'DevicePowerOn' power on failed.",
        symptom="the module DevicePowerOn fails, and vCenter gives no further details",
        cause=(
            "ESXi could not attach one of the VM's devices; the reason is in the VM's vmware.log, usually a"
            " 64-bit MMIO window that is too small or a GPU that is in use"
        ),
        check=(
            (
                "vgpu-cfg explain --vm NAME --server VCENTER: reads vmware.log and reports the causes it can"
                " rule out"
            ),
            "govc datastore.tail -n 200 -ds DATASTORE FOLDER/vmware.log: the lines before this one",
        ),
        remedy="`vgpu-cfg explain --vm NAME` reads vmware.log and reports the cause",
        source="https://www.dell.com/support/kbdoc/en-us/000199172 and Broadcom KB 323402",
        is_general=True,
    ),
    FaultRow(
        "cpu-resources",
        (r"insufficient CPU resources", r"host does not have sufficient CPU"),
        sample="The host does not have sufficient CPU resources to satisfy the reservation.",
        symptom="there is not enough unreserved CPU",
        cause=(
            "the VM reserves more MHz than the host or its resource pool has available (latency sensitivity"
            " set to high reserves CPU)"
        ),
        check=("Cluster > Monitor > Resource Allocation > CPU: reserved CPU",),
        remedy="reduce the VM's CPUs or remove its reservation, or place it on another host",
        source="vSphere API reference: InsufficientCpuResourcesFault; wording from memory, not verified",
        confidence=Confidence.INFERRED,
        faults=frozenset({"InsufficientCpuResourcesFault"}),
    ),
    FaultRow(
        "disk-space",
        (r"insufficient disk space on datastore", r"no space left on datastore"),
        sample="Insufficient disk space on datastore 'vsan-01'.",
        symptom="the datastore is full",
        cause="there is not enough space for the VM's disks or for the swap file of its unreserved memory",
        check=("govc datastore.info DATASTORE: its free space",),
        remedy="free up space, or specify another datastore",
        source=(
            "vSphere API reference: NoDiskSpace, InsufficientStorageSpace; wording from memory, not verified"
        ),
        confidence=Confidence.INFERRED,
        faults=frozenset({"NoDiskSpace", "InsufficientStorageSpace"}),
    ),
    FaultRow(
        "file-locked",
        (r"unable to access file [^\n]*since it is locked", r"failed to lock the file"),
        sample="Unable to access file [vsan-01] hvd-01/hvd-01.vmdk since it is locked",
        symptom="a file of the VM is locked",
        cause=(
            "another host is still running the VM or locking its disk (a backup, a running clone, a host that"
            " lost its network)"
        ),
        check=(
            (
                "vmkfstools -D FILE on a host: the MAC address of the lock owner; govc tasks VM: a running"
                " task. Location: /vmfs/volumes/ > the VM's folder"
            ),
        ),
        remedy="wait for the other task to complete, or stop the VM on the host where it is running",
        source="vSphere API reference: FileLocked; wording from memory, not verified",
        confidence=Confidence.INFERRED,
        faults=frozenset({"FileLocked"}),
    ),
    FaultRow(
        "network-not-accessible",
        (r"uses network '[^']*', which is not accessible",),
        sample="Network interface 'Network adapter 1' uses network 'training', which is not accessible.",
        symptom="the host does not have the VM's network",
        cause=(
            "the port group does not exist on this host, or the host is not a member of the distributed"
            " switch"
        ),
        check=("vgpu-cfg inventory --host HOST -v: the host's networks",),
        remedy=(
            "add the host to the distributed switch (or the port group to the host), or choose another host"
        ),
        source="vSphere API reference: CannotAccessNetwork; wording from memory, not verified",
        confidence=Confidence.INFERRED,
        faults=frozenset({"CannotAccessNetwork"}),
    ),
)
