"""NCCL settings of a guest: one file of variables, and the host's wiring in NCCL's own format.

The variables are those of NVIDIA's NCCL documentation, "Environment Variables" (docs/userguide/source/env.rst
in the sources of 2.31), the file is read by `ncclTopoGetXmlFromFile` (src/graph/xml.cc).
docs/reference/train.md lists the version that introduced each variable.

Belief: nccl-gdr-level-sys.
"""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.model.guests.modules import NcclModule, Wire
from vgpu_cfg.staging import values
from vgpu_cfg.staging.netplan import requested_options
from vgpu_cfg.staging.rendering import Staged, halves, render, source_file

PROGRAM = "/opt/vgpu-cfg/nccl-env"
_NEAR_TO_FAR = ("PIX", "PXB", "PHB", "SYS")
"""NCCL_NET_GDR_LEVEL's own words; it has none for another root complex of one node, which PHB takes in."""


def stage_nccl(module: NcclModule) -> Staged:
    """Write the program, and the unit that runs it at every boot; run it now."""
    program = render(
        "nccl-env.sh.j2",
        address=values.address(module.address) if module.address else "",
        traffic_class="" if module.traffic_class is None else str(module.traffic_class),
        is_direct=int(module.is_direct),
        nics=[requested_options(nic) for nic in module.nics],
        wires=[*(("gpu", one) for one in module.gpu_wires), *(("nic", one) for one in module.nic_wires)],
        level=gpudirect_level(module.gpu_wires, module.nic_wires),
    )
    return halves(
        "nccl.sh.j2",
        source_file("nccl-env", program),
        source_file("vgpu-cfg-nccl.service", render("vgpu-cfg-nccl.service.j2", program=PROGRAM)),
    )


def gpudirect_level(gpus: Sequence[Wire], nics: Sequence[Wire]) -> str:
    """Return how far GPUDirect must reach: the way to the nearest NIC, of the GPU that is worst off."""
    if not gpus or not nics:
        return _NEAR_TO_FAR[-1]
    ways = [min((_way(gpu, nic) for nic in nics), key=_NEAR_TO_FAR.index) for gpu in gpus]
    return max(ways, key=_NEAR_TO_FAR.index)


def _way(one: Wire, other: Wire) -> str:
    if one.node != other.node:
        return "SYS"
    if not one.switches or not other.switches or one.switches[0] != other.switches[0]:
        return "PHB"
    return "PIX" if one.switches == other.switches else "PXB"
