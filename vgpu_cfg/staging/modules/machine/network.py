"""Network configuration of a guest's NICs after the first boot, without conflict with cloud-init.

At the first boot cloud-init renders the same configuration from the metadata. This module then owns it: it
writes a file of its own, removes cloud-init's, and disables cloud-init's network configuration.

Belief: names-of-passed-through-nics, first-boot-without-netplan, network-manager-profiles.
"""

from __future__ import annotations

from vgpu_cfg.documents.foreign import write_foreign
from vgpu_cfg.model.guests.modules import NetworkModule
from vgpu_cfg.staging.netplan import keyfile, link_file, network_config, nic_arguments
from vgpu_cfg.staging.rendering import Staged, halves, source_file


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
