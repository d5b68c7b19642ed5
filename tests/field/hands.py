"""Manual changes in vCenter between two commands."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from tests.cli.command_line import CommandLine


def write_user_data(vgpu_cfg: CommandLine) -> None:
    """Write user data of 100 KiB that hardly compresses."""
    noise = random.Random(1).randbytes(50_000).hex()  # noqa: S311 - text that does not pack, no secret
    vgpu_cfg.write("user.yaml", f"#cloud-config\nwrite_files: [{{path: /opt/noise, content: {noise}}}]\n")


def write_text(vgpu_cfg: CommandLine) -> None:
    """Write user data of 80 KiB that compresses well."""
    notes = "".join(f"    line {number:05} of the notes\n" for number in range(3000))
    head = "#cloud-config\nwrite_files:\n- path: /opt/notes\n  content: |\n"
    vgpu_cfg.write("user.yaml", head + notes)


HANDS: Mapping[str, Callable[[CommandLine], None]] = {
    "write user data": write_user_data,
    "write user data that compresses": write_text,
}
