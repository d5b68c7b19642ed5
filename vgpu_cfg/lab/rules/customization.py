"""The customizations that vCenter refuses: NICs that do not match, passwords of another key, one that waits.

Fault types are those of vim `CustomizationFault`. The faults for an unknown name or address, and for a
specification of another system, are assumed. How names are made is of the types' descriptions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.rules.refusals import refuse
from vgpu_cfg.lab.state.devices import nics_of
from vgpu_cfg.lab.state.vm import VirtualMachine

OWN_KEY = list(b"the lab's public key")
"""The value of `CustomizationSpecManager.encryptionKey`, byte by byte: passwords for it can be decrypted."""
PENDING_KEY = "tools.deployPkg.fileName"
"""The extraConfig key that names the package of a customisation that waits (VM Operator reads it)."""
LINUX_MAY_HAVE, WINDOWS_MAY_HAVE = 63, 15
"""The longest label of a host name, and the longest computer name."""

_Customization: Any = vim.vm.customization


def check_customization(vm: VirtualMachine, spec: Any) -> None:
    """Refuse a specification that the VM, with the devices that it has, cannot be customised by."""
    if vm.customization is not None:
        raise vim.fault.CustomizationPending(msg="A customization operation is already pending.")
    if not vm.tools_installed:
        raise refuse("customization-without-tools", uncustomizableGuestOS=vm.guest_id)
    nics, settings = len(nics_of(vm.devices)), len(spec.nicSettingMap or ())
    if nics != settings:
        raise vim.fault.NicSettingMismatch(
            numberOfNicsInSpec=settings,
            numberOfNicsInVM=nics,
            msg=f"The number of network adapters in the specification ({settings}) and in the virtual "
            f"machine ({nics}) do not match.",
        )
    is_windows = isinstance(spec.identity, (_Customization.Sysprep, _Customization.SysprepText))
    if is_windows != vm.guest_id.lower().startswith("win"):
        raise vim.fault.UncustomizableGuest(
            uncustomizableGuestOS=vm.guest_id,
            msg=f"Customization of the guest operating system '{vm.guest_id}' is not supported in this "
            "configuration.",
        )
    is_encrypted = any(not password.plainText for password in _passwords(spec.identity))
    if is_encrypted and list(spec.encryptionKey or ()) != OWN_KEY:
        raise vim.fault.CannotDecryptPasswords(
            msg="Cannot decrypt passwords stored in the customization specification."
        )
    _check_generators(spec)


def name_of_host(vm: VirtualMachine, spec: Any) -> str:
    """Return the host name that a specification gives a VM, "" where it says none."""
    generator = _name_generator(spec.identity)
    match generator:
        case _Customization.FixedName():
            return str(generator.name)
        case _Customization.VirtualMachineNameGenerator():
            return vm.name
        case _Customization.PrefixNameGenerator():
            return f"{generator.base}-{vm.moid.rsplit('-', 1)[1]}"
        case _:
            return ""


def _check_generators(spec: Any) -> None:
    """Refuse values that a client must ask its user for, and names that a guest cannot have."""
    generator = _name_generator(spec.identity)
    if isinstance(generator, _Customization.UnknownNameGenerator):
        raise refusals.bad_argument("spec.identity.hostName")
    longest = WINDOWS_MAY_HAVE if isinstance(spec.identity, _Customization.Sysprep) else LINUX_MAY_HAVE
    if isinstance(generator, _Customization.FixedName) and not 0 < len(generator.name) <= longest:
        raise refusals.bad_argument("spec.identity.hostName.name")
    for index, mapping in enumerate(spec.nicSettingMap or ()):
        ip = mapping.adapter.ip
        if isinstance(ip, _Customization.UnknownIpGenerator):
            raise refusals.bad_argument(f"spec.nicSettingMap[{index}].adapter.ip")
        if isinstance(ip, _Customization.FixedIp) and not mapping.adapter.subnetMask:
            raise refusals.bad_argument(f"spec.nicSettingMap[{index}].adapter.subnetMask")


def _name_generator(identity: Any) -> Any:
    if isinstance(identity, _Customization.Sysprep):
        return identity.userData.computerName
    return getattr(identity, "hostName", None)


def _passwords(identity: Any) -> Iterator[Any]:
    found = [getattr(identity, "password", None)]
    if isinstance(identity, _Customization.Sysprep):
        found += [identity.guiUnattended.password, identity.identification.domainAdminPassword]
    return (password for password in found if password is not None)
