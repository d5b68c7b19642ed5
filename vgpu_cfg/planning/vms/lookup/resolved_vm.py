"""One VM of the plan with every name looked up: the input of the rest of planning.

A name is looked up once, here, and reported if it is not there: networks, datastores, storage policies, the
template, which must support the plan's settings as far as vCenter shows before it is cloned.

Belief: policy-of-a-running-gpu-vm, encryption-policy-needs-a-key-provider.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.catalog import Board
from vgpu_cfg.changes.kinds.vm_spec import NicBacking
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.desired import DesiredDiskGrowth, DesiredVm, ScratchSource
from vgpu_cfg.model.guests.guest import REDACTED, USERDATA_KEY
from vgpu_cfg.model.observed.inventory import (
    Cluster,
    Datastore,
    Folder,
    Host,
    Inventory,
    Network,
    StoragePolicy,
)
from vgpu_cfg.model.observed.vm import Vm, VmDetail
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.model.wording import is_at_least, listed
from vgpu_cfg.planning.estate.devices import (
    Layout,
    OwnedDevices,
    OwnedDisks,
    as_detail,
    own_datastores,
    owned_disks,
)
from vgpu_cfg.planning.estate.protection import Covering
from vgpu_cfg.planning.estate.site import Site
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.placement.candidates import forbidden_by
from vgpu_cfg.planning.placement.demand import Shape
from vgpu_cfg.planning.placement.host_state import Fit
from vgpu_cfg.planning.vms.lookup.moving import Moving
from vgpu_cfg.planning.vms.lookup.wanted import (
    DEVICE_GROUPS_SINCE,
    PVRDMA,
    VMXNET3,
    AnyNic,
    DeviceNames,
    WantedFunction,
    WantedNic,
    devices_of,
    effective_gpus,
    going_groups,
    group_key,
    has_wanted_gpus,
    new_groups,
    own_gpus,
)

_MAY_READ = "make sure that the VM's host is connected, and that the account has read access to the VM"

# Belief: guest-tools-state-of-templates.
NO_TOOLS = "guestToolsNotInstalled"
"""vim `VirtualMachineToolsVersionStatus`: VMware Tools were never installed, or never ran."""

_GUEST_ID = re.compile(r"Guest(64)?$")


@dataclass(slots=True)
class ResolvedVm:
    """A desired VM, its source or its present state, and its destination.

    `base` is the basis of its comparison: its own detail if it exists, else its template's.
    `gpus` are its future ones: of a list of profiles only the present one, and its
    own if the plan does not manage them. `has_devices` is whether it has them already, with the
    functions of its NICs, `is_stuck` whether it runs with others and no place was found for the new ones.
    `nics` is None if the plan leaves them to the template. `fit` is set by placement.
    `held_boards` are the boards of the GPUs of a VM that keeps them, or gives them up. `move` is the plan's
    move of a misplaced VM, `possible_move` the possible one, `why_stays` the obstacle
    to it. `choosable` are the addresses of the GPUs that ESXi could choose for its vGPUs at its
    place. `policies` are the storage policies that it names, by the plan file's names for them, and
    `known_policies` all of the vCenter's. `devices` are its NICs and GPUs by owner, None of a new VM; `gpus`
    end with the other owners' ones.
    """

    desired: DesiredVm
    folder: Folder
    clusters: tuple[Cluster, ...]
    base: VmDetail
    existing: Vm | None = None
    template: Vm | None = None
    datastore: Datastore | None = None
    nics: tuple[AnyNic, ...] | None = None
    gpus: tuple[GpuEntry, ...] = ()
    has_devices: bool = False
    cpus: int = 0
    memory_mib: int = 0
    cannot_be_placed: bool = False
    is_stuck: bool = False
    shape: Shape | None = None
    fit: Fit | None = None
    choosable: tuple[str, ...] = ()
    host: Host | None = None
    network_moids: frozenset[str] = field(default_factory=frozenset)
    held_boards: tuple[Board | None, ...] = ()
    move: Moving | None = None
    possible_move: Moving | None = None
    why_stays: str = ""
    policies: Mapping[str, StoragePolicy] = field(default_factory=dict)
    known_policies: tuple[StoragePolicy, ...] = ()
    devices: OwnedDevices | None = None

    @property
    def name(self) -> str:
        """The VM's name."""
        return self.desired.name

    @property
    def disks(self) -> OwnedDisks | None:
        """Whose its disks are, None for a VM that is yet to be made."""
        if self.existing is None:
            return None
        return owned_disks(self.existing, self._layout)

    @property
    def own(self) -> VmDetail:
        """The basis of its comparison, without other owners' devices."""
        return self.base if self.devices is None else self.base.without_devices(self.devices.other_keys)

    @property
    def others(self) -> VmDetail:
        """A VM with only its devices of other owners."""
        return as_detail(self.devices.others if self.devices is not None else ())

    @property
    def asked_gpus(self) -> tuple[GpuEntry, ...]:
        """Its future GPUs, without those of other owners."""
        return self.gpus[: len(self.gpus) - len(own_gpus(self.others))]

    @property
    def _layout(self) -> Layout | None:
        return Layout.of(self.desired, self.template.detail if self.template is not None else None)

    @property
    def own_datastores(self) -> tuple[str, ...]:
        """The datastores that its own files are on."""
        return (
            self.base.datastore_moids
            if self.existing is None
            else own_datastores(self.existing, self._layout)
        )

    @property
    def datastore_moids(self) -> frozenset[str]:
        """The datastores that its host must see: its own, and the template's for a linked clone."""
        own = {self.datastore.moid} if self.datastore else set()
        return frozenset(own | set(self.base.datastore_moids) if self.desired.is_linked else own)

    @property
    def keeps_gpus(self) -> bool:
        """Whether it runs with the GPUs already that it will have."""
        return self.existing is not None and self.existing.is_on and self.has_devices

    @property
    def sheds_gpus(self) -> bool:
        """Whether it has GPUs, and the plan file requests none."""
        has_gpus = bool(self.base.vgpus or self.base.passthrough_gpus)
        is_asked = self.existing is not None and self.desired.is_managed("gpus")
        return is_asked and has_gpus and not self.gpus

    @property
    def kept_devices(self) -> VmDetail | None:
        """The devices that an existing VM may keep, without removed device groups; else None."""
        if self.existing is None:
            return None
        own = self.own
        going = going_groups(self.asked_gpus, own)
        return own.without_groups(going) if going else own

    @property
    def new_groups(self) -> dict[int, str]:
        """The vendors' device groups that it gets, by their keys in a spec (`group_key`)."""
        own = self.own if self.existing is not None else None
        return {group_key(place): name for place, name in new_groups(self.asked_gpus, own).items()}

    @property
    def stays_put(self) -> bool:
        """Whether it runs on with the GPUs that it holds, by vMotion until it has others."""
        leaves = self.move is not None and self.move.changes_host and bool(self.move.why_cold)
        return self.is_stuck or (self.keeps_gpus and not leaves)

    @property
    def changes_host(self) -> bool:
        """Whether the plan moves it to another host."""
        return self.move is not None and self.move.changes_host

    def manages(self, key: str) -> bool:
        """Whether a key of the plan file is compared: all of a new VM, the stated ones of one that exists."""
        return self.existing is None or self.desired.is_managed(key)


@dataclass(frozen=True, slots=True)
class Lookup:
    """The source of names: `silent` does not report errors.

    Of a VM that exists, what only mattered at its creation may have gone. `new_macs` are the fixed MACs of
    virtual NICs that are made, by VM and the NIC's place.
    """

    reporting: Site
    silent: Site
    device_names: DeviceNames
    new_macs: Mapping[tuple[str, int], str] = field(default_factory=dict)


def resolve_vm(
    vm: DesiredVm, folder: Folder | None, existing: Vm | None, lookup: Lookup, findings: Findings
) -> ResolvedVm | None:
    """Look everything up that a VM names; None where too little is there to go on."""
    if existing is not None and folder is not None:
        return _resolve_existing(vm, folder, existing, lookup, findings)
    reporting = lookup.reporting
    template = reporting.template_of(vm)
    clusters = reporting.clusters_of(vm)
    nics, moids = _nics(vm, reporting, lookup.new_macs, is_new=True)
    if vm.nics and nics is None:
        clusters = ()
    is_missing = template is None and not isinstance(vm.source, ScratchSource)
    names = named_policies(vm, is_new=True)
    policies = policies_of(vm, names, reporting, findings)
    datastore = (
        reporting.datastore_of(vm)
        if is_missing
        else _datastore(vm, template, reporting, list(policies.values()), findings)
    )
    if template is not None and template.detail is None:
        message = f"the details of template {template.name} could not be read"
        findings.refuse_vm(Code.NOT_READ, vm, message, _MAY_READ)
        return None
    if folder is not None and vm.source is None:
        where = folder.inventory_path or folder.name
        message = f"the VM is not in {where}, and the plan does not specify a source to create it from"
        remedy = (
            "specify its template, or set {scratch: guest id}; if the VM exists, correct its name or folder"
        )
        findings.refuse_vm(Code.NO_SOURCE, vm, message, remedy)
    if folder is None or is_missing:
        return None
    base = template.detail if template is not None and template.detail is not None else VmDetail()
    resolved = ResolvedVm(vm, folder, clusters, base, template=template, nics=nics, network_moids=moids)
    resolved.gpus = vm.gpus
    resolved.datastore = datastore
    resolved.policies, resolved.known_policies = policies, reporting.observed.vcenter.storage_policies or ()
    if datastore is not None:
        check_datastore(vm, (datastore,), policies, reporting, findings)
    resolved.cpus, resolved.memory_mib = vm.cpus or base.cpus, vm.memory_mib or base.memory_mib
    if template is not None:
        check_template(vm, template, base, findings)
    elif isinstance(vm.source, ScratchSource) and not _GUEST_ID.search(vm.source.guest_id):
        message = f"{vm.source.guest_id!r} is not a vSphere guest ID, which always ends in Guest"
        findings.refuse_vm(Code.GUEST_ID_ODD, vm, message, "example: ubuntu64Guest or rhel9_64Guest")
    elif isinstance(vm.source, ScratchSource) and "64" not in vm.source.guest_id:
        message = f"the guest ID {vm.source.guest_id!r} is not for a 64-bit system, which GPUs require"
        findings.add_vm(Code.GUEST_ID_ODD, vm, message, "example: ubuntu64Guest or rhel9_64Guest")
    if not resolved.cpus or not resolved.memory_mib:
        message = "neither the plan nor the template specifies the VM's CPU count or memory"
        findings.refuse_vm(Code.SIZE_UNKNOWN, vm, message, "set `cpus` and `memory`")
        resolved.cannot_be_placed = True
    resolved.cannot_be_placed |= not clusters or resolved.datastore is None or len(policies) < len(names)
    return resolved


def leave_protected(resolved: ResolvedVm, protected: Mapping[str, Covering], findings: Findings) -> None:
    """Take protected clusters out, by moid; one that the plan file names itself is a contradiction."""
    is_named = bool(resolved.desired.clusters) and resolved.existing is None
    for cluster in resolved.clusters if is_named else ():
        if (covering := protected.get(cluster.moid)) is not None:
            remedy = covering.remedy("specify another cluster", "specify another cluster")
            findings.refuse_vm(Code.PROTECTED, resolved.desired, covering.message, remedy)
    if protected:
        resolved.clusters = tuple(one for one in resolved.clusters if one.moid not in protected)
    resolved.cannot_be_placed |= not resolved.clusters and resolved.existing is None


def _resolve_existing(
    vm: DesiredVm, folder: Folder, existing: Vm, lookup: Lookup, findings: Findings
) -> ResolvedVm | None:
    if existing.detail is None:
        message = "its details could not be read"
        findings.refuse_vm(Code.NOT_READ, vm, message, _MAY_READ)
        return None
    base = existing.detail
    clusters, template = lookup.silent.clusters_of(vm), lookup.silent.template_of(vm)
    resolved = ResolvedVm(vm, folder, clusters, base, existing=existing, template=template)
    if vm.is_managed("nics"):
        resolved.nics, resolved.network_moids = _nics(vm, lookup.reporting, lookup.new_macs, is_new=False)
    _resolve_policies(resolved, lookup.reporting, findings)
    host = lookup.silent.observed.host_by_moid.get(existing.host_moid or "")
    resolved.devices = devices_of(vm, existing, resolved.nics, lookup.device_names, host)
    asked = effective_gpus(vm, resolved.own)
    resolved.gpus = (*asked, *own_gpus(resolved.others))
    has_groups = host is None or is_at_least(host.version, DEVICE_GROUPS_SINCE)
    resolved.has_devices = has_wanted_gpus(
        asked, resolved.own, lookup.device_names, has_device_groups=has_groups
    )
    resolved.cpus = vm.cpus if vm.cpus and vm.is_managed("cpus") else base.cpus
    resolved.memory_mib = vm.memory_mib if vm.memory_mib and vm.is_managed("memory") else base.memory_mib
    return resolved


def _nics(
    vm: DesiredVm, site: Site, new_macs: Mapping[tuple[str, int], str], *, is_new: bool
) -> tuple[tuple[AnyNic, ...] | None, frozenset[str]]:
    """Look the networks up; None if the plan leaves NICs to the template, or if one was not found.

    vSphere does not know the cabling of a NIC that is passed through whole. A NIC that a new VM has from its
    template gets a fixed MAC too.
    """
    if not vm.nics and "nics" not in vm.managed:
        return None, frozenset()
    nics: list[AnyNic] = []
    moids: set[str] = set()
    for index, nic in enumerate(vm.nics):
        called = nic.network or ""
        if nic.function is not None and nic.function.kind == "passthrough":
            is_ethernet = bool(called or nic.ip or nic.rdma)
            nics.append(WantedFunction(nic.function, called=called, is_ethernet=is_ethernet))
            continue
        network = site.network_of(vm, called)
        if network is None:
            continue
        moids.add(network.moid)
        backing = _backing(network)
        new_mac = new_macs.get((vm.name, index)) if nic.mac is None else None
        mac = new_mac if is_new and nic.mac is None else nic.mac
        nics.append(
            WantedNic(backing, mac, PVRDMA if nic.is_pvrdma else VMXNET3, new_mac)
            if nic.function is None
            else WantedFunction(nic.function, backing, mac, called, new_mac)
        )
    return (tuple(nics) if len(nics) == len(vm.nics) else None), frozenset(moids)


def _backing(network: Network) -> NicBacking:
    return NicBacking(
        network_moid=network.moid,
        network_name=network.name,
        portgroup_key=network.portgroup_key,
        switch_uuid=network.switch_uuid,
    )


def _datastore(
    vm: DesiredVm, template: Vm | None, site: Site, policies: Sequence[StoragePolicy], findings: Findings
) -> Datastore | None:
    """Return the named datastore, else the template's, else the only one there is.

    If no datastore is named, only those count that fit the VM's storage policies.
    """
    if vm.datastore is not None:
        return site.datastore_of(vm)
    usable = fitting(policies, site.datastores)
    known = {datastore.moid: datastore for datastore in usable}
    of_template = (
        template.detail.datastore_moids if template is not None and template.detail is not None else ()
    )
    default = next((known[moid] for moid in of_template if moid in known), None)
    if default is None and len(usable) == 1:
        default = usable[0]
    if default is not None:
        site.check_datastore(vm, default, is_new_there=True)
        return default
    if policies and not usable:
        return site.datastores[0] if site.datastores else None
    message = "neither the plan nor the template specifies a datastore"
    remedy = "set `datastore`"
    if policies:
        message = "no datastore is specified, and several are compatible with its storage policy"
        remedy += f", one of {listed((store.name for store in usable), shown=6)}"
    findings.refuse_vm(Code.NO_DATASTORE, vm, message, remedy)
    return None


def check_template(vm: DesiredVm, template: Vm, base: VmDetail, findings: Findings) -> None:
    """Check firmware, tools, left user data and, of a linked clone, the snapshot."""
    if base.firmware.casefold() == "bios" and vm.gpus:
        message = f"the template {template.name} uses BIOS firmware; GPUs require EFI"
        remedy = (
            "use a template whose operating system was installed in EFI mode; changing only the firmware "
            "makes it unbootable"
        )
        findings.refuse_vm(Code.TEMPLATE_IS_BIOS, vm, message, remedy)
    if base.tools_status == NO_TOOLS and vm.guest is not None:
        message = (
            f"vCenter has not detected VMware Tools in the template {template.name}; without them, "
            f"{_without(vm)}"
        )
        remedy = (
            "install open-vm-tools in it; `verify --template` shows whether they are installed but have "
            "never run"
        )
        findings.add_vm(Code.TEMPLATE_NO_TOOLS, vm, message, remedy)
    is_ours = vm.guest is not None and vm.guest.by == "cloud-init" and vm.guest.is_staged
    if base.extra_config.get(USERDATA_KEY, "") not in ("", REDACTED) and not is_ours:
        message = (
            f"the template {template.name} contains user data ({USERDATA_KEY}); clones inherit it, and "
            "cloud-init applies it at first boot"
        )
        remedy = f"clear {USERDATA_KEY} in the template, or add `guest` to replace it"
        findings.add_vm(Code.TEMPLATE_HAS_USER_DATA, vm, message, remedy)
    if vm.is_linked and any(isinstance(disk, DesiredDiskGrowth) for disk in vm.disks):
        message = "a linked clone shares the template's disk, so the disk cannot be extended"
        findings.add_vm(Code.DISK_HAS_SNAPSHOT, vm, message, "set `clone: full`, or remove `grow`")
    if vm.is_linked and base.snapshot_moid is None:
        message = f"the template {template.name} has no snapshot, which a linked clone requires"
        remedy = "convert it to a VM and take a snapshot, or set `clone: full`"
        findings.refuse_vm(Code.TEMPLATE_WITHOUT_SNAPSHOT, vm, message, remedy)


def _without(vm: DesiredVm) -> str:
    """Return the settings that a guest without tools cannot be given."""
    by = vm.guest.by if vm.guest is not None else ""
    if vm.guest is not None and vm.guest.spec:
        return "guest customization does not start"
    if by == "guest-operations":
        return "guest operations do not work, so the guest cannot be staged"
    if by == "ssh":
        return "vCenter does not report the guest's address, so the address must be set in the plan file"
    return "cloud-init cannot access its data, and the guest's address and status are not reported"


def is_elsewhere(resolved: ResolvedVm, observed: Inventory, site: Site) -> bool:
    """Whether the plan file states a place that the VM is not at."""
    if other_datastore(resolved, site) is not None or is_outside_clusters(resolved):
        return True
    host = resolved.host
    if host is None or "place" in resolved.desired.ignore:
        return False
    cluster = observed.cluster_of(host)
    return bool(forbidden_by(resolved.desired.place, host, cluster))


def is_outside_clusters(resolved: ResolvedVm) -> bool:
    """Whether a VM runs in none of the clusters that the plan file names for it."""
    host = resolved.host
    if host is None or not resolved.desired.clusters or not resolved.clusters:
        return False
    return host.owner_moid not in {cluster.moid for cluster in resolved.clusters}


def other_datastore(resolved: ResolvedVm, site: Site) -> Datastore | None:
    """Return the datastore that the plan file states where the VM lies on another, None where it does not."""
    vm, own = resolved.desired, resolved.own_datastores
    if not vm.is_managed("datastore") or not own:
        return None
    found = site.datastore_of(vm, own)
    return None if found is None or found.moid in own else found


_READ = "grant the account Profile-driven storage > View (StorageProfile.View) on the vCenter"


def _resolve_policies(resolved: ResolvedVm, site: Site, findings: Findings) -> None:
    """Look up the storage policies for an existing VM, if they were read."""
    vm, base = resolved.desired, resolved.base
    names = named_policies(vm, is_new=False)
    if not names:
        return
    policies = policies_of(vm, names, site, findings)
    if policies and is_unread(base):
        refuse_unread(vm, findings)
        return
    resolved.policies, resolved.known_policies = policies, site.observed.vcenter.storage_policies or ()
    own = [store for store in site.datastores if store.moid in base.datastore_moids]
    goal = site.datastore_of(vm, base.datastore_moids) if vm.is_managed("datastore") else None
    check_datastore(vm, own if goal is None else (goal,), policies, site, findings)


def named_policies(vm: DesiredVm, *, is_new: bool) -> frozenset[str]:
    """Return the policies that count: of a new VM all that are named, of another the compared ones."""
    if is_new:
        return vm.storage_policies
    found = {vm.storage_policy} if vm.is_managed("storage_policy") else set()
    if vm.is_managed("disks"):
        found |= {disk.storage_policy for disk in vm.disks}
    return frozenset(name for name in found if name)


def policies_of(
    vm: DesiredVm, names: Iterable[str], site: Site, findings: Findings
) -> Mapping[str, StoragePolicy]:
    """Look policies up, by the plan file's names for them; a missing one is a finding."""
    known = site.observed.vcenter.storage_policies
    found: dict[str, StoragePolicy] = {}
    for name in sorted(names):
        if known is None:
            message = (
                f"the storage policy {name!r} cannot be checked because vCenter's policies were not read"
            )
            findings.refuse_vm(Code.STORAGE_POLICY_UNREAD, vm, message, _READ)
            return {}
        same = [one for one in known if one.name == name]
        same = same or [one for one in known if one.name.casefold() == name.casefold()]
        if same:
            found[name] = same[0]
            continue
        remedy = (
            did_you_mean(name, (one.name for one in known), noun="storage policies")
            or "create it in vCenter first"
        )
        message = f"storage policy {name!r} not found"
        findings.refuse_vm(Code.STORAGE_POLICY_NOT_FOUND, vm, message, remedy)
    return found


def fitting(policies: Iterable[StoragePolicy], datastores: Sequence[Datastore]) -> list[Datastore]:
    """Return the datastores that fit all of some policies."""
    chosen = list(policies)
    return [store for store in datastores if all(store.moid in one.datastore_moids for one in chosen)]


def check_datastore(
    vm: DesiredVm,
    stores: Sequence[Datastore],
    policies: Mapping[str, StoragePolicy],
    site: Site,
    findings: Findings,
) -> None:
    """See that the datastores of a VM fit its policies, as vCenter judges it."""
    for policy in policies.values():
        unfit = [store for store in stores if store.moid not in policy.datastore_moids]
        if not unfit:
            continue
        others = fitting(policies.values(), site.datastores)
        message = f"the datastore {unfit[0].name} is not compatible with the storage policy {policy.name!r}"
        all_of_them = listed((repr(name) for name in policies), separator=" and ")
        remedy = f"use another policy; no datastore is compatible with {all_of_them}"
        if others:
            names = listed((store.name for store in others), shown=6)
            remedy = f"set `datastore` to a compatible one: {names}"
        findings.add_vm(Code.DATASTORE_UNFIT, vm, message, remedy)
        return


def is_unread(base: VmDetail) -> bool:
    """Whether a VM's policies are unknown."""
    return base.home_policy is None or any(disk.policy is None for disk in base.disks)


def refuse_unread(vm: DesiredVm, findings: Findings) -> None:
    """Say of a VM that exists that its policies cannot be compared."""
    message = "vCenter does not report its storage policies, so they cannot be compared"
    findings.refuse_vm(Code.STORAGE_POLICY_UNREAD, vm, message, _READ)


_READ += "; recordings contain no storage policies"
