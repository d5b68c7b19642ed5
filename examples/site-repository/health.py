"""Report the health of the vCenter; end with 10 if the team must look.

That is if something is broken, an assumption of vgpu-cfg does not hold, or vCenter has a new build. With
--only-upgrade, end with 0 unless the build is new: run it every hour, and without the option every night.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LOOK = 10


def main() -> int:
    known = set(Path().glob("vcenter-*.yaml"))
    command = ["vgpu-cfg", "doctor", "--save", ".", "--html", "health.html", "--output", "json"]
    doctor = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if doctor.returncode:
        return doctor.returncode
    Path("health.json").write_text(doctor.stdout, encoding="utf-8")
    health = json.loads(doctor.stdout)
    new = [f"new build: review and commit {path}" for path in set(Path().glob("vcenter-*.yaml")) - known]
    if not new and "--only-upgrade" in sys.argv[1:]:
        return 0
    found = [one for one in health["ailments"] if one["level"] == "broken"]
    broken = [f"broken: {one['subject']}: {one['summary']}" for one in found]
    false = [f"does not hold: {one['id']}" for one in health["beliefs"] if one["verdict"] == "does not hold"]
    counts = ", ".join(f"{count} {level}" for level, count in health["counts"].items())
    print(*new, *broken, *false, f"{health['server']}: {counts}", sep="\n")
    return LOOK if new or broken or false else 0


if __name__ == "__main__":
    sys.exit(main())
