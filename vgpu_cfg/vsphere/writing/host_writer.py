"""Turn a change to a host, a cluster's options or vCenter's into a call. Readers do not hold one.

set_host_attribute    2 round trips, 3 where the attribute has to be defined
remember              1, and 1 per attribute, 2 where it has to be defined
raise_alarm           2, 3 where an alarm of that name exists
clear_alarm           3, 1 where there is none
maintenance, power    1
write_host            2; 3 for options that are numbers, for a module, and to make a VMkernel NIC on a
                      distributed portgroup
control_service       2
set_cluster_option    2
set_vcenter_option    2
draft_image           3, 1 for each draft of the account more, and 1 to delete one
other calls of images 1
change_network        1 to make something, 2 to change it
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, assert_never

from pyVmomi import vim

from vgpu_cfg.changes.change import ChangeNetwork, SetClusterOption, SetImage, SetVCenterOption
from vgpu_cfg.changes.kinds.change_host import (
    EsxcliWrite,
    GraphicsWrite,
    HostWrite,
    LicenceWrite,
    ModuleWrite,
    OptionWrite,
    PassthroughWrite,
    RulesetWrite,
    ShellWrite,
    SwitchWrite,
    VmknicWrite,
)
from vgpu_cfg.errors import NotFound, StalePlan, VCenterError
from vgpu_cfg.model.observed.host_facts import HostAttribute
from vgpu_cfg.ports import ImageAction, TaskUpdate
from vgpu_cfg.vsphere.wire.collector import Paths, Start, collect_from
from vgpu_cfg.vsphere.wire.esxcli import Esxcli
from vgpu_cfg.vsphere.wire.faults import not_offered, offered, translated
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.writing import attributes, images, network_writer
from vgpu_cfg.vsphere.writing.alarms import clear_alarm, raise_alarm
from vgpu_cfg.vsphere.writing.host_managers import (
    as_type_of,
    graphics_config,
    option_values,
    passthrough_configs,
    read_managers,
)

VGPU_MODE_SINCE = "8.0.3.0"
HARDWARE_LABEL_SINCE = "7.0.2.0"
EVACUATES_POWERED_OFF = False
VSAN_ACTIONS: Mapping[str, str] = {
    "ensureAccessibility": "ensureObjectAccessibility",
    "noAction": "noAction",
    "evacuateAllData": "evacuateAllData",
}
"""Words of the plan file, if the first is short as in the vSphere Client → those of the API (vim
`VsanHostDecommissionModeObjectAction`).
"""

_CLUSTER = (Paths("vim.ClusterComputeResource", ("configurationEx",)),)
_LICENCES = (Paths("vim.LicenseManager", ("licenseAssignmentManager",)),)


class VCenterHostWriter:
    """A HostWriter on a session. Methods that return a text started that task; the others are done."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def set_host_attribute(self, host_moid: str, attribute: HostAttribute, text: str | None) -> None:
        """Keep a text on the host as a custom attribute, or clear it; the attribute is made if need be."""
        attributes.set_host_attribute(self._session, host_moid, attribute, text)

    def remember(self, host_moid: str, texts: Mapping[str, str]) -> None:
        """Keep the values read through a host's shell as custom attributes; an empty text clears one."""
        attributes.set_host_attributes(self._session, host_moid, texts)

    def raise_alarm(self, host_moid: str, plan: str, reason: str) -> None:
        """Make this plan's alarm on the host; one that is there gets this reason."""
        raise_alarm(self._session, host_moid, plan, reason)

    def clear_alarm(self, host_moid: str, plan: str) -> None:
        """Remove this plan's alarm from the host, if it is there."""
        clear_alarm(self._session, host_moid, plan)

    def enter_maintenance(self, host_moid: str, vsan: str | None, timeout_seconds: int) -> str:
        """Enter maintenance mode; DRS moves running VMs, powered-off ones stay.

        `vsan` is a word of the plan file, a key of `VSAN_ACTIONS`; without one vSAN takes its default.
        """
        spec = None
        if vsan is not None:
            mode = vim.vsan.host.DecommissionMode(objectAction=VSAN_ACTIONS[vsan])
            spec = vim.host.MaintenanceSpec(vsanMode=mode)
        with translated("entering maintenance mode", host_moid):
            host = self._host(host_moid)
            return _moid(host.EnterMaintenanceMode_Task(timeout_seconds, EVACUATES_POWERED_OFF, spec))

    def exit_maintenance(self, host_moid: str, timeout_seconds: int) -> str:
        """Leave maintenance mode."""
        with translated("exiting maintenance mode", host_moid):
            return _moid(self._host(host_moid).ExitMaintenanceMode_Task(timeout_seconds))

    def reboot_host(self, host_moid: str) -> str:
        """Reboot a host in maintenance mode; any other refuses, since nothing is forced."""
        with translated("rebooting the host", host_moid):
            return _moid(self._host(host_moid).RebootHost_Task(False))

    def shut_down_host(self, host_moid: str) -> str:
        """Shut a host in maintenance mode down; any other refuses, since nothing is forced."""
        with translated("shutting down the host", host_moid):
            return _moid(self._host(host_moid).ShutdownHost_Task(False))

    def write_host(self, host_moid: str, write: HostWrite, secrets: Mapping[str, str]) -> str | None:
        """Carry out a write that goes through vCenter. None of them starts a task: all return None.

        Raises NotOffered, VersionTooOld where a field would be dropped on its way, NotFound for a device
        that is not there, StalePlan where a whole would be replaced that is another by now. A ShellWrite
        is none of these: ValueError.
        """
        match write:
            case GraphicsWrite():
                self._write_graphics(host_moid, write)
            case PassthroughWrite():
                self._write_passthrough(host_moid, write)
            case OptionWrite():
                self._write_options(host_moid, write)
            case ModuleWrite():
                self._write_module(host_moid, write)
            case EsxcliWrite():
                Esxcli(self._session, host_moid).call(write.command, write.arguments)
            case RulesetWrite():
                self._write_ruleset(host_moid, write)
            case VmknicWrite():
                network_writer.write_vmknic(self._session, host_moid, write)
            case SwitchWrite():
                network_writer.write_switch(self._session, host_moid, write)
            case LicenceWrite():
                self._write_licence(host_moid, write, secrets)
            case ShellWrite():
                raise ValueError("changes in the host's shell are not made through vCenter")
            case _:
                assert_never(write)
        return None

    def control_service(
        self, host_moid: str, service: str, action: Literal["start", "stop", "restart"]
    ) -> None:
        """Start, stop or restart a service of the host; NotOffered where the host has none of that key."""
        host = read_managers(self._session, host_moid, "serviceSystem")
        services = host.manager("serviceSystem")
        with offered(f"{action} of the {service} service", host.name, vim.fault.NotFound):
            match action:
                case "start":
                    services.StartService(service)
                case "stop":
                    services.StopService(service)
                case "restart":
                    services.RestartService(service)
                case _:
                    assert_never(action)

    def set_cluster_option(self, change: SetClusterOption) -> str:
        """Set or remove one option of a cluster's DRS; all the others are sent along.

        Clients that send changed options alone keep the others (community.vmware, vmware_cluster_drs),
        and nothing says so: sending all of them is right either way. To remove one it is sent with an
        empty value, as extraConfig takes it; that this removes it from a cluster is unproven.
        """
        moid, option = change.cluster_moid, change.option
        found = collect_from(self._session, _CLUSTER, [Start("vim.ClusterComputeResource", moid)])
        if not found:
            raise NotFound(
                "the cluster no longer exists", subject=moid, remedy="plan again; the inventory has changed"
            )
        drs = getattr(found[0].get("configurationEx"), "drsConfig", None)
        options = {entry.key: entry.value for entry in getattr(drs, "option", None) or ()}
        options[option] = change.value or ""
        spec = vim.cluster.ConfigSpecEx(
            drsConfig=vim.cluster.DrsConfigInfo(option=option_values(options, {}))
        )
        cluster = vim.ClusterComputeResource(moid, self._session.stub)
        with translated(f"setting the DRS option {option}", moid):
            return _moid(cluster.ReconfigureComputeResource_Task(spec, True))

    def set_vcenter_option(self, change: SetVCenterOption) -> None:
        """Set one advanced setting of vCenter, in the type that it has there."""
        manager, what = self._session.service_content.setting, f"setting {change.option}"
        if manager is None:
            raise not_offered("this vCenter has no advanced settings", self._session.address)
        address = self._session.address
        with translated(what, address):
            try:
                current = {entry.key: entry.value for entry in manager.QueryOptions(change.option) or ()}
            except vim.fault.InvalidName:
                # It may be one that has never been set: vCenter decides when it is.
                current = {}
        value = as_type_of(change.value, current.get(change.option))
        with offered(what, address, vim.fault.InvalidName):
            manager.UpdateOptions([vim.option.OptionValue(key=change.option, value=value)])

    def draft_image(self, change: SetImage) -> str:
        """Make a draft of a cluster's image with the change's components, and return its id."""
        return images.draft_image(self._session, change)

    def drop_draft(self, cluster_moid: str, draft: str) -> None:
        """Delete a draft."""
        images.drop_draft(self._session, cluster_moid, draft)

    def begin_image_task(self, cluster_moid: str, action: ImageAction, body: Mapping[str, object]) -> str:
        """Begin a task of Lifecycle Manager, and return its id."""
        return images.begin_image_task(self._session, cluster_moid, action, body)

    def read_image_task(self, task: str) -> TaskUpdate:
        """Return what became of a task."""
        return images.read_image_task(self._session, task)

    def running_image_tasks(self, cluster_moid: str) -> tuple[str, ...]:
        """Return Lifecycle Manager's running tasks of a cluster."""
        return images.running_image_tasks(self._session, cluster_moid)

    def change_network(self, change: ChangeNetwork) -> str:
        """Make or change a distributed switch or portgroup."""
        return network_writer.change_network(self._session, change)

    def _write_graphics(self, host_moid: str, write: GraphicsWrite) -> None:
        host = read_managers(self._session, host_moid, "graphicsManager", "config.graphicsConfig")
        if write.vgpu_modes:
            host.require_api(VGPU_MODE_SINCE, "a GPU's vGPU mode")
        current = host.require("config.graphicsConfig", "graphics configuration")
        with translated("changing the graphics configuration", host.name):
            host.manager("graphicsManager").UpdateGraphicsConfig(graphics_config(current, write))

    def _write_passthrough(self, host_moid: str, write: PassthroughWrite) -> None:
        host = read_managers(self._session, host_moid, "pciPassthruSystem", "config.pciPassthruInfo")
        if any(device.label is not None for device in write.devices):
            host.require_api(HARDWARE_LABEL_SINCE, "a hardware label")
        infos = host.require("config.pciPassthruInfo", "PCI functions")
        configs = passthrough_configs(infos, write, host.name)
        with translated("changing passthrough", host.name):
            host.manager("pciPassthruSystem").UpdatePassthruConfig(configs)

    def _write_options(self, host_moid: str, write: OptionWrite) -> None:
        host = read_managers(self._session, host_moid, "advancedOption")
        manager = host.manager("advancedOption")
        numbers = [
            key
            for key, value in write.options.items()
            if isinstance(value, int) and not isinstance(value, bool)
        ]
        with offered(f"setting {', '.join(write.options)}", host.name, vim.fault.InvalidName):
            # Only a number's type cannot be told from the value: the option's own is asked for.
            requested = numbers[0] if len(numbers) == 1 else None
            current = manager.QueryOptions(requested) if numbers else ()
            types = {entry.key: entry.value for entry in current or ()}
            manager.UpdateOptions(option_values(write.options, types))

    def _write_module(self, host_moid: str, write: ModuleWrite) -> None:
        host = read_managers(self._session, host_moid, "kernelModuleSystem")
        modules = host.manager("kernelModuleSystem")
        with offered(f"setting the options of module {write.module}", host.name, vim.fault.NotFound):
            found = modules.QueryConfiguredModuleOptionString(write.module) or ""
            # What is set already is written again: it costs nothing, and a killed run may have been there.
            if not _is_one_of(found, write.before, write.options):
                raise StalePlan(
                    f"the options for module {write.module} are now {found!r}, but were {write.before!r} "
                    "when planned",
                    subject=host.name,
                    remedy="run the same command again to plan from the current state",
                )
            modules.UpdateModuleOptionString(write.module, write.options)

    def _write_ruleset(self, host_moid: str, write: RulesetWrite) -> None:
        host = read_managers(self._session, host_moid, "firewallSystem")
        firewall = host.manager("firewallSystem")
        verb = "opening" if write.is_enabled else "closing"
        with offered(f"{verb} the ruleset {write.ruleset}", host.name, vim.fault.NotFound):
            if write.is_enabled:
                firewall.EnableRuleset(write.ruleset)
            else:
                firewall.DisableRuleset(write.ruleset)

    def _write_licence(self, host_moid: str, write: LicenceWrite, secrets: Mapping[str, str]) -> None:
        """Assign the licence. Its key is in no message: not in this project's, not in vCenter's."""
        key = secrets.get(write.secret)
        if not key:
            raise VCenterError(
                f"the secret {write.secret} does not contain a license key",
                subject=host_moid,
                remedy=f"set a value for {write.secret} in the plan file's `secrets`",
            )
        licences = str(self._session.service_content.licenseManager._moId)
        found = collect_from(self._session, _LICENCES, [Start("vim.LicenseManager", licences)])
        moid = found[0].moid_of("licenseAssignmentManager") if found else None
        if moid is None:
            raise not_offered("this vCenter does not support assigning licenses", host_moid)
        manager = vim.LicenseAssignmentManager(moid, self._session.stub)
        try:
            with translated(f"assigning the license from secret {write.secret}", host_moid):
                manager.UpdateAssignedLicense(host_moid, key, None)
        except VCenterError as error:
            raise type(error)(
                error.message.replace(key, "***"), subject=error.subject, remedy=error.remedy
            ) from None

    def _host(self, moid: str) -> Any:
        return vim.HostSystem(moid, self._session.stub)


def _is_one_of(found: str, *strings: str) -> bool:
    """Whether an option string is one of these, but for blanks."""
    return found.split() in [one.split() for one in strings]


def _moid(task: Any) -> str:
    return str(task._moId)
