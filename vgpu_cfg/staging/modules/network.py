"""A guest's NICs: their configuration after the first boot, and the shares of the management NIC.

At the first boot cloud-init renders the same configuration from the metadata. The module `network` then owns
it: it writes a file of its own, removes cloud-init's, and disables cloud-init's network configuration.

Of the management NIC the control plane has a guaranteed part, which others may borrow. HTB shapes what leaves
this guest; what arrives is shaped where it leaves. Each class ends in fq_codel.

Belief: names-of-passed-through-nics, first-boot-without-netplan, network-manager-profiles.
"""

from __future__ import annotations

from vgpu_cfg.documents.foreign import write_foreign
from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.modules import NetworkModule, TrafficModule
from vgpu_cfg.staging import values
from vgpu_cfg.staging.netplan import keyfile, link_file, network_config, nic_arguments
from vgpu_cfg.staging.rendering import Staged, StagingContext, halves, render, source_file, two_scripts


def stage_network(module: NetworkModule) -> Staged:
    """Write netplan's file, or NetworkManager's where netplan is not; apply it where it is not so yet."""
    files = [
        source_file("network.yaml", write_foreign({"network": network_config(module.nics)})),
        source_file("cloud-network.cfg", write_foreign({"network": {"config": "disabled"}})),
    ]
    for index, nic in enumerate(module.nics):
        files.append(source_file(f"vgpu-cfg-{index}.nmconnection", keyfile(nic, index)))
        if nic.name:
            files.append(source_file(f"vgpu-cfg-{index}.link", link_file(nic)))
    return halves("network.sh.j2", *files, nics=nic_arguments(module.nics))


TRAFFIC_FILES = {
    "/opt/vgpu-cfg/traffic": ("traffic.sh.j2", "755"),
    "/etc/systemd/system/vgpu-cfg-traffic.service": ("traffic.service.j2", "644"),
}


def stage_traffic(module: TrafficModule, context: StagingContext) -> Staged:
    """Write the classes and the unit that sets them at each boot."""
    if not 0 < module.control_mbps < module.link_mbps:
        raise GuestError(
            f"cannot reserve {module.control_mbps} of {module.link_mbps} Mbit/s for the control plane",
            subject=context.spec.vm,
            remedy="in training.traffic, set control_mbps below link_mbps",
        )
    nic = module.nic
    words = {
        "name": values.interface_name(nic.name) if nic.name else "",
        "mac": values.mac_address(nic.mac) if nic.mac else "",
        "driver": values.driver_name(nic.driver) if nic.driver else "",
        "link": module.link_mbps,
        "control": module.control_mbps,
        "rest": module.link_mbps - module.control_mbps,
        "ports": sorted({values.port(port, "training.traffic") for port in module.control_ports}),
    }
    named = [
        (path, f"traffic/{number}", mode) for number, (path, (_, mode)) in enumerate(TRAFFIC_FILES.items(), 1)
    ]
    files = [
        source_file(name, render(template, **words))
        for (_, name, _), (template, _) in zip(named, TRAFFIC_FILES.values(), strict=True)
    ]
    return two_scripts("traffic", *files, files=named)
