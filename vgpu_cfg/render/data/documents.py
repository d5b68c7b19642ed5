"""The JSON that stands beside every table: stable keys, told in docs/reference/json-output.md.

Each document says its `kind` and `format`. A key is never renamed within a format;
new ones may be added.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from vgpu_cfg.catalog import ProfileEntry
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Report
from vgpu_cfg.changes.suggestion import AsFound, Suggestion
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.sync import is_in_sync, is_known
from vgpu_cfg.render.data.format import FORMAT, Data
from vgpu_cfg.render.layout.boards import pci_text
from vgpu_cfg.render.views.estate.inventory import InventoryView
from vgpu_cfg.render.views.plan.whole import HostEffort, host_efforts
from vgpu_cfg.render.views.run.host_result import HostRow, host_rows
from vgpu_cfg.render.views.run.vm_result import result_rows
from vgpu_cfg.render.views.status import StatusView


def plan_data(plan: Plan, fixes: Suggestion | None = None) -> Data:
    """Return a plan; what stands under `plan` is what `plan -o` writes, under `fixes` what would help it."""
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
        plan=plan.model_dump(mode="json"),
    )


def report_data(plan: Plan, report: Report, after: Inventory | None = None) -> Data:
    """Return what became of a plan, and how its hosts and VMs stand in a reading made after it."""
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
    """Return what a plan does to one host."""
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


def _host_row(row: HostRow) -> Data:
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
