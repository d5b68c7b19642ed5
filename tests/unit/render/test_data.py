from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.plans.estate import make_inventory
from tests.plans.lock_rows import make_reservations
from tests.unit.execution import makers
from tests.unit.planning.desired_plans import plan_for
from tests.unit.planning.desired_plans import vm as desired_vm
from tests.unit.render import host_reports, host_samples, samples
from tests.unit.render.settings_samples import VIEWS, lookup
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.catalog.servers import load_board_power, load_servers
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.suggestion import AsFound, Left
from vgpu_cfg.errors import DocumentError, DocumentFault, Unreachable
from vgpu_cfg.model.choices import NO_OCCASION
from vgpu_cfg.model.desired import DesiredGuest, DesiredPlan
from vgpu_cfg.model.host_list import HostList, ListedHost, ListedHostGpu
from vgpu_cfg.model.observed.cordon import Cordon
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.model.reservations import Quotas, Share
from vgpu_cfg.model.vgpu import VgpuProfile
from vgpu_cfg.planning.pool.quotas import ShareUse
from vgpu_cfg.planning.pool.reservations import Moment, PoolCalendar, ReservationCalendar, ReservedRow
from vgpu_cfg.planning.pool.shapes import CurrentHosts
from vgpu_cfg.planning.pool.summary import Hours, HoursRow, read_pool
from vgpu_cfg.planning.site_changes import compare_sites
from vgpu_cfg.planning.sizing import standing_hosts
from vgpu_cfg.planning.upkeep.absence import Absence, think_away
from vgpu_cfg.planning.upkeep.away import AwayHost
from vgpu_cfg.render.data import documents as data
from vgpu_cfg.render.data.documents import hand_over_data, several_data
from vgpu_cfg.render.data.format import error_data
from vgpu_cfg.render.data.pool import (
    fit_data,
    hours_data,
    pool_data,
    reservations_data,
    room_data,
    site_changes_data,
)
from vgpu_cfg.render.data.upkeep import absence_data
from vgpu_cfg.render.markdown.runbook import runbook_data
from vgpu_cfg.render.views.estate.inventory import FitView, InventoryView, cordon_rows, view_inventory
from vgpu_cfg.render.views.estate.topology import AtsLinkRow, AtsRow, WiredRow
from vgpu_cfg.render.views.several import OneOfSeveral, Several
from vgpu_cfg.render.views.status import view_status

AS_FOUND = AsFound(text="", lines=("+ cpus: 8",), vms=("a",), left=(Left(vm="b", what="VM", why="gone"),))
SEVERAL = Several("context", "fit", (OneOfSeveral("prod-a", "vc01", error=Unreachable("no route")),))
OPEN_MAPS = ("room", "used", "extra_config", "total")
ROWS = (
    "vms|hosts|cordons|gpus|nics|numa_nodes|datastores|profiles|outcomes|faults|pool|off|idle|moves|restarts|"
    "stays|steps|switches|files|workers|differences|left|changes|rows|wiring|ats|models|contexts|plans|shares|"
    "reservations|free|reserved"
)
ROW_KEY = re.compile(rf"({ROWS})\[\]\.((runs|stranded|limits|gains|parts|ports|proposals)\[\]\.|guest\.)?\w+")
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "json-output.md"


def reserved() -> ReservationCalendar:
    now = crowded().read_at
    row = ReservedRow("course", "gpu", "A100", 2, 0, now, now, "later", "anna")
    pool = PoolCalendar("gpu", "A100", (Moment(now, 4, 1, ()),))
    return ReservationCalendar(now, (row,), (pool,))


def cordoned(observed: Inventory) -> Inventory:
    cordon = Cordon(attribute="vgpu_cfg.cordon", reason="new DIMM", by="anna", since=observed.read_at)
    hosts = tuple(host.model_copy(update={"cordons": (cordon,)}) for host in observed.hosts)
    return observed.model_copy(update={"hosts": hosts})


def wired(view: InventoryView) -> InventoryView:
    """Add a GPU that is wired, and a chain of ATS."""
    gpu = WiredRow("a", "0000:21:00.0", "gpu", "A100", 0, ("0000:20:01.0",), True, None, ("vm",))
    link = AtsLinkRow("kernel", "on", "the host's atsSupport is TRUE", "")
    return replace(view, wiring=(gpu,), ats=(AtsRow("vm", "a", "0000:24:00.0", (gpu.pci_id,), (link,)),))


def documents() -> dict[str, dict[str, Any]]:
    vms = tuple(samples.desired_vm(name) for name in ("hvd-01", "hvd-02"))
    set_up = vms[0].model_copy(update={"guest": DesiredGuest(host_name="hvd-01")})
    desired = DesiredPlan(name="horovod-a100", vcenter="prod", vms=(set_up, *vms[1:]))
    two_new = samples.two_new()
    changes_of_both = (*host_samples.two_with_one_reboot().changes, *two_new.changes)
    plan = two_new.model_copy(update={"desired": desired, "changes": changes_of_both})
    observed = samples.estate(
        samples.own_vm("vm-11", "hvd-01", 0), samples.vm("vm-12", "desk", "grid_a100-8q")
    )
    changes = (makers.create("a"), makers.power_on("a"))
    server = makers.estate()
    report, _ = makers.run(server, *changes)
    own = makers.plan_of(*changes)
    prepared = host_samples.two_with_one_reboot()
    both = report.model_copy(
        update={"outcomes": (*host_reports.all_done(prepared).outcomes, *report.outcomes)}
    )
    whole = own.model_copy(update={"changes": (*prepared.changes, *own.changes)})
    catalog = load_catalog()
    return {
        "plan": data.plan_data(plan),
        "report": data.report_data(whole, both, server.read_inventory(makers.SCOPE)),
        "status": data.status_data(view_status(plan, observed)),
        "export-update": data.as_found_data(AS_FOUND, "plan.yaml", is_written=True),
        "inventory": data.inventory_data(wired(view_inventory(cordoned(observed), catalog))),
        "pool": pool_data(
            read_pool(crowded(), catalog),
            crowded(),
            cordon_rows(cordoned(observed).hosts),
            (ShareUse(Share(kind="owner", name="ml", gpus=2), 1, 0, ("a",)),),
        ),
        "reservations": reservations_data(reserved(), "vc"),
        "usage": hours_data(
            Hours(crowded().read_at, crowded().read_at, (HoursRow("a", ("a",), 1, 2),)), "vm", "vc"
        ),
        "fit": fit_data(fit_view()),
        "site-changes": site_changes_data(
            compare_sites(make_inventory({}), crowded()), make_inventory({}), crowded()
        ),
        "absence": absence_data(absent(), "vc.example", ""),
        "room": room_data(
            standing_hosts(crowded().hosts, catalog, load_board_power(), load_servers()),
            ("gpu",),
            "vc.example",
        ),
        "profiles": data.profiles_data(catalog.board("grid_a100").profiles),
        "runbook": {"kind": "runbook", "format": 1}
        | runbook_data(with_rdma(prepared), lookup, VIEWS, occasion=NO_OCCASION),
        "hand-over": hand_over_data("horovod", handed_over(), {"hostfile": "hvd-01 slots=1\n"}, ("-np 1",)),
        "contexts": several_data(SEVERAL, [None]),
        "plans": several_data(replace(SEVERAL, noun="plan"), [None]),
        "error": error_data(DocumentError([DocumentFault("plan.yaml", 1, 1, "no", "yes")])),
    }


def with_rdma(plan: Plan) -> Plan:
    """Return the plan with a VM whose NIC asks the physical switch for something."""
    one = desired_vm("a", "grid_a100-40c", nics=[{"network": "roce", "rdma": "host"}])
    return plan.model_copy(update={"desired": plan_for(one)})


def handed_over() -> HostList:
    worker = ListedHost(vm="hvd-01", host_name="hvd-01", gpus=(ListedHostGpu(board="A100"),))
    return HostList(plan="demo", workers=(worker,))


def crowded(*idle: str) -> Inventory:
    """Observe a GPU that a small VM binds, and a VM that is off; also GPUs that are `idle`."""
    gpus = [{"board": "A100", "pci": pci_id} for pci_id in ("0000:21:00.0", *idle)]
    vms = {
        "small": {"gpus": ["grid_a100-4c"], "on": ["0000:21:00.0"], "cpu_mhz": 9},
        "off": {"gpus": ["grid_a100-4c"], "power": "poweredOff"},
    }
    return make_inventory({"hosts": {"esx-01": {"gpus": gpus}}, "vms": vms})


def absent() -> Absence:
    observed = crowded()
    desired = DesiredPlan(name="fit", vcenter="vc.example")
    return think_away(AwayHost(observed.hosts[0]), observed, load_catalog(), desired)


def fit_view() -> FitView:
    observed, catalog = crowded("0000:e2:00.0"), load_catalog()
    profile = VgpuProfile.parse("grid_a100-40c")
    time = {"from": observed.read_at, "until": observed.read_at + timedelta(days=1)}
    reserved = make_reservations({"course": {"board": "A100", "gpus": 1} | time}, observed.read_at, "")
    share = Share(kind="others", called="A100", boards=("A100",), gpus=1)
    found = CurrentHosts(observed.model_copy(update={"reservations": reserved}), catalog).fit_gpu(
        GpuEntry(profile=(profile,)), lambda _: True, (Quotas(file="quotas.yaml", shares=(share,)),)
    )
    return FitView("vc.example", "", profile.name, found, {}, {})


def keys(value: Any, path: str = "") -> set[str]:
    """List the paths of all keys: `vms[].name`. Maps keyed by names end in `{}`."""
    if isinstance(value, dict):
        if path.endswith(OPEN_MAPS):
            return {f"{path}{{}}"}
        return set().union(
            *(keys(item, f"{path}.{key}" if path else key) for key, item in value.items()), {path}
        )
    if isinstance(value, list | tuple) and value:
        return set().union(*(keys(item, f"{path}[]") for item in value))
    return {path}


def documented(kind: str) -> set[str]:
    """Read the keys out of the page: the first column of the table under the kind's heading."""
    text = PAGE.read_text(encoding="utf-8")
    section = re.search(rf"^## `{kind}`\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    assert section, f"{PAGE.name} has no section {kind}"
    return set(re.findall(r"^\| `([^`]+)` \|", section[1], re.MULTILINE))


@pytest.mark.parametrize("kind", documents())
def test_a_document_is_json_and_says_what_it_is(kind: str) -> None:
    document = documents()[kind]
    read = json.loads(json.dumps(document))
    assert read["kind"] == kind
    assert read["format"] == 1


@pytest.mark.parametrize("kind", documents())
def test_every_key_is_documented_and_every_documented_key_is_there(kind: str) -> None:
    found = keys(json.loads(json.dumps(documents()[kind])))
    shown = {match[0] for path in found if (match := re.match(r"\w+", path))}
    shown |= {match[0] for path in found if (match := ROW_KEY.match(path))}
    assert shown == documented(kind) | {"kind", "format"}


def test_the_hosts_of_a_plan_are_counted() -> None:
    first, second = data.plan_data(host_samples.with_cold_boot())["hosts"]
    assert first == {
        "name": "esx-01",
        "settings": 3,
        "right": 3,
        "maintenance": True,
        "reboots": 1,
        "cold_boots": 0,
        "services": (),
        "moved": (),
        "switched_off": (),
        "by_hand": (1,),
    }
    assert (second["reboots"], second["cold_boots"]) == (0, 1)
    assert (second["moved"], second["switched_off"], second["by_hand"]) == (
        ("syslog-03",),
        ("hvd-03",),
        (13,),
    )


def test_every_setting_that_was_read_back_is_in_the_report() -> None:
    plan = host_samples.two_with_one_reboot()
    done = data.report_data(plan, host_reports.all_done(plan))["hosts"][0]
    wanted = (host_samples.GRAPHICS, host_samples.ATS, host_samples.PASSED, *host_samples.RIGHT)
    assert [one["setting"] for one in done["readings"]] == [one.setting for one in wanted]
    assert {one["waits_for"] for one in done["readings"]} == {""}
    assert done["state"] == "ready"
    assert not done["standing"]


def test_a_host_that_was_left_says_so_in_the_status() -> None:
    view = view_status(host_samples.left_standing(), host_reports.standing_estate())
    in_sync, standing = data.status_data(view)["hosts"]
    assert in_sync["is_in_sync"]
    assert not in_sync["reason"]
    assert not standing["is_in_sync"]
    assert standing["since"] == "2026-03-02T20:11:11+00:00"
    assert standing["plan"] == "horovod-a100"
    assert standing["pending"] == ("ats",)


def test_the_plan_inside_is_the_plan_that_is_saved() -> None:
    plan = samples.two_new()
    document = json.loads(json.dumps(data.plan_data(plan)))
    assert document["plan"].pop("digest") == document["digest"] == plan.digest
    assert Plan.model_validate(document["plan"]) == plan
    assert not document["is_in_sync"]
    assert data.plan_data(samples.plan_of())["is_in_sync"]
