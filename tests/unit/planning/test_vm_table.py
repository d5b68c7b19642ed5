"""Every row of the table of VM settings, held against what vSphere, the plan file and the docs know.

Nothing here names a single row: a row that is added is tested by what it says of itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim

from tests.fakes.vm_settings import with_settings
from tests.sections import section
from vgpu_cfg.documents import build, dump, parse_text
from vgpu_cfg.lab.managers.authorization import PRIVILEGES
from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.observed.drs import VmOverrides
from vgpu_cfg.model.observed.inventory import Cluster, Folder, Host
from vgpu_cfg.model.observed.vm import MARK_VM_KEY, SettingValue, Vm, VmDetail
from vgpu_cfg.model.plan_file import VmKeys
from vgpu_cfg.model.plan_file.entries import MANAGED, OPTIONS
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.vms.compare import OWN_KEYS, Needs, Numbers, SharedNeeds, compare_vm, likeness
from vgpu_cfg.planning.vms.lookup.placed import PlacedVm
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm
from vgpu_cfg.planning.vms.settings.edits import joined, setting_spec
from vgpu_cfg.planning.vms.settings.setting import Carrier, VmSetting
from vgpu_cfg.planning.vms.settings.table import VM_SETTINGS, overrides, vm_setting
from vgpu_cfg.vsphere.wire.leaves import leaves_of, set_path

BY_HAND = Path(__file__).with_name("by_hand.txt")
PLAN_FILE_PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "plan-file.md"
CLUSTER_LISTS: Mapping[str, Any] = {
    "drsVmConfig": vim.cluster.DrsVmConfigInfo,
    "dasVmConfig": vim.cluster.DasVmConfigInfo,
}
KEYS = frozenset({"cpus", "memory", "gpus", "numa", "nics", *OPTIONS})
HOST = Host(moid="host-1", name="esx-01", cores=64, cpu_mhz=2600)
CLUSTER = Cluster(moid="cluster-1", name="gpu", drs_enabled=True, drs_behavior="manual", ha_enabled=True)
ALL = DesiredVm.model_validate(
    {
        "name": "a",
        "line": "a",
        "source": {"kind": "scratch", "guest_id": "ubuntu64Guest"},
        "cpus": 16,
        "memory_mib": 65_536,
        "gpus": [{"pin": "0000:21:00.0"}],
        "nics": [{"network": "roce", "rdma": "gpudirect", "function": {"kind": "passthrough"}}],
        "managed": KEYS,
        "secure_boot": True,
        "boot_delay": 5,
        "vtpm": True,
        "cpu_hot_add": True,
        "memory_hot_add": True,
        "latency_sensitivity": "high",
        "drs": "partial",
        "ha": {"restart": "high", "monitoring": "vm"},
    }
)
"""A VM of which everything is asked that there is a row for."""

rows = pytest.mark.parametrize("setting", VM_SETTINGS, ids=lambda setting: setting.key)


def placed(desired: DesiredVm = ALL, base: VmDetail | None = None, existing: Vm | None = None) -> PlacedVm:
    resolved = ResolvedVm(
        desired,
        Folder(moid="folder-1", name="training"),
        (CLUSTER,),
        base or VmDetail(),
        existing=existing,
        gpus=desired.gpus,
        host=HOST,
    )
    return PlacedVm(
        resolved=resolved,
        plan="demo",
        cluster=CLUSTER,
        hardware_version=21,
        mmio_gb=128,
        nics=(),
        affinity=(0, 1),
        nodes=2,
        cores_per_numa_node=8,
        addresses="nic1=10.0.0.1/24",
    )


def wanted(setting: VmSetting) -> SettingValue:
    found = setting.desired(placed())
    assert found is not None, "ALL does not ask for it"
    return found.value


def given(detail: VmDetail, setting: VmSetting, value: SettingValue) -> VmDetail:
    """Put a setting into a VM, by way of what carries it."""
    spec = setting_spec(setting, value)
    match setting.carrier:
        case Carrier.CONFIG:
            return with_settings(detail, spec.settings)
        case Carrier.EXTRA_CONFIG:
            return detail.model_copy(update={"extra_config": {**detail.extra_config, **spec.extra_config}})
        case Carrier.DEVICE:
            return detail.model_copy(update={"tpm_key": 11_000 if value else None})
        case Carrier.CLUSTER:
            return detail


@pytest.fixture(scope="module")
def complete() -> tuple[VmDetail, Cluster]:
    """A VM that has all that is asked, and its cluster."""
    detail, told = VmDetail(), {}
    for setting in VM_SETTINGS:
        if setting.carrier is Carrier.CLUSTER:
            told[setting.key] = wanted(setting)
        detail = given(detail, setting, wanted(setting))
    said = (VmOverrides(vm_moid="vm-1", settings=tuple(told.items())),)
    return detail, CLUSTER.model_copy(update={"vm_overrides": said})


@rows
def test_what_is_asked_differs_before_and_not_after(setting: VmSetting) -> None:
    value, before = wanted(setting), VmDetail()
    if setting.carrier is Carrier.CLUSTER:
        assert setting.read is None
        return
    assert not setting.holds(value, before)
    after = given(before, setting, value)
    assert setting.holds(value, after)
    assert setting.text_of(after) == setting.text(value) or setting.found_text is not None


def test_no_row_but_those_of_each_vm_reads_what_differs_within_a_line() -> None:
    read: set[str] = set()

    class Watched(DesiredVm):
        def __getattribute__(self, name: str) -> Any:
            read.add(name)
            return super().__getattribute__(name)

    vm = placed(Watched.model_validate(ALL.model_dump()))
    read.clear()
    Needs.of(vm)
    assert read & OWN_KEYS == {"nics"}  # told apart by whether RDMA is asked
    read.clear()
    compare_vm(vm, Needs.of(placed()))
    assert read & OWN_KEYS >= {"name", "attributes"}


def test_new_vms_that_are_alike_but_for_their_names_share_what_they_need() -> None:
    needs, base = SharedNeeds(), VmDetail()
    first, second = placed(ALL, base), placed(ALL.model_copy(update={"name": "b", "line": "b"}), base)
    assert needs.of(second) is needs.of(first)
    marks = [joined(compare_vm(vm, needs.of(vm)).edits).extra_config[MARK_VM_KEY] for vm in (first, second)]
    assert marks == ["a", "b"]


@pytest.mark.parametrize("key", [key for key in DesiredVm.model_fields if key not in OWN_KEYS])
def test_new_vms_that_differ_in_a_key_share_nothing(key: str) -> None:
    vm, numbers = placed(ALL, VmDetail()), Numbers()
    other = replace(vm.resolved, desired=ALL.model_copy(update={key: object()}))
    assert likeness(replace(vm, resolved=other), numbers) != likeness(vm, numbers)
    written_anew = replace(vm.resolved, desired=DesiredVm.model_validate(ALL.model_dump()))
    assert likeness(replace(vm, resolved=written_anew), numbers) == likeness(vm, numbers)


def test_a_vm_that_has_all_needs_nothing(complete: tuple[VmDetail, Cluster]) -> None:
    detail, cluster = complete
    existing = Vm(moid="vm-1", name="a", inventory_path="/a", folder_moid="folder-1", detail=detail)
    desired = ALL.model_copy(update={"gpus": (), "nics": ()})
    vm = replace(placed(desired, detail, existing), cluster=cluster)
    found = compare_vm(vm, Needs.of(vm))
    assert (found.edits, found.overrides, found.attributes) == ((), (), ())


@pytest.mark.parametrize(
    "setting", [one for one in VM_SETTINGS if not one.is_of_creation], ids=lambda setting: setting.key
)
def test_a_vm_that_lacks_one_needs_that_one(setting: VmSetting, complete: tuple[VmDetail, Cluster]) -> None:
    detail, cluster = complete
    is_stated = setting.carrier is Carrier.CLUSTER
    if is_stated:
        told = tuple(pair for pair in cluster.vm_overrides[0].settings if pair[0] != setting.key)
        cluster = cluster.model_copy(update={"vm_overrides": (VmOverrides(vm_moid="vm-1", settings=told),)})
    else:
        detail = without(detail, setting)
    existing = Vm(moid="vm-1", name="a", inventory_path="/a", folder_moid="folder-1", detail=detail)
    desired = ALL.model_copy(update={"nics": ALL.nics if "P2P" in setting.key.upper() else ()})
    vm = replace(placed(desired, detail, existing), cluster=cluster, gpus=())
    edits = compare_vm(vm, Needs.of(vm))
    keys = [one.edit.key for one in edits.edits] + [one.edit.key for one in edits.overrides]
    assert keys == [setting.key]
    spec = joined(edits.edits)
    if setting.carrier is Carrier.CONFIG:
        assert dict(spec.settings) == {setting.key: wanted(setting)}
    assert edits.is_live == (setting.is_live or is_stated)


def without(detail: VmDetail, setting: VmSetting) -> VmDetail:
    """Return a VM's detail with one setting as it is in a VM that nothing is known of."""
    empty = VmDetail()
    updates: tuple[dict[str, Any], ...] = (
        {"options": {key: value for key, value in detail.options.items() if key != setting.key}},
        {
            "extra_config": {
                key: text
                for key, text in detail.extra_config.items()
                if setting.carrier is not Carrier.EXTRA_CONFIG or key not in setting.on_wire(wanted(setting))
            }
        },
        *({name: getattr(empty, name)} for name in VmDetail.model_fields),
        {"memory_reservation_locked": False, "memory_reservation_mib": 0},  # either of them would do
    )
    for update in updates:
        found = detail.model_copy(update=update)
        if not setting.holds(wanted(setting), found):
            return found
    raise AssertionError(f"nothing of a VM's detail tells {setting.key}")


def field_type(root: Any, path: str) -> Any:
    for name in path.split("."):
        root = root._GetPropertyInfo(name).type
    return root


@rows
def test_it_goes_to_fields_that_the_api_has(setting: VmSetting) -> None:
    for value in setting.values or (wanted(setting),):
        for path, leaf in setting.on_wire(value).items():
            match setting.carrier:
                case Carrier.CONFIG:
                    target = vim.vm.ConfigSpec()
                    set_path(target, path, leaf)
                    assert dict(leaves_of(target)) == {path: leaf}
                case Carrier.CLUSTER:
                    name, _, below = path.partition(".")
                    target = CLUSTER_LISTS[name]()
                    set_path(target, below, leaf)
                    assert dict(leaves_of(target)) == {below: leaf}
                case Carrier.EXTRA_CONFIG:
                    assert isinstance(leaf, str)
                case Carrier.DEVICE:
                    assert path == ""


@rows
def test_it_is_read_from_a_property_that_the_api_has(setting: VmSetting) -> None:
    assert bool(setting.read_path) == (setting.carrier is Carrier.CONFIG and setting.read is None)
    if setting.read_path:
        assert field_type(vim.VirtualMachine, setting.read_path) is field_type(
            vim.vm.ConfigSpec, setting.path
        )
        assert setting.unset is not None


@rows
def test_its_privilege_is_one_of_vcenters(setting: VmSetting) -> None:
    if setting.carrier is not Carrier.DEVICE and setting.key != "hardware_version":
        assert setting.privilege
    assert setting.privilege in ("", *PRIVILEGES)


@rows
def test_it_says_what_it_rests_on_and_how_it_is_done_by_hand(setting: VmSetting) -> None:
    assert setting.name
    assert setting.default
    assert setting.source
    if setting.carrier in (Carrier.CONFIG, Carrier.CLUSTER):
        value = wanted(setting)
        assert bool(setting.govc(value)) != bool(setting.client(value))


def by_hand(setting: VmSetting) -> str:
    """Return how a person sets each value of a setting: with govc, and in the vSphere Client."""
    values = setting.values or (wanted(setting),)
    return "; ".join(f"{value}: {' '.join(setting.govc(value)) or setting.client(value)}" for value in values)


def test_what_a_person_does_by_hand_is_as_it_is_stored() -> None:
    known = [one for one in VM_SETTINGS if one.carrier in (Carrier.CONFIG, Carrier.CLUSTER)]
    text = "\n".join(f"{setting.key}: {by_hand(setting)}" for setting in known)
    assert text == section(BY_HAND, "by hand", text)


@rows
def test_what_a_cluster_says_is_read_back(setting: VmSetting) -> None:
    assert bool(setting.values) == (setting.carrier is Carrier.CLUSTER)
    for value in setting.values:
        assert dict(overrides(setting.on_wire(value)))[setting.key] == value


@rows
def test_it_says_how_a_plan_file_states_what_a_vm_shows_or_what_it_follows_from(setting: VmSetting) -> None:
    """`export` writes what is there: a row with a key has a way back to it, another one follows from keys."""
    is_own = setting.key in ("owner_mark", "hardware_version")
    assert (setting.in_file is not None) == bool(setting.plan_key or setting.said_in)
    assert bool(setting.plan_key or setting.follows) != is_own
    assert {*setting.follows, *filter(None, [setting.said_in])} <= set(MANAGED)


@rows
def test_what_a_plan_file_states_is_said_again_of_a_vm_that_shows_it(setting: VmSetting) -> None:
    if setting.in_file is None or not setting.plan_key:
        return
    said = {setting.plan_key: setting.in_file(wanted(setting))}
    read = build(parse_text(dump(said), "export"), VmKeys).model_dump(exclude_unset=True)
    whole = ALL.model_dump()
    asked = {**whole, "memory": whole["memory_mib"], "numa": {"policy": "node", "nodes": (0, 1)}}
    for key, value in read.items():
        assert value == asked[key] or value.items() <= asked[key].items()


def test_keys_are_of_one_row_each() -> None:
    assert all(vm_setting(setting.key) is setting for setting in VM_SETTINGS)
    assert vm_setting("a pair of the plan file") is None


def test_every_option_of_a_plan_file_has_a_row() -> None:
    stated = {setting.plan_key for setting in VM_SETTINGS}
    assert OPTIONS - stated == {"attributes", "tags"}, "their names are the plan file's own"
    assert stated <= {"", "memory", *DesiredVm.model_fields}


@pytest.mark.parametrize("option", sorted(OPTIONS))
def test_every_option_stands_in_the_reference(option: str) -> None:
    table = [
        line.split("|")[1] for line in PLAN_FILE_PAGE.read_text(encoding="utf-8").splitlines() if "|" in line
    ]
    assert any(option in re.findall("`([a-z_]+)`", cell) for cell in table)


def test_no_option_of_a_run_is_named_like_one_of_a_vm() -> None:
    assert not OPTIONS & set(PlanOptions.__dataclass_fields__)
