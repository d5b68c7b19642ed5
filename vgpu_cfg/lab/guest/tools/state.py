"""What a guest says of its state over time: its clock, the kernel's log, mounts, and what exporters answer.

Layouts are chrony's, systemd's and Prometheus'; numbers that nobody reads are the lab's own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from vgpu_cfg.lab.guest.shell.session import Result, Session
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.guest.system.faults import fault_of
from vgpu_cfg.lab.guest.system.gpus import driven_gpus
from vgpu_cfg.lab.guest.system.reach import reach
from vgpu_cfg.lab.guest.tools.base import fail, out

NODE_PORT, DCGM_PORT, PROMETHEUS_PORT = 9100, 9400, 9090
REFUSED = 7


def chronyc(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Tell whom chronyd follows."""
    if not session.guest.services.get("chrony"):
        return Result(127, err=b"sh: 1: chronyc: not found\n")
    if list(arguments) not in (["tracking"], ["-n", "tracking"]):
        return fail("Unrecognized command")
    follows = not fault_of(session.guest, "clock")
    return out(
        f"Reference ID    : {'0A000001 (10.0.0.1)' if follows else '00000000 ()'}",
        f"Stratum         : {3 if follows else 0}",
        "System time     : 0.000001140 seconds fast of NTP time",
        f"Leap status     : {'Normal' if follows else 'Not synchronised'}",
    )


def timedatectl(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Tell whether the clock is synchronised."""
    if list(arguments) != ["show"]:
        return fail("Unknown command verb.")
    follows = not fault_of(session.guest, "clock")
    return out("Timezone=Etc/UTC", "CanNTP=yes", "NTP=yes", f"NTPSynchronized={'yes' if follows else 'no'}")


def dmesg(session: Session, _arguments: Sequence[str], _stdin: bytes) -> Result:
    """Print the kernel's log, as far as it is of interest."""
    if session.user != "root":
        return fail("dmesg: read kernel buffer failed: Operation not permitted")
    said = fault_of(session.guest, "log")
    return out(
        f"[    0.000000] Linux version {session.guest.kernel} (lab@lab) #1 SMP",
        *([f"[ 5021.114422] {said}"] if said else []),
    )


def findmnt(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Tell of the file system that a path is on: `findmnt -n -o FSTYPE,SOURCE -T PATH`."""
    path = arguments[-1].rstrip("/") if arguments else "/"
    server = session.guest.mounts.get(path, "") if not fault_of(session.guest, "mount") else ""
    own = f"{fault_of(session.guest, 'root') or 'rw'},relatime"
    shown = {
        "FSTYPE": "nfs4" if server else "ext4",
        "SOURCE": f"{server}:{path}" if server else "/dev/sda1",
        "TARGET": path if server else "/",
        "OPTIONS": "rw,relatime,vers=4.2" if server else own,
    }
    asked = arguments[arguments.index("-o") + 1].split(",") if "-o" in arguments else ["FSTYPE"]
    return out(" ".join(shown[name] for name in asked if name in shown))


def _is_scraped(session: Session, target: str) -> bool:
    """Whether Prometheus gets an answer of a target, an address with its port."""
    end = reach(session.lab.state, session.vm, target.partition(":")[0])
    if end is None:
        return False
    guest = guest_of(end[0])
    is_open = end[0] is session.vm or not fault_of(guest, "firewall")
    return is_open and guest.services.get("vgpu-cfg-exporter", False) and not fault_of(guest, "metrics")


def curl(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Answer for what listens in the guest itself: exporters and Prometheus."""
    address = arguments[-1] if arguments else ""
    port = int(address.partition("127.0.0.1:")[2].partition("/")[0] or 0)
    services = session.guest.services
    serves = {
        NODE_PORT: services.get("vgpu-cfg-exporter"),
        DCGM_PORT: services.get("vgpu-cfg-exporter"),
        PROMETHEUS_PORT: services.get("vgpu-cfg-server"),
    }
    if not serves.get(port) or fault_of(session.guest, "metrics"):
        return fail(
            f"curl: (7) Failed to connect to 127.0.0.1 port {port}: Connection refused", status=REFUSED
        )
    if port == PROMETHEUS_PORT:
        rows = [
            {"metric": {"instance": one}, "value": [0, str(int(_is_scraped(session, one)))]}
            for one in session.guest.targets
        ]
        return out(json.dumps({"status": "success", "data": {"resultType": "vector", "result": rows}}))
    gpus = driven_gpus(session.lab.state, session.vm)
    samples = [
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="{number}",UUID="{gpu.uuid}"}} 0' for number, gpu in enumerate(gpus)
    ]
    own = [f'node_uname_info{{nodename="{session.guest.host_name}"}} 1'] if port == NODE_PORT else []
    return out(*own, *samples)
