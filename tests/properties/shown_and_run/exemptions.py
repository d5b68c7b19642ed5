"""What is sent and shown nowhere: a row for each, and the reason. One that nothing needs fails the test."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.properties.shown_and_run.expected import SET
from tests.properties.shown_and_run.wire import GUEST_SHELL


@dataclass(frozen=True, slots=True)
class Exemption:
    """Leaves of a method: method, path and value as regular expressions; a path of "" is the call itself."""

    method: str
    path: str
    reason: str
    value: str = ".*"

    def covers(self, method: str, path: str, value: str) -> bool:
        """Whether a leaf is one of these."""
        parts = ((self.method, method), (self.path, path), (self.value, value))
        return all(re.fullmatch(pattern, part, re.DOTALL) for pattern, part in parts)


_DEVICE = r"deviceChange\[\*\]\."

EXEMPTIONS = (
    # ------------------------------------------------------------- of a VM
    Exemption(SET, f"{_DEVICE}operation", "an edit's sign shows it; a removal is shown", "add|edit"),
    Exemption(
        SET,
        f"{_DEVICE}(fileOperation|key|controllerKey|unitNumber|busNumber|sharedBus)",
        "the place of a device in its request, in numbers that the server replaces",
    ),
    Exemption(
        SET,
        f"({_DEVICE}deviceGroupInfo|deviceGroups\\.deviceGroup\\[\\*\\])\\.(groupInstanceKey|sequenceId)",
        "the numbers that tie a device to its group within one request",
    ),
    Exemption(
        SET,
        f"{_DEVICE}.*acking\\.(deviceId|vendorId|systemId|deviceName|port\\.switchUuid)",
        "the ids and names of what the device's address, network or portgroup names already",
    ),
    Exemption(
        SET,
        f"{_DEVICE}backing\\.(diskMode|fileName)",
        "constants of a new disk: persistent, in the VM's folder",
    ),
    Exemption(SET, f"{_DEVICE}connectable\\..*", "constants of a new NIC: connected whenever the VM is on"),
    Exemption(SET, f"{_DEVICE}addressType", "says whether a MAC is given, and that is shown"),
    Exemption(SET, f"{_DEVICE}capacityInBytes", "capacityInKB, for servers that read the other"),
    Exemption(
        SET, "template|powerOn", "constants: a clone is a VM, and is powered on by a step of its own", "false"
    ),
    Exemption(
        SET, "changeVersion", "how the VM was found: vCenter refuses the request where it has moved on"
    ),
    Exemption(SET, "instanceUuid", "made by the run for a new VM, and named by the VM's owner mark"),
    Exemption(
        SET,
        r"extraConfig\[vgpu_cfg\.guest\]",
        "digests of the guest's modules, which are shown one by one",
    ),
    Exemption(
        SET,
        r"extraConfig\[pciPassthru\d+\.cfg\.enable_uvm\]",
        "the number is the new vGPU's own, which vCenter gives it; its edit says: unified memory",
        "1",
    ),
    Exemption(
        SET,
        r"extraConfig\[vgpu_cfg\.guest\.host_key\]",
        "the public host key that the guest made and told",
    ),
    Exemption(
        SET,
        r"extraConfig\[vgpu_cfg\.training\]",
        "says that a run paused a training until it is resumed, which are steps of the plan",
        "paused|",
    ),
    Exemption(SET, r"extraConfig\[guestinfo\..*\]", "the guest's data for its first boot, packed"),
    # ----------------------------------------------------------- of a host
    Exemption("(Reboot|Shutdown)Host_Task", "force", "a constant: a host that is not empty refuses", "false"),
    Exemption(
        "EnterMaintenanceMode_Task", "evacuatePoweredOffVms", "a constant: VMs that are off stay", "false"
    ),
    Exemption(
        "AddCustomFieldDef|SetField|setCustomValue",
        ".*",
        "books that apply keeps on a host: the mark while it works there, digests of what its shell told",
    ),
    Exemption("(Create|Reconfigure|Remove)Alarm", ".*", "as the mark, for people to see"),
    Exemption(
        "(Start|Stop)Service", "|id", "a shell that is opened as the plan file's `access` has it", "|TSM-SSH"
    ),
    Exemption("UpdateAssignedLicense", "licenseKey", "a secret"),
    # ------------------------------------------------------------ of a run
    Exemption(
        "LogUserEvent",
        ".*",
        "entries of runs among vCenter's events, which change nothing: that one began, and has ended",
    ),
    # -------------------------------------------------------- of a cluster
    Exemption("ReconfigureComputeResource_Task", "modify", "a constant: what is not named stays", "true"),
    Exemption(
        "ReconfigureComputeResource_Task",
        r"(rulesSpec|groupSpec)\[.*\]\.(operation|info\.userCreated)",
        "the change's sign shows whether it is made, changed or removed; none is of vCenter's own making",
    ),
    # --------------------------------------------------------- of networks
    Exemption(
        "ReconfigureDvs_Task|ReconfigureDVPortgroup_Task", "configVersion", "as `changeVersion` of a VM"
    ),
    Exemption(
        "ReconfigureDvs_Task", r"host\[.*\]\.operation", "the uplinks before tell whether a host is new there"
    ),
    Exemption(
        ".*DVPortgroup_Task", r".*defaultPortConfig\.vlan\.inherited", "what makes the VLAN its own", "false"
    ),
    Exemption(
        "AddVirtualNic",
        r"portgroup|nic\.distributedVirtualPort\..*",
        "the ids of the network that the edit names; one that the plan makes has none before",
    ),
    Exemption(
        "UpdateVirtualSwitch",
        r"policy\.nicTeaming\.nicOrder\..*",
        "a teaming order names uplinks of its switch and no others: it follows the uplinks that are shown",
    ),
    # ------------------------------------------------------------ of guests
    Exemption(
        GUEST_SHELL,
        "line",
        "what a guest gets is shown module by module; the scripts that bring it, and ask after it, are many",
    ),
)
