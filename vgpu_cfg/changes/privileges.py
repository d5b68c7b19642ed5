"""The privileges that each action at a vCenter needs, and on which kind of object: one row per action.

The tables of docs/reference/permissions.md are these rows. Sources: privilege ids in pyvmomi's descriptions
of methods and of their parameters; the vSphere API reference of CreateVM_Task, CloneVM_Task, ReconfigVM_Task,
RelocateVM_Task, Rename_Task, MoveIntoFolder_Task, UpdateOptions, ReconfigureDvs_Task,
ReconfigureDVPortgroup_Task, LogUserEvent and SetField; vSphere Security 8.0, "Required Privileges for Common
Tasks" and its tables of defined privileges; vSphere Automation API, TagAssociation, Clusters.Software.
Privileges found in none of them are marked as recalled.

Belief: privileges-suffice, alarm-privileges, clone-privileges-of-devices, clone-privileges,
numa-nodes-privilege, vtpm-privilege, policy-privilege, clone-customization-privilege,
attachable-privilege-from-70.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Place(StrEnum):
    """A kind of object that privileges are given on, in a reader's words."""

    ROOT = "vCenter (the root folder)"
    DATACENTER = "the datacenter"
    FOLDER = "the folder"
    POOL = "the resource pool"
    DATASTORE = "the datastore"
    NETWORK = "the network"
    SWITCH = "the switch"
    PORTGROUP = "the portgroup"
    CLUSTER = "the cluster"
    HOST = "the host"
    TEMPLATE = "the template"
    VM = "the VM"


@dataclass(frozen=True, slots=True)
class Need:
    """One action, and the privileges an account needs for it and on which object.

    `recalled` are the privileges that were not looked up. `without` is the consequence if they are missing
    and the work goes on; empty if it is refused before the first change. `where` replaces the place's own
    words. Privileges that `propagates` must reach the object's contents, too.
    """

    what: str
    privileges: tuple[str, ...]
    place: Place
    recalled: frozenset[str] = frozenset()
    without: str = ""
    where: str = ""
    propagates: bool = False

    @property
    def is_optional(self) -> bool:
        """Whether the work goes on without."""
        return bool(self.without)

    @property
    def on(self) -> str:
        """Return the objects on which the privileges are needed, in words."""
        return self.where or self.place.value


READ_ONLY = ("System.Anonymous", "System.View", "System.Read")
"""vCenter's role Read-only, which every other role contains."""


@dataclass(frozen=True, slots=True)
class Needed:
    """A need on one object, by its moid.

    `attributes` are the custom attributes, by the type that has them and their names, for whose definition it
    is: it is none where they are defined already.
    """

    need: Need
    moid: str
    attributes: frozenset[tuple[str, str]] = frozenset()


_OR_FOLDER = "the VM, or its folder"

READING = Need(
    "Hosts, VMs, networks, datastores, host capabilities, a VM's tasks and creator, the events that "
    "explain differences",
    READ_ONLY,
    Place.ROOT,
    propagates=True,
)
READ_LOG = Need(
    "A VM's `vmware.log`, read over HTTPS from its datastore, for `explain --vm`",
    ("Datastore.Browse", "Datastore.FileManagement"),
    Place.DATASTORE,
    without="`explain` works without the log and prints a note",
)
READ_MODULES = Need(
    "Kernel module options, for plans with `hosts:` and for `inventory --record`",
    ("Host.Config.Settings",),
    Place.HOST,
)
READ_PACKAGES = Need(
    "Installed packages, also for `doctor`, `upgrade`, `inventory --compare` and `verify`",
    ("Host.Config.Image",),
    Place.HOST,
    without="esxcli is used instead",
)
READ_IMAGE = Need(
    "A cluster's image and the depot, for plans with `driver: {by: image}` or `esxi`",
    ("VcIntegrity.lifecycleSoftwareSpecification.Read", "VcIntegrity.lifecycleSettings.Read"),
    Place.ROOT,
    propagates=True,
    without="the plan is rejected",
)
READ_KEY_PROVIDERS = Need(
    "Key providers, for plans with `vtpm`",
    ("Cryptographer.ManageKeyServers",),
    Place.ROOT,
    without="a missing key provider is detected only when a VM is cloned",
)

READ_STORAGE_POLICIES = Need(
    "Storage policies, for plans with `storage_policy`",
    ("StorageProfile.View",),
    Place.ROOT,
    without="the plan is rejected",
)

READ_LIBRARY = Need(
    "A content library item, for plans with `template: {library, item}`",
    ("System.Read",),
    Place.ROOT,
    where="the content library, through a global permission",
)
READ_CUSTOMIZATION_SPECS = Need(
    "Customization specifications, for plans with `guest.spec`",
    ("VirtualMachine.Provisioning.ReadCustSpecs",),
    Place.ROOT,
    without="the plan is rejected",
)
CUSTOMIZE = Need(
    "The guest of a clone is customized",
    ("VirtualMachine.Provisioning.Customize",),
    Place.TEMPLATE,
    recalled=frozenset({"VirtualMachine.Provisioning.Customize"}),
)
CLONE_TEMPLATE = Need(
    "A VM is cloned from a template", ("VirtualMachine.Provisioning.DeployTemplate",), Place.TEMPLATE
)
CLONE_VM = Need("A VM is cloned from another VM", ("VirtualMachine.Provisioning.Clone",), Place.VM)
CREATE_FROM_EXISTING = Need(
    "A VM is created by cloning", ("VirtualMachine.Inventory.CreateFromExisting",), Place.FOLDER
)
CREATE = Need("A VM is created from scratch", ("VirtualMachine.Inventory.Create",), Place.FOLDER)
ASSIGN_TO_POOL = Need(
    "A VM is created, or moved to another cluster", ("Resource.AssignVMToPool",), Place.POOL
)
ALLOCATE_SPACE = Need(
    "A VM or disk is created, or moved to another datastore", ("Datastore.AllocateSpace",), Place.DATASTORE
)
ASSIGN_NETWORK = Need("A NIC or a VMkernel NIC is connected to a network", ("Network.Assign",), Place.NETWORK)
CHANGE_DEVICES = Need(
    "A vGPU, passthrough device or NIC is added or removed",
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
    where="the folder; for an existing VM, the VM",
)
DETACH_DISK = Need(
    "An unmanaged disk is detached before its VM is deleted", ("VirtualMachine.Config.RemoveDisk",), Place.VM
)
NEW_TPM = Need(
    "A virtual TPM of an existing VM, or of a clone",
    ("VirtualMachine.Config.AddRemoveDevice", "Cryptographer.Encrypt"),
    Place.VM,
    frozenset({"Cryptographer.Encrypt"}),
    where=_OR_FOLDER,
)
FIRST_TPM = Need(
    "A virtual TPM for a VM created from scratch",
    ("VirtualMachine.Config.AddRemoveDevice", "Cryptographer.EncryptNew"),
    Place.FOLDER,
)
SET_ATTRIBUTES = Need("Custom attributes of a VM", ("Global.SetCustomField",), Place.VM, where=_OR_FOLDER)
DEFINE_ATTRIBUTES = Need(
    "Custom attributes that do not exist yet; vgpu-cfg defines them on first use",
    ("Global.ManageCustomFields",),
    Place.ROOT,
)
SET_TAGS = Need(
    "Tags of a VM; the account also needs the first privilege on each tag",
    ("InventoryService.Tagging.AttachTag", "InventoryService.Tagging.ObjectAttachable"),
    Place.VM,
    where=_OR_FOLDER,
)
GROW_DISK = Need(
    "A disk is extended",
    ("VirtualMachine.Config.DiskExtend",),
    Place.VM,
    frozenset({"VirtualMachine.Config.DiskExtend"}),
)
DISK_POLICY = Need(
    "A disk's storage policy is changed",
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
            "extraConfig: MMIO, NUMA, the owner mark (also for `import` and `forget`), a guest's mark and"
            " cloud-init data"
        ),
    }.items()
}
"""Settings of a VM by the privilege that their rows name (planning/vms/settings)."""
ADVANCED = OF_SETTINGS["VirtualMachine.Config.AdvancedConfig"]
BASIC_SETTINGS = OF_SETTINGS["VirtualMachine.Config.Settings"]
GUEST_OPERATIONS = Need(
    "A guest is staged through guest operations, if `guest.login` has a password",
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
RENAME = Need("A VM is renamed", ("VirtualMachine.Config.Rename",), Place.VM)
MOVE = Need(
    "A VM is moved to another folder",
    ("VirtualMachine.Inventory.Move",),
    Place.VM,
    where="the VM, its folder and the new folder",
)
MIGRATE = Need(
    "A VM is moved to another host or datastore (with `--allow-move`, or by `drain`)",
    ("Resource.ColdMigrate",),
    Place.VM,
)
MIGRATE_RUNNING = Need("In addition, if the VM is running", ("Resource.HotMigrate",), Place.VM)
POWER_ON = Need("A VM is powered on", ("VirtualMachine.Interact.PowerOn",), Place.VM, where=_OR_FOLDER)
POWER_OFF = Need("A VM is powered off", ("VirtualMachine.Interact.PowerOff",), Place.VM, where=_OR_FOLDER)
EDIT_CLUSTER = Need(
    "DRS rules, VM groups, VM overrides for DRS and HA, DRS options",
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
    "Runs a tool in a guest and reads its output",
    ("VirtualMachine.GuestOperations.Query", "VirtualMachine.GuestOperations.Execute"),
    Place.VM,
    without="guests without SSH access are not verified",
    where=_OR_FOLDER,
)
PUT_INTO_GUESTS = Need(
    "Copies the allreduce probe to a guest, and removes it",
    ("VirtualMachine.GuestOperations.Modify",),
    Place.VM,
    without="guests without SSH access are not verified",
    where=_OR_FOLDER,
)
TO_VERIFY = (RUN_IN_GUESTS, PUT_INTO_GUESTS)

CORDON = Need(
    "Cordons, the marker on a host while it is changed, settings read from its shell (host "
    "custom attributes)",
    ("Global.SetCustomField",),
    Place.HOST,
)
TO_WORK_ON_HOSTS = (CORDON, SET_ATTRIBUTES, DEFINE_ATTRIBUTES, MIGRATE, MIGRATE_RUNNING, POWER_OFF, POWER_ON)

MAINTENANCE = Need("Maintenance mode, reboot, shutdown", ("Host.Config.Maintenance",), Place.HOST)
ALARM = Need(
    "The alarm for a host in maintenance mode",
    ("Alarm.Create", "Alarm.Edit", "Alarm.Delete"),
    Place.HOST,
    without="no alarm is created",
)
HOST_SETTINGS = Need(
    "Graphics type, assignment policy, vGPU mode; kernel module options (also required to read them)",
    ("Host.Config.Settings",),
    Place.HOST,
)
HOST_PASSTHROUGH = Need("Passthrough, hardware label, SR-IOV", ("Host.Config.PciPassthru",), Place.HOST)
HOST_OPTIONS = Need(
    "Advanced options of a host, including boot settings", ("Host.Config.AdvancedConfig",), Place.HOST
)
HOST_SERVICES = Need("Services, including SSH; firewall rulesets", ("Host.Config.NetService",), Place.HOST)
OPEN_SHELL = Need(
    "If `access` allows it, a host's SSH service is started to read settings visible only in its shell, "
    "then stopped; the host is marked in the meantime",
    ("Host.Config.NetService", "Global.SetCustomField"),
    Place.HOST,
)
HOST_NETWORK = Need(
    "VMkernel NICs, standard switches; settings of a host as a member of a distributed switch",
    ("Host.Config.Network",),
    Place.HOST,
)
LICENCE = Need("A host's license", ("Global.Licenses",), Place.ROOT)
EDIT_IMAGE = Need(
    "A cluster's image is drafted, validated, and committed",
    ("VcIntegrity.lifecycleSoftwareSpecification.Read", "VcIntegrity.lifecycleSoftwareSpecification.Write"),
    Place.ROOT,
    propagates=True,
)
REMEDIATE = Need(
    "A host is checked against its cluster's image, and remediated",
    (
        "VcIntegrity.lifecycleSoftwareRemediation.Read",
        "VcIntegrity.lifecycleSoftwareRemediation.Write",
        "VcIntegrity.lifecycleHealth.Read",
    ),
    Place.ROOT,
    propagates=True,
)
VCENTER_OPTION = Need("An advanced setting of vCenter", ("Global.Settings",), Place.ROOT)
_OF_NEW_SWITCH = "the switch; for switches that the plan creates, the datacenter"
MAKE_SWITCH = Need("A distributed switch is created", ("DVSwitch.Create",), Place.DATACENTER, propagates=True)
EDIT_SWITCH = Need("A distributed switch's MTU", ("DVSwitch.Modify",), Place.SWITCH, where=_OF_NEW_SWITCH)
SWITCH_MEMBERS = Need(
    "A host is added to a distributed switch, or its uplinks are assigned",
    ("DVSwitch.Modify", "DVSwitch.HostOp"),
    Place.SWITCH,
    where=_OF_NEW_SWITCH,
)
MAKE_PORTGROUP = Need(
    "A distributed port group is created", ("DVPortgroup.Create",), Place.SWITCH, where=_OF_NEW_SWITCH
)
EDIT_PORTGROUP = Need("A distributed port group's VLAN", ("DVPortgroup.Modify",), Place.PORTGROUP)
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
    EDIT_IMAGE,
    REMEDIATE,
    VCENTER_OPTION,
    MAKE_SWITCH,
    EDIT_SWITCH,
    SWITCH_MEMBERS,
    MAKE_PORTGROUP,
    EDIT_PORTGROUP,
)

REMOVE_LOCK = "Alarm.Delete"
LOCK = Need(
    "The lock (an alarm) that blocks other runs on the same plan, host or cluster: for runs that "
    "make changes and for `plan --open-shell`; also for `unlock` and `freeze`",
    ("Alarm.Create", "Alarm.Edit", REMOVE_LOCK),
    Place.ROOT,
    where="vCenter (the root folder), or the folder of `locks`",
)
LOG_EVENT = Need(
    "A vCenter event for the end of each run, and one for its start if it takes longer than a minute or "
    "is interrupted",
    ("Global.LogEvent",),
    Place.DATACENTER,
    without="on other machines, `history` shows the run only if journals are in a shared folder",
    where="the datacenter; without one, vCenter (the root folder)",
)
LOG_FOR_DEAD = Need(
    "A vCenter event for an interrupted run, written when its lock is removed",
    ("Global.LogEvent",),
    Place.ROOT,
    without=("`history` omits a run that was interrupted in its first minute, once its lock is removed"),
)
OF_RUNS = (LOCK, LOG_EVENT, LOG_FOR_DEAD)

TRIAL_ALARMS = Need(
    "Temporary alarms are created, changed and removed", LOCK.privileges, Place.ROOT, where=LOCK.where
)
TRIAL_TAGS = Need(
    "Two tags from an existing category are attached to a temporary VM; the account also requires the first "
    "privilege on each tag",
    SET_TAGS.privileges,
    Place.FOLDER,
    without="tags are not tested",
)
TRIAL_ATTRIBUTE = Need(
    "A temporary custom attribute is defined, set on the root folder and removed",
    (*DEFINE_ATTRIBUTES.privileges, *SET_ATTRIBUTES.privileges),
    Place.ROOT,
)
TRIAL_POLICIES = Need(
    "The storage policies of VMs and disks are read",
    READ_STORAGE_POLICIES.privileges,
    Place.ROOT,
    without="storage policies are not tested",
)
TRIAL_EVENTS = Need("Two vCenter events are written", LOG_FOR_DEAD.privileges, Place.ROOT)

DELETE = Need(
    "A VM is deleted with its disks",
    ("VirtualMachine.Inventory.Delete",),
    Place.VM,
    frozenset({"VirtualMachine.Inventory.Delete"}),
    where=_OR_FOLDER,
)
TO_DESTROY = (POWER_OFF, DELETE, EDIT_CLUSTER)
