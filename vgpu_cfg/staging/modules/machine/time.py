"""Keep a guest's clock right: chronyd, else systemd-timesyncd, else chronyd from a package.

Sources: chrony.conf(5) and chronyc(1) (`server`, `iburst`, `makestep`, `rtcsync`, `waitsync`);
timesyncd.conf(5) (`NTP=`, an empty `FallbackNTP=` takes the compiled-in servers away).
"""

from __future__ import annotations

from vgpu_cfg.model.guests.modules import TimeModule
from vgpu_cfg.model.plan_file.guest_values import check_time_server
from vgpu_cfg.staging import values
from vgpu_cfg.staging.rendering import Staged, halves, source_file

_HEAD = "# Written by vgpu-cfg, from `guest.time` of the plan file.\n"


def stage_time(module: TimeModule) -> Staged:
    """Write the file of whichever is there, start it anew where it changed, and wait until it follows."""
    servers = [values.asserted(check_time_server, "an NTP server", one) for one in module.servers]
    # The clock is stepped at the start however far it is off; where it drifts later, it is slewed.
    chrony = "".join(f"server {one} iburst\n" for one in servers)
    chrony += "driftfile /var/lib/chrony/drift\nmakestep 1.0 3\nrtcsync\n"
    timesyncd = f"[Time]\nNTP={' '.join(servers)}\nFallbackNTP=\n"
    return halves(
        "time.sh.j2",
        source_file("chrony.conf", _HEAD + chrony),
        source_file("timesyncd.conf", _HEAD + timesyncd),
        servers=", ".join(servers),
    )
