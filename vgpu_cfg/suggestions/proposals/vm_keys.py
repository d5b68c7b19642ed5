"""Alternatives to obstructive keys: of VMs' lines, and of a plan's keys in guests.

In a guest the obstructive keys are others than the plan's, old ones, and ones not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

from vgpu_cfg.catalog import Board
from vgpu_cfg.changes.suggestion import FixKind
from vgpu_cfg.model.desired import DesiredVm, TemplateSource
from vgpu_cfg.model.guests.guest import GUEST_MARK_KEY
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.plan_file.values import gpu_item
from vgpu_cfg.model.vgpu import Sharing
from vgpu_cfg.model.wording import gib, node_list
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.guests.compatibility import release_before
from vgpu_cfg.planning.guests.plan_keys import KEYS, keys_in, word_of_keys
from vgpu_cfg.planning.vms.lookup.gpu_choice import profiles_of
from vgpu_cfg.suggestions.candidate import Candidate, Cost
from vgpu_cfg.suggestions.situation import Situation

Item = dict[str, Any]
_LEAST_MEMORY_MIB = _MEMORY_STEP_MIB = 4096
_MOST_HOSTS = 2
"""How many other hosts are tried for a line of VMs."""
_EXAMPLE_CPUS, _EXAMPLE_MEMORY = 8, "32GiB"

_DROPPED: tuple[tuple[tuple[Code, ...], tuple[str, ...]], ...] = (
    ((Code.KEY_PROVIDER_ABSENT,), ("vtpm",)),
    ((Code.OPTION_NEEDS_EFI,), ("secure_boot", "vtpm")),
    ((Code.NO_CLUSTER,), ("drs", "ha")),
    ((Code.HOSTS_EXCLUDED,), ("place.not_hosts",)),
    ((Code.USER_DATA_CLASHES,), ("guest.user_data",)),
    ((Code.GUEST_SECRETS_MIXED,), ("guest.secrets",)),
)
"""Keys without which such a finding has nothing to say."""

_SHORT = ({"profile"}, {"memory"})
"""Items of `gpus` that can be written as a text."""
_KEPT = "kept"
"""The placeholder for the guests' seed, of which only a digest is known."""


def propose_vm_keys(situation: Situation) -> Iterator[Candidate]:
    """Yield other values of keys, and with their author's leave fewer of them."""
    yield from _gpus(situation)
    yield from _sizes(situation)
    yield from _places(situation)
    yield from _templates(situation)
    yield from _nics(situation)
    yield from _guests(situation)
    for codes, keys in _DROPPED:
        for vm in situation.lines(*codes):
            for key in keys:
                if situation.stated(vm, *key.split(".")) is not None:
                    yield from _ask(situation, vm, f"without `{key}`", (key, None))


def _ask(
    situation: Situation, vm: DesiredVm, says: str, *steps: tuple[str, Any], kind: FixKind = FixKind.LEAVE
) -> Iterator[Candidate]:
    edits = situation.set_key(vm, *steps)
    if edits:
        yield Candidate(kind, f"{vm.line} {says}", edits=edits, of=vm.line, alike=says)


def _state(situation: Situation, vm: DesiredVm, says: str, *steps: tuple[str, Any]) -> Iterator[Candidate]:
    return _ask(situation, vm, says, *steps, kind=FixKind.FILE)


# --- GPUs


def _gpus(situation: Situation) -> Iterator[Candidate]:
    for vm in situation.lines(Code.NVLINK_NEEDS_WHOLE, Code.UVM_NEEDS_FULL):
        whole = _each(situation, vm, lambda item: _with_profile(situation, item))
        yield from _gpu_edit(situation, vm, "uses profiles with a full GPU", whole, FixKind.FILE)
    for vm in situation.lines(Code.NVLINK_GROUP_SIZE):
        yield from _split(situation, vm)
    for vm in situation.lines(Code.MANY_GPU_SERVER):
        joined = _each(situation, vm, lambda item: [{**item, "nvlink": True}])
        yield from _gpu_edit(situation, vm, "connects its GPUs through NVLink", joined, FixKind.FILE)
    for vm in situation.lines(
        Code.NVLINK_NEEDS_LINUX,
        Code.NVLINK_NEEDS_WHOLE,
        Code.NOT_AN_NVLINK_PEER,
        Code.NVLINK_GROUP_SIZE,
        Code.NVLINK_GROUP_ABSENT,
        Code.NVLINK_GROUP_BROKEN,
        Code.UVM_DISABLES_P2P,
    ):
        yield from _gpu_edit(situation, vm, "without `nvlink`", _without(situation, vm, "nvlink"))
    for vm in situation.lines(Code.DEVICE_GROUP_ABSENT, Code.DEVICE_GROUP_UNLIKE):
        yield from _gpu_edit(situation, vm, "without `group`", _without(situation, vm, "group"))
    for vm in situation.lines(Code.UVM_DISABLES_P2P, Code.UVM_NEEDS_FULL):
        yield from _gpu_edit(situation, vm, "without `uvm`", _without(situation, vm, "uvm"))
    for vm in situation.lines(Code.MIXED_BOARDS):
        items = _items(situation, vm)
        alike = [{**item, "profile": items[0].get("profile")} for item in items]
        yield from _gpu_edit(situation, vm, "uses profiles of one board", alike)
    for vm in situation.lines(Code.NO_SUCH_BOARD):
        for board in _boards(situation, vm):
            other = _each(situation, vm, partial(_of_board, situation, board, only=True))
            if other != _items(situation, vm):
                yield from _gpu_edit(situation, vm, f"uses vGPUs of the same size on {board.name}", other)
    for vm in {one.origin: one for one in situation.unplaced}.values():
        for board in _boards(situation, vm):
            alike = _each(situation, vm, partial(_of_board, situation, board))
            if alike != _items(situation, vm):
                says = f"also allows vGPUs of the same size on {board.name}"
                yield from _gpu_edit(situation, vm, says, alike)
    for vm in situation.lines(Code.CANNOT_RESERVE):
        lists = (gpu.profile for gpu in vm.gpus if len(gpu.profile) > 1)
        for name in dict.fromkeys(str(one) for profiles in lists for one in profiles):
            one = _each(situation, vm, partial(_of_list, name))
            yield from _gpu_edit(situation, vm, f"uses {name} from its list", one, FixKind.FILE)
    yield from _memories(situation)
    for vm in situation.lines(Code.PASSTHROUGH_ABSENT, Code.PASSTHROUGH_SERVES_VGPUS, Code.PASSTHROUGH_TAKEN):
        yield from _pins(situation, vm)
    for vm in situation.lines(Code.NVSWITCH_PASSTHROUGH):
        for board in _boards(situation, vm):
            full = max(
                (one for one in board.profiles if one.profile.sharing is not Sharing.MIG),
                key=lambda one: one.framebuffer_mib,
                default=None,
            )
            if full is not None:
                name = full.name
                items = _each(situation, vm, partial(_as_vgpu, name))
                yield from _gpu_edit(situation, vm, f"uses {name} vGPUs instead of whole GPUs", items)


def _memories(situation: Situation) -> Iterator[Candidate]:
    """Request less GPU memory, any board, or one board that a reservation can be for."""
    most = max((one.framebuffer_gb for one in profiles_of(situation.observed, situation.catalog)), default=0)
    for vm in situation.lines(Code.NO_SUCH_BOARD):
        if any((gpu.memory or 0) > most * 1024 > 0 for gpu in vm.gpus):
            less = _each(situation, vm, lambda item: [{**item, "memory": f"{most}GiB"}])
            yield from _gpu_edit(situation, vm, f"with {most} GiB of GPU memory", less)
        if any(gpu.any_of for gpu in vm.gpus) and situation.vm(vm.name) is None:
            yield from _gpu_edit(situation, vm, "on any board", _without(situation, vm, "any_of"))
    for vm in situation.lines(Code.CANNOT_RESERVE):
        for board in _boards(situation, vm) if any(gpu.memory for gpu in vm.gpus) else ():
            only = _each(situation, vm, partial(_only_on, board))
            yield from _gpu_edit(situation, vm, f"only on {board.name}", only, FixKind.FILE)


def _only_on(board: Board, item: Item) -> list[Item]:
    return [{**item, "any_of": board.name} if "memory" in item else item]


def _gpu_edit(
    situation: Situation, vm: DesiredVm, says: str, items: list[Item], kind: FixKind = FixKind.LEAVE
) -> Iterator[Candidate]:
    texts = [next(iter(item.values())) if set(item) in _SHORT else None for item in items]
    shortest = [text if isinstance(text, str) else item for text, item in zip(texts, items, strict=True)]
    value: Any = shortest[0] if len(shortest) == 1 and isinstance(shortest[0], str) else shortest
    yield from _ask(situation, vm, says, ("gpus", value), kind=kind)


def _items(situation: Situation, vm: DesiredVm, key: str = "gpus", short: str = "") -> list[Item]:
    """Return the items of a list of the plan file; one that is a text is the value of its `short` key."""
    raw = situation.stated(vm, key)
    found = raw if isinstance(raw, list) else [] if raw is None else [raw]
    spelled = (lambda text: {short: text}) if short else gpu_item
    return [spelled(item) if isinstance(item, str) else dict(item) for item in found]


def _each(situation: Situation, vm: DesiredVm, change: Callable[[Item], list[Item]]) -> list[Item]:
    return [changed for item in _items(situation, vm) for changed in change(item)]


def _without(situation: Situation, vm: DesiredVm, key: str) -> list[Item]:
    return [{name: value for name, value in item.items() if name != key} for item in _items(situation, vm)]


def _of_list(name: str, item: Item) -> list[Item]:
    """Return an item with one profile of its list, unchanged if its list has no such profile."""
    listed = item.get("profile")
    return [{**item, "profile": name} if isinstance(listed, list) and name in listed else item]


def _of_board(situation: Situation, board: Board, item: Item, *, only: bool = False) -> list[Item]:
    """Return an item with the profile of another board: as large, shared alike.

    It is in addition to its own unless `only` that is wanted.
    """
    name = item.get("profile")
    own = situation.catalog.by_profile(name) if isinstance(name, str) else ()
    for entry in own:
        as_own = (entry.profile.sharing, entry.profile.series, entry.framebuffer_mib, entry.mig_size)
        for one in board.profiles:
            if (one.profile.sharing, one.profile.series, one.framebuffer_mib, one.mig_size) == as_own:
                names = one.name if only else [name, one.name]
                return [{**item, "profile": names}] if one.name != name else [item]
    return [item]


def _with_profile(situation: Situation, item: Item) -> list[Item]:
    """Return an item with the full profile of its board, in its own series."""
    name = item.get("profile")
    found = situation.catalog.by_profile(name) if isinstance(name, str) else ()
    for entry in found:
        peers = entry.board.nvlink_p2p_profile
        whole = peers or max(
            (one.profile for one in entry.board.profiles if one.profile.sharing is not Sharing.MIG),
            key=lambda one: one.framebuffer_gb,
            default=None,
        )
        if whole is not None:
            return [{**item, "profile": whole.name}]
    return [item]


def _split(situation: Situation, vm: DesiredVm) -> Iterator[Candidate]:
    """Make several groups of one that is too large: two for each pair."""
    for size in (2, 4):
        items: list[Item] = []
        for item in _items(situation, vm):
            count = int(item.get("count", 1))
            parts, rest = divmod(count, size)
            if not item.get("nvlink") or rest or parts < 2:
                items.append(item)
            else:
                items += [{**item, "count": size}] * parts
        yield from _gpu_edit(situation, vm, f"connects its GPUs in groups of {size}", items, FixKind.FILE)


def _pins(situation: Situation, vm: DesiredVm) -> Iterator[Candidate]:
    """Pin another GPU: each that is passed through and that nothing uses."""
    items = _items(situation, vm)
    pinned = [str(item.get("pin")) for item in items if item.get("pin")]
    for host in situation.hosts_of(vm):
        for gpu in host.gpus:
            if gpu.vm_moids or gpu.pci_id in pinned:
                continue
            for index, item in enumerate(items):
                if not item.get("pin"):
                    continue
                changed = [*items[:index], {**item, "pin": gpu.pci_id}, *items[index + 1 :]]
                says = f"uses the GPU at {gpu.pci_id} on {host.name} instead of {item['pin']}"
                yield from _gpu_edit(situation, vm, says, changed)
    nics = {nic.pci_id for host in situation.hosts_of(vm) for nic in host.nics}
    nics |= {pci.pci_id for host in situation.hosts_of(vm) for pci in host.pci_devices if pci.is_nic}
    misplaced = [item for item in items if item.get("pin") in nics]
    if misplaced and len(misplaced) < len(items):
        kept = [item for item in items if item not in misplaced]
        value = [kept[0]["profile"]] if set(kept[0]) == {"profile"} else kept
        own = [{"type": "passthrough", "pin": item["pin"]} for item in misplaced]
        stated = situation.stated(vm, "nics")
        others = stated if isinstance(stated, list) else []
        says = f"lists {', '.join(str(item['pin']) for item in misplaced)} under `nics`"
        yield from _state(situation, vm, says, ("gpus", value), ("nics", [*others, *own]))


def _as_vgpu(name: str, item: Item) -> list[Item]:
    kept = {key: value for key, value in item.items() if key in ("count", "nvlink", "uvm")}
    return [{"profile": name, **kept}]


def _boards(situation: Situation, vm: DesiredVm) -> list[Board]:
    found = {
        board.key: board
        for host in situation.hosts_of(vm)
        for gpu in host.gpus
        if (board := situation.board_of(gpu))
    }
    return list(found.values())


# --- sizes


def _sizes(situation: Situation) -> Iterator[Candidate]:
    for vm in situation.lines(Code.DISK_SHRINKS):
        existing = situation.vm(vm.name)
        disks = situation.stated(vm, "disks")
        if existing is None or existing.detail is None or not isinstance(disks, list):
            continue
        largest = max(disk.capacity_mib for disk in existing.detail.disks)
        as_large = [{**disk, "size": gib(largest).replace(" ", "")} for disk in disks]
        yield from _state(situation, vm, "keeps the disk's size", ("disks", as_large))
    for vm in situation.lines(Code.DISK_HAS_SNAPSHOT, Code.TEMPLATE_WITHOUT_SNAPSHOT):
        yield from _state(situation, vm, "is a full clone", ("clone", "full"))
    for vm in situation.lines(Code.SIZE_UNKNOWN):
        says = f"with {_EXAMPLE_CPUS} CPUs and {_EXAMPLE_MEMORY} (adjust as needed)"
        yield from _ask(situation, vm, says, ("cpus", _EXAMPLE_CPUS), ("memory", _EXAMPLE_MEMORY))
    for vm in situation.lines(Code.HOST_CPUS, Code.LATENCY_NEEDS_CPU, Code.NUMA_TOO_SMALL):
        for cpus in _smaller_cpus(situation, vm):
            yield from _ask(situation, vm, f"with {cpus} CPUs", ("cpus", cpus))
    for vm in situation.lines(Code.HOST_MEMORY, Code.NUMA_TOO_SMALL):
        for tenths in range(9, 0, -1):
            memory = (vm.memory_mib or 0) * tenths // 10 // _MEMORY_STEP_MIB * _MEMORY_STEP_MIB
            if memory >= _LEAST_MEMORY_MIB:
                size = gib(memory).replace(" ", "")
                yield from _ask(situation, vm, f"with {gib(memory)}", ("memory", size))
    for vm in situation.lines(Code.LATENCY_NEEDS_CPU):
        yield from _state(situation, vm, "spread over hosts", ("place.spread", "hosts"))
        yield from _ask(situation, vm, "with normal latency sensitivity", ("latency_sensitivity", "normal"))


def _smaller_cpus(situation: Situation, vm: DesiredVm) -> list[int]:
    wanted = vm.cpus or 0
    most = {host.cores * (2 if host.hyperthreading else 1) for host in situation.hosts_of(vm)}
    most |= {host.cores for host in situation.hosts_of(vm)}
    most |= {node.cores for host in situation.hosts_of(vm) for node in host.numa_nodes}
    most |= {host.cores // 2 for host in situation.hosts_of(vm)}
    return sorted((one for one in most if 0 < one < wanted), reverse=True)


# --- places


def _places(situation: Situation) -> Iterator[Candidate]:
    for vm in situation.lines(Code.NUMA_TOO_SMALL, Code.NUMA_NODE_ABSENT, Code.NUMA_TAKEN):
        nodes = sorted({node.node_id for host in situation.hosts_of(vm) for node in host.numa_nodes})
        for most in range(2, len(nodes) + 1):
            chosen = nodes[:most]
            yield from _state(situation, vm, f"pinned to NUMA nodes {node_list(chosen)}", ("numa", chosen))
        yield from _ask(situation, vm, "not pinned to a NUMA node", ("numa", "off"))
    for vm in {one.origin: one for one in situation.unplaced}.values():
        if vm.place.hosts:
            yield from _ask(situation, vm, "on any host in its clusters", ("place.hosts", None))
        if vm.place.max_hosts:
            yield from _ask(situation, vm, "on any number of hosts", ("place.max_hosts", None))
        if vm.place.max_per_host:
            yield from _ask(situation, vm, "with any number of VMs per host", ("place.max_per_host", None))
        if not vm.place.hosts:
            yield from _elsewhere(situation, vm)
    for vm in situation.lines(Code.SPREAD_IMPOSSIBLE):
        if vm.place.keep_free:
            yield from _ask(situation, vm, "without keeping hosts free", ("place.keep_free", None))
        yield from _ask(situation, vm, "spread if possible", ("place.must", False))
    for vm in situation.lines(
        Code.DATASTORE_NOT_ON_HOST, Code.NO_DATASTORE, Code.DATASTORE_INACCESSIBLE, Code.DATASTORE_UNFIT
    ):
        on_hosts = {moid for host in situation.hosts_of(vm) for moid in host.datastore_moids}
        usable = [one for one in situation.site.datastores if one.moid in on_hosts and one.is_accessible]
        for datastore in sorted(usable, key=lambda one: -one.free_mib)[:3]:
            kind = FixKind.FILE if vm.datastore is None else FixKind.LEAVE
            says = f"on the datastore {datastore.name}"
            yield from _ask(situation, vm, says, ("datastore", datastore.name), kind=kind)
    for vm in situation.lines(
        Code.NO_SUCH_BOARD, Code.NETWORK_NOT_ON_HOST, Code.DATASTORE_NOT_ON_HOST, Code.NO_CLUSTER
    ):
        for cluster in sorted(situation.site.clusters, key=situation.busy):
            if cluster.name not in vm.clusters and not cluster.is_standalone:
                ask, says = (_ask, "in the cluster") if situation.vm(vm.name) is None else (_move, "moves to")
                yield from ask(situation, vm, f"{says} {cluster.name}", ("cluster", cluster.name))
    for vm in situation.lines(Code.CANNOT_RESERVE):
        for cluster in sorted(situation.site.clusters, key=situation.busy):
            if not cluster.is_standalone and (not vm.clusters or cluster.name in vm.clusters):
                yield from _state(situation, vm, f"in the cluster {cluster.name}", ("cluster", cluster.name))


def _elsewhere(situation: Situation, vm: DesiredVm) -> Iterator[Candidate]:
    """Yield other hosts for the VMs of a line that exist and whose own host has no room: the idlest first."""
    names = [one.name for one in situation.desired.vms if one.origin == vm.origin]
    there = [found for name in names if (found := situation.vm(name)) is not None]
    own = {found.host_moid for found in there}
    others = [host for host in situation.hosts_of(vm) if host.moid not in own and host.is_usable]
    idle = {host.moid: sum(not gpu.vm_moids for gpu in host.gpus) for host in others}
    for host in sorted(others, key=lambda one: -idle[one.moid])[:_MOST_HOSTS] if there else ():
        if idle[host.moid]:
            stay = [one.name for one in situation.observed.hosts if one.moid in own and len(names) > 1]
            yield from _move(situation, vm, f"moves to {host.name}", ("place.hosts", [*stay, host.name]))


def _move(situation: Situation, vm: DesiredVm, says: str, step: tuple[str, Any]) -> Iterator[Candidate]:
    if edits := situation.set_key(vm, step):
        says = f"{vm.line} {says}"
        yield Candidate(FixKind.FLAG, says, Cost.MOVE, edits, flag="allow_move", command="--allow-move")


# --- templates


def _templates(situation: Situation) -> Iterator[Candidate]:
    """Another template, or one at all: one that boots with EFI, or whose system is Linux."""
    wanted = (
        Code.TEMPLATE_IS_BIOS,
        Code.OPTION_NEEDS_EFI,
        Code.GUEST_NOT_LINUX,
        Code.NVLINK_NEEDS_LINUX,
        Code.GUEST_NO_SYSTEM,
        Code.PVRDMA_GUEST,
        Code.NO_SOURCE,
        Code.LIBRARY_ITEM_ABSENT,
        Code.LIBRARY_ITEM_NO_TEMPLATE,
        Code.LIBRARIES_NOT_READ,
    )
    for vm in situation.lines(*wanted):
        own = vm.source.path_or_name if isinstance(vm.source, TemplateSource) else ""
        for template in situation.site.templates:
            detail = template.detail
            if detail is None or detail.firmware != "efi" or template.name == own:
                continue
            if "windows" in detail.guest_id.casefold():
                continue
            yield from _ask(
                situation, vm, f"created from the template {template.name}", ("template", template.name)
            )


# --- guests


def _guests(situation: Situation) -> Iterator[Candidate]:
    """Without a guest that is set up: an address that a NIC is given would be part of it."""
    for vm in situation.lines(Code.GUEST_NOT_LINUX, Code.GUEST_NO_SYSTEM, Code.GUEST_NO_WAY_IN):
        nics = situation.stated(vm, "nics")
        plain = [
            {key: value for key, value in nic.items() if key not in ("ip", "rdma")}
            if isinstance(nic, dict)
            else nic
            for nic in (nics if isinstance(nics, list) else [])
        ]
        steps: list[tuple[str, Any]] = [("guest", None)]
        if plain and plain != nics:
            steps.append(("nics", plain))
        yield from _ask(situation, vm, "without any guest setup", *steps)
    for vm in situation.lines(Code.CUDA_DRIVER_OLD):
        cuda = vm.guest.cuda if vm.guest is not None else None
        older = release_before(cuda.version) if cuda is not None else ""
        if cuda is not None and older and not cuda.package:
            stated = situation.stated(vm, "guest", "cuda")
            key = "guest.cuda.version" if isinstance(stated, dict) else "guest.cuda"
            yield from _state(situation, vm, f"uses CUDA {older}", (key, older))
    for vm in situation.lines(Code.GUEST_SECRETS_NO_WAY):
        yield from _ask(
            situation, vm, "with secrets visible in vCenter: `secrets: exposed`", ("guest.secrets", "exposed")
        )


# --- NICs


def _nics(situation: Situation) -> Iterator[Candidate]:
    for vm in situation.lines(Code.PVRDMA_NOT_DISTRIBUTED, Code.PVRDMA_GUEST, Code.PVRDMA_UPLINKS):
        yield from _nic_keys(situation, vm, "with ordinary NICs", lambda nic: {**nic, "type": "vmxnet3"})
    for vm in situation.lines(Code.NIC_FAR):
        yield from _nic_keys(situation, vm, "with a NIC on any NUMA node", lambda nic: {**nic, "near": "any"})
    for vm in situation.lines(Code.NIC_ABSENT, Code.NIC_HOSTS_OWN):
        for key in ("device", "pin"):
            yield from _nic_keys(
                situation, vm, f"with any NIC, regardless of its {key}", partial(_nic_without, key)
            )
    for vm in situation.lines(Code.NETWORK_NOT_ON_HOST, Code.NETWORK_IS_UPLINK, Code.NETWORK_KIND):
        on_hosts = {moid for host in situation.hosts_of(vm) for moid in host.network_moids}
        for network in situation.site.networks:
            if network.moid not in on_hosts or network.is_uplink:
                continue
            yield from _nic_keys(
                situation, vm, f"on the network {network.name}", partial(_on_network, network.name)
            )
    meeting = situation.desired.vms if any(situation.errors(Code.NO_MEETING_NETWORK)) else ()
    for vm in (*meeting, *situation.lines(Code.ADDRESS_TWICE, Code.ADDRESS_IN_USE)):
        pools = {one.name for one in situation.desired.networks if one.pool is not None}
        yield from _nic_keys(
            situation, vm, "uses addresses from the network's pool", partial(_from_pool, pools), FixKind.FILE
        )
        yield from _nic_keys(
            situation, vm, "uses DHCP", lambda nic: {**nic, "ip": "dhcp"} if "ip" in nic else nic
        )
    for vm in situation.lines(Code.NICS_ALIKE):
        yield from _nic_keys(
            situation,
            vm,
            "without fixed addresses",
            lambda nic: {name: value for name, value in nic.items() if name not in ("ip", "rdma")},
        )


def _nic_without(key: str, nic: Item) -> Item:
    return {name: value for name, value in nic.items() if name != key}


def _on_network(name: str, nic: Item) -> Item:
    return {**nic, "network": name}


def _from_pool(pools: Collection[str], nic: Item) -> Item:
    return {**nic, "ip": "pool"} if nic.get("network") in pools else nic


def _nic_keys(
    situation: Situation,
    vm: DesiredVm,
    says: str,
    change: Callable[[Item], Item],
    kind: FixKind = FixKind.LEAVE,
) -> Iterator[Candidate]:
    items = _items(situation, vm, "nics", "network")
    changed = [change(item) for item in items]
    for index, (before, after) in enumerate(zip(items, changed, strict=True)):
        if before != after:
            one = [*items[:index], after, *items[index + 1 :]]
            yield from _ask(situation, vm, says, ("nics", one), kind=kind)
    if sum(before != after for before, after in zip(items, changed, strict=True)) > 1:
        yield from _ask(situation, vm, says, ("nics", changed), kind=kind)


def propose_guest_keys(situation: Situation) -> Iterator[Candidate]:
    """Yield the keys that guests have, brought back or kept behind new ones, and leave to replace them."""
    if any(situation.errors(Code.KEYS_FOREIGN)):
        says = "copy the keys that the guests were set up with to this machine"
        yield Candidate(FixKind.OUTSIDE, says, Cost.WORK, flag=f"keys={_KEPT}", effect=_with_kept_keys)
        says = "replace the keys in the guests"
        command = f"--rotate {KEYS}"
        yield Candidate(FixKind.FLAG, says, Cost.WORK, flag=f"rotate={KEYS}", command=command)
    if any(situation.errors(Code.KEYS_NOT_ROTATED)):
        yield Candidate(FixKind.FLAG, "omit --rotate keys", flag=f"rotate_no={KEYS}")
        says = "add the guests' current seed after the new one"
        yield Candidate(FixKind.OUTSIDE, says, Cost.WORK, flag=f"former={_KEPT}", effect=_with_kept_keys)


def _with_kept_keys(observed: Inventory) -> Inventory:
    """Let the keys of all guests follow from the seed that is had then."""
    vms = tuple(_keyed(vm, word_of_keys(_KEPT)) for vm in observed.vms)
    return observed.model_copy(update={"vms": vms})


def _keyed(vm: Vm, word: str) -> Vm:
    mark = vm.detail.extra_config.get(GUEST_MARK_KEY, "") if vm.detail is not None else ""
    held = keys_in(mark)
    if vm.detail is None or not held:
        return vm
    for other in held:
        mark = mark.replace(other, word)
    settings = {**vm.detail.extra_config, GUEST_MARK_KEY: mark}
    return vm.model_copy(update={"detail": vm.detail.model_copy(update={"extra_config": settings})})
