"""The JSON of plans, estates, explanations and roles; described in docs/reference/json-output.md.

Each document states its `kind` and `format`. A key is never renamed within a format; new ones may be added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from vgpu_cfg.catalog import ProfileEntry
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.privileges import READ_ONLY
from vgpu_cfg.changes.report import Report
from vgpu_cfg.changes.suggestion import AsFound, Suggestion
from vgpu_cfg.knowledge.check_pages import CheckPage
from vgpu_cfg.knowledge.collecting import what_to_collect
from vgpu_cfg.knowledge.faults import Found, line_text
from vgpu_cfg.knowledge.verify_failures import Failure
from vgpu_cfg.model.host_list import HostList
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.privileges import Reason, Role, Target
from vgpu_cfg.planning.sync import is_in_sync, is_known
from vgpu_cfg.render.data.format import FORMAT, Data, error_data
from vgpu_cfg.render.layout.profiles import pci_text
from vgpu_cfg.render.views.estate.inventory import InventoryView
from vgpu_cfg.render.views.plan import HostEffort, host_efforts
from vgpu_cfg.render.views.run.run_steps import HostResult, host_rows, result_rows
from vgpu_cfg.render.views.several import Several
from vgpu_cfg.render.views.status import StatusView

if TYPE_CHECKING:
    from vgpu_cfg.planning.remedies.diagnosis import Diagnosis


def plan_data(plan: Plan, fixes: Suggestion | None = None) -> Data:
    """Return a plan; `plan` has the content of `plan -o`, `fixes` the suggested fixes."""
    return _document(
        "plan",
        digest=plan.digest,
        is_in_sync=is_in_sync(plan),
        is_known=is_known(plan),
        errors=len(plan.errors),
        hosts=[_effort(effort) for effort in host_efforts(plan.changes).values()],
        fixes=[
            fix.model_dump(mode="json") | {"needs_leave": fix.needs_leave, "is_outside": fix.is_outside}
            for fix in (fixes.fixes if fixes is not None else ())
        ],
        plan=plan.as_saved(),
    )


def report_data(plan: Plan, report: Report, after: Inventory | None = None) -> Data:
    """Return the outcome of a plan, and the state of its hosts and VMs in a reading made after it."""
    return _document(
        "report",
        **report.model_dump(mode="json"),
        tasks=report.tasks,
        hosts=[_host_row(row) for row in host_rows(plan, report, after)],
        vms=[asdict(row) for row in result_rows(plan, report, after)],
    )


def status_data(view: StatusView) -> Data:
    """Return the hosts and VMs of a plan and what differs."""
    hosts = [
        asdict(row)
        | {
            "since": row.since.isoformat() if row.since else None,
            "is_in_sync": row.is_in_sync,
            "state": row.word,
        }
        for row in view.hosts
    ]
    rows = [asdict(row) | {"is_in_sync": row.is_in_sync} for row in view.vms]
    findings = [found.model_dump(mode="json") for found in view.findings]
    return _document(
        "status",
        plan=view.plan,
        server=view.server,
        datacenter=view.datacenter,
        read_at=view.read_at,
        is_in_sync=view.is_in_sync,
        is_known=not view.unknown,
        waits=view.waits,
        windows=list(view.windows),
        hosts=hosts,
        vms=rows,
        others=list(view.others),
        differences=[one.model_dump(mode="json", exclude={"sets"}) for one in view.differences],
        findings=findings,
    )


def as_found_data(found: AsFound, path: str, *, is_written: bool) -> Data:
    """Return what of the found goes into a plan file."""
    values = found.model_dump(mode="json", exclude={"text"})
    return _document("export-update", path=path, is_written=is_written, **values)


def inventory_data(view: InventoryView) -> Data:
    """Return hosts, GPUs, NICs, NUMA nodes, vGPU profiles and datastores."""
    return _document("inventory", **asdict(view))


def profiles_data(entries: Iterable[ProfileEntry]) -> Data:
    """Return profiles of the catalogue, each with the facts of its board."""
    return _document("profiles", profiles=[_profile(entry) for entry in entries])


def _document(kind: str, **content: Any) -> Data:
    return {"kind": kind, "format": FORMAT, **content}


def _effort(effort: HostEffort) -> Data:
    """Return a plan's effect on one host."""
    return {
        "name": effort.name,
        "settings": effort.settings,
        "right": len(effort.right),
        "maintenance": effort.enters is not None and not effort.enters.is_held,
        "reboots": effort.reboots,
        "cold_boots": effort.cold_boots,
        "services": effort.services,
        "moved": effort.moved,
        "switched_off": effort.switched_off,
        "by_hand": effort.by_hand,
    }


def _host_row(row: HostResult) -> Data:
    """Return what became of one host, with every setting's last reading."""
    return asdict(row) | {"readings": [reading.model_dump(mode="json") for reading in row.readings]}


def _profile(entry: ProfileEntry) -> Data:
    board = entry.board
    return {
        "profile": entry.name,
        "series": entry.profile.series,
        "sharing": entry.profile.sharing.value,
        "framebuffer_mib": entry.framebuffer_mib,
        "max_per_gpu": entry.max_per_gpu if entry.is_max_known else None,
        "fits_framebuffer": entry.max_per_gpu,
        "max_mixed": entry.max_mixed,
        "mixed_starts": entry.mixed_starts,
        "mig_size": entry.mig_size,
        "mig_starts": entry.mig_starts,
        "mig_instance": entry.mig.instance if entry.mig else None,
        "is_full_framebuffer": entry.is_full_framebuffer,
        "is_nvlink_p2p": entry.is_nvlink_p2p,
        "listed": entry.listed,
        "board": {
            "key": board.key,
            "names": board.names,
            "architecture": board.architecture,
            "framebuffer_mib": board.framebuffer_mib,
            "memory_type": board.memory_type,
            "mmio_gb": board.mmio_gb,
            "pci_ids": pci_text(board),
            "is_nvswitch": board.is_nvswitch,
            "is_esxi": board.is_esxi,
            "source": board.source,
            "date": board.date,
        },
    }


def hand_over_data(tool: str, hosts: HostList, files: Mapping[str, str], notes: Sequence[str]) -> Data:
    """Return the files by name, and the hosts that they were written from."""
    listed = hosts.model_dump(mode="json")
    return {
        "kind": "hand-over",
        "format": FORMAT,
        "plan": hosts.plan,
        "tool": tool,
        "files": [{"name": name, "text": text} for name, text in files.items()],
        "notes": list(notes),
        "head": listed["head"],
        "workers": listed["workers"],
        "mesh_port": hosts.mesh_port,
        "absent": list(hosts.absent),
        "lost": list(hosts.lost),
    }


def pages_data(pages: Iterable[tuple[Code | Failure, CheckPage]]) -> Data:
    """Return the pages of checks, divided at their headings; the texts are Markdown."""
    return _document(
        "explain",
        checks=[
            {
                "code": page.code,
                "title": check.summary,
                "severity": check.severity.value,
                "basis": str(check.basis),
                "sections": [section.model_dump() for section in page.sections],
            }
            for check, page in pages
        ],
    )


def explanations_data(explained: Sequence[Found], text: str) -> Data:
    """Return known failures, each with the line of the text that shows it, "" where it spans lines."""
    return _document(
        "explain",
        is_known=bool(explained),
        explanations=[
            found.explanation.model_dump(mode="json")
            | {"line": "" if found.line is None else line_text(found.line), "is_likely": found.is_likely}
            for found in explained
        ],
        look_at=[] if explained else list(what_to_collect(text)[1]),
    )


def diagnosis_data(found: Diagnosis) -> Data:
    """Return the known facts of a VM's failure; of the VM only its name, path and state."""
    vm = found.vm
    content = found.model_dump(mode="json", exclude={"vm", "host"})
    return _document(
        "explain",
        vm={
            "name": vm.name,
            "moid": vm.moid,
            "inventory_path": vm.inventory_path,
            "power_state": vm.power_state.value,
            "host": found.host,
            "plan": None if vm.mark is None else vm.mark.plan,
        },
        **content,
    )


def privileges_data(roles: Sequence[Role], plan: str, server: str) -> Data:
    """Return the roles with where each is given, and what needs each privilege."""
    return {
        "kind": "privileges",
        "format": FORMAT,
        "plan": plan,
        "server": server,
        "read_only": list(READ_ONLY),
        "roles": [
            {
                "name": role.name or None,
                "objects": [_target(target) for target in role.targets],
                "privileges": [_reason(reason) for reason in role.reasons],
            }
            for role in roles
        ],
    }


def _target(target: Target) -> Data:
    return {
        "kind": target.place.name.lower(),
        "moid": target.moid or None,
        "path": target.path if target.moid else None,
        "propagates": target.propagates,
    }


def _reason(reason: Reason) -> Data:
    return {
        "id": reason.privilege,
        "commands": [str(command) for command in reason.commands],
        "for": list(reason.uses),
        "without": reason.without or None,
        "is_recalled": reason.is_recalled,
    }


def several_data(view: Several, answers: Sequence[Data | None]) -> Data:
    """Return the rows with the documents that they are about, in the same order."""
    return {
        "kind": f"{view.noun}s",
        "format": FORMAT,
        "command": view.command,
        f"{view.noun}s": [
            {
                "name": row.name,
                "server": row.server,
                "exit_code": row.exit_code,
                "answer": answer,
                "error": error_data(row.error) if row.error is not None else None,
            }
            for row, answer in zip(view.rows, answers, strict=True)
        ],
        "total": view.total,
        "pool": [asdict(row) | {"mode": str(row.mode)} for row in view.pool],
    }
