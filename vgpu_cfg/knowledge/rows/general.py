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
        symptom="the VM was changed by somebody else",
        cause="somebody changed the VM after it was read",
        check=("govc tasks VM: who reconfigured it, and when",),
        remedy="run the same command again: it plans again from what is there now",
        source="vSphere API reference: ConcurrentAccess",
        faults=frozenset({"ConcurrentAccess"}),
    ),
    FaultRow(
        "duplicate-name",
        (r"the name '[^']+' already exists",),
        sample="The name 'hvd-01' already exists.",
        symptom="the name exists already",
        cause="a VM of this name stands in the folder already, and its owner mark is not this plan's",
        check=("govc find / -type m -name NAME: where VMs of this name are",),
        remedy="rename one of the two, or give the plan's VMs another folder",
        source="vSphere API reference: DuplicateName",
        faults=frozenset({"DuplicateName"}),
    ),
    FaultRow(
        "task-in-progress",
        (r"another task is already in progress",),
        sample="Another task is already in progress.",
        symptom="another task is in progress",
        cause="vCenter is busy with another task on the same object",
        check=("govc tasks VM: the one that is running, and who began it",),
        remedy="wait for it to end (see the recent tasks in vCenter), then run the same command again",
        source="vSphere API reference: TaskInProgress",
        faults=frozenset({"TaskInProgress"}),
    ),
    FaultRow(
        "no-permission",
        (r"permission to perform this operation was denied",),
        sample="Permission to perform this operation was denied.",
        symptom="permission is denied",
        cause="the account lacks a privilege for this operation",
        check=(
            "govc permissions.ls PATH: the account's role there, and whether it propagates",
            "govc role.ls ROLE: the privileges of that role",
        ),
        remedy="give the account the privilege that the message names, then run the same command again",
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
        symptom="there is not enough memory to reserve",
        cause="the host has less unreserved memory than this VM must reserve",
        check=(
            "Cluster > Monitor > Resource Allocation > Memory: what is reserved, and the pools' limits",
            "vgpu-cfg inventory --host HOST: the host's memory",
        ),
        remedy="free memory on the host, give the VM less, or place it on another host",
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
                "VM > Summary > Compatibility: the VM's version; ESXi 7.0 U2 runs up to 19, 8.0 up to 20,"
                " 8.0 U2 up to 21, 9.0 up to 22"
            ),
        ),
        remedy="place the VM on a newer host, or clone a template of an older version",
        source="vSphere API reference: VirtualHardwareVersionNotSupported",
        faults=frozenset({"VirtualHardwareVersionNotSupported"}),
    ),
    FaultRow(
        "device-power-on",
        (r"module '?DevicePowerOn'? power on failed",),
        sample="Module 'DevicePowerOn' power on failed.",
        symptom="the module DevicePowerOn fails, and vCenter says no more",
        cause=(
            "ESXi could not attach one of the VM's devices; the reason stands in the VM's vmware.log, most"
            " often a 64-bit MMIO window that is too small or a GPU that is taken"
        ),
        check=(
            "vgpu-cfg explain --vm NAME --server VCENTER: reads vmware.log, and says what it can rule out",
            "govc datastore.tail -n 200 -ds DATASTORE FOLDER/vmware.log: the lines before this one",
        ),
        remedy="`vgpu-cfg explain --vm NAME` reads its vmware.log, and says which it is",
        source="https://www.dell.com/support/kbdoc/en-us/000199172 and Broadcom KB 323402",
        is_general=True,
    ),
    FaultRow(
        "cpu-resources",
        (r"insufficient CPU resources", r"host does not have sufficient CPU"),
        sample="The host does not have sufficient CPU resources to satisfy the reservation.",
        symptom="there is not enough CPU to reserve",
        cause="the VM reserves more MHz (latency sensitivity high does) than the host or its pool has left",
        check=("Cluster > Monitor > Resource Allocation > CPU: what is reserved",),
        remedy="give the VM fewer CPUs or no reservation, or place it on another host",
        source="vSphere API reference: InsufficientCpuResourcesFault; the wording is recalled",
        confidence=Confidence.INFERRED,
        faults=frozenset({"InsufficientCpuResourcesFault"}),
    ),
    FaultRow(
        "disk-space",
        (r"insufficient disk space on datastore", r"no space left on (device|datastore)"),
        sample="Insufficient disk space on datastore 'vsan-01'.",
        symptom="the datastore is full",
        cause="the disks, or the swap file of the VM's unreserved memory, do not fit",
        check=("govc datastore.info DATASTORE: its free space",),
        remedy="free space, or name another datastore",
        source="vSphere API reference: NoDiskSpace, InsufficientStorageSpace; the wording is recalled",
        confidence=Confidence.INFERRED,
        faults=frozenset({"NoDiskSpace", "InsufficientStorageSpace"}),
    ),
    FaultRow(
        "file-locked",
        (r"unable to access file [^\n]*since it is locked", r"failed to lock the file"),
        sample="Unable to access file [vsan-01] hvd-01/hvd-01.vmdk since it is locked",
        symptom="a file of the VM is locked",
        cause=(
            "another host still runs the VM or holds its disk (a backup, a clone that runs, a host that lost"
            " its network)"
        ),
        check=(
            (
                "vmkfstools -D FILE on a host: the owner's MAC; govc tasks VM: a task that runs. Place:"
                " /vmfs/volumes/ > the VM's folder"
            ),
        ),
        remedy="let the other task end, or stop the VM where it runs",
        source="vSphere API reference: FileLocked; the wording is recalled",
        confidence=Confidence.INFERRED,
        faults=frozenset({"FileLocked"}),
    ),
    FaultRow(
        "network-not-accessible",
        (r"uses network '[^']*', which is not accessible",),
        sample="Network interface 'Network adapter 1' uses network 'training', which is not accessible.",
        symptom="the host does not have the VM's network",
        cause="the portgroup is not on this host, or the host is not a member of the distributed switch",
        check=("vgpu-cfg inventory --host HOST -v: the networks of the host",),
        remedy="add the host to the switch (or the portgroup to the host), or choose another host",
        source="vSphere API reference: CannotAccessNetwork; the wording is recalled",
        confidence=Confidence.INFERRED,
        faults=frozenset({"CannotAccessNetwork"}),
    ),
)
