"""All actions at a vCenter with their privileges: one row each.

The tables of docs/reference/permissions.md are these rows. Sources: privilege ids in pyvmomi's descriptions
of methods and of their parameters; the vSphere API reference of CreateVM_Task, CloneVM_Task, ReconfigVM_Task,
RelocateVM_Task, Rename_Task, MoveIntoFolder_Task, UpdateOptions, ReconfigureDvs_Task,
ReconfigureDVPortgroup_Task, LogUserEvent and SetField; vSphere Security 8.0, "Required Privileges for Common
Tasks" and its tables of defined privileges; vSphere Automation API, TagAssociation. Privileges found in none
of them are marked as recalled.
"""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.changes.need import READ_ONLY, Need, Place

_OR_FOLDER = "the VM, or its folder"

READING = Need(
    "Hosts, VMs, networks, datastores, what a host can create, the tasks of a VM, who made it, the events of"
    " what differs",
    READ_ONLY,
    Place.ROOT,
    propagates=True,
)
READ_LOG = Need(
    "A VM's `vmware.log`, over HTTPS from its datastore, by `explain --vm`",
    ("Datastore.Browse", "Datastore.FileManagement"),
    Place.DATASTORE,
    without="`explain` says the rest, with a note",
)
READ_MODULES = Need(
    "The options of kernel modules, for a plan with `hosts:` and by `record`",
    ("Host.Config.Settings",),
    Place.HOST,
)
READ_PACKAGES = Need(
    "The installed packages, for the same, by `inventory --compare` and `verify`",
    ("Host.Config.Image",),
    Place.HOST,
    without="esxcli is asked for them",
)
READ_KEY_PROVIDERS = Need(
    "The key providers, for a plan with `vtpm`",
    ("Cryptographer.ManageKeyServers",),
    Place.ROOT,
    without="that there is none is found at the clone",
)

READ_STORAGE_POLICIES = Need(
    "The storage policies, for a plan with `storage_policy`",
    ("StorageProfile.View",),
    Place.ROOT,
    without="the plan is refused",
)

READ_LIBRARY = Need(
    "An item of a content library, for a plan with `template: {library, item}`",
    ("System.Read",),
    Place.ROOT,
    where="the content library, by a global permission",
)
READ_CUSTOMIZATION_SPECS = Need(
    "The customisation specifications, for a plan with `guest.spec`",
    ("VirtualMachine.Provisioning.ReadCustSpecs",),
    Place.ROOT,
    without="the plan is refused",
)
CUSTOMIZE = Need(
    "The guest of a clone is customised",
    ("VirtualMachine.Provisioning.Customize",),
    Place.TEMPLATE,
    recalled=frozenset({"VirtualMachine.Provisioning.Customize"}),
)
CLONE_TEMPLATE = Need(
    "A VM is cloned from a template", ("VirtualMachine.Provisioning.DeployTemplate",), Place.TEMPLATE
)
CLONE_VM = Need("A VM is cloned from another VM", ("VirtualMachine.Provisioning.Clone",), Place.VM)
CREATE_FROM_EXISTING = Need(
    "A VM comes to be by cloning", ("VirtualMachine.Inventory.CreateFromExisting",), Place.FOLDER
)
CREATE = Need("A VM is made from scratch", ("VirtualMachine.Inventory.Create",), Place.FOLDER)
ASSIGN_TO_POOL = Need(
    "Any new VM, and one that moves into another cluster", ("Resource.AssignVMToPool",), Place.POOL
)
ALLOCATE_SPACE = Need(
    "Any new VM or disk, and a VM that moves to another datastore",
    ("Datastore.AllocateSpace",),
    Place.DATASTORE,
)
ASSIGN_NETWORK = Need(
    "A NIC or a VMkernel NIC is tied to a network",
    ("Network.Assign",),
    Place.NETWORK,
)
CHANGE_DEVICES = Need(
    "vGPU, passthrough or NIC added or removed",
    ("VirtualMachine.Config.AddRemoveDevice",),
    Place.VM,
    where=_OR_FOLDER,
)
EDIT_NIC = Need("A NIC is moved to another network", ("VirtualMachine.Config.EditDevice",), Place.VM)
ADD_DISK = Need(
    "A VM is cloned, or a disk is added",
    ("VirtualMachine.Config.AddNewDisk",),
    Place.VM,
    frozenset({"VirtualMachine.Config.AddNewDisk"}),
    where="the folder; for a VM that exists, the VM",
)
DETACH_DISK = Need(
    "A disk of others is detached before its VM is deleted",
    ("VirtualMachine.Config.RemoveDisk",),
    Place.VM,
)
NEW_TPM = Need(
    "A virtual TPM of a VM that exists, or of a clone",
    ("VirtualMachine.Config.AddRemoveDevice", "Cryptographer.Encrypt"),
    Place.VM,
    frozenset({"Cryptographer.Encrypt"}),
    where=_OR_FOLDER,
)
FIRST_TPM = Need(
    "A virtual TPM of a VM that is made from scratch",
    ("VirtualMachine.Config.AddRemoveDevice", "Cryptographer.EncryptNew"),
    Place.FOLDER,
)
SET_ATTRIBUTES = Need("Custom attributes of a VM", ("Global.SetCustomField",), Place.VM, where=_OR_FOLDER)
DEFINE_ATTRIBUTES = Need(
    "An attribute that is not defined yet: it is, the first time ever",
    ("Global.ManageCustomFields",),
    Place.ROOT,
)
SET_TAGS = Need(
    "Tags of a VM; the account needs the first on each tag, too",
    ("InventoryService.Tagging.AttachTag", "InventoryService.Tagging.ObjectAttachable"),
    Place.VM,
    where=_OR_FOLDER,
)
GROW_DISK = Need(
    "A disk grows",
    ("VirtualMachine.Config.DiskExtend",),
    Place.VM,
    frozenset({"VirtualMachine.Config.DiskExtend"}),
)
DISK_POLICY = Need(
    "A disk gets another storage policy",
    ("VirtualMachine.Config.EditDevice",),
    Place.VM,
    frozenset({"VirtualMachine.Config.EditDevice"}),
)
OF_SETTINGS: Mapping[str, Need] = {
    privilege: Need(what, (privilege,), Place.VM, where=_OR_FOLDER)
    for privilege, what in {
        "VirtualMachine.Config.CPUCount": "CPUs, CPU hot-add",
        "VirtualMachine.Config.Memory": "Memory, memory hot-add",
        "VirtualMachine.Config.Resource": "Memory and CPU reservation, latency sensitivity",
        "VirtualMachine.Config.Settings": (
            "Firmware, secure boot, boot delay; the instance UUID of a new VM"
        ),
        "VirtualMachine.Config.AdvancedConfig": (
            "extraConfig: MMIO, NUMA, the owner mark (also by `import` and `forget`), a guest's mark and what"
            " cloud-init reads"
        ),
    }.items()
}
"""Settings of a VM by the privilege that their rows name (planning/vms/settings)."""
ADVANCED = OF_SETTINGS["VirtualMachine.Config.AdvancedConfig"]
BASIC_SETTINGS = OF_SETTINGS["VirtualMachine.Config.Settings"]
GUEST_OPERATIONS = Need(
    "A guest is staged by guest operations, where `guest.login` has a password",
    (
        "VirtualMachine.GuestOperations.Query",
        "VirtualMachine.GuestOperations.Modify",
        "VirtualMachine.GuestOperations.Execute",
    ),
    Place.VM,
    where=_OR_FOLDER,
)
UPGRADE = Need(
    "Hardware version", ("VirtualMachine.Config.UpgradeVirtualHardware",), Place.VM, where=_OR_FOLDER
)
RENAME = Need("A VM gets its name again, or another", ("VirtualMachine.Config.Rename",), Place.VM)
MOVE = Need(
    "A VM is moved to another folder",
    ("VirtualMachine.Inventory.Move",),
    Place.VM,
    where="the VM, its folder and the other",
)
MIGRATE = Need(
    "A VM is moved to another host or datastore (`--allow-move`, or by a drain)",
    ("Resource.ColdMigrate",),
    Place.VM,
)
MIGRATE_RUNNING = Need("The same as it runs, besides", ("Resource.HotMigrate",), Place.VM)
POWER_ON = Need("A VM is switched on", ("VirtualMachine.Interact.PowerOn",), Place.VM, where=_OR_FOLDER)
POWER_OFF = Need("A VM is switched off", ("VirtualMachine.Interact.PowerOff",), Place.VM, where=_OR_FOLDER)
EDIT_CLUSTER = Need(
    "A DRS rule, a VM group, what DRS and HA do with a VM, an option of DRS",
    ("Host.Inventory.EditCluster",),
    Place.CLUSTER,
)
OF_VMS = (
    CLONE_TEMPLATE,
    CLONE_VM,
    CUSTOMIZE,
    CREATE_FROM_EXISTING,
    CREATE,
    ASSIGN_TO_POOL,
    ALLOCATE_SPACE,
    ASSIGN_NETWORK,
    CHANGE_DEVICES,
    EDIT_NIC,
    ADD_DISK,
    DETACH_DISK,
    NEW_TPM,
    FIRST_TPM,
    SET_ATTRIBUTES,
    DEFINE_ATTRIBUTES,
    SET_TAGS,
    GROW_DISK,
    DISK_POLICY,
    *OF_SETTINGS.values(),
    GUEST_OPERATIONS,
    UPGRADE,
    RENAME,
    MOVE,
    MIGRATE,
    MIGRATE_RUNNING,
    POWER_ON,
    POWER_OFF,
    EDIT_CLUSTER,
)

RUN_IN_GUESTS = Need(
    "Runs a tool in a guest and reads what it printed",
    ("VirtualMachine.GuestOperations.Query", "VirtualMachine.GuestOperations.Execute"),
    Place.VM,
    without="guests that no ssh reaches are not verified",
    where=_OR_FOLDER,
)
PUT_INTO_GUESTS = Need(
    "Puts the probe of the allreduce into a guest, and removes it",
    ("VirtualMachine.GuestOperations.Modify",),
    Place.VM,
    without="guests that no ssh reaches are not verified",
    where=_OR_FOLDER,
)
TO_VERIFY = (RUN_IN_GUESTS, PUT_INTO_GUESTS)

CORDON = Need(
    "A cordon, the mark on a host at work, what its shell told (custom attributes of a host)",
    ("Global.SetCustomField",),
    Place.HOST,
)
TO_WORK_ON_HOSTS = (CORDON, SET_ATTRIBUTES, DEFINE_ATTRIBUTES, MIGRATE, MIGRATE_RUNNING, POWER_OFF, POWER_ON)

MAINTENANCE = Need("Maintenance mode, reboot, shutdown", ("Host.Config.Maintenance",), Place.HOST)
ALARM = Need(
    "The alarm of a host in maintenance mode",
    ("Alarm.Create", "Alarm.Edit", "Alarm.Delete"),
    Place.HOST,
    without="there is no alarm",
)
HOST_SETTINGS = Need(
    "Graphics type, assignment policy, vGPU mode; options of a kernel module, already to read them",
    ("Host.Config.Settings",),
    Place.HOST,
)
HOST_PASSTHROUGH = Need("Passthrough, hardware label, SR-IOV", ("Host.Config.PciPassthru",), Place.HOST)
HOST_OPTIONS = Need(
    "Advanced options of a host, boot settings among them", ("Host.Config.AdvancedConfig",), Place.HOST
)
HOST_SERVICES = Need(
    "A service, SSH among them; a ruleset of the firewall", ("Host.Config.NetService",), Place.HOST
)
OPEN_SHELL = Need(
    "A host's SSH service is started, where `access` says so, to read what only its shell tells, and stopped;"
    " the mark on the host says so meanwhile",
    ("Host.Config.NetService", "Global.SetCustomField"),
    Place.HOST,
)
HOST_NETWORK = Need(
    "A VMkernel NIC, a standard switch; what a member of a distributed switch gives it",
    ("Host.Config.Network",),
    Place.HOST,
)
LICENCE = Need("A host's licence", ("Global.Licenses",), Place.ROOT)
VCENTER_OPTION = Need("An advanced setting of vCenter", ("Global.Settings",), Place.ROOT)
_OF_NEW_SWITCH = "the switch; of one that the plan makes, the datacenter"
MAKE_SWITCH = Need("A distributed switch is made", ("DVSwitch.Create",), Place.DATACENTER, propagates=True)
EDIT_SWITCH = Need("A distributed switch's MTU", ("DVSwitch.Modify",), Place.SWITCH, where=_OF_NEW_SWITCH)
SWITCH_MEMBERS = Need(
    "A host becomes a member of a distributed switch, or gives it uplinks",
    ("DVSwitch.Modify", "DVSwitch.HostOp"),
    Place.SWITCH,
    where=_OF_NEW_SWITCH,
)
MAKE_PORTGROUP = Need(
    "A distributed portgroup is made", ("DVPortgroup.Create",), Place.SWITCH, where=_OF_NEW_SWITCH
)
EDIT_PORTGROUP = Need("A distributed portgroup's VLAN", ("DVPortgroup.Modify",), Place.PORTGROUP)
OF_HOSTS = (
    MAINTENANCE,
    CORDON,
    DEFINE_ATTRIBUTES,
    ALARM,
    HOST_SETTINGS,
    HOST_PASSTHROUGH,
    HOST_OPTIONS,
    HOST_SERVICES,
    OPEN_SHELL,
    HOST_NETWORK,
    ASSIGN_NETWORK,
    LICENCE,
    EDIT_CLUSTER,
    VCENTER_OPTION,
    MAKE_SWITCH,
    EDIT_SWITCH,
    SWITCH_MEMBERS,
    MAKE_PORTGROUP,
    EDIT_PORTGROUP,
)

REMOVE_LOCK = "Alarm.Delete"
LOCK = Need(
    "The lock, an alarm, that keeps other runs from the same plan, host or cluster, for each run that changes"
    " something and for `plan --open-shell`; `unlock` removes it",
    ("Alarm.Create", "Alarm.Edit", REMOVE_LOCK),
    Place.ROOT,
)
LOG_EVENT = Need(
    "An entry among vCenter's events for each run, of its end, and one of its beginning where it takes longer"
    " than a minute or breaks off",
    ("Global.LogEvent",),
    Place.DATACENTER,
    without="`history` on other machines knows of the run from a shared folder alone",
    where="the datacenter; without one, vCenter (the root folder)",
)
LOG_FOR_DEAD = Need(
    "An entry among vCenter's events for a run that has died, left by whoever removes its lock",
    ("Global.LogEvent",),
    Place.ROOT,
    without="`history` knows of a run that died within its first minute only until its lock is removed",
)
OF_RUNS = (LOCK, LOG_EVENT, LOG_FOR_DEAD)

DELETE = Need(
    "A VM is deleted with its disks",
    ("VirtualMachine.Inventory.Delete",),
    Place.VM,
    frozenset({"VirtualMachine.Inventory.Delete"}),
    where=_OR_FOLDER,
)
TO_DESTROY = (POWER_OFF, DELETE, EDIT_CLUSTER)
