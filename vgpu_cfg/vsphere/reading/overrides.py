"""What a cluster says of single VMs: DRS and HA overrides.

Source: vSphere API reference, ClusterConfigInfoEx.drsVmConfig and dasVmConfig.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vgpu_cfg.model.observed.drs import VmOverrides
from vgpu_cfg.model.observed.vm import SettingValue
from vgpu_cfg.planning.vms.settings.cluster_rows import DRS_LIST, HA_LIST
from vgpu_cfg.planning.vms.settings.table import overrides
from vgpu_cfg.vsphere.wire.paths import leaves_of


def vm_overrides(configuration: Any) -> tuple[VmOverrides, ...]:
    """Return what a cluster's configuration says of single VMs, as far as the VMs' table has words for it."""
    leaves: dict[str, dict[str, SettingValue]] = {}
    for name in (DRS_LIST, HA_LIST):
        for moid, entry in entries(configuration, name):
            found = leaves.setdefault(moid, {})
            found |= {f"{name}.{path}": value for path, value in leaves_of(entry)}
            # Only where it says so is DRS off for the VM (vSphere API reference, ClusterDrsVmConfigInfo).
            if name == DRS_LIST:
                found.setdefault(f"{name}.enabled", True)
    said = {moid: tuple(overrides(found)) for moid, found in leaves.items()}
    return tuple(VmOverrides(vm_moid=moid, settings=settings) for moid, settings in said.items() if settings)


def entries(configuration: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the entries of one of a cluster's lists, each with the moid of its VM."""
    for entry in getattr(configuration, name, None) or ():
        yield str(entry.key._moId), entry
