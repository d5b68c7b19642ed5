"""Which passed-through device satisfies which Dynamic DirectPath request, and whether all get one."""

from __future__ import annotations

from collections.abc import Sequence

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
