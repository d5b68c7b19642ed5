"""What a host would lose with a NIC that it uses itself: an uplink, VMkernel NICs and their services."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpu_cfg.model.observed.host_facts import DistributedSwitch, HostSwitch, Vmknic
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.host_settings.entry import HostView


@dataclass(frozen=True, slots=True)
class CutOff:
    """What hangs on a NIC. `vmknics` and `services` may be on its switch; sure is only what is distributed.

    `others` are the switch's remaining uplinks: with one of them left nothing is cut off, only thinner.
    """

    nic: str
    switch: str
    others: tuple[str, ...] = ()
    vmknics: tuple[str, ...] = ()
    services: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.others:
            return f"{self.nic} is an uplink of {self.switch}, which keeps {listed(self.others)}"
        reported = f"{self.nic} is the only uplink of {self.switch}"
        if self.vmknics:
            reported = f"{reported}, with {listed(self.vmknics, shown=6)}"
        return f"{reported} ({listed(self.services, shown=8)})" if self.services else reported


def cut_off(view: HostView, vmnic: str, distributed: Sequence[DistributedSwitch] = ()) -> CutOff | None:
    """Say what would go with a NIC; None where no switch uses it.

    A host does not tell which standard switch a portgroup is on: with several of them every
    VMkernel NIC that is on no distributed switch is named. `distributed` are the switches of the estate.
    """
    switch = next((one for one in view.facts.switches if vmnic in one.uplinks), None)
    if switch is None:
        return None
    others = tuple(uplink for uplink in switch.uplinks if uplink != vmnic)
    found = [vmknic for vmknic in view.facts.vmknics if _may_be_on(vmknic, switch, distributed)]
    services = dict.fromkeys(service for vmknic in found for service in vmknic.services)
    return CutOff(vmnic, switch.name, others, tuple(one.device for one in found), tuple(services))


def _may_be_on(vmknic: Vmknic, switch: HostSwitch, distributed: Sequence[DistributedSwitch]) -> bool:
    home = next((one for one in distributed if vmknic.network_moid in one.portgroup_vlans), None)
    if switch.switch_uuid is None:
        return home is None
    return home.uuid == switch.switch_uuid if home is not None else not distributed
