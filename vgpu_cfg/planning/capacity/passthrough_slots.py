"""Which passed-through device satisfies which Dynamic DirectPath request, and whether all get one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import product

from vgpu_cfg.model.plan_file import DeviceEntry
from vgpu_cfg.planning.capacity.host_capacity import PassthroughSlot


def match_slots(free: Sequence[PassthroughSlot], needs: Sequence[DeviceEntry]) -> tuple[str, ...] | None:
    """Give every Dynamic DirectPath request a function of its own (augmenting paths), None where none can."""
    taken: dict[str, int] = {}

    def settle(number: int, tried: set[str]) -> bool:
        for slot in free:
            address = slot.pci.pci_id
            if address not in tried and is_match(slot, needs[number]):
                tried.add(address)
                if address not in taken or settle(taken[address], tried):
                    taken[address] = number
                    return True
        return False

    if not all(settle(number, set()) for number in range(len(needs))):
        return None
    by_number = {number: address for address, number in taken.items()}
    return tuple(by_number[number] for number in range(len(needs)))


def alike(free: Sequence[PassthroughSlot], needs: Sequence[DeviceEntry]) -> list[tuple[DeviceEntry, ...]]:
    """List the ways to give a need that is asked for several times boards of one kind: it names their IDs.

    One name can fit two boards, such as A100 with 40 and 80 GB. If none has enough, the needs are unchanged.
    """
    repeated = [need for need, count in Counter(needs).items() if count > 1 and need.device_id is None]
    options = [
        [ids for ids in dict.fromkeys(map(ids_of, free)) if _has(free, need, ids)] for need in repeated
    ]
    ways: list[tuple[DeviceEntry, ...]] = []
    for chosen in product(*options):
        to = dict(zip(repeated, chosen, strict=True))
        way = tuple(need.model_copy(update={"device_id": to.get(need, need.device_id)}) for need in needs)
        if match_slots(free, way) is not None:
            ways.append(way)
    return ways or [tuple(needs)]


def unlike(slots: Sequence[PassthroughSlot], needs: Sequence[DeviceEntry], chosen: Collection[str]) -> int:
    """Count the kinds of boards, beyond the first, that needs asked for several times get by a choice."""
    repeated = (need for need, count in Counter(needs).items() if count > 1)
    return sum(len(allowed_ids(slots, need, chosen)) - 1 for need in repeated)


def ids_of(slot: PassthroughSlot) -> tuple[int, int]:
    """Return the IDs by which Dynamic DirectPath I/O knows a device."""
    return slot.pci.vendor_id, slot.pci.device_id


def allowed_ids(
    slots: Sequence[PassthroughSlot], need: DeviceEntry, chosen: Collection[str]
) -> set[tuple[int, int]]:
    """Return the IDs that a request names: those of the chosen boards, else of all that fit."""
    fitting = [slot for slot in slots if is_match(slot, need)]
    return {ids_of(slot) for slot in fitting if slot.pci.pci_id in chosen} or set(map(ids_of, fitting))


def _has(free: Sequence[PassthroughSlot], need: DeviceEntry, ids: tuple[int, int]) -> bool:
    return any(ids_of(slot) == ids and is_match(slot, need) for slot in free)


def is_match(slot: PassthroughSlot, need: DeviceEntry) -> bool:
    """Whether a device matches a Dynamic DirectPath request for a GPU."""
    pci = slot.pci
    if slot.is_nic:
        return False
    if need.label is not None and pci.hardware_label != need.label:
        return False
    if need.device_id is not None and (pci.vendor_id, pci.device_id) != need.device_id:
        return False
    if need.model is not None:
        names = (pci.device_name, *(slot.board.names if slot.board else ()))
        return any(need.model.casefold() in name.casefold() for name in names)
    return True
