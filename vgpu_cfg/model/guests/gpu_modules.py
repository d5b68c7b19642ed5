"""What a guest needs beside driver and NIC so that NCCL and CUDA find what is there."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.guests.base import NOTHING, Ends, GuestNic, ModuleBase, without_checksum


class Wire(Frozen):
    """How a device of a VM hangs in its host: the NUMA node, and the PCIe switches above it, top first.

    Nodes and switches have numbers of the VM's own, in the order in which its devices meet them: where two
    hosts are wired alike, a VM that moves from one to the other has the same wires.
    """

    node: int
    switches: tuple[int, ...] = ()


class CudaModule(ModuleBase):
    """The CUDA Toolkit of a release ("12.8"), with its PATH for logins and for `train`; never a driver.

    `package` is a local repository's package or a .run file, by URL or path, "" where `repository` has it.
    `keyring_sha256` is the checksum of the repository's cuda-keyring, "" for the one that NVIDIA's has.
    """

    kind: Literal["cuda"] = "cuda"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    version: str
    package: str = ""
    sha256: str = ""
    keyring_sha256: str = Field(default="", exclude_if=lambda text: not text)
    repository: str = "https://developer.download.nvidia.com/compute/cuda/repos"

    @property
    def unpinned(self) -> str:
        """Its package, by address without a checksum."""
        return without_checksum(self.package, self.sha256)


class NcclModule(ModuleBase):
    """NCCL's settings for one guest: a program that finds out what is there, run at every boot, and its file.

    `nics` are those that training goes over, `address` is the guest's own there, "" where the plan does not
    know it. `traffic_class` marks RDMA packets, None where no NIC carries RDMA. `is_direct` lets NICs reach
    GPU memory. `gpu_wires` (in the order of the GPUs) and `nic_wires` (in that of `nics`) say how the host is
    wired; both are empty where that is not known before the VM starts.
    """

    kind: Literal["nccl"] = "nccl"
    ENDS: ClassVar[frozenset[Ends]] = NOTHING
    nics: tuple[GuestNic, ...] = ()
    address: str = ""
    traffic_class: int | None = None
    is_direct: bool = False
    gpu_wires: tuple[Wire, ...] = ()
    nic_wires: tuple[Wire, ...] = ()
