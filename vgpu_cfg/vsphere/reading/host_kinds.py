"""API answers that exist per host only, read once per kind of host.

Hosts of one ESXi build with the same boards under the same driver give the same answers, so one of them is
asked for all. The driver itself shows in no bulk property; the names and memory it gives the GPUs identify
it. Questions are skipped if the answer could not matter (`Spared`).

DirectPath profiles (DirectPathProfileManager of the vSphere API 9.0.0.0) are asked of each host: `consumed`
and `remaining` are of powered-on VMs, `unusedReservation` are units that are reserved and not assigned to any
powered-on VM. No vCenter that has such profiles was seen.

Whether a GPU is cut by MIG is shown by `vgpuMode` from API 8.0.3.0 on. Before, these show it, in this order:
the profiles that run on the GPU; the profiles that the host could now create on its board; all profiles that
its driver knows for the board. If these name both kinds, nothing is concluded.

Belief: same-build-same-profiles, vgpus-for-each-hardware-version, group-nic-component-type, group-nic-names,
passthrough-reports-system-id, directpath-capacity.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, TypeVar

from pyVmomi import vim, vmodl

from vgpu_cfg.catalog import Board, load_catalog
from vgpu_cfg.errors import NotRecorded
from vgpu_cfg.model.observed.inventory import (
    Connection,
    DeviceGroupInfo,
    DirectPathCapacity,
    Gpu,
    GroupPart,
    Host,
    PciDevice,
    ProfileInfo,
)
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.vgpu import Sharing, VgpuProfile
from vgpu_cfg.vsphere.reading.vms import dvx, hardware_version, nics, passthroughs, vgpus
from vgpu_cfg.vsphere.wire.collector import Item
from vgpu_cfg.vsphere.wire.faults import is_host_silent, is_not_offered, to_error
from vgpu_cfg.vsphere.wire.session import Session


def board_of(device: PciDevice) -> Board | None:
    """Return the board of a PCI function, None if the catalog lacks it."""
    return load_catalog().of_device(device)


def prefixes_of(device: PciDevice) -> tuple[str, ...]:
    """Return the prefixes of a board's profile names; none if the catalog lacks it."""
    board = board_of(device)
    return () if board is None else board.prefixes


def infer_sharing(host: Host, vms: Mapping[str, Vm]) -> Host:
    """Fill in the sharing of the host's GPUs, if known."""
    if all(gpu.sharing is not None for gpu in host.gpus):
        return host
    gpus = tuple(
        gpu if gpu.sharing is not None else gpu.model_copy(update={"sharing": _infer(host, gpu, vms)})
        for gpu in host.gpus
    )
    return host.model_copy(update={"gpus": gpus})


def _infer(host: Host, gpu: Gpu, vms: Mapping[str, Vm]) -> Sharing | None:
    if gpu.is_passthrough:
        return None
    own = prefixes_of(gpu.pci)
    if not own and len({other.pci.device_id for other in host.gpus}) > 1:
        return None
    running = (
        device.profile
        for moid in gpu.vm_moids
        if moid in vms and (detail := vms[moid].detail) is not None
        for device in detail.vgpus
    )
    known = (info.name for info in host.profiles or ())
    for names in (running, host.creatable_profiles, known):
        found = _sharings(names, own)
        if found:
            return found.pop() if len(found) == 1 else None
    return None


def _sharings(names: Iterable[str], prefixes: tuple[str, ...]) -> set[Sharing]:
    """Collect how the profiles of a board share; without prefixes, of any board."""
    found = set()
    for name in names:
        try:
            profile = VgpuProfile.parse(name)
        except ValueError:
            continue
        if not prefixes or profile.prefix in prefixes:
            found.add(profile.sharing)
    return found


PROFILE_INFO_API = "7.0.3.0"
DEVICE_GROUP_API = "8.0.0.1"
ANY_GUEST = "other3xLinux64Guest"
"""Config options list every guest unless one is named; the devices are the same for all."""

_SHARING: Mapping[str, Sharing] = {"timeSliced": Sharing.TIME_SLICED, "mig": Sharing.MIG}

_GRAPHICS = "configManager.graphicsManager"
_ASSIGNABLE = "configManager.assignableHardwareManager"

Answer = TypeVar("Answer")
Kind = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class KindFacts:
    """The answers that all hosts of one kind share; `profiles` is None if the API is too old."""

    profiles: tuple[ProfileInfo, ...] | None = None
    device_groups: tuple[DeviceGroupInfo, ...] = ()
    max_vgpus_by_hardware_version: Mapping[int, int] = field(default_factory=dict)


def kind_of(host: Host) -> Kind:
    """Return what makes two hosts answer alike: build, boards, driver, and which GPUs are cut by MIG."""
    gpus = sorted(
        (
            gpu.pci.vendor_id,
            gpu.pci.device_id,
            gpu.pci.subdevice_id,
            gpu.name,
            gpu.memory_mib,
            str(gpu.sharing),
        )
        for gpu in host.gpus
    )
    offers_mig = any(sharing_of(profile) is Sharing.MIG for profile in host.creatable_profiles)
    return (host.version, host.build, host.max_hardware_version, offers_mig, tuple(gpus))


@lru_cache(1024)
def sharing_of(profile: str) -> Sharing | None:
    """Return how a profile shares its GPU, None for a name that does not parse."""
    try:
        return VgpuProfile.parse(profile).sharing
    except ValueError:
        return None


@dataclass(slots=True)
class KnownKinds:
    """A session's answers for builds and kinds of hosts, which are not asked again."""

    newest: dict[Kind, int] = field(default_factory=dict)
    limits: dict[Kind, Mapping[int, int]] = field(default_factory=dict)
    kinds: dict[Kind, KindFacts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spared:
    """The questions that a kind can skip: its `profiles`, unless they are None, and its device groups.

    If only the content and free room of GPUs are shown, a profile that no host of a kind lists as startable
    has room on none of them, and what runs is known. Doubtful cases are asked: boards without such a profile,
    GPUs whose board or whose sharing is not known. Device groups are asked if a GPU of a baseboard with
    NVSwitches may have lost its peers; for others they show that there may be a bridge, and not between which
    GPUs.
    """

    profiles: tuple[ProfileInfo, ...] | None = None
    device_groups: bool = False


def spared_of(alike: Sequence[Host], vms: Mapping[str, Sequence[Vm]]) -> Spared:
    """Say what need not be asked of hosts of one kind; `vms` are those that run, by their host's moid."""
    if any(board_of(gpu.pci) is None for host in alike for gpu in host.gpus):
        return Spared()
    return Spared(
        _listed(alike, vms),
        device_groups=not any(_may_lack_peers(host, vms.get(host.moid, ())) for host in alike),
    )


def _listed(alike: Sequence[Host], vms: Mapping[str, Sequence[Vm]]) -> tuple[ProfileInfo, ...] | None:
    """Return the profiles that hosts list as startable, and those that run; None where that leaves doubts."""
    names: dict[str, None] = {}
    shared: list[PciDevice] = []
    for host in alike:
        here = {vm.moid: vm for vm in vms.get(host.moid, ())}
        details = [vm.detail for vm in here.values() if vm.detail is not None]
        names.update(dict.fromkeys(host.creatable_profiles))
        names.update((device.profile, None) for detail in details for device in detail.vgpus)
        gpus = [gpu for gpu in infer_sharing(host, here).gpus if not gpu.is_passthrough]
        if any(gpu.sharing is None for gpu in gpus):
            return None
        shared += (gpu.pci for gpu in gpus)
    told = {prefix for name in names if (prefix := _prefix(name))}
    if any(told.isdisjoint(prefixes_of(pci)) for pci in shared):
        return None
    return tuple(ProfileInfo(name=name) for name in names)


def _prefix(profile: str) -> str:
    try:
        return VgpuProfile.parse(profile).prefix
    except ValueError:
        return ""


def _may_lack_peers(host: Host, vms: Sequence[Vm]) -> bool:
    """Whether a GPU that NVSwitches join to others is idle, and others of its host may not be."""
    boards = [board for gpu in host.gpus if not gpu.vm_moids and (board := board_of(gpu.pci)) is not None]
    return (
        len(host.gpus) > 1
        and any(board.is_nvswitch for board in boards)
        and (any(gpu.vm_moids for gpu in host.gpus) or any(vm.detail and vm.detail.vgpus for vm in vms))
    )


def managers_of(item: Item) -> Item:
    """Return of a host's properties those by which its kind is asked, so that the others need not be kept."""
    values = {path: item.values[path] for path in (_GRAPHICS, _ASSIGNABLE) if path in item.values}
    return Item(item.type_name, item.moid, values)


def read_max_hardware_versions(
    session: Session, computes: Mapping[str, Item], hosts: Sequence[Host], known: KnownKinds
) -> dict[str, int]:
    """Return the newest hardware version of each host: one round trip per ESXi build that is not known.

    A host's build decides it. As many clusters of hosts are asked as have all builds, some at once, and more
    if an answer is incomplete; `computes` are their properties by moid.
    """
    by_host: dict[str, int] = {}
    by_build = known.newest
    left: dict[str, list[Host]] = defaultdict(list)
    for host in hosts:
        left[host.compute_moid].append(host)
    browsers = {moid: _browser(session, computes.get(moid)) for moid in left}
    while asked := _with_all_builds(
        {moid: theirs for moid, theirs in left.items() if browsers[moid] is not None}, by_build
    ):
        for _, told in session.each(lambda moid: _newest(browsers[moid], moid), asked):
            by_host |= told
        for moid in asked:
            by_build |= {
                _build(host): by_host[host.moid]
                for host in left.pop(moid)
                if host.build and host.moid in by_host
            }
    found = {host.moid: by_host.get(host.moid, by_build.get(_build(host))) for host in hosts}
    return {moid: version for moid, version in found.items() if version is not None}


def _with_all_builds(clusters: Mapping[str, Iterable[Host]], known: Iterable[Kind]) -> list[str]:
    """Return clusters that have between them all builds that are not known."""
    builds, found = {*known}, list[str]()
    for moid, hosts in clusters.items():
        theirs = {_build(host) for host in hosts}
        if not theirs <= builds:
            found.append(moid)
            builds |= theirs
    return found


def _build(host: Host) -> Kind:
    return host.version, host.build


def _newest(browser: Any, compute: str) -> dict[str, int]:
    """Return the newest hardware version of each host of a cluster."""
    newest: dict[str, int] = {}
    for descriptor in _asked(browser.QueryConfigOptionDescriptor, "reading hardware versions", compute) or ():
        version = hardware_version(descriptor.key)
        if version is None or descriptor.createSupported is False:
            continue
        for host in descriptor.host or ():
            moid = str(host._moId)
            newest[moid] = max(version, newest.get(moid, 0))
    return newest


def read_kinds(
    session: Session,
    hosts: Sequence[Host],
    items: Mapping[str, Item],
    computes: Mapping[str, Item],
    known: KnownKinds,
    spare: Callable[[Sequence[Host]], Spared] = lambda _alike: Spared(),
    *,
    with_limits: bool = True,
) -> dict[str, KindFacts]:
    """Return, by host, what its kind has in common; `items` and `computes` are properties by moid.

    Two round trips per kind and, `with_limits`, one per ESXi build for how many vGPUs a VM may have, unless
    they are known; some kinds and builds at once. Disconnected hosts are not queried; they get the
    answers of other hosts of their kind. `spare` lists the questions that hosts of a kind need not
    answer; if it spares any, the answers are not kept.
    """
    kinds: dict[Kind, list[Host]] = defaultdict(list)
    builds: dict[Kind, list[Host]] = defaultdict(list)
    for host in hosts:
        kinds[kind_of(host)].append(host)
        if with_limits and _offer(host) not in known.limits:
            builds[_offer(host)].append(host)
    found = {kind: known.kinds[kind] for kind in kinds if kind in known.kinds}

    def ask_limit(build: Kind, alike: Sequence[Host]) -> None:
        told = _first_told(alike, lambda host: _max_vgpus(session, host, computes.get(host.compute_moid)))
        if told is not None:
            known.limits[build] = told

    def ask_kind(kind: Kind, alike: Sequence[Host]) -> None:
        spared = spare(alike)
        told = _first_told(alike, lambda host: _kind_facts(session, items[host.moid], spared))
        if told is None:
            return
        found[kind] = told
        if spared == Spared():
            known.kinds[kind] = told

    asked = [partial(ask_limit, build, alike) for build, alike in builds.items()]
    asked += [partial(ask_kind, kind, alike) for kind, alike in kinds.items() if kind not in found]
    session.together(asked)
    facts: dict[str, KindFacts] = {}
    for kind, alike in kinds.items():
        told = KindFacts()
        if kind in found:
            limits = known.limits.get(_offer(alike[0]), {})
            told = replace(found[kind], max_vgpus_by_hardware_version=limits)
        facts.update((host.moid, told) for host in alike)
    return facts


def _first_told(alike: Iterable[Host], ask: Callable[[Host], Answer]) -> Answer | None:
    """Return the answer of the first connected host that gives one, None if none does."""
    for host in alike:
        if host.connection is not Connection.CONNECTED:
            continue
        try:
            return ask(host)
        except vmodl.MethodFault as fault:
            if not is_host_silent(fault):
                raise to_error(fault, "reading host capabilities", host.inventory_path) from fault
    return None


def _kind_facts(session: Session, item: Item, spared: Spared) -> KindFacts:
    profiles = _profiles(session, item, spared.profiles)
    return KindFacts(profiles, () if spared.device_groups else _device_groups(session, item))


def _offer(host: Host) -> Kind:
    """Return what decides how many vGPUs a VM may have on a host."""
    return host.version, host.build, host.max_hardware_version


def read_system_ids(session: Session, hosts: Sequence[Host], computes: Mapping[str, Item]) -> dict[str, str]:
    """Return the system id of each host, which a fixed passthrough device must name."""
    browsers = {host.moid: _browser(session, computes.get(host.compute_moid)) for host in hosts}
    asked = [
        host for host in hosts if browsers[host.moid] is not None and host.connection is Connection.CONNECTED
    ]

    def target_of(host: Host) -> Any:
        browser, subject = browsers[host.moid], vim.HostSystem(host.moid, session.stub)
        return _asked(lambda: browser.QueryConfigTarget(subject), "reading devices", host.inventory_path)

    ids = {host.moid: system_id_of(target) for host, target in session.each(target_of, asked)}
    return {moid: system_id for moid, system_id in ids.items() if system_id}


_LISTS = ("pciPassthrough", "sriov")


def system_id_of(target: Any) -> str:
    """Return the system id that a `ConfigTarget` names, "" where it names none.

    Every entry of `pciPassthrough`, the functions that are handed out, and of `sriov`, the NICs that can have
    virtual functions, names it; a recorded host has it in the second list before anything is handed out.
    """
    entries = (entry for name in _LISTS for entry in getattr(target, name, None) or ())
    return next((str(entry.systemId) for entry in entries if getattr(entry, "systemId", None)), "")


def _profiles(
    session: Session, item: Item, known: tuple[ProfileInfo, ...] | None
) -> tuple[ProfileInfo, ...] | None:
    manager = _object(session, item, _GRAPHICS, vim.host.GraphicsManager)
    if manager is None or not session.speaks(PROFILE_INFO_API):
        return None
    if known is not None:
        return known
    # Belief: no-driver-no-fault.
    answer = _offered(manager.RetrieveVgpuProfileInfo)
    if answer is None:
        return None
    # Belief: vmotion-cost-units.
    return tuple(
        ProfileInfo(
            name=entry.profileName,
            sharing=_SHARING.get(str(entry.profileSharing)),
            stun_ms={
                one.migrationBW: one.stunTime for one in getattr(entry, "stunTimeEstimates", None) or ()
            },
        )
        for entry in answer
    )


def _device_groups(session: Session, item: Item) -> tuple[DeviceGroupInfo, ...]:
    manager = _object(session, item, _ASSIGNABLE, vim.host.AssignableHardwareManager)
    if manager is None or not session.speaks(DEVICE_GROUP_API):
        return ()
    return tuple(make_group(group) for group in _offered(manager.RetrieveVendorDeviceGroupInfo) or ())


def _max_vgpus(session: Session, host: Host, compute: Item | None) -> Mapping[int, int]:
    browser = _browser(session, compute)
    if browser is None or host.max_hardware_version is None:
        return {}
    question = vim.EnvironmentBrowser.ConfigOptionQuerySpec(
        key=f"vmx-{host.max_hardware_version}",
        host=vim.HostSystem(host.moid, session.stub),
        guestId=[ANY_GUEST],
    )
    options = _offered(lambda: browser.QueryConfigOptionEx(question))
    passthrough = vim.vm.device.VirtualPCIPassthroughOption
    for device in getattr(getattr(options, "hardwareOptions", None), "virtualDeviceOption", None) or ():
        for backing in device.backingOption or () if isinstance(device, passthrough) else ():
            if isinstance(backing, passthrough.VmiopBackingOption):
                return {host.max_hardware_version: backing.maxInstances}
    return {}


def _browser(session: Session, compute: Item | None) -> Any:
    return (
        None if compute is None else _object(session, compute, "environmentBrowser", vim.EnvironmentBrowser)
    )


def _object(session: Session, item: Item, path: str, kind: Any) -> Any:
    """Return the object that a property refers to, ready for calls; None if it refers to nothing."""
    moid = item.moid_of(path)
    return None if moid is None else kind(moid, session.stub)


def _offered(call: Callable[[], Answer]) -> Answer | None:
    """Return a call's answer, None where the server does not offer the call."""
    try:
        return call()
    except vmodl.MethodFault as fault:
        if is_not_offered(fault):
            return None
        raise


def _asked(call: Callable[[], Answer], what: str, subject: str) -> Answer | None:
    """Return a call's answer, None where it is not offered or the host is silent; else raise VCenterError."""
    try:
        return _offered(call)
    except vmodl.MethodFault as fault:
        if is_host_silent(fault):
            return None
        raise to_error(fault, what, subject) from fault


def make_group(info: Any) -> DeviceGroupInfo:
    """Make a device group of vim `VendorDeviceGroupInfo`."""
    return DeviceGroupInfo(
        name=info.deviceGroupName,
        description=info.deviceGroupDescription or "",
        parts=tuple(_part(component) for component in info.componentDeviceInfo or ()),
    )


def _part(component: Any) -> GroupPart:
    """Keep a part whole; one whose device is of a kind that is not known keeps its words."""
    device = component.device
    place = getattr(device, "deviceGroupInfo", None)
    part = GroupPart(
        kind=str(component.type),
        vendor=component.vendorName or "",
        name=component.deviceName or "",
        sequence=None if place is None else place.sequenceId,
    )
    return part.model_copy(update=_told_by([device]))


def _told_by(devices: list[Any]) -> dict[str, Any]:
    for vgpu in vgpus(devices):
        return {"profile": vgpu.profile}
    for passed in passthroughs(devices):
        return {
            "pci_id": passed.pci_id,
            "allowed": passed.allowed,
            "sub_ids": passed.sub_ids,
            "label": passed.label,
        }
    for other in dvx(devices):
        return {"device_class": other.device_class}
    for nic in nics(devices):
        return {"pci_id": nic.function, "device_class": nic.dvx_class}
    return {}


DIRECT_PATH_API = "9.0.0.0"


def read_direct_path(session: Session, hosts: Iterable[Host]) -> dict[str, tuple[DirectPathCapacity, ...]]:
    """Return, by host, the capacity of each DirectPath profile of a vGPU type.

    Hosts without an answer are absent. One round trip for the manager of profiles and one for these; where
    there are any, one for each connected host with GPUs, some at once.
    """
    if not session.speaks(DIRECT_PATH_API):
        return {}
    asked = [host for host in hosts if host.gpus and host.connection is Connection.CONNECTED]
    if not asked:
        return {}
    every = vim.DirectPathProfileManager.FilterSpec()
    try:
        # The session's own roots are those of the oldest version, which has no such manager.
        content: Any = vim.ServiceInstance("ServiceInstance", session.stub).RetrieveContent()
        manager = content.directPathProfileManager
        if manager is None:
            return {}
        profiles = [one for one in manager.ListDirectPathProfiles(every) or () if _vgpu_profile(one)]
        told = session.each(lambda host: _capacity(session, manager, host, profiles), asked)
        return {host.moid: capacity for host, capacity in told}
    except (vmodl.MethodFault, NotRecorded):
        return {}


def _capacity(
    session: Session, manager: Any, host: Host, profiles: list[Any]
) -> tuple[DirectPathCapacity, ...]:
    if not profiles:
        return ()
    types = vim.DirectPathProfileManager
    answer = manager.QueryDirectPathProfileCapacity(
        types.TargetHost(host=vim.HostSystem(host.moid, session.stub)),
        [types.CapacityQueryById(id=profile.id) for profile in profiles],
    )
    return tuple(
        DirectPathCapacity(
            name=one.profile.name,
            vgpu_profile=_vgpu_profile(one.profile),
            consumed=one.consumed,
            remaining=one.remaining,
            unused_reservation=one.unusedReservation,
        )
        for one in answer or ()
        if isinstance(one, types.CapacityInfo) and _vgpu_profile(one.profile)
    )


def _vgpu_profile(profile: Any) -> str:
    """Return the vGPU type of a DirectPath profile, "" if it is of another kind of device."""
    config = profile.deviceConfig
    is_vgpu = isinstance(config, vim.DirectPathProfileManager.VmiopDirectPathConfig)
    return str(config.vgpuProfile) if is_vgpu else ""
