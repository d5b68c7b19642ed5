"""Failures that vCenter reports of any VM, in words of its own; they stand behind those of GPUs.

Source: the vSphere API reference (the faults' types and what they say).
"""

from __future__ import annotations

from vgpu_cfg.knowledge.fault_rows import FaultRow

GENERAL_ROWS = (
    FaultRow(
        "concurrent-access",
        (r"changed by another (client|user|session) since", r"\bConcurrentAccess\b"),
        symptom="the VM was changed by somebody else",
        cause="somebody changed the VM after it was read",
        check=("govc tasks VM: who reconfigured it, and when",),
        remedy="run the same command again: it plans again from what is there now",
        faults=frozenset({"ConcurrentAccess"}),
    ),
    FaultRow(
        "duplicate-name",
        (r"the name '[^']+' already exists",),
        symptom="the name exists already",
        cause="a VM of this name stands in the folder already, and it is not this plan's",
        check=("govc find / -type m -name NAME: where VMs of this name are",),
        remedy="rename one of the two, or give the plan's VMs another folder",
        faults=frozenset({"DuplicateName"}),
    ),
    FaultRow(
        "task-in-progress",
        (r"another task is already in progress",),
        symptom="another task is in progress",
        cause="vCenter is busy with another task on the same object",
        check=("govc tasks VM: the one that is running, and who began it",),
        remedy="wait for it to end (see the recent tasks in vCenter), then run the same command again",
        faults=frozenset({"TaskInProgress"}),
    ),
    FaultRow(
        "no-permission",
        (r"permission to perform this operation was denied",),
        symptom="permission is denied",
        cause="the account lacks a privilege for this operation",
        check=(
            "govc permissions.ls PATH: the account's role there, and whether it propagates",
            "govc role.ls ROLE: the privileges of that role",
        ),
        remedy="give the account the privilege that the message names, then run the same command again",
        faults=frozenset({"NoPermission"}),
    ),
    FaultRow(
        "memory-resources",
        (
            r"insufficient memory resources",
            r"host does not have sufficient memory",
            r"amount of memory resource available in the parent resource pool is insufficient",
        ),
        symptom="there is not enough memory to reserve",
        cause="the host has less unreserved memory than this VM must reserve",
        check=(
            "Cluster > Monitor > Resource Allocation > Memory: what is reserved, and the pools' limits",
            "vgpu-cfg inventory --host HOST: the host's memory",
        ),
        remedy="free memory on the host, give the VM less, or place it on another host",
        faults=frozenset({"InsufficientMemoryResourcesFault"}),
    ),
    FaultRow(
        "hardware-version",
        (
            r"virtual machine (hardware )?version[^.\n]*not supported",
            r"does not support the virtual hardware version",
        ),
        symptom="the host does not support the VM's hardware version",
        cause="the host is too old for the VM's hardware version",
        check=(
            (
                "VM > Summary > Compatibility: the VM's version; ESXi 7.0 U2 runs up to 19, 8.0 up to 20,"
                " 8.0 U2 up to 21, 9.0 up to 22"
            ),
        ),
        remedy="place the VM on a newer host, or clone a template of an older version",
        faults=frozenset({"VirtualHardwareVersionNotSupported"}),
    ),
    FaultRow(
        "device-power-on",
        (r"module '?DevicePowerOn'? power on failed",),
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
        is_general=True,
    ),
)
