"""What a reading finds, in how many round trips, and that trouble on the way does not break it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract.vcenters import Desk, FixedClock, VCenter, fresh, lab_vcenter, location_on
from tests.sections import section
from tests.value_text import lines_of
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import CreateVm
from vgpu_cfg.changes.kinds.create_vm import CloneFrom
from vgpu_cfg.changes.kinds.vm_spec import VmSpec
from vgpu_cfg.changes.privileges import LOCK, POWER_ON
from vgpu_cfg.changes.values import Subject, VmRef
from vgpu_cfg.errors import VCenterError
from vgpu_cfg.lab import estate_names
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.vgpu import Sharing
from vgpu_cfg.planning.pool.gpus import PooledGpu, StrandedKind, pooled_gpus
from vgpu_cfg.ports import ReadScope, Transport
from vgpu_cfg.recording import PlayingTransport, RecordingTransport
from vgpu_cfg.vsphere.reading import reader
from vgpu_cfg.vsphere.reading.reader import EVERYTHING, RecordedReader, VCenterReader
from vgpu_cfg.vsphere.wire import collector
from vgpu_cfg.vsphere.wire.session import Session

BUDGET = 19
WHOLE = Path(__file__).with_name("readings.txt")


def test_the_tree_has_its_paths(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        found = desk.inventory()
    (datacenter,) = found.datacenters
    top = datacenter.inventory_path
    assert top == f"/{datacenter.name}"
    for host in found.hosts:
        compute = found.cluster_by_moid[host.compute_moid]
        assert host.inventory_path == f"{top}/host/{compute.name}/{host.name}"
        assert host.datacenter == datacenter.name
        assert host.moid in compute.host_moids
        assert (host.cluster_moid is None) is compute.is_standalone
    (root,) = (folder for folder in found.folders if folder.is_root)
    assert root.inventory_path == f"{top}/vm"
    assert all(vm.inventory_path.startswith(f"{top}/vm/") for vm in found.vms)
    assert all(store.inventory_path.startswith(f"{top}/datastore/") for store in found.datastores)
    assert all(network.inventory_path.startswith(f"{top}/network/") for network in found.networks)
    pools = {pool.moid: pool for pool in found.resource_pools}
    for cluster in found.clusters:
        assert pools[cluster.resource_pool_moid].owner_moid == cluster.moid


def test_hosts_know_their_version_cores_networks_and_stores(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        found = desk.inventory()
    networks = {network.moid for network in found.networks}
    stores = {store.moid for store in found.datastores}
    for host in found.hosts:
        assert host.version.startswith("8.")
        assert host.build
        assert host.is_usable
        assert host.cores > 0
        assert host.memory_mib > 0
        assert sum(node.cores for node in host.numa_nodes) == host.cores
        assert host.network_moids
        assert host.network_moids <= networks
        assert host.datastore_moids
        assert host.datastore_moids <= stores
        assert host.pci_devices


def test_portgroups_have_what_a_backing_needs(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        found = desk.inventory()
    by_kind = {network.kind.value: network for network in found.networks if not network.is_uplink}
    assert by_kind["distributed"].switch_uuid
    assert by_kind["distributed"].portgroup_key
    assert by_kind["standard"].switch_uuid is None
    if vcenter.kind == "lab":  # vcsim marks no portgroup as one for uplinks
        assert sum(network.is_uplink for network in found.networks) == 1


def test_a_light_reading_has_no_details_of_vms_that_nobody_asked_for(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        light = desk.inventory()
        named = desk.inventory(ReadScope(template_names=frozenset({vcenter.template})))
        whole = desk.inventory(ReadScope(everything=True))
    gpu_hosts = {host.moid for host in light.hosts if host.gpus}
    for vm in light.vms:
        assert (vm.detail is not None) is (vm.host_moid in gpu_hosts)
    (template,) = (vm for vm in named.vms if vm.name == vcenter.template)
    assert template.detail is not None
    assert template.detail.disks
    assert template.detail.change_version
    assert all(vm.detail is not None for vm in whole.vms)


@pytest.mark.parametrize("text", ["{name}", "{path}", "{tail}"])
def test_a_vm_is_named_by_its_name_or_its_path(text: str) -> None:
    vcenter = lab_vcenter("no-gpu")
    with vcenter.desk() as desk:
        vm = next(vm for vm in desk.inventory().vms if not vm.is_template)
        tail = "/".join(vm.inventory_path.split("/")[-2:])
        name = text.format(name=vm.name, path=vm.inventory_path, tail=tail)
        found = desk.inventory(ReadScope(vm_names=frozenset({name})))
    assert [other.name for other in found.vms if other.detail is not None] == [vm.name]


def test_the_reading_is_the_same_in_pages_of_one(vcenter: VCenter, monkeypatch: pytest.MonkeyPatch) -> None:
    with vcenter.desk() as desk:
        whole = desk.inventory(EVERYTHING)
        before = desk.session.round_trips
        monkeypatch.setattr(collector, "PAGE_SIZE", 1)
        assert desk.inventory(EVERYTHING) == whole
        assert desk.session.round_trips - before > len(whole.vms)


def test_a_reading_keeps_its_budget(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        desk.inventory()
        assert desk.session.round_trips <= 9


@pytest.mark.parametrize(
    "estate",
    estate_names(),
)
def test_every_estate_is_read_within_the_budget(estate: str) -> None:
    vcenter = lab_vcenter(estate)
    with vcenter.desk() as desk:
        found = desk.inventory()
        kinds = {
            (host.build, tuple(sorted((gpu.name, gpu.sharing or "") for gpu in host.gpus)))
            for host in found.hosts
            if host.gpus
        }
        builds = {host.build for host in found.hosts if host.gpus}
        assert desk.session.round_trips <= BUDGET + len(builds) + len(kinds)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("estate", [*estate_names(), "fleet-16x4-40vms", "fleet-16x4-400vms"])
def test_a_pool_is_the_same_where_kinds_of_hosts_are_not_asked(estate: str) -> None:
    pools, spent = [], []
    for kinds_of in (None, frozenset[str]()):
        with lab_vcenter(estate).desk() as desk:
            found = desk.inventory(ReadScope(for_planning=False, kinds_of=kinds_of))
            spent.append(desk.session.round_trips)
        catalog = load_catalog()
        switched = {board.key for board in catalog.boards.values() if board.is_nvswitch}
        pools.append([_but_bridges(gpu, switched) for gpu in pooled_gpus(found, catalog)])
    assert pools[0] == pools[1]
    assert spent[1] <= spent[0]


def _but_bridges(gpu: PooledGpu, switched: Collection[str]) -> PooledGpu:
    """Leave out which bridges may be lost: whether there are any tells a host that is asked alone."""
    if gpu.board_key in switched:
        return gpu
    return replace(gpu, stranded=tuple(one for one in gpu.stranded if one.kind is not StrandedKind.NVLINK))


def test_kinds_of_hosts_that_tell_enough_by_their_lists_are_not_asked() -> None:
    with lab_vcenter("fleet-40x8-200vms").desk() as desk:
        found = desk.inventory(ReadScope(for_planning=False, kinds_of=frozenset()))
        assert len({host.gpus[0].name for host in found.hosts}) == 4
        # Three to log in, the view, two passes.
        assert desk.session.round_trips == 5
        # Two passes, and two calls for the one kind that matters; then for the others, of which nothing is
        # taken for known.
        desk.inventory(ReadScope(for_planning=False, kinds_of=frozenset({"grid_a100"})))
        assert desk.session.round_trips == 5 + 2 + 2
        whole = desk.inventory(ReadScope(for_planning=False))
        assert desk.session.round_trips == 5 + 4 + 2 * 4
        assert all(host.profiles for host in whole.hosts)


@pytest.mark.parametrize("estate", ["two-a100", "mixed-fleet"])
def test_kinds_of_hosts_are_asked_once_until_single_hosts_are_read(estate: str) -> None:
    with lab_vcenter(estate).desk() as desk:
        first, spent = desk.inventory(), []
        for is_changing in (False, True):
            if is_changing:
                desk.reader.read_hosts([first.hosts[0].moid])
            before = desk.session.round_trips
            assert desk.inventory().hosts == first.hosts
            spent.append(desk.session.round_trips - before)
    # One more where a host has GPUs that no list names.
    assert spent[0] <= 3
    assert spent[1] >= spent[0] + 4


@pytest.mark.sampled(3)
@pytest.mark.parametrize("estate", [*estate_names(), "fleet-16x4-40vms"])
def test_kinds_of_hosts_may_be_asked_later(estate: str) -> None:
    with lab_vcenter(estate).desk() as desk:
        at_once, spent = desk.inventory(), desk.session.round_trips
    with lab_vcenter(estate).desk() as desk:
        less = desk.inventory(ReadScope(kinds=False))
        with_gpus = [host for host in less.hosts if host.gpus]
        assert not less.has_kinds
        assert not any(host.profiles or host.device_groups or host.max_hardware_version for host in with_gpus)
        assert desk.session.round_trips < spent or not with_gpus
        assert desk.reader.read_kinds() == at_once.hosts
        assert desk.session.round_trips == spent
        assert desk.reader.read_kinds() == at_once.hosts
        assert desk.session.round_trips == spent
        part = desk.reader.read_part(ReadScope(kinds=False), [])
        assert part.has_kinds
        assert part.hosts == at_once.hosts


def test_the_vms_on_a_host_are_read_in_one_call() -> None:
    with lab_vcenter("fleet-3x2-12vms").desk() as desk:
        found = desk.inventory(EVERYTHING)
        before = desk.session.round_trips
        for count, host in enumerate(found.hosts, 1):
            there = desk.reader.read_vms_on(host.moid)
            assert sorted(there, key=lambda vm: vm.moid) == sorted(
                found.vms_by_host.get(host.moid, ()), key=lambda vm: vm.moid
            )
            assert desk.session.round_trips == before + count
        assert desk.reader.read_vms_on("host-90001") == ()
    assert any(found.vms_by_host.values())


def test_the_budget_does_not_grow_with_clusters_of_one_build() -> None:
    spent = []
    for hosts in (8, 300):
        with lab_vcenter(f"fleet-{hosts}x2").desk() as desk:
            found = desk.inventory()
            spent.append(desk.session.round_trips)
        assert {host.max_hardware_version for host in found.hosts} == {21}
    assert len(found.clusters) > 1
    assert spent[0] == spent[1]


def test_what_an_export_asks_for_takes_no_round_trip_more(vcenter: VCenter) -> None:
    spent = []
    for scope in (
        ReadScope(),
        ReadScope(option_names=True),
        ReadScope(vm_globs=("*",), option_names=True),
        ReadScope(folder_globs=("*",), option_names=True),
    ):
        with vcenter.desk() as desk:
            found = desk.inventory(scope)
            spent.append(desk.session.round_trips)
    assert max(spent) - spent[0] <= 1  # where no host has GPUs, no VM is read in detail otherwise
    details = [vm.detail for vm in found.vms if vm.detail is not None]
    assert all(set(one.option_names).isdisjoint(one.extra_config) for one in details)


def test_the_budget_does_not_grow_with_the_number_of_vms() -> None:
    spent = []
    for vms in (10, 400):
        vcenter = lab_vcenter(f"fleet-8x4-{vms}vms")
        with vcenter.desk() as desk:
            assert len(desk.inventory().vms) >= vms
            spent.append(desk.session.round_trips)
    assert spent[0] == spent[1]


def test_vms_that_have_gone_are_left_out(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        vm = next(vm for vm in desk.inventory().vms if vm.name == vcenter.template)
        found = desk.reader.read_vms(["vm-90001", vm.moid, "vm-90002", vm.moid])
        assert [other.moid for other in found] == [vm.moid]
        assert found[0].inventory_path == vm.inventory_path
        assert desk.reader.read_vms([]) == ()
        assert desk.reader.read_vms(["vm-90001"]) == ()


def test_a_vm_read_again_is_the_same(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        found = desk.inventory(ReadScope(everything=True))
        before = desk.session.round_trips
        again = desk.reader.read_vms([vm.moid for vm in found.vms])
        assert desk.session.round_trips - before == 1
        assert {vm.moid: vm for vm in again} == found.vm_by_moid


def test_privileges_that_are_there_are_not_missing(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        found = desk.inventory()
        needed = {
            found.hosts[0].moid: ["System.Read"],
            found.vms[0].moid: ["System.Read", "VirtualMachine.Interact.PowerOn"],
            found.datastores[0].moid: ["Datastore.AllocateSpace"],
            found.networks[0].moid: [],
        }
        assert desk.reader.read_missing_privileges(needed) == {}


def test_an_administrator_is_asked_about_nothing(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        found = desk.inventory(ReadScope(everything=True, roles=True))
        moids = [thing.moid for things in (found.hosts, found.vms, found.networks) for thing in things]
        needed = {desk.session.root_moid: LOCK.privileges, **dict.fromkeys(moids, POWER_ON.privileges)}
        before = desk.session.round_trips
        assert not desk.reader.read_missing_privileges(needed)
        assert desk.session.round_trips == before
        # A reading beside which nothing tells of roles knows none.
        desk.inventory(ReadScope(everything=True))
        before = desk.session.round_trips
        assert not desk.reader.read_missing_privileges(needed)
        assert desk.session.round_trips == before + 1


def test_privileges_are_asked_with_the_key_of_the_session_that_lives(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        moid = desk.inventory().hosts[0].moid
        desk.session.service_content.sessionManager.Logout()
        assert desk.reader.read_missing_privileges({moid: ["System.Read"]}) == {}
        assert desk.session.renewals == 1


def test_privileges_that_are_not_there_are_named_in_one_call() -> None:
    vcenter = lab_vcenter("two-a100")
    assert vcenter.lab is not None
    vcenter.lab.faults.lacking.add("Datastore.AllocateSpace")
    with vcenter.desk() as desk:
        found = desk.inventory()
        store, vm = found.datastores[0].moid, found.vms[0].moid
        before = desk.session.round_trips
        missing = desk.reader.read_missing_privileges(
            {
                store: ["System.Read", "Datastore.AllocateSpace"],
                found.hosts[0].moid: ["System.Read", "Datastore.AllocateSpace"],
                vm: ["System.Read"],
            }
        )
        assert desk.session.round_trips - before == 1
    assert missing[store] == ("Datastore.AllocateSpace",)
    assert vm not in missing


def recorded(vcenter: VCenter) -> tuple[Inventory, PlayingTransport]:
    """Record the fixed set of reads, and return what was read and a player of it."""
    transport = RecordingTransport(vcenter.connect(), vcenter.kind)
    clock = FixedClock()
    with Session(transport, vcenter.kind, vcenter.user, vcenter.password) as session:
        live = VCenterReader(session, clock).read_inventory(EVERYTHING)
        recording = transport.recording(clock.now())
    assert "session[" not in recording.model_dump_json()
    return live, PlayingTransport(recording)


@pytest.mark.parametrize(
    "scope",
    [
        ReadScope(),
        EVERYTHING,
        ReadScope(
            plan=PlanIdentity(name="any"), datacenter="elsewhere", vm_names=frozenset({"x"}), system_ids=True
        ),
    ],
    ids=["light", "everything", "another plan's"],
)
def test_a_recording_answers_any_scope_with_all_it_has(vcenter: VCenter, scope: ReadScope) -> None:
    live, player = recorded(vcenter)
    with Session(player, vcenter.kind, vcenter.user, "") as session:
        offline = RecordedReader(session, player)
        assert offline.read_inventory(scope) == live
        trips = session.round_trips
        assert offline.read_vms([live.vms[0].moid, "vm-90001"]) == live.vms[:1]
        assert offline.read_missing_privileges({"vm-1": ["System.Read"]}) == {}
        holders = offline.read_gpu_holders([live.hosts[0].moid])
        assert holders == {live.hosts[0].moid: {gpu.pci_id: () for gpu in live.hosts[0].gpus}}
        assert session.round_trips == trips


def test_a_recording_keeps_the_extra_config_that_only_a_later_plan_asks_for() -> None:
    vcenter = lab_vcenter("two-a100")
    with vcenter.desk() as desk:
        moid = clone(desk, vcenter, VmSpec(extra_config={"mine": "yes", "guestinfo.userdata": "hunter2"}))
    _, player = recorded(vcenter)
    with Session(player, "lab", "", "") as session:
        offline = RecordedReader(session, player)
        plain = offline.read_inventory(ReadScope()).vm_by_moid[moid].detail
        asked = offline.read_inventory(ReadScope(extra_config_keys=frozenset({"mine", "guestinfo.userdata"})))
        detail = asked.vm_by_moid[moid].detail
    assert plain is not None
    assert detail is not None
    assert "mine" not in plain.extra_config
    assert detail.extra_config["mine"] == "yes"
    assert detail.extra_config["guestinfo.userdata"] == "scrubbed"


def clone(desk: Desk, vcenter: VCenter, spec: VmSpec, name: str = "") -> str:
    """Clone the template onto the first host, and return the new VM."""
    found = desk.inventory()
    host = found.hosts[0]
    template = next(vm for vm in found.vms if vm.name == vcenter.template)
    name = name or fresh()
    change = CreateVm(
        id=f"create {name}",
        subject=Subject(kind="vm", name=name),
        vm=VmRef(name=name),
        source=CloneFrom(template=VmRef(name=template.name, moid=template.moid)),
        location=location_on(found, host),
        spec=spec,
    )
    return desk.made(desk.writer.create_vm(change))


def test_a_plans_own_vms_are_read_in_detail_wherever_they_are() -> None:
    vcenter = lab_vcenter("no-gpu")
    mark = {"vgpu_cfg.plan": "mine", "vgpu_cfg.vm": "a"}
    with vcenter.desk() as desk:
        moid = clone(desk, vcenter, VmSpec(extra_config=mark), name="a")
        mine = desk.inventory(ReadScope(plan=PlanIdentity(name="mine")))
        other = desk.inventory(ReadScope(plan=PlanIdentity(name="other")))
    assert [vm.moid for vm in mine.vms_marked(PlanIdentity(name="mine"))] == [moid]
    assert mine.vm_by_moid[moid].detail is not None
    assert other.vm_by_moid[moid].detail is None


@pytest.mark.parametrize("estate", ["two-hosts-roce", "nvlink-4xa100"])
def test_all_that_is_read_of_an_estate_is_as_stored(estate: str) -> None:
    with lab_vcenter(estate).desk() as desk:
        inventory, facts = desk.reader.read_everything()
    text = "\n".join([*lines_of(inventory), *lines_of(facts, "facts")])
    assert text == section(WHOLE, estate, text)


def test_a_host_with_gpus_tells_all_about_them() -> None:
    vcenter = lab_vcenter("two-a100")
    with vcenter.desk() as desk:
        (host,) = desk.inventory().hosts
    assert [(gpu.numa_node, gpu.sharing) for gpu in host.gpus] == [
        (0, Sharing.TIME_SLICED),
        (1, Sharing.TIME_SLICED),
    ]
    assert all(gpu.pci.device_id == 0x20F1 for gpu in host.gpus)
    assert "grid_a100-40c" in host.creatable_profiles
    assert host.profiles is not None
    assert {profile.name for profile in host.profiles} >= {"grid_a100-40c", "grid_a100-1-5c"}
    assert host.max_hardware_version == 21
    assert host.max_vgpus_by_hardware_version == {21: 16}
    assert [nic.device for nic in host.nics if nic.numa_node == 1] == ["vmnic3"]


def test_gpus_cut_by_mig_are_seen_to_be() -> None:
    with lab_vcenter("mig-a100").desk() as desk:
        found = desk.inventory()
    assert Sharing.MIG in {gpu.sharing for host in found.hosts for gpu in host.gpus}


@pytest.mark.parametrize("fault", ["NotSupported", "NotImplemented", "HostNotConnected"])
def test_what_a_host_does_not_tell_stays_open(fault: str) -> None:
    vcenter = lab_vcenter("two-a100")
    assert vcenter.lab is not None
    for method in ("RetrieveVgpuProfileInfo", "QueryConfigOptionDescriptor"):
        vcenter.lab.faults.add(method, kind="call", fault=fault, nth=0)
    with vcenter.desk() as desk:
        (host,) = desk.inventory().hosts
    assert (host.profiles, host.max_hardware_version) == (None, None)
    assert host.creatable_profiles


@pytest.mark.parametrize("method", ["RetrieveVgpuProfileInfo", "QueryConfigOptionDescriptor"])
def test_a_reading_that_fails_is_no_empty_reading(method: str) -> None:
    vcenter = lab_vcenter("two-a100")
    assert vcenter.lab is not None
    vcenter.lab.faults.add(method, kind="call", fault="SystemError", message="Something broke.")
    with vcenter.desk() as desk, pytest.raises(VCenterError, match=r"Something broke\."):
        desk.inventory()


def test_the_system_id_is_read_of_hosts_with_passthrough_when_it_is_asked_for() -> None:
    with lab_vcenter("mixed-fleet").desk() as desk:
        without = desk.inventory()
        found = desk.inventory(ReadScope(system_ids=True))
    assert {host.system_id for host in without.hosts} == {None}
    through = [host for host in found.hosts if any(device.passthrough_active for device in host.pci_devices)]
    assert through
    assert all(host.system_id for host in through)
    assert {host.system_id for host in found.hosts if host not in through} <= {None}


def test_the_holders_of_a_gpu_are_told_while_they_run() -> None:
    vcenter = lab_vcenter("two-a100")
    with vcenter.desk() as desk:
        (host,) = desk.inventory().hosts
        assert desk.reader.read_gpu_holders([host.moid, "host-90001"]) == {
            host.moid: {gpu.pci_id: () for gpu in host.gpus}
        }


def test_a_host_is_read_together_with_its_facts() -> None:
    groups = frozenset({FactGroup.BASE})
    with lab_vcenter("two-a100").desk() as desk:
        (host,) = desk.inventory().hosts
        apart = desk.reader.read_hosts([host.moid]), desk.reader.read_facts([host.moid], groups)
        before = desk.session.round_trips
        found, facts = desk.reader.read_host(host.moid, groups)
        assert desk.session.round_trips == before + 1
        assert (found,) == apart[0]
        assert facts == apart[1].model_copy(update={"vcenter_options": {}})
        assert desk.reader.read_host("host-90001", groups)[0] is None


def test_vms_and_the_holders_of_gpus_are_read_in_one_call() -> None:
    vcenter = lab_vcenter("two-a100")
    with vcenter.desk() as desk:
        found = desk.inventory()
        vms, hosts = [vm.moid for vm in found.vms], [host.moid for host in found.hosts]
        apart = desk.reader.read_vms(vms), desk.reader.read_gpu_holders(hosts)
        before = desk.session.round_trips
        assert desk.reader.read_vms_and_holders(vms, hosts) == apart
        assert desk.session.round_trips == before + 1
        assert desk.reader.read_vms_and_holders([], []) == ((), {})
        assert desk.session.round_trips == before + 1


def test_a_large_estate_is_searched_for_hidden_gpus_only_near_known_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "MOST_HOSTS_WITHOUT_LISTED_GPU", 1)
    with lab_vcenter("no-gpu").desk() as desk:
        assert all(not host.pci_devices for host in desk.inventory().hosts)
        assert all(host.pci_devices for host in desk.inventory(EVERYTHING).hosts)


class Vanishing:
    """A transport behind which a VM goes away just before the n-th exchange."""

    def __init__(self, inner: Transport, nth: int, act: object) -> None:
        self._inner = inner
        self._left = nth
        self._act = act

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        self._left -= 1
        if self._left == 0 and callable(self._act):
            self._act()
        return self._inner.exchange(method, path, headers, body)

    def close(self) -> None:
        self._inner.close()


@pytest.mark.parametrize("nth", range(4, 12))
def test_a_vm_that_vanishes_meanwhile_breaks_nothing(nth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "PAGE_SIZE", 8)
    vcenter = lab_vcenter("no-gpu")
    with vcenter.desk() as desk:
        moid = clone(desk, vcenter, VmSpec(extra_config={"vgpu_cfg.plan": "p"}), name="gone")
        transport = Vanishing(vcenter.connect(), nth, lambda: desk.done(desk.writer.destroy_vm(moid)))
        other = replace(vcenter, connect=lambda: transport)
        with other.desk() as reading:
            found = reading.inventory(ReadScope(plan=PlanIdentity(name="p"), everything=True))
    assert {vm.name for vm in found.vms} >= {"web-01", "web-02", "old"}
    assert all(vm.detail is not None for vm in found.vms if vm.moid != moid)


def test_licences_are_told_by_host(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        hosts = {host.moid for host in desk.inventory().hosts}
        before = desk.session.round_trips
        found = desk.reader.read_licences()
        assert desk.session.round_trips - before <= 2
    assert found is not None
    if vcenter.kind != "vcsim":
        assert found.keys() == hosts
        told = {(one.name, one.ends is None) for licences in found.values() for one in licences}
        assert told == {("Evaluation Mode", False)}


def test_a_part_that_is_read_again_makes_the_whole() -> None:
    vcenter = lab_vcenter("fleet-6x2-12vms")
    scope = ReadScope(plan=PlanIdentity(name="p"))
    marked = VmSpec(extra_config={"vgpu_cfg.plan": "p"})
    with vcenter.desk() as desk, vcenter.desk() as other:
        made, gone = (clone(desk, vcenter, marked, name=name) for name in ("first", "third"))
        before = desk.inventory(scope)
        desk.done(desk.writer.power_on_vm(made))
        new = clone(other, vcenter, marked, name="second")
        desk.done(desk.writer.destroy_vm(gone))
        spent = desk.session.round_trips
        part = desk.reader.read_part(scope, [made, new, gone])
        # VMs and hosts are one call; who has gone is passed over.
        assert desk.session.round_trips == spent + 1
        whole = desk.inventory(scope)
    assert part.vm_by_moid.keys() == whole.vm_by_moid.keys() != before.vm_by_moid.keys()
    for moid in (made, new):
        again, read = part.vm_by_moid[moid], whole.vm_by_moid[moid]
        assert (again.inventory_path, again.host_moid, again.is_on) == (
            read.inventory_path,
            read.host_moid,
            moid == made,
        )
        assert again.detail is not None
        assert read.detail is not None
        assert again.detail.change_version == read.detail.change_version
    assert part.hosts == whole.hosts
    assert (part.clusters, part.networks, part.folders) == (whole.clusters, whole.networks, whole.folders)


@pytest.mark.parametrize(
    "scope", [ReadScope(vm_names=frozenset({"x"})), ReadScope(tag_categories=frozenset({"c"}))]
)
def test_all_is_read_where_a_part_is_not_enough(scope: ReadScope) -> None:
    with lab_vcenter("fleet-6x2-12vms").desk() as desk:
        desk.inventory(ReadScope() if not scope.tag_categories else scope)
        spent = desk.session.round_trips
        assert desk.reader.read_part(scope, []) == desk.inventory(scope)
        assert desk.session.round_trips >= spent + 2 * 2
