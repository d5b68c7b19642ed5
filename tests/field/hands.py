"""Manual changes in vCenter between two commands."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from pyVmomi import vim

from tests.cli.colleague import Colleague
from tests.cli.command_line import CommandLine
from vgpu_cfg.cli.labs import open_lab_of


def write_user_data(vgpu_cfg: CommandLine) -> None:
    """Write user data of 100 KiB that hardly compresses."""
    noise = random.Random(1).randbytes(50_000).hex()  # noqa: S311 - text that does not pack, no secret
    vgpu_cfg.write("user.yaml", f"#cloud-config\nwrite_files: [{{path: /opt/noise, content: {noise}}}]\n")


def write_text(vgpu_cfg: CommandLine) -> None:
    """Write user data of 80 KiB that compresses well."""
    notes = "".join(f"    line {number:05} of the notes\n" for number in range(3000))
    head = "#cloud-config\nwrite_files:\n- path: /opt/notes\n  content: |\n"
    vgpu_cfg.write("user.yaml", head + notes)


def _colleague(vgpu_cfg: CommandLine) -> Colleague:
    return Colleague(open_lab_of(str(vgpu_cfg.folder / "estate.yaml")))


def attach_disks(vgpu_cfg: CommandLine) -> None:
    """Attach a first-class disk and another VM's disk to node-01, as a storage driver does."""
    specs: list[Any] = []
    for unit, file in ((5, "[vsan] fcd/pvc-1234.vmdk"), (6, "[vsan] donor/donor_1.vmdk")):
        backing: Any = vim.vm.device.VirtualDisk.FlatVer2BackingInfo(
            fileName=file, diskMode="independent_persistent"
        )
        disk: Any = vim.vm.device.VirtualDisk(
            key=-unit, controllerKey=1000, unitNumber=unit, capacityInKB=1 << 20, backing=backing
        )
        specs.append(vim.vm.device.VirtualDeviceSpec(operation="add", device=disk))
    _colleague(vgpu_cfg).reconfigures("node-01", lambda _vm: vim.vm.ConfigSpec(deviceChange=specs))


def make_snapshot(vgpu_cfg: CommandLine) -> None:
    """Make a snapshot of the VM that is cloned."""
    _colleague(vgpu_cfg).does("golden", "CreateSnapshot_Task", "before", "", False, False)


def keep_id(vgpu_cfg: CommandLine) -> None:
    """Keep the first plan file's ID for plan.yaml, as one file that was edited."""
    (vgpu_cfg.folder / "plan.yaml.id").write_text(
        (vgpu_cfg.folder / "with.yaml.id").read_text("utf-8"), "utf-8"
    )


HANDS: Mapping[str, Callable[[CommandLine], None]] = {
    "write user data": write_user_data,
    "write user data that compresses": write_text,
    "attach disks of others": attach_disks,
    "make a snapshot of the template": make_snapshot,
    "keep the id of with.yaml": keep_id,
}
