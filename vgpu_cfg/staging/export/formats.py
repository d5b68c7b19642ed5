"""The formats by the names that the command line has for them, and an Ansible inventory in YAML.

The inventory is that of the plugin ansible.builtin.yaml (docs.ansible.com). It begins with the group `all`;
groups below it are under `children`, and the entries of a host are its variables. Group names are words of
letters, digits and underscores that do not begin with a digit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vgpu_cfg.model.host_list import HostList, ListedHost
from vgpu_cfg.staging.export.clouds import write_dstack, write_skypilot
from vgpu_cfg.staging.export.kubernetes import write_kubernetes
from vgpu_cfg.staging.export.launchers import write_horovod, write_mpi, write_tf_config, write_torchrun
from vgpu_cfg.staging.export.parts import (
    Exported,
    ExportOptions,
    address_of,
    key_notes,
    refuse_unnamed,
    text_of,
    yaml_of,
)
from vgpu_cfg.staging.export.slurm import write_slurm


def write_ansible(host_list: HostList, options: ExportOptions) -> Exported:
    """Write the inventory: a group for the plan, in it one for its workers and one for its head."""
    name = text_of(host_list.plan.replace("-", "_"))
    group = f"plan_{name}" if name[:1].isdigit() else name
    children: dict[str, Any] = {
        f"{group}_workers": {"hosts": {host.vm: _variables(host, options) for host in host_list.workers}}
    }
    if host_list.head is not None:
        children[f"{group}_head"] = {"hosts": {host_list.head.vm: _variables(host_list.head, options)}}
    text = yaml_of(host_list, {"all": {"children": {group: {"children": children}}}})
    return Exported({"inventory.yaml": text}, key_notes(host_list.everyone, options))


def _variables(host: ListedHost, options: ExportOptions) -> dict[str, Any]:
    variables: dict[str, Any] = {
        "ansible_host": address_of(host),
        "ansible_port": host.port,
        "ansible_user": options.user_of(host),
    }
    if key := options.key_of(host):
        variables["ansible_ssh_private_key_file"] = key
    if not host.exists:
        variables["vgpu_cfg_exists"] = False
    variables["vgpu_cfg_host_name"] = host.full_name
    if host.training_address:
        variables["vgpu_cfg_training_address"] = host.training_address
    if host.gpus:
        variables["vgpu_cfg_gpus"] = [gpu.kind for gpu in host.gpus]
        variables["vgpu_cfg_slots"] = host.slots
    return variables


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its name, and what writes it."""

    name: str
    make: Callable[[HostList, ExportOptions], Exported]

    def write(self, host_list: HostList, options: ExportOptions) -> Exported:
        """Write a list of hosts. Raises DoesNotFit where it cannot be said."""
        refuse_unnamed(host_list)
        return self.make(host_list, options)


FORMATS = {
    one.name: one
    for one in (
        Format("horovod", write_horovod),
        Format("mpi", write_mpi),
        Format("torchrun", write_torchrun),
        Format("tf-config", write_tf_config),
        Format("slurm", write_slurm),
        Format("kubernetes", write_kubernetes),
        Format("ansible", write_ansible),
        Format("skypilot", write_skypilot),
        Format("dstack", write_dstack),
    )
}
