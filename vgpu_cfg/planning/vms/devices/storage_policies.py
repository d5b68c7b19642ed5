"""Which edits give a VM's home and its disks the storage policies that the plan file names.

A running VM takes them; on vSAN its objects are then written anew, which takes time and space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vgpu_cfg.changes.kinds.vm_spec import PolicyRef, SetDiskPolicy, VmSpec, policy_leaves
from vgpu_cfg.changes.values import Edit
from vgpu_cfg.model.desired import DesiredDisk
from vgpu_cfg.model.observed.inventory import StoragePolicy
from vgpu_cfg.planning.vms.lookup.placed import PlacedVm
from vgpu_cfg.planning.vms.settings.edits import VmEdit
from vgpu_cfg.planning.vms.settings.setting import Topic

KEY = "storage policy"


def policy_of(vm: PlacedVm, disk: DesiredDisk | None) -> PolicyRef | None:
    """Return the policy that a disk shall have: its own, else the VM's; None where none is asked for."""
    own = disk.storage_policy if disk is not None else None
    asked = own or (vm.desired.storage_policy if vm.manages("storage_policy") else None)
    found = vm.resolved.policies.get(asked or "")
    return None if found is None else PolicyRef(id=found.id, name=found.name)


def compare_policies(vm: PlacedVm, disks: Mapping[int, DesiredDisk | None]) -> Iterator[VmEdit]:
    """Yield the edits of the home and of `disks`: those that are there, by their keys, with their entries.

    What a template has is nobody's business: a clone gets what is asked for.
    """
    known = {one.id: one for one in vm.resolved.known_policies}
    held = {} if vm.is_new else {disk.key: disk.policy for disk in vm.base.disks}
    wanted = policy_of(vm, None)
    if wanted is not None and (vm.is_new or vm.base.home_policy != wanted.id):
        before = None if vm.is_new else _name(vm.base.home_policy, known)
        yield home_edit(before, wanted, is_clone=vm.is_new and not vm.is_scratch)
    for key, entry in sorted(disks.items()):
        policy = policy_of(vm, entry)
        found = held.get(key)
        if policy is not None and policy.id != found:
            store = vm.resolved.datastore if vm.is_new else None
            yield disk_edit(key, _name(found, known), policy, copied_to=store.moid if store else "")


def home_edit(before: str | None, policy: PolicyRef, *, is_clone: bool = False) -> VmEdit:
    """Return the edit of the home's policy."""
    sets = policy_leaves("", policy, "location.profile" if is_clone else "vmProfile")
    edit = Edit(key=KEY, before=before, after=policy.name, note="home", sets=sets)
    return VmEdit(topic=Topic.DISK, edit=edit, spec=VmSpec(home_policy=policy), is_live=True)


def disk_edit(key: int, before: str | None, policy: PolicyRef, *, copied_to: str = "") -> VmEdit:
    """Return the edit of a disk's policy; of a clone it goes with the datastore that its copy goes to."""
    sets = policy_leaves(f"deviceChange[{key}]", policy)
    if copied_to:
        at = f"location.disk[{key}]"
        sets = {f"{at}.diskId": str(key), f"{at}.datastore": copied_to, **policy_leaves(at, policy)}
    edit = Edit(key=KEY, before=before, after=policy.name, note=f"disk {key}", sets=sets)
    spec = VmSpec(devices=(SetDiskPolicy(key=key, policy=policy),))
    return VmEdit(topic=Topic.DISK, edit=edit, spec=spec, is_live=True)


def _name(policy_id: str | None, known: Mapping[str, StoragePolicy]) -> str | None:
    """Return how a policy is called, its id where nobody knows it any more; None for none."""
    found = known.get(policy_id or "")
    return policy_id or None if found is None else found.name
