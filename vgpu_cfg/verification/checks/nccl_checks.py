"""Checks of a guest's NCCL settings: that they exist, and match the facts of this run."""

from __future__ import annotations

from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.model.guests.modules import NcclModule
from vgpu_cfg.parsers.frameworks import SETTINGS, NcclSettings, parse_nccl_settings
from vgpu_cfg.verification.asking import Asking, Command, failed, passed, skipped
from vgpu_cfg.verification.learned import Learned
from vgpu_cfg.verification.views import GuestView


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
    if wrong:
        expected = ", ".join(f"{name}={value}" for name, value in wanted.items())
        return failed(VerifyCode.NCCL_SETTINGS, "; ".join(wrong), expected or "settings for the hardware")
    words = ", ".join(f"{name}={value}" for name, value in sorted(given.items()))
    return passed(words or "no topology information available")


def _parts(value: str) -> list[str]:
    """Take a list apart whose order says nothing."""
    return sorted(value.removeprefix("=").split(","))


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
