"""A cluster's overrides for single VMs: DRS and HA overrides.

An existing override is edited: its other fields (isolation response, restart delays) stay. Source: vSphere
API reference, ClusterConfigSpecEx.drsVmConfigSpec and dasVmConfigSpec.

Belief: ha-override-is-sent-whole, overrides-for-new-vms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyVmomi import vim

from vgpu_cfg.model.observed.vm import SettingValue
from vgpu_cfg.planning.vms.settings.cluster_rows import DRS_LIST, HA_LIST
from vgpu_cfg.planning.vms.settings.table import rows_of
from vgpu_cfg.vsphere.reading.sharing import entries
from vgpu_cfg.vsphere.wire.collector import Paths, Start, collect_from
from vgpu_cfg.vsphere.wire.leaves import set_path
from vgpu_cfg.vsphere.wire.session import Session

_CONFIGURATION = (Paths("vim.ClusterComputeResource", ("configurationEx",)),)
_LISTS: Mapping[str, tuple[Any, Any]] = {
    DRS_LIST: (vim.cluster.DrsVmConfigSpec, vim.cluster.DrsVmConfigInfo),
    HA_LIST: (vim.cluster.DasVmConfigSpec, vim.cluster.DasVmConfigInfo),
}
"""The lists of a cluster's configuration, with the types of their edits and of their entries."""


def override_specs(
    session: Session, cluster_moid: str, wanted: Mapping[str, Mapping[str, SettingValue]]
) -> Any:
    """Return the ConfigSpecEx that sets the overrides; the VMs' current ones are read first."""
    found = collect_from(session, _CONFIGURATION, [Start("vim.ClusterComputeResource", cluster_moid)])
    configuration = found[0].get("configurationEx") if found else None
    spec = vim.cluster.ConfigSpecEx()
    for name, (edit_type, info_type) in _LISTS.items():
        there = dict(entries(configuration, name))
        edits = []
        for moid, settings in wanted.items():
            leaves = [
                (path.removeprefix(f"{name}."), value)
                for setting, chosen in rows_of(settings)
                for path, value in setting.on_wire(chosen).items()
                if path.startswith(f"{name}.")
            ]
            if leaves:
                info = there.get(moid) or info_type(key=vim.VirtualMachine(moid))
                for path, value in leaves:
                    set_path(info, path, value)
                edits.append(edit_type(operation="edit" if moid in there else "add", info=info))
        if edits:
            setattr(spec, f"{name}Spec", edits)
    return spec
