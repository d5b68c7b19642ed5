"""Marking of a guest's RoCE packets and, if it owns the port, their treatment by that port.

Belief: dcb-on-mlx5-in-a-vm, roce-cc-prio-mask, kernel-driver-uses-cc-mask, dcb-output.
"""

from __future__ import annotations

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.modules import RoceModule
from vgpu_cfg.staging.netplan import nic_arguments
from vgpu_cfg.staging.rendering import Staged, StagingContext, halves, render, source_file

PROGRAM = "/usr/local/sbin/vgpu-cfg-roce"


def stage_roce(module: RoceModule, context: StagingContext) -> Staged:
    """Write a program and the unit that runs it at every boot, and run it now."""
    if not (0 <= module.dscp <= 63 and 0 <= module.priority <= 7):
        raise GuestError(
            f"DSCP {module.dscp} with priority {module.priority} is not valid for RoCE packets",
            subject=context.spec.vm,
            remedy="use a DSCP of 0 to 63 and a priority of 0 to 7; 26 and 3 are typical",
        )
    program = render(
        "vgpu-cfg-roce.sh.j2",
        trust=module.trust,
        dscp=module.dscp,
        priority=module.priority,
        pfc=",".join("1" if number == module.priority else "0" for number in range(8)),
        traffic_class=module.traffic_class,
        owns_port=module.owns_port,
        nics=nic_arguments(module.nics),
    )
    return halves(
        "roce.sh.j2",
        source_file("vgpu-cfg-roce", program),
        source_file("vgpu-cfg-roce.service", render("vgpu-cfg-roce.service.j2", program=PROGRAM)),
        owns_port=module.owns_port,
    )
