"""What the VMs of an estate carry of their guests: mark and report, as staging of this very plan left them.

A row says `staged: true`, or in detail: `modules` (those in the mark; all without), `changed` (those that
were staged with other parameters), `also` (more words of the mark), `fingerprints` (of secrets, when it was
staged), `seeded` (the clone brought user data, and no mark was written), `report` (its `state`, `run`,
`spec: other`, and by module the `state` and `why` where it is not "done").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.guests.base import ADDRESSES_KEY
from vgpu_cfg.model.guests.guest import (
    AWAITED,
    BEGUN,
    GUEST_MARK_KEY,
    HOST_KEY_KEY,
    REPORT_KEY,
    USERDATA_KEY,
    WITHHELD,
    GuestReport,
    GuestSpec,
    ModuleState,
    StagedModule,
    fingerprint_of,
    host_keys_fingerprint,
    print_mark,
)
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.addresses import AddressBook
from vgpu_cfg.planning.guests.specs import guest_specs
from vgpu_cfg.planning.guests.wiring import observed_wirings

Row = Mapping[str, Any]
OTHER = "0123456789"


def with_guests(desired: DesiredPlan, observed: Inventory, rows: Row) -> Inventory:
    """Write what the rows of VMs say of their guests; addresses are those that the plan gives."""
    staged = {name: row["staged"] for name, row in rows.items() if row and "staged" in row}
    if not staged:
        return observed
    book = AddressBook(desired, observed)
    addresses = {vm.name: book.nics_of(vm) for vm in desired.vms}
    wirings = observed_wirings(desired, observed, {vm.name: vm for vm in observed.vms})
    specs = guest_specs(desired, addresses, wirings=wirings)
    given = {vm.name: book.record_of(vm, addresses[vm.name]) for vm in desired.vms}
    vms = tuple(
        _with_guest(vm, specs[vm.name], staged[vm.name], given[vm.name]) if vm.name in staged else vm
        for vm in observed.vms
    )
    kept = {name: getattr(observed, name) for name in Inventory.model_fields}
    return Inventory(**(kept | {"vms": vms}))


def mark_of(
    spec: GuestSpec,
    names: Any,
    fingerprints: Mapping[str, str] | None = None,
    host_keys: Mapping[str, str] | None = None,
) -> str:
    """Return the mark of a guest in which these modules were staged; without `host_keys` all are derived."""
    return print_mark(
        {
            module.kind: StagedModule(
                digest=module.digest,
                fingerprint=fingerprint_of(module, fingerprints or {}) or "",
                host_keys=host_keys_fingerprint(module, host_keys) if host_keys is not None else "",
            )
            for module in spec.modules
            if module.kind in names
        }
    )


def _with_guest(vm: Vm, spec: GuestSpec, row: Any, addresses: str) -> Vm:
    row = {} if row is True else row
    kinds = [module.kind for module in spec.modules]
    options = {ADDRESSES_KEY: addresses} if addresses else {}
    if not row.get("seeded"):
        mark = mark_of(spec, row.get("modules", kinds), row.get("fingerprints"))
        for module in spec.modules:
            if module.kind in row.get("changed", ()):
                mark = mark.replace(f"{module.kind}:{module.digest}", f"{module.kind}:{OTHER}")
        options[GUEST_MARK_KEY] = " ".join([*mark.split(), *row.get("also", ())])
    else:
        options |= {USERDATA_KEY: WITHHELD, GUEST_MARK_KEY: BEGUN, HOST_KEY_KEY: AWAITED}
    if "report" in row:
        options[REPORT_KEY] = _report(spec, row["report"]).model_dump_json()
    detail = vm.detail
    assert detail is not None
    extra = {**detail.extra_config, **options}
    return vm.model_copy(update={"detail": detail.model_copy(update={"extra_config": extra})})


def _report(spec: GuestSpec, row: Row) -> GuestReport:
    told = row.get("modules") or {}
    return GuestReport(
        spec=OTHER if row.get("spec") == "other" else spec.digest,
        run=row.get("run", "first"),
        state=row.get("state", "done"),
        modules=tuple(
            ModuleState(
                name=module.kind, digest=module.digest, **({"state": "done"} | told.get(module.kind, {}))
            )
            for module in spec.modules
        ),
    )
