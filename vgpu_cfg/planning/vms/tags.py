"""Which tags a VM is given and which are taken from it, and why a tag that is asked for cannot be given.

Only the categories that the plan file names are compared. Neither a tag nor a category is ever made: a name
that is not there is more likely mistyped than wanted.

Belief: clone-has-no-tags, clone-and-attributes.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from vgpu_cfg.changes.values import Edit
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.observed.own_items import Tag, TagCategory
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.vms.lookup.placed import PlacedVm
from vgpu_cfg.planning.vms.settings.edits import TagEdit


def compare_tags(vm: PlacedVm) -> Iterator[TagEdit]:
    """Yield, by category, a VM's missing and excess tags, compared with the plan file; a new VM has none.

    A missing category or tag is reported by `check_tags`, and nothing is done in its category.
    """
    found = {} if vm.is_new else vm.base.tags
    if found is None or vm.tag_categories is None:
        return
    categories = {one.name: one for one in vm.tag_categories}
    for name, wanted in _asked(vm):
        category = categories.get(name)
        tags = [category.tag(tag) for tag in wanted] if category is not None else []
        if category is None or None in tags:
            continue
        had = found.get(name, ())
        detach = tuple(tag for tag in category.tags if tag.name in had and tag.name not in wanted)
        attach = tuple(tag for tag in tags if tag is not None and tag.name not in had)
        if detach or attach:
            yield tag_edit(name, had, wanted, detach, attach)


def tag_edit(
    category: str,
    before: Sequence[str],
    after: Sequence[str],
    detach: tuple[Tag, ...],
    attach: tuple[Tag, ...],
) -> TagEdit:
    """Return the edit of a VM's tags of one category: before, after, and which ids are sent for it."""
    sets = {f"detach[{tag.id}]": tag.id for tag in detach} | {f"attach[{tag.id}]": tag.id for tag in attach}
    edit = Edit(key=category, before=", ".join(before) or None, after=", ".join(after) or None, sets=sets)
    return TagEdit(edit=edit, detach=detach, attach=attach)


def check_tags(vm: PlacedVm, findings: Findings) -> None:
    """Say why tags that are asked for cannot be given."""
    asked = list(_asked(vm))
    if not asked:
        return
    if vm.tag_categories is None or (not vm.is_new and vm.base.tags is None):
        message = "its tags could not be read, so they are not compared"
        remedy = "recordings contain no tags; connect to the vCenter and plan again"
        findings.add_vm(Code.TAGS_NOT_READ, vm.desired, message, remedy)
        return
    categories = {one.name: one for one in vm.tag_categories}
    for name, wanted in asked:
        category = categories.get(name)
        if category is None:
            hint = did_you_mean(name, categories, noun="categories")
            message = f"this vCenter has no tag category {name!r}" + (f": {hint}" if hint else "")
            remedy = f"use an existing one, or create it: govc tags.category.create {shlex.quote(name)}"
            findings.refuse_vm(Code.TAG_CATEGORY_ABSENT, vm.desired, message, remedy)
            continue
        _check_category(vm, category, wanted, findings)


def _check_category(vm: PlacedVm, category: TagCategory, wanted: tuple[str, ...], findings: Findings) -> None:
    name = category.name
    for absent in (tag for tag in wanted if category.tag(tag) is None):
        hint = did_you_mean(absent, (tag.name for tag in category.tags), noun="tags")
        message = f"the category {name} has no tag {absent!r}" + (f": {hint}" if hint else "")
        words = shlex.join(["tags.create", "-c", name, absent])
        remedy = f"use an existing one, or create it: govc {words}"
        findings.refuse_vm(Code.TAG_ABSENT, vm.desired, message, remedy)
    if category.is_single and len(wanted) > 1:
        message = (
            f"{listed(wanted)} are requested, but an object can have only one tag from the category {name}"
        )
        findings.refuse_vm(Code.TAG_CATEGORY_SINGLE, vm.desired, message, "use only one of them")
    if wanted and not category.is_for_vms:
        message = f"tags in the category {name} apply to {listed(sorted(category.types))}, not to VMs"
        remedy = "use a category that applies to VMs, or extend this one to VMs"
        findings.refuse_vm(Code.TAG_CATEGORY_OF_OTHERS, vm.desired, message, remedy)


def _asked(vm: PlacedVm) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each category that the plan file names, and its wanted tags of the VM, each once."""
    for name, wanted in sorted((vm.desired.tags or {}).items()) if vm.manages("tags") else ():
        yield name, tuple(sorted(dict.fromkeys(wanted)))
