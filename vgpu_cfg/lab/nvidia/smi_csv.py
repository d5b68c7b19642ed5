"""nvidia-smi --query-gpu: the fields that the lab knows, and the forms of `csv`.

A header is the field's name, with its unit in brackets; values carry the unit unless `nounits` is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vgpu_cfg.lab.nvidia.gpus import (
    Reply,
    bus_id,
    mig_words,
    number_of,
    on_or_off,
    say,
    used_mib,
    uuid_of,
    visible,
)
from vgpu_cfg.lab.state.host import POWER_LIMIT_WATTS, Gpu, Host

BAD_ARGUMENT = 2

Read = Callable[[Host, Gpu], str]

FIELDS: dict[str, Read] = {
    "index": lambda host, gpu: str(number_of(host, gpu)),
    "name": lambda _host, gpu: gpu.name,
    "gpu_name": lambda _host, gpu: gpu.name,
    "uuid": uuid_of,
    "gpu_uuid": uuid_of,
    "count": lambda host, _gpu: str(len(visible(host))),
    "driver_version": lambda host, _gpu: host.driver.version if host.driver is not None else "N/A",
    "pci.bus_id": lambda _host, gpu: bus_id(gpu),
    "gpu_bus_id": lambda _host, gpu: bus_id(gpu),
    "pci.device_id": lambda _host, gpu: f"0x{gpu.pci.device_id:04X}{gpu.pci.vendor_id:04X}",
    "mig.mode.current": lambda _host, gpu: mig_words(gpu)[0],
    "mig.mode.pending": lambda _host, gpu: mig_words(gpu)[1],
    "ecc.mode.current": lambda _host, gpu: on_or_off(is_on=gpu.ecc_enabled),
    "ecc.mode.pending": lambda _host, gpu: on_or_off(is_on=gpu.ecc_pending),
    "power.limit": lambda _host, gpu: f"{gpu.power_limit_watts:.2f}",
    "power.default_limit": lambda _host, _gpu: f"{POWER_LIMIT_WATTS:.2f}",
    "memory.total": lambda _host, gpu: str(gpu.memory_mib),
    "memory.used": lambda _host, gpu: str(used_mib(gpu)),
    "memory.free": lambda _host, gpu: str(gpu.memory_mib - used_mib(gpu)),
}

UNITS = {
    "power.limit": "W",
    "power.default_limit": "W",
    **dict.fromkeys(("memory.total", "memory.used", "memory.free"), "MiB"),
}
FORMS = frozenset({"csv", "noheader", "nounits"})


def table(host: Host, gpus: Sequence[Gpu], fields: str, form: str) -> Reply:
    """Return one line per GPU, below a header."""
    names = fields.split(",")
    unknown = next((name for name in names if name not in FIELDS), None)
    if unknown is not None:
        return say(f'Field "{unknown}" is not a valid field to query.', "", status=BAD_ARGUMENT)
    asked = set(form.split(","))
    if "csv" not in asked or not asked <= FORMS:
        return say('"--format=" has to contain "csv".', status=BAD_ARGUMENT)
    units = {} if "nounits" in asked else UNITS
    header = [", ".join(f"{name} [{UNITS[name]}]" if name in UNITS else name for name in names)]
    rows = (
        ", ".join(f"{FIELDS[name](host, gpu)} {units.get(name, '')}".rstrip() for name in names)
        for gpu in gpus
    )
    return say(*([] if "noheader" in asked else header), *rows)
