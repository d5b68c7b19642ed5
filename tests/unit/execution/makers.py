"""Short ways to write changes and plans for the tests of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.fakes.fake_locks import undisputed
from tests.fakes.fake_vcenter import START, FakeVCenter, uuid_of
from vgpu_cfg.changes.change import Change, CreateVm, DestroyVm, PowerOffVm, PowerOnVm, ReconfigureVm
from vgpu_cfg.changes.kinds.create_vm import CloneFrom, Location
from vgpu_cfg.changes.kinds.power import NumaPin
from vgpu_cfg.changes.kinds.vm_spec import NewVgpu, VmSpec
from vgpu_cfg.changes.plan import Plan, PlanTarget
from vgpu_cfg.changes.report import Event, Report
from vgpu_cfg.changes.values import Subject, VmRef
from vgpu_cfg.execution import Run, RunOptions
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.vm import OwnerMark, VmDetail
from vgpu_cfg.ports import ReadScope

SCOPE = ReadScope()
PLAN_ID = "0d5b1a4e-6f0c-4c35-9d0e-7f1f6a3c2b11"
PLAN = PlanIdentity(name="demo", id=PLAN_ID)
TEMPLATE = VmRef(name="ubuntu-22.04-efi", moid="vm-template")
TEMPLATE_DETAIL = VmDetail(hardware_version=19, guest_id="ubuntu64Guest", cpus=2, memory_mib=2048)


def estate(**fields: Any) -> FakeVCenter:
    """Make a vCenter with a template and, on host-1, a GPU on each of two NUMA nodes."""
    gpus = {"host-1": {"0000:3b:00.0": 0, "0000:af:00.0": 1}}
    server = FakeVCenter(**({"gpus": gpus} | fields))
    server.add_vm(TEMPLATE.name, "vm-template", TEMPLATE_DETAIL, is_template=True)
    return server


def add_own_vm(
    server: FakeVCenter, name: str, moid: str, detail: VmDetail | None = None, **fields: Any
) -> None:
    """Add a VM with the owner mark of plan `demo`."""
    detail = detail or VmDetail(hardware_version=21, cpus=4, memory_mib=8192)
    signed = OwnerMark(
        plan="demo", vm=name, id=PLAN_ID, instance_uuid=uuid_of(moid), made_by="jo@lab", made_at=START
    )
    detail = detail.model_copy(update={"extra_config": {**signed.pairs, **detail.extra_config}})
    server.add_vm(name, moid, detail, **({"host_moid": "host-1"} | fields))


def mark(name: str) -> dict[str, str]:
    """Return the mark as a plan states it, and as version 0.1.0 wrote it."""
    return {"vgpu_cfg.plan": "demo", "vgpu_cfg.vm": name}


def spec_of(name: str, **fields: Any) -> VmSpec:
    made: dict[str, Any] = {
        "settings": {
            "hardware_version": 21,
            "firmware": "efi",
            "cpus": 16,
            "memory": 65536,
            "memory_reservation": 65536,
        },
        "extra_config": {**mark(name), "pciPassthru.use64bitMMIO": "TRUE", "numa.nodeAffinity": "0"},
        "devices": (NewVgpu(profile="grid_a100-40c"),),
    }
    return VmSpec(**(made | fields))


def create(name: str, *, host: str = "host-1", spec: VmSpec | None = None, **fields: Any) -> CreateVm:
    return CreateVm(
        id=f"create {name}",
        subject=Subject(kind="vm", name=name),
        host_moid=host,
        vm=VmRef(name=name),
        source=CloneFrom(template=TEMPLATE),
        location=Location(
            folder_moid="group-1",
            folder_path="/dc1/vm/training",
            host_moid=host,
            host_name="esx-01",
            resource_pool_moid="resgroup-1",
            datastore_moid="datastore-1",
            datastore_name="vsan",
        ),
        spec=spec or spec_of(name),
        **fields,
    )


def power_on(name: str, *, host: str = "host-1", pin: NumaPin | None = None, **fields: Any) -> PowerOnVm:
    needs = fields.pop("needs", (f"create {name}",))
    return PowerOnVm(
        id=f"power on {name}",
        subject=Subject(kind="vm", name=name),
        host_moid=host,
        vm=VmRef(name=name, moid=fields.pop("moid", None)),
        pin=pin,
        needs=needs,
        **fields,
    )


def power_off(name: str, moid: str, **fields: Any) -> PowerOffVm:
    return PowerOffVm(
        id=f"power off {name}",
        subject=Subject(kind="vm", name=name),
        vm=VmRef(name=name, moid=moid),
        **fields,
    )


def destroy(name: str, moid: str, **fields: Any) -> DestroyVm:
    return DestroyVm(
        id=f"destroy {name}", subject=Subject(kind="vm", name=name), vm=VmRef(name=name, moid=moid), **fields
    )


def reconfigure(name: str, moid: str, spec: VmSpec, **fields: Any) -> ReconfigureVm:
    return ReconfigureVm(
        id=f"reconfigure {name}",
        subject=Subject(kind="vm", name=name),
        vm=VmRef(name=name, moid=moid),
        spec=spec,
        **({"host_moid": "host-1"} | fields),
    )


def pin(nodes: tuple[int, ...] = (0,), **fields: Any) -> NumaPin:
    return NumaPin(node_by_pci_id={"0000:3b:00.0": 0, "0000:af:00.0": 1}, nodes=nodes, **fields)


def plan_of(*changes: Change, **fields: Any) -> Plan:
    made: dict[str, Any] = {
        "name": "demo",
        "target": PlanTarget(address="vc01.example.com", instance_uuid="1234", datacenter="dc1"),
        "read_at": START,
        "desired": DesiredPlan(name="demo", id=PLAN_ID, vcenter="prod"),
        "changes": changes,
    }
    return Plan(**(made | fields))


def run(server: FakeVCenter, *changes: Change, **fields: Any) -> tuple[Report, list[Event]]:
    """Run changes as plan `demo` and return the report and every event."""
    events: list[Event] = []
    options = RunOptions(**fields.pop("options", {}))
    report = Run(
        plan_of(*changes),
        server,
        server,
        server,
        locks=undisputed(),
        options=options,
        on_event=events.append,
        **fields,
    ).carry_out()
    return report, events


def statuses(report: Report) -> Mapping[str, str]:
    return {outcome.change_id: str(outcome.status) for outcome in report.outcomes}
