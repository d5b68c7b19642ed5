"""Checks of a guest's NCCL settings: that they exist, match the facts of this run, and leave RDMA on.

NCCL reads /etc/nccl.conf first; the image's environment, nccl.env and the plan's own variables come later and
win (NVIDIA, NCCL documentation, "Environment Variables").
"""

from __future__ import annotations

import re
from collections.abc import Generator

from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.model.guests.modules import NcclModule
from vgpu_cfg.parsers.frameworks import SETTINGS, NcclSettings, parse_nccl_settings
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.verification.asking import Asking, Command, Step, failed, passed, skipped
from vgpu_cfg.verification.checks.container_checks import in_image
from vgpu_cfg.verification.learned import Learned
from vgpu_cfg.verification.views import GuestView

CONF, OWN = "/etc/nccl.conf", "/opt/vgpu-cfg/training.env"
_WITHOUT_RDMA = re.compile(
    r"(?:(?P<file>/[^:]+):)?\s*(?:export )?(?P<name>NCCL_IB_DISABLE|NCCL_NET)\s*=\s*(?P<value>\S*)"
)


def ask_nccl(view: GuestView) -> Asking:
    """See whether NCCL's settings name the interface, devices and GIDs that are there now."""
    module = view.spec.get(NcclModule)
    if module is None:
        return skipped("no training runs in the VM")
    answer = yield Command(("cat", SETTINGS))
    if answer.status != 0:
        return failed(VerifyCode.NCCL_SETTINGS, f"{SETTINGS} does not exist", "NCCL settings")
    settings = parse_nccl_settings(answer.stdout)
    wanted = _wanted(view.learned, module)
    given = settings.variables
    wrong = [
        f"{name} is {given.get(name) or 'not set'}" for name in wanted if given.get(name) != wanted[name]
    ]
    topology = given.get("NCCL_TOPO_FILE", "")
    if topology:
        there = yield Command(("cat", topology))
        if there.status != 0 or "<system " not in there.stdout:
            wrong.append(f"NCCL_TOPO_FILE points to {topology}, which contains no topology")
    elif module.gpu_wires:
        wrong.append(_without_topology(settings))
    off = yield from _turned_off(view)
    if off:
        return failed(
            VerifyCode.NCCL_SETTINGS,
            off,
            "RDMA, as planned",
            meaning="NCCL uses TCP instead of the planned RDMA",
            remedy="remove it there; for the plan's own variables, remove it from `training.environment`",
        )
    if wrong:
        expected = ", ".join(f"{name}={value}" for name, value in wanted.items())
        return failed(VerifyCode.NCCL_SETTINGS, "; ".join(wrong), expected or "settings for the hardware")
    words = ", ".join(f"{name}={value}" for name, value in sorted(given.items()))
    return passed(words or "no topology information available")


def _turned_off(view: GuestView) -> Generator[Step, ShellResult, str]:
    """Say which variable keeps NCCL from RDMA, and where it is set; "" for none."""
    if not view.learned.rdma:
        return ""
    answer = yield Command(("grep", "-HsE", "^[^#]*(NCCL_IB_DISABLE|NCCL_NET) *=", CONF, SETTINGS, OWN))
    lines = answer.stdout.splitlines()
    if view.image is not None:
        command = in_image(view.image.runtime, view.image.image, ("env",), gpus=False)
        answer = yield Command(command, timeout_seconds=180)
        lines = [*answer.stdout.splitlines(), *lines]
    set_at: dict[str, tuple[str, str]] = {}
    for found in filter(None, map(_WITHOUT_RDMA.fullmatch, lines)):
        name, place = found["name"], found["file"] or "the image"
        if place != CONF or name not in set_at:
            set_at[name] = found["value"].strip("'\""), place
    return "; ".join(
        f"{name} is {value} in {place}"
        for name, (value, place) in set_at.items()
        if (value.casefold() == "socket" if name == "NCCL_NET" else value not in ("", "0"))
    )


def _wanted(learned: Learned, module: NcclModule) -> dict[str, str]:
    """Return the expected content of the file, by the facts of this run."""
    devices = [f"{nic.device}:{nic.port}" for nic in learned.rdma if nic.gid is not None]
    interfaces = [seen.name for nic in module.nics if (seen := learned.interface_of(nic)) is not None]
    own = [
        one.name
        for one in learned.interfaces
        if module.address in [word.partition("/")[0] for word in one.addresses]
    ]
    found: dict[str, str] = {}
    if own or interfaces:
        found["NCCL_SOCKET_IFNAME"] = f"={(own or interfaces)[0]}"
    if devices:
        found["NCCL_IB_HCA"] = f"={','.join(dict.fromkeys(devices))}"
        gids = {nic.gid for nic in learned.rdma if nic.gid is not None}
        if len(gids) == 1:
            found["NCCL_IB_GID_INDEX"] = str(gids.pop())
        if module.traffic_class is not None:
            found["NCCL_IB_TC"] = str(module.traffic_class)
    return found


def _without_topology(settings: NcclSettings) -> str:
    why = settings.remarks.get("NCCL_TOPO_FILE", "")
    return f"NCCL_TOPO_FILE is not set{f' ({why})' if why else ''}"
