"""Customisation specifications as an estate file states them, and as vCenter keeps them."""

from __future__ import annotations

from ipaddress import ip_interface
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.estates import estate as file
from vgpu_cfg.lab.rules.customization import OWN_KEY
from vgpu_cfg.lab.simulation.clock import VMS_RUN_SINCE, as_datetime

_Customization: Any = vim.vm.customization
_ANOTHER_KEY = list(b"another vCenter's public key")


def make_customization_spec(part: file.CustomizationSpecPart) -> Any:
    """Return the vim `CustomizationSpecItem` of a part of an estate."""
    is_linux = part.type == "Linux"
    settings = _Customization.GlobalIPSettings(dnsServerList=list(part.dns))
    spec = _Customization.Specification(
        options=_Customization.LinuxOptions() if is_linux else _Customization.WinOptions(),
        identity=_linux(part) if is_linux else _windows(part),
        globalIPSettings=settings,
        nicSettingMap=[_Customization.AdapterMapping(adapter=_adapter(text)) for text in part.nics],
        encryptionKey=_ANOTHER_KEY if part.password == "foreign" else OWN_KEY,  # noqa: S105 - no password
    )
    info = vim.CustomizationSpecInfo(
        name=part.name,
        description=part.description,
        type=part.type,
        changeVersion="1",
        lastUpdateTime=as_datetime(VMS_RUN_SINCE),
    )
    return vim.CustomizationSpecItem(info=info, spec=spec)


def _linux(part: file.CustomizationSpecPart) -> Any:
    return _Customization.LinuxPrep(hostName=_name(part.hostname), domain=part.domain, hwClockUTC=True)


def _windows(part: file.CustomizationSpecPart) -> Any:
    password = _Customization.Password(value="3Gs", plainText=False) if part.password else None
    user = _Customization.UserData(
        fullName="lab", orgName="lab", computerName=_name(part.hostname), productId=""
    )
    return _Customization.Sysprep(
        guiUnattended=_Customization.GuiUnattended(
            password=password, timeZone=85, autoLogon=False, autoLogonCount=0
        ),
        userData=user,
        identification=_Customization.Identification(joinWorkgroup="WORKGROUP"),
    )


def _name(text: str) -> Any:
    match text:
        case "vm":
            return _Customization.VirtualMachineNameGenerator()
        case "ask":
            return _Customization.UnknownNameGenerator()
        case _:
            return _Customization.FixedName(name=text)


def _adapter(text: str) -> Any:
    match text:
        case "dhcp":
            return _Customization.IPSettings(ip=_Customization.DhcpIpGenerator())
        case "ask":
            return _Customization.IPSettings(ip=_Customization.UnknownIpGenerator())
        case _:
            address = ip_interface(text)
            return _Customization.IPSettings(
                ip=_Customization.FixedIp(ipAddress=str(address.ip)), subnetMask=str(address.netmask)
            )
