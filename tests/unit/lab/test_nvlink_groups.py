"""Power-ons of device groups: whole idle GPUs that NVLink joins, however the host chooses among them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from pyVmomi import vim

from tests.unit.lab.group_rig import (
    A100D,
    CHOICES,
    H100XM,
    PAIR,
    GroupRig,
    config,
    hgx_group,
    of_groups,
    rig_of,
    single,
)
from tests.unit.lab.rig import built
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.lab.rules.gpu_load import GpuChoice
from vgpu_cfg.lab.rules.nvlink import SWITCH_SETS, joined_sets, offered_groups
from vgpu_cfg.lab.state.inventory import Host, Passthrough

LEFT, RIGHT = ["0000:4a:00.0", "0000:61:00.0"], ["0000:ca:00.0", "0000:e1:00.0"]
FULL = vim.fault.InsufficientGraphicsResourcesFault

FOUR_WAY = """
about: Four H200 NVL, all joined with each other.
clusters:
- name: gpu
  hosts:
  - name: four.lab
    gpus:
    - {board: H200, pci_id: "0000:21:00.0", nvlink: ["0000:41:00.0", "0000:61:00.0", "0000:81:00.0"]}
    - {board: H200, pci_id: "0000:41:00.0", nvlink: ["0000:21:00.0", "0000:61:00.0", "0000:81:00.0"]}
    - {board: H200, pci_id: "0000:61:00.0", nvlink: ["0000:21:00.0", "0000:41:00.0", "0000:81:00.0"]}
    - {board: H200, pci_id: "0000:81:00.0", nvlink: ["0000:21:00.0", "0000:41:00.0", "0000:61:00.0"]}
"""


def power_on(rig: GroupRig, vm: object) -> object:
    """Start a VM and return the fault, None where there is none."""
    return rig.end(vm.PowerOnVM_Task()).error  # type: ignore[attr-defined]  # a pyvmomi proxy


@pytest.fixture(params=CHOICES)
def choice(request: pytest.FixtureRequest) -> GpuChoice:
    found: GpuChoice = request.param
    return found


class TestBridges:
    def test_a_pair_takes_a_pair(self, choice: GpuChoice) -> None:
        rig = GroupRig(choice=choice)
        rig.on("a", of_groups(PAIR))
        rig.on("b", of_groups(PAIR))
        assert sorted([rig.places("a"), rig.places("b")]) == [LEFT, RIGHT]
        fault = power_on(rig, rig.made("c", of_groups(PAIR)))
        assert isinstance(fault, FULL)
        assert fault.faultMessage[0].message == f"No graphics device is available for vGPU '{A100D}'."
        rig.done(rig.seen("a").PowerOffVM_Task())
        assert power_on(rig, rig.seen("c")) is None

    def test_one_vm_takes_both_pairs(self, choice: GpuChoice) -> None:
        rig = GroupRig(choice=choice)
        rig.on("a", of_groups(PAIR, PAIR))
        uses = {use.device_key: gpu.pci_id for gpu in rig.first().gpus for use in gpu.uses}
        assert sorted([[uses[13000], uses[13001]], [uses[13002], uses[13003]]]) == [LEFT, RIGHT]

    @pytest.mark.parametrize("profile", [A100D, "grid_a100d-20c"])
    def test_a_member_used_alone_breaks_its_pair(self, choice: GpuChoice, profile: str) -> None:
        rig = GroupRig("bridges-2xa100", choice)
        rig.on("alone", config(single(profile)), host="esx-nvlink-02.lab")
        (at,) = rig.places("alone")
        rig.on("a", of_groups(PAIR), host="esx-nvlink-02.lab")
        assert rig.places("a") == (RIGHT if at in LEFT else LEFT)
        assert isinstance(power_on(rig, rig.made("b", of_groups(PAIR), host="esx-nvlink-02.lab")), FULL)
        rig.done(rig.seen("alone").PowerOffVM_Task())
        assert power_on(rig, rig.seen("b")) is None

    def test_the_estates_broken_pair_is_left_out(self, choice: GpuChoice) -> None:
        rig = GroupRig("bridges-2xa100", choice)
        rig.on("a", of_groups(PAIR), host="esx-nvlink-01.lab")
        assert rig.places("a") == RIGHT

    @pytest.mark.parametrize("how", ["mig", "passthrough"])
    def test_a_gpu_that_serves_no_vgpus_so_is_in_no_group(self, how: str) -> None:
        rig = GroupRig()
        host = rig.first()
        for address in (LEFT[0], RIGHT[0]):
            assert list(offered_groups(host)) == [PAIR]
            if how == "mig":
                host.gpu(address).mig_enabled = True  # type: ignore[union-attr]  # it is there
            else:
                host.passthrough[address] = Passthrough(enabled=True, active=True)
        assert offered_groups(host) == {}

    def test_groups_are_listed_while_none_is_free(self) -> None:
        rig = GroupRig()
        rig.on("a", of_groups(PAIR, PAIR))
        assert list(offered_groups(rig.first())) == [PAIR]

    def test_unified_memory_and_windows_do_not_keep_a_group_from_starting(self) -> None:
        rig = GroupRig()
        spec = of_groups(PAIR, extra={"pciPassthru0.cfg.enable_uvm": "1"})
        vm = rig.made("a", spec)
        assert rig.reconfigured(vm, guestId="windows2019srvNext_64Guest") is None
        assert power_on(rig, vm) is None

    def test_four_joined_gpus_serve_pairs_and_a_four(self, tmp_path: Path, choice: GpuChoice) -> None:
        rig = rig_of(FOUR_WAY, tmp_path, choice)
        names = [f"Nvidia:{size}@nvidia_h200-141c%NVLink" for size in (2, 4)]
        assert list(offered_groups(rig.first())) == names
        rig.on("four", of_groups(names[1]))
        assert isinstance(power_on(rig, rig.made("two", of_groups(names[0]))), FULL)
        rig.done(rig.seen("four").PowerOffVM_Task())
        assert power_on(rig, rig.seen("two")) is None
        assert power_on(rig, rig.made("more", of_groups(names[0]))) is None
        assert len({*rig.places("two"), *rig.places("more")}) == 4


class TestSwitch:
    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("size", [2, 4, 8])
    def test_a_group_takes_a_partition(self, choice: GpuChoice, size: int, seed: int) -> None:
        rig = GroupRig("hgx-h100", choice, seed)
        for number in range(8 // size):
            rig.on(f"g{number}", of_groups(hgx_group(size)), host="esx-hgx-01.lab")
        found = [tuple(rig.places(f"g{number}")) for number in range(8 // size)]
        assert sorted(found) == [modules for modules in SWITCH_SETS if len(modules) == size]
        assert isinstance(power_on(rig, rig.made("more", of_groups(hgx_group(2)))), FULL)

    def test_pairs_are_packed_so_that_a_four_is_left(self) -> None:
        for choice in ("least_loaded", "lowest"):
            rig = GroupRig("hgx-h100", choice)
            rig.on("a", of_groups(hgx_group(2)))
            rig.on("b", of_groups(hgx_group(2)))
            assert (rig.places("a"), rig.places("b")) == ([1, 3], [2, 4])
            rig.on("c", of_groups(hgx_group(4)))
            assert rig.places("c") == [5, 6, 7, 8]

    @pytest.mark.parametrize(("choice", "modules"), [("least_loaded", [5, 7]), ("lowest", [1, 3])])
    def test_packing_prefers_the_half_that_is_broken(
        self, tmp_path: Path, choice: GpuChoice, modules: list[int]
    ) -> None:
        alone = "{name: alone, memory: 16GiB, gpus: [{profile: nvidia_h100xm-20c, on: '0000:26:00.0'}]}"
        given: list[int | None] = [1, 2, 3, 4, 5, 6, 7, 8]
        rig = rig_of(board(given, f"vms:\n- {alone}"), tmp_path, choice)
        assert rig.places("alone") == [6]
        rig.on("a", of_groups(hgx_group(2)))
        assert rig.places("a") == modules

    def test_random_pairs_may_leave_no_four(self) -> None:
        outcomes = set()
        for seed in range(8):
            rig = GroupRig("hgx-h100", "random", seed)
            rig.on("a", of_groups(hgx_group(2)))
            rig.on("b", of_groups(hgx_group(2)))
            fault = power_on(rig, rig.made("c", of_groups(hgx_group(4))))
            same_half = (rig.places("a")[0] > 4) == (rig.places("b")[0] > 4)  # type: ignore[operator]  # module ids
            assert (fault is None) == same_half
            outcomes.add(same_half)
        assert outcomes == {True, False}

    def test_pairs_in_both_halves_leave_no_four(self, choice: GpuChoice) -> None:
        rig = GroupRig("hgx-2xh100", choice)
        assert (rig.places("pair-a"), rig.places("pair-b")) == ([2, 4], [5, 7])
        first, second = "esx-hgx-01.lab", "esx-hgx-02.lab"
        assert isinstance(power_on(rig, rig.made("four", of_groups(hgx_group(4)), host=first)), FULL) is False
        assert rig.where("four") == second, "DRS places it"
        rig.cluster().drs_behavior = "manual"
        assert isinstance(power_on(rig, rig.made("more", of_groups(hgx_group(4)), host=first)), FULL)
        rig.done(rig.seen("pair-b").PowerOffVM_Task())
        assert power_on(rig, rig.seen("more")) is None
        assert rig.places("more") == [5, 6, 7, 8]

    def test_a_gpu_used_alone_breaks_every_partition_with_it(self, choice: GpuChoice) -> None:
        rig = GroupRig("hgx-h100", choice)
        rig.on("alone", config(single("nvidia_h100xm-20c")))
        assert isinstance(power_on(rig, rig.made("eight", of_groups(hgx_group(8)))), FULL)
        assert power_on(rig, rig.made("four", of_groups(hgx_group(4)))) is None
        assert isinstance(power_on(rig, rig.made("other", of_groups(hgx_group(4)))), FULL)
        assert power_on(rig, rig.made("two", of_groups(hgx_group(2)))) is None
        assert not {*rig.places("alone")} & {*rig.places("four"), *rig.places("two")}

    def test_a_group_and_a_single_vgpu_go_into_one_vm(self, choice: GpuChoice) -> None:
        rig = GroupRig("hgx-h100", choice)
        rig.on("a", of_groups(hgx_group(4), hgx_group(2), devices=[single(H100XM)]))
        assert len(rig.places("a")) == 7

    def test_mig_on_one_gpu_takes_the_eight_away(self) -> None:
        host = GroupRig("hgx-h100").first()
        host.gpus[0].mig_enabled = True
        assert list(offered_groups(host)) == [hgx_group(2), hgx_group(4)]
        host.gpus[5].mig_enabled = True
        assert list(offered_groups(host)) == [hgx_group(2)]


def test_members_lie_in_the_order_of_their_sequence_ids() -> None:
    rig = GroupRig("hgx-h100")
    rig.on("a", of_groups(hgx_group(8)))
    at = {use.device_key: gpu.module_id for gpu in rig.first().gpus for use in gpu.uses}
    assert all(at[one] < at[other] for one, other in pairwise(sorted(at)))  # type: ignore[operator]  # module ids


SWITCHED = """
about: An NVSwitch board.
clusters:
- name: hgx
  hosts:
  - name: hgx.lab
    memory: 2TiB
    gpus: [{gpus}]
{vms}
"""
MEMBER = "{{board: H100XM, nvswitch: true, pci_id: '0000:{bus}:00.0'{module}}}"


def board(modules: list[int | None], vms: str = "") -> str:
    gpus = [
        MEMBER.format(bus=f"{0x21 + at:02x}", module=f", module: {module}" if module else "")
        for at, module in enumerate(modules)
    ]
    return SWITCHED.format(gpus=", ".join(gpus), vms=vms)


def sets_of(text: str) -> list[list[str]]:
    (host,) = (thing for thing in built(text).objects.values() if isinstance(thing, Host))
    return [[gpu.pci_id[5:7] for gpu in gpus] for gpus in joined_sets(host.gpus) if len(gpus) == 2]


def test_module_ids_make_the_partitions_not_addresses() -> None:
    assert sets_of(board([None] * 8)) == [["23", "24"], ["21", "22"], ["27", "28"], ["25", "26"]]
    given: list[int | None] = [8, 7, 6, 5, 4, 3, 2, 1]
    assert sets_of(board(given)) == [["28", "26"], ["27", "25"], ["24", "22"], ["23", "21"]]


@pytest.mark.parametrize("modules", [[1, 1], [None] * 9, [4, None]])
def test_two_gpus_are_not_one_module(modules: list[int | None]) -> None:
    with pytest.raises(DocumentError, match="its own module ID"):
        built(board(modules))


def test_a_module_belongs_to_a_switch() -> None:
    with pytest.raises(DocumentError) as caught:
        built(board([1, 2]).replace("nvswitch: true, ", ""))
    assert all("NVSwitch baseboard" in fault.message for fault in caught.value.faults)
    built(board([1, 2]))


VM = """vms:
- {{name: a, hardware_version: {version}, memory: 16GiB, gpus: [{{group: '{name}', on: [{on}]}}]}}
"""


@pytest.mark.parametrize(
    ("version", "size", "on", "said"),
    [
        (20, 2, "'0000:21:00.0', '0000:22:00.0'", ""),
        (20, 2, "'0000:22:00.0', '0000:21:00.0'", ""),
        (20, 4, "", ""),
        (19, 2, "", "offers no group"),
        (20, 3, "", "offers no group"),
        (20, 2, "'0000:21:00.0'", "the group requires 2 GPUs"),
        (20, 2, "'0000:21:00.0', '0000:23:00.0'", "cannot run on hgx.lab"),
    ],
)
def test_an_estates_vm_runs_with_a_group_or_is_a_fault(version: int, size: int, on: str, said: str) -> None:
    text = board([None] * 8, VM.format(version=version, name=hgx_group(size), on=on))
    if said:
        with pytest.raises(DocumentError, match=said):
            built(text)
    else:
        (host,) = (thing for thing in built(text).objects.values() if isinstance(thing, Host))
        assert sum(bool(gpu.uses) for gpu in host.gpus) == size
