"""The kernel modules of a host: their option strings are replaced whole, and hold from the next boot on."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.operations import operation
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host_parts import KernelModule
from vgpu_cfg.lab.state.inventory import Host


@operation("HostKernelModuleSystem", "QueryModules")
def query_modules(lab: Simulation, host: Host) -> list[Any]:
    """List the modules; `optionString` is what each was loaded with. Sizes and addresses are made up."""
    section: Any = vim.host.KernelModuleSystem.ModuleInfo.SectionInfo
    return [
        vim.host.KernelModuleSystem.ModuleInfo(
            id=number,
            name=module.name,
            version=module.version,
            filename=module.filename,
            optionString=module.at_boot,
            loaded=module.loaded,
            enabled=True,
            useCount=1,
            readOnlySection=section(address=0, length=0),
            writableSection=section(address=0, length=0),
            textSection=section(address=0, length=0),
            dataSection=section(address=0, length=0),
            bssSection=section(address=0, length=0),
        )
        for number, module in enumerate(host.modules.values(), start=1)
    ]


@operation("HostKernelModuleSystem", "QueryConfiguredModuleOptionString")
def query_configured(lab: Simulation, host: Host, *, name: str) -> str:
    """Tell what a module is configured with. Raises NotFound."""
    return find_module(host, name).configured


@operation("HostKernelModuleSystem", "UpdateModuleOptionString")
def update_options(lab: Simulation, host: Host, *, name: str, options: str) -> None:
    """Replace a module's option string. Raises NotFound."""
    find_module(host, name).configured = options
    lab.state.touch(host)


def find_module(host: Host, name: str) -> KernelModule:
    """Return a module of a host. Raises NotFound."""
    if name not in host.modules:
        raise refusals.not_found()
    return host.modules[name]
