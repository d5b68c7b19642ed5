"""Every module whose methods the wire answers: importing this one fills the registry."""

from __future__ import annotations

from vgpu_cfg.lab.collector import retrieve, updates, views
from vgpu_cfg.lab.managers import (
    authorization,
    browser,
    config_options,
    custom_fields,
    host_reads,
    search,
    sessions,
)

MODULES = (
    authorization,
    browser,
    config_options,
    custom_fields,
    host_reads,
    retrieve,
    search,
    sessions,
    updates,
    views,
)
