"""What an inventory becomes when a plan is carried out: a small vCenter without a network or judgement.

It knows the changes and nothing of why they were made. Which GPU a vGPU gets is chosen
here as ESXi would, among those that the plan's own capacity model is not asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, assert_never

from tests.fakes.vm_settings import with_settings
from tests.plans.guest_rows import mark_of
from tests.plans.host_simulator import HostChange, SimulatedHost
from tests.plans.legal import is_legal
from tests.plans.rule_simulator import SimulatedCluster
from vgpu_cfg.catalog import ProfileEntry, load_catalog
from vgpu_cfg.changes.change import (
    AwaitCustomization,
    Change,
    ChangeHost,
    ChangeNetwork,
    ColdBootHost,
    CreateVm,
    DestroyVm,
    EnterMaintenance,
    ExitMaintenance,
    ManualStep,
    MarkVm,
    MoveVmToFolder,
    PauseTraining,
    PowerOffVm,
    PowerOnVm,
    RebootHost,
    ReconfigureVm,
    RelocateVm,
    RemediateHost,
    RemoveRule,
    RemoveVmGroup,
    RenameVm,
    RestartService,
    ResumeTraining,
    SetAttributes,
    SetClusterOption,
    SetCordon,
    SetHostRule,
    SetImage,
    SetOverrides,
    SetReservation,
    SetRule,
    SetTags,
    SetVCenterOption,
    ShutDownHost,
    StageGuest,
    UpgradeVm,
)
from vgpu_cfg.changes.kinds.vm_spec import (
    DeviceEdit,
    EditNic,
    GrowDisk,
    NewDisk,
    NewDynamicPassthrough,
    NewNic,
    NewPassthrough,
    NewPvrdmaNic,
    NewSriovNic,
    NewTpm,
    NewVgpu,
    RemoveDevice,
    SetDiskPolicy,
    VmSpec,
)
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.values import VmRef
from vgpu_cfg.execution.run.scheduler import Canaries, StartQueues
from vgpu_cfg.model.guests.guest import (
    GUEST_MARK_KEY,
    HOST_KEY_KEY,
    PAUSED,
    TRAINING_KEY,
    kept_host_key,
    parse_mark,
    print_mark,
)
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.inventory import NVIDIA_VENDOR_ID, Gpu, Host, Inventory
from vgpu_cfg.model.observed.vm import (
    DiskController,
    OwnerMark,
    PassthroughDevice,
    PowerState,
    VgpuDevice,
    VirtualDisk,
    VirtualNic,
    Vm,
    VmDetail,
)
from vgpu_cfg.model.reservations import KeptReservation
from vgpu_cfg.planning.estate.devices import made_by

NEW_GROUP = 1000
"""Added to the key of a device group while a spec is carried out."""

TAKEN_LIVE = frozenset({"boot_delay"})
"""Settings that a running VM takes. Source: vSphere API reference, VirtualMachineBootOptions."""

Chooser = Callable[[list[Gpu]], Gpu]


def least_loaded(gpus: list[Gpu]) -> Gpu:
    """Choose as the policy `performance` does."""
    return min(gpus, key=lambda gpu: (len(gpu.vm_moids), gpu.pci_id))


def fullest(gpus: list[Gpu]) -> Gpu:
    """Choose as the policy `consolidation` does."""
    return max(gpus, key=lambda gpu: (len(gpu.vm_moids), gpu.pci_id))


def carry_out(
    plan: Plan,
    observed: Inventory,
    choose: Chooser = least_loaded,
    fingerprints: Mapping[str, str] | None = None,
) -> Inventory:
    """Return the inventory after every change of the plan, in an order that its needs allow.

    `fingerprints` are those of the secrets that are written into guests.
    """
    world = _World(observed, plan.desired.identity, choose)
    world.fingerprints = fingerprints or {}
    world.turns = StartQueues(plan.contests)
    canaries = Canaries(plan.canaries)
    done: set[str] = set()
    waiting = list(plan.changes)
    while waiting:
        ready = [
            change
            for change in waiting
            if set(change.needs) | _after(change) <= done
            and world.turns.admits(change, ())
            and canaries.admits(change)
        ]
        if not ready and canaries.done is not None:
            canaries.release(canaries.done)
            continue
        if not ready:
            raise AssertionError(f"these wait for each other: {[change.id for change in waiting]}")
        # In the plan's order: one host comes back before the next goes down.
        world.do(ready[0])
        done.add(ready[0].id)
        canaries.succeed(ready[0])
        waiting.remove(ready[0])
    return world.inventory()


def _after(change: Change) -> set[str]:
    return set(change.behind)


class _World:
    def __init__(self, observed: Inventory, plan: PlanIdentity, choose: Chooser) -> None:
        self.observed, self.plan, self.choose = observed, plan, choose
        self.vms: dict[str, Vm] = {vm.moid: vm for vm in observed.vms}
        self.folders = {folder.moid: folder.inventory_path for folder in observed.folders}
        self.hosts: dict[str, Host] = {host.moid: host for host in observed.hosts}
        self.clusters = {
            cluster.moid: SimulatedCluster(cluster, lambda ref: self._vm(ref).moid)
            for cluster in observed.clusters
        }
        self.made: dict[str, str] = {}
        self.facts, self.reservations = observed.facts, observed.reservations
        self.staged: dict[str, dict[str, str]] = {}
        self.turns = StartQueues()
        self.fingerprints: Mapping[str, str] = {}

    def _do_host(self, change: HostChange) -> None:
        moid = change.host.moid
        simulated = SimulatedHost(self.hosts[moid], self.facts.hosts[moid])
        if isinstance(change, EnterMaintenance) and not change.is_held:
            running = [vm for vm in self.vms.values() if vm.host_moid == moid and vm.is_on]
            stays = [vm.name for vm in running if vm.name not in change.evacuates and _holds_devices(vm)]
            assert not stays, f"{stays} still run on {change.host.name}"
            self._check_drs(running)
            others = [host for host in self.hosts.values() if host.moid != moid and host.is_usable]
            for vm in running:
                self.vms[vm.moid] = vm.model_copy(update={"host_moid": others[0].moid})
        staged = self.staged.setdefault(moid, {})
        simulated.staged = staged
        cluster = self.facts.clusters.get(self.hosts[moid].owner_moid)
        if cluster is not None and cluster.image is not None:
            simulated.image = {
                "NVD-AIE_ESXi_8.0.0_Driver" if name.startswith("NVD-AIE") else "nvdgpumgmtdaemon": version
                for name, version in cluster.image.components.items()
            }
        simulated.do(change)
        self.staged[moid] = simulated.staged
        self.hosts[moid] = simulated.host
        hosts = {**self.facts.hosts, moid: simulated.facts}
        self.facts = self.facts.model_copy(update={"hosts": hosts})

    def _check_drs(self, running: Sequence[Vm]) -> None:
        """DRS moves only whom the cluster's or the VM's own setting lets it, and vGPUs by two options."""
        for vm in running:
            cluster = self.observed.cluster_by_moid[self.hosts[vm.host_moid or ""].compute_moid]
            facts = self.facts.clusters[cluster.moid]
            assert cluster.drs_enabled
            assert facts.drs_overrides.get(vm.moid, cluster.drs_behavior) == "fullyAutomated", vm.name
            if vm.detail is not None and vm.detail.vgpus:
                assert facts.drs_options.get("VgpuMMAutomationTimeoutSecs") == "-1", vm.name
                assert self.facts.vcenter_options.get("vgpu.hotmigrate.enabled") == "true", vm.name

    def _reserve(self, change: SetReservation) -> None:
        before = self.reservations
        assert before is not None
        kept = [one for one in before.kept if one.moid != change.alarm]
        if change.reservation is not None:
            name = change.reservation.alarm_name
            assert name not in {one.name for one in kept}
            kept.append(KeptReservation(moid="alarm-own", name=name, reservation=change.reservation))
        self.reservations = before.model_copy(update={"kept": tuple(kept)})

    def _set_cluster_option(self, change: SetClusterOption) -> None:
        found = self.facts.clusters[change.cluster_moid]
        options = {name: value for name, value in found.drs_options.items() if name != change.option}
        if change.value is not None:
            options[change.option] = change.value
        clusters = {
            **self.facts.clusters,
            change.cluster_moid: found.model_copy(update={"drs_options": options}),
        }
        self.facts = self.facts.model_copy(update={"clusters": clusters})

    def _set_image(self, change: SetImage) -> None:
        found = self.facts.clusters[change.cluster_moid]
        assert found.image is not None
        for name, version in change.components.items():
            assert version in found.image.depot[name]
        image = found.image.model_copy(update={"components": {**found.image.components, **change.components}})
        clusters = {**self.facts.clusters, change.cluster_moid: found.model_copy(update={"image": image})}
        self.facts = self.facts.model_copy(update={"clusters": clusters})

    def inventory(self) -> Inventory:
        clusters = tuple(self.clusters[cluster.moid].cluster for cluster in self.observed.clusters)
        update = {
            "vms": tuple(self.vms.values()),
            "hosts": tuple(self.hosts.values()),
            "clusters": clusters,
            "facts": self.facts,
            "reservations": self.reservations,
        }
        kept = {name: getattr(self.observed, name) for name in Inventory.model_fields}
        return Inventory(**(kept | update))

    def do(self, change: Change) -> None:
        match change:
            case CreateVm():
                self._create(change)
            case UpgradeVm():
                self._set_detail(self._vm(change.vm), {"hardware_version": change.hardware_version})
            case ReconfigureVm():
                self._reconfigure(self._vm(change.vm), change.spec)
            case MarkVm():
                self._reconfigure(self._vm(change.vm), change.spec, is_imported=change.mark == "imported")
            case PowerOnVm():
                self._power_on(self._vm(change.vm), change)
            case PowerOffVm():
                self._power_off(self._vm(change.vm))
            case DestroyVm():
                assert self._vm(change.vm).power_state is PowerState.OFF
                del self.vms[self._vm(change.vm).moid]
            case RenameVm():
                self._set(change.vm, name=change.vm.name)
            case MoveVmToFolder():
                self._set(change.vm, folder_moid=change.folder_moid)
            case RelocateVm():
                self._relocate(change)
            case SetAttributes():
                vm = self._vm(change.vm)
                found = {**(vm.detail.attributes if vm.detail else {}), **change.values}
                self._set_detail(vm, {"attributes": {name: text for name, text in found.items() if text}})
            case SetTags():
                self._set_tags(self._vm(change.vm), change)
            case SetOverrides():
                for one in change.overrides:
                    self.clusters[change.cluster_moid].override(self._vm(one.vm).moid, one.settings)
            case SetRule() | SetHostRule() | RemoveRule() | RemoveVmGroup():
                self.clusters[change.cluster_moid].do(change)
            case (
                EnterMaintenance()
                | ExitMaintenance()
                | ChangeHost()
                | RestartService()
                | RebootHost()
                | ColdBootHost()
                | RemediateHost()
                | ShutDownHost()
            ):
                self._do_host(change)
            case SetClusterOption():
                self._set_cluster_option(change)
            case SetImage():
                self._set_image(change)
            case SetVCenterOption():
                options = {**self.facts.vcenter_options, change.option: str(change.value).lower()}
                self.facts = self.facts.model_copy(update={"vcenter_options": options})
            case SetCordon():
                raise AssertionError("no plan file cordons a host")
            case SetReservation():
                self._reserve(change)
            case ChangeNetwork():
                raise AssertionError("the cases here leave networks as they are")
            case AwaitCustomization():
                pass
            case StageGuest():
                self._stage(self._vm(change.vm), change)
            case PauseTraining() | ResumeTraining():
                self._mark_training(self._vm(change.vm), change)
            case ManualStep():
                raise AssertionError("a manual step is for a hand")
            case _:
                assert_never(change)

    def _set(self, ref: VmRef, **fields: object) -> Vm:
        moid = self._vm(ref).moid
        self.vms[moid] = self.vms[moid].model_copy(update=fields)
        return self.vms[moid]

    def _relocate(self, change: RelocateVm) -> None:
        vm, destination = self._vm(change.vm), change.destination
        assert vm.is_on is change.is_running, f"{vm.name} is {vm.power_state}"
        self._release(vm)
        detail = vm.detail or VmDetail()
        fields: dict[str, object] = {}
        if destination.resource_pool_moid is not None:
            fields["resource_pool_moid"] = destination.resource_pool_moid
        if destination.datastore_moid is not None:
            stores = {disk.key: destination.datastore_moid for disk in detail.disks}
            stores |= dict(destination.kept_disks)
            fields["datastore_moids"] = tuple(dict.fromkeys(stores.values()))
            fields["disks"] = tuple(
                disk.model_copy(update={"datastore_moid": stores[disk.key]}) for disk in detail.disks
            )
        moved = self._set(change.vm, host_moid=destination.host_moid, detail=detail.model_copy(update=fields))
        if moved.is_on:
            self._hold(moved)

    def _stage(self, vm: Vm, change: StageGuest) -> None:
        """Mark a VM that runs with what was staged, beside what was there."""
        assert vm.is_on, f"{vm.name} is off"
        assert {*change.modules} <= {module.kind for module in change.spec.modules}
        extra = dict(vm.detail.extra_config if vm.detail else {})
        if change.with_clone:
            assert not parse_mark(extra.get(GUEST_MARK_KEY, "")), f"{vm.name} was staged before"
        if not change.spec.is_exposed and not parse_mark(extra.get(GUEST_MARK_KEY, "")):
            extra[HOST_KEY_KEY] = f"ssh-ed25519 {vm.name.encode().hex():A<60}"
        host_keys = {peer.name: self._host_key(peer, change) for peer in change.peers}
        staged = parse_mark(extra.get(GUEST_MARK_KEY, "")) | parse_mark(
            mark_of(change.spec, change.modules, self.fingerprints, host_keys)
        )
        self._set_detail(vm, {"extra_config": extra | {GUEST_MARK_KEY: print_mark(staged)}})

    def _mark_training(self, vm: Vm, change: PauseTraining | ResumeTraining) -> None:
        """Mark the VM of a training that is paused until it is resumed."""
        assert vm.is_on, f"{vm.name} is off"
        extra = dict(vm.detail.extra_config if vm.detail else {})
        is_paused = isinstance(change, PauseTraining) and change.is_marked
        self._set_detail(vm, {"extra_config": extra | {TRAINING_KEY: PAUSED if is_paused else ""}})

    def _host_key(self, ref: VmRef, change: StageGuest) -> str:
        found = self.vms.get(ref.moid or self.made.get(ref.name, ""))
        detail = found.detail if found is not None else None
        extra = detail.extra_config if detail is not None else {}
        is_staged = bool(extra.get(GUEST_MARK_KEY))
        return kept_host_key(extra, is_staged=is_staged, is_exposed=change.spec.is_exposed)

    def _vm(self, ref: VmRef) -> Vm:
        return self.vms[ref.moid or self.made[ref.name]]

    def _create(self, change: CreateVm) -> None:
        base = VmDetail(cores_per_socket=1)
        if change.source.kind == "clone":
            template = self.vms[change.source.template.moid or ""]
            base = template.detail or base
        else:
            base = base.model_copy(update={"guest_id": change.source.guest_id})
        moid = f"vm-new-{change.vm.name}"
        assert moid not in self.vms
        self.made[change.vm.name] = moid
        mark = self._mark(change.spec.extra_config, f"uuid-of-{moid}", is_imported=False)
        self.vms[moid] = Vm(
            moid=moid,
            name=change.vm.name,
            inventory_path=f"{self.folders[change.location.folder_moid]}/{change.vm.name}",
            folder_moid=change.location.folder_moid,
            host_moid=change.location.host_moid,
            instance_uuid=f"uuid-of-{moid}",
            mark=mark and mark.model_copy(update=made_by(base, change.spec.devices)),
            detail=base.model_copy(
                update={
                    "datastore_moids": (change.location.datastore_moid,),
                    "resource_pool_moid": change.location.resource_pool_moid,
                    "change_version": "1",
                    "snapshot_moid": None,
                    "home_policy": "",
                    "disks": tuple(disk.model_copy(update={"policy": ""}) for disk in base.disks),
                }
            ),
        )
        self._reconfigure(self.vms[moid], change.spec)
        self._own_disks(self.vms[moid], ())

    def _own_disks(self, vm: Vm, before: Collection[int]) -> None:
        """Give the disks that a request made UUIDs and files, and let the mark hold them."""
        detail, mark = vm.detail or VmDetail(), vm.mark
        new = {disk.key: f"disk-{disk.key}-{vm.moid}" for disk in detail.disks if disk.key not in before}
        store = {"datastore_moid": detail.datastore_moids[0]} if detail.datastore_moids else {}
        names = {
            key: {"uuid": uuid, "file": f"[vsan] {vm.name}/{uuid}.vmdk", **store} for key, uuid in new.items()
        }
        disks = tuple(disk.model_copy(update=names.get(disk.key, {})) for disk in detail.disks)
        if mark is not None and new:
            mark = mark.model_copy(update={"disks": (*(mark.disks or ()), *new.values()), "new_disks": ()})
        self.vms[vm.moid] = vm.model_copy(
            update={"detail": detail.model_copy(update={"disks": disks}), "mark": mark}
        )

    def _reconfigure(self, vm: Vm, spec: VmSpec, *, is_imported: bool = False) -> None:
        live = {key: value for key, value in spec.settings.items() if key in TAKEN_LIVE}
        is_live = spec == VmSpec(
            settings=live,
            extra_config=spec.extra_config,
            change_version=spec.change_version,
            home_policy=spec.home_policy,
            devices=tuple(one for one in spec.devices if isinstance(one, SetDiskPolicy)),
        )
        is_live &= all(key.startswith("vgpu_cfg.") for key in spec.extra_config)
        assert is_live or vm.power_state is PowerState.OFF, f"{vm.name} runs"
        detail = vm.detail or VmDetail()
        extra = {**detail.extra_config, **spec.extra_config}
        detail = with_settings(detail, spec.settings)
        if spec.home_policy is not None:
            detail = detail.model_copy(update={"home_policy": spec.home_policy.id})
        for edit in spec.devices:
            detail, learned = _with_device(detail, edit)
            extra |= learned
        detail = _with_groups(detail, spec)
        kept = {key: value for key, value in extra.items() if value}
        if detail.memory_reservation_locked:
            detail = detail.model_copy(update={"memory_reservation_mib": detail.memory_mib})
        if "vgpu_cfg.plan" in spec.extra_config:
            mark = self._mark(kept, vm.instance_uuid, is_imported=is_imported)
            asked = OwnerMark.parse(spec.extra_config["vgpu_cfg.plan"], "")
            vm = vm.model_copy(update={"mark": mark and mark.naming(asked, vm.mark)})
        before = {disk.key for disk in vm.detail.disks} if vm.detail is not None else set()
        self._set_detail(
            vm.model_copy(update={"detail": detail}),
            {"extra_config": kept, "change_version": f"{vm.detail.change_version if vm.detail else 0}+"},
        )
        self._own_disks(self.vms[vm.moid], before)

    def _mark(self, extra: Mapping[str, str], instance_uuid: str, *, is_imported: bool) -> OwnerMark | None:
        """Return the mark as a run completes it, None where it was taken away."""
        if "vgpu_cfg.plan" not in extra:
            return None
        plan, name = self.plan, extra["vgpu_cfg.vm"]
        return OwnerMark(
            plan=plan.name, vm=name, id=plan.id, instance_uuid=instance_uuid, is_imported=is_imported
        )

    def _set_detail(self, vm: Vm, update: Mapping[str, Any]) -> None:
        detail = (vm.detail or VmDetail()).model_copy(update=dict(update))
        self.vms[vm.moid] = vm.model_copy(update={"detail": detail})

    def _set_tags(self, vm: Vm, change: SetTags) -> None:
        found = {name: set(tags) for name, tags in ((vm.detail or VmDetail()).tags or {}).items()}
        for tag in change.detach:
            found[tag.category].remove(tag.name)
        for tag in change.attach:
            found.setdefault(tag.category, set()).add(tag.name)
        self._set_detail(vm, {"tags": {name: tuple(sorted(tags)) for name, tags in found.items() if tags}})

    def _power_on(self, vm: Vm, change: PowerOnVm) -> None:
        assert not vm.is_on
        host = self._hold(vm)
        self.vms[vm.moid] = vm.model_copy(update={"power_state": PowerState.ON})
        if self.turns.is_waiting(vm.name):
            self.turns.started(vm.name, [gpu.pci_id for gpu in host.gpus if vm.moid in gpu.vm_moids])
        if change.pin is not None:
            held = [gpu.pci_id for gpu in host.gpus if vm.moid in gpu.vm_moids]
            nodes = sorted({change.pin.node_by_pci_id[pci_id] for pci_id in held})
            extra = dict(vm.detail.extra_config if vm.detail else {})
            extra["numa.nodeAffinity"] = ",".join(map(str, nodes))
            self._set_detail(self.vms[vm.moid], {"extra_config": extra})

    def _hold(self, vm: Vm) -> Host:
        """Give a VM the GPUs that it needs on its host."""
        host = self.hosts[vm.host_moid or ""]
        for device in vm.detail.vgpus if vm.detail else ():
            host = self._give(host, vm, device.profile)
        self.hosts[host.moid] = host
        return host

    def _release(self, vm: Vm) -> None:
        self.hosts = {
            moid: host.model_copy(update={"gpus": tuple(_without(gpu, vm.moid) for gpu in host.gpus)})
            for moid, host in self.hosts.items()
        }

    def _give(self, host: Host, vm: Vm, profile: str) -> Host:
        fitting = [gpu for gpu in host.gpus if self._takes(gpu, profile)]
        assert fitting, f"no GPU of {host.name} takes {profile} of {vm.name}"
        chosen = self.choose(fitting)
        return host.model_copy(
            update={
                "gpus": tuple(
                    gpu.model_copy(update={"vm_moids": (*gpu.vm_moids, vm.moid)}) if gpu is chosen else gpu
                    for gpu in host.gpus
                )
            }
        )

    def _takes(self, gpu: Gpu, profile: str) -> bool:
        entries = [
            entry
            for entry in load_catalog().by_profile(profile)
            if (gpu.pci.device_id in {pci.device_id for pci in entry.board.pci_ids})
        ]
        return bool(entries) and not gpu.is_passthrough and is_legal(gpu, [*self.on(gpu), entries[0]])

    def on(self, gpu: Gpu) -> list[ProfileEntry]:
        """List what runs on a GPU; a VM that is listed twice has two vGPUs on it."""
        held: list[ProfileEntry] = []
        for moid in dict.fromkeys(gpu.vm_moids):
            detail = self.vms[moid].detail or VmDetail()
            count = gpu.vm_moids.count(moid)
            held += [load_catalog().by_profile(device.profile)[0] for device in detail.vgpus[:count]]
        return held

    def _power_off(self, vm: Vm) -> None:
        self.vms[vm.moid] = vm.model_copy(update={"power_state": PowerState.OFF})
        self._release(vm)


def _holds_devices(vm: Vm) -> bool:
    """Whether a VM cannot be moved; one that DRS has moved here from another host can be moved on."""
    return vm.detail is None or bool(
        vm.detail.vgpus or vm.detail.passthrough or any(nic.kind == "sriov" for nic in vm.detail.nics)
    )


def _without(gpu: Gpu, moid: str) -> Gpu:
    if moid not in gpu.vm_moids:
        return gpu
    return gpu.model_copy(update={"vm_moids": tuple(one for one in gpu.vm_moids if one != moid)})


def _with_device(detail: VmDetail, edit: DeviceEdit) -> tuple[VmDetail, dict[str, str]]:
    keys = {device.key for device in detail.vgpus} | {device.key for device in detail.passthrough}
    key = next(number for number in range(13000, 13200) if number not in keys)
    match edit:
        case NewVgpu():
            group = None if edit.group is None else NEW_GROUP + edit.group
            vgpu = VgpuDevice(key=key, profile=edit.profile, group_key=group, numa_node=edit.numa_node)
            made = (*detail.vgpus, vgpu)
            learned = {f"pciPassthru{key - 13000}.cfg.enable_uvm": "1"} if edit.uvm else {}
            return detail.model_copy(update={"vgpus": made}), learned
        case NewPassthrough():
            fixed = PassthroughDevice(
                key=key,
                pci_id=edit.pci_id,
                system_id=edit.system_id,
                is_nic=edit.vendor_id != NVIDIA_VENDOR_ID,
                numa_node=edit.numa_node,
            )
            return detail.model_copy(update={"passthrough": (*detail.passthrough, fixed)}), {}
        case NewDynamicPassthrough():
            device = PassthroughDevice(
                key=key,
                allowed=edit.allowed,
                label=edit.label,
                is_nic=any(vendor_id != NVIDIA_VENDOR_ID for vendor_id, _ in edit.allowed),
                numa_node=edit.numa_node,
                group_key=None if edit.group is None else NEW_GROUP + edit.group,
            )
            return detail.model_copy(update={"passthrough": (*detail.passthrough, device)}), {}
        case NewNic():
            number = 1 + max((nic.key for nic in detail.nics), default=3999)
            return detail.model_copy(update={"nics": (*detail.nics, _nic(number, edit))}), {}
        case NewSriovNic():
            number = min((nic.key for nic in detail.nics if nic.kind == "sriov"), default=13032) - 1
            virtual = _nic(number, edit).model_copy(update={"kind": "sriov", "function": edit.function})
            return detail.model_copy(update={"nics": (*detail.nics, virtual)}), {}
        case NewPvrdmaNic():
            number = 1 + max((nic.key for nic in detail.nics), default=3999)
            rdma = _nic(number, edit).model_copy(update={"kind": "pvrdma"})
            return detail.model_copy(update={"nics": (*detail.nics, rdma)}), {}
        case EditNic():
            kept = tuple(_nic(nic.key, edit, nic.mac) if nic.key == edit.key else nic for nic in detail.nics)
            return detail.model_copy(update={"nics": kept}), {}
        case NewDisk():
            return _with_disk(detail, edit), {}
        case NewTpm():
            return detail.model_copy(update={"tpm_key": 11000}), {}
        case GrowDisk():
            grown = tuple(
                disk.model_copy(update={"capacity_mib": edit.size_mib}) if disk.key == edit.key else disk
                for disk in detail.disks
            )
            return detail.model_copy(update={"disks": grown}), {}
        case SetDiskPolicy():
            given = tuple(
                disk.model_copy(update={"policy": edit.policy.id}) if disk.key == edit.key else disk
                for disk in detail.disks
            )
            return detail.model_copy(update={"disks": given}), {}
        case RemoveDevice():
            return detail.model_copy(update=_without_key(detail, edit.key)), {}
        case _:
            assert_never(edit)


def _with_groups(detail: VmDetail, spec: VmSpec) -> VmDetail:
    """Give new device groups a key that stays, and forget those without members."""
    groups = dict(detail.device_groups)
    first = 1 + max(groups, default=-1)
    keys = {NEW_GROUP + group: first + number for number, group in enumerate(sorted(spec.device_groups))}
    groups |= {keys[NEW_GROUP + group]: name for group, name in spec.device_groups.items()}
    vgpus = tuple(
        one if one.group_key not in keys else one.model_copy(update={"group_key": keys[one.group_key]})
        for one in detail.vgpus
    )
    passed = tuple(
        one if one.group_key not in keys else one.model_copy(update={"group_key": keys[one.group_key]})
        for one in detail.passthrough
    )
    used = {device.group_key for device in vgpus}
    kept = {key: name for key, name in groups.items() if key in used}
    return detail.model_copy(update={"vgpus": vgpus, "passthrough": passed, "device_groups": kept})


def _without_key(detail: VmDetail, key: int) -> dict[str, Any]:
    return {
        "vgpus": tuple(device for device in detail.vgpus if device.key != key),
        "passthrough": tuple(device for device in detail.passthrough if device.key != key),
        "nics": tuple(nic for nic in detail.nics if nic.key != key),
        "disks": tuple(disk for disk in detail.disks if disk.key != key),
        "tpm_key": None if detail.tpm_key == key else detail.tpm_key,
    }


def _nic(
    key: int, edit: NewNic | NewSriovNic | NewPvrdmaNic | EditNic, mac: str = "00:50:56:aa:00:01"
) -> VirtualNic:
    network = edit.backing.portgroup_key or edit.backing.network_moid
    return VirtualNic(key=key, kind="vmxnet3", network=network, mac=edit.mac or mac)


def _with_disk(detail: VmDetail, edit: NewDisk) -> VmDetail:
    controllers = detail.controllers
    found = next((one for one in controllers if one.kind == edit.controller), None)
    if found is None:
        found = DiskController(key=1000 if edit.controller == "scsi" else 31000, kind=edit.controller)
        controllers = (*controllers, found)
    first = 2000 if edit.controller == "scsi" else 32000
    used = {disk.key for disk in detail.disks}
    key = next(number for number in range(first, first + 100) if number not in used)
    policy = edit.policy.id if edit.policy is not None else None
    disk = VirtualDisk(key=key, capacity_mib=edit.size_mib, controller_key=found.key, policy=policy)
    return detail.model_copy(update={"disks": (*detail.disks, disk), "controllers": controllers})
