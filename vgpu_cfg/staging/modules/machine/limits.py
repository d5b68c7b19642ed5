"""Limits for locked memory of logins and services, and /dev/shm size: RDMA and NCCL need both large.

Belief: fstab-sizes-dev-shm.
"""

from __future__ import annotations

import re

from vgpu_cfg.model.guests.modules import LimitsModule
from vgpu_cfg.staging import values
from vgpu_cfg.staging.rendering import Staged, halves, source_file

_SIZE = re.compile(r"([0-9]{1,10}) ?([KMGT])(i?B)?", re.IGNORECASE)
_KIB = {"K": 1, "M": 1024, "G": 1024**2, "T": 1024**3}
_LIMITS = "".join(f"{who} {kind} memlock unlimited\n" for who in ("*", "root") for kind in ("soft", "hard"))


def stage_limits(module: LimitsModule) -> Staged:
    """Write the limits of logins and of services, and /dev/shm's size now and in /etc/fstab."""
    kib = kib_of(module.shared_memory) if module.shared_memory else 0
    return halves(
        "limits.sh.j2",
        source_file("limits.conf", _LIMITS),
        source_file("systemd.conf", "[Manager]\nDefaultLimitMEMLOCK=infinity\n"),
        source_file("fstab", f"tmpfs /dev/shm tmpfs rw,nosuid,nodev,size={kib}k 0 0\n" if kib else ""),
        shm_kib=kib,
    )


def kib_of(text: str) -> int:
    """Return a size such as 64GiB, 64G or 512m in KiB; the units are powers of 1024."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or int(found[1]) == 0:
        raise values.refuse("the size of /dev/shm", text, "specify a number and a unit, such as 64GiB")
    return int(found[1]) * _KIB[found[2].upper()]
