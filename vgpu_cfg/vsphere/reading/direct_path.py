"""The use of vCenter 9's DirectPath profiles on each host, and their reserved part.

Source: vSphere API reference, DirectPathProfileManager (9.0.0.0): `consumed` and `remaining` are of
powered-on VMs, `unusedReservation` are units that are reserved and not assigned to any powered-on VM. No
vCenter that has such profiles was seen.

Belief: directpath-capacity.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.errors import NotRecorded
from vgpu_cfg.model.observed.inventory import Connection, DirectPathCapacity, Host
from vgpu_cfg.vsphere.wire.session import Session

DIRECT_PATH_API = "9.0.0.0"


def read_direct_path(session: Session, hosts: Iterable[Host]) -> dict[str, tuple[DirectPathCapacity, ...]]:
    """Return, by host, the capacity of each DirectPath profile of a vGPU type.

    Hosts without an answer are absent. One round trip for the manager of profiles and one for these; where
    there are any, one for each connected host with GPUs, some at once.
    """
    if not session.speaks(DIRECT_PATH_API):
        return {}
    asked = [host for host in hosts if host.gpus and host.connection is Connection.CONNECTED]
    if not asked:
        return {}
    every = vim.DirectPathProfileManager.FilterSpec()
    try:
        # The session's own roots are those of the oldest version, which has no such manager.
        content: Any = vim.ServiceInstance("ServiceInstance", session.stub).RetrieveContent()
        manager = content.directPathProfileManager
        if manager is None:
            return {}
        profiles = [one for one in manager.ListDirectPathProfiles(every) or () if _vgpu_profile(one)]
        told = session.each(lambda host: _capacity(session, manager, host, profiles), asked)
        return {host.moid: capacity for host, capacity in told}
    except (vmodl.MethodFault, NotRecorded):
        return {}


def _capacity(
    session: Session, manager: Any, host: Host, profiles: list[Any]
) -> tuple[DirectPathCapacity, ...]:
    if not profiles:
        return ()
    types = vim.DirectPathProfileManager
    answer = manager.QueryDirectPathProfileCapacity(
        types.TargetHost(host=vim.HostSystem(host.moid, session.stub)),
        [types.CapacityQueryById(id=profile.id) for profile in profiles],
    )
    return tuple(
        DirectPathCapacity(
            name=one.profile.name,
            vgpu_profile=_vgpu_profile(one.profile),
            consumed=one.consumed,
            remaining=one.remaining,
            unused_reservation=one.unusedReservation,
        )
        for one in answer or ()
        if isinstance(one, types.CapacityInfo) and _vgpu_profile(one.profile)
    )


def _vgpu_profile(profile: Any) -> str:
    """Return the vGPU type of a DirectPath profile, "" if it is of another kind of device."""
    config = profile.deviceConfig
    is_vgpu = isinstance(config, vim.DirectPathProfileManager.VmiopDirectPathConfig)
    return str(config.vgpuProfile) if is_vgpu else ""
