"""Every module whose methods the wire answers: importing this one fills the registry."""

from __future__ import annotations

from vgpu_cfg.lab import collector
from vgpu_cfg.lab.managers import (
    alarms,
    authorization,
    browser,
    customization_specs,
    executer,
    guest_operations,
    host_reads,
    key_providers,
    licences,
    options,
    performance,
    search,
    storage_policies,
    task_history,
)
from vgpu_cfg.lab.operations import cluster, files, pools, registration, switches
from vgpu_cfg.lab.operations.hosts import devices as host_devices
from vgpu_cfg.lab.operations.hosts import network as host_network
from vgpu_cfg.lab.operations.hosts import power as host_power
from vgpu_cfg.lab.operations.hosts import services as host_services
from vgpu_cfg.lab.operations.vms import clone, create, lifecycle, migrate, power, reconfigure, snapshots

MODULES = (
    *(alarms, authorization, browser, customization_specs, executer, guest_operations, host_reads),
    *(key_providers, licences, options, performance, search, storage_policies, task_history, collector),
    *(cluster, files, pools, registration, switches, host_devices, host_network, host_power, host_services),
    *(clone, create, lifecycle, migrate, power, reconfigure, snapshots),
)
