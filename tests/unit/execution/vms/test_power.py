from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from tests.fakes.fake_vcenter import FakeVCenter
from tests.unit.execution.makers import (
    TEMPLATE,
    TEMPLATE_DETAIL,
    add_own_vm,
    create,
    estate,
    mark,
    pin,
    power_on,
    run,
    spec_of,
    statuses,
)
from vgpu_cfg.changes.kinds.power import NumaPin
from vgpu_cfg.changes.kinds.vm_spec import NewVgpu
from vgpu_cfg.model.observed.vm import PowerState

NODE_0, NODE_1 = "0000:3b:00.0", "0000:af:00.0"


def affinity(server: FakeVCenter, name: str) -> str | None:
    detail = server.vm(name).detail
    return detail.extra_config.get("numa.nodeAffinity") if detail else None


def powered(server: FakeVCenter, **fields: Any) -> list[str]:
    run(server, create("a"), power_on("a", **fields))
    return [method for method, _ in server.calls]


def test_two_tasks_make_a_running_vm() -> None:
    server = estate()
    assert powered(server) == ["create_vm", "power_on_vm"]
    assert server.vm("a").is_on


def test_a_vm_that_got_a_gpu_of_its_node_stays_on() -> None:
    server = estate(choices=[NODE_0])
    assert powered(server, pin=pin()) == ["create_vm", "power_on_vm"]
    assert affinity(server, "a") == "0"


def test_a_vm_that_got_a_gpu_of_another_node_is_pinned_there() -> None:
    server = estate(choices=[NODE_1, NODE_1])
    report, events = run(server, create("a"), power_on("a", pin=pin()))
    assert [method for method, _ in server.calls[1:]] == [
        "power_on_vm",
        "power_off_vm",
        "reconfigure_vm",
        "power_on_vm",
    ]
    assert affinity(server, "a") == "1"
    assert server.vm("a").is_on
    assert report.outcomes[1].message == f"GPU {NODE_1} on NUMA node 1"
    assert any("affinity 0: power-on 1/8; retrying" in event.message for event in events)


def test_a_host_that_chooses_anew_each_time_is_followed() -> None:
    server = estate(choices=[NODE_1, NODE_0, NODE_1, NODE_1])
    report, _ = run(server, create("a"), power_on("a", pin=pin()))
    assert statuses(report)["power on a"] == "done"
    assert affinity(server, "a") == "1"


def test_the_tries_are_bounded_and_the_vm_is_left_off() -> None:
    server = estate(choices=[NODE_1, NODE_0, NODE_1])
    report, _ = run(server, create("a"), power_on("a", pin=pin(attempts=3)))
    assert statuses(report)["power on a"] == "failed"
    assert len(server.started("power_on_vm")) == 3
    assert not server.vm("a").is_on
    assert "3 times" in report.outcomes[1].message
    assert "numa: off" in report.outcomes[1].remedy
    assert tuple(map(str, report.left_behind)) == ("a: created, but not completed: power on a",)


def test_a_vm_that_spans_nodes_is_not_squeezed_onto_the_one_of_its_gpu() -> None:
    server = estate(choices=[NODE_1])
    spec = spec_of("a", extra_config={**mark("a"), "numa.nodeAffinity": "0,1"})
    report, _ = run(server, create("a", spec=spec), power_on("a", pin=pin((0, 1))))
    assert statuses(report)["power on a"] == "done"
    assert affinity(server, "a") == "0,1"
    assert len(server.started("power_on_vm")) == 1


def test_a_vm_as_wide_as_two_nodes_keeps_its_width_when_it_is_pinned_anew() -> None:
    gpus = {"host-1": {NODE_0: 0, NODE_1: 1, "0000:d8:00.0": 2}}
    server = estate(gpus=gpus, choices=["0000:d8:00.0", "0000:d8:00.0"])
    spec = spec_of("a", extra_config={**mark("a"), "numa.nodeAffinity": "0,1"})
    wide = NumaPin(node_by_pci_id=gpus["host-1"], nodes=(0, 1))
    run(server, create("a", spec=spec), power_on("a", pin=wide))
    assert affinity(server, "a") == "0,2"


def test_two_vms_on_one_host_each_get_the_node_of_their_gpu() -> None:
    server = estate(choices=[NODE_1, NODE_1, NODE_0])
    report, _ = run(server, create("a"), create("b"), power_on("a", pin=pin()), power_on("b", pin=pin((1,))))
    assert set(statuses(report).values()) == {"done"}
    assert (affinity(server, "a"), affinity(server, "b")) == ("1", "0")


def test_the_host_may_take_a_while_to_say_which_gpu_it_chose() -> None:
    server = estate(choices=[NODE_0], hides_gpus_for=5.0)
    report, _ = run(server, create("a"), power_on("a", pin=pin()))
    assert statuses(report)["power on a"] == "done"


class OneByOne(FakeVCenter):
    """Shows the GPUs of a VM that was just started one by one, another with each reading."""

    readings = 0

    def read_gpu_holders(self, host_moids: Iterable[str]) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        whole = super().read_gpu_holders(host_moids)
        self.readings += any(moids for holders in whole.values() for moids in holders.values())
        return {host: dict(list(holders.items())[: self.readings]) for host, holders in whole.items()}


def test_a_vm_of_two_gpus_that_are_told_one_by_one_is_pinned_to_both() -> None:
    gpus = {"host-1": {NODE_0: 0, NODE_1: 1}}
    server = OneByOne(gpus=gpus, choices=[NODE_0, NODE_1])
    server.add_vm(TEMPLATE.name, "vm-template", TEMPLATE_DETAIL, is_template=True)
    two = (NewVgpu(profile="grid_a100-40c"), NewVgpu(profile="grid_a100-40c"))
    spec = spec_of("a", devices=two, extra_config={**mark("a"), "numa.nodeAffinity": "0,1"})
    report, _ = run(server, create("a", spec=spec), power_on("a", pin=pin((0, 1))))
    assert report.outcomes[1].message == f"GPU {NODE_0}, {NODE_1} on NUMA node 0,1"


def test_a_host_that_never_says_it_is_not_confirmed() -> None:
    server = estate(choices=[NODE_0], hides_gpus_for=1e6)
    report, _ = run(server, create("a"), power_on("a", pin=pin()))
    assert "does not report a's GPU" in report.outcomes[1].message


def test_the_gpu_that_a_vm_held_before_is_not_taken_for_its_new_one() -> None:
    server = estate(choices=[NODE_1, NODE_0, NODE_0], shows_released_for=25.0)
    report, _ = run(server, create("a"), power_on("a", pin=pin()))
    assert statuses(report)["power on a"] == "done"
    assert affinity(server, "a") == "0"
    assert len(server.started("power_on_vm")) == 3


def test_a_host_that_never_forgets_what_a_vm_held_is_not_confirmed() -> None:
    server = estate(choices=[NODE_1], shows_released_for=1e6)
    report, _ = run(server, create("a"), power_on("a", pin=pin()))
    assert "its host still shows it as using GPU" in report.outcomes[1].message
    assert not server.vm("a").is_on


def test_a_vm_is_powered_on_at_the_host_that_was_planned() -> None:
    server = estate()
    run(server, create("a"), power_on("a"))
    assert server.hosts_asked == ["host-1"]


def test_a_gpu_whose_node_is_unknown_is_not_confirmed() -> None:
    server = estate(choices=["0000:d8:00.0"], gpus={"host-1": {"0000:d8:00.0": 1}})
    report, _ = run(server, create("a"), power_on("a", pin=pin()))
    assert "whose NUMA node is not in the plan" in report.outcomes[1].message


@pytest.mark.parametrize(
    ("with_pin", "status", "said"),
    [
        (True, "failed", "a started on a different host than planned"),
        (False, "done", "DRS started it on a different host"),
    ],
    ids=["True-failed", "False-done"],
)
def test_drs_may_start_a_vm_elsewhere(with_pin: bool, status: str, said: str) -> None:
    server = estate(starts_on="host-2", choices=[NODE_0])
    report, _ = run(server, create("a"), power_on("a", pin=pin() if with_pin else None))
    assert statuses(report)["power on a"] == status
    assert said in report.outcomes[1].message


def test_a_vm_that_runs_already_needs_nothing_but_is_not_moved_about() -> None:
    server = estate()
    add_own_vm(server, "a", "vm-7", power_state=PowerState.ON)
    report, _ = run(server, power_on("a", moid="vm-7", needs=()))
    assert statuses(report) == {"power on a": "not_needed"}
    report, _ = run(server, power_on("a", moid="vm-7", needs=(), pin=pin()))
    assert statuses(report) == {"power on a": "failed"}
    assert server.calls == []


def test_a_power_on_that_fails_tells_vcenters_words_and_what_they_mean() -> None:
    text = "Module 'DevicePowerOn' power on failed."
    server = estate(failures={("power_on_vm", 1): ("GenericVmConfigFault", text)})
    report, _ = run(server, create("a"), power_on("a"))
    assert report.outcomes[1].message == f"power on a: {text}"
    assert "vmware.log" in report.outcomes[1].remedy
    assert tuple(map(str, report.left_behind)) == ("a: created, but not completed: power on a",)
