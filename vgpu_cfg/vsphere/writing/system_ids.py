"""Which system id a host has, asked when a fixed passthrough device is made and the plan does not know it.

A host tells its system id with the functions that are passed through and with its SR-IOV NICs, so of one
without such a NIC that a plan prepares it is not known before the plan has handed out the first.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.changes.kinds.vm_spec import DeviceEdit, VmSpec
from vgpu_cfg.errors import NotFound
from vgpu_cfg.vsphere.wire.collector import Paths, Start, collect_from
from vgpu_cfg.vsphere.wire.config_target import system_id_of
from vgpu_cfg.vsphere.wire.faults import translated
from vgpu_cfg.vsphere.wire.session import Session

_BROWSER = (Paths("vim.ComputeResource", ("environmentBrowser",)),)
_HOST = (Paths("vim.VirtualMachine", ("runtime.host",)),)


def with_system_ids(
    session: Session, spec: VmSpec, *, host_moid: str | None = None, vm_moid: str = ""
) -> VmSpec:
    """Return a spec whose fixed passthrough devices name their host's system id; without a host, the VM's.

    Raises NotFound where the host does not report it: then nothing of it is passed through.
    """
    lacking = [edit for edit in spec.devices if edit.lacks_system]
    if not lacking:
        return spec
    host_moid = host_moid or _host_of(session, vm_moid)
    system_id = _system_id(session, host_moid)
    if not system_id:
        raise NotFound(
            f"the host reports no system id for {lacking[0].lacks_system}, which fixed passthrough names",
            subject=host_moid,
            remedy="see that the device is passed through, and plan again",
        )
    devices: tuple[DeviceEdit, ...] = tuple(
        edit.model_copy(update={"system_id": system_id}) if edit in lacking else edit for edit in spec.devices
    )
    return spec.model_copy(update={"devices": devices})


def _host_of(session: Session, vm_moid: str) -> str:
    found = collect_from(session, _HOST, [Start("vim.VirtualMachine", vm_moid)])
    return next((moid for item in found if (moid := item.moid_of("runtime.host"))), "")


def _system_id(session: Session, host_moid: str) -> str:
    found = collect_from(session, _BROWSER, [Start("vim.HostSystem", host_moid, follow="parent")])
    browser: Any = next((item.get("environmentBrowser") for item in found), None)
    if browser is None:
        return ""
    with translated("reading the system id of a host", host_moid):
        target = browser.QueryConfigTarget(vim.HostSystem(host_moid, session.stub))
    return system_id_of(target)
