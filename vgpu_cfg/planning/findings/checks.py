"""Every finding that planning can make: its code, its title, how much it weighs, and what that rests on.

Each has a page in docs/reference/checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vgpu_cfg.model.plan.change import Severity
from vgpu_cfg.planning.findings.codes import Code

__all__ = ["CHECKS", "Basis", "Check", "Code"]


class Basis(StrEnum):
    """What a check rests on."""

    VERIFIED = "verified"
    """Read in the vendor's documentation or API, or a plain fact of what was observed."""
    RECALLED = "recalled"
    """Not looked up, derived with a margin, or contradicted by another of the vendor's documents."""
    FIELD = "field"
    """Reported from one environment."""


@dataclass(frozen=True, slots=True)
class Check:
    """What is known of a finding before it is made."""

    code: Code
    title: str
    severity: Severity
    basis: Basis

    @property
    def is_relaxable(self) -> bool:
        """Whether a plan file may give it a lower severity."""
        return self.basis is not Basis.VERIFIED and self.code not in _NOTHING_TO_PLAN


_NOTHING_TO_PLAN = frozenset({Code.PROFILE_UNKNOWN, Code.MIXED_SIZE_NOT_SUPPORTED, Code.UNDECIDED})
"""Findings without which there would still be nothing to plan: no size to reckon with, or no place found."""

_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO
_V, _R, _F = Basis.VERIFIED, Basis.RECALLED, Basis.FIELD

CHECKS: dict[Code, Check] = {
    code: Check(code, title, severity, basis)
    for code, title, severity, basis in (
        (Code.NOT_OURS, "a VM of this name exists and is not this plan's", _E, _V),
        (Code.MARK_DISAGREES, "owner mark, name and folder of a VM disagree", _E, _V),
        (Code.MARK_COPIED, "another VM carries this plan's owner mark", _W, _V),
        (Code.PROTECTED, "the plan file protects what it would write", _E, _V),
        (Code.ORPHAN, "a VM of this plan is not in the plan file", _W, _V),
        (Code.LOCKED, "a locked VM would be deleted", _E, _V),
        (Code.POWER_CYCLE_NOT_ALLOWED, "a change needs a power cycle that is not allowed", _E, _V),
        (Code.CHECK_NOT_RELAXABLE, "`checks` names a finding that cannot be relaxed", _E, _V),
        (Code.SET_AT_CREATION_ONLY, "a key that takes effect at creation only has changed", _W, _V),
        (Code.EXPIRED, "a VM is past its date", _I, _V),
        (Code.NOTHING_SELECTED, "the selection matches nothing in the plan", _E, _V),
        (Code.API_TOO_OLD, "the vCenter's API is too old for what the plan asks", _E, _V),
        (Code.SUSPENDED, "a VM is suspended and cannot be changed", _E, _V),
        (Code.NOT_READ, "a VM of this plan could not be read in detail", _E, _V),
        (Code.STAYS_OFF, "a VM is off and its power state is ignored", _I, _V),
        (Code.PROFILE_UNKNOWN, "no board is known to have this profile", _E, _R),
        (Code.PROFILE_NOT_OFFERED, "no host in the VM's clusters offers the profile", _E, _V),
        (Code.GPU_FULL, "every GPU that could give the profile is full", _E, _V),
        (Code.SAME_SIZE_LOCK, "a GPU in same-size mode runs another size", _E, _V),
        (Code.GPU_NOT_IN_MIG_MODE, "a MIG profile, and no GPU in MIG mode", _E, _V),
        (Code.GPU_IN_MIG_MODE, "a time-sliced profile, and every GPU is in MIG mode", _E, _V),
        (Code.NO_MIG_SLICE, "no MIG slices are free where the profile may start", _E, _V),
        (Code.MIXED_SIZE_NO_ROOM, "no placement is free on a GPU in mixed-size mode", _E, _V),
        (Code.MIXED_SIZE_UNKNOWN, "the mixed-size placements of the board are not published", _W, _R),
        (Code.MIXED_SIZE_NOT_SUPPORTED, "the profile is not supported in mixed-size mode", _E, _R),
        (Code.UNDECIDED, "no placement was found, and none was proven impossible", _E, _R),
        (Code.BOARD_UNKNOWN, "a GPU's board is not in the catalogue", _W, _V),
        (Code.OTHER_SERIES, "a profile that is not of the C series", _I, _V),
        (Code.NOT_AN_ESXI_BOARD, "the board is not supported on ESXi", _E, _R),
        (Code.PROFILE_NEEDS_NEWER_ESXI, "the profile needs a newer ESXi", _E, _V),
        (Code.POWER_ON_ORDER, "they fit, but ESXi may choose GPUs so that one does not start", _E, _R),
        (Code.POWERED_OFF_CLAIM, "a powered-off VM of others would need the same GPUs", _I, _V),
        (Code.HOLDER_UNKNOWN, "a GPU is held by what could not be read", _W, _V),
        (Code.CLASSES_CANNOT_SHARE, "series of one size share a GPU only from 8.0 U2 on", _E, _V),
        (Code.MIXED_BOARDS, "vGPUs of different boards or series in one VM", _E, _V),
        (Code.MULTI_VGPU_NEEDS_FULL, "vSphere 7: several vGPUs must be full-framebuffer C or Q ones", _E, _V),
        (Code.TOO_MANY_VGPUS, "more vGPUs than the hardware version or release allows", _E, _V),
        (Code.MANY_GPU_SERVER, "several GPUs for one VM on a server with more than four", _E, _R),
        (Code.NVSWITCH_PASSTHROUGH, "GPU passthrough on an NVSwitch system", _E, _V),
        (Code.UVM_NEEDS_FULL, "unified memory on a fraction of a GPU that takes turns", _E, _V),
        (Code.UVM_DISABLES_P2P, "unified memory turns NVLink peers off on this board", _W, _V),
        (Code.UVM_NO_MIGRATION, "unified memory turns vMotion off", _I, _V),
        (Code.NOT_CREATABLE_NOW, "vCenter does not list the profile as creatable now", _E, _R),
        (Code.PASSTHROUGH_NOT_ACTIVE, "the device is not in passthrough mode", _E, _V),
        (Code.GPU_IN_PASSTHROUGH, "every GPU that could give the profile is passed through", _E, _V),
        (Code.PASSTHROUGH_ABSENT, "no host has a GPU at this PCI address", _E, _V),
        (Code.PASSTHROUGH_TAKEN, "the device to pass through is in use", _E, _V),
        (Code.LABEL_UNKNOWN, "no device has the label, model or ids", _E, _V),
        (Code.TOO_MANY_PASSTHROUGH, "more passthrough devices than the hardware version allows", _E, _V),
        (Code.PASSTHROUGH_SERVES_VGPUS, "the GPU to pass through serves vGPUs", _E, _V),
        (Code.SYSTEM_ID_UNKNOWN, "the host's system id for fixed passthrough was not read", _E, _V),
        (Code.NVLINK_GROUP_ABSENT, "the host offers no such NVLink device group", _E, _V),
        (Code.NVLINK_GROUP_BROKEN, "no set of NVLink peers is all idle", _E, _R),
        (Code.NVLINK_NEEDS_LINUX, "NVLink peers in a guest that is not Linux", _E, _V),
        (Code.NVLINK_NEEDS_WHOLE, "NVLink peers that do not have all of a GPU", _E, _V),
        (Code.NOT_AN_NVLINK_PEER, "the board's vGPUs cannot be NVLink peers", _E, _V),
        (Code.NVLINK_GROUP_SIZE, "so many GPUs cannot all be NVLink peers", _E, _R),
        (Code.NVSWITCH_NEEDS_NEWER_ESXI, "NVSwitch peers need a newer ESXi", _E, _V),
        (Code.NVLINK_BLACKWELL, "NVLink on HGX B200 and B300 is documented for KVM only", _W, _R),
        (Code.NVLINK_CHOICE_OPEN, "ESXi may choose GPUs that NVLink does not join", _W, _R),
        (Code.NVLINK_MEMBER_ALONE, "a GPU of an NVLink group is used by itself", _I, _F),
        (Code.TEMPLATE_NOT_FOUND, "the template does not exist", _E, _V),
        (Code.TEMPLATE_AMBIGUOUS, "several templates have this name", _E, _V),
        (Code.TEMPLATE_IS_BIOS, "the template boots with BIOS firmware", _E, _V),
        (Code.TEMPLATE_WITHOUT_SNAPSHOT, "a linked clone needs a snapshot", _E, _V),
        (Code.NOT_A_TEMPLATE, "what is to be cloned is a VM, not a template", _W, _V),
        (Code.GUEST_ID_ODD, "the guest id is not one of a 64-bit system", _W, _R),
        (Code.HARDWARE_VERSION, "the hardware version and the host do not go together", _E, _V),
        (Code.COMPUTED_SETTING, "extra_config contradicts what a VM with GPUs needs", _E, _V),
        (Code.MMIO_TOO_SMALL, "the 64-bit MMIO size is below the rule", _W, _V),
        (Code.DISK_SHRINKS, "a disk would have to shrink", _E, _V),
        (Code.DISK_HAS_SNAPSHOT, "a disk of a VM with snapshots would have to grow", _E, _R),
        (Code.FIRMWARE_IS_BIOS, "a VM of this plan boots with BIOS firmware", _E, _V),
        (Code.MANY_CPUS, "more than 128 virtual CPUs beside a vGPU", _W, _F),
        (Code.TOO_MANY_NICS, "more than ten virtual NICs", _E, _V),
        (Code.SIZE_UNKNOWN, "neither plan nor template says how large the VM is", _E, _V),
        (Code.KEY_PROVIDER_ABSENT, "a virtual TPM needs a key provider", _E, _V),
        (Code.OPTION_NEEDS_EFI, "an option needs EFI firmware", _E, _V),
        (Code.LATENCY_NEEDS_CPU, "latency sensitivity high needs more CPU than can be reserved", _E, _V),
        (Code.HOT_ADD, "hot-add beside devices or NUMA nodes that it hides", _W, _V),
        (Code.NAMESAKE, "VMs of another plan bear this plan's name", _E, _V),
        (Code.MARK_WITHOUT_ID, "a VM whose owner mark holds no id would be deleted", _E, _V),
        (Code.RENAMED, "vCenter has another name for a VM of this plan", _W, _V),
        (Code.IN_OTHER_FOLDER, "a VM of this plan is in another folder", _W, _V),
        (Code.NAME_TAKEN, "a VM of this plan cannot have its name or folder", _W, _V),
        (Code.MOVED_AND_THERE, "`moved` names a VM that is there beside its successor", _W, _V),
        (Code.IMPORTED_MAY_NOT_GO, "a VM that was imported would be deleted", _E, _V),
        (Code.NO_LONGER_MANAGED, "a key of a VM has left the plan file", _I, _V),
        (Code.CANNOT_BE_IMPORTED, "a VM cannot become this plan's", _E, _V),
        (Code.KEEPS_OVERRIDES, "a VM that is given up keeps what its cluster does with it", _I, _V),
        (Code.HOST_STILL_MARKED, "a host is under work of the plan whose VMs are given up", _E, _V),
        (Code.HOST_MEMORY, "the host cannot reserve that much memory", _E, _R),
        (Code.NUMA_TOO_SMALL, "the VM is larger than a NUMA node", _E, _R),
        (Code.NUMA_TAKEN, "the NUMA node is used by other VMs", _W, _R),
        (Code.NUMA_UNKNOWN, "the host does not report the NUMA node of its GPUs", _W, _V),
        (Code.SPREAD_IMPOSSIBLE, "too few hosts or GPUs to keep the VMs apart", _E, _V),
        (Code.SPREAD_UNMET, "VMs that should run apart share a host or a NUMA node", _W, _V),
        (Code.NO_HOST_MATCHES, "no host matches `place.hosts`", _E, _V),
        (Code.DRS_MAY_MOVE, "DRS may move a VM away from its NUMA node's GPU", _W, _R),
        (Code.NUMA_ELSEWHERE, "a VM is tied to another NUMA node than its GPU's", _W, _V),
        (Code.FIXED_PASSTHROUGH, "fixed passthrough: no vMotion, HA restart or snapshot while on", _W, _V),
        (Code.SPREAD_GPUS_NOT_PROMISED, "ESXi may put VMs that should run apart on one GPU", _W, _R),
        (Code.ELSEWHERE, "a VM runs where the plan would not put it", _W, _V),
        (Code.RULE_WITHOUT_DRS, "without DRS no rule keeps the VMs where they belong", _I, _R),
        (Code.NUMA_NODE_ABSENT, "no host has the NUMA node that is named", _E, _V),
        (Code.NUMA_UNEVEN, "the CPUs cannot be split evenly over the NUMA nodes", _W, _R),
        (Code.ASSIGNED_NODE_OPEN, "the device that is assigned may be of another NUMA node", _W, _R),
        (Code.HOST_CPUS, "the VM has more CPUs than the host has threads", _E, _V),
        (Code.NODES_DISAGREE, "vCenter and nvidia-smi name different NUMA nodes of a GPU", _W, _V),
        (Code.NVLINK_NOT_SHOWN, "a device group is offered, and nvidia-smi shows no such NVLink", _W, _V),
        (Code.NVLINK_ACROSS_BOARDS, "NVLink joins GPUs that are different boards", _W, _V),
        (Code.GPU_FAR_FROM_NIC, "a VM's GPU and NIC are far apart", _W, _V),
        (Code.ONE_NODE_WOULD_DO, "a VM spans NUMA nodes, and GPUs of one node would do", _I, _R),
        (Code.HOST_GROUP_NOT_FOUND, "the host group does not exist", _E, _V),
        (Code.HOST_GROUP_UNUSABLE, "no host of the host group can be used", _E, _V),
        (Code.HOSTS_EXCLUDED, "`place.not_hosts` leaves no host", _E, _V),
        (Code.HOST_FORBIDDEN, "a VM is on a host that `place` forbids", _W, _V),
        (Code.RULE_OF_OTHERS, "a DRS rule of others forbids a VM its host", _W, _V),
        (Code.SPREAD_NUMA_NOT_PROMISED, "ESXi may put VMs that should run apart on one NUMA node", _W, _R),
        (Code.PACK_UNMET, "VMs that should be together are on several hosts", _I, _V),
        (Code.KEEP_FREE_UNMET, "fewer hosts are free of GPU VMs than should be", _W, _V),
        (Code.ONLY_MAY_STRAND, "a VM that --only leaves out may find no GPU later", _W, _R),
        (Code.OVERRIDE_OF_NO_USE, "an override of the cluster that has no effect there", _W, _V),
        (Code.NO_CLUSTER, "an option of a cluster is asked of a VM outside of any", _E, _V),
        (Code.NOT_MADE_ANEW, "what a VM would be made from anew is not there", _W, _V),
        (Code.ORPHAN_ELSEWHERE, "a VM of this plan left the plan file together with its folder", _W, _V),
        (Code.NO_SOURCE, "nothing says what a VM would be made from", _E, _V),
        (Code.NETWORK_NOT_FOUND, "the network does not exist", _E, _V),
        (Code.NETWORK_AMBIGUOUS, "several networks have this name", _E, _V),
        (Code.NETWORK_NOT_ON_HOST, "no host that could run the VM has the network", _E, _V),
        (Code.NETWORK_IS_UPLINK, "the network is an uplink portgroup", _E, _V),
        (Code.NETWORK_KIND, "the network is of a kind that is not supported", _E, _V),
        (Code.NIC_ABSENT, "no host has the NIC that a VM asks for", _E, _V),
        (Code.NIC_NOT_READY, "the NIC is not passed through, or has no virtual functions", _E, _V),
        (Code.NIC_TAKEN, "every function of the NICs that would do is in use", _E, _V),
        (Code.NIC_FAR, "a VM's NIC is on another NUMA node than its GPUs", _W, _V),
        (Code.NIC_HOSTS_OWN, "the NIC that a VM asks for is the host's own", _E, _V),
        (Code.DATASTORE_NOT_FOUND, "the datastore does not exist", _E, _V),
        (Code.DATASTORE_AMBIGUOUS, "several datastores have this name", _E, _V),
        (Code.DATASTORE_NOT_ON_HOST, "no host that could run the VM has the datastore", _E, _V),
        (Code.DATASTORE_SPACE, "the datastore may run full", _W, _R),
        (Code.DATASTORE_INACCESSIBLE, "the datastore is not accessible", _E, _V),
        (Code.NO_DATASTORE, "no datastore is named, and none follows", _E, _V),
        (Code.SRIOV_TIES_VM, "a virtual function: no vMotion, HA restart or snapshot while on", _W, _V),
        (Code.SRIOV_OFF_SWITCH, "a virtual function's network is not on its NIC's switch", _W, _R),
        (Code.PVRDMA_NOT_DISTRIBUTED, "a PVRDMA NIC needs a distributed portgroup", _E, _V),
        (Code.PVRDMA_UPLINKS, "the switch of a PVRDMA NIC has not one uplink alone", _W, _V),
        (Code.FOLDER_NOT_FOUND, "the VM folder does not exist", _E, _V),
        (Code.FOLDER_AMBIGUOUS, "several VM folders have this name", _E, _V),
        (Code.POOL_NOT_FOUND, "the resource pool does not exist", _E, _V),
        (Code.POOL_AMBIGUOUS, "several resource pools have this name", _E, _V),
        (Code.CLUSTER_NOT_FOUND, "the cluster does not exist", _E, _V),
        (Code.CLUSTER_AMBIGUOUS, "several clusters have this name", _E, _V),
        (Code.DATACENTER_NOT_FOUND, "the datacenter does not exist", _E, _V),
        (Code.DATACENTER_NOT_NAMED, "there are several datacenters and none is named", _E, _V),
        (Code.NO_USABLE_HOST, "no host is connected and out of maintenance mode", _E, _V),
        (Code.NOT_SHARED_DIRECT, "no GPU's graphics type is sharedDirect", _E, _V),
        (Code.NO_HOST_DRIVER, "the NVIDIA host driver does not serve the GPU", _E, _V),
        (Code.NO_SUCH_BOARD, "no host in the VM's clusters has a GPU for this", _E, _V),
        (Code.RESTART_PENDING, "a GPU's setting waits for a restart", _W, _V),
        (Code.HOST_NOT_MATCHED, "an entry of `hosts` matches no host", _E, _V),
        (Code.HOST_TWICE, "two entries of `hosts` ask different things of one host", _E, _V),
        (Code.SETTING_DIFFERS, "a host that is only checked differs from the plan", _W, _V),
        (Code.SETTING_UNREAD, "a setting that the plan names could not be read", _E, _V),
        (Code.CHECK_UNREAD, "a setting of a host that is only checked could not be read", _W, _V),
        (Code.SETTING_OWNED, "somebody else owns the host's settings", _E, _V),
        (Code.HOST_NOT_EMPTIED, "a host cannot be emptied", _E, _V),
        (Code.CLUSTER_TOO_FULL, "the rest of the cluster cannot carry what runs on a host", _E, _R),
        (Code.DISRUPTION_NOT_ALLOWED, "a change needs a disruption that the plan does not allow", _E, _V),
        (Code.OUTSIDE_WINDOW, "it is outside the maintenance window", _W, _V),
        (Code.NIC_IN_USE, "a NIC would be taken from the host or from a VM", _E, _V),
        (Code.NIC_CUT_OFF, "a NIC that the plan names carries traffic of the host", _W, _V),
        (Code.GPU_SERVES_VGPUS, "a GPU would be taken from the VMs that use it", _E, _V),
        (Code.DRIVERS_DIFFER, "the hosts of a cluster run different NVIDIA host drivers", _W, _V),
        (Code.GPU_DAEMON_ABSENT, "the GPU management daemon is not installed", _W, _V),
        (Code.BIOS_DIFFERS, "the BIOS does not show what the plan needs", _W, _V),
        (Code.GPU_NIC_APART, "a NIC is on another NUMA node than every GPU", _W, _V),
        (Code.LOCKDOWN, "lockdown mode keeps the host's shell closed", _E, _V),
        (Code.SHELL_CLOSED, "the plan file keeps the host's shell closed, and only it could tell", _W, _V),
        (Code.OTHERS_MAINTENANCE, "a host is in maintenance mode, and not by this plan", _W, _V),
        (Code.HOST_SILENT, "a host does not answer", _W, _V),
        (Code.DEVICE_NOT_MATCHED, "a `match` fits no device of any host", _E, _V),
        (Code.NOT_SUPPORTED, "the host, board or NIC does not have the setting", _E, _V),
        (
            Code.FIRMWARE_IN_GUEST,
            "a passed-through NIC's firmware is set inside its guest",
            _W,
            _V,
        ),
        (Code.SHARING_UNCLEAR, "how GPUs shall be shared for the VMs is not clear", _E, _V),
        (Code.STANDS_WAITING, "a host stands in maintenance mode and waits", _W, _V),
        (Code.SWITCH_NOT_FOUND, "the distributed switch does not exist", _E, _V),
        (Code.OWN_VMS_OFF, "VMs of this plan must be switched off, which is not allowed", _E, _V),
        (Code.FIRMWARE_UNPROVEN, "a NIC's firmware can no longer be read on the host", _I, _V),
        (Code.MTU_TOO_SMALL, "a network's MTU is above its switch's", _E, _V),
        (Code.EXTRA_RESTART, "a restart that was to bring a setting did not", _W, _V),
        (Code.SHELL_LEFT_OPEN, "an SSH service that this plan started still runs", _W, _V),
        (Code.HOST_LOST, "VMs of the plan are on a host that does not respond", _W, _V),
        (
            Code.KEPT_WITH_ITS_HOST,
            "a VM to be deleted, given up or taken in is on a host that does not respond",
            _W,
            _V,
        ),
        (Code.HOST_CORDONED, "a host that would take the VM is cordoned", _E, _V),
        (Code.GPU_CORDONED, "ESXi could choose a GPU that is cordoned", _E, _V),
        (Code.CORDON_IN_FORCE, "a host of the plan, or a GPU of it, is cordoned", _I, _V),
        (Code.DRAIN_SWITCHES_OFF, "a VM must be switched off, and nobody gave leave", _E, _V),
        (Code.DRAIN_OTHERS, "a VM of no plan must be moved, and nobody gave leave", _E, _V),
        (Code.DRAIN_STAYS, "a VM cannot leave its host, or not go back to it", _E, _V),
        (Code.DRAIN_UNSURE, "a VM that moves may find no GPU", _W, _V),
        (Code.GUEST_NOT_LINUX, "a guest to be staged is no Linux", _E, _V),
        (Code.GUEST_NO_SYSTEM, "a guest to be staged has no system yet", _E, _V),
        (Code.ONLY_CLOUD_INIT, "cloud-init is the only way into a guest", _I, _V),
        (Code.GUEST_NO_WAY_IN, "there is no way into a guest that cloud-init does not set up", _E, _V),
        (Code.GUEST_STAYS_OFF, "a VM is off, so its guest is not staged", _I, _V),
        (Code.GUEST_FAILED, "something failed in a guest", _W, _V),
        (Code.GUEST_MANUAL_STEP, "a guest waits for a manual step", _W, _V),
        (Code.GUEST_LEFTOVERS, "a guest has what the plan does not ask for any more", _I, _V),
        (Code.GUEST_KEYS_LOST, "a guest was staged with other keys than the plan has", _W, _V),
        (Code.GUEST_NOT_COMPARED, "a secret that was staged could not be compared", _I, _V),
        (Code.GUEST_DRIVER_BRANCH, "the guest's driver does not fit its host's", _E, _R),
        (Code.GUEST_LICENCE_ABSENT, "no licence is named for vGPUs", _I, _V),
        (Code.IMAGE_WITHOUT_HOROVOD, "the image is one that comes without Horovod", _W, _R),
        (Code.ONE_WORKER, "a training has one worker", _I, _V),
        (Code.WORKERS_UNEQUAL, "workers have unequal GPUs", _W, _V),
        (Code.NO_MEETING_NETWORK, "workers have no way to each other that the plan knows", _E, _V),
        (Code.HEAD_ABSENT, "what is asked of a head has none", _W, _V),
        (Code.NO_SHARED_FOLDER, "workers share no folder", _I, _V),
        (Code.USER_DATA_CLASHES, "`user_data` sets what the plan decides otherwise", _E, _V),
        (Code.GUEST_DISK_SMALL, "the system disk may be too small for the image", _W, _R),
        (Code.GUEST_DRIVER_UNPROVEN, "nobody has said that the host takes the guest's driver", _W, _R),
        (Code.RDMA_UNPAIRED, "a VM has not one RDMA NIC for each GPU", _W, _V),
        (Code.ATS_INCOMPLETE, "the ATS chain is incomplete", _W, _V),
        (Code.ATS_UNPROVEN, "parts of the ATS chain can only be proven in the guest", _I, _V),
        (Code.PVRDMA_NO_GPUDIRECT, "a PVRDMA NIC does not reach GPU memory", _I, _R),
        (Code.PVRDMA_NO_VMKNIC, "the host has no VMkernel NIC for PVRDMA", _W, _V),
        (Code.PVRDMA_GUEST, "the guest is none that PVRDMA is supported for", _E, _V),
        (Code.POOL_EXHAUSTED, "a network's pool has too few addresses", _E, _V),
        (Code.ADDRESS_TWICE, "an address of the plan is given twice", _E, _V),
        (Code.ADDRESS_IN_USE, "somebody else uses an address of the plan", _W, _V),
        (Code.NICS_ALIKE, "a guest cannot tell its NICs apart", _E, _V),
    )
}


def check_of(code: str) -> Check | None:
    """Return the check with a code as a user writes it, None where there is none."""
    return CHECKS[Code(code)] if code in Code.__members__.values() else None
