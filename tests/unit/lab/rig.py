"""A lab with a virtual clock, and the few calls that tests of it make again and again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pyVmomi import vim

from vgpu_cfg import documents
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.building.builder import build_state
from vgpu_cfg.lab.estates.estate import Estate
from vgpu_cfg.lab.estates.files import EstateFile
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.state.devices import vgpu_backing
from vgpu_cfg.lab.state.guest import Guest
from vgpu_cfg.lab.state.inventory import Cluster, Folder, Host, Managed, Network, Task, VirtualMachine
from vgpu_cfg.lab.vcenter import Lab

ManagedT = TypeVar("ManagedT", bound=Managed)
TEMPLATE = "ubuntu-22.04-efi"


class Rig:
    """One lab and its objects by name."""

    def __init__(self, estate: str | Path = "two-a100", **options: Any) -> None:
        self.lab: Lab = open_lab(estate, clock=VirtualClock(), **options)

    def find(self, kind: type[ManagedT], name: str = "") -> ManagedT:
        """Return the object of a kind by its name, or the only one of its kind."""
        things = [thing for thing in self.lab.state.all(kind) if not name or thing.name == name]
        assert len(things) == 1, f"{len(things)} of {kind.__name__} {name!r}"
        return things[0]

    def vm(self, name: str) -> VirtualMachine:
        return self.find(VirtualMachine, name)

    def host(self, name: str = "") -> Host:
        return self.find(Host, name)

    def has_vm(self, name: str) -> bool:
        return any(vm.name == name for vm in self.lab.state.all(VirtualMachine))

    def run(self, subject: Managed | str, method: str, **arguments: Any) -> Task:
        """Start a task, wait for its end, and return it."""
        task = self.lab.call(subject, method, **arguments)
        assert isinstance(task, Task)
        self.lab.run_until_idle()
        return self.lab.state.get(task.moid, Task)

    def done(self, subject: Managed | str, method: str, **arguments: Any) -> Any:
        """Run a task that must succeed, and return its result."""
        task = self.run(subject, method, **arguments)
        assert task.state == "success", (type(task.fault).__name__, task.fault.msg)
        return task.result

    def refused(self, subject: Managed | str, method: str, **arguments: Any) -> Any:
        """Run a task that must fail, and return its fault."""
        task = self.run(subject, method, **arguments)
        assert task.state == "error"
        return task.fault

    def clone(self, name: str, *profiles: str, **more: Any) -> VirtualMachine:
        """Clone the template as `clone_spec` says, and return the VM."""
        moid = self.done(**self.clone_call(name, *profiles, **more))
        return self.lab.state.get(moid, VirtualMachine)

    def clone_call(self, name: str, *profiles: str, **more: Any) -> dict[str, Any]:
        """Return the arguments of `run` for a clone into the folder `training`."""
        source = more.pop("source", TEMPLATE)
        folder = self.find(Folder, more.pop("folder", "training"))
        return {
            "subject": self.vm(source),
            "method": "CloneVM_Task",
            "folder": vim.Folder(folder.moid),
            "name": name,
            "spec": self.clone_spec(*profiles, **more),
        }

    def clone_spec(
        self, *profiles: str, cluster: str = "", host: str = "", config: Any = None, **more: Any
    ) -> Any:
        of = (
            self.find(Cluster, cluster) if cluster or not host else self.lab.state.cluster_of(self.host(host))
        )
        location = vim.vm.RelocateSpec(pool=vim.ResourcePool(of.resource_pool))
        if host:
            location.host = vim.HostSystem(self.host(host).moid)
        return vim.vm.CloneSpec(
            location=location,
            template=False,
            powerOn=more.pop("power_on", False),
            config=config or gpu_spec(*profiles, **more),
        )

    def running(self, name: str, *profiles: str, **more: Any) -> VirtualMachine:
        """Clone and power on."""
        vm = self.clone(name, *profiles, **more)
        self.done(vm, "PowerOnVM_Task")
        return vm

    def booted(self, vm: VirtualMachine) -> Guest:
        """Wait until nothing happens in any guest any more, and return the one of a VM."""
        while self.lab.state.waking and self.lab.wait():
            continue
        guest = guest_of(self.lab.state.get(vm.moid, VirtualMachine))
        assert guest.is_up
        return guest

    def gpu_of(self, vm: VirtualMachine) -> list[str]:
        """Return the addresses of the GPUs on which a VM's vGPUs run."""
        gpus = [gpu for host in self.lab.state.all(Host) for gpu in host.gpus]
        return [gpu.pci_id for gpu in gpus for use in gpu.uses if use.vm == vm.moid]


def gpu_spec(
    *profiles: str,
    memory_mib: int = 65536,
    firmware: str = "efi",
    window_gb: int | None = 512,
    reserve: bool = True,
    extra: dict[str, str] | None = None,
    devices: tuple[Any, ...] = (),
) -> Any:
    """Return a ConfigSpec that a VM with vGPUs runs with; each part can be left out or made wrong."""
    keys = dict(extra or {})
    if window_gb is not None:
        keys |= {"pciPassthru.use64bitMMIO": "TRUE", "pciPassthru.64bitMMIOSizeGB": str(window_gb)}
    backings = [*(vgpu_backing(profile) for profile in profiles), *devices]
    return vim.vm.ConfigSpec(
        numCPUs=8,
        memoryMB=memory_mib,
        memoryReservationLockedToMax=reserve,
        firmware=firmware,
        extraConfig=options(**keys),
        deviceChange=[add(passthrough(backing, key=-1 - index)) for index, backing in enumerate(backings)],
    )


def options(**keys: str) -> list[Any]:
    return [vim.option.OptionValue(key=key, value=value) for key, value in keys.items()]


def add(device: Any) -> Any:
    return vim.vm.device.VirtualDeviceSpec(operation="add", device=device)


def change(operation: str, device: Any) -> Any:
    return vim.vm.device.VirtualDeviceSpec(operation=operation, device=device)


def passthrough(backing: Any, key: int = -1) -> Any:
    return vim.vm.device.VirtualPCIPassthrough(key=key, backing=backing)


def vmxnet3(network: Network, key: int = -1) -> Any:
    backing = vim.vm.device.VirtualEthernetCard.NetworkBackingInfo(network=vim.Network(network.moid))
    return vim.vm.device.VirtualVmxnet3(key=key, backing=backing)


def disk(size_mib: int, controller: int = 1000, key: int = -1) -> Any:
    return vim.vm.device.VirtualDisk(key=key, controllerKey=controller, capacityInKB=size_mib * 1024)


def estate_of(text: str, tmp_path: Path) -> Path:
    """Write an estate file."""
    path = tmp_path / "estate.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def built(text: str) -> Any:
    """Return the state of an estate given as text."""
    document = documents.parse_text(text, "estate.yaml")
    return build_state(EstateFile("estate", document, documents.build(document, Estate), "digest"))
