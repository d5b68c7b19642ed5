"""What of a guest can be read in vCenter, and whether what is secret has a way in that nobody else reads."""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.model.guests.guest import REDACTED, USERDATA_KEY, GuestSpec
from vgpu_cfg.model.guests.training_modules import SshMeshModule
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.guests.stage import GuestUpdate
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm


def check_exposure(
    resolved: ResolvedVm, update: GuestUpdate, specs: Mapping[str, GuestSpec], findings: Findings
) -> None:
    """Check what a clone carries, and how the rest gets into its guest. `specs` are those of all VMs."""
    vm, spec = resolved.desired, update.spec
    private = [one.kind for one in spec.modules if one.is_private]
    if spec.is_exposed and private:
        _check_mesh(resolved, spec, specs, findings)
        _check_left(resolved, listed(private), findings)
    if not (update.is_new and update.will_run and spec.by == "cloud-init"):
        return
    if private and spec.is_exposed:
        message = (
            f"`secrets: exposed`: its clone carries the secrets of {listed(private)}; whoever may read the "
            "VM's configuration, or events, can read them there"
        )
        remedy = (
            "leave it out where ssh or guest operations reach the guest; else change these secrets afterwards"
        )
        findings.add_vm(Code.GUEST_SECRETS_EXPOSED, vm, message, remedy)
    elif private and not _has_way_in(resolved, spec):
        message = (
            f"nothing can bring it the secrets of {listed(private)}: it has no NIC for ssh, and no login "
            "with a password for guest operations"
        )
        remedy = (
            "give it a NIC; or write guest: {login: {user: …, password: {secret: …}}}, or {secrets: exposed}"
        )
        findings.refuse_vm(Code.GUEST_SECRETS_NO_WAY, vm, message, remedy)
    if spec.user_data:
        message = (
            "its own `user_data` can be read in the VM's configuration until the guest has read it, and "
            "maybe in events"
        )
        remedy = "keep secrets out of it"
        findings.add_vm(Code.USER_DATA_READABLE, vm, message, remedy)


def _check_left(resolved: ResolvedVm, private: str, findings: Findings) -> None:
    """Report secrets that a run left in a VM that is off: they stay there until its first boot."""
    existing = resolved.existing
    settings = existing.detail.extra_config if existing is not None and existing.detail is not None else {}
    if existing is None or existing.is_on or settings.get(USERDATA_KEY, "") in ("", REDACTED):
        return
    message = f"it is off, and its configuration still holds the secrets of {private}, readable in vCenter"
    remedy = "apply: its first boot removes them; or destroy it; then change these secrets"
    findings.add_vm(Code.GUEST_SECRETS_EXPOSED, resolved.desired, message, remedy)


def _check_mesh(
    resolved: ResolvedVm, spec: GuestSpec, specs: Mapping[str, GuestSpec], findings: Findings
) -> None:
    """Refuse a mesh in which some tell their host key later, and one is given all at its first boot."""
    mesh = spec.get(SshMeshModule)
    others = [
        peer.vm for peer in (mesh.peers if mesh else ()) if peer.vm in specs and not specs[peer.vm].is_exposed
    ]
    if others:
        message = (
            f"`secrets: exposed`, and it trains with {listed(others)}, whose host keys are not known at its "
            "first boot"
        )
        remedy = "write `secrets: exposed` for all that train together, or for none"
        findings.refuse_vm(Code.GUEST_SECRETS_MIXED, resolved.desired, message, remedy)


def _has_way_in(resolved: ResolvedVm, spec: GuestSpec) -> bool:
    """Whether ssh or guest operations may reach a guest; whether its network is reached is not known here."""
    if spec.login.user and spec.login.password is not None:
        return True
    base = resolved.base
    return bool(spec.addresses or resolved.desired.nics or base.nics or base.passthrough_nics)
