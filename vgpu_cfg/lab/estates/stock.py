"""The components of an estate's hosts: ESXi releases and models of NICs, and where devices go."""

from __future__ import annotations

from dataclasses import dataclass

MELLANOX = 0x15B3


@dataclass(frozen=True, slots=True)
class EsxiRelease:
    """An ESXi release: its values in the API, and its newest hardware version.

    Hardware versions are those of VMware's documentation; the build numbers are only decoration.
    """

    version: str
    update: str
    build: str
    api_version: str
    max_hardware_version: int

    @property
    def order(self) -> tuple[int, ...]:
        """The version as numbers, to compare."""
        return tuple(int(part) for part in self.version.split("."))


RELEASES = {
    "6.7 U3": EsxiRelease("6.7.0", "3", "14320388", "6.7.3", 15),
    "7.0": EsxiRelease("7.0.0", "0", "15843807", "7.0.0.0", 17),
    "7.0 U1": EsxiRelease("7.0.1", "1", "16850804", "7.0.1.0", 18),
    "7.0 U2": EsxiRelease("7.0.2", "2", "17630552", "7.0.2.0", 19),
    "7.0 U3": EsxiRelease("7.0.3", "3", "19193900", "7.0.3.0", 19),
    "8.0": EsxiRelease("8.0.0", "0", "20513097", "8.0.0.1", 20),
    "8.0 U1": EsxiRelease("8.0.1", "1", "21495797", "8.0.1.0", 20),
    "8.0 U2": EsxiRelease("8.0.2", "2", "22380479", "8.0.2.0", 21),
    "8.0 U3": EsxiRelease("8.0.3", "3", "24022510", "8.0.3.0", 21),
    "9.0": EsxiRelease("9.0.0", "0", "24755229", "9.0.0.0", 22),
}
"""By the name people use."""

BY_VERSION = {release.version: release for release in RELEASES.values()}


@dataclass(frozen=True, slots=True)
class NicModel:
    """A NIC of the stock (ids from the PCI id repository)."""

    name: str
    device_id: int
    max_vfs: int
    driver: str = "nmlx5_core"
    vendor_id: int = MELLANOX


NIC_MODELS = {
    "ConnectX-5": NicModel("MT27800 Family [ConnectX-5]", 0x1017, 16),
    "ConnectX-6": NicModel("MT28908 Family [ConnectX-6]", 0x101B, 16),
    "ConnectX-6 Dx": NicModel("MT2892 Family [ConnectX-6 Dx]", 0x101D, 16),
    "ConnectX-6 Lx": NicModel("MT2894 Family [ConnectX-6 Lx]", 0x101F, 16),
    "ConnectX-7": NicModel("MT2910 Family [ConnectX-7]", 0x1021, 16),
}

GPU_BUSES = (0x17, 0x31, 0x4B, 0x65, 0x98, 0xB1, 0xCA, 0xE3)
"""The places of GPUs without an address, in order; further ones after 0xe3."""

NIC_BUSES = (0x1A, 0x34, 0x4E, 0x68, 0x9B, 0xB4, 0xCD, 0xE6)
