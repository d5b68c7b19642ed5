"""How what many steps want to see at one moment is read in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpu_cfg.errors import LoginFailed, Unreachable, VCenterError
from vgpu_cfg.execution.run.step import Look, Looked
from vgpu_cfg.ports import InventoryReader


def look_at(reader: InventoryReader, wanted: Sequence[Look]) -> Mapping[Look, Looked | VCenterError]:
    """Read VMs, and which GPUs they hold, in one call; what cannot be read is answered with the error.

    Where the call fails although vCenter answers, each VM is read alone, so that none decides about the
    change of another.
    """
    try:
        return _read(reader, wanted)
    except VCenterError as error:
        if len(wanted) == 1 or isinstance(error, Unreachable | LoginFailed):
            return dict.fromkeys(wanted, error)
    return {one: answer for each in wanted for one, answer in look_at(reader, [each]).items()}


def _read(reader: InventoryReader, wanted: Sequence[Look]) -> dict[Look, Looked | VCenterError]:
    keys = frozenset[str]().union(*(one.keys for one in wanted))
    hosts = dict.fromkeys(one.host_moid for one in wanted if one.host_moid is not None)
    vms, holders = reader.read_vms_and_holders(dict.fromkeys(one.moid for one in wanted), hosts, keys)
    found = {vm.moid: vm for vm in vms}
    return {one: Looked(found.get(one.moid), _held_by(one, holders)) for one in wanted}


def _held_by(one: Look, holders: Mapping[str, Mapping[str, tuple[str, ...]]]) -> tuple[str, ...]:
    if one.host_moid is None:
        return ()
    by_gpu = holders.get(one.host_moid, {})
    return tuple(sorted(pci_id for pci_id, moids in by_gpu.items() if one.moid in moids))
