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

    NOT_OURS = "VG001", "a VM with this name already exists but does not belong to this plan", _E, _D
    MARK_DISAGREES = "VG002", "a VM's owner mark, name and folder do not match", _E, _O
    MARK_COPIED = "VG003", "another VM has this plan's owner mark", _W, _D
    PROTECTED = "VG004", "the plan would change a protected object", _E, _O
    ORPHAN = "VG005", "one of this plan's VMs is not in the plan file", _W, _O
    LOCKED = "VG006", "a locked VM would be deleted", _E, _O
    POWER_CYCLE_NOT_ALLOWED = "VG007", "a change requires a power cycle, which is not allowed", _E, _D
    CHECK_NOT_RELAXABLE = "VG008", "`checks` contains a finding whose severity cannot be changed", _E, _O
    SET_AT_CREATION_ONLY = "VG009", "a key that applies only at creation has changed", _W, _O
    EXPIRED = "VG010", "a VM is past its expiration date", _I, _O
    NOTHING_SELECTED = "VG011", "the selection matches nothing in the plan", _E, _O
    API_TOO_OLD = "VG012", "the vCenter API version is too old for the plan", _E, _D
    SUSPENDED = "VG013", "a VM is suspended and cannot be changed", _E, _D
    NOT_READ = "VG014", "a VM in this plan could not be fully read", _E, _D
    STAYS_OFF = "VG015", "a VM is off, and the plan ignores its power state", _I, _O
    ANOTHER_RUN = "VG016", "another run has locked the plan or objects it would change", _W, _O
    SILENT_RUN = "VG017", "an inactive run has locked the plan or objects it would change", _W, _O
    BELIEF_FAILS = "VG018", "an irreversible change relies on a false assumption", _E, _F

    PROFILE_UNKNOWN = "VG101", "no board in the catalog has this profile", _E, _R
    PROFILE_NOT_OFFERED = "VG102", "no host in the VM's clusters offers the profile", _E, _D
    GPU_FULL = "VG103", "every GPU that offers the profile is full", _E, _D
    SAME_SIZE_LOCK = "VG104", "a GPU in same-size mode is running vGPUs of another size", _E, _D
    GPU_NOT_IN_MIG_MODE = "VG105", "a MIG profile requires a GPU in MIG mode", _E, _D
    GPU_IN_MIG_MODE = "VG106", "the profile is time-sliced, but every GPU is in MIG mode", _E, _D
    NO_MIG_SLICE = "VG107", "no free MIG slices for the profile in a valid placement", _E, _D
    MIXED_SIZE_NO_ROOM = "VG108", "no free placement on a GPU in mixed-size mode", _E, _D
    MIXED_SIZE_UNKNOWN = "VG109", "the board's mixed-size placements are not published", _W, _R
    MIXED_SIZE_NOT_SUPPORTED = "VG110", "the profile is not supported in mixed-size mode", _E, _R
    UNDECIDED = "VG111", "no placement was found, but one may still exist", _E, _R
    BOARD_UNKNOWN = "VG112", "a GPU's board is not in the catalog", _W, _O
    OTHER_SERIES = "VG113", "a profile is not in the C series", _I, _D
    NOT_AN_ESXI_BOARD = "VG114", "the board is not supported on ESXi", _E, _R
    PROFILE_NEEDS_NEWER_ESXI = "VG115", "the profile requires a later ESXi version", _E, _D
    POWER_ON_ORDER = (
        "VG116",
        "the VMs fit, but one may not start if ESXi chooses other GPUs",
        _E,
        _R,
    )
    POWERED_OFF_CLAIM = "VG117", "powered-off VMs outside the plan need the same GPUs", _I, _D
    HOLDER_UNKNOWN = "VG118", "a GPU is used by a VM that could not be read", _W, _D
    CLASSES_CANNOT_SHARE = (
        "VG119",
        "vGPUs of different series can share a GPU only on 8.0 U2 and later",
        _E,
        _D,
    )
    MIXED_BOARDS = "VG120", "vGPUs of different boards or series in one VM", _E, _D
    MULTI_VGPU_NEEDS_FULL = (
        "VG121",
        ("vSphere 7: multiple vGPUs must be full-framebuffer C or Q profiles"),
        _E,
        _D,
    )
    TOO_MANY_VGPUS = "VG122", "more vGPUs than the hardware version or release allows", _E, _D
    MANY_GPU_SERVER = "VG123", "multiple GPUs for one VM on a server with more than four GPUs", _E, _R
    NVSWITCH_PASSTHROUGH = "VG124", "GPU passthrough on an NVSwitch system", _E, _D
    UVM_NEEDS_FULL = "VG125", "unified memory with a time-sliced fraction of a GPU", _E, _D
    UVM_DISABLES_P2P = "VG126", "unified memory disables NVLink peers on this board", _W, _D
    UVM_NO_MIGRATION = "VG127", "unified memory disables vMotion", _I, _D
    NOT_CREATABLE_NOW = "VG128", "vCenter reports that the profile cannot be created now", _E, _R
    PASSTHROUGH_NOT_ACTIVE = "VG130", "the device is not in passthrough mode", _E, _D
    GPU_IN_PASSTHROUGH = "VG131", "every GPU that offers the profile is in passthrough mode", _E, _D
    PASSTHROUGH_ABSENT = "VG132", "no host has a GPU at this PCI address", _E, _D
    PASSTHROUGH_TAKEN = "VG133", "the device to pass through is in use", _E, _D
    LABEL_UNKNOWN = "VG134", "no device has the specified label, model or IDs", _E, _D
    TOO_MANY_PASSTHROUGH = "VG135", "more passthrough devices than the hardware version allows", _E, _D
    PASSTHROUGH_SERVES_VGPUS = "VG136", "the GPU to pass through is used for vGPUs", _E, _D
    SYSTEM_ID_UNKNOWN = "VG137", "the host's system ID for fixed passthrough could not be read", _E, _D
    NVLINK_GROUP_ABSENT = "VG138", "the host does not offer this NVLink device group", _E, _D
    NVLINK_GROUP_BROKEN = "VG139", "no set of NVLink peers is completely free", _E, _R
    NVLINK_NEEDS_LINUX = "VG140", "NVLink peers in a non-Linux guest", _E, _D
    NVLINK_NEEDS_WHOLE = "VG141", "NVLink peers that do not use a full GPU", _E, _D
    NOT_AN_NVLINK_PEER = "VG142", "the board's vGPUs cannot be NVLink peers", _E, _D
    NVLINK_GROUP_SIZE = "VG143", "this many GPUs cannot all be NVLink peers", _E, _R
    NVSWITCH_NEEDS_NEWER_ESXI = "VG144", "NVSwitch peers require a later ESXi version", _E, _D
    NVLINK_BLACKWELL = "VG145", "NVLink on HGX B200 and B300 is documented only for KVM", _W, _R
    NVLINK_CHOICE_OPEN = "VG146", "ESXi may choose GPUs that NVLink does not connect", _W, _R
    NVLINK_MEMBER_ALONE = "VG147", "a GPU in an NVLink group is used individually", _I, _F
    PROFILE_MAXIMUM_UNKNOWN = "VG148", "the maximum number of these vGPUs per GPU is not published", _W, _R
    MEMORY_BELOW_FRAMEBUFFER = "VG149", "the VM has less memory than its GPUs' framebuffer", _I, _R
    GPUDIRECT_ON_FRACTION = "VG150", "GPUDirect RDMA with a fractional GPU", _I, _R
    DIRECT_PATH_SHORT = "VG151", "vCenter reports too few available units of a DirectPath profile", _W, _R
    DISK_TOO_LARGE = "VG152", "a disk is larger than 62 TiB", _E, _D
    NO_ROOM_FOR_SWAP = "VG153", "the datastore does not have enough space for the VMs' swap files", _E, _D
    UNSIGNED_MODULE = (
        "VG154",
        ("with Secure Boot, a guest rejects an NVIDIA driver built inside it"),
        _E,
        _F,
    )
    VARIABLE_OF_ONE_MACHINE = (
        "VG155",
        ("a training variable overrides values that workers detect themselves"),
        _W,
        _F,
    )
    MIG_SEEN_ALONE = "VG161", "a program can use only one of a VM's MIG-backed vGPUs", _W, _R
    PIN_SHARED = "VG162", "a powered-off VM has the same passthrough GPU", _W, _D
    SPARE_LOST = "VG163", "after this plan, a cluster's hosts could no longer be evacuated", _E, _O
    SPARE_LACKING = "VG164", "a cluster already has too little spare capacity", _W, _O
    SPARE_KEPT = "VG165", "a cluster keeps the required spare capacity", _I, _O
    LICENCES_EXCEEDED = "VG166", "a plan needs more vGPU licenses than are available", _E, _D
    LICENCES_EXCEEDED_ALREADY = "VG167", "there are already too few vGPU licenses", _W, _D
    LICENCES_KEPT = "VG168", "there are enough vGPU licenses for a plan", _I, _D

    TEMPLATE_NOT_FOUND = "VG201", "the template does not exist", _E, _O
    TEMPLATE_AMBIGUOUS = "VG202", "several templates have this name", _E, _O
    TEMPLATE_IS_BIOS = "VG203", "the template boots with BIOS firmware", _E, _D
    TEMPLATE_WITHOUT_SNAPSHOT = "VG204", "a linked clone requires a snapshot", _E, _D
    NOT_A_TEMPLATE = "VG205", "the source is a VM, not a template", _W, _D
    GUEST_ID_ODD = "VG206", "the guest ID is not for a 64-bit system", _W, _R
    HARDWARE_VERSION = "VG207", "the host does not support the VM's hardware version", _E, _D
    COMPUTED_SETTING = "VG208", "extra_config conflicts with requirements for VMs with GPUs", _E, _D
    MMIO_TOO_SMALL = "VG209", "the 64-bit MMIO size is smaller than required", _W, _D
    DISK_SHRINKS = "VG210", "a disk would have to be made smaller", _E, _D
    DISK_HAS_SNAPSHOT = "VG211", "a disk would have to be extended, but its VM has snapshots", _E, _R
    FIRMWARE_IS_BIOS = "VG212", "a VM in this plan boots with BIOS firmware", _E, _D
    MANY_CPUS = "VG213", "more than 127 virtual CPUs with a vGPU", _E, _D
    TOO_MANY_NICS = "VG214", "more than ten virtual NICs", _E, _D
    SIZE_UNKNOWN = "VG215", "neither the plan nor the template specifies the VM's size", _E, _O
    KEY_PROVIDER_ABSENT = "VG216", "a virtual TPM requires a key provider", _E, _D
    OPTION_NEEDS_EFI = "VG217", "an option requires EFI firmware", _E, _D
    LATENCY_NEEDS_CPU = "VG218", "high latency sensitivity requires more CPU than can be reserved", _E, _D
    HOT_ADD = "VG219", "hot-add conflicts with devices or NUMA nodes", _W, _D
    NAMESAKE = "VG220", "another plan with the same name already owns VMs", _E, _O
    MARK_WITHOUT_ID = "VG221", "a VM whose owner mark has no ID would be deleted", _E, _O
    RENAMED = "VG222", "a VM in this plan has a different name in vCenter", _W, _D
    IN_OTHER_FOLDER = "VG223", "a VM in this plan is in a different folder", _W, _D
    NAME_TAKEN = "VG224", "a VM in this plan cannot be renamed or moved", _W, _D
    MOVED_AND_THERE = "VG225", "both VMs in a `moved` item exist", _W, _D
    IMPORTED_MAY_NOT_GO = "VG230", "an imported VM would be deleted", _E, _O
    NO_LONGER_MANAGED = "VG231", "a VM's key was removed from the plan file", _I, _O
    CANNOT_BE_IMPORTED = "VG232", "a VM cannot be imported into this plan", _E, _O
    KEEPS_OVERRIDES = "VG233", "a released VM keeps its cluster overrides", _I, _O
    HOST_STILL_MARKED = "VG234", "the plan has unfinished changes on a host, so its VMs stay managed", _E, _O
    MANY_DELETIONS = "VG235", "many VMs would be deleted", _E, _O
    TAGS_NOT_READ = "VG240", "the plan sets tags, but tags were not read", _W, _O
    TAG_CATEGORY_ABSENT = "VG241", "the tag category does not exist", _E, _D
    TAG_ABSENT = "VG242", "the category does not have this tag", _E, _D
    TAG_CATEGORY_SINGLE = "VG243", "a VM can have at most one tag from the category", _E, _D
    TAG_CATEGORY_OF_OTHERS = "VG244", "the category's tags do not apply to VMs", _E, _D
    LIBRARY_ITEM_ABSENT = "VG245", "the content library does not contain this item", _E, _D
    LIBRARY_ITEM_NO_TEMPLATE = "VG246", "the content library item is not a VM template", _E, _D
    LIBRARIES_NOT_READ = "VG247", "the plan uses a content library, but libraries were not read", _E, _O
    STORAGE_POLICY_NOT_FOUND = "VG248", "the storage policy does not exist", _E, _D
    STORAGE_POLICY_UNREAD = "VG249", "the plan uses storage policies, but they were not read", _E, _D
    DATASTORE_UNFIT = "VG250", "the datastore is not compatible with the storage policy", _E, _R
    CUSTOMIZATION_NOT_FOUND = "VG251", "the customization specification does not exist", _E, _D
    CUSTOMIZATION_UNREAD = "VG252", "the plan uses a customization specification that was not read", _E, _D
    CUSTOMIZATION_UNFIT = "VG253", "the customization specification does not match the guest", _E, _D
    CUSTOMIZATION_NICS = "VG254", "the customization specification does not match the VM's NICs", _E, _D
    CUSTOMIZED_ONCE = "VG255", "an existing guest's customization is not compared", _I, _D
    CUSTOMIZATION_FAILED = "VG256", "the customization of a guest failed", _W, _D
    HARDWARE_RAISED = "VG257", "the plan upgrades the hardware version of a VM", _W, _D
    KEPT_AS_CREATED = "VG258", "a VM keeps the template or GPUs that it was created with", _W, _R

    SHARE_EXCEEDED = "VG260", "a plan exceeds a GPU quota", _E, _O
    SHARE_EXCEEDED_ALREADY = "VG261", "a GPU quota is already exceeded", _W, _O
    SHARE_KEPT = "VG262", "a plan is within a GPU quota", _I, _O
    EXPIRES_SOON = "VG263", "a VM expires within a week", _W, _O
    EXPIRES_NEXT = "VG264", "a VM expires today or tomorrow", _W, _O
    GPUS_RESERVED = "VG265", "a plan uses GPUs that are reserved for others", _E, _O
    RESERVED_FIRST = "VG266", "GPUs are reserved for a plan that has not started; no VM is created", _I, _O
    RESERVATION_ENDED = "VG267", "a plan's reservation has ended", _W, _O
    CANNOT_RESERVE = "VG268", "a plan's reservation cannot be determined", _E, _O
    DISKS_OF_OTHERS = "VG269", "a VM to be deleted has disks that the plan did not create", _W, _D
    DISK_IN_SNAPSHOT = "VG270", "an unmanaged disk cannot be kept when its VM is deleted", _E, _D
    DISK_UNCLEAR = "VG271", "vgpu-cfg cannot determine which of a VM's disks belong to the plan", _W, _D
    DISK_NOT_TO_DELETE = "VG272", "`--delete` specifies a disk that would not be deleted with its VM", _E, _D
    DEVICES_OF_OTHERS = "VG273", "a VM has NICs or GPUs that the plan did not add", _W, _D
    FAILOVER_CAPACITY = (
        "VG274",
        "HA admission control leaves too little memory for the VMs' reservations",
        _E,
        _D,
    )
    PACKAGE_UNSIGNED = "VG275", "a depot contains a package that hosts reject by default", _E, _F

    HOST_MEMORY = "VG301", "the host cannot reserve the required memory", _E, _R
    NUMA_TOO_SMALL = "VG302", "the VM is larger than a NUMA node", _E, _R
    NUMA_TAKEN = "VG303", "the NUMA node is used by other VMs", _W, _R
    NUMA_UNKNOWN = "VG304", "the host does not report the NUMA node of its GPUs", _W, _D
    SPREAD_IMPOSSIBLE = "VG305", "too few hosts or GPUs to keep the VMs separate", _E, _O
    SPREAD_UNMET = "VG306", "VMs that should be separate share a host or a NUMA node", _W, _O
    NO_HOST_MATCHES = "VG307", "no host matches `place.hosts`", _E, _O
    DRS_MAY_MOVE = "VG309", "after DRS moves a VM, its GPU may be on a different NUMA node", _W, _R
    NUMA_ELSEWHERE = "VG310", "a VM is bound to a different NUMA node than its GPU", _W, _D
    FIXED_PASSTHROUGH = "VG311", "fixed passthrough prevents vMotion, HA restarts and live snapshots", _W, _D
    SPREAD_GPUS_NOT_PROMISED = "VG312", "ESXi may place VMs that should be separate on the same GPU", _W, _R
    ELSEWHERE = "VG313", "a VM runs on a host that the plan would not choose", _W, _O
    RULE_WITHOUT_DRS = "VG314", "without DRS, rules cannot keep the VMs in place", _I, _R
    NUMA_NODE_ABSENT = "VG315", "no host has the specified NUMA node", _E, _D
    NUMA_UNEVEN = "VG316", "the CPUs cannot be divided evenly among the NUMA nodes", _W, _R
    ASSIGNED_NODE_OPEN = "VG317", "the assigned device may be on a different NUMA node", _W, _R
    HOST_CPUS = "VG318", "the VM has more CPUs than the host has threads", _E, _D
    NODES_DISAGREE = "VG319", "vCenter and nvidia-smi report different NUMA nodes for a GPU", _W, _D
    NVLINK_NOT_SHOWN = (
        "VG320",
        "a device group is offered, but nvidia-smi shows no NVLink between its GPUs",
        _W,
        _D,
    )
    NVLINK_ACROSS_BOARDS = "VG321", "NVLink connects GPUs of different boards", _W, _D
    GPU_FAR_FROM_NIC = "VG322", "a VM's GPU and NIC are far apart", _W, _D
    ONE_NODE_WOULD_DO = (
        "VG323",
        "a VM spans NUMA nodes, although the GPUs on one node would be enough",
        _I,
        _R,
    )
    HOST_GROUP_NOT_FOUND = "VG330", "the host group does not exist", _E, _D
    HOST_GROUP_UNUSABLE = "VG331", "no host in the host group can be used", _E, _O
    HOSTS_EXCLUDED = "VG332", "`place.not_hosts` excludes every host", _E, _O
    HOST_FORBIDDEN = "VG333", "a VM is on a host that `place` excludes", _W, _D
    RULE_OF_OTHERS = "VG334", "a DRS rule outside the plan prevents the VM from running on its host", _W, _D
    SPREAD_NUMA_NOT_PROMISED = (
        "VG335",
        "ESXi may place VMs that should be separate on the same NUMA node",
        _W,
        _R,
    )
    PACK_UNMET = "VG336", "VMs that should run together are on different hosts", _I, _O
    KEEP_FREE_UNMET = "VG337", "too few hosts are free of GPU VMs", _W, _O

    ONLY_MAY_STRAND = "VG340", "a VM excluded by --only shares GPUs with a selected VM", _W, _R
    OVERRIDE_OF_NO_USE = "VG341", "a cluster override has no effect in this cluster", _W, _D
    NO_CLUSTER = "VG342", "a cluster option is set for a VM outside any cluster", _E, _D
    NOT_MADE_ANEW = "VG343", "the source needed to recreate a VM does not exist", _W, _O
    ORPHAN_ELSEWHERE = "VG344", "a VM and its folder were removed from the plan file", _W, _D
    DEPOT_LACKS = "VG345", "a host's depots do not contain the software to install", _E, _D
    BROUGHT_EXPIRED = "VG346", "a token for a guest has expired", _E, _D
    NO_SOURCE = "VG347", "the source of a VM is not specified", _E, _O
    BOARDS_MIXED = "VG348", "one GPU request matches several GPU models", _W, _O

    NETWORK_NOT_FOUND = "VG401", "the network does not exist", _E, _O
    NETWORK_AMBIGUOUS = "VG402", "several networks have this name", _E, _O
    NETWORK_NOT_ON_HOST = "VG403", "no eligible host has the network", _E, _D
    NETWORK_IS_UPLINK = "VG404", "the network is an uplink port group", _E, _D
    NETWORK_KIND = "VG405", "the network type is not supported", _E, _D
    NIC_ABSENT = "VG406", "no host has the requested NIC", _E, _D
    NIC_NOT_READY = "VG407", "the NIC is not in passthrough mode, or has no virtual functions", _E, _D
    NIC_TAKEN = "VG408", "every function on the matching NICs is in use", _E, _D
    NIC_FAR = "VG409", "a VM's NIC is on a different NUMA node than its GPUs", _W, _D
    NIC_HOSTS_OWN = "VG410", "the requested NIC is used by the host itself", _E, _D
    DATASTORE_NOT_FOUND = "VG411", "the datastore does not exist", _E, _O
    DATASTORE_AMBIGUOUS = "VG412", "several datastores have this name", _E, _O
    DATASTORE_NOT_ON_HOST = "VG413", "no eligible host has the datastore", _E, _D
    DATASTORE_SPACE = "VG414", "the datastore may become full", _W, _R
    DATASTORE_INACCESSIBLE = "VG415", "the datastore is not accessible", _E, _D
    NO_DATASTORE = "VG416", "no datastore is specified, and vgpu-cfg cannot select one", _E, _O
    SRIOV_TIES_VM = "VG417", "a virtual function prevents vMotion, HA restarts and live snapshots", _W, _D
    SRIOV_OFF_SWITCH = "VG418", "a virtual function's network is not on its NIC's switch", _W, _R
    PVRDMA_NOT_DISTRIBUTED = "VG419", "a PVRDMA NIC requires a distributed port group", _E, _D
    PVRDMA_UPLINKS = "VG420", "the switch of a PVRDMA NIC must have exactly one uplink", _W, _D
    FOLDER_NOT_FOUND = "VG421", "the VM folder does not exist", _E, _O
    FOLDER_AMBIGUOUS = "VG422", "several VM folders have this name", _E, _O
    POOL_NOT_FOUND = "VG423", "the resource pool does not exist", _E, _O
    POOL_AMBIGUOUS = "VG424", "several resource pools have this name", _E, _O
    CLUSTER_NOT_FOUND = "VG425", "the cluster does not exist", _E, _O
    CLUSTER_AMBIGUOUS = "VG426", "several clusters have this name", _E, _O
    DATACENTER_NOT_FOUND = "VG427", "the datacenter does not exist", _E, _O
    DATACENTER_NOT_NAMED = "VG428", "the plan does not specify which of several datacenters to use", _E, _O
    KEYS_ABSENT = "VG433", "a guest uses the plan's keys, which are not on this machine", _W, _O
    KEYS_FOREIGN = "VG434", "a guest uses keys other than the plan's keys on this machine", _E, _O
    KEYS_NOT_ROTATED = "VG435", "the plan's keys cannot be replaced in the current state", _E, _O
    STAYS_VALID = "VG436", "a replaced secret remains valid until it is revoked", _W, _O
    NICS_IN_ONE_SUBNET = "VG437", "two of a VM's NICs are in one subnet", _W, _D
    SPEEDS_DIFFER = "VG438", "NICs used for the same training have different speeds", _W, _O
    MTUS_DIFFER = "VG439", "NICs on one network have different MTUs", _W, _D
    GUEST_SECRETS_NO_WAY = (
        "VG429",
        "a guest's secrets cannot be delivered without storing them in vCenter",
        _E,
        _O,
    )
    GUEST_SECRETS_EXPOSED = "VG430", "a clone contains secrets in its configuration", _W, _O
    GUEST_SECRETS_MIXED = "VG431", "only some guests in a mesh have exposed secrets", _E, _O
    USER_DATA_READABLE = "VG432", "custom user data is readable in vCenter", _I, _O
    NIC_INFINIBAND = "VG440", "a NIC port is InfiniBand, but Ethernet is required", _E, _D
    DATASTORE_CLUSTER = (
        "VG441",
        "a datastore cluster is specified, and vgpu-cfg chooses a datastore in it",
        _I,
        _D,
    )
    MAC_TAKEN = "VG442", "a running VM outside the plan has the same MAC address", _E, _D

    NO_USABLE_HOST = "VG501", "every host is disconnected or in maintenance mode", _E, _D
    NOT_SHARED_DIRECT = "VG502", "no GPU's graphics type is sharedDirect", _E, _D
    NO_HOST_DRIVER = "VG503", "the GPU is not controlled by the NVIDIA host driver", _E, _D
    NO_SUCH_BOARD = "VG504", "no host in the VM's clusters has a suitable GPU", _E, _D
    RESTART_PENDING = "VG505", "a GPU setting is pending a restart", _W, _D
    HOST_NOT_MATCHED = "VG506", "an entry in `hosts` matches no host", _E, _D
    HOST_TWICE = "VG507", "two entries in `hosts` conflict for the same host", _E, _D
    SETTING_DIFFERS = "VG508", "a check-only host differs from the plan", _W, _O
    SETTING_UNREAD = "VG509", "a setting in the plan could not be read", _E, _O
    CHECK_UNREAD = "VG510", "a setting of a check-only host could not be read", _W, _D
    SETTING_OWNED = "VG511", "the host's settings are managed elsewhere", _E, _D
    HOST_NOT_EMPTIED = "VG512", "a host cannot be emptied", _E, _D
    CLUSTER_TOO_FULL = (
        "VG513",
        "other hosts in the cluster cannot take over a host's VMs",
        _E,
        _R,
    )
    DISRUPTION_NOT_ALLOWED = "VG514", "a change requires a disruption that the plan does not allow", _E, _D
    OUTSIDE_WINDOW = "VG515", "outside the maintenance window", _W, _O
    NIC_IN_USE = "VG516", "a NIC that the host or a VM is using would be reassigned", _E, _D
    NIC_CUT_OFF = "VG517", "a NIC in the plan is used for host traffic", _W, _D
    GPU_SERVES_VGPUS = "VG518", "a GPU that VMs are using would be reassigned", _E, _D
    DRIVERS_DIFFER = "VG519", "the hosts of a cluster run different NVIDIA host drivers", _W, _D
    GPU_DAEMON_ABSENT = "VG520", "the GPU management daemon is not installed", _W, _D
    BIOS_DIFFERS = "VG521", "a required BIOS setting is not confirmed", _W, _D
    GPU_NIC_APART = "VG522", "a NIC is on a NUMA node that has no GPU", _W, _D
    LOCKDOWN = "VG523", "lockdown mode blocks the host's shell", _E, _D
    SHELL_CLOSED = (
        "VG524",
        ("settings can be read only in the host's shell, but the plan file does not allow it"),
        _W,
        _D,
    )
    OTHERS_MAINTENANCE = "VG525", "a host is in maintenance mode, but this plan did not put it there", _W, _D
    HOST_SILENT = "VG526", "a host is not responding", _W, _D
    DEVICE_NOT_MATCHED = "VG527", "a `match` rule matches no device on any host", _E, _D
    NOT_SUPPORTED = "VG528", "the host, board or NIC does not support the setting", _E, _D
    FIRMWARE_IN_GUEST = "VG529", "a passthrough NIC's firmware must be configured in its guest", _W, _D
    SHARING_UNCLEAR = "VG530", "vgpu-cfg cannot decide how the VMs should share GPUs", _E, _D
    STANDS_WAITING = "VG531", "a host is waiting in maintenance mode", _W, _D
    SWITCH_NOT_FOUND = "VG532", "the distributed switch does not exist", _E, _D
    OWN_VMS_OFF = "VG533", "VMs in this plan must be powered off, which is not allowed", _E, _D
    FIRMWARE_UNPROVEN = "VG534", "a NIC's firmware is no longer readable from the host", _I, _D
    MTU_TOO_SMALL = "VG535", "a network's MTU exceeds its switch's MTU", _E, _D
    EXTRA_RESTART = "VG536", "a restart did not activate a setting", _W, _D
    SHELL_LEFT_OPEN = "VG537", "an SSH service started by this plan is still running", _W, _D
    HOST_LOST = "VG538", "VMs in the plan are on a host that is not responding", _W, _D
    KEPT_WITH_ITS_HOST = (
        "VG539",
        "a VM to be deleted, released or imported is on a host that is not responding",
        _W,
        _D,
    )
    HOST_CORDONED = "VG543", "a suitable host for the VM is cordoned", _E, _D
    GPU_CORDONED = "VG544", "ESXi could choose a cordoned GPU", _E, _D
    CORDON_IN_FORCE = "VG545", "a host or GPU in the plan is cordoned", _I, _D
    DRAIN_SWITCHES_OFF = "VG546", "a VM must be powered off, but this is not approved", _E, _O
    DRAIN_OTHERS = "VG547", "a VM outside any plan must be moved, but this is not approved", _E, _O
    DRAIN_STAYS = "VG548", "a VM cannot be moved off its host, or back to it", _E, _O
    DRAIN_UNSURE = "VG549", "a VM may be left without a GPU after it moves", _W, _O
    WINDOW_TOO_SHORT_NOW = "VG553", "not enough time is left in the maintenance window", _W, _R
    WINDOW_TOO_SHORT = "VG554", "a maintenance window is shorter than the required work", _W, _R
    NOT_UNDONE = "VG555", "a rollback could not undo some of the changes", _W, _O
    NOT_UNDONE_ON_PURPOSE = "VG556", "a rollback intentionally left a change in place", _I, _O
    NO_WAY_BACK = "VG557", "a change in the plan cannot be rolled back", _W, _O
    NO_FIRMWARE_TOOLS = "VG558", "a host does not have the tools to configure NIC firmware", _E, _D
    DEVICE_GROUP_ABSENT = "VG559", "no host offers the requested device group", _E, _D
    DEVICE_GROUP_UNLIKE = "VG560", "a device group does not match the plan's requirements", _E, _D
    UNEXPLAINED_MAINTENANCE = (
        "VG550",
        ("a host in the plan is in maintenance mode for an unknown reason"),
        _W,
        _D,
    )
    BOARD_ENDED = "VG561", "the host driver's release no longer supports a board", _W, _F
    BRANCH_ENDED = "VG562", "the host driver's branch has reached its end of life", _I, _D
    DRIVER_WITHOUT_CANARY = "VG563", "several hosts are updated to a new driver without a canary", _I, _O
    BMC_UNNAMED = "VG564", "a host needs a cold boot but, unlike other hosts in its entry, has no BMC", _W, _O
    NOT_PINNED = "VG570", "code that runs as root in a guest is downloaded without a checksum", _E, _O
    NO_IMAGE = "VG571", "the host's cluster has no image that vgpu-cfg can edit", _E, _D
    IMAGE_MANAGED = "VG572", "another product manages the cluster's image", _E, _D
    COMPONENT_LACKS = "VG573", "the depot contains no component for the image", _E, _D
    FROZEN = "VG577", "changes in this vCenter are frozen", _W, _O

    GUEST_NOT_LINUX = "VG601", "a guest to be staged does not run Linux", _E, _D
    GUEST_NO_SYSTEM = "VG602", "a guest to be staged has no operating system yet", _E, _O
    ONLY_CLOUD_INIT = "VG603", "cloud-init is the only way to access a guest", _I, _D
    GUEST_NO_WAY_IN = "VG604", "a guest that cloud-init does not set up cannot be accessed", _E, _O
    GUEST_STAYS_OFF = "VG605", "a VM is powered off, so its guest is not staged", _I, _O
    GUEST_FAILED = "VG606", "an operation failed in a guest", _W, _O
    GUEST_MANUAL_STEP = "VG607", "a guest is waiting for a manual step", _W, _O
    GUEST_LEFTOVERS = "VG608", "a guest has components that the plan no longer requests", _I, _O
    GUEST_NOT_COMPARED = "VG610", "a staged secret could not be compared", _I, _O
    GUEST_DRIVER_BRANCH = "VG611", "the guest driver does not match the GPUs or the host driver", _E, _R
    GUEST_LICENCE_ABSENT = "VG612", "no license is specified for vGPUs", _I, _D
    IMAGE_WITHOUT_HOROVOD = "VG613", "the image does not include Horovod", _W, _R
    ONE_WORKER = "VG614", "a training job has only one worker", _I, _O
    WORKERS_UNEQUAL = "VG615", "workers have different GPUs", _W, _D
    NO_MEETING_NETWORK = "VG616", "workers have no known network path to each other", _E, _O
    HEAD_ABSENT = "VG617", "a training feature requires `training.head`, which is not set", _W, _O
    NO_SHARED_FOLDER = "VG618", "workers do not share a folder", _I, _O
    USER_DATA_CLASHES = "VG619", "`user_data` conflicts with the plan's settings", _E, _D
    GUEST_DISK_SMALL = "VG620", "the system disk may be too small for the image", _W, _R
    GUEST_DRIVER_UNPROVEN = "VG621", "the host may not support the guest driver", _W, _R
    IMAGE_WITHOUT_TORCH = "VG622", "the image does not include PyTorch", _W, _R
    NOT_ELASTIC = "VG623", "the framework does not support elastic training", _E, _O
    ELASTIC_BEYOND = "VG624", "elastic training allows more workers than the plan has", _W, _O
    GUEST_WARNED = "VG627", "a module was installed with a warning", _W, _O
    CUDA_DRIVER_OLD = "VG625", "the guest's driver is too old for the CUDA Toolkit", _E, _D
    CUDA_DRIVER_UNPROVEN = "VG626", "the guest's driver is older than the CUDA Toolkit's driver", _W, _D
    NO_WAY_OUT = "VG628", "a guest has no route to a source of its downloads", _W, _F
    GUEST_DRIVER_UNKNOWN = "VG629", "the guest driver's branch is not documented", _W, _R

    TEMPLATE_NO_TOOLS = "VG636", "vCenter has not detected VMware Tools in the template", _W, _D
    TEMPLATE_HAS_USER_DATA = "VG637", "the template already contains user data", _W, _D
    RDMA_UNPAIRED = "VG630", "a VM does not have one RDMA NIC per GPU", _W, _D
    ATS_INCOMPLETE = "VG631", "the ATS chain is incomplete", _W, _D
    ATS_UNPROVEN = "VG632", "parts of the ATS chain can be checked only in the guest", _I, _D
    PVRDMA_NO_GPUDIRECT = "VG633", "a PVRDMA NIC cannot access GPU memory", _I, _R
    PVRDMA_NO_VMKNIC = "VG634", "the host has no VMkernel NIC for PVRDMA", _W, _D
    PVRDMA_GUEST = "VG635", "the guest OS is not supported for PVRDMA", _E, _D
    IMAGE_TAG = "VG638", "the image's tag does not exist", _W, _R
    POOL_EXHAUSTED = "VG640", "a network's pool has too few addresses", _E, _O
    ADDRESS_TWICE = "VG641", "an address in the plan is assigned twice", _E, _O
    ADDRESS_IN_USE = "VG642", "an address in the plan is already in use", _W, _D
    NICS_ALIKE = "VG643", "a guest cannot distinguish its NICs", _E, _D
    SITE_LEFT = "VG644", "staging would download from outside a closed site", _E, _O
    SITE_MIRROR_UNASKED = "VG645", "docker does not use this registry mirror", _W, _D
    SITE_WITHOUT_PACKAGES = "VG646", "a closed site has no package mirror", _W, _O
    NCCL_NEEDS_UVM = "VG647", "the image's NCCL requires unified memory", _W, _F
    IMAGE_DRIVER_OLD = "VG648", "the guest's driver is too old for the image's CUDA", _W, _D
    CUDA_WITHOUT_BOARD = "VG650", "a CUDA release does not contain code for the GPUs", _W, _R
    RENDEZVOUS_ELSEWHERE = "VG718", "processes do not communicate over the training network", _W, _O

    @property
    def is_relaxable(self) -> bool:
        """Whether a plan file may give it a lower severity."""
        return self.basis in {Basis.RECALLED, Basis.FIELD} and self not in _NOTHING_TO_PLAN


_NOTHING_TO_PLAN = frozenset({Code.PROFILE_UNKNOWN, Code.MIXED_SIZE_NOT_SUPPORTED, Code.UNDECIDED})
"""Findings without which there would still be nothing to plan: no size to reckon with, or no place found."""


def code_of(word: str) -> Code | None:
    """Return the code that a user writes, None where there is none."""
    return Code(word) if word in Code.__members__.values() else None
