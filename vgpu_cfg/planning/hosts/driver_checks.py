"""What the branch of a host's NVIDIA driver means for the host: boards that it has left, and its own end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from vgpu_cfg.catalog.driver_branches import DriverBranch, load_driver_branches
from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import Change, ChangeHost
from vgpu_cfg.changes.plan import Canary
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.host_settings.gpus.driver import branch_of, driver_facts
from vgpu_cfg.planning.host_settings.modules import NONE
from vgpu_cfg.planning.host_settings.resolved_host import ResolvedHost


def check_branches(resolved_hosts: Sequence[ResolvedHost], now: datetime, findings: Findings) -> None:
    """Tell of boards that a host's driver, the wanted or else the present one, has left, and of its end."""
    for resolved in resolved_hosts:
        branch = load_driver_branches().find(_number(resolved))
        if branch is not None and resolved.view.host.gpus:
            _check_boards(resolved, branch, findings)
            _check_end(resolved, branch, now, findings)


def _number(resolved: ResolvedHost) -> str:
    wanted = resolved.entry.driver.version if resolved.entry.driver is not None else None
    present = driver_facts(resolved.view.facts.software).version
    return branch_of(wanted or "") or branch_of(present or "")


def _check_boards(resolved: ResolvedHost, branch: DriverBranch, findings: Findings) -> None:
    known = load_driver_branches()
    told: set[str] = set()
    for gpu in resolved.view.host.gpus:
        board = resolved.view.boards.get(gpu.pci_id)
        end = known.end_of(board, gpu.name) if not gpu.is_passthrough else None
        name = board.key if board is not None else gpu.name
        if end is None or branch.release <= end.release or name in told:
            continue
        told.add(name)
        last = next((one.number for one in known.branches if one.release == end.release), "")
        message = (
            f"its driver of branch {branch.number} is vGPU {branch.release}, and {end.release} was the last "
            f"to serve the {name} ({end.source}): it would offer no vGPUs"
        )
        remedy = f"keep this host at a driver of branch {last}, or hand the GPU through as a whole"
        findings.add(Code.BOARD_ENDED, resolved.subject, message, remedy)


def _check_end(resolved: ResolvedHost, branch: DriverBranch, now: datetime, findings: Findings) -> None:
    end = branch.end_of_life
    if end is None or f"{now:%Y-%m}" <= end.date:
        return
    message = f"its driver is of branch {branch.number}, whose end of life was {end.date} ({end.source})"
    findings.add(
        Code.BRANCH_ENDED, resolved.subject, message, "plan for a newer branch: `verify --target-branch`"
    )


def check_canary(changes: Sequence[Change], canaries: Sequence[Canary], findings: Findings) -> None:
    """Tell of hosts that have a driver and get another, where none of them goes first to try it."""
    first = {change_id for canary in canaries if canary.others for change_id in canary.first}
    upgraded = [
        change
        for change in of_kind(changes, ChangeHost)
        if any(one.setting == "driver" and one.before not in (None, NONE) for one in change.settings)
    ]
    if len(upgraded) > 1 and not any(change.id in first for change in upgraded):
        others = listed([change.host.name for change in upgraded[1:]], shown=6)
        message = f"it gets another driver as {others} does, and none of them goes first to try it"
        remedy = "write disruption: {canary: 1}: its guests are asked before the next host is begun"
        findings.add(Code.DRIVER_WITHOUT_CANARY, upgraded[0].subject, message, remedy)
