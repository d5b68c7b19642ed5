"""What the settings of a request make of a VM that is only remembered: the fields of its detail."""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.model.observed.vm import SettingValue, VmDetail

_FIELDS = {
    "hardware_version": "hardware_version",
    "firmware": "firmware",
    "cpus": "cpus",
    "cores_per_socket": "cores_per_socket",
    "memory": "memory_mib",
    "cores_per_numa_node": "cores_per_numa_node",
}


def with_settings(detail: VmDetail, settings: Mapping[str, SettingValue]) -> VmDetail:
    """Return the detail of a VM that was given these settings; those without a field stand in its options."""
    update: dict[str, object] = {field: settings[key] for key, field in _FIELDS.items() if key in settings}
    rest = {
        key: value for key, value in settings.items() if key not in _FIELDS and key != "memory_reservation"
    }
    if "memory_reservation" in settings:
        update["memory_reservation_locked"] = bool(settings["memory_reservation"])
        update["memory_reservation_mib"] = settings["memory_reservation"]
    return detail.model_copy(update={**update, "options": {**detail.options, **rest}})
