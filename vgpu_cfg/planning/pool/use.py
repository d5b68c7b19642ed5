"""The use of GPUs and its users. Counters are of GPUs: a VM's are known if it has its own.

Of a GPU that several share, the counters bound each: none uses more of it than all of them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpu_cfg.model.choices import UseBy
from vgpu_cfg.model.observed.gpu_use import PastUse
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm

if TYPE_CHECKING:
    from vgpu_cfg.planning.pool.gpus import PooledGpu

USE_DAYS = 7.0
"""The default number of days for use; vCenter keeps half hours for a week."""
OWNER_ATTRIBUTE = "owner"
"""The custom attribute that names a VM's owner, in whatever case it is written."""


@dataclass(frozen=True, slots=True)
class UseRow:
    """The use of some GPUs: means in percent, sums in MiB and watts, the highest temperature.

    A value is None if none of the `measured` GPUs reports it. `shared` GPUs are held together with others, so
    that their use cannot be attributed; they count in none of the sums. `unmeasured` counts the rest.
    """

    name: str
    gpus: int
    vms: tuple[str, ...]
    utilization_percent: float | None
    memory_used_mib: int | None
    temperature_celsius: int | None
    power_watts: int | None
    past_percent: float | None
    peak_percent: float | None
    shared: int = 0
    unmeasured: int = 0


def owner_of(vm: Vm) -> str:
    """Return the VM's owner by its custom attribute, else by the product that manages it; empty without."""
    told = vm.detail.attributes if vm.detail else {}
    named = next((value for name, value in told.items() if name.lower() == OWNER_ATTRIBUTE), "")
    return named or (vm.manager.owner if vm.manager is not None else "")


def use_rows(gpus: Sequence[PooledGpu], observed: Inventory, by: UseBy) -> tuple[UseRow, ...]:
    """List the use by GPU, VM, plan or owner, in the order of the GPUs.

    A GPU without a VM has no owner; VMs without a plan or an owner are in a row without a name.
    """
    if by is UseBy.GPU:
        return tuple(_row(f"{gpu.host} {gpu.pci_id}", [gpu]) for gpu in gpus)
    names = _names(observed, by)
    own: dict[str, list[PooledGpu]] = {}
    shared: dict[str, int] = {}
    vms: dict[str, dict[str, None]] = {}
    for gpu in gpus:
        users = {names.get((gpu.host_moid, run.vm), "") for run in gpu.runs}
        for run in gpu.runs:
            name = names.get((gpu.host_moid, run.vm), "")
            vms.setdefault(name, {})[run.vm] = None
            own.setdefault(name, [])
        if len(users) == 1:
            own[users.pop()].append(gpu)
        for name in users if len(users) > 1 else ():
            shared[name] = shared.get(name, 0) + 1
    return tuple(_row(name, held, tuple(vms[name]), shared.get(name, 0)) for name, held in own.items())


def past_of(vm: str, host_moid: str, gpus: Iterable[PooledGpu]) -> tuple[PastUse | None, bool]:
    """Return how busy the busiest of a VM's GPUs was, None where one of them is not measured.

    The flag says whether the VM has all of them alone: else the use is a bound of its own.
    """
    held = [gpu for gpu in gpus if gpu.host_moid == host_moid and any(run.vm == vm for run in gpu.runs)]
    pasts = [gpu.use.past if gpu.use else None for gpu in held]
    told = [past for past in pasts if past is not None]
    is_alone = all(len(gpu.runs) == 1 for gpu in held)
    if not held or len(told) < len(pasts):
        return None, is_alone
    return max(told, key=lambda past: past.average_percent), is_alone


def _names(observed: Inventory, by: UseBy) -> Mapping[tuple[str, str], str]:
    """Return the name of a row by host and VM."""
    found = {}
    for host in observed.hosts:
        for vm in observed.vms_by_host.get(host.moid, ()):
            plan = vm.mark.plan if vm.mark else ""
            name = vm.name if by is UseBy.VM else plan if by is UseBy.PLAN else owner_of(vm)
            found[host.moid, vm.name] = name
    return found


def _row(name: str, gpus: Sequence[PooledGpu], vms: tuple[str, ...] = (), shared: int = 0) -> UseRow:
    told = [gpu.use for gpu in gpus if gpu.use is not None]
    pasts = [use.past for use in told if use.past is not None]
    busy = [one.utilization_percent for one in told if one.utilization_percent is not None]
    memory = [one.memory_used_mib for one in told if one.memory_used_mib is not None]
    warmth = [one.temperature_celsius for one in told if one.temperature_celsius is not None]
    power = [one.power_watts for one in told if one.power_watts is not None]
    return UseRow(
        name=name,
        gpus=len(gpus) + shared,
        vms=vms or tuple(dict.fromkeys(run.vm for gpu in gpus for run in gpu.runs)),
        utilization_percent=round(sum(busy) / len(busy), 2) if busy else None,
        memory_used_mib=sum(memory) if memory else None,
        temperature_celsius=max(warmth, default=None),
        power_watts=sum(power) if power else None,
        past_percent=round(sum(one.average_percent for one in pasts) / len(pasts), 2) if pasts else None,
        peak_percent=max((one.peak_percent for one in pasts), default=None),
        shared=shared,
        unmeasured=len(gpus) - len(told),
    )
