"""Which functions of NICs a VM is given: matched by what they are, near its GPUs, each to one VM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plans.estate import make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.capacity.nic_needs import (
    NicKind,
    NicNeed,
    NicStock,
    choose_nics,
    far_nics,
    is_matching,
    refuse_nics,
)
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.vms.checks.nic_checks import explain_nics

WHOLE, VIRTUAL = NicKind.PASSTHROUGH, NicKind.SRIOV
FIRST, SECOND, THIRD = "0000:24:00.0", "0000:e4:00.0", "0000:e5:00.0"


def stock(
    *nics: Mapping[str, Any], vms: Mapping[str, Any] | None = None, facts: Mapping[str, Any] | None = None
) -> NicStock:
    """Return what a host with these NICs has left beside the VMs on it."""
    rows: dict[str, Any] = {"hosts": {"esx-01": {"nics": list(nics)}}, "vms": dict(vms or {})}
    if facts is not None:
        rows["hosts"]["esx-01"]["facts"] = facts
    observed = make_inventory(rows)
    found = CapacityReader(observed, load_catalog()).read(observed.hosts[0])
    held = {slot.pci.pci_id: slot.holder for slot in found.slots if slot.holder}
    return NicStock(found, held, {})


def whole(pci: str, node: int = 0, **more: Any) -> dict[str, Any]:
    return {"pci": pci, "node": node, "passthrough": True, **more}


def cut(pci: str, functions: int, node: int = 0, **more: Any) -> dict[str, Any]:
    return {"pci": pci, "node": node, "functions": functions, **more}


@pytest.mark.parametrize(
    ("need", "found"),
    [
        (NicNeed(WHOLE), FIRST),
        (NicNeed(WHOLE, pin=SECOND), SECOND),
        (NicNeed(WHOLE, label="rail"), SECOND),
        (NicNeed(WHOLE, model="connectx-7"), THIRD),
        (NicNeed(WHOLE, allowed=((0x15B3, 0x1021),)), THIRD),
        (NicNeed(WHOLE, label="rail", model="ConnectX-7"), None),
        (NicNeed(WHOLE, pin="0000:99:00.0"), None),
        (NicNeed(VIRTUAL), None),
    ],
    ids=str,
)
def test_a_function_is_matched_by_what_it_is(need: NicNeed, found: str | None) -> None:
    have = stock(
        whole(FIRST), whole(SECOND, label="rail"), whole(THIRD, device_id=0x1021, name="MT2910 Family")
    )
    chosen = choose_nics([need], have)
    assert chosen == (None if found is None else (found,))


def test_a_virtual_function_that_the_host_lists_is_no_nic() -> None:
    pci = stock(whole(FIRST, device_id=0x101E)).capacity.slots[0].pci
    assert not is_matching(pci, NicNeed(WHOLE))
    assert is_matching(pci, NicNeed(WHOLE, pin=FIRST))


@pytest.mark.parametrize(
    ("gpu_nodes", "found"),
    [([0], (FIRST,)), ([1], (SECOND,)), ([None], (FIRST,)), ([], (FIRST,)), ([7], (FIRST,))],
)
def test_the_function_near_the_gpu_is_taken_first(gpu_nodes: list[int | None], found: tuple[str]) -> None:
    have = stock(whole(FIRST, 0), whole(SECOND, 1))
    need = NicNeed(WHOLE, near_gpu=True)
    assert choose_nics([need], have, gpu_nodes) == found
    assert far_nics([need], found, have, gpu_nodes) == (found if gpu_nodes == [7] else ())


@pytest.mark.parametrize(("node", "code"), [(0, None), (1, None), (7, Code.NIC_FAR)])
def test_what_must_be_near_is_near_or_not_at_all(node: int, code: Code | None) -> None:
    have = stock(whole(FIRST, 0), whole(SECOND, 1))
    assert refuse_nics([NicNeed(WHOLE, near_gpu=True, must_be_near=True)], have, [node]) is code


def test_each_nic_stands_beside_a_gpu_of_its_own() -> None:
    have = stock(whole(FIRST, 0), whole(SECOND, 1), whole(THIRD, 1))
    needs = [NicNeed(WHOLE, near_gpu=True)] * 2
    assert choose_nics(needs, have, [1, 0]) == (SECOND, FIRST)
    assert choose_nics(needs, have, [1, 1]) == (SECOND, THIRD)


def test_one_need_leaves_to_the_other_what_only_that_can_have() -> None:
    have = stock(whole(FIRST, label="rail"), whole(SECOND))
    needs = [NicNeed(WHOLE), NicNeed(WHOLE, label="rail")]
    assert choose_nics(needs, have) == (SECOND, FIRST)


def test_virtual_functions_are_spread_and_counted() -> None:
    have = stock(cut(FIRST, 2), cut(SECOND, 1, 1))
    need = NicNeed(VIRTUAL)
    assert choose_nics([need], have) == (FIRST,)
    assert sorted(choose_nics([need] * 3, have) or ()) == [FIRST, FIRST, SECOND]
    assert choose_nics([need] * 4, have) is None
    assert refuse_nics([need] * 4, have) is Code.NIC_TAKEN


@pytest.mark.parametrize(("power", "left"), [("poweredOn", 1), ("poweredOff", 2)])
@pytest.mark.parametrize("named", [FIRST, None])
def test_a_running_vm_has_its_virtual_function(power: str, left: int, named: str | None) -> None:
    nic = {"network": "vm-network", "kind": "sriov", "function": named}
    have = stock(cut(FIRST, 2), vms={"others-01": {"nics": [nic], "power": power}})
    assert [pool.free for pool in have.capacity.functions] == [left]
    assert (choose_nics([NicNeed(VIRTUAL)] * 2, have) is None) is (left == 1)


def test_a_whole_function_is_one_running_vms() -> None:
    vms = {"others-01": {"passthrough": [{"pci": FIRST, "nic": True}]}}
    have = stock(whole(FIRST), vms=vms)
    assert have.held == {FIRST: "others-01"}
    told = explain_nics([NicNeed(WHOLE)], have, [])
    assert told == (Code.NIC_TAKEN, f"no free function: {FIRST} by others-01")


@pytest.mark.parametrize(
    ("need", "nics", "told"),
    [
        (NicNeed(WHOLE), (whole(FIRST),), None),
        (NicNeed(WHOLE), (), (Code.NIC_ABSENT, "does not have a NIC")),
        (
            NicNeed(WHOLE, label="rail"),
            (whole(FIRST),),
            (Code.NIC_ABSENT, "does not have a NIC with label 'rail'"),
        ),
        (
            NicNeed(WHOLE),
            (cut(FIRST, 0, vmnic="vmnic2"),),
            (Code.NIC_NOT_READY, f"{FIRST} (vmnic2): not in passthrough mode"),
        ),
        (
            NicNeed(WHOLE),
            (cut(FIRST, 0, passthrough_pending=True),),
            (
                Code.NIC_NOT_READY,
                f"{FIRST}: not in passthrough mode; {FIRST} will be available after a restart",
            ),
        ),
        (NicNeed(VIRTUAL), (cut(FIRST, 0),), (Code.NIC_NOT_READY, f"no virtual functions on {FIRST}")),
        (NicNeed(VIRTUAL), (cut(FIRST, 1),), None),
    ],
    ids=str,
)
def test_why_there_is_none(
    need: NicNeed, nics: Sequence[Mapping[str, Any]], told: tuple[Code, str] | None
) -> None:
    assert explain_nics([need], stock(*nics), []) == told


@pytest.mark.parametrize(
    ("uplinks", "code"), [(["vmnic2"], Code.NIC_HOSTS_OWN), (["vmnic0"], Code.NIC_NOT_READY)]
)
def test_an_uplink_is_the_hosts_own(uplinks: list[str], code: Code) -> None:
    facts = {"switches": [{"name": "dvs-roce", "uplinks": uplinks}]}
    have = stock(cut(FIRST, 0, vmnic="vmnic2"), facts=facts)
    told = explain_nics([NicNeed(WHOLE, pin=FIRST)], have, [])
    assert told is not None
    assert told[0] is code


def test_the_codes_are_those_of_the_pages() -> None:
    codes = (Code.NIC_ABSENT, Code.NIC_NOT_READY, Code.NIC_TAKEN, Code.NIC_FAR, Code.NIC_HOSTS_OWN)
    assert codes == ("VG406", "VG407", "VG408", "VG409", "VG410")


@given(
    nodes=st.lists(st.sampled_from([0, 1, None]), min_size=1, max_size=5),
    labels=st.lists(st.booleans(), min_size=5, max_size=5),
    wanted=st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=4),
    gpus=st.lists(st.sampled_from([0, 1]), max_size=3),
)
def test_the_choice_is_as_good_as_the_best_of_all(
    nodes: list[int | None],
    labels: list[bool],
    wanted: list[tuple[bool, bool, bool]],
    gpus: list[int],
) -> None:
    addresses = [f"0000:{number:02x}:00.0" for number in range(16, 16 + len(nodes))]
    have = stock(
        *(
            {
                "pci": pci,
                "node": node,
                "passthrough": True,
                "label": "rail" if is_rail else None,
            }
            for pci, node, is_rail in zip(addresses, nodes, labels, strict=False)
        )
    )
    needs = [
        NicNeed(WHOLE, label="rail" if is_rail else None, near_gpu=is_near or must, must_be_near=must)
        for is_rail, is_near, must in wanted
    ]
    slots = {slot.pci.pci_id: slot.pci for slot in have.capacity.slots}

    def is_far(need: NicNeed, pci_id: str) -> bool:
        return need.near_gpu and bool(gpus) and slots[pci_id].numa_node not in (None, *gpus)

    possible = [
        chosen
        for chosen in permutations(slots, len(needs))
        if all(
            is_matching(slots[pci_id], need) and not (need.must_be_near and is_far(need, pci_id))
            for need, pci_id in zip(needs, chosen, strict=True)
        )
    ]
    found = choose_nics(needs, have, gpus)
    assert (found is not None) is bool(possible)
    if found is not None:
        assert found in possible
        fewest = min(sum(map(is_far, needs, chosen)) for chosen in possible)
        assert len(far_nics(needs, found, have, gpus)) == fewest
