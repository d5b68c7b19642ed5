"""Which options esxcli's commands take, and by which letters."""

from __future__ import annotations

FLAGS = frozenset(
    {"append", "force", "rebooting-image", "dry-run", "maintenance-mode", "no-live-install", "no-sig-check"}
)
"""Long options without a value."""

OPTIONS: dict[str, dict[str, str]] = {
    "graphics.host.get": {},
    "graphics.host.set": {"": "default-type shared-passthru-assignment-policy"},
    "graphics.device.list": {},
    "hardware.clock.get": {},
    "hardware.pci.list": {},
    "network.firewall.get": {},
    "system.module.parameters.list": {"m": "module"},
    "system.module.parameters.set": {"m": "module", "p": "parameter-string", "a": "append", "f": "force"},
    "system.settings.kernel.list": {"o": "option"},
    "system.settings.kernel.set": {"s": "setting", "v": "value"},
    "software.vib.list": {"": "rebooting-image"},
    "software.sources.vib.list": {"d": "depot"},
    "software.vib.install": {
        "d": "depot",
        "f": "force",
        "": "dry-run maintenance-mode no-live-install no-sig-check",
    },
    "network.nic.dcb.status.get": {"n": "nic-name"},
}
"""Command → short option → long one; those without a short one stand under the empty name."""


def long_options(name: str) -> list[str]:
    """Return the long options of a command."""
    return [long for longs in OPTIONS[name].values() for long in longs.split()]
