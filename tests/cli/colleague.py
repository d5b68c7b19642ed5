"""Somebody else at the lab's vCenter, with the vSphere Client or govc: what they do is nobody's plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyVmomi import vim

from tests.unit.lab.wire.client import connect
from vgpu_cfg.lab.state.inventory import Cluster, Host, VirtualMachine
from vgpu_cfg.lab.vcenter import Lab

NAME = "Colleague@VSPHERE.LOCAL"


class Colleague:
    """A session of its own."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._client = connect(lab, login=False)
        self._client.content.sessionManager.Login("colleague@vsphere.local", "lab")

    def does(self, name: str, method: str, *arguments: Any) -> None:
        """Run a task on a VM, and see that it went well."""
        task = getattr(self._vm(name), method)(*arguments)
        self._lab.run_until_idle()
        assert task.info.state == "success", task.info.error

    def reconfigures(self, name: str, change: Callable[[Any], Any]) -> None:
        """Reconfigure a VM by a spec that is made of what it shows."""
        self.does(name, "ReconfigVM_Task", change(self._vm(name)))

    def takes_down(self, name: str) -> None:
        """Take a host into maintenance mode."""
        moid = next(host.moid for host in self._lab.state.all(Host) if host.name == name)
        task = vim.HostSystem(moid, self._client._stub).EnterMaintenanceMode_Task(0)
        self._lab.run_until_idle()
        assert task.info.state == "success", task.info.error

    def sets_attribute(self, name: str, attribute: str, value: str) -> None:
        """Set a custom attribute of a VM."""
        self._vm(name).setCustomValue(attribute, value)

    def overrides(self, cluster: str, name: str, *, drs: str, restart: str) -> None:
        """Set what a cluster does with a VM."""
        moid = next(one.moid for one in self._lab.state.all(Cluster) if one.name == cluster)
        kinds = vim.cluster
        drs_info = kinds.DrsVmConfigInfo(key=self._vm(name), enabled=True, behavior=drs)
        das_info = kinds.DasVmConfigInfo(
            key=self._vm(name), dasSettings=kinds.DasVmSettings(restartPriority=restart)
        )
        spec = kinds.ConfigSpecEx(
            drsVmConfigSpec=[kinds.DrsVmConfigSpec(operation="edit", info=drs_info)],
            dasVmConfigSpec=[kinds.DasVmConfigSpec(operation="edit", info=das_info)],
        )
        vim.ClusterComputeResource(moid, self._client._stub).ReconfigureComputeResource_Task(spec, True)
        self._lab.run_until_idle()

    def _vm(self, name: str) -> Any:
        moid = next(vm.moid for vm in self._lab.state.all(VirtualMachine) if vm.name == name)
        return vim.VirtualMachine(moid, self._client._stub)
