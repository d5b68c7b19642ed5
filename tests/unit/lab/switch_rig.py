"""A lab with a distributed switch that a client made, and the specs that change it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyVmomi import vim

from tests.unit.lab.host_rig import A100_HOST, HostRig
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.vcenter import Lab

SWITCH = "dvs-roce"
Config = vim.dvs.VmwareDistributedVirtualSwitch.ConfigSpec
Portgroup = vim.dvs.DistributedVirtualPortgroup.ConfigSpec


class SwitchRig(HostRig):
    """The estate `bare` with one switch, as yet without members; `switch` is what a client sees of it."""

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__("bare", folder)
        self.folder = folder
        self.switch = self.made(name=SWITCH, maxMtu=9000)

    @property
    def network_folder(self) -> Any:
        return self.content.rootFolder.childEntity[0].networkFolder

    def made(self, **fields: Any) -> Any:
        """Make a switch that must be made, and return it."""
        spec = vim.DistributedVirtualSwitch.CreateSpec(configSpec=Config(**fields))
        info = self.end(self.network_folder.CreateDVS_Task(spec))
        assert info.state == "success", info.error
        return info.result

    def change(self, **fields: Any) -> Any:
        """Change the switch with the version that it has, and return the task's info."""
        version = fields.pop("configVersion", self.switch.config.configVersion)
        return self.end(self.switch.ReconfigureDvs_Task(Config(configVersion=version, **fields)))

    def refused(self, **fields: Any) -> Any:
        """Change the switch in a way that must fail, and return the fault."""
        info = self.change(**fields)
        assert info.state == "error"
        return info.error

    def member(
        self, operation: str = "add", name: str = A100_HOST, nics: tuple[str, ...] | None = (), **ports: str
    ) -> Any:
        """Return what makes a host a member; `ports` puts NICs at ports, `nics` None sends no backing."""
        pnic: Any = vim.dvs.HostMember.PnicSpec
        specs = [pnic(pnicDevice=nic, uplinkPortKey=ports.get(nic)) for nic in nics or ()]
        backing = None if nics is None else vim.dvs.HostMember.PnicBacking(pnicSpec=specs)
        return vim.dvs.HostMember.ConfigSpec(operation=operation, host=self.host(name), backing=backing)

    def join(self, name: str = A100_HOST, nics: tuple[str, ...] = ("vmnic2",)) -> None:
        info = self.change(host=[self.member(name=name, nics=nics)])
        assert info.state == "success", info.error

    def members(self) -> dict[str, dict[str, str]]:
        """Return the NICs of each member with their ports."""
        return {
            member.config.host.name: {
                spec.pnicDevice: spec.uplinkPortKey for spec in member.config.backing.pnicSpec
            }
            for member in self.switch.config.host
        }

    def portgroup(self, vlan: int, name: str = "") -> Any:
        """Make a portgroup that must be made, and return it."""
        spec = Portgroup(name=name or f"roce-{vlan}", defaultPortConfig=port_setting(vlan), numPorts=8)
        info = self.end(self.switch.CreateDVPortgroup_Task(spec))
        assert info.state == "success", info.error
        return info.result

    def port(self, portgroup: Any) -> Any:
        return vim.dvs.PortConnection(switchUuid=self.switch.uuid, portgroupKey=portgroup.key)

    def opened_again(self) -> Lab:
        """Open the lab as the next command does, from what was saved."""
        return open_lab("bare", folder=self.folder, clock=VirtualClock())


def port_setting(vlan: int | None = None, *, spec: Any = None) -> Any:
    """Return the settings of ports with a VLAN, or with any VLAN spec."""
    shapes = vim.dvs.VmwareDistributedVirtualSwitch
    wanted = spec if vlan is None else shapes.VlanIdSpec(vlanId=vlan, inherited=False)
    return shapes.VmwarePortConfigPolicy(vlan=wanted)


def trunk(*ranges: tuple[int, int]) -> Any:
    found = [vim.NumericRange(start=start, end=end) for start, end in ranges]
    return vim.dvs.VmwareDistributedVirtualSwitch.TrunkVlanSpec(vlanId=found, inherited=False)
