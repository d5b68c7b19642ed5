"""Every module whose methods the wire answers: importing this one fills the registry."""

from __future__ import annotations

from vgpu_cfg.lab.collector import retrieve, updates, views
from vgpu_cfg.lab.managers import (
    alarms,
    authorization,
    browser,
    config_options,
    custom_fields,
    event_history,
    executer,
    guest_operations,
    host_profiles,
    host_reads,
    key_providers,
    licences,
    options,
    search,
    sessions,
    task_history,
)

MODULES = (
    alarms,
    authorization,
    browser,
    config_options,
    custom_fields,
    event_history,
    executer,
    guest_operations,
    host_profiles,
    host_reads,
    key_providers,
    licences,
    options,
    retrieve,
    search,
    sessions,
    task_history,
    updates,
    views,
)
