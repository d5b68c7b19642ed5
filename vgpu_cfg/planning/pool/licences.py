"""Licenses for vGPUs: how many are needed now and after a plan, compared with the number that a site states.

Sources: NVIDIA AI Enterprise, "vGPU for Compute Licensing" (one license for each C-series vGPU of a VM,
enforced by software); Virtual GPU Client Licensing User Guide (products and series); vGPU packaging guide
(vWS, vPC and vApps: one per VM that runs). A GPU in passthrough does not show its product and is not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.reservations import LicencePool, Quotas
from vgpu_cfg.model.wording import as_counted, counted
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.pool.quotas import Holdings, HoldingVm

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
    return tuple(_use(pool, holdings, observed) for one in quotas for pool in one.licences)


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
            message = (
                f"{then.need} would be needed; {then.has}; {now.needed} now{now.by}, "
                f"{then.needed - now.needed} more with this plan, for {_named(ours)}"
            )
            remedy = (
                "start fewer VMs, or buy licenses and raise the number; unlicensed vGPUs run at "
                "reduced performance"
            )
            findings.add(Code.LICENCES_EXCEEDED, subject, message, remedy)
        elif ours:
            message = f"{then.need} needed{then.by}; {then.has}"
            remedy = (
                "power off some, or buy licenses and raise the number; unlicensed vGPUs run at "
                "reduced performance"
            )
            findings.add(Code.LICENCES_EXCEEDED_ALREADY, subject, message, remedy)


def _use(pool: LicencePool, holdings: Iterable[HoldingVm], observed: Inventory) -> LicenceUse:
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


def _named(names: Iterable[str]) -> str:
    return fold_names(sorted(names, key=as_counted))
