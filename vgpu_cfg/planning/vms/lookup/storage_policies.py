"""The storage policies of a plan's VM, their meaning in this vCenter, and the matching datastores.

Belief: policy-of-a-running-gpu-vm, encryption-policy-needs-a-key-provider.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.observed.inventory import Datastore, StoragePolicy
from vgpu_cfg.model.observed.vm import VmDetail
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.estate.site import Site
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings

_READ = "grant the account Profile-driven storage > View (StorageProfile.View) on the vCenter"
_READ += "; recordings contain no storage policies"


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
