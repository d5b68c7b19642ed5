"""Holdings of GPUs now and after a plan, compared with the shares of a file and the licenses of a site.

A VM holds its GPUs as long as it runs. A vGPU counts as its part of a GPU, by how many of its profile one GPU
takes, and with its framebuffer; a GPU that is passed through counts whole.

Sources on licenses: NVIDIA AI Enterprise, "vGPU for Compute Licensing" (one license for each C-series vGPU of
a VM, enforced by software); Virtual GPU Client Licensing User Guide (products and series); vGPU packaging
guide (vWS, vPC and vApps: one per VM that runs). A GPU in passthrough does not show its product and is not
counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from vgpu_cfg.catalog import Board, Catalog
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.desired import DesiredPlan, DesiredPower
from vgpu_cfg.model.observed.inventory import Folder, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.reservations import ALL_OTHERS, LicencePool, Quotas, Share
from vgpu_cfg.model.vgpu import VgpuProfile
from vgpu_cfg.model.wording import as_counted, counted, gib
from vgpu_cfg.planning.capacity.gpu_state import VgpuNeed
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import matches_any
from vgpu_cfg.planning.placement.host_state import Fit
from vgpu_cfg.planning.pool.use import OWNER_ATTRIBUTE, owner_of
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm

ENFORCES_NONE = "not enforced by vCenter"


@dataclass(frozen=True, slots=True)
class Held:
    """A device of a VM: the board's key, "" if unknown, its part of that board, and a vGPU's series."""

    board: str
    gpus: Fraction
    framebuffer_mib: int
    series: str = ""


@dataclass(frozen=True, slots=True)
class HoldingVm:
    """A running VM with its devices, and by what its share is found."""

    name: str
    owner: str
    folder: str
    cluster: str
    devices: tuple[Held, ...]
    host: str = ""


@dataclass(frozen=True, slots=True)
class ShareUse:
    """How much of a share is held, and by which VMs; `gpus` and `framebuffer_mib` are both counted."""

    share: Share
    gpus: float
    framebuffer_mib: int
    vms: tuple[str, ...]

    @property
    def held(self) -> float:
        """The holding, in the unit of the share."""
        return self.gpus if self.share.gpus is not None else self.framebuffer_mib

    def allows(self, then: ShareUse) -> bool:
        """Whether so much may be held after this: no more than the share, or than now."""
        return then.held <= max(self.limit, self.held)

    @property
    def limit(self) -> float:
        """The most that may be."""
        return (self.share.gpus if self.share.gpus is not None else self.share.framebuffer_mib) or 0

    @property
    def words(self) -> str:
        """Say how much is held of how much, and by whom."""
        held = f"{self.share.holder}: {self.worded(self.held)} of {self.share.called} already in use"
        by = f" by {_named(self.vms)}" if self.vms else ""
        return f"{held}{by}; the limit is {self.worded(self.limit)} ({self.share.origin})"

    def worded(self, amount: float) -> str:
        """Spell an amount in the unit of the share."""
        return amount_text(amount) if self.share.gpus is not None else gib(int(amount))


def amount_text(gpus: float) -> str:
    """Spell a number of GPUs, of which some may be parts."""
    text = f"{gpus:.2f}".rstrip("0").rstrip(".")
    return f"{text} GPU" if text == "1" else f"{text} GPUs"


def share_uses(quotas: Sequence[Quotas], observed: Inventory, catalog: Catalog) -> tuple[ShareUse, ...]:
    """Count the present holdings of every share."""
    held = HoldingReader(observed, catalog, CapacityReader(observed, catalog)).all_held()
    return tuple(use for one in quotas for use in _uses(one, held.values()))


@dataclass(frozen=True, slots=True)
class ShareRoom:
    """A share with its present holdings, and how many more VMs it allows of those that fit."""

    use: ShareUse
    more: int


def share_rooms(
    quotas: Quotas,
    running: Collection[HoldingVm],
    copy: HoldingVm | None,
    copies: Callable[[int], Iterable[HoldingVm]],
    most: int,
) -> Iterator[ShareRoom]:
    """Count for each share in question how many VMs like a `copy` it allows, `most` if it limits none.

    `copies` returns the holdings of so many of them. Without a `copy` they belong to the share's owner.
    """
    members = _members(quotas, running)
    anywhere = quotas.model_copy(update={"clusters": ()})
    of_copy = _members(anywhere, [copy]) if copy is not None else members

    def passes(now: ShareUse, count: int) -> bool:
        added = _within(quotas, copies(count))
        then = _use(now.share, [*members[now.share.holder], *added])
        return now.allows(then)

    for share in quotas.shares:
        concerned = copy is None or bool(of_copy[share.holder])
        if concerned and _use(share, _within(quotas, copies(most))).held:
            now = _use(share, members[share.holder])
            yield ShareRoom(now, most_that(partial(passes, now), most))


def most_that(passes: Callable[[int], bool], most: int, guess: int = 0) -> int:
    """Return the largest count up to `most` that passes; none does always.

    It is looked for around a `guess`, in steps that double, then in between: a good one takes two questions.
    """
    low, high, step = 0, min(guess, most), 1
    while high > low and not passes(high):
        most, high, step = high - 1, max(low, high - step), 2 * step
    low, high, step = high, high + 1, 1
    while high <= most and passes(high):
        low, high, step = high, high + step, 2 * step
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if passes(middle):
            low = middle
        else:
            high = middle
    return low


@dataclass(frozen=True, slots=True)
class Holdings:
    """The VMs that run now and after a plan; `own` are the names of the plan's."""

    before: Sequence[HoldingVm]
    after: Sequence[HoldingVm]
    own: Collection[str]


def holdings_of(
    observed: Inventory,
    catalog: Catalog,
    resolved_vms: Sequence[ResolvedVm],
    deleted: Sequence[Vm],
    chosen: Collection[str] | None,
) -> Holdings:
    """Return the GPUs of VMs before and after a plan."""
    reader = HoldingReader(observed, catalog, CapacityReader(observed, catalog))
    before = reader.all_held()
    after = dict(before)
    for vm in deleted:
        after.pop(vm.moid, None)
    own: set[str] = set()
    for resolved in resolved_vms:
        if chosen is not None and resolved.name not in chosen:
            continue
        key = resolved.existing.moid if resolved.existing is not None else f"new {resolved.name}"
        after.pop(key, None)
        if (holding := reader.planned(resolved)) is not None:
            after[key] = holding
            own.add(holding.name)
    return Holdings(tuple(before.values()), tuple(after.values()), own)


def report_quotas(desired: DesiredPlan, held: Holdings, findings: Findings) -> None:
    """Refuse a plan that makes an owner exceed a share; report the rest of the other shares."""
    for quotas in desired.quotas:
        for now, then in zip(_uses(quotas, held.before), _uses(quotas, held.after), strict=True):
            _report(desired, now, then, held.own, findings)
        free = [one.name for one in _members(quotas, held.after)[ALL_OTHERS] if one.name in held.own]
        if free and quotas.shares and not any(share.kind == "others" for share in quotas.shares):
            message = f"no limit in {quotas.shares[0].origin.rpartition(':')[0]} applies to {_named(free)}"
            remedy = "if one should, set `attributes: {owner: …}` to an owner in that file"
            findings.add(Code.SHARE_KEPT, Subject(kind="plan", name=desired.name), message, remedy)


def _report(
    desired: DesiredPlan, now: ShareUse, then: ShareUse, own: Collection[str], findings: Findings
) -> None:
    subject = Subject(kind="plan", name=desired.name)
    share = then.share
    ours = [name for name in then.vms if name in own]
    held = f"{share.holder}: {then.worded(then.held)} of {share.called}"
    most = f"the limit is {then.worded(then.limit)} ({share.origin})"
    by = f" (used by {_named(now.vms)})" if now.vms else ""
    if then.held <= then.limit:
        if ours:
            message = f"{held} in use after this plan; {most}; {ENFORCES_NONE}"
            findings.add(Code.SHARE_KEPT, subject, message)
    elif not now.allows(then):
        added = f"this plan adds {then.worded(then.held - now.held)} for {_named(ours)}"
        message = f"{held} would be in use; {most}; currently {then.worded(now.held)}{by}; {added}"
        remedy = f"use fewer, or ask the owner of the quota file for a larger quota; {ENFORCES_NONE}"
        findings.add(Code.SHARE_EXCEEDED, subject, message, remedy)
    elif ours:
        remedy = f"release some, or ask for a larger quota; {ENFORCES_NONE}"
        findings.add(Code.SHARE_EXCEEDED_ALREADY, subject, now.words, remedy)


def _named(names: Iterable[str]) -> str:
    return fold_names(sorted(names, key=as_counted))


def _uses(quotas: Quotas, holdings: Iterable[HoldingVm]) -> list[ShareUse]:
    """Count the holdings of each share of a file."""
    members = _members(quotas, holdings)
    return [_use(share, members[share.holder]) for share in quotas.shares]


def _members(quotas: Quotas, holdings: Iterable[HoldingVm]) -> dict[str, list[HoldingVm]]:
    """Return the VMs that count to each holder of a file; all others hold the rest."""
    within = _within(quotas, holdings)
    members: dict[str, list[HoldingVm]] = {}
    for share in quotas.shares:
        if share.kind != "others" and share.holder not in members:
            members[share.holder] = [one for one in within if _has(share, one)]
    covered = {id(one) for found in members.values() for one in found}
    return members | {ALL_OTHERS: [one for one in within if id(one) not in covered]}


def _within(quotas: Quotas, holdings: Iterable[HoldingVm]) -> list[HoldingVm]:
    """Leave out holdings outside the clusters whose GPUs a file shares out."""
    return [one for one in holdings if not quotas.clusters or matches_any(one.cluster, quotas.clusters)]


def _has(share: Share, one: HoldingVm) -> bool:
    """Whether a VM counts to the share of an owner or a folder, including the folder's subfolders."""
    if share.kind == "owner":
        return one.owner.casefold() == share.name.casefold()
    name = share.name.rstrip("/")
    below_root = one.folder.split("/", 3)[-1] if one.folder.count("/") > 2 else ""
    path = one.folder if name.startswith("/") else below_root
    return matches_any(path, (name, f"{name}/*"))


def _use(share: Share, members: Iterable[HoldingVm]) -> ShareUse:
    gpus, framebuffer, vms = Fraction(), 0, []
    for one in members:
        found = [device for device in one.devices if not share.boards or device.board in share.boards]
        gpus += sum((device.gpus for device in found), Fraction())
        framebuffer += sum(device.framebuffer_mib for device in found)
        vms += [one.name] if found else []
    return ShareUse(share, float(gpus), framebuffer, tuple(vms))


@dataclass(slots=True)
class HoldingReader:
    """Reads the holdings of VMs: running ones by their devices, those of a plan by their places."""

    observed: Inventory
    catalog: Catalog
    capacity: CapacityReader

    def running(self) -> dict[str, HoldingVm]:
        """Return the running VMs with GPU devices by their moids."""
        found = {}
        for vm in self.observed.vms:
            devices = tuple(self._devices(vm)) if vm.is_on and not vm.is_template else ()
            if devices:
                host = self.observed.host_by_moid.get(vm.host_moid or "")
                folder = self.observed.folder_by_moid.get(vm.folder_moid or "")
                found[vm.moid] = self._holding(vm.name, owner_of(vm), folder, host, devices)
        return found

    def all_held(self) -> dict[str, HoldingVm]:
        """Return the running VMs, and the units that DirectPath profiles reserve, as if they ran."""
        found = self.running()
        for host in self.observed.hosts:
            boards = {board.key for board in self._boards(host).values() if board is not None}
            for one in host.direct_path or ():
                needs = self.capacity.needs(one.vgpu_profile)
                held = [_of_need(need) for key, need in needs.items() if key in boards][:1]
                for number in range(one.unused_reservation):
                    name = f"reserved by {one.name}"
                    found[f"{host.moid} {one.name} {number}"] = self._holding(
                        name, one.owner, None, host, tuple(held)
                    )
        return found

    def planned(self, resolved: ResolvedVm) -> HoldingVm | None:
        """Return the holding of a plan's VM once the plan is carried out, None for nothing."""
        if not shall_run(resolved):
            return None
        devices = tuple(self._planned_devices(resolved))
        if not devices:
            return None
        cluster = resolved.clusters[0].name if resolved.clusters and resolved.host is None else ""
        return self._holding(*_whose(resolved), resolved.host, devices, cluster)

    def _holding(
        self,
        name: str,
        owner: str,
        folder: Folder | None,
        host: Host | None,
        devices: tuple[Held, ...],
        cluster: str = "",
    ) -> HoldingVm:
        of = self.observed.cluster_of(host) if host is not None else None
        path = "" if folder is None else folder.inventory_path or folder.name
        moid = host.moid if host is not None else ""
        return HoldingVm(name, owner, path, of.name if of is not None else cluster, devices, moid)

    def _planned_devices(self, resolved: ResolvedVm) -> Iterator[Held]:
        shape, fit = resolved.shape, resolved.fit
        if fit is not None and resolved.host is not None and (fit.variant or fit.slots):
            yield from self._devices_of(fit, resolved.host)
        elif resolved.existing is not None:
            yield from self._devices(resolved.existing)
        elif shape is not None:
            yield from (_of_need(need) for variant in shape.variants[:1] for need in variant)

    def found_by(self, resolved: ResolvedVm) -> HoldingVm | None:
        """Return the key of the share of a plan's new VM, None if it will not run."""
        return self._holding(*_whose(resolved), None, ()) if shall_run(resolved) else None

    def placed(self, fit: Fit, host: Host) -> HoldingVm:
        """Return the holding of a VM without a name, an owner and a folder at a place."""
        return self._holding("", "", None, host, tuple(self._devices_of(fit, host)))

    def _devices_of(self, fit: Fit, host: Host) -> Iterator[Held]:
        """Yield a VM's GPU devices at a place."""
        yield from (_of_need(need) for need in fit.variant)
        boards = self._boards(host) if fit.slots else {}
        yield from (_whole(boards[pci_id]) for pci_id in fit.slots if pci_id in boards)

    def _devices(self, vm: Vm) -> Iterator[Held]:
        """Yield a VM's GPU devices."""
        detail, host = vm.detail, self.observed.host_by_moid.get(vm.host_moid or "")
        if detail is None or not (detail.vgpus or detail.passthrough_gpus):
            return
        boards = self._boards(host) if host is not None else {}
        here = {board.key for board in boards.values() if board is not None}
        for device in detail.vgpus:
            needs = self.capacity.needs(device.profile)
            found = [need for key, need in needs.items() if key in here] or list(needs.values())
            yield _of_need(found[0]) if found else Held("", Fraction(1), 0, _series_of(device.profile))
        for passed in detail.passthrough_gpus:
            pci_id = passed.pci_id or passed.assigned_id
            if pci_id is not None:
                pci = host.device(pci_id) if host is not None else None
                if pci is None or pci.is_gpu:
                    yield _whole(boards.get(pci_id))
                continue
            known = [self.catalog.by_pci(*ids) for ids in passed.allowed]
            if any(known):
                yield _whole(next(board for board in known if board is not None))

    def _boards(self, host: Host) -> Mapping[str, Board | None]:
        """Return the boards of a host's GPUs by their addresses."""
        return {gpu.pci_id: self.capacity.board_of(gpu.pci) for gpu in host.gpus}


def _of_need(need: VgpuNeed) -> Held:
    return Held(need.board_key, Fraction(1, need.max_per_gpu), need.framebuffer_mib, need.series)


def _series_of(profile: str) -> str:
    with suppress(ValueError):
        return VgpuProfile.parse(profile).series
    return ""


def _whole(board: Board | None) -> Held:
    return Held("", Fraction(1), 0) if board is None else Held(board.key, Fraction(1), board.framebuffer_mib)


def shall_run(resolved: ResolvedVm) -> bool:
    """Whether a plan's VM runs once the plan is carried out."""
    is_left = "power" in resolved.desired.ignore or resolved.desired.power is DesiredPower.LEAVE
    if is_left or resolved.desired.power is DesiredPower.OFF:
        return is_left and resolved.existing is not None and resolved.existing.is_on
    return True


def _whose(resolved: ResolvedVm) -> tuple[str, str, Folder | None]:
    return resolved.name, _owner_after(resolved), resolved.folder


def _owner_after(resolved: ResolvedVm) -> str:
    """Return the owner of a VM once the plan is carried out: the plan file's, else the present one."""
    stated = resolved.desired.attributes if resolved.manages("attributes") else None
    told = {name.lower(): value for name, value in (stated or {}).items()}
    if OWNER_ATTRIBUTE in told:
        return told[OWNER_ATTRIBUTE]
    return owner_of(resolved.existing) if resolved.existing is not None else ""


_UNITS = {"vm": "VM with a ", "vgpu": "", "gpu": "GPU with a "}


@dataclass(frozen=True, slots=True)
class LicenceUse:
    """How many licenses of a pool the running VMs need, and which VMs these are."""

    pool: LicencePool
    needed: int
    vms: tuple[str, ...]

    @property
    def is_short(self) -> bool:
        """Whether more are needed than there are."""
        return self.needed > self.pool.count

    @property
    def has(self) -> str:
        """The number in the pool, and what each license is for."""
        unit = f"{_UNITS[self.pool.per]}{'- or '.join(self.pool.series)}-series vGPU"
        return f"the pool has {self.pool.count}, one per {unit} ({self.pool.origin})"

    @property
    def need(self) -> str:
        """The number that is needed, with the product."""
        return counted(self.needed, f"{self.pool.product} license")

    @property
    def by(self) -> str:
        """The VMs that need them."""
        return f" by {_named(self.vms)}" if self.vms else ""


def licence_uses(
    quotas: Iterable[Quotas], holdings: Collection[HoldingVm], observed: Inventory
) -> tuple[LicenceUse, ...]:
    """Count the licenses that VMs need, for each pool."""
    return tuple(_licence_use(pool, holdings, observed) for one in quotas for pool in one.licences)


def report_licences(desired: DesiredPlan, observed: Inventory, held: Holdings, findings: Findings) -> None:
    """Refuse a plan that needs more licenses than a pool has, and than are needed now."""
    uses = (licence_uses(desired.quotas, one, observed) for one in (held.before, held.after))
    subject = Subject(kind="plan", name=desired.name)
    for now, then in zip(*uses, strict=True):
        ours = [name for name in then.vms if name in held.own]
        if not then.is_short:
            if ours:
                findings.add(Code.LICENCES_KEPT, subject, f"{then.need} needed; {then.has}")
        elif then.needed > now.needed:
            by = f" (needed by {_named(now.vms)})" if now.vms else ""
            message = (
                f"{then.need} would be needed, but {then.has}; currently {now.needed}{by}; "
                f"this plan adds {then.needed - now.needed} for {_named(ours)}"
            )
            remedy = (
                "start fewer VMs, or buy licenses and raise the number; unlicensed vGPUs run at "
                "reduced performance"
            )
            findings.add(Code.LICENCES_EXCEEDED, subject, message, remedy)
        elif ours:
            message = f"{then.need} needed{then.by}; {then.has}"
            remedy = (
                "power off some VMs, or buy licenses and raise the number; unlicensed vGPUs run at "
                "reduced performance"
            )
            findings.add(Code.LICENCES_EXCEEDED_ALREADY, subject, message, remedy)


def _licence_use(pool: LicencePool, holdings: Iterable[HoldingVm], observed: Inventory) -> LicenceUse:
    vgpus = {one: sum(device.series in pool.series for device in one.devices) for one in holdings}
    vgpus = {one: count for one, count in vgpus.items() if count}
    names = tuple(one.name for one in vgpus)
    if pool.per == "vm":
        return LicenceUse(pool, len(vgpus), names)
    if pool.per == "vgpu":
        return LicenceUse(pool, sum(vgpus.values()), names)
    by_host: Counter[str] = Counter()
    for one, count in vgpus.items():
        by_host[one.host] += count
    gpus = {host.moid: len(host.gpus) for host in observed.hosts}
    return LicenceUse(pool, sum(min(count, gpus.get(moid, count)) for moid, count in by_host.items()), names)
