"""What a host becomes when a plan is carried out on it: configured at once, in force after a restart.

It knows the writes and nothing of the settings table that made them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, assert_never

from tests.plans.host_rows import FIRMWARE, MELLANOX
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import (
    ChangeHost,
    ColdBootHost,
    EnterMaintenance,
    ExitMaintenance,
    RebootHost,
    RemediateHost,
    RestartService,
    ShutDownHost,
)
from vgpu_cfg.changes.kinds.change_host import (
    EsxcliWrite,
    GraphicsWrite,
    LicenceWrite,
    ModuleWrite,
    OptionWrite,
    PassthroughWrite,
    RulesetWrite,
    ShellWrite,
    SwitchWrite,
    VmknicWrite,
)
from vgpu_cfg.model.observed.host_facts import (
    FirmwareValue,
    GpuShellFacts,
    HostFacts,
    KernelSetting,
    ShellFacts,
    SoftwarePackage,
    Vmknic,
)
from vgpu_cfg.model.observed.inventory import Gpu, Host, HostNic, PciDevice, Sriov
from vgpu_cfg.model.vgpu import Sharing, VgpuMode

HostChange = (
    EnterMaintenance
    | ExitMaintenance
    | ChangeHost
    | RestartService
    | RebootHost
    | ColdBootHost
    | RemediateHost
    | ShutDownHost
)
_ATS = "VMkernel.Boot.atsSupport"


class SimulatedHost:
    """One host with its facts; it asserts what a real one would refuse."""

    def __init__(self, host: Host, facts: HostFacts) -> None:
        self.host, self.facts = host, facts
        self.staged: dict[str, str] = {}
        self.image: dict[str, str] = {}
        self.reboots = 0

    def do(self, change: HostChange) -> None:
        match change:
            case EnterMaintenance():
                if not change.is_held:
                    self.host = self.host.model_copy(update={"is_in_maintenance_mode": True})
            case ExitMaintenance():
                if not change.is_held:
                    self.host = self.host.model_copy(update={"is_in_maintenance_mode": False})
                self._set(mark=None)
            case ChangeHost():
                self._write(change)
            case RestartService():
                assert change.service == "xorg"
                self._graphics_in_force()
            case RebootHost() | ColdBootHost() | ShutDownHost():
                assert self.host.is_in_maintenance_mode, f"{self.host.name} reboots outside maintenance mode"
                self._boot()
            case RemediateHost():
                assert self.host.is_in_maintenance_mode
                assert self.image, "the image has no component for the driver"
                self.staged |= self.image
                self._boot()
            case _:
                assert_never(change)

    def _set(self, **update: Any) -> None:
        self.facts = self.facts.model_copy(update=update)

    def _write(self, change: ChangeHost) -> None:
        match change.write:
            case GraphicsWrite() as write:
                self._write_graphics(write)
            case PassthroughWrite() as write:
                for device in write.devices:
                    assert device.pci_id in {pci.pci_id for pci in self.host.pci_devices}
                    self._device(device.pci_id, device.is_passthrough, device.label, device.virtual_functions)
            case OptionWrite() as write:
                assert write.options.keys() <= self.facts.options.keys()
                self._set(options={**self.facts.options, **write.options})
                if _ATS in write.options:
                    self._kernel("atsSupport", str(write.options[_ATS]).upper())
            case ModuleWrite() as write:
                assert write.module in self.facts.modules
                self._set(modules={**self.facts.modules, write.module: write.options})
            case EsxcliWrite() as write:
                self._esxcli(write)
            case ShellWrite() as write:
                for command in write.commands:
                    self._command(command)
            case RulesetWrite() as write:
                self._set(rulesets={**self.facts.rulesets, write.ruleset: write.is_enabled})
            case VmknicWrite() as write:
                self._vmknic(write)
            case SwitchWrite() as write:
                update = {
                    key: value for key, value in (("mtu", write.mtu), ("uplinks", write.uplinks)) if value
                }
                kept = tuple(
                    one.model_copy(update=update) if one.name == write.switch else one
                    for one in self.facts.switches
                )
                self._set(switches=kept)
            case LicenceWrite():
                self._set(licence="assigned")
            case _:
                assert_never(change.write)

    def _write_graphics(self, write: GraphicsWrite) -> None:
        update: dict[str, Any] = {}
        if write.default_type is not None:
            update["graphics_type"] = write.default_type
        if write.assignment_policy is not None:
            update["assignment_policy"] = write.assignment_policy
        gpus = []
        for gpu in self.host.gpus:
            kind = write.graphics_types.get(gpu.pci_id, write.default_type)
            changed: dict[str, Any] = {}
            if kind is not None and not gpu.is_passthrough:
                changed["configured_graphics_type"] = kind
            if gpu.pci_id in write.vgpu_modes:
                assert not gpu.vm_moids, "a GPU's mode changes only while it is empty"
                changed["vgpu_mode"] = changed["configured_vgpu_mode"] = write.vgpu_modes[gpu.pci_id]
            gpus.append(gpu.model_copy(update=changed))
        self.host = self.host.model_copy(update=update | {"gpus": tuple(gpus)})

    def _graphics_in_force(self) -> None:
        gpus = [
            gpu
            if gpu.is_passthrough or not self._has_driver
            else gpu.model_copy(
                update={"graphics_type": gpu.configured_graphics_type or self.host.graphics_type}
            )
            for gpu in self.host.gpus
        ]
        self.host = self.host.model_copy(update={"gpus": tuple(gpus)})

    @property
    def _has_driver(self) -> bool:
        return any(package.name.startswith("NVD") for package in self.facts.software)

    def _device(self, pci_id: str, passed: bool | None, label: str | None, functions: int | None) -> None:
        def changed(pci: PciDevice) -> PciDevice:
            if pci.pci_id != pci_id:
                return pci
            update: dict[str, Any] = {}
            if passed is not None:
                update["passthrough_enabled"] = passed
                if self.facts.rebind_without_reboot:
                    update["passthrough_active"] = passed
            if label is not None:
                update["hardware_label"] = label or None
            if functions is not None:
                update["sriov"] = (pci.sriov or Sriov()).model_copy(update={"requested": functions})
            return pci.model_copy(update=update)

        self._each_device(changed)

    def _each_device(self, changed: Any) -> None:
        """Change functions; a NIC that is handed out is listed no more, one that comes back is again."""
        before = {nic.pci_id: nic.device for nic in self.host.nics}
        devices = tuple(changed(pci) for pci in self.host.pci_devices)
        by_id = {pci.pci_id: pci for pci in devices}
        gpus = tuple(self._gpu_with(gpu, by_id[gpu.pci_id]) for gpu in self.host.gpus)
        kept = {nic.pci_id: nic for nic in self.host.nics}
        nics = tuple(
            kept[pci.pci_id].model_copy(update={"pci": pci}) if pci.pci_id in kept else self._back(pci)
            for pci in devices
            if pci.vendor_id == MELLANOX and not pci.passthrough_active
        )
        gone = {pci_id: name for pci_id, name in before.items() if pci_id not in {nic.pci_id for nic in nics}}
        self._set(vmnics={**self.facts.vmnics, **gone})
        self.host = self.host.model_copy(update={"pci_devices": devices, "gpus": gpus, "nics": nics})

    def _back(self, pci: PciDevice) -> HostNic:
        """Return a NIC that the host has again, under its old name and with its firmware to be read."""
        shell = self.facts.shell or ShellFacts()
        values = {name: FirmwareValue(current=word, next_boot=word) for name, word in FIRMWARE.items()}
        firmware = {pci.pci_id: values} | dict(shell.firmware)
        self._set(shell=shell.model_copy(update={"firmware": firmware}))
        name = self.facts.vmnics.get(pci.pci_id, "")
        return HostNic(device=name, driver="nmlx5_core", pci_id=pci.pci_id, pci=pci, numa_node=pci.numa_node)

    def _gpu_with(self, gpu: Gpu, pci: PciDevice) -> Gpu:
        """Return a GPU with another state of its function; one that is passed through is not listed."""
        update: dict[str, Any] = {"pci": pci}
        if pci.passthrough_active and not gpu.pci.passthrough_active:
            update |= {"graphics_type": None, "sharing": None}
        if not pci.passthrough_active and gpu.pci.passthrough_active:
            update |= {"graphics_type": gpu.configured_graphics_type, "sharing": Sharing.TIME_SLICED}
        return gpu.model_copy(update=update)

    def _kernel(self, name: str, value: str) -> None:
        found = self.facts.kernel.get(name) or KernelSetting(configured=value, runtime="FALSE")
        self._set(kernel={**self.facts.kernel, name: found.model_copy(update={"configured": value})})

    def _esxcli(self, write: EsxcliWrite) -> None:
        arguments = dict(write.arguments)
        if write.command == "system.settings.kernel.set":
            self._kernel(arguments["setting"], arguments["value"])
        elif write.command == "software.vib.install":
            for name, value in write.arguments:
                found = re.search(r"(\d+\.\d+\.\d+)", value) if name == "depot" else None
                part = next((part for part in ("mft", "nmst") if part in value), None)
                if found and part:
                    self.staged[part] = f"{found[1]}-0"
                elif found:
                    self.staged["NVD-AIE_ESXi_8.0.0_Driver"] = f"{found[1]}-1OEM"
                    self.staged["nvdgpumgmtdaemon"] = found[1]
        else:
            raise AssertionError(f"no host of this test knows {write.command}")

    def _command(self, command: tuple[str, ...]) -> None:
        shell = self.facts.shell or ShellFacts()
        if command[0].endswith("nvidia-smi"):
            assert self._has_driver, "nvidia-smi is not there before the driver"
            pci_id = command[command.index("-i") + 1]
            found = shell.gpus.get(pci_id) or GpuShellFacts()
            if "-mig" in command:
                wanted = command[command.index("-mig") + 1] == "1"
                found = found.model_copy(update={"mig_pending": wanted})
                if self._is_hopper(pci_id):
                    found = found.model_copy(update={"mig_current": wanted})
            else:
                wanted = command[command.index("-e") + 1] == "1"
                found = found.model_copy(update={"ecc_pending": wanted})
            self._set(shell=shell.model_copy(update={"gpus": {**shell.gpus, pci_id: found}}))
            self._mig_in_force()
        else:
            assert command[0].endswith("mlxconfig")
            pci_id = command[command.index("-d") + 1]
            assert pci_id in {nic.pci_id for nic in self.host.nics}, f"{pci_id} is not the host's own"
            values = dict(word.split("=", 1) for word in command[command.index("set") + 1 :])
            firmware = dict(shell.firmware.get(pci_id) or {})
            for name, value in values.items():
                word = (
                    {"1": "True", "0": "False"}.get(value, value) if _is_truth(firmware.get(name)) else value
                )
                old = firmware.get(name) or FirmwareValue()
                firmware[name] = old.model_copy(update={"next_boot": word})
            self._set(shell=shell.model_copy(update={"firmware": {**shell.firmware, pci_id: firmware}}))

    def _is_hopper(self, pci_id: str) -> bool:
        gpu = self.host.gpu(pci_id)
        assert gpu is not None
        board = load_catalog().by_pci(gpu.pci.vendor_id, gpu.pci.device_id, gpu.pci.subsystem_id)
        return board is not None and board.architecture in ("Hopper", "Blackwell")

    def _mig_in_force(self) -> None:
        shell = self.facts.shell or ShellFacts()
        gpus = []
        for gpu in self.host.gpus:
            found = shell.gpus.get(gpu.pci_id)
            if found is None or gpu.is_passthrough:
                gpus.append(gpu)
                continue
            sharing = Sharing.MIG if found.mig_current else Sharing.TIME_SLICED
            gpus.append(gpu.model_copy(update={"sharing": sharing}))
        self.host = self.host.model_copy(update={"gpus": tuple(gpus)})

    def _vmknic(self, write: VmknicWrite) -> None:
        update: dict[str, Any] = {}
        if write.address is not None:
            is_dhcp = write.address == "dhcp"
            update |= {"address": "" if is_dhcp else write.address, "is_dhcp": is_dhcp}
        if write.mtu is not None:
            update["mtu"] = write.mtu
        if write.device is None:
            number = len(self.facts.vmknics)
            made = Vmknic(device=f"vmk{number}", network=write.network_name, network_moid=write.network_moid)
            self._set(vmknics=(*self.facts.vmknics, made.model_copy(update=update)))
            return
        kept = tuple(
            one.model_copy(update=update) if one.device == write.device else one for one in self.facts.vmknics
        )
        self._set(vmknics=kept)

    def _boot(self) -> None:
        self.reboots += 1
        facts = self.facts
        assert facts.boot_time is not None
        has_new_driver = any(name.startswith("NVD") for name in self.staged)
        names = {package.name: package.version for package in facts.software} | self.staged
        self._set(
            boot_time=facts.boot_time + timedelta(hours=1),
            software=tuple(SoftwarePackage(name=name, version=version) for name, version in names.items()),
            kernel={
                name: one.model_copy(update={"runtime": one.configured}) for name, one in facts.kernel.items()
            },
        )
        self.staged = {}
        if has_new_driver and "nvidia" not in facts.modules:
            self._set(modules={**facts.modules, "nvidia": ""})
        self._set(shell=self._shell_after_boot(is_new=has_new_driver))
        self._each_device(_booted)
        self._graphics_in_force()
        gpus = tuple(
            gpu.model_copy(update={"vgpu_mode": VgpuMode.SAME_SIZE, "configured_vgpu_mode": None})
            for gpu in self.host.gpus
        )
        self.host = self.host.model_copy(update={"gpus": gpus})
        self._mig_in_force()

    def _shell_after_boot(self, *, is_new: bool) -> ShellFacts:
        shell = self.facts.shell or ShellFacts()
        gpus: dict[str, GpuShellFacts] = {}
        for gpu in self.host.gpus:
            found = shell.gpus.get(gpu.pci_id)
            if found is None:
                if is_new:
                    gpus[gpu.pci_id] = _first_seen()
                continue
            mig = False if self._is_hopper(gpu.pci_id) else found.mig_pending
            gpus[gpu.pci_id] = found.model_copy(
                update={"mig_current": mig, "mig_pending": mig, "ecc_current": found.ecc_pending}
            )
        firmware: Mapping[str, Any] = {
            pci_id: {
                name: value.model_copy(update={"current": value.next_boot}) for name, value in values.items()
            }
            for pci_id, values in shell.firmware.items()
        }
        has_tools = shell.has_firmware_tools
        if has_tools is False and any(one.name == "mft" for one in self.facts.software):
            has_tools, off = True, FirmwareValue(default="False", current="False", next_boot="False")
            firmware = {nic.pci_id: {"ATS_ENABLED": off} for nic in self.host.nics}
        # After a reboot what is installed is what runs; a shell that told no version goes on so.
        installed = {one.name: one.version for one in self.facts.software}.get("NVD-AIE_ESXi_8.0.0_Driver")
        runs = installed.partition("-")[0] if installed and shell.driver_version else shell.driver_version
        return shell.model_copy(
            update={
                "gpus": gpus,
                "firmware": firmware,
                "has_firmware_tools": has_tools,
                "unread": {},
                "driver_version": runs,
            }
        )


def _first_seen() -> GpuShellFacts:
    return GpuShellFacts(
        mig_current=False, mig_pending=False, ecc_current=True, ecc_pending=True, host_vgpu_mode="SR-IOV"
    )


def _is_truth(value: FirmwareValue | None) -> bool:
    return value is not None and value.next_boot in ("True", "False")


def _booted(pci: PciDevice) -> PciDevice:
    update: dict[str, Any] = {"passthrough_active": pci.passthrough_enabled}
    if pci.sriov is not None:
        functions = pci.sriov.requested
        update["sriov"] = pci.sriov.model_copy(update={"functions": functions, "is_active": functions > 0})
    return pci.model_copy(update=update)
