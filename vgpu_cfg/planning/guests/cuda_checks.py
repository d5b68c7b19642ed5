"""Compatibility of CUDA and NCCL, in a guest's toolkit or image, with its driver and its vGPUs.

Belief: new-drivers-run-old-cuda.
"""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.catalog.version_pairs import Effect, VersionRow, contents_of, load_version_pairs, version_pair
from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.guests.modules import CudaModule, DriverModule, branch_of_package
from vgpu_cfg.model.guests.training_modules import ImageModule
from vgpu_cfg.model.plan_file.entries import GpuEntry
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.guests.drivers import guest_branches
from vgpu_cfg.planning.guests.stage import GuestUpdate
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm


def check_cuda(resolved: ResolvedVm, update: GuestUpdate, host_branch: str, findings: Findings) -> None:
    """Compare the toolkit with the guest's driver, or with the newest that its host takes."""
    cuda, driver = update.spec.get(CudaModule), update.spec.get(DriverModule)
    if cuda is None:
        return
    vm, version = resolved.desired, cuda.version
    vgpus = [gpu for gpu in resolved.gpus if gpu.kind == "vgpu"]
    _check_boards(vm, vgpus, f"CUDA {version}", version, findings)
    branch, who = _branch_of(driver, host_branch if vgpus else "")
    least, own = least_driver(version), _own_driver(version)
    if branch is not None and least is not None and branch < least:
        message = f"CUDA {version} requires driver branch {least} or later, but {who} is {branch}"
        remedy = "use an earlier toolkit release in `guest.cuda`, or a later driver in `guest.driver`"
        findings.refuse_vm(Code.CUDA_DRIVER_OLD, vm, message, remedy)
    elif own is None:
        message = f"the driver that CUDA {version} requires is unknown: the release is not in the catalog"
        remedy = (
            f"check whether the package cuda-toolkit-{version.replace('.', '-')} exists, and which driver "
            "it requires"
        )
        findings.add_vm(Code.CUDA_DRIVER_UNPROVEN, vm, message, remedy)
    elif branch is not None and branch < own:
        message = (
            f"CUDA {version} was released with driver {own}, but {who} is {branch}: code compiled for the "
            "GPU runs, but PTX code from this release does not"
        )
        remedy = f"compile for the GPU's own architecture, or use a release up to {_newest(branch)}"
        findings.add_vm(Code.CUDA_DRIVER_UNPROVEN, vm, message, remedy)


def check_image(resolved: ResolvedVm, update: GuestUpdate, host_branch: str, findings: Findings) -> None:
    """Compare a container image, by its tag, with the guest's driver and its vGPUs."""
    image = update.spec.get(ImageModule)
    vgpus = [gpu for gpu in resolved.gpus if gpu.kind == "vgpu"]
    if image is None or not vgpus:
        return
    vm, contents = resolved.desired, contents_of(image.image)
    if nccl_needs_uvm(contents.nccl) and not all(gpu.uvm for gpu in vgpus):
        message = (
            f"{image.image} has NCCL {contents.nccl} or later, which requires unified memory on vGPUs; "
            "without it, training fails at startup with 'operation not supported'"
        )
        findings.add_vm(Code.NCCL_NEEDS_UVM, vm, message, _uvm_remedy(vgpus))
    if contents.cuda:
        _check_boards(vm, vgpus, f"{image.image} with CUDA {contents.cuda}", contents.cuda, findings)
    branch, who = _branch_of(update.spec.get(DriverModule), host_branch)
    least = least_driver(contents.cuda) if contents.cuda else None
    if branch is not None and least is not None and branch < least:
        message = (
            f"{image.image} has CUDA {contents.cuda} or later, which requires driver branch {least} or "
            f"later, but {who} is {branch}; forward compatibility is not documented for vGPUs"
        )
        remedy = "use an earlier image, or a later driver in `guest.driver` and on the host"
        findings.add_vm(Code.IMAGE_DRIVER_OLD, vm, message, remedy)


def _check_boards(
    vm: DesiredVm, vgpus: Sequence[GpuEntry], what: str, version: str, findings: Findings
) -> None:
    """Report a CUDA release that contains no code for the architecture of any board of a VM's profiles."""
    catalog = load_catalog()
    boards = {one.board for gpu in vgpus for name in gpu.profile for one in catalog.by_profile(name.name)}
    rows = {board.architecture: _cuda_of(board.architecture) for board in boards}
    needed = sorted(f"{one}: {_span(row)}" for one, row in rows.items() if row and not row.accepts(version))
    if needed and len(needed) == len(rows):
        message = f"{what} contains no code for its GPUs (CUDA releases for {'; '.join(needed)})"
        findings.add_vm(
            Code.CUDA_WITHOUT_BOARD, vm, message, "use a release that supports them, or other GPUs"
        )


def _cuda_of(architecture: str) -> VersionRow | None:
    """Return the CUDA releases that have code for an architecture, None if unknown."""
    pairs = (one for one in load_version_pairs() if (one.what, one.other) == (f"{architecture} GPU", "CUDA"))
    return next((one.rows[0] for one in pairs), None)


def _span(row: VersionRow) -> str:
    return f"{row.needs} to {row.needs_until}" if row.needs_until else f"{row.needs} or later"


def nccl_needs_uvm(version: str) -> bool:
    """Whether an NCCL of this version requires unified memory on vGPUs; "" is unknown and does not."""
    return bool(version) and version_pair("NCCL", Effect.REQUIRES, "unified memory").at(version) is not None


def _uvm_remedy(vgpus: Sequence[GpuEntry]) -> str:
    """Return the way to unified memory, or around it where the vGPUs cannot have it."""
    first = version_pair("NCCL", Effect.REQUIRES, "unified memory").rows[0].since
    older = f"use an image with NCCL earlier than {first}"
    catalog = load_catalog()
    entries = [one for gpu in vgpus for name in gpu.profile for one in catalog.by_profile(name.name)]
    if any(one.mig is None and not one.is_full_framebuffer for one in entries):
        return f"use full-framebuffer or MIG-backed profiles with `uvm: true`, or {older}"
    if len(vgpus) > 1 and any(one.loses_p2p_by_uvm for one in entries):
        return f"{older}; or set `uvm: true` on its `gpus`, which then cannot use NVLink"
    return f"set `uvm: true` on its `gpus`, which prevents vMotion; or {older}"


def least_driver(version: str) -> int | None:
    """Return the driver branch below which nothing of a CUDA release runs, None if unknown."""
    row = version_pair("CUDA", Effect.REQUIRES, "guest driver").at(version)
    return int(row.needs) if row is not None else None


def release_before(version: str) -> str:
    """Return the newest release of an older major one, "" where none is known."""
    major = int(version.partition(".")[0])
    older = [row.since for row in _releases() if int(row.since.partition(".")[0]) < major]
    return older[-1] if older else ""


def _own_driver(version: str) -> int | None:
    """Return the driver branch that a CUDA release came with, None if unknown."""
    row = version_pair("CUDA", Effect.RELEASED_WITH, "guest driver").at(version)
    return int(row.needs) if row is not None else None


def _branch_of(driver: DriverModule | None, host_branch: str) -> tuple[int | None, str]:
    """Return the branch that the guest's driver has at best, and what that is; None if it is not known."""
    if driver is None:
        return None, ""
    named = branch_of_package(driver.package)
    if named:
        return int(named), "the guest's driver"
    taken = [int(one) for one in driver.branches or guest_branches(host_branch) if one.isdecimal()]
    return (max(taken), "the newest branch that its host supports") if taken else (None, "")


def _newest(branch: int) -> str:
    """Return the newest release whose own driver is no newer than a branch."""
    return [row.since for row in _releases() if int(row.needs) <= branch][-1]


def _releases() -> tuple[VersionRow, ...]:
    return version_pair("CUDA", Effect.RELEASED_WITH, "guest driver").rows
