"""What a drain asks leave for, where it finds no place, and what an uncordon brings home."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.plans.estate import make_inventory
from tests.unit.planning.test_rebalance import estate, small, that_move
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.errors import Ambiguous, NotFound, VgpuCfgError
from vgpu_cfg.model.desired import DesiredPlan, ProtectingContext
from vgpu_cfg.model.observed.cordon import Cordon, Home, free_attribute, home_of, parse_cordons
from vgpu_cfg.model.observed.inventory import Connection, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.plan_file import ProtectEntry
from vgpu_cfg.model.wording import shown
from vgpu_cfg.planning.upkeep.away import AwayHost
from vgpu_cfg.planning.upkeep.cordon import make_cordon_plan
from vgpu_cfg.planning.upkeep.drain import DrainOptions, make_drain
from vgpu_cfg.planning.upkeep.give_back import DrainedVms, make_uncordon_plan
from vgpu_cfg.planning.upkeep.targets import one_host, targets_of
from vgpu_cfg.render.text.run.summary import Drained, render_upkeep

A, B = "0000:21:00.0", "0000:e2:00.0"


def drain(observed: Inventory, protect: ProtectEntry | None = None, **options: Any) -> Plan:
    context = ProtectingContext(name="prod", file="config.yaml", protect=protect or ProtectEntry())
    desired = DesiredPlan(name="drain", vcenter="vc.example", contexts=(context,))
    host = one_host("esx-01", observed)
    return make_drain(AwayHost(host), observed, load_catalog(), desired, DrainOptions(**options)).plan


def findings(plan: Plan) -> list[tuple[str, str]]:
    return [(found.code, found.subject.name) for found in plan.diagnostics]


def kinds(plan: Plan) -> list[str]:
    return [f"{change.kind} {change.subject.name}" for change in plan.changes]


def with_home(observed: Inventory, name: str, home: Home) -> Inventory:
    def changed(vm: Vm) -> Vm:
        if vm.name != name or vm.detail is None:
            return vm
        detail = vm.detail.model_copy(update={"attributes": {"vgpu_cfg.home": home.text}})
        return vm.model_copy(update={"detail": detail})

    return observed.model_copy(update={"vms": tuple(changed(vm) for vm in observed.vms)})


OWN: dict[str, Any] = {"mark": "team/a", "marked": {"by": "anna"}}


def test_a_vm_of_a_plan_moves_without_leave_and_one_of_none_takes_it() -> None:
    observed = estate(2, {"a": small("esx-01", **OWN)})
    plan = drain(observed)
    assert findings(plan) == []
    assert kinds(plan) == ["set_cordon esx-01", "set_attributes a", "relocate_vm a"]
    assert [change.needs for change in plan.changes] == [
        (),
        ("cordon esx-01",),
        ("record the location of a",),
    ]
    stranger = estate(2, {"a": small("esx-01")})
    assert findings(drain(stranger)) == [("VG547", "a")]
    assert findings(drain(stranger, others=True)) == []
    assert list(plan.others) == ["vm-a"]
    agent = estate(2, {"vCLS-1": small("esx-01")})
    assert kinds(drain(agent)) == ["set_cordon esx-01"]  # vCenter switches it off by itself


def test_what_has_no_room_elsewhere_is_switched_off_by_name_alone() -> None:
    rows = {"a": small("esx-01", **OWN), "b": small("esx-02", "grid_a100-40c", on=[A])}
    observed = estate(2, rows)
    assert findings(drain(observed)) == [("VG546", "a")]
    plan = drain(observed, power_off=("a",))
    assert findings(plan) == [("VG546", "a")]
    assert not plan.errors
    assert plan.diagnostics[0].message.startswith("it stays powered off: no other host")
    assert kinds(plan) == ["set_cordon esx-01", "set_attributes a", "power_off_vm a"]
    with pytest.raises(NotFound, match="VM c not found"):
        drain(observed, power_off=("c",))


def test_no_vm_goes_to_a_host_that_is_cordoned_too() -> None:
    observed = estate(2, {"a": small("esx-01", **OWN)})
    plan = make_cordon_plan(targets_of(["host:esx-02"], observed), observed, "new DIMM")
    assert kinds(plan) == ["set_cordon esx-02"]
    closed = Cordon(attribute="vgpu_cfg.cordon", reason="new DIMM")
    hosts = tuple(
        host.model_copy(update={"cordons": (closed,)}) if host.name == "esx-02" else host
        for host in observed.hosts
    )
    refused = drain(observed.model_copy(update={"hosts": hosts}))
    assert findings(refused) == [("VG546", "a")]
    assert "(esx-02 is at least partly cordoned)" in refused.diagnostics[0].message


def test_what_a_context_protects_is_neither_moved_nor_switched_off() -> None:
    observed = estate(2, {"a": small("esx-01", **OWN)})
    plan = drain(observed, ProtectEntry(names=("a",)), power_off=("a",), others=True)
    assert findings(plan) == [("VG548", "a")]
    assert kinds(plan) == ["set_cordon esx-01"]


def test_a_choice_of_esxi_that_could_leave_one_without_a_gpu_is_told() -> None:
    gpus = [{"board": "A100", "pci": A}, {"board": "A100", "pci": B}]
    rows = {"esx-01": {"gpus": gpus}, "esx-02": {"gpus": gpus}}
    vms = {
        "a": small("esx-01", "grid_a100-20c", **OWN),
        "b": small("esx-01", "grid_a100-20c", **OWN),
        "c": small("esx-01", on=[B], **OWN),
    }
    plan = drain(that_move(make_inventory({"hosts": rows, "vms": vms})))
    assert findings(plan) == [("VG549", "esx-01")]
    assert "after ESXi chooses the GPUs, none may be left for an incoming VM" in plan.diagnostics[0].message
    without = drain(that_move(make_inventory({"hosts": rows, "vms": {"a": vms["a"], "c": vms["c"]}})))
    assert findings(without) == []
    moves = [change for change in without.changes if change.kind == "relocate_vm"]
    assert [change.subject.name for change in moves] == ["a", "c"]  # the larger one first


def test_no_vm_is_brought_home_to_where_it_has_no_room_any_more() -> None:
    home = Home(vm="vm-a", host="host-esx-01")

    def given_back(**others: Any) -> Plan:
        observed = with_home(
            estate(2, {"a": small("esx-01", power="poweredOff", **OWN), **others}), "a", home
        )
        return make_uncordon_plan(targets_of(["host:esx-01"], observed), observed, load_catalog())

    taken = given_back(b=small("esx-01", "grid_a100-40c", on=[A]))
    assert (findings(taken), kinds(taken)) == ([("VG548", "a")], [])
    says = "it stays powered off: esx-01 has no free capacity for it"
    assert taken.diagnostics[0].message == says
    assert "`vgpu-cfg uncordon host:esx-01 --restore` moves the VM back" in taken.diagnostics[0].remedy
    assert kinds(given_back()) == ["power_on_vm a", "set_attributes a"]


def test_only_what_is_where_the_drain_left_it_comes_home() -> None:
    home = Home(vm="vm-a", host="host-esx-01", to="host-esx-02")
    observed = with_home(estate(3, {"a": small("esx-02", **OWN)}), "a", home)
    assert home_of(next(vm for vm in observed.vms if vm.name == "a")) == home

    def given_back(estate_: Inventory, **more: Any) -> Plan:
        return make_uncordon_plan(targets_of(["host:esx-01"], estate_), estate_, load_catalog(), **more)

    assert kinds(given_back(observed)) == ["relocate_vm a", "set_attributes a"]
    assert kinds(given_back(observed, drained=DrainedVms.STAY)) == ["set_attributes a"]
    assert findings(given_back(observed, drained=DrainedVms.WAIT)) == [("VG548", "esx-01")]
    elsewhere = with_home(estate(3, {"a": small("esx-03", **OWN)}), "a", home)
    assert kinds(given_back(elsewhere)) == ["set_attributes a"]
    cold = with_home(estate(3, {"a": small("esx-02", **OWN)}, migrates=False), "a", home)
    assert findings(given_back(cold)) == [("VG548", "a")]
    assert kinds(given_back(cold, power_off=("a",))) == [
        "set_attributes a",
        "power_off_vm a",
        "relocate_vm a",
        "power_on_vm a",
        "set_attributes a",
    ]
    waiting = with_home(observed, "a", home)
    down = tuple(
        host.model_copy(update={"is_in_maintenance_mode": host.name == "esx-01"}) for host in waiting.hosts
    )
    refused = given_back(waiting.model_copy(update={"hosts": down}))
    assert findings(refused) == [("VG548", "a")]
    assert "esx-01 is in maintenance mode" in refused.diagnostics[0].message
    assert "--power-off" not in refused.diagnostics[0].remedy  # it would not help
    silent = tuple(
        host.model_copy(update={"connection": Connection.NOT_RESPONDING}) if host.name == "esx-01" else host
        for host in waiting.hosts
    )
    refused = given_back(waiting.model_copy(update={"hosts": silent}))
    assert "esx-01 does not respond" in refused.diagnostics[0].message


def test_what_stays_cordoned_is_named_with_the_command_that_returns_it() -> None:
    observed = estate(1, {})

    def cordoned(*pci_ids: str) -> Inventory:
        cordons = tuple(Cordon(attribute=f"c{pci}", reason="Xid 79", pci_id=pci) for pci in pci_ids)
        hosts = tuple(host.model_copy(update={"cordons": cordons}) for host in observed.hosts)
        return observed.model_copy(update={"hosts": hosts})

    def given_back(seen: Inventory, word: str) -> Plan:
        return make_uncordon_plan(targets_of([word], seen), seen, load_catalog())

    of_gpu, of_both = cordoned(A), cordoned("", A)
    for seen, word, remedy in (
        (of_gpu, "host:esx-01", f"`vgpu-cfg uncordon gpu:esx-01/{A}`"),
        (of_both, "host:esx-01", f"`vgpu-cfg uncordon gpu:esx-01/{A}`"),
        (of_both, f"gpu:esx-01/{A}", "`vgpu-cfg uncordon host:esx-01`"),
    ):
        (told,) = given_back(seen, word).diagnostics
        assert (told.code, told.severity.value) == ("VG545", "warning"), word
        assert remedy in told.remedy, word
    for seen, word in ((of_gpu, f"gpu:esx-01/{A}"), (cordoned(""), "host:esx-01")):
        assert findings(given_back(seen, word)) == [], word


def test_a_host_is_meant_by_its_name_with_the_domain_or_without() -> None:
    rows = {name: {"gpus": [{"board": "A100", "pci": A}]} for name in ("esx-01.lab", "esx-02.lab")}
    observed = make_inventory({"hosts": rows})
    for word in ("esx-01", "ESX-01.lab", "host:esx-01", "*-01"):
        assert one_host(word, observed).name == "esx-01.lab"
    (target,) = targets_of(["gpu:esx-02/21:00.0", "gpu:esx-02.lab/0000:21:00.0"], observed)
    assert (target.host.name, target.pci_id) == ("esx-02.lab", A)
    with pytest.raises(NotFound, match="no host matches esx"):
        one_host("esx", observed)


TWO = make_inventory(
    {
        "hosts": {
            "esx-02": {"gpus": [{"board": "A100", "pci": A}, {"board": "A100", "pci": B}]},
            "esx-01": {"gpus": [{"board": "A100", "pci": A}]},
            "gpu-03": {"cluster": "lab", "connection": "disconnected"},
            "both": {"cluster": "lab"},
        },
        "clusters": {"gpu": {}, "lab": {}, "both": {}},
    }
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["cluster:gpu"], ["esx-02", "esx-01"]),
        (["gpu"], ["esx-02", "esx-01"]),
        (["cluster:g*"], ["esx-01", "esx-02"]),
        (["cluster:*b"], ["both", "gpu-03"]),
        (["cluster:lab", "host:both"], ["gpu-03", "both"]),
        (["esx-01", "host:esx-*"], ["esx-01", "esx-02"]),
        ([f"gpu:esx-02/{B}", "gpu:esx-*/*"], [f"esx-02 {B}", f"esx-02 {A}", f"esx-01 {A}"]),
        (["gpu:esx-01/21:00.0"], [f"esx-01 {A}"]),
    ],
)
def test_what_words_mean(words: list[str], expected: list[str]) -> None:
    found = targets_of(words, TWO)
    assert sorted(f"{one.host.name} {one.pci_id}".strip() for one in found) == sorted(expected)


@pytest.mark.parametrize(
    ("word", "kind", "message", "remedy"),
    [
        ("both", Ambiguous, "both is both a host and a cluster", "specify one: host:both or cluster:both"),
        ("vm:a", NotFound, "vm:a", ""),
        (
            "nic:x",
            NotFound,
            "'nic:x' is not a host, a cluster or a GPU",
            "use host:NAME, cluster:NAME or gpu:HOST/PCI",
        ),
        (
            "cluster:",
            NotFound,
            "'cluster:' is not a host, a cluster or a GPU",
            "for example gpu:esx-01/0000:17:00.0",
        ),
        ("cluster:x*", NotFound, "cluster x* not found", "available clusters"),
        ("gpu:esx-01", NotFound, "'gpu:esx-01' does not specify a GPU", "use `gpu:esx-01/PCI`"),
        (f"gpu:esx-01/{B}", NotFound, f"no GPU on esx-01 matches {B}", "did you mean '0000:21:00.0'?"),
    ],
)
def test_words_that_mean_nothing_or_too_much(
    word: str, kind: type[VgpuCfgError], message: str, remedy: str
) -> None:
    with pytest.raises(kind) as told:
        targets_of([word], TWO)
    assert message in told.value.message
    assert remedy in told.value.remedy


def test_a_clone_of_a_vm_that_was_taken_away_is_left_alone() -> None:
    off = estate(2, {"a": small("esx-01", power="poweredOff"), "b": small("esx-01", power="poweredOff")})
    left = with_home(
        with_home(off, "a", Home(vm="vm-a", host="host-esx-01")), "b", Home(vm="vm-a", host="host-esx-01")
    )
    assert kinds(make_uncordon_plan(targets_of(["host:esx-01"], left), left, load_catalog())) == [
        "power_on_vm a",
        "set_attributes a",
    ]


def test_a_name_of_two_vms_is_no_leave_to_switch_either_off() -> None:
    observed = estate(2, {"a": small("esx-01", **OWN), "b": small("esx-02")})
    twins = tuple(vm.model_copy(update={"name": "a"}) for vm in observed.vms)
    observed = observed.model_copy(update={"vms": twins})
    with pytest.raises(Ambiguous, match="2 VMs are named a"):
        drain(observed, power_off=("a",))
    with pytest.raises(Ambiguous, match="2 VMs are named a"):
        make_uncordon_plan(targets_of(["host:esx-01"], observed), observed, load_catalog(), power_off=("a",))


def test_vms_of_one_name_leave_and_come_home_each_for_itself() -> None:
    observed = estate(2, {"a": small("esx-01"), "b": small("esx-01", "grid_a100-10c")})
    twins = tuple(vm.model_copy(update={"name": "a"}) for vm in observed.vms)
    plan = drain(observed.model_copy(update={"vms": twins}), others=True)
    assert sorted(change.id for change in plan.changes if change.kind == "relocate_vm") == [
        "move a (vm-a)",
        "move a (vm-b)",
    ]
    assert len({change.id for change in plan.changes}) == len(plan.changes)


def test_a_cordon_reads_back_and_one_that_was_cut_off_closes_the_host() -> None:
    cordon = Cordon(attribute="vgpu_cfg.cordon.1", reason="Xid 79", pci_id=A, by="anna")
    assert parse_cordons({"vgpu_cfg.cordon.1": cordon.text, "vgpu_cfg.mark": "x"}) == (cordon,)
    (cut,) = parse_cordons({"vgpu_cfg.cordon.1": cordon.text[:20]})
    assert cut.pci_id == ""
    assert cut.reason == cordon.text[:20]


@pytest.mark.parametrize(
    "typed", ["a\nesx-02: given back", "\x1b[31m", "\u202e", "\u009b1A", "\ud800", "\x00"]
)
def test_what_is_typed_into_a_cordon_stays_on_its_line(typed: str) -> None:
    texts = {
        "vgpu_cfg.cordon": typed,
        "vgpu_cfg.cordon.1": json.dumps({"reason": typed, "gpu": typed, "by": typed}),
    }
    for cordon in parse_cordons(texts):
        assert shown(f"{cordon.words}{cordon.pci_id}{cordon.by}").isprintable()
        assert Cordon.parse(cordon.attribute, cordon.text) == cordon
    deep = Cordon.parse("vgpu_cfg.cordon", "[" * 100_000)
    assert deep.reason.startswith("[[[")
    assert free_attribute(["vgpu_cfg.cordon", "vgpu_cfg.cordon.1"]) == "vgpu_cfg.cordon.2"


def test_a_drain_that_is_not_done_goes_on_by_the_same_command() -> None:
    observed = estate(2, {"a": small("esx-01", **OWN)})
    seen = Drained.of(observed.hosts[0], observed, "vgpu-cfg uncordon host:esx-01")
    told = [line.plain for line in render_upkeep(drain(observed), None, 80, drained=seen)]
    assert "esx-01 is still running a; to continue, rerun the command with the same options" in told


@pytest.mark.parametrize(("where", "is_moving"), [("esx-02", True), ("esx-02", False), ("esx-01", True)])
def test_an_arrival_that_was_not_noted_is_by_the_same_command(where: str, *, is_moving: bool) -> None:
    home = Home(vm="vm-a", host="host-esx-01", to="host-esx-02", is_cold=True, is_moving=is_moving)
    observed = with_home(estate(2, {"a": small(where, **OWN)}), "a", home)
    noted = [change.id for change in drain(observed).changes if "arrival" in change.id]
    assert noted == (["record the arrival of a"] if where == "esx-02" and is_moving else [])
