"""The template of a content library's item in the inventory, and why one cannot be cloned.

Only items that are VM templates can: their content is read as of any template, so that a plan knows it. The
content of an OVF is known only when a vCenter deploys it.
"""

from __future__ import annotations

from dataclasses import dataclass

from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.desired import TemplateSource
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.libraries import VM_TEMPLATE, LibraryItem
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.findings.codes import Code


@dataclass(frozen=True, slots=True)
class LibraryObjection:
    """Why no template comes of an item: a finding of this code."""

    code: Code
    message: str
    remedy: str


def template_of_library(
    source: TemplateSource, observed: Inventory
) -> tuple[Vm | None, LibraryObjection | None]:
    """Return the template that a source of a content library is, or why there is none."""
    wanted = (source.library or "", source.path_or_name)
    known = {(one.library, one.name): one for one in observed.library_items or ()}
    item = known.get(wanted)
    if item is None:
        message = f"cannot determine whether the library item {source} exists"
        remedy = "recordings do not include content libraries; plan against the vCenter"
        return None, LibraryObjection(Code.LIBRARIES_NOT_READ, message, remedy)
    template = observed.vm_by_moid.get(item.template_moid or "")
    if template is not None and item.count == 1:
        return template, None
    return None, _objection(item)


def _objection(item: LibraryItem) -> LibraryObjection:
    if not item.has_library:
        remedy = did_you_mean(item.library, item.others, noun="libraries") or (
            "run `govc library.ls` to list them"
        )
        message = f"content library {item.library!r} not found"
        return LibraryObjection(Code.LIBRARY_ITEM_ABSENT, message, remedy)
    if not item.kind:
        remedy = did_you_mean(item.name, item.others, noun="items") or (
            "run `govc library.ls` to list the libraries"
        )
        message = f"item {item.name!r} not found in content library {item.library}"
        return LibraryObjection(Code.LIBRARY_ITEM_ABSENT, message, remedy)
    if item.count > 1:
        message = f"{item.count} items are named {item.name!r} in content libraries named {item.library!r}"
        return LibraryObjection(Code.LIBRARY_ITEM_ABSENT, message, "rename one of the libraries")
    if item.kind != VM_TEMPLATE:
        message = (
            f"item {item.library}/{item.name} is of type {item.kind}, so the hardware of its VMs is "
            "unknown until they are deployed"
        )
        remedy = (
            "deploy it once, clone that VM to the library as a VM template (or convert it to a template), "
            "and specify that template"
        )
        return LibraryObjection(Code.LIBRARY_ITEM_NO_TEMPLATE, message, remedy)
    message = f"the VM template of item {item.library}/{item.name} could not be read"
    remedy = "grant the account read access to it in the inventory, or use a template from the inventory"
    return LibraryObjection(Code.LIBRARY_ITEM_NO_TEMPLATE, message, remedy)
