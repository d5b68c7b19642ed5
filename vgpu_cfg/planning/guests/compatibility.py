"""Compatibility of a VM's guest driver, CUDA, NCCL and image with its host's driver, today and at another.

Each verdict names its source; what no document that was read says is unknown, with what to ask.

Belief: guests-of-old-branches, guests-of-other-branches, dls-and-operator-of-a-branch,
new-drivers-run-old-cuda.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.catalog.board import Board
from vgpu_cfg.catalog.version_pairs import (
    DatedFact,
    Effect,
    VersionRow,
    contents_of,
    load_driver_branches,
    load_version_pairs,
    version_pair,
)
from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.guest_looks import BranchVerdict, FitsBranch, StackPart, VmStack
from vgpu_cfg.model.guests.modules import CudaModule, DriverModule, branch_of_package
from vgpu_cfg.model.guests.training_modules import ImageModule
from vgpu_cfg.model.plan_file.entries import GpuEntry
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.guests.drivers import guest_branches, is_unknown, is_unproven
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
            f"{image.image} includes NCCL {contents.nccl} or later, which requires unified memory on vGPUs; "
            "without it, training fails at startup with 'operation not supported'"
        )
        findings.add_vm(Code.NCCL_NEEDS_UVM, vm, message, _uvm_remedy(vgpus))
    if contents.cuda:
        _check_boards(vm, vgpus, f"{image.image} with CUDA {contents.cuda}", contents.cuda, findings)
    branch, who = _branch_of(update.spec.get(DriverModule), host_branch)
    least = least_driver(contents.cuda) if contents.cuda else None
    if branch is not None and least is not None and branch < least:
        message = (
            f"{image.image} includes CUDA {contents.cuda} or later, which requires driver branch {least} or "
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
        message = f"{what} does not contain code for its GPUs (CUDA releases for {'; '.join(needed)})"
        findings.add_vm(
            Code.CUDA_WITHOUT_BOARD, vm, message, "use a release that supports these GPUs, or use other GPUs"
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


_NOTES = "the release notes for that vGPU software release, chapter 1.2"
_LIST = "NVIDIA's list of GPUs supported by vGPU software"
_DLS = "the DLS release notes, Licensed Client Support; not documented for the cloud service (CLS)"
_OPERATOR = "the version of the cluster's gpu-operator, and the drivers listed on its Platform Support page"
_VERSIONS = "CUDA_VERSION, NCCL_VERSION and the framework's version inside the image"


@dataclass(frozen=True, slots=True)
class StackFacts:
    """The facts found on one VM's stack; "" if unknown.

    `boards` are its host's GPUs that serve vGPUs, each with the name that the host shows. `image` is the
    container image that it trains with, `licence` the state of its vGPUs' license as the guest prints it.
    `lacks_uvm` is whether a vGPU has no unified memory.
    """

    vm: str
    host: str
    host_driver: str = ""
    host_branch: str = ""
    boards: tuple[tuple[str, Board | None], ...] = ()
    has_vgpus: bool = True
    lacks_uvm: bool = False
    guest_driver: str = ""
    guest_branch: str = ""
    licence: str = ""
    image: str = ""
    cuda: str = ""
    nccl: str = ""
    framework: str = ""
    unread: str = ""


def stack_of(facts: StackFacts, target: str) -> VmStack:
    """Judge one VM's stack with its host's present driver, and with one of branch `target`."""
    branches = (facts.host_branch, target)
    parts = [
        StackPart(
            name="host driver",
            found=facts.host_driver,
            today=_host(facts, facts.host_branch),
            target=_host(facts, target),
        ),
        _part("guest driver", facts.guest_driver, [_guest(facts, branch) for branch in branches]),
    ]
    if facts.has_vgpus:
        seen = BranchVerdict(
            fits=FitsBranch.YES, why="the guest is licensed", source="nvidia-smi -q in the guest"
        )
        is_licensed = facts.licence.startswith("Licensed")
        today = seen if is_licensed else _licence(facts.host_branch)
        parts.append(_part("license server", facts.licence, [today, _licence(target)]))
    if facts.image:
        # Inside the guest it is the guest's driver that CUDA needs: the one of today, then the one to come.
        coming = facts.guest_branch if _guest(facts, target).fits is not FitsBranch.NO else target
        drivers = (facts.guest_branch, coming)
        cuda, nccl = facts.cuda, facts.nccl
        by_tag = contents_of(facts.image)
        shown = [
            found or f"{tag} or later, based on its tag" if found or tag else ""
            for found, tag in ((cuda, by_tag.cuda), (nccl, by_tag.nccl))
        ]
        cuda, nccl = cuda or by_tag.cuda, nccl or by_tag.nccl
        parts += [
            _part("image CUDA", shown[0], [_cuda(cuda, one) for one in drivers]),
            _part("image NCCL", shown[1], [_nccl(facts, nccl, cuda, one) for one in drivers]),
            _part("framework", facts.framework, [_with_cuda(facts.framework, cuda, one) for one in drivers]),
        ]
    parts.append(_part("gpu-operator", "", [_operator(branch) for branch in branches]))
    return VmStack(
        vm=facts.vm, host=facts.host, parts=tuple(parts), order=_order(facts, target), unread=facts.unread
    )


def about_branch(number: str) -> tuple[str, ...]:
    """Describe a branch, a line each: its release, its kind, its dates, the guests it accepts."""
    known = load_driver_branches()
    branch = known.find(number)
    if branch is None:
        return (
            f"R{number} is not a documented branch of vGPU software; see {_NOTES}.",
            f"Known branches: R{', R'.join(one.number for one in known.branches)}.",
        )
    takes = ", ".join(
        f"{one} (unconfirmed)" if is_unproven(number, one) else one for one in guest_branches(number)
    )
    return (
        f"R{number} is vGPU {branch.release}, a {branch.kind} ({branch.sources['release']}).",
        f"Released {_dated(branch.released)}; end of life {_dated(branch.end_of_life)}.",
        f"It supports guest drivers from {takes} ({known.rule}).",
    )


def _dated(fact: DatedFact | None) -> str:
    return f"{fact.date} ({fact.source})" if fact is not None else "unknown"


def _part(name: str, found: str, verdicts: list[BranchVerdict]) -> StackPart:
    today, target = verdicts
    return StackPart(name=name, found=found, today=today, target=target)


def _unknown(why: str, ask: str) -> BranchVerdict:
    return BranchVerdict(fits=FitsBranch.UNKNOWN, why=why, ask=ask)


def _host(facts: StackFacts, number: str) -> BranchVerdict:
    """Judge whether a branch serves the host's boards: documents name dropped boards, not all it keeps."""
    known = load_driver_branches()
    branch = known.find(number)
    if not number:
        return _unknown("the host's driver is unknown", "esxcli software vib list on the host")
    if branch is None:
        return _unknown(f"R{number} is not documented", _NOTES)
    for name, board in facts.boards if facts.has_vgpus else ():
        end = known.end_of(board, name)
        if end is not None and branch.release > end.release:
            why = (
                f"vGPU {end.release} was the last release to support the "
                f"{(board.key if board is not None else name)}"
            )
            return BranchVerdict(fits=FitsBranch.NO, why=why, source=end.source)
    if number == facts.host_branch:
        return BranchVerdict(fits=FitsBranch.YES, why="installed", source="the host's list of VIBs")
    boards = ", ".join(dict.fromkeys(board.key if board else name for name, board in facts.boards))
    return _unknown(
        f"NVIDIA's documents do not state that {boards or 'its boards'} lost support before vGPU "
        f"{branch.release}",
        _LIST,
    )


def _guest(facts: StackFacts, number: str) -> BranchVerdict:
    guest = facts.guest_branch
    if not facts.has_vgpus:
        why = "its GPUs are in passthrough mode, so any guest driver is compatible"
        return BranchVerdict(fits=FitsBranch.YES, why=why, source=load_driver_branches().rule)
    if not guest:
        return _unknown("the guest's driver is unknown", "nvidia-smi in the guest")
    takes = guest_branches(number)
    if not takes or is_unknown(guest) or is_unproven(number, guest):
        why = f"R{guest} guest drivers on R{number or '?'} hosts are not documented"
        return _unknown(why, _NOTES)
    rule = load_driver_branches().rule
    if guest in takes:
        return BranchVerdict(fits=FitsBranch.YES, why=f"R{number} supports R{guest}", source=rule)
    return BranchVerdict(fits=FitsBranch.NO, why=f"R{number} supports R{', R'.join(takes)}", source=rule)


def _licence(number: str) -> BranchVerdict:
    servers = load_driver_branches().licence_servers
    which = f"the DLS version is not documented for R{number or '?'}"
    why = f"{which}; {servers.note} ({servers.source})"
    return _unknown(why, _DLS)


def _cuda(cuda: str, guest: str) -> BranchVerdict:
    pair = version_pair("CUDA", Effect.REQUIRES, "guest driver")
    row = pair.at(cuda) if cuda else None
    if not guest:
        return _unknown("the guest's driver is unknown", "nvidia-smi in the guest")
    if row is None:
        why = f"the driver for CUDA {cuda} is not documented" if cuda else "its CUDA version is unknown"
        return _unknown(why, _VERSIONS)
    fits = FitsBranch.YES if row.accepts(guest) else FitsBranch.NO
    why = f"CUDA {row.since} requires a guest driver of R{row.needs} or later; the guest has R{guest}"
    return BranchVerdict(fits=fits, why=why, source=pair.source)


def _nccl(facts: StackFacts, nccl: str, cuda: str, guest: str) -> BranchVerdict:
    """Judge the image's NCCL: by the vGPUs' unified memory, then by the CUDA it comes with."""
    if facts.has_vgpus and facts.lacks_uvm and nccl_needs_uvm(nccl):
        pair = version_pair("NCCL", Effect.REQUIRES, "unified memory")
        why = f"NCCL {pair.rows[0].since} and later require unified memory on vGPUs; set `uvm: true`"
        return BranchVerdict(fits=FitsBranch.NO, why=why, source=pair.source)
    return _with_cuda(nccl, cuda, guest)


def _with_cuda(found: str, cuda: str, guest: str) -> BranchVerdict:
    """Judge the image's CUDA, and its requirements."""
    if not found:
        return _unknown("the version is unknown", _VERSIONS)
    verdict = _cuda(cuda, guest)
    return verdict.model_copy(update={"why": f"included with the image's CUDA: {verdict.why}"})


def _operator(number: str) -> BranchVerdict:
    """Judge nothing if the operator's version is unknown: only list the versions with the branch."""
    pair = version_pair("gpu-operator", Effect.TESTED_WITH, "NVIDIA driver")
    listing = [row for row in pair.rows if number and row.accepts(number)]
    known = "; ".join(f"{row.since} supports R{number} ({pair.source})" for row in listing)
    return _unknown(known or f"no known version supports R{number or '?'}", _OPERATOR)


def _order(facts: StackFacts, target: str) -> tuple[str, ...]:
    """Return the order in which host and guest are upgraded, if the rule defines it."""
    if not facts.has_vgpus or not facts.guest_branch or not guest_branches(target):
        return ()
    verdict = _guest(facts, target)
    if verdict.fits is FitsBranch.YES:
        return (
            f"upgrade the host first: R{target} supports the guest's R{facts.guest_branch}",
            f"then upgrade the guest to R{target}",
        )
    before = [one for one in guest_branches(facts.host_branch) if not is_unproven(facts.host_branch, one)]
    after = [one for one in guest_branches(target) if not is_unproven(target, one)]
    both = [one for one in before if one in after]
    if not both:
        return (
            (
                f"no guest driver is compatible with both R{facts.host_branch or '?'} and R{target}; use "
                "an intermediate branch"
            ),
        )
    return (
        f"upgrade the guest first, to R{both[0]}, which R{facts.host_branch} and R{target} both support",
        f"then upgrade the host to R{target}",
    )
