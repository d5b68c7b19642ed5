"""A plan and the estate after it, as the render tests show them: the guide's two-A100 server, and more."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from vgpu_cfg.changes.change import (
    AwaitCustomization,
    Change,
    CreateVm,
    DestroyVm,
    ManualStep,
    PowerOffVm,
    PowerOnVm,
    ReconfigureVm,
    SetAttributes,
    SetHostRule,
    SetOverrides,
    SetReservation,
    SetRule,
    SetTags,
    UpgradeVm,
)
from vgpu_cfg.changes.kinds.cluster import VmOverride
from vgpu_cfg.changes.kinds.create_vm import CloneFrom, Location
from vgpu_cfg.changes.kinds.power import NumaPin
from vgpu_cfg.changes.kinds.vm_spec import VmSpec
from vgpu_cfg.changes.plan import Diagnostic, Plan, PlanTarget
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Edit, Impact, Placement, Subject, VmRef
from vgpu_cfg.model.desired import DesiredPlan, DesiredVm, TemplateSource
from vgpu_cfg.model.observed.gpu_use import AssignmentPolicy, GraphicsType
from vgpu_cfg.model.observed.inventory import (
    Cluster,
    Datastore,
    Gpu,
    Host,
    HostNic,
    Inventory,
    NumaNode,
    PciDevice,
    VCenter,
)
from vgpu_cfg.model.observed.own_items import Tag
from vgpu_cfg.model.observed.vm import OwnerMark, PowerState, VgpuDevice, Vm, VmDetail
from vgpu_cfg.model.reservations import Reservation, ReservedGpus
from vgpu_cfg.model.vgpu import Sharing

READ_AT = datetime(2026, 3, 2, 21, 4, 11, tzinfo=UTC)
GPUS = ("0000:3b:00.0", "0000:af:00.0")


def vm_subject(name: str) -> Subject:
    return Subject(kind="vm", name=name)


def new_vm(number: int, *, host: str = "esx-01", node: int = 0, **fields: Any) -> CreateVm:
    name = f"hvd-{number:02}"
    edits = (
        Edit(key="clone", after="ubuntu-22.04-efi"),
        Edit(key="host", after=host),
        Edit(key="datastore", after="vsan"),
        Edit(key="folder", after="/dc1/vm/training", is_default=True),
        Edit(key="firmware", after="efi", is_default=True),
        Edit(key="cpus", before="2", after="16"),
        Edit(key="memory", before="4 GiB", after="64 GiB"),
        Edit(key="gpu", after="grid_a100-40c"),
        Edit(key="pciPassthru.use64bitMMIO", after="TRUE", is_default=True),
        Edit(key="pciPassthru.64bitMMIOSizeGB", after="128", is_default=True),
        Edit(key="memory_reservation", before="0 MiB", after="all", is_default=True),
        Edit(key="numa.nodeAffinity", after=str(node), is_default=True),
        Edit(key="nic", after="vm-network", note="vmxnet3"),
    )
    return CreateVm(
        id=f"create {name}",
        subject=vm_subject(name),
        host_moid=host,
        edits=edits,
        vm=VmRef(name=name),
        source=CloneFrom(template=VmRef(name="ubuntu-22.04-efi", moid="vm-1")),
        location=Location(
            folder_moid="group-v3",
            folder_path="/dc1/vm/training",
            host_moid=host,
            host_name=host,
            resource_pool_moid="resgroup-1",
            datastore_moid="datastore-1",
            datastore_name="vsan",
        ),
        spec=VmSpec(settings={"cpus": 16}),
        **fields,
    )


def switch_on(number: int, *, host: str = "esx-01") -> PowerOnVm:
    name = f"hvd-{number:02}"
    return PowerOnVm(
        id=f"power on {name}",
        subject=vm_subject(name),
        host_moid=host,
        needs=(f"create {name}",),
        edits=(Edit(key="power", before="off", after="on", is_default=True),),
        vm=VmRef(name=name),
        pin=NumaPin(node_by_pci_id=dict.fromkeys(GPUS, 0), nodes=(0,)),
    )


def placement(number: int, *, host: str = "esx-01", gpu: str = GPUS[0], node: int = 0) -> Placement:
    return Placement(
        vm=f"hvd-{number:02}", host_moid=host, host_name=host, gpu_pci_ids=(gpu,), numa_nodes=(node,)
    )


def plan_of(*changes: Change, **fields: Any) -> Plan:
    made: dict[str, Any] = {
        "name": "horovod-a100",
        "target": PlanTarget(address="vc01.example.com", instance_uuid="1234", datacenter="dc1"),
        "read_at": READ_AT,
        "desired": DesiredPlan(name="horovod-a100", vcenter="prod"),
        "changes": changes,
        "untouched_hosts": 14,
        "untouched_vms": 212,
    }
    return Plan(**(made | fields))


def two_new() -> Plan:
    """Two new VMs on one server: the guide's case."""
    return plan_of(
        new_vm(1),
        switch_on(1),
        new_vm(2, node=1),
        switch_on(2),
        placements=(placement(1), placement(2, gpu=GPUS[1], node=1)),
        diagnostics=(
            Diagnostic(
                code="VG309",
                severity=Severity.WARNING,
                subject=vm_subject("hvd-{01..02}"),
                message="DRS of cluster gpu is fully automated and may move them away from their NUMA node",
                remedy="set DRS to manual for them",
            ),
            Diagnostic(code="VG113", severity=Severity.INFO, subject=vm_subject("x"), message="a Q profile"),
        ),
    )


def many_new(count: int) -> Plan:
    numbers = range(1, count + 1)
    hosts = {number: f"esx-{(number + 1) // 2:02}" for number in numbers}
    return plan_of(
        *(new_vm(number, host=hosts[number], node=number % 2) for number in numbers),
        *(switch_on(number, host=hosts[number]) for number in numbers),
        placements=tuple(
            placement(number, host=hosts[number], gpu=GPUS[number % 2], node=number % 2) for number in numbers
        ),
    )


def everything() -> Plan:
    """One of each kind of change, with a power cycle and an error-free finding."""
    shop = VmRef(name="hvd-03", moid="vm-13")
    return plan_of(
        ManualStep(
            id="bios esx-02",
            subject=Subject(kind="host", name="esx-02"),
            text="power on by hand; in BIOS: Integrated Devices > SR-IOV Global Enable = Enabled",
            proof="nvidia-smi -q: Host VGPU Mode : SR-IOV",
        ),
        new_vm(1),
        switch_on(1),
        PowerOffVm(
            id="power off hvd-03",
            subject=vm_subject("hvd-03"),
            edits=(Edit(key="power", before="on", after="powered off to apply the changes"),),
            vm=shop,
            impact=Impact.POWER_CYCLE,
        ),
        UpgradeVm(
            id="upgrade hvd-03",
            subject=vm_subject("hvd-03"),
            edits=(Edit(key="hardware_version", before="vmx-19", after="vmx-21", is_default=True),),
            needs=("power off hvd-03",),
            vm=shop,
            hardware_version=21,
            impact=Impact.POWER_CYCLE,
        ),
        ReconfigureVm(
            id="reconfigure hvd-03",
            subject=vm_subject("hvd-03"),
            needs=("upgrade hvd-03",),
            impact=Impact.POWER_CYCLE,
            vm=shop,
            spec=VmSpec(settings={"cpus": 32}),
            undo=VmSpec(settings={"cpus": 16}, extra_config={"svga.present": "FALSE"}),
            edits=(
                Edit(key="cpus", before="16", after="32"),
                Edit(key="gpu", before="grid_a100-20c", after="grid_a100-40c"),
                Edit(key="svga.present", before="FALSE", after=None, note="the plan file no longer sets it"),
            ),
        ),
        SetAttributes(
            id="set attributes of hvd-03",
            subject=vm_subject("hvd-03"),
            edits=(Edit(key="owner", before="nobody", after="ml-team"), Edit(key="until", before="2026")),
            needs=("reconfigure hvd-03",),
            vm=shop,
            values={"owner": "ml-team", "until": ""},
        ),
        SetTags(
            id="set tags of hvd-03",
            subject=vm_subject("hvd-03"),
            edits=(Edit(key="Backup", before="weekly", after="daily"),),
            needs=("reconfigure hvd-03",),
            vm=shop,
            detach=(Tag(category="Backup", name="weekly", id="urn:2"),),
            attach=(Tag(category="Backup", name="daily", id="urn:1"),),
        ),
        AwaitCustomization(
            id="customise hvd-01",
            subject=vm_subject("hvd-01"),
            edits=(Edit(key="customisation", after="done", note="farm"),),
            needs=("power on hvd-01",),
            vm=VmRef(name="hvd-01"),
            wait_seconds=1800,
        ),
        SetReservation(
            id="reserve GPUs",
            subject=Subject(kind="plan", name="horovod"),
            edits=(Edit(key="reserved", after="2 GPUs of A100 in gpu, 2027-01-04 to 2027-03-31"),),
            reservation=Reservation(
                plan="horovod",
                begins=datetime(2027, 1, 4, 7, tzinfo=UTC),
                ends=datetime(2027, 3, 31, 16, tzinfo=UTC),
                holds=(ReservedGpus(cluster="domain-1", label="gpu", board="A100", gpus=2),),
            ),
        ),
        SetOverrides(
            id="set VM overrides in gpu",
            subject=Subject(kind="cluster", name="gpu"),
            edits=(
                Edit(key="hvd-01 drs", after="manual"),
                Edit(key="hvd-03 ha_monitoring", before="off", after="vm"),
            ),
            needs=("create hvd-01",),
            cluster_moid="domain-1",
            overrides=(
                VmOverride(vm=VmRef(name="hvd-01"), settings={"drs": "manual"}),
                VmOverride(vm=shop, settings={"ha_monitoring": "vm"}),
            ),
        ),
        PowerOnVm(
            id="power on hvd-03",
            subject=vm_subject("hvd-03"),
            needs=("reconfigure hvd-03",),
            vm=shop,
            impact=Impact.POWER_CYCLE,
        ),
        DestroyVm(id="destroy hvd-09", subject=vm_subject("hvd-09"), vm=VmRef(name="hvd-09", moid="vm-19")),
        SetRule(
            id="set rule vgpu-cfg:horovod-a100:hvd-{01..03} in gpu",
            subject=Subject(kind="cluster", name="gpu"),
            edits=(Edit(key="apart", after="hvd-01, hvd-03"), Edit(key="mandatory", after="must")),
            needs=("create hvd-01",),
            cluster_moid="domain-1",
            rule_name="vgpu-cfg:horovod-a100:hvd-{01..03}",
            vms=(VmRef(name="hvd-01"), shop),
        ),
        SetHostRule(
            id="set rule vgpu-cfg:horovod-a100:hvd-{01..03}:hosts in gpu",
            subject=Subject(kind="cluster", name="gpu"),
            edits=(
                Edit(key="VM group", before="hvd-01", after="hvd-01, hvd-03"),
                Edit(key="hosts", before="a100-odd", after="a100-even"),
            ),
            needs=("create hvd-01",),
            cluster_moid="domain-1",
            rule_name="vgpu-cfg:horovod-a100:hvd-{01..03}:hosts",
            rule_key=7,
            has_group=True,
            vm_group="vgpu-cfg:horovod-a100:hvd-{01..03}",
            host_group="a100-even",
            vms=(VmRef(name="hvd-01"), shop),
        ),
        placements=(placement(1),),
        orphans=("hvd-09", "hvd-10"),
    )


def vm(moid: str, name: str, profile: str, *, host: str = "host-1", is_on: bool = True, **fields: Any) -> Vm:
    detail = VmDetail(
        cpus=16,
        memory_mib=65536,
        extra_config=fields.pop("extra_config", {}),
        vgpus=(VgpuDevice(key=13000, profile=profile),) if profile else (),
    )
    state = PowerState.ON if is_on else PowerState.OFF
    return Vm(moid=moid, name=name, host_moid=host, power_state=state, detail=detail, **fields)


def own_vm(moid: str, name: str, node: int, **fields: Any) -> Vm:
    return vm(
        moid,
        name,
        "grid_a100-40c",
        mark=OwnerMark(plan="horovod-a100", vm=name),
        extra_config={"numa.nodeAffinity": str(node)},
        **fields,
    )


def gpu(pci_id: str, node: int, *holders: str, **fields: Any) -> Gpu:
    pci = PciDevice(
        pci_id=pci_id,
        vendor_id=0x10DE,
        device_id=0x20F1,
        subdevice_id=0x145F,
        class_id=0x0302,
        device_name="GA100 [A100 PCIe 40GB]",
        numa_node=node,
        **fields.pop("pci", {}),
    )
    return Gpu(
        pci=pci,
        name="NVIDIA A100-PCIE-40GB",
        memory_mib=40960,
        vm_moids=holders,
        **({"graphics_type": GraphicsType.SHARED_DIRECT} | fields),
    )


def estate(*vms: Vm, gpus: tuple[Gpu, ...] | None = None) -> Inventory:
    """One server with an A100 on each of two NUMA nodes."""
    offered = ("grid_a100-40c", "grid_a100-20c", "grid_a100-10c", "grid_a100-8q", "grid_a100-1-5c")
    holders = {vm.moid for vm in vms if vm.is_on}
    host = Host(
        moid="host-1",
        name="esx-01.example.com",
        version="8.0.3",
        build="24022510",
        model="PowerEdge R750",
        cluster_moid="domain-1",
        cores=48,
        memory_mib=786432,
        graphics_type=GraphicsType.SHARED_DIRECT,
        assignment_policy=AssignmentPolicy.PERFORMANCE,
        numa_nodes=tuple(NumaNode(node_id=node, cores=24, memory_mib=393216) for node in (0, 1)),
        gpus=gpus
        if gpus is not None
        else (gpu(GPUS[0], 0, *(holders & {"vm-11"})), gpu(GPUS[1], 1, *(holders & {"vm-12"}))),
        nics=(
            HostNic(
                device="vmnic0", pci_id="0000:3c:00.0", speed_mbps=100000, driver="nmlx5_core", numa_node=0
            ),
            HostNic(device="vmnic1", pci_id="0000:b0:00.0", driver="nmlx5_core", numa_node=1),
        ),
        creatable_profiles=offered,
        datastore_moids=frozenset({"datastore-1"}),
    )
    return Inventory(
        vcenter=VCenter(address="vc01.example.com", version="8.0.3", api_version="8.0.3.0"),
        read_at=READ_AT,
        hosts=(host,),
        vms=vms,
        clusters=(Cluster(moid="domain-1", name="gpu", host_moids=("host-1",)),),
        datastores=(
            Datastore(moid="datastore-1", name="vsan", kind="vsan", free_mib=2097152, capacity_mib=8388608),
        ),
    )


def shared() -> tuple[Gpu, ...]:
    """One GPU with three 10c on it, the other cut into MIG slices."""
    return (
        gpu(GPUS[0], 0, "vm-21", "vm-22", "vm-23"),
        gpu(GPUS[1], 1, "vm-24", sharing=Sharing.MIG),
    )


def desired_vm(name: str) -> DesiredVm:
    return DesiredVm(name=name, line="hvd-{01..03}", source=TemplateSource(path_or_name="ubuntu-22.04-efi"))
