"""Every module whose methods the wire answers: importing this one fills the registry."""

from __future__ import annotations

from vgpu_cfg.lab.collector import read, updates
from vgpu_cfg.lab.managers import (
    alarms,
    authorization,
    browser,
    config_options,
    customization_specs,
    event_history,
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
from vgpu_cfg.lab.operations import cluster, files, pools, portgroups, registration, switches
from vgpu_cfg.lab.operations.hosts import connection as host_connection
from vgpu_cfg.lab.operations.hosts import devices as host_devices
from vgpu_cfg.lab.operations.hosts import graphics as host_graphics
from vgpu_cfg.lab.operations.hosts import network as host_network
from vgpu_cfg.lab.operations.hosts import network as host_standard_switches
from vgpu_cfg.lab.operations.hosts import network as host_vnic_services
from vgpu_cfg.lab.operations.hosts import power as host_power
from vgpu_cfg.lab.operations.hosts import services as host_clock
from vgpu_cfg.lab.operations.hosts import services as host_modules
from vgpu_cfg.lab.operations.hosts import services as host_services
from vgpu_cfg.lab.operations.hosts import services as host_software
from vgpu_cfg.lab.operations.hosts import services as host_upkeep
from vgpu_cfg.lab.operations.vms import clone, create, migrate, power, reconfigure, snapshots
from vgpu_cfg.lab.operations.vms import lifecycle as vm_lifecycle

MODULES = (
    alarms,
    authorization,
    browser,
    clone,
    cluster,
    config_options,
    create,
    options,
    customization_specs,
    clone,
    host_reads,
    event_history,
    executer,
    files,
    registration,
    guest_operations,
    host_clock,
    host_connection,
    host_devices,
    host_graphics,
    host_modules,
    host_network,
    host_power,
    host_reads,
    host_reads,
    host_services,
    host_software,
    host_standard_switches,
    host_upkeep,
    host_vnic_services,
    key_providers,
    licences,
    migrate,
    options,
    performance,
    pools,
    portgroups,
    power,
    reconfigure,
    registration,
    snapshots,
    read,
    search,
    authorization,
    storage_policies,
    host_reads,
    switches,
    task_history,
    updates,
    event_history,
    updates,
    files,
    vm_lifecycle,
)
