"""RDMA access of a guest: the stack, GPU memory access, the NIC's firmware, and the marking of RoCE packets.

A NIC reads GPU memory by dma-buf, or by nvidia-peermem, which an earlier driver may lack. Only the guest
reaches the firmware of a passed-through NIC. RoCE packets are marked in the guest; if the guest owns the
port, the port treats them accordingly.

Belief: ofed-installers, dma-buf-needs-linux-512, run-installer-k, mlxconfig-in-a-guest, dcb-on-mlx5-in-a-vm,
roce-cc-prio-mask, kernel-driver-uses-cc-mask, dcb-output.
"""

from __future__ import annotations

import re

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.modules import NicFirmwareModule, OfedModule, PeermemModule, RoceModule
from vgpu_cfg.model.plan_file.guest_values import OFED_PACKAGES, package_kind
from vgpu_cfg.staging import values
from vgpu_cfg.staging.netplan import nic_arguments
from vgpu_cfg.staging.rendering import Staged, StagingContext, halves, render, source_file

_NAMES = {"mlnx": "MLNX_OFED", "doca": "DOCA-OFED", "inbox": "the distribution's RDMA tools"}
_MLNX_VERSION = re.compile(r"MLNX_OFED_LINUX-([0-9][0-9.]*-[0-9][0-9.]*)-")
"""MLNX_OFED_LINUX-5.8-6.0.4.2-ubuntu22.04-x86_64.tgz; `ofed_info -s` begins alike."""


def stage_ofed(module: OfedModule, context: StagingContext) -> Staged:
    """Install the stack where it is missing."""
    package = values.package(module.package) if module.package else ""
    suffix = package_kind(package)
    if package and suffix not in OFED_PACKAGES[module.stack]:
        raise GuestError(
            f"{package!r} is not a package for the stack {module.stack}",
            subject=context.spec.vm,
            remedy="use a .tgz for mlnx, the repository's .deb or .rpm for doca, none for inbox",
        )
    found = _MLNX_VERSION.search(package)
    return halves(
        "ofed.sh.j2",
        stack=module.stack,
        names=_NAMES,
        version=found[1] if found else "",
        package=package,
        file=f"doca-host{suffix}",
        sha256=values.sha256(module.sha256),
    )


def stage_peermem(module: PeermemModule) -> Staged:
    """Load nvidia-peermem now and at every boot where dma-buf does not do, built anew if it must be."""
    return halves(
        "peermem.sh.j2",
        source_file("peermem.conf", "nvidia-peermem\n"),
        stack=module.stack,
        package=values.package(module.package) if module.package else "",
        sha256=values.sha256(module.sha256),
    )


_PARAMETER = re.compile(r"[A-Z][A-Z0-9_]*")
_VALUE = re.compile(r"[A-Za-z0-9_]+")


def stage_nic_firmware(module: NicFirmwareModule) -> Staged:
    """Set what differs; what then waits for the next boot needs the host's power cycle: a manual step."""
    parameters = sorted((name, value) for name, value in module.parameters.items())
    for name, value in parameters:
        if not _PARAMETER.fullmatch(name):
            raise values.refuse(
                "a firmware parameter", name, "use the name shown by mlxconfig, such as ATS_ENABLED"
            )
        if not _VALUE.fullmatch(value):
            raise values.refuse("the value of a firmware parameter", value, "use a number, true, or false")
    return halves("nic-firmware.sh.j2", nics=nic_arguments(module.nics), parameters=parameters)


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
