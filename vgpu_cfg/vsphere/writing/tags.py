"""How tags are given to a VM and taken from it: several in one call, which says what it did not do."""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.errors import VCenterError
from vgpu_cfg.model.observed.tags import VM_TYPE
from vgpu_cfg.vsphere.reading.tags import ASSOCIATIONS
from vgpu_cfg.vsphere.wire.session import Session


def set_vm_tags(session: Session, vm_moid: str, detach: Sequence[str], attach: Sequence[str]) -> None:
    """Take tags from a VM, then give it others, by their ids; a round trip each where there are any.

    Nothing is done about a tag that the VM has not, or has already (vSphere Automation API, TagAssociation).
    """
    for action, ids in (
        ("detach-multiple-tags-from-object", detach),
        ("attach-multiple-tags-to-object", attach),
    ):
        if ids:
            _change(session, vm_moid, action, ids)


def _change(session: Session, vm_moid: str, action: str, ids: Sequence[str]) -> None:
    what = f"{action.partition('-')[0]}ing tags, {vm_moid}"
    body = {"object_id": {"type": VM_TYPE, "id": vm_moid}, "tag_ids": list(ids)}
    found = session.rest.act(ASSOCIATIONS, action, body, what)
    if isinstance(found, dict) and found.get("success") is False:
        messages = found.get("error_messages") or ()
        said = " ".join(str(one.get("default_message") or "") for one in messages if isinstance(one, dict))
        raise VCenterError(
            f"{what}: {said or 'vCenter did not do it for every tag'}",
            subject=vm_moid,
            remedy="see that the tags are still there and that the account may assign them; then plan again",
        )
