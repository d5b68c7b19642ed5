"""A plan file's requests that need no look-up: every VM and guest on its own, and hosts.

Ranges are written out, includes, variables and defaults are merged in, sizes are MiB and each device is
listed separately. Facts of vCenter stay names: templates, clusters, networks. An unstated value is the
built-in default and its key is in `defaulted`; keys that the plan states are in `managed`, and only those are
compared with an existing VM.

Three ways lead to RDMA: a NIC passed through whole, a virtual function of one, and a paravirtual NIC.
Only the first two reach GPU memory (GPUDirect), and only where the ATS chain is whole: `planning.rdma.chain`.
Source: NVIDIA AI Enterprise 5.0 User Guide, chapter 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, field_serializer

from vgpu_cfg.model.choices import Approval
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.plan_file import (
    CudaEntry,
    GpuEntry,
    HostEntry,
    LoginEntry,
    OfedEntry,
    PackageEntry,
    PlaceEntry,
    ProtectEntry,
    SiteEntry,
    TrainingEntry,
    UserEntry,
    VerifyEntry,
)
from vgpu_cfg.model.plan_file.entries import VmOptions
from vgpu_cfg.model.plan_values import DesiredNuma, SecretReference
from vgpu_cfg.model.reservations import Quotas
from vgpu_cfg.model.verdicts import VerdictFile


class TemplateSource(Frozen):
    """Clone this template, by name or inventory path; `linked` shares its disks.

    Of a content library it is the item of that name.
    """

    kind: Literal["template"] = "template"
    path_or_name: str
    linked: bool = False
    library: str | None = None

    def __str__(self) -> str:
        return self.path_or_name if self.library is None else f"{self.library}/{self.path_or_name}"


class ScratchSource(Frozen):
    """Make an empty VM for the guest that vSphere calls `guest_id`."""

    kind: Literal["scratch"] = "scratch"
    guest_id: str


class DesiredFunction(Frozen):
    """The function of a physical NIC that is behind a VM's NIC.

    A whole one ("passthrough") or a virtual one of it ("sriov"): of the NIC at the address `pin`, else of
    any that has the hardware label and the model, part of a name such as "ConnectX-6 Dx". A whole one
    asked for by `label` is a Dynamic DirectPath device. With `near_gpu` it should be of a NUMA node of
    the VM's GPUs; with `must_be_near` it has to be, since the plan file says so.
    """

    kind: Literal["passthrough", "sriov"]
    pin: str | None = None
    label: str | None = None
    model: str | None = None
    near_gpu: bool = False
    must_be_near: bool = False


class DesiredNic(Frozen):
    """One NIC on a network known by name or inventory path; `mac` is lower-case.

    Without a `function` it is a vmxnet3 one, with `is_pvrdma` a paravirtual RDMA one. One that is passed
    through whole may have no network, and vSphere ties it to none: its name only describes its cabling, and
    its `mac` is the address by which the guest knows it. `ip` is "dhcp", "pool" or an address with its prefix
    length, None if the guest gets none. `rdma` asks for RDMA: "gpudirect" from GPU memory, with the whole ATS
    chain, "host" from the guest's memory only.
    """

    network: str | None
    mac: str | None = None
    function: DesiredFunction | None = None
    is_pvrdma: bool = False
    ip: str | None = None
    rdma: Literal["gpudirect", "host"] | None = None


class DesiredDiskGrowth(Frozen):
    """The template's first disk is at least this large."""

    kind: Literal["grow"] = "grow"
    size_mib: int
    storage_policy: str | None = None


class DesiredNewDisk(Frozen):
    """A disk in addition to those of the template, in the order of the plan file."""

    kind: Literal["new"] = "new"
    size_mib: int
    controller: Literal["scsi", "nvme"] = "scsi"
    storage_policy: str | None = None


DesiredDisk = Annotated[DesiredDiskGrowth | DesiredNewDisk, Field(discriminator="kind")]


class DesiredLicence(Frozen):
    """The client configuration token (a secret's name), and the feature type in gridd.conf's numbers."""

    token: str
    feature_type: int = 4


class DesiredGuest(Frozen):
    """The setup of one VM's guest.

    `user_data` is the text of the user's own #cloud-config. `domain` is "" without one. `driver`, `ofed` and
    `runtime` are None if this tool is not to manage them; an unstated package is the template's. `is_exposed`
    allows secrets in the VM's configuration for its first boot. `spec` is the customization specification
    that its host name and addresses are filled into, "" for none.
    """

    by: Literal["cloud-init", "guest-operations", "ssh"] = "cloud-init"
    spec: str = ""
    host_name: str
    domain: str = ""
    login: LoginEntry = LoginEntry()
    users: tuple[UserEntry, ...] = ()
    user_data: str = ""
    licence: DesiredLicence | None = None
    driver: PackageEntry | None = None
    cuda: CudaEntry | None = None
    ofed: OfedEntry | None = None
    runtime: Literal["docker", "containerd", "apptainer"] | None = None
    toolkit_repository: str | None = None
    shared_memory: str = ""
    time: tuple[str, ...] = ()
    wait_seconds: int = 1800
    is_exposed: bool = False

    @property
    def is_staged(self) -> bool:
        """Whether this tool brings anything into it: with `spec` only where a way is stated."""
        return not self.spec or self.by != "cloud-init"


class DesiredSite(SiteEntry):
    """The sources of guests' downloads; `certificates` are those of the files in `ca`, in PEM."""

    certificates: tuple[str, ...] = ()


class DesiredTraining(TrainingEntry):
    """Which VMs train together, and with what.

    `workers` are names of VMs in the order of the plan, all of them; `head` is the name of the VM from which
    training starts where it is none of them. `registry` has its server and password, the bandwidths of
    `traffic` are Mbit/s. Without `keys` this machine keeps the secret from which the plan's keys follow.
    """

    origin: str = ""


class DesiredHosts(HostEntry):
    """One entry of `hosts`, as it holds: `names` have no ranges, and `prepare` is decided.

    `origin` is the place of the entry in its file.
    """

    origin: str = ""


class DesiredPower(StrEnum):
    """The wanted power state of a VM; LEAVE does not touch it."""

    ON = "on"
    OFF = "off"
    LEAVE = "leave"


class DesiredVm(VmOptions):
    """One VM, with its options. If a value is None, the template or vCenter decides.

    source: None if its origin is unknown, as of a VM that is older than its plan file.
    line: the name as written (`hvd-{01..02}`): VMs of one line are spread and shown together.
    gpus: the file's entry once for each GPU, with a `count` of 1. Those with one number in `nvlink` must
        reach each other over NVLink.
    nics, disks: "as in the template" if empty and not managed.
    ignore: keys whose drift is not reported.
    lock: makes `destroy` refuse.
    """

    name: str
    line: str
    source: Annotated[TemplateSource | ScratchSource, Field(discriminator="kind")] | None
    clusters: tuple[str, ...] = ()
    folder: str | None = None
    resource_pool: str | None = None
    datastore: str | None = None
    storage_policy: str | None = None
    cpus: int | None = None
    memory_mib: int | None = None
    gpus: tuple[GpuEntry, ...] = ()
    numa: DesiredNuma = DesiredNuma()
    nics: tuple[DesiredNic, ...] = ()
    disks: tuple[DesiredDisk, ...] = ()
    extra_config: Mapping[str, str] = Field(default_factory=dict)
    place: PlaceEntry = PlaceEntry()
    power: DesiredPower = DesiredPower.ON
    expires: date | None = None
    guest: DesiredGuest | None = None
    ignore: frozenset[str] = frozenset()
    lock: bool = False
    managed: frozenset[str] = frozenset()
    defaulted: frozenset[str] = frozenset()
    origin: str = ""

    @property
    def storage_policies(self) -> frozenset[str]:
        """The names of all storage policies that it speaks of."""
        return frozenset(filter(None, (self.storage_policy, *(disk.storage_policy for disk in self.disks))))

    @property
    def is_linked(self) -> bool:
        """Whether it is a linked clone: it shares the disks of its template."""
        return isinstance(self.source, TemplateSource) and self.source.linked

    def is_expired(self, today: date) -> bool:
        """Whether its last day is over."""
        return self.expires is not None and self.expires < today

    def is_managed(self, key: str) -> bool:
        """Whether the plan file states this key and drift in it is of interest."""
        return key in self.managed and key not in self.ignore

    @field_serializer("ignore", "managed", "defaulted")
    def _in_order(self, keys: frozenset[str]) -> list[str]:
        return sorted(keys)


class DesiredNetwork(Frozen):
    """A network that must exist, whether or not a VM uses it.

    With `switch` it is a portgroup of that distributed switch, and made if it is absent; the switch too, if
    `make_switch` is set. `mtu` is the switch's, and that of the guests' NICs. An `is_physical` one is the
    cabling of passed-through NICs: vSphere knows nothing of it. `pool` holds the first and the last address
    to be given away in `subnet`, both in it.
    """

    name: str
    switch: str | None = None
    make_switch: bool = False
    vlan: int | None = None
    mtu: int | None = None
    is_physical: bool = False
    subnet: str | None = None
    pool: tuple[str, str] | None = None
    gateway: str | None = None
    dns: tuple[str, ...] = ()
    origin: str = ""


class ProtectingContext(Frozen):
    """A context's protection at its vCenter, for any plan.

    `most_deletions` is how many VMs one run may delete there without `--allow-destroy`.
    """

    name: str
    file: str
    protect: ProtectEntry = ProtectEntry()
    most_deletions: int | None = None


def _is_nothing(value: object) -> bool:
    return not value


class DesiredPlan(Frozen):
    """All requests of one plan file to one vCenter.

    id: "" if the plan has none yet.
    id_file: the path of the file that the ID is written to at the first apply, seen from the plan file or
        the saved plan, "" if it is kept already.
    file: the path from a saved plan to its plan file; "" if the plan is not saved.
    vcenter: a context's name, an address or `lab:…`.
    contexts, quotas: the contexts of its vCenter that protect something, and the shares that it must keep
        to. They come from the settings and options of the current user, anew each time, never from a plan.
    moved: former names of VMs, with their present ones.
    verdicts: the verdicts on beliefs at vCenters, from the files next to the plan file.
    downloads: the site's pins of downloads, from the file next to the plan file.
    checks: another severity for findings, by VG code, if the check allows it.
    begins, ends: the plan holds its GPUs between them; it has both or neither.
    allow: approvals.
    unpinned: lets guests fetch files by address without a checksum.
    """

    name: str
    id: str = ""
    id_file: str = ""
    file: str = Field(default="", exclude_if=_is_nothing)
    vcenter: str
    datacenter: str | None = None
    protect: ProtectEntry = ProtectEntry()
    contexts: tuple[ProtectingContext, ...] = ()
    quotas: tuple[Quotas, ...] = ()
    verdicts: tuple[VerdictFile, ...] = Field(default=(), exclude_if=_is_nothing)
    downloads: Mapping[str, str] = Field(default_factory=dict, exclude_if=_is_nothing)
    checks: Mapping[str, Literal["error", "warning", "info"]] = Field(default_factory=dict)
    secrets: Mapping[str, SecretReference] = Field(default_factory=dict)
    hosts: tuple[DesiredHosts, ...] = ()
    networks: tuple[DesiredNetwork, ...] = ()
    vms: tuple[DesiredVm, ...] = ()
    moved: Mapping[str, str] = Field(default_factory=dict)
    site: DesiredSite | None = None
    training: DesiredTraining | None = None
    verify: VerifyEntry | None = None
    begins: datetime | None = Field(default=None, exclude_if=_is_nothing)
    ends: datetime | None = Field(default=None, exclude_if=_is_nothing)
    allow: tuple[Approval, ...] = Field(default=(), exclude_if=_is_nothing)
    unpinned: bool = Field(default=False, exclude_if=_is_nothing)

    @property
    def identity(self) -> PlanIdentity:
        """Return the identity that distinguishes its VMs from other VMs."""
        return PlanIdentity(name=self.name, id=self.id)


RDMA_MTU = 9000
"""The default MTU of a NIC with `rdma`."""

ORDINARY_MTU = 1500
"""The MTU of an Ethernet NIC or switch of which nothing else is known."""

GPUDIRECT = "gpudirect"


def asks_gpudirect(vm: DesiredVm) -> bool:
    """Whether RDMA from GPU memory is asked of a NIC of the VM that can do it."""
    return any(is_gpudirect(nic) for nic in vm.nics)


def asks_rdma(vm: DesiredVm) -> bool:
    """Whether RDMA is asked of any NIC of the VM."""
    return any(nic.rdma is not None for nic in vm.nics)


def is_gpudirect(nic: DesiredNic) -> bool:
    """Whether a NIC is a virtual function that must reach GPU memory."""
    return nic.rdma == GPUDIRECT and nic.function is not None


def with_nearness(desired: DesiredPlan) -> DesiredPlan:
    """Return the plan with each NIC for GPUDirect tied to a NUMA node of the VM's GPUs.

    Unless the plan file requires it, a NIC near the GPU is only preferred. From another node GPUDirect fails
    or runs at half the speed: for its NICs it is a must, unless the plan file says `near: any`.
    """
    if not any(asks_gpudirect(vm) for vm in desired.vms):
        return desired
    return desired.model_copy(update={"vms": tuple(_with_near_nics(vm) for vm in desired.vms)})


def _with_near_nics(vm: DesiredVm) -> DesiredVm:
    if not asks_gpudirect(vm):
        return vm
    return vm.model_copy(update={"nics": tuple(_near(nic) for nic in vm.nics)})


def _near(nic: DesiredNic) -> DesiredNic:
    if not is_gpudirect(nic) or nic.function is None or not nic.function.near_gpu:
        return nic
    function = nic.function.model_copy(update={"must_be_near": True})
    return nic.model_copy(update={"function": function})


def network_of(desired: DesiredPlan, nic: DesiredNic) -> DesiredNetwork | None:
    """Return the entry of a NIC's network in the plan file, or None."""
    if nic.network is None:
        return None
    wanted = nic.network.rstrip("/").casefold()
    exact = [one for one in desired.networks if one.name.rstrip("/").casefold() == wanted]
    last = wanted.rpartition("/")[2]
    alike = [one for one in desired.networks if one.name.rstrip("/").rpartition("/")[2].casefold() == last]
    found = exact or (alike if len(alike) == 1 else [])
    return found[0] if found else None


def mtu_of(nic: DesiredNic, network: DesiredNetwork | None) -> int | None:
    """Return the MTU that a NIC has in its guest: its network's, else what RDMA needs; None leaves it."""
    if network is not None and network.mtu is not None:
        return network.mtu
    return RDMA_MTU if nic.rdma is not None else None


def network_mtu(desired: DesiredPlan, network: DesiredNetwork) -> int | None:
    """Return a network's MTU: the stated one, else that which RDMA over it requires."""
    if network.mtu is not None:
        return network.mtu
    carries = any(
        nic.rdma is not None and network_of(desired, nic) == network for vm in desired.vms for nic in vm.nics
    )
    return RDMA_MTU if carries else None
