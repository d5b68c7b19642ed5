"""What a cluster sets of HA for all of its VMs: restart priority, what isolation brings, monitoring.

After the vSphere API reference, ClusterDasConfigInfo and ClusterDasVmSettings: a field that is unset changes
nothing. Admission control and the component protection are kept and shown, and judge nothing.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.state.cluster import DISABLED
from vgpu_cfg.lab.state.devices import merged
from vgpu_cfg.lab.state.inventory import Cluster

PRIORITIES = (DISABLED, "lowest", "low", "medium", "high", "highest", "clusterRestartPriority")
"""The words of vim `ClusterDasVmSettingsRestartPriority`."""
MONITORING = ("vmMonitoringDisabled", "vmMonitoringOnly", "vmAndAppMonitoring")
"""Those of vim `ClusterDasConfigInfoVmMonitoringState`."""
_RESPONSES = ("none", "powerOff", "shutdown", "clusterIsolationResponse")
"""Those of vim `ClusterDasVmSettingsIsolationResponse`."""
_STATES = ("enabled", DISABLED)
"""Those of vim `ClusterDasConfigInfoServiceState`."""


def change_availability(cluster: Cluster, sent: Any) -> None:
    """Apply a ClusterDasConfigInfo. Raises InvalidArgument for a word that there is not."""
    path = "spec.dasConfig"
    check_word(sent.hostMonitoring, _STATES, f"{path}.hostMonitoring")
    check_word(sent.vmMonitoring, MONITORING, f"{path}.vmMonitoring")
    if sent.defaultVmSettings is not None:
        check_settings(sent.defaultVmSettings, f"{path}.defaultVmSettings")
    if sent.enabled is not None:
        cluster.ha_enabled = bool(sent.enabled)
    new = merged(cluster.das or vim.cluster.DasConfigInfo(), sent)
    options = {one.key: one for one in (*(cluster.das.option if cluster.das else ()), *(sent.option or ()))}
    new.option = [one for one in options.values() if one.value not in (None, "")]
    cluster.das = new


def check_settings(settings: Any, path: str) -> None:
    """Raise InvalidArgument for a word of a ClusterDasVmSettings that there is not."""
    check_word(settings.restartPriority, PRIORITIES, f"{path}.restartPriority")
    check_word(settings.isolationResponse, _RESPONSES, f"{path}.isolationResponse")
    monitoring = settings.vmToolsMonitoringSettings
    if monitoring is not None:
        check_word(monitoring.vmMonitoring, MONITORING, f"{path}.vmToolsMonitoringSettings.vmMonitoring")


def check_word(word: str | None, words: tuple[str, ...], path: str) -> None:
    """Raise InvalidArgument for a word that is set and none of some."""
    if word and word not in words:
        raise refusals.bad_argument(path)
