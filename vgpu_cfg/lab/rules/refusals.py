"""The faults the lab refuses with, their texts, and those that people reported from real systems.

Texts in quotes are known from NVIDIA's and VMware's documents and from the field. Which
fault type carries which text is documented nowhere: that mapping is recalled, except for
InsufficientGraphicsResourcesFault, whose text is its own.

The rows of `from_the_field.yaml` are reports of people; `known` says which part the source has, the rest is
recalled or assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pydantic import BaseModel, RootModel
from pyVmomi import vim, vmodl

from vgpu_cfg.documents import build, read_document
from vgpu_cfg.lab.state.inventory import Host, VirtualMachine

GRAPHICS_TEXT = (
    "The amount of graphics resource available in the parent resource pool is insufficient for the operation."
)
MEMORY_TEXT = (
    "The amount of memory resource available in the parent resource pool is insufficient for the operation."
)
CPU_TEXT = (
    "The amount of CPU resource available in the parent resource pool is insufficient for the operation."
)
DEVICE_POWER_ON_TEXT = "Module 'DevicePowerOn' power on failed."


def no_graphics(*details: str) -> Exception:
    """Say that no GPU of the host, or of any host, can take the vGPU now."""
    fault = vim.fault.InsufficientGraphicsResourcesFault(msg=GRAPHICS_TEXT)
    fault.faultMessage = [_message("msg.vgpu.noDevice", text) for text in details]
    return fault


def no_gpu_for(profile: str) -> str:
    """Return the host's own words for a vGPU that found no GPU."""
    return f"No graphics device is available for vGPU '{profile}'."


def plugin_failed(profile: str) -> Exception:
    """Say that the host's vGPU manager does not start this vGPU."""
    return power_on_failed(f"Could not initialize plugin 'libnvidia-vgx.so' for vGPU '{profile}'.")


def memory_not_reserved(memory_mib: int) -> Exception:
    """Say that a VM with passthrough or vGPU has not reserved all its memory."""
    return power_on_failed(
        "Invalid memory setting: memory reservation (sched.mem.min) "
        f"should be equal to memsize({memory_mib})."
    )


def cpu_not_reserved(needed_mhz: int) -> Exception:
    """Say that a VM of high latency sensitivity has not reserved its CPUs in full."""
    return power_on_failed(
        "Invalid CPU reservation for the latency-sensitive VM, (sched.cpu.min) should be at least "
        f"{needed_mhz} MHz. "
    )


def device_power_on_failed() -> Exception:
    """Say nothing: the reason is in vmware.log."""
    return power_on_failed(DEVICE_POWER_ON_TEXT)


def not_a_passthrough_device(bus: int, slot: int, function: int) -> Exception:
    """Say that a fixed device is not handed through by the host."""
    return power_on_failed(
        f"Failed to start the virtual machine. Device {bus}:{slot}.{function} is not a passthrough device."
    )


def wrong_system_id(bus: int, slot: int, function: int) -> Exception:
    """Say that a fixed device was configured for another host, or for another device."""
    return power_on_failed(
        "The systemId does not match the current system or the deviceId, and the vendorId does not match "
        f"the device currently at {bus}:{slot}.{function}."
    )


def power_on_failed(reason: str) -> Exception:
    """End a power-on with the host's own text."""
    fault = vim.fault.GenericVmConfigFault(reason=reason, msg=reason)
    fault.faultMessage = [_message("msg.vmx.poweron.failed", reason)]
    return fault


def no_memory(available_mib: int, requested_mib: int) -> Exception:
    """Say that the host cannot reserve the VM's memory."""
    return vim.fault.InsufficientMemoryResourcesFault(
        msg=MEMORY_TEXT, unreserved=available_mib * 2**20, requested=requested_mib * 2**20
    )


def no_cpu(available_mhz: int, requested_mhz: int) -> Exception:
    """Say that the host cannot reserve the VM's CPU; the fault's numbers are in MHz."""
    return vim.fault.InsufficientCpuResourcesFault(
        msg=CPU_TEXT, unreserved=available_mhz, requested=requested_mhz
    )


def no_key_provider() -> Exception:
    """Say that vCenter has no key for a VM's files. Type and text are recalled, not read anywhere."""
    return vmodl.RuntimeFault(msg="A general runtime error occurred. There is no default key provider.")


def check_off(vm: VirtualMachine) -> None:
    """Raise InvalidPowerState for a VM that is on."""
    if vm.is_on:
        raise wrong_power_state(vm, "poweredOff")


def wrong_power_state(vm: VirtualMachine, wanted: str | None) -> Exception:
    """Say that the operation wants another power state."""
    shown = {"poweredOn": "Powered on", "poweredOff": "Powered off", "suspended": "Suspended"}[vm.power_state]
    return vim.fault.InvalidPowerState(
        requestedState=wanted,
        existingState=vm.power_state,
        msg=f"The attempted operation cannot be performed in the current state ({shown}).",
    )


def no_permission(entity: Any, privilege: str) -> Any:
    """Return the refusal for a missing privilege on an entity (a reference)."""
    return vim.fault.NoPermission(
        object=entity, privilegeId=privilege, msg="Permission to perform this operation was denied."
    )


def object_gone(reference: Any) -> Exception:
    """Return the fault for a reference that leads nowhere, in vCenter's words."""
    name = f"{reference._wsdlName}:{reference._moId}"
    fault: Exception = vmodl.fault.ManagedObjectNotFound(
        obj=reference,
        msg=f"The object 'vim.{name}' has already been deleted or has not been completely created",
    )
    return fault


def host_away(host: Host) -> Exception | None:
    """Return why nothing can be asked of a host; None where it answers."""
    if host.connection == "connected":
        return None
    return vmodl.fault.HostNotConnected(
        msg="Unable to communicate with the remote host, since it is disconnected."
    )


def check_host_answers(host: Host) -> None:
    """Raise HostNotConnected if nothing can be asked of a host."""
    away = host_away(host)
    if away is not None:
        raise away


def not_supported() -> Exception:
    """Refuse an operation on an object that never has it."""
    return vmodl.fault.NotSupported(msg="The operation is not supported on the object.")


def wrong_state(whose: str = "") -> Exception:
    """Refuse an operation on an object that does not have it now."""
    return vim.fault.InvalidState(msg=f"The operation is not allowed in the current state{whose}.")


def host_unusable(host: Host) -> Exception | None:
    """Return why no VM can be powered on on a host; None where one can."""
    if host.connection == "notResponding":
        return vmodl.fault.HostNotReachable(
            msg="Unable to communicate with the remote host, since it is disconnected."
        )
    if host.connection != "connected":
        return vmodl.fault.HostNotConnected(
            msg="Unable to communicate with the remote host, since it is disconnected."
        )
    if not host.is_usable:
        return wrong_state(" of the host")
    return None


def too_new(host: Host) -> Exception:
    """Say that the VM's hardware version is newer than the host runs."""
    return vim.fault.VirtualHardwareVersionNotSupported(
        hostName=host.name,
        host=vim.HostSystem(host.moid),
        msg=f"The host '{host.name}' does not support the virtual hardware version of the virtual machine.",
    )


def too_many_devices(index: int) -> Exception:
    """Say that the hardware version takes no further device of this kind."""
    return vim.fault.TooManyDevices(
        property=f"virtualDeviceSpec[{index}]", msg="The virtual machine has too many devices of this kind."
    )


def bad_device(index: int) -> Exception:
    """Refuse a device spec that makes no sense."""
    return vim.fault.InvalidDeviceSpec(
        property=f"virtualDeviceSpec[{index}]",
        deviceIndex=index,
        msg=f"Invalid configuration for device '{index}'.",
    )


def bad_backing(index: int) -> Exception:
    """Refuse a device spec whose backing is nothing that the host has."""
    return vim.fault.InvalidDeviceBacking(
        property=f"virtualDeviceSpec[{index}].device.backing",
        deviceIndex=index,
        msg=f"Invalid configuration for device '{index}'.",
    )


def bad_config(path: str) -> Exception:
    """Refuse a setting that cannot be."""
    return vim.fault.InvalidVmConfig(property=path, msg="Invalid configuration.")


def bad_argument(path: str) -> Exception:
    """Refuse a parameter of the call that is wrong or missing."""
    return vmodl.fault.InvalidArgument(
        invalidProperty=path, msg=f"A specified parameter was not correct: {path}"
    )


def not_found() -> Exception:
    """Return the fault for a missing object that a call names by a key or a name of its own."""
    return vim.fault.NotFound(msg="The object or item referred to could not be found.")


def already_exists(name: str) -> Exception:
    """Return the fault for an existing object that a call would make by a key or a name of its own."""
    return vim.fault.AlreadyExists(name=name, msg="The specified key, name, or identifier already exists.")


def duplicate_name(name: str, thing: Any) -> Exception:
    """Say that the folder has something of that name."""
    return vim.fault.DuplicateName(name=name, object=thing, msg=f"The name '{name}' already exists.")


def changed_meanwhile() -> Exception:
    """Say that the change version of the request is not the VM's."""
    return vim.fault.ConcurrentAccess(
        msg="The operation cannot complete because the object has been changed by another operation."
    )


def _message(key: str, text: str) -> Any:
    return vmodl.LocalizableMessage(key=key, message=text)


def no_assignable_device(device: Any) -> Exception:
    """No free function of the host matches a dynamic device."""
    label = device.deviceInfo.label if device.deviceInfo is not None else f"device {device.key}"
    return vim.fault.DeviceBackingNotSupported(
        device=label,
        backing="VirtualPCIPassthroughDynamicBackingInfo",
        msg=f"Device '{label}' uses backing '{device.backing.customLabel or ''}', which is not supported.",
    )


def rule_violated(host: Host, rule: Any, name: str) -> Exception:
    """Say that a DRS rule which must hold forbids the host."""
    return vim.fault.RuleViolation(
        host=vim.HostSystem(host.moid),
        rule=rule,
        msg=f"Virtual machine on host '{host.name}' would violate a virtual machine - virtual machine "
        f"affinity rule '{name}'.",
    )


def no_host(refused: list[tuple[Host, Exception]]) -> Exception:
    """No host of the cluster accepts the VM. If all give the same reason, that is vCenter's."""
    kinds = {type(fault) for _, fault in refused}
    if len(kinds) == 1:
        return refused[0][1]
    return vim.fault.NoCompatibleHost(
        host=[vim.HostSystem(host.moid) for host, _ in refused],
        error=[fault for _, fault in refused],
        msg="No host is compatible with the virtual machine.",
    )


def no_hot_migration() -> Exception:
    """Say that vCenter lets no vGPU move as it runs."""
    return vim.fault.MigrationDisabled(
        msg="Migration was temporarily disabled due to another migration activity. "
        "vGPU hot migration is not enabled."
    )


def migration_feature(host: Host, *, is_source: bool) -> Exception:
    """Say that a VM has something, or a host lacks something, so that it cannot move as it runs."""
    end = "Source" if is_source else "Destination"
    return vim.fault.MigrationFeatureNotSupported(
        atSourceHost=is_source,
        failedHostName=host.name,
        failedHost=vim.HostSystem(host.moid),
        msg=f"A required migration feature is not supported on the \"{end}\" host '{host.name}'.",
    )


def no_network(nic: Any, network: Any) -> Exception:
    """Say that a host lacks the network of a VM's NIC."""
    label = nic.deviceInfo.label if nic.deviceInfo is not None else f"device {nic.key}"
    return vim.fault.CannotAccessNetwork(
        device=label,
        backing=nic.deviceInfo.summary if nic.deviceInfo is not None else "",
        connected=bool(nic.connectable is not None and nic.connectable.connected),
        network=network,
        msg=f"The network of '{label}' is not accessible.",
    )


class Reported(BaseModel):
    """A row of `from_the_field.yaml`; `when` completes a sentence that begins with "Rejected"."""

    when: str
    fault: str
    text: str
    known: Literal["text", "fault", "both", "rule"]
    source: str


class _Table(RootModel[dict[str, Reported]]):
    pass


@cache
def reported() -> Mapping[str, Reported]:
    """Return the rows by name."""
    return MappingProxyType(
        build(read_document(Path(__file__).with_name("from_the_field.yaml")), _Table).root
    )


def text_of(row: str, /, **values: object) -> str:
    """Return the text of a row with its values."""
    return reported()[row].text.format(**values)


def refuse(row: str, /, **values: Any) -> Exception:
    """Return the fault of a row; values that its type has as fields are set."""
    text, fault = text_of(row, **values), reported()[row].fault
    if fault == "GenericVmConfigFault":
        return power_on_failed(text)
    kind: Any = getattr(vim.fault, fault, None) or getattr(vmodl.fault, fault)
    fields = {info.name for info in kind._GetPropertyList()}
    made: Exception = kind(msg=text, **{key: value for key, value in values.items() if key in fields})
    return made
