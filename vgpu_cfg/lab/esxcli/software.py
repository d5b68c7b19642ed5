"""esxcli software vib: the installed packages, and an offline bundle staged for the next boot.

Names of fields and of the result are recorded (govmomi's CommandInfo of a host, and field notes of an
installation); the texts of refusals are recalled. That the host must be in maintenance mode is what
NVIDIA's guide asks for; whether esxcli itself insists on it is unproven.
"""

from __future__ import annotations

import re

from vgpu_cfg.lab.esxcli.answers import (
    Answer,
    Arguments,
    CommandError,
    Record,
    Rows,
    command,
    is_set,
    needed,
)
from vgpu_cfg.lab.rules.from_the_field import text_of
from vgpu_cfg.lab.simulation.clock import VIRTUAL_START, as_datetime
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import Host, Vib

INSTALLED = as_datetime(VIRTUAL_START).date().isoformat()
NEEDS_REBOOT = (
    "The update completed successfully, but the system needs to be rebooted for the changes to be effective."
)
NOTHING = "Host is not changed."
LEVELS = ("VMwareCertified", "VMwareAccepted", "PartnerSupported", "CommunitySupported")
"""Acceptance levels, the strictest first."""
_LEVEL = re.compile("^VMware|Supported$")


@command("software.vib.list")
def list_vibs(lab: Simulation, host: Host, arguments: Arguments) -> Answer:
    """List the packages in force, or with `rebootingimage` those of the next boot, if they differ."""
    vibs = host.software
    if is_set(arguments, "rebootingimage"):
        vibs = {**host.software, **host.staged} if host.staged else {}
    return Rows(
        "VIBSummaryExt",
        tuple(
            {
                "Name": vib.name,
                "Version": vib.version,
                "Vendor": vib.vendor,
                "Acceptance Level": vib.level,
                "Install Date": INSTALLED,
                "Platforms": "host",
            }
            for vib in vibs.values()
        ),
    )


@command("software.sources.vib.list")
def list_depots(lab: Simulation, host: Host, arguments: Arguments) -> Answer:
    """List the packages of depots; the host need not be in maintenance mode."""
    needed(arguments, "depot")
    vibs = [vib for path in arguments["depot"] for vib in _bundle(host, path)]
    rows = (
        {"Name": vib.name, "Version": vib.version, "Vendor": vib.vendor, "Acceptance Level": vib.level}
        for vib in vibs
    )
    return Rows("VIBSummary", tuple(rows))


@command("software.vib.install")
def install_vibs(lab: Simulation, host: Host, arguments: Arguments) -> Answer:
    """Take in the packages of offline bundles; the host must be in maintenance mode."""
    needed(arguments, "depot")
    given = [vib for path in arguments["depot"] for vib in _bundle(host, path)]
    now = host.software
    new = [vib for vib in given if {**now, **host.staged}.get(vib.name) != vib]
    same = [vib for vib in given if vib not in new]
    for vib in new:
        if LEVELS.index(vib.level) > LEVELS.index(host.acceptance):
            words = [_LEVEL.sub("", level).lower() for level in (vib.level, host.acceptance)]
            why = text_of("unsigned-vib", vib=vib_id(vib), level=words[0], of_host=words[1])
            raise CommandError("[AcceptanceConfigError]", why)
    if new and not host.in_maintenance:
        raise CommandError("[MaintenanceModeError]", "MaintenanceMode is required to install the VIBs.")
    if not is_set(arguments, "dryrun"):
        host.staged |= {vib.name: vib for vib in new}
        lab.state.touch(host)
    waits = bool(new or host.staged)
    return Record(
        "InstallationResult",
        {
            "Message": NEEDS_REBOOT if waits else NOTHING,
            "VIBs Installed": tuple(vib_id(vib) for vib in new),
            "VIBs Removed": tuple(vib_id(now[vib.name]) for vib in new if vib.name in now),
            "VIBs Skipped": tuple(vib_id(vib) for vib in same),
            "Reboot Required": str(waits).lower(),
        },
    )


def _bundle(host: Host, path: str) -> tuple[Vib, ...]:
    if path not in host.bundles:
        lines = ("[MetadataDownloadError]", f"Could not download from depot at zip:{path}, skipping")
        raise CommandError(*lines)
    return host.bundles[path]


def vib_id(vib: Vib) -> str:
    """Return a package's id, as `VMware_bootbank_esx-ui_2.12.0-21482143`."""
    return f"{vib.vendor}_bootbank_{vib.name}_{vib.version}"
