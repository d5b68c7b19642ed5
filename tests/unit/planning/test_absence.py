"""What becomes of VMs if a host or a part of it were away: in order as `drain` has it, and after a death."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.estate import make_inventory
from tests.unit.planning.test_rebalance import estate, small, that_move
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.errors import Ambiguous, NotFound, UnsafePlan
from vgpu_cfg.model.desired import DesiredPlan, ProtectingContext
from vgpu_cfg.model.observed.host_facts import EstateFacts
from vgpu_cfg.model.observed.inventory import Connection, Inventory
from vgpu_cfg.model.plan_file import ProtectEntry
from vgpu_cfg.planning.upkeep.absence import Absence, How, think_away
from vgpu_cfg.planning.upkeep.targets import away_of
from vgpu_cfg.render.views.estate.absence import view_absence

A, B = "0000:21:00.0", "0000:e2:00.0"
TWO = [{"board": "A100", "pci": A}, {"board": "A100", "pci": B}]
WHOLE = {"host": "esx-01", "gpus": ["grid_a100-40c"], "memory_gib": 16}


def without(word: str, observed: Inventory, *, protect: tuple[str, ...] = ()) -> Absence:
    context = ProtectingContext(name="prod", file="config.yaml", protect=ProtectEntry(names=protect))
    desired = DesiredPlan(name="fit", vcenter="vc.example", contexts=(context,))
    return think_away(away_of(word, observed), observed, load_catalog(), desired)


def ways(found: Absence) -> dict[str, tuple[str, str, str]]:
    """Return by VM how it leaves, where to, and where it starts after a death."""
    return {one.vm: (one.drained.how.value, one.drained.to, one.died.to) for one in found.vms}


def hosts(count: int, vms: dict[str, Any], *, migrates: bool | None = True, **more: Any) -> Inventory:
    """Observe hosts of two A100 each."""
    rows = {f"esx-{number:02}": {"gpus": TWO} for number in range(1, count + 1)}
    return that_move(make_inventory({"hosts": rows, "vms": vms} | more), migrates)


def test_only_what_holds_a_gpu_leaves_it_and_vmotion_comes_before_a_restart() -> None:
    vms = {"a": WHOLE | {"on": [A]}, "b": WHOLE | {"on": [B]}, "plain": {"host": "esx-01"}}
    assert ways(without(f"gpu:esx-01/{A}", hosts(2, vms))) == {"a": ("vmotion", "esx-02", "esx-02")}
    assert ways(without("gpu:esx-01/e2:00.0", hosts(2, vms))) == {"b": ("vmotion", "esx-02", "esx-02")}


def test_what_must_be_off_starts_again_on_another_gpu_of_its_host() -> None:
    observed = hosts(2, {"a": WHOLE | {"on": [A]}}, migrates=False)
    found = without(f"gpu:esx-01/{A}", observed)
    assert ways(found) == {"a": ("restart", "esx-01", "esx-01")}
    assert found.drained.placements[0].gpu_pci_ids == (B,)
    assert any("VG544" in note for note in found.notes)
    assert ways(without("host:esx-01", observed)) == {"a": ("cold", "esx-02", "esx-02")}


def test_a_vm_that_could_move_as_it_runs_restarts_where_no_other_host_has_room() -> None:
    (one,) = without(f"gpu:esx-01/{A}", hosts(1, {"a": WHOLE | {"on": [A]}})).vms
    assert (one.drained.how.value, one.drained.to) == ("restart", "esx-01")
    assert one.drained.why == "no other host can run it while it is powered on"


def test_without_another_gpu_it_is_off() -> None:
    vms = {"a": WHOLE | {"on": [A]}, "b": WHOLE | {"on": [B]}}
    (one,) = without(f"gpu:esx-01/{A}", hosts(1, vms)).vms
    assert (one.vm, one.drained.how.value, one.died.to) == ("a", "off", "")
    assert (
        one.drained.why
        == one.died.why
        == "neither its host nor any other host in its cluster has capacity for it"
    )


def test_a_death_heeds_no_protection_and_a_gpu_takes_its_vgpus_along() -> None:
    (one,) = without(f"gpu:esx-01/{A}", hosts(2, {"a": WHOLE | {"on": [A]}}), protect=("a",)).vms
    assert (one.drained.how.value, one.died.dies, one.died.to) == ("stays", True, "esx-02")
    assert not one.died.by_ha


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ({"label": "pt", "allowed": [[0x10DE, 0x20F1]], "assigned": A}, ("restart", "esx-01")),
        ({"pci": A}, ("off", "")),
    ],
)
def test_a_gpu_that_is_passed_through(device: dict[str, Any], expected: tuple[str, str]) -> None:
    passed = [gpu | {"passthrough": True, "label": "pt"} for gpu in TWO]
    rows = {"esx-01": {"gpus": passed}}
    vms = {"a": {"host": "esx-01", "passthrough": [device]}}
    (one,) = without(f"gpu:esx-01/{A}", make_inventory({"hosts": rows, "vms": vms})).vms
    assert (one.drained.how.value, one.drained.to) == expected
    assert one.died.dies is None  # whether the VM runs on without it nobody has shown


def test_a_vm_with_a_device_of_its_host_by_its_address_goes_nowhere_else_than_there() -> None:
    passed = {"board": "A100", "pci": "0000:e3:00.0", "passthrough": True}
    rows = {"esx-01": {"gpus": [*TWO, passed]}, "esx-02": {"gpus": [*TWO, passed]}}
    vms = {"a": WHOLE | {"on": [A], "passthrough": [{"pci": "0000:e3:00.0"}]}}
    observed = that_move(make_inventory({"hosts": rows, "vms": vms}))
    assert ways(without(f"gpu:esx-01/{A}", observed)) == {"a": ("restart", "esx-01", "esx-01")}
    assert ways(without("host:esx-01", observed)) == {"a": ("off", "", "")}


def test_what_is_lost_is_the_gpu_and_the_nvlink_that_joined_it() -> None:
    groups = ["Nvidia:2@grid_a100-40c%NVLink"]
    rows = {"esx-01": {"gpus": TWO, "groups": groups}}
    observed = that_move(make_inventory({"hosts": rows, "vms": {"a": small("esx-01")}}))
    loss = without(f"gpu:esx-01/{A}", observed).loss
    assert (loss.gpus, loss.memory_mib) == ({"A100 PCIe 40GB": 1}, 40 * 1024)
    assert 0 < loss.free_mib < loss.memory_mib
    ((host, domain),) = loss.links
    assert (host, domain.gpus, domain.is_certain) == ("esx-01", frozenset({A, B}), False)
    assert [(one.size, one.now, one.left) for one in loss.peer_sets] == [(2, 1, 0)]


def test_ha_starts_what_no_device_ties() -> None:

    for is_on in (True, False):
        (one,) = without(
            "host:esx-01", estate(2, {"a": small("esx-01")}, clusters={"gpu": {"ha": is_on}})
        ).vms
        assert (one.died.dies, one.died.to, one.died.by_ha) == (True, "esx-02", is_on)


def test_what_ha_leaves_is_told_by_name() -> None:
    overrides = {"gpu": {"ha": True, "vm_overrides": {"b": {"ha_restart": "disabled"}}}}
    found = without("host:esx-01", hosts(2, {"a": small("esx-01"), "b": small("esx-01")}, clusters=overrides))
    assert {one.vm: one.died.by_ha for one in found.vms} == {"a": True, "b": False}
    assert dict(view_absence(found).lines)["HA"].endswith("; restart b manually")
    nics = with_nics({"c": function(None)}, functions=4)
    clusters = tuple(one.model_copy(update={"ha_enabled": True}) for one in nics.clusters)
    (one,) = without("host:esx-01", nics.model_copy(update={"clusters": clusters})).vms
    assert (one.died.to, one.died.by_ha) == ("esx-02", False)  # VG417


def test_a_choice_of_esxi_that_could_leave_one_without_a_gpu_is_told() -> None:
    own: dict[str, Any] = {"mark": "team/a", "marked": {"by": "anna"}}
    vms = {
        "a": small("esx-01", "grid_a100-20c", **own),
        "b": small("esx-01", "grid_a100-20c", **own),
        "c": small("esx-01", on=[B], **own),
    }
    (note,) = without("host:esx-01", hosts(2, vms)).notes
    assert "after ESXi chooses the GPUs, none may be left for an incoming VM" in note
    assert without("host:esx-01", hosts(2, {"a": vms["a"], "c": vms["c"]})).notes == ()


def test_without_a_cluster_nothing_moves_and_ha_starts_nothing() -> None:
    vms = {"a": small("esx-01"), "b": small("esx-02"), "plain": {"host": "esx-02"}}
    found = without("cluster:gpu", estate(2, vms, clusters={"gpu": {"ha": True}}))
    assert ways(found) == {"a": ("off", "", ""), "b": ("off", "", ""), "plain": ("off", "", "")}
    assert {one.died.why for one in found.vms} == {"no other host in its cluster can run it"}
    assert not any(one.died.by_ha for one in found.vms)
    assert (found.totals.vms, found.totals.ways[How.OFF], found.totals.dies) == (3, 3, 3)
    assert found.loss.gpus == {"A100 PCIe 40GB": 2}


def test_a_cluster_of_one_host_is_that_host() -> None:
    vms = {"a": small("esx-01", mark="team/a", marked={"by": "anna"}), "plain": {"host": "esx-01"}}
    host, cluster = (without(word, estate(1, vms)) for word in ("host:esx-01", "cluster:gpu"))
    assert (cluster.vms, cluster.loss, cluster.totals) == (host.vms, host.loss, host.totals)
    assert cluster.drained.changes == host.drained.changes != ()


def test_of_a_cluster_a_host_that_does_not_respond_is_left_out() -> None:
    observed = estate(2, {"a": small("esx-01"), "b": small("esx-02")})
    silent = tuple(
        host.model_copy(update={"connection": Connection.NOT_RESPONDING}) if host.name == "esx-02" else host
        for host in observed.hosts
    )
    found = without("cluster:gpu", observed.model_copy(update={"hosts": silent}))
    assert [one.vm for one in found.vms] == ["a"]
    assert "esx-02 does not respond: its VMs are not included" in found.notes


NIC, OTHER = "0000:24:00.0", "0000:e4:00.0"


def with_nics(vms: dict[str, Any], *uplinks: str, switches: Any = None, **first: Any) -> Inventory:
    """Observe two hosts of two NICs each, `vmnic2` and `vmnic3`; one standard switch has `uplinks`."""
    facts = {
        "switches": switches or [{"name": "vSwitch0", "uplinks": uplinks}],
        "vmknics": [{"device": "vmk0", "network": "Management Network", "services": ["management"]}],
    }
    nics = [{"vmnic": "vmnic2", "pci": NIC} | first, {"vmnic": "vmnic3", "pci": OTHER, "functions": 4}]
    rows = {name: {"gpus": TWO, "nics": nics, "facts": facts} for name in ("esx-01", "esx-02")}
    return that_move(make_inventory({"hosts": rows, "vms": vms}))


def function(of: str | None) -> dict[str, Any]:
    return {"host": "esx-01", "nics": [{"network": "vm-network", "kind": "sriov", "function": of}]}


def test_a_virtual_function_keeps_its_vm_from_vmotion_and_its_address_from_any_move() -> None:
    observed = with_nics({"pinned": function(NIC), "any": function(None)}, functions=1)
    found = without("nic:esx-01/vmnic2", observed)
    assert ways(found) == {"pinned": ("off", "", "")}
    (one,) = found.vms
    assert (one.functions, one.died.dies, one.died.by_ha) == (1, None, False)
    assert "a NIC virtual function with a fixed address ties it to the host" in one.drained.why
    assert any("has not been verified" in note for note in found.notes)
    assert ways(without(f"nic:esx-01/{OTHER}", observed)) == {"any": ("cold", "esx-02", "esx-02")}


def test_one_of_any_function_starts_again_on_its_host_with_that_of_another_nic() -> None:
    observed = with_nics({"any": function(None)}, functions=4)
    assert ways(without("nic:esx-01/24:00.0", observed)) == {"any": ("restart", "esx-01", "esx-01")}


def test_a_nic_that_is_passed_through_is_known_by_its_former_name_too() -> None:
    vms = {"a": {"host": "esx-01", "passthrough": [{"pci": NIC, "nic": True}]}, "b": {"host": "esx-01"}}
    observed = with_nics(vms, passthrough=True)
    facts = observed.facts.hosts["host-esx-01"].model_copy(update={"vmnics": {NIC: "vmnic2"}})
    known = observed.facts.model_copy(update={"hosts": {"host-esx-01": facts}})
    observed = observed.model_copy(update={"facts": known})
    for word in (f"nic:esx-01/{NIC}", "nic:esx-01/vmnic2"):
        (one,) = without(word, observed).vms
        assert (one.vm, one.whole_nics, one.drained.how) == ("a", 1, How.OFF)


def test_the_last_uplink_takes_its_networks_along_and_one_of_two_does_not() -> None:
    vms = {"a": WHOLE | {"on": [A], "nics": ["vm-network"]}, "b": WHOLE | {"on": [B]}}
    cut = without("nic:esx-01/vmnic2", with_nics(vms, "vmnic2"))
    (one,) = cut.vms
    assert (one.vm, one.drained.how, one.drained.to) == ("a", How.VMOTION, "esx-02")
    assert (one.died.dies, one.died.loses, one.died.to) == (False, ("vm-network",), "esx-02")
    (uplink,) = cut.uplinks
    assert (uplink.is_last, uplink.names, uplink.vmknics) == (True, ("vm-network",), ("vmk0 (management)",))
    assert (
        "the management network of esx-01 uses this NIC: vCenter would lose contact with the host"
        in cut.notes
    )
    kept = without("nic:esx-01/vmnic2", with_nics(vms, "vmnic2", "vmnic3"))
    assert (kept.vms, [one.up for one in kept.uplinks]) == ((), [("vmnic3",)])
    assert without("nic:esx-01/vmnic2", with_nics(vms, "vmnic3")).uplinks == ()


def test_an_uplink_without_a_link_is_none() -> None:
    observed = with_nics({"a": WHOLE | {"on": [A], "nics": ["vm-network"]}}, "vmnic2", "vmnic3")
    hosts = tuple(
        host.model_copy(
            update={
                "nics": tuple(
                    nic.model_copy(update={"speed_mbps": None}) if nic.device == "vmnic3" else nic
                    for nic in host.nics
                )
            }
        )
        for host in observed.hosts
    )
    found = without("nic:esx-01/vmnic2", observed.model_copy(update={"hosts": hosts}))
    assert ([one.others for one in found.uplinks], len(found.vms)) == ([("vmnic3",)], 1)


def test_of_several_standard_switches_nobody_tells_whose_a_network_is() -> None:
    switches = [{"name": "vSwitch0", "uplinks": ["vmnic2"]}, {"name": "vSwitch1", "uplinks": ["vmnic3"]}]
    observed = with_nics({"a": {"host": "esx-01", "nics": ["vm-network"]}}, switches=switches)
    found = without("nic:esx-01/vmnic2", observed)
    assert found.vms == ()
    assert "the port groups on vSwitch0 are unknown; vm-network could be disconnected" in found.notes


def test_a_host_whose_switches_were_not_read_says_so() -> None:
    observed = with_nics({"a": {"host": "esx-01", "nics": ["vm-network"]}}, "vmnic2")
    unread = observed.model_copy(update={"facts": EstateFacts()})
    (note,) = without("nic:esx-01/vmnic2", unread).notes
    assert note.startswith("esx-01 does not report its switches")


def test_nothing_leaves_a_host_that_does_not_respond() -> None:
    observed = hosts(2, {"a": WHOLE | {"on": [A]}})
    silent = tuple(
        host.model_copy(update={"connection": Connection.NOT_RESPONDING}) for host in observed.hosts
    )
    with pytest.raises(UnsafePlan, match="its VMs cannot be moved"):
        without(f"gpu:esx-01/{A}", observed.model_copy(update={"hosts": silent}))


def test_a_cluster_that_shares_its_name_is_named_by_its_path() -> None:
    observed = hosts(1, {})
    (known,) = (one for one in observed.clusters if one.name == "gpu")
    twin = known.model_copy(update={"moid": "other", "inventory_path": "/dc2/host/gpu"})
    both = observed.model_copy(update={"clusters": (*observed.clusters, twin)})
    with pytest.raises(Ambiguous, match="2 clusters are named gpu") as told:
        away_of("cluster:gpu", both)
    assert "cluster:/dc2/host/gpu" in told.value.remedy
    assert away_of(f"cluster:{known.inventory_path}", both).hosts == observed.hosts


@pytest.mark.parametrize(
    ("word", "message", "remedy"),
    [
        (
            "hots:esx-01",
            "'hots:esx-01' does not identify a host, cluster, GPU or NIC",
            "did you mean `host:esx-01`?",
        ),
        ("", "'' does not identify a host, cluster, GPU or NIC", "kinds: host:NAME"),
        ("gpu:esx-01", "'gpu:esx-01' does not specify a GPU", "use `gpu:esx-01/PCI`"),
        ("gpu:esx-01/99:00.0", "no GPU on esx-01 matches 0000:99:00.0", "did you mean '0000:e2:00.0'?"),
        ("gpu:esx-01/*", "matches 2 GPUs, but exactly one is required", f"specify one: gpu:esx-01/{A}"),
        ("host:esx-*", "matches 2 hosts", "specify one: esx-01, esx-02"),
        ("gpu:/21:00.0", "no host specified", "run `vgpu-cfg inventory` to list the hosts"),
        ("nic:/vmnic2", "no host specified", "run `vgpu-cfg inventory` to list the hosts"),
        ("nic:esx-01/", "'nic:esx-01/' does not specify a NIC", "use `nic:esx-01/VMNIC`"),
        (
            "cluster:",
            "'cluster:' does not identify a host, cluster, GPU or NIC",
            "kinds: host:NAME, cluster:NAME, gpu:HOST/PCI",
        ),
        ("cluster:*", "cluster * not found", "available clusters: gpu"),
        ("cluster:gqu", "cluster gqu not found", "did you mean 'gpu'?"),
        ("nic:esx-01", "'nic:esx-01' does not specify a NIC", "use `nic:esx-01/VMNIC`"),
        ("nic:esx-01/vmnic4", "NIC vmnic4 not found on esx-01", "run `vgpu-cfg inventory` to list the NICs"),
        ("host:esx-03", "no host matches esx-03", "did you mean 'esx-02'?"),
    ],
)
def test_a_word_that_does_not_say_what_is_told(word: str, message: str, remedy: str) -> None:
    with pytest.raises(NotFound) as told:
        away_of(word, hosts(2, {}))
    assert message in told.value.message
    assert remedy in told.value.remedy
