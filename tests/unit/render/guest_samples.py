"""Plans, states and results of guests, as the render tests show them: three workers, one of them new."""

from __future__ import annotations

from typing import Any

from tests.plans.guest_rows import mark_of
from tests.plans.simulator import carry_out
from tests.unit.planning.desired_plans import planned
from tests.unit.planning.guest.trainings import BY_POOL, head, specs_of, training, worker
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Outcome, OutcomeStatus, Report
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.guests.guest import GuestReport
from vgpu_cfg.model.observed.inventory import Inventory

PRINTS = {"plan-keys": "aaaa", "lic": "bbbb", "ngc": "cccc"}
HOSTS = {
    f"esx-0{number}": {"gpus": [{"board": "A100", "pci": "0000:21:00.0", "node": 0}]} for number in (1, 2, 3)
}


def three(**more: Any) -> DesiredPlan:
    registry = {"server": "nvcr.io", "password": "ngc"}
    workers = (_on_a_host_of_its_own(worker(f"hvd-0{number}", BY_POOL)) for number in (1, 2, 3))
    return training(*workers, registry=registry, **more)


def _on_a_host_of_its_own(one: Any) -> Any:
    return one.model_copy(update={"line": "hvd-{01..03}", "clusters": ("gpu",)})


def observe(*staged: str, problem: bool = False) -> Inventory:
    """Observe workers that were staged before there was a third, the second with trouble of its own."""
    from tests.plans.estate import make_inventory

    before = specs_of(
        training(*three().vms[:2], registry={"server": "nvcr.io", "password": "ngc"}), make_inventory({})
    )
    rows = {}
    for number, name in enumerate(staged, start=1):
        spec = before[name]
        kinds = {module.kind for module in spec.modules}
        options = {
            "vgpu_cfg.addresses": f"nic1=10.0.0.1{number}/24",
            "vgpu_cfg.guest": mark_of(
                spec, kinds - ({"image", "worker"} if problem and number == 2 else set()), PRINTS
            ),
        }
        if problem and number == 2:
            told = GuestReport.model_validate(
                {
                    "spec": spec.digest,
                    "state": "failed",
                    "modules": [
                        {"name": "image", "state": "failed", "why": "no space left, 12 GiB free of 40"}
                    ],
                }
            )
            options["guestinfo.vgpu_cfg.report"] = told.model_dump_json()
        rows[name] = {
            "host": f"esx-0{number}",
            "mark": True,
            "gpus": ["grid_a100-40c"],
            "on": ["0000:21:00.0"],
            "nics": ["vm-network"],
            "extra_config": options,
        }
    return make_inventory({"hosts": HOSTS, "vms": rows})


def all_new() -> Plan:
    head_too = training(*three().vms, head(), head="z-head", shared_folder={}, monitoring={})
    return planned(head_too, observe(), fingerprints=PRINTS)


def one_added() -> Plan:
    return planned(three(), observe("hvd-01", "hvd-02"), fingerprints=PRINTS)


def in_turn() -> Plan:
    """Change the image of two workers one after the other, while their training is paused."""
    update = {"checkpoint": {"before": "touch save"}}
    changed = three(update=update, image="nvcr.io/nvidia/tensorflow:23.03-tf1-py3")
    return planned(changed, observe("hvd-01", "hvd-02"), fingerprints=PRINTS)


def in_trouble() -> tuple[Plan, Inventory]:
    observed = observe("hvd-01", "hvd-02", problem=True)
    return planned(three(), observed, fingerprints=PRINTS), observed


def done() -> tuple[Plan, Report, Inventory]:
    """Return a plan that was carried out, but for its last guest."""
    observed = observe("hvd-01", "hvd-02")
    plan = planned(three(), observed, fingerprints=PRINTS)
    after = carry_out(plan, observed, fingerprints=PRINTS)
    moids = {vm.name: vm.moid for vm in after.vms}
    outcomes = tuple(
        Outcome(
            change_id=change.id,
            subject=change.subject,
            status=OutcomeStatus.DONE,
            tasks=("task-1",),
            vm_moid=moids[change.subject.name],
        )
        for change in plan.changes
    )
    return plan, Report(plan=plan.name, digest=plan.digest, outcomes=outcomes), after
