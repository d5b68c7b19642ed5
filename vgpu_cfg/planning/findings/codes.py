"""Every finding of planning: its code, its subject, its severity, and its basis.

They are grouped: VG0xx ownership and safety, VG1xx profiles and GPU capacity, VG2xx VM hardware and
templates, VG3xx placement, NUMA and mobility, VG4xx networks, storage and names, VG5xx hosts, VG6xx guests
and training. Each has a page in docs/reference/checks.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from vgpu_cfg.changes.severity import Severity


class Basis(StrEnum):
    """The source of a check's facts."""

    DOCUMENTED = "documented"
    """The vendor's documentation or API reference states it."""
    OBSERVED = "observed"
    """The plan file, vCenter, a host or a guest states it, or it is a rule of vgpu-cfg."""
    RECALLED = "recalled"
    """Not looked up, derived with a margin, or contradicted by another of the vendor's documents."""
    FIELD = "field"
    """Reported from one environment."""


_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO
_D, _O, _R, _F = tuple(Basis)


class Code(StrEnum):
    """The codes by their subjects, each with a summary, a severity and a basis."""

    summary: str
    severity: Severity
    basis: Basis

    def __new__(cls, code: str, summary: str = "", severity: Severity = _E, basis: Basis = _O) -> Self:
        """Make a member whose value is its code. The defaults let `Code("VG101")` look one up."""
        made = str.__new__(cls, code)
        made._value_ = code
        made.summary, made.severity, made.basis = summary, severity, basis
        return made

    NOT_OURS = "VG001", "a VM of this name exists and is not this plan's", _E, _D
    MARK_DISAGREES = "VG002", "owner mark, name and folder of a VM disagree", _E, _O
    MARK_COPIED = "VG003", "another VM carries this plan's owner mark", _W, _D
    PROTECTED = "VG004", "the plan file protects what it would write", _E, _O
    ORPHAN = "VG005", "a VM of this plan is not in the plan file", _W, _O
    LOCKED = "VG006", "a locked VM would be deleted", _E, _O
    POWER_CYCLE_NOT_ALLOWED = "VG007", "a change needs a power cycle that is not allowed", _E, _D
    CHECK_NOT_RELAXABLE = "VG008", "`checks` names a finding that cannot be relaxed", _E, _O
    SET_AT_CREATION_ONLY = "VG009", "a key that takes effect at creation only has changed", _W, _O
    EXPIRED = "VG010", "a VM is past its date", _I, _O
    NOTHING_SELECTED = "VG011", "the selection matches nothing in the plan", _E, _O
    API_TOO_OLD = "VG012", "the vCenter's API is too old for what the plan asks", _E, _D
    SUSPENDED = "VG013", "a VM is suspended and cannot be changed", _E, _D
    NOT_READ = "VG014", "a VM of this plan could not be read in detail", _E, _D
    STAYS_OFF = "VG015", "a VM is off and its power state is ignored", _I, _O
    ANOTHER_RUN = "VG016", "another run has locked the plan, or what it would change", _W, _O
    SILENT_RUN = "VG017", "a silent run has locked the plan, or what it would change", _W, _O

    PROFILE_UNKNOWN = "VG101", "no board is known to have this profile", _E, _R
    PROFILE_NOT_OFFERED = "VG102", "no host in the VM's clusters offers the profile", _E, _D
    GPU_FULL = "VG103", "every GPU that could give the profile is full", _E, _D
    SAME_SIZE_LOCK = "VG104", "a GPU in same-size mode runs another size", _E, _D
    GPU_NOT_IN_MIG_MODE = "VG105", "a MIG profile, and no GPU in MIG mode", _E, _D
    GPU_IN_MIG_MODE = "VG106", "a time-sliced profile, and every GPU is in MIG mode", _E, _D
    NO_MIG_SLICE = "VG107", "no MIG slices are free where the profile may start", _E, _D
    MIXED_SIZE_NO_ROOM = "VG108", "no placement is free on a GPU in mixed-size mode", _E, _D
    MIXED_SIZE_UNKNOWN = "VG109", "the mixed-size placements of the board are not published", _W, _R
    MIXED_SIZE_NOT_SUPPORTED = "VG110", "the profile is not supported in mixed-size mode", _E, _R
    UNDECIDED = "VG111", "no placement was found, and none was proven impossible", _E, _R
    BOARD_UNKNOWN = "VG112", "a GPU's board is not in the catalogue", _W, _O
    OTHER_SERIES = "VG113", "a profile that is not of the C series", _I, _D
    NOT_AN_ESXI_BOARD = "VG114", "the board is not supported on ESXi", _E, _R
    PROFILE_NEEDS_NEWER_ESXI = "VG115", "the profile needs a newer ESXi", _E, _D
    POWER_ON_ORDER = "VG116", "they fit, but ESXi may choose GPUs so that one does not start", _E, _R
    POWERED_OFF_CLAIM = "VG117", "a powered-off VM of others would need the same GPUs", _I, _D
    HOLDER_UNKNOWN = "VG118", "a GPU is held by what could not be read", _W, _D
    CLASSES_CANNOT_SHARE = "VG119", "series of one size share a GPU only from 8.0 U2 on", _E, _D
    MIXED_BOARDS = "VG120", "vGPUs of different boards or series in one VM", _E, _D
    MULTI_VGPU_NEEDS_FULL = "VG121", "vSphere 7: several vGPUs must be full-framebuffer C or Q ones", _E, _D
    TOO_MANY_VGPUS = "VG122", "more vGPUs than the hardware version or release allows", _E, _D
    MANY_GPU_SERVER = "VG123", "several GPUs for one VM on a server with more than four", _E, _R
    NVSWITCH_PASSTHROUGH = "VG124", "GPU passthrough on an NVSwitch system", _E, _D
    UVM_NEEDS_FULL = "VG125", "unified memory on a fraction of a GPU that takes turns", _E, _D
    UVM_DISABLES_P2P = "VG126", "unified memory turns NVLink peers off on this board", _W, _D
    UVM_NO_MIGRATION = "VG127", "unified memory turns vMotion off", _I, _D
    NOT_CREATABLE_NOW = "VG128", "vCenter does not list the profile as creatable now", _E, _R
    PASSTHROUGH_NOT_ACTIVE = "VG130", "the device is not in passthrough mode", _E, _D
    GPU_IN_PASSTHROUGH = "VG131", "every GPU that could give the profile is passed through", _E, _D
    PASSTHROUGH_ABSENT = "VG132", "no host has a GPU at this PCI address", _E, _D
    PASSTHROUGH_TAKEN = "VG133", "the device to pass through is in use", _E, _D
    LABEL_UNKNOWN = "VG134", "no device has the label, model or ids", _E, _D
    TOO_MANY_PASSTHROUGH = "VG135", "more passthrough devices than the hardware version allows", _E, _D
    PASSTHROUGH_SERVES_VGPUS = "VG136", "the GPU to pass through serves vGPUs", _E, _D
    SYSTEM_ID_UNKNOWN = "VG137", "the host's system id for fixed passthrough was not read", _E, _D
    NVLINK_GROUP_ABSENT = "VG138", "the host offers no such NVLink device group", _E, _D
    NVLINK_GROUP_BROKEN = "VG139", "no set of NVLink peers is all idle", _E, _R
    NVLINK_NEEDS_LINUX = "VG140", "NVLink peers in a guest that is not Linux", _E, _D
    NVLINK_NEEDS_WHOLE = "VG141", "NVLink peers that do not have all of a GPU", _E, _D
    NOT_AN_NVLINK_PEER = "VG142", "the board's vGPUs cannot be NVLink peers", _E, _D
    NVLINK_GROUP_SIZE = "VG143", "so many GPUs cannot all be NVLink peers", _E, _R
    NVSWITCH_NEEDS_NEWER_ESXI = "VG144", "NVSwitch peers need a newer ESXi", _E, _D
    NVLINK_BLACKWELL = "VG145", "NVLink on HGX B200 and B300 is documented for KVM only", _W, _R
    NVLINK_CHOICE_OPEN = "VG146", "ESXi may choose GPUs that NVLink does not join", _W, _R
    NVLINK_MEMBER_ALONE = "VG147", "a GPU of an NVLink group is used by itself", _I, _F
    PROFILE_MAXIMUM_UNKNOWN = "VG148", "how many of the profile a GPU takes is not published", _W, _R
    MEMORY_BELOW_FRAMEBUFFER = "VG149", "the VM has less memory than its GPUs have framebuffer", _I, _R
    GPUDIRECT_ON_FRACTION = "VG150", "GPUDirect RDMA for a part of a GPU", _I, _R
    DIRECT_PATH_SHORT = "VG151", "vCenter counts fewer of a DirectPath profile than the plan takes", _W, _R

    TEMPLATE_NOT_FOUND = "VG201", "the template does not exist", _E, _O
    TEMPLATE_AMBIGUOUS = "VG202", "several templates have this name", _E, _O
    TEMPLATE_IS_BIOS = "VG203", "the template boots with BIOS firmware", _E, _D
    TEMPLATE_WITHOUT_SNAPSHOT = "VG204", "a linked clone needs a snapshot", _E, _D
    NOT_A_TEMPLATE = "VG205", "what is to be cloned is a VM, not a template", _W, _D
    GUEST_ID_ODD = "VG206", "the guest id is not one of a 64-bit system", _W, _R
    HARDWARE_VERSION = "VG207", "the hardware version and the host do not go together", _E, _D
    COMPUTED_SETTING = "VG208", "extra_config contradicts what a VM with GPUs needs", _E, _D
    MMIO_TOO_SMALL = "VG209", "the 64-bit MMIO size is below the rule", _W, _D
    DISK_SHRINKS = "VG210", "a disk would have to shrink", _E, _D
    DISK_HAS_SNAPSHOT = "VG211", "a disk of a VM with snapshots would have to grow", _E, _R
    FIRMWARE_IS_BIOS = "VG212", "a VM of this plan boots with BIOS firmware", _E, _D
    MANY_CPUS = "VG213", "more than 128 virtual CPUs beside a vGPU", _W, _F
    TOO_MANY_NICS = "VG214", "more than ten virtual NICs", _E, _D
    SIZE_UNKNOWN = "VG215", "neither plan nor template says how large the VM is", _E, _O
    KEY_PROVIDER_ABSENT = "VG216", "a virtual TPM needs a key provider", _E, _D
    OPTION_NEEDS_EFI = "VG217", "an option needs EFI firmware", _E, _D
    LATENCY_NEEDS_CPU = "VG218", "latency sensitivity high needs more CPU than can be reserved", _E, _D
    HOT_ADD = "VG219", "hot-add beside devices or NUMA nodes that it hides", _W, _D
    NAMESAKE = "VG220", "VMs of another plan bear this plan's name", _E, _O
    MARK_WITHOUT_ID = "VG221", "a VM whose owner mark holds no id would be deleted", _E, _O
    RENAMED = "VG222", "vCenter has another name for a VM of this plan", _W, _D
    IN_OTHER_FOLDER = "VG223", "a VM of this plan is in another folder", _W, _D
    NAME_TAKEN = "VG224", "a VM of this plan cannot have its name or folder", _W, _D
    MOVED_AND_THERE = "VG225", "`moved` names a VM that is there beside its successor", _W, _D
    IMPORTED_MAY_NOT_GO = "VG230", "a VM that was imported would be deleted", _E, _O
    NO_LONGER_MANAGED = "VG231", "a key of a VM has left the plan file", _I, _O
    CANNOT_BE_IMPORTED = "VG232", "a VM cannot become this plan's", _E, _O
    KEEPS_OVERRIDES = "VG233", "a VM that is given up keeps what its cluster does with it", _I, _O
    HOST_STILL_MARKED = "VG234", "a host is under work of the plan whose VMs are given up", _E, _O
    MANY_DELETIONS = "VG235", "many VMs would be deleted", _E, _O
    TAGS_NOT_READ = "VG240", "tags are asked for, and were not read", _W, _O
    TAG_CATEGORY_ABSENT = "VG241", "there is no such category of tags", _E, _D
    TAG_ABSENT = "VG242", "the category has no such tag", _E, _D
    TAG_CATEGORY_SINGLE = "VG243", "a VM can have one tag of the category at most", _E, _D
    TAG_CATEGORY_OF_OTHERS = "VG244", "the category's tags are not for VMs", _E, _D
    LIBRARY_ITEM_ABSENT = "VG245", "the content library has no such item", _E, _D
    LIBRARY_ITEM_NO_TEMPLATE = "VG246", "the item of the content library is no VM template", _E, _D
    LIBRARIES_NOT_READ = "VG247", "a content library is named, and none was read", _E, _O
    STORAGE_POLICY_NOT_FOUND = "VG248", "the storage policy does not exist", _E, _D
    STORAGE_POLICY_UNREAD = "VG249", "storage policies are named and were not read", _E, _D
    DATASTORE_UNFIT = "VG250", "the datastore does not fit the storage policy", _E, _R
    CUSTOMIZATION_NOT_FOUND = "VG251", "the customisation specification does not exist", _E, _D
    CUSTOMIZATION_UNREAD = "VG252", "a customisation specification is named and was not read", _E, _D
    CUSTOMIZATION_UNFIT = "VG253", "the customisation specification is none for the guest", _E, _D
    CUSTOMIZATION_NICS = "VG254", "the customisation specification does not fit the VM's NICs", _E, _D
    CUSTOMIZED_ONCE = "VG255", "a guest that was customised is not compared", _I, _D
    CUSTOMIZATION_FAILED = "VG256", "the customisation of a guest failed", _W, _D
    HARDWARE_RAISED = "VG257", "the hardware version of a VM is raised", _W, _D

    SHARE_EXCEEDED = "VG260", "a plan takes more than somebody's share of the GPUs", _E, _O
    SHARE_EXCEEDED_ALREADY = "VG261", "more than a share of the GPUs is held already", _W, _O
    SHARE_KEPT = "VG262", "a plan keeps to a share of the GPUs", _I, _O
    EXPIRES_SOON = "VG263", "a VM expires within a week", _W, _O
    EXPIRES_NEXT = "VG264", "a VM expires today or tomorrow", _W, _O
    GPUS_RESERVED = "VG265", "a plan takes GPUs that others have reserved", _E, _O
    RESERVED_FIRST = "VG266", "a plan has not begun: its GPUs are reserved, and no VM is made", _I, _O
    RESERVATION_ENDED = "VG267", "the time of a plan's reservation is over", _W, _O
    CANNOT_RESERVE = "VG268", "it cannot be told what a plan would reserve", _E, _O
    DISKS_OF_OTHERS = "VG269", "a VM that is to be deleted has disks that the plan did not make", _W, _D
    DISK_IN_SNAPSHOT = "VG270", "a disk of others cannot be saved from a deletion", _E, _D
    DISK_UNCLEAR = "VG271", "it is not known which disk of a VM is the plan's", _W, _D
    DISK_NOT_TO_DELETE = "VG272", "`--delete` names a disk that would not be deleted with its VM", _E, _D
    DEVICES_OF_OTHERS = "VG273", "a VM has NICs or GPUs that the plan did not make", _W, _D

    HOST_MEMORY = "VG301", "the host cannot reserve that much memory", _E, _R
    NUMA_TOO_SMALL = "VG302", "the VM is larger than a NUMA node", _E, _R
    NUMA_TAKEN = "VG303", "the NUMA node is used by other VMs", _W, _R
    NUMA_UNKNOWN = "VG304", "the host does not report the NUMA node of its GPUs", _W, _D
    SPREAD_IMPOSSIBLE = "VG305", "too few hosts or GPUs to keep the VMs apart", _E, _O
    SPREAD_UNMET = "VG306", "VMs that should run apart share a host or a NUMA node", _W, _O
    NO_HOST_MATCHES = "VG307", "no host matches `place.hosts`", _E, _O
    DRS_MAY_MOVE = "VG309", "DRS may move a VM away from its NUMA node's GPU", _W, _R
    NUMA_ELSEWHERE = "VG310", "a VM is tied to another NUMA node than its GPU's", _W, _D
    FIXED_PASSTHROUGH = "VG311", "fixed passthrough: no vMotion, HA restart or snapshot while on", _W, _D
    SPREAD_GPUS_NOT_PROMISED = "VG312", "ESXi may put VMs that should run apart on one GPU", _W, _R
    ELSEWHERE = "VG313", "a VM runs where the plan would not put it", _W, _O
    RULE_WITHOUT_DRS = "VG314", "without DRS no rule keeps the VMs where they belong", _I, _R
    NUMA_NODE_ABSENT = "VG315", "no host has the NUMA node that is named", _E, _D
    NUMA_UNEVEN = "VG316", "the CPUs cannot be split evenly over the NUMA nodes", _W, _R
    ASSIGNED_NODE_OPEN = "VG317", "the device that is assigned may be of another NUMA node", _W, _R
    HOST_CPUS = "VG318", "the VM has more CPUs than the host has threads", _E, _D
    NODES_DISAGREE = "VG319", "vCenter and nvidia-smi name different NUMA nodes of a GPU", _W, _D
    NVLINK_NOT_SHOWN = "VG320", "a device group is offered, and nvidia-smi shows no such NVLink", _W, _D
    NVLINK_ACROSS_BOARDS = "VG321", "NVLink joins GPUs that are different boards", _W, _D
    GPU_FAR_FROM_NIC = "VG322", "a VM's GPU and NIC are far apart", _W, _D
    ONE_NODE_WOULD_DO = "VG323", "a VM spans NUMA nodes, and GPUs of one node would do", _I, _R
    HOST_GROUP_NOT_FOUND = "VG330", "the host group does not exist", _E, _D
    HOST_GROUP_UNUSABLE = "VG331", "no host of the host group can be used", _E, _O
    HOSTS_EXCLUDED = "VG332", "`place.not_hosts` leaves no host", _E, _O
    HOST_FORBIDDEN = "VG333", "a VM is on a host that `place` forbids", _W, _D
    RULE_OF_OTHERS = "VG334", "a DRS rule of others forbids a VM its host", _W, _D
    SPREAD_NUMA_NOT_PROMISED = "VG335", "ESXi may put VMs that should run apart on one NUMA node", _W, _R
    PACK_UNMET = "VG336", "VMs that should be together are on several hosts", _I, _O
    KEEP_FREE_UNMET = "VG337", "fewer hosts are free of GPU VMs than should be", _W, _O

    ONLY_MAY_STRAND = "VG340", "a VM that --only leaves out may find no GPU later", _W, _R
    OVERRIDE_OF_NO_USE = "VG341", "an override of the cluster that has no effect there", _W, _D
    NO_CLUSTER = "VG342", "an option of a cluster is asked of a VM outside of any", _E, _D
    NOT_MADE_ANEW = "VG343", "what a VM would be made from anew is not there", _W, _O
    ORPHAN_ELSEWHERE = "VG344", "a VM of this plan left the plan file together with its folder", _W, _D
    DEPOT_LACKS = "VG345", "a host does not find what it would install in its depots", _E, _D
    BROUGHT_EXPIRED = "VG346", "a token that a guest is to be given has expired", _E, _D
    NO_SOURCE = "VG347", "nothing says what a VM would be made from", _E, _O

    NETWORK_NOT_FOUND = "VG401", "the network does not exist", _E, _O
    NETWORK_AMBIGUOUS = "VG402", "several networks have this name", _E, _O
    NETWORK_NOT_ON_HOST = "VG403", "no host that could run the VM has the network", _E, _D
    NETWORK_IS_UPLINK = "VG404", "the network is an uplink portgroup", _E, _D
    NETWORK_KIND = "VG405", "the network is of a kind that is not supported", _E, _D
    NIC_ABSENT = "VG406", "no host has the NIC that a VM asks for", _E, _D
    NIC_NOT_READY = "VG407", "the NIC is not passed through, or has no virtual functions", _E, _D
    NIC_TAKEN = "VG408", "every function of the NICs that would do is in use", _E, _D
    NIC_FAR = "VG409", "a VM's NIC is on another NUMA node than its GPUs", _W, _D
    NIC_HOSTS_OWN = "VG410", "the NIC that a VM asks for is the host's own", _E, _D
    DATASTORE_NOT_FOUND = "VG411", "the datastore does not exist", _E, _O
    DATASTORE_AMBIGUOUS = "VG412", "several datastores have this name", _E, _O
    DATASTORE_NOT_ON_HOST = "VG413", "no host that could run the VM has the datastore", _E, _D
    DATASTORE_SPACE = "VG414", "the datastore may run full", _W, _R
    DATASTORE_INACCESSIBLE = "VG415", "the datastore is not accessible", _E, _D
    NO_DATASTORE = "VG416", "no datastore is named, and none follows", _E, _O
    SRIOV_TIES_VM = "VG417", "a virtual function: no vMotion, HA restart or snapshot while on", _W, _D
    SRIOV_OFF_SWITCH = "VG418", "a virtual function's network is not on its NIC's switch", _W, _R
    PVRDMA_NOT_DISTRIBUTED = "VG419", "a PVRDMA NIC needs a distributed portgroup", _E, _D
    PVRDMA_UPLINKS = "VG420", "the switch of a PVRDMA NIC has not one uplink alone", _W, _D
    FOLDER_NOT_FOUND = "VG421", "the VM folder does not exist", _E, _O
    FOLDER_AMBIGUOUS = "VG422", "several VM folders have this name", _E, _O
    POOL_NOT_FOUND = "VG423", "the resource pool does not exist", _E, _O
    POOL_AMBIGUOUS = "VG424", "several resource pools have this name", _E, _O
    CLUSTER_NOT_FOUND = "VG425", "the cluster does not exist", _E, _O
    CLUSTER_AMBIGUOUS = "VG426", "several clusters have this name", _E, _O
    DATACENTER_NOT_FOUND = "VG427", "the datacenter does not exist", _E, _O
    DATACENTER_NOT_NAMED = "VG428", "there are several datacenters and none is named", _E, _O
    KEYS_ABSENT = "VG433", "a guest has the plan's keys, and they are not here", _W, _O
    KEYS_FOREIGN = "VG434", "a guest has other keys than the plan has here", _E, _O
    KEYS_NOT_ROTATED = "VG435", "the plan's keys cannot be replaced as they are", _E, _O
    STAYS_VALID = "VG436", "what is replaced stays valid until somebody revokes it", _W, _O
    GUEST_SECRETS_NO_WAY = "VG429", "no way into a guest keeps its secrets out of vCenter", _E, _O
    GUEST_SECRETS_EXPOSED = "VG430", "a clone carries secrets in its configuration", _W, _O
    GUEST_SECRETS_MIXED = "VG431", "some guests of a mesh are exposed and others are not", _E, _O
    USER_DATA_READABLE = "VG432", "a user's own user data can be read in vCenter", _I, _O

    NO_USABLE_HOST = "VG501", "no host is connected and out of maintenance mode", _E, _D
    NOT_SHARED_DIRECT = "VG502", "no GPU's graphics type is sharedDirect", _E, _D
    NO_HOST_DRIVER = "VG503", "the NVIDIA host driver does not serve the GPU", _E, _D
    NO_SUCH_BOARD = "VG504", "no host in the VM's clusters has a GPU for this", _E, _D
    RESTART_PENDING = "VG505", "a GPU's setting waits for a restart", _W, _D
    HOST_NOT_MATCHED = "VG506", "an entry of `hosts` matches no host", _E, _D
    HOST_TWICE = "VG507", "two entries of `hosts` ask different things of one host", _E, _D
    SETTING_DIFFERS = "VG508", "a host that is only checked differs from the plan", _W, _O
    SETTING_UNREAD = "VG509", "a setting that the plan names could not be read", _E, _O
    CHECK_UNREAD = "VG510", "a setting of a host that is only checked could not be read", _W, _D
    SETTING_OWNED = "VG511", "somebody else owns the host's settings", _E, _D
    HOST_NOT_EMPTIED = "VG512", "a host cannot be emptied", _E, _D
    CLUSTER_TOO_FULL = "VG513", "the rest of the cluster cannot carry what runs on a host", _E, _R
    DISRUPTION_NOT_ALLOWED = "VG514", "a change needs a disruption that the plan does not allow", _E, _D
    OUTSIDE_WINDOW = "VG515", "it is outside the maintenance window", _W, _O
    NIC_IN_USE = "VG516", "a NIC would be taken from the host or from a VM", _E, _D
    NIC_CUT_OFF = "VG517", "a NIC that the plan names carries traffic of the host", _W, _D
    GPU_SERVES_VGPUS = "VG518", "a GPU would be taken from the VMs that use it", _E, _D
    DRIVERS_DIFFER = "VG519", "the hosts of a cluster run different NVIDIA host drivers", _W, _D
    GPU_DAEMON_ABSENT = "VG520", "the GPU management daemon is not installed", _W, _D
    BIOS_DIFFERS = "VG521", "the BIOS does not show what the plan needs", _W, _D
    GPU_NIC_APART = "VG522", "a NIC is on another NUMA node than every GPU", _W, _D
    LOCKDOWN = "VG523", "lockdown mode keeps the host's shell closed", _E, _D
    SHELL_CLOSED = "VG524", "the plan file keeps the host's shell closed, and only it could tell", _W, _D
    OTHERS_MAINTENANCE = "VG525", "a host is in maintenance mode, and not by this plan", _W, _D
    HOST_SILENT = "VG526", "a host does not answer", _W, _D
    DEVICE_NOT_MATCHED = "VG527", "a `match` fits no device of any host", _E, _D
    NOT_SUPPORTED = "VG528", "the host, board or NIC does not have the setting", _E, _D
    FIRMWARE_IN_GUEST = "VG529", "a passed-through NIC's firmware is set inside its guest", _W, _D
    SHARING_UNCLEAR = "VG530", "how GPUs shall be shared for the VMs is not clear", _E, _D
    STANDS_WAITING = "VG531", "a host stands in maintenance mode and waits", _W, _D
    SWITCH_NOT_FOUND = "VG532", "the distributed switch does not exist", _E, _D
    OWN_VMS_OFF = "VG533", "VMs of this plan must be switched off, which is not allowed", _E, _D
    FIRMWARE_UNPROVEN = "VG534", "a NIC's firmware can no longer be read on the host", _I, _D
    MTU_TOO_SMALL = "VG535", "a network's MTU is above its switch's", _E, _D
    EXTRA_RESTART = "VG536", "a restart that was to bring a setting did not", _W, _D
    SHELL_LEFT_OPEN = "VG537", "an SSH service that this plan started still runs", _W, _D
    HOST_LOST = "VG538", "VMs of the plan are on a host that does not respond", _W, _D
    KEPT_WITH_ITS_HOST = (
        "VG539",
        "a VM to be deleted, given up or taken in is on a host that does not respond",
        _W,
        _D,
    )
    HOST_CORDONED = "VG543", "a host that would take the VM is cordoned", _E, _D
    GPU_CORDONED = "VG544", "ESXi could choose a GPU that is cordoned", _E, _D
    CORDON_IN_FORCE = "VG545", "a host of the plan, or a GPU of it, is cordoned", _I, _D
    DRAIN_SWITCHES_OFF = "VG546", "a VM must be switched off, and nobody gave leave", _E, _O
    DRAIN_OTHERS = "VG547", "a VM of no plan must be moved, and nobody gave leave", _E, _O
    DRAIN_STAYS = "VG548", "a VM cannot leave its host, or not go back to it", _E, _O
    DRAIN_UNSURE = "VG549", "a VM that moves may find no GPU", _W, _O
    WINDOW_TOO_SHORT_NOW = "VG553", "what is left of the maintenance window is too short", _W, _R
    WINDOW_TOO_SHORT = "VG554", "a maintenance window is shorter than what it is for", _W, _R
    NOT_UNDONE = "VG555", "a rollback could not undo something", _W, _O
    NOT_UNDONE_ON_PURPOSE = "VG556", "a rollback left something on purpose", _I, _O
    NO_WAY_BACK = "VG557", "a rollback could not undo a change of the plan", _W, _O
    NO_FIRMWARE_TOOLS = "VG558", "a host lacks the tools that set its NICs' firmware", _E, _D
    DEVICE_GROUP_ABSENT = "VG559", "no host offers the device group that is asked for", _E, _D
    DEVICE_GROUP_UNLIKE = "VG560", "a device group is not what the plan asks for with it", _E, _D
    UNEXPLAINED_MAINTENANCE = "VG550", "a host of the plan is in maintenance mode, unexplained", _W, _D
    BOARD_ENDED = "VG561", "the host driver's release serves a board no longer", _W, _F
    BRANCH_ENDED = "VG562", "the host driver's branch has reached its end of life", _I, _D
    DRIVER_WITHOUT_CANARY = "VG563", "several hosts get another driver, and none goes first", _I, _O
    BMC_UNNAMED = "VG564", "a host that boots cold has no BMC, as others of its entry do", _W, _O
    NOT_PINNED = "VG570", "what a guest would run as root is fetched without a checksum", _E, _O

    GUEST_NOT_LINUX = "VG601", "a guest to be staged is no Linux", _E, _D
    GUEST_NO_SYSTEM = "VG602", "a guest to be staged has no system yet", _E, _O
    ONLY_CLOUD_INIT = "VG603", "cloud-init is the only way into a guest", _I, _D
    GUEST_NO_WAY_IN = "VG604", "there is no way into a guest that cloud-init does not set up", _E, _O
    GUEST_STAYS_OFF = "VG605", "a VM is off, so its guest is not staged", _I, _O
    GUEST_FAILED = "VG606", "something failed in a guest", _W, _O
    GUEST_MANUAL_STEP = "VG607", "a guest waits for a manual step", _W, _O
    GUEST_LEFTOVERS = "VG608", "a guest has what the plan does not ask for any more", _I, _O
    GUEST_NOT_COMPARED = "VG610", "a secret that was staged could not be compared", _I, _O
    GUEST_DRIVER_BRANCH = "VG611", "the guest's driver does not fit its host's", _E, _R
    GUEST_LICENCE_ABSENT = "VG612", "no licence is named for vGPUs", _I, _D
    IMAGE_WITHOUT_HOROVOD = "VG613", "the image is one that comes without Horovod", _W, _R
    ONE_WORKER = "VG614", "a training has one worker", _I, _O
    WORKERS_UNEQUAL = "VG615", "workers have unequal GPUs", _W, _D
    NO_MEETING_NETWORK = "VG616", "workers have no way to each other that the plan knows", _E, _O
    HEAD_ABSENT = "VG617", "what is asked of a head has none", _W, _O
    NO_SHARED_FOLDER = "VG618", "workers share no folder", _I, _O
    USER_DATA_CLASHES = "VG619", "`user_data` sets what the plan decides otherwise", _E, _D
    GUEST_DISK_SMALL = "VG620", "the system disk may be too small for the image", _W, _R
    GUEST_DRIVER_UNPROVEN = "VG621", "nobody has said that the host takes the guest's driver", _W, _R
    IMAGE_WITHOUT_TORCH = "VG622", "the image is one that comes without PyTorch", _W, _R
    NOT_ELASTIC = "VG623", "the framework cannot be elastic", _E, _O
    ELASTIC_BEYOND = "VG624", "elastic training is allowed more workers than there are", _W, _O
    GUEST_WARNED = "VG627", "a module is in a guest but for what it warns of", _W, _O
    CUDA_DRIVER_OLD = "VG625", "the guest's driver is too old for the CUDA Toolkit", _E, _D
    CUDA_DRIVER_UNPROVEN = "VG626", "the guest's driver is older than the CUDA Toolkit's own", _W, _D
    GUEST_DRIVER_UNKNOWN = "VG629", "no document names the branch of the guest's driver", _W, _R

    TEMPLATE_NO_TOOLS = "VG636", "vCenter has seen no VMware Tools in the template", _W, _D
    TEMPLATE_HAS_USER_DATA = "VG637", "the template carries user data of its own", _W, _D
    RDMA_UNPAIRED = "VG630", "a VM has not one RDMA NIC for each GPU", _W, _D
    ATS_INCOMPLETE = "VG631", "the ATS chain is incomplete", _W, _D
    ATS_UNPROVEN = "VG632", "parts of the ATS chain can only be proven in the guest", _I, _D
    PVRDMA_NO_GPUDIRECT = "VG633", "a PVRDMA NIC does not reach GPU memory", _I, _R
    PVRDMA_NO_VMKNIC = "VG634", "the host has no VMkernel NIC for PVRDMA", _W, _D
    PVRDMA_GUEST = "VG635", "the guest is none that PVRDMA is supported for", _E, _D
    POOL_EXHAUSTED = "VG640", "a network's pool has too few addresses", _E, _O
    ADDRESS_TWICE = "VG641", "an address of the plan is given twice", _E, _O
    ADDRESS_IN_USE = "VG642", "somebody else uses an address of the plan", _W, _D
    NICS_ALIKE = "VG643", "a guest cannot tell its NICs apart", _E, _D
    SITE_LEFT = "VG644", "staging would fetch from beyond a closed site", _E, _O
    SITE_MIRROR_UNASKED = "VG645", "a registry mirror that docker does not ask", _W, _D
    SITE_WITHOUT_PACKAGES = "VG646", "a closed site has no package mirror", _W, _O
    RENDEZVOUS_ELSEWHERE = "VG718", "processes do not meet on the training's network", _W, _O

    @property
    def is_relaxable(self) -> bool:
        """Whether a plan file may give it a lower severity."""
        return self.basis in {Basis.RECALLED, Basis.FIELD} and self not in _NOTHING_TO_PLAN


_NOTHING_TO_PLAN = frozenset({Code.PROFILE_UNKNOWN, Code.MIXED_SIZE_NOT_SUPPORTED, Code.UNDECIDED})
"""Findings without which there would still be nothing to plan: no size to reckon with, or no place found."""


def code_of(word: str) -> Code | None:
    """Return the code that a user writes, None where there is none."""
    return Code(word) if word in Code.__members__.values() else None
