"""Whether the parts of a VM's stack fit its host's driver, today and at another branch.

Each verdict names its source; what no document that was read says is unknown, with what to ask.
"""

from __future__ import annotations

from dataclasses import dataclass

from vgpu_cfg.catalog.board import Board
from vgpu_cfg.catalog.driver_branches import DatedFact, load_driver_branches
from vgpu_cfg.model.compatibility import BranchVerdict, FitsBranch, StackPart, VmStack
from vgpu_cfg.planning.guests.drivers import guest_branches, is_unknown, is_unproven

_NOTES = "the release notes of that release of vGPU software, chapter 1.2"
_LIST = "NVIDIA's list of GPUs supported by vGPU software"
_DLS = "the release notes of the DLS, Licensed Client Support; nothing for the cloud's service (CLS)"
_OPERATOR = "the version of the cluster's gpu-operator, and the drivers of its page Platform Support"
_VERSIONS = "CUDA_VERSION, NCCL_VERSION and the framework's version inside the image"


@dataclass(frozen=True, slots=True)
class StackFacts:
    """The facts found on one VM's stack; "" if unknown.

    `boards` are its host's GPUs that serve vGPUs, each with the name that the host shows. `image` is the
    container image that it trains with, `licence` the state of its vGPUs' license as the guest prints it.
    """

    vm: str
    host: str
    host_driver: str = ""
    host_branch: str = ""
    boards: tuple[tuple[str, Board | None], ...] = ()
    has_vgpus: bool = True
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
            fits=FitsBranch.YES, why="the guest has its licence", source="nvidia-smi -q in the guest"
        )
        is_licensed = facts.licence.startswith("Licensed")
        today = seen if is_licensed else _licence(facts.host_branch)
        parts.append(_part("licence server", facts.licence, [today, _licence(target)]))
    if facts.image:
        # Inside the guest it is the guest's driver that CUDA needs: the one of today, then the one to come.
        coming = facts.guest_branch if _guest(facts, target).fits is not FitsBranch.NO else target
        drivers = (facts.guest_branch, coming)
        parts += [
            _part("CUDA of the image", facts.cuda, [_cuda(facts.cuda, one) for one in drivers]),
            _part(
                "NCCL of the image", facts.nccl, [_with_cuda(facts.nccl, facts.cuda, one) for one in drivers]
            ),
            _part(
                "framework",
                facts.framework,
                [_with_cuda(facts.framework, facts.cuda, one) for one in drivers],
            ),
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
            f"No document that was read names R{number} as a branch of vGPU software: ask {_NOTES}.",
            f"Known are R{', R'.join(one.number for one in known.branches)}.",
        )
    takes = ", ".join(
        f"{one} (not proven)" if is_unproven(number, one) else one for one in guest_branches(number)
    )
    return (
        f"R{number} is vGPU {branch.release}, a {branch.kind} ({branch.sources['release']}).",
        f"Released {_dated(branch.released)}; end of life {_dated(branch.end_of_life)}.",
        f"It takes guest drivers of {takes} ({known.rule}).",
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
        return _unknown("nothing tells the host's driver", "esxcli software vib list on the host")
    if branch is None:
        return _unknown(f"no document names R{number}", _NOTES)
    for name, board in facts.boards if facts.has_vgpus else ():
        end = known.end_of(board, name)
        if end is not None and branch.release > end.release:
            why = f"vGPU {end.release} was the last to serve the {board.key if board is not None else name}"
            return BranchVerdict(fits=FitsBranch.NO, why=why, source=end.source)
    if number == facts.host_branch:
        return BranchVerdict(fits=FitsBranch.YES, why="it is installed", source="the host's list of VIBs")
    boards = ", ".join(dict.fromkeys(board.key if board else name for name, board in facts.boards))
    return _unknown(
        f"no document that was read ends {boards or 'its boards'} before vGPU {branch.release}", _LIST
    )


def _guest(facts: StackFacts, number: str) -> BranchVerdict:
    guest = facts.guest_branch
    if not facts.has_vgpus:
        why = "its GPUs are handed through whole, so that any driver will do"
        return BranchVerdict(fits=FitsBranch.YES, why=why, source=load_driver_branches().rule)
    if not guest:
        return _unknown("nothing tells the guest's driver", "nvidia-smi in the guest")
    takes = guest_branches(number)
    if not takes or is_unknown(guest) or is_unproven(number, guest):
        why = f"no document that was read puts a guest of R{guest} beside a host of R{number or '?'}"
        return _unknown(why, _NOTES)
    rule = load_driver_branches().rule
    if guest in takes:
        return BranchVerdict(fits=FitsBranch.YES, why=f"R{number} takes R{guest}", source=rule)
    return BranchVerdict(fits=FitsBranch.NO, why=f"R{number} takes R{', R'.join(takes)}", source=rule)


def _licence(number: str) -> BranchVerdict:
    servers = load_driver_branches().licence_servers
    which = f"which version of the DLS serves R{number or '?'} no document says"
    why = f"{which}; {servers.note} ({servers.source})"
    return _unknown(why, _DLS)


def _cuda(cuda: str, guest: str) -> BranchVerdict:
    known = load_driver_branches()
    major = int(cuda.partition(".")[0]) if cuda else None
    floor = next((one for one in known.cuda if one.major == major), None)
    if floor is None or not guest:
        why = (
            "nothing tells the image's CUDA" if not cuda else f"no document names the driver for CUDA {cuda}"
        )
        return _unknown(
            why if guest else "nothing tells the guest's driver",
            _VERSIONS if guest else "nvidia-smi in the guest",
        )
    fits = FitsBranch.YES if int(guest) >= int(floor.branch) else FitsBranch.NO
    why = f"CUDA {major} needs a guest driver of R{floor.branch} or later, beside R{guest}"
    return BranchVerdict(fits=fits, why=why, source=known.cuda_source)


def _with_cuda(found: str, cuda: str, guest: str) -> BranchVerdict:
    """Judge the image's CUDA, and its requirements."""
    if not found:
        return _unknown("nothing tells its version", _VERSIONS)
    verdict = _cuda(cuda, guest)
    return verdict.model_copy(update={"why": f"it comes with the image's CUDA: {verdict.why}"})


def _operator(number: str) -> BranchVerdict:
    """Judge nothing if the operator's version is unknown: only list the versions with the branch."""
    listing = [one for one in load_driver_branches().gpu_operator if number in one.branches]
    known = "; ".join(f"{one.version} lists R{number} ({one.source})" for one in listing)
    return _unknown(known or f"no version that was read about lists R{number or '?'}", _OPERATOR)


def _order(facts: StackFacts, target: str) -> tuple[str, ...]:
    """Return the order in which host and guest are upgraded, if the rule defines it."""
    if not facts.has_vgpus or not facts.guest_branch or not guest_branches(target):
        return ()
    verdict = _guest(facts, target)
    if verdict.fits is FitsBranch.YES:
        return (
            f"the host first: R{target} takes the guest's R{facts.guest_branch}",
            f"then the guest, to R{target}",
        )
    before = [one for one in guest_branches(facts.host_branch) if not is_unproven(facts.host_branch, one)]
    after = [one for one in guest_branches(target) if not is_unproven(target, one)]
    both = [one for one in before if one in after]
    if not both:
        return (
            f"no guest driver goes with both R{facts.host_branch or '?'} and R{target}: by one between them",
        )
    return (
        f"the guest first, to R{both[0]}, which R{facts.host_branch} and R{target} both take",
        f"then the host, to R{target}",
    )
