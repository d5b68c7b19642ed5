"""The example of a container that is kept running: its units, and its health check, run for real."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.staging.sandbox import tool
from vgpu_cfg.documents import parse_text
from vgpu_cfg.plan_loading import load_plan

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "service"
CONFIG = EXAMPLE / "notebook.cloud-config.yaml"
CALLS = '#!/bin/sh\necho "{name} $*" >>"$CALLS"\n{end}\n'


def files() -> dict[str, str]:
    data: Any = parse_text(CONFIG.read_text(encoding="utf-8"), CONFIG.name).data
    return {one["path"]: one["content"] for one in data["write_files"]}


def test_the_plan_takes_the_file() -> None:
    (vm,) = load_plan(EXAMPLE / "notebook.yaml").desired.vms
    assert vm.guest is not None
    assert "notebook.service" in str(vm.guest.user_data)


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    names = []
    for path, text in files().items():
        place = tmp_path / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        place.chmod(0o755 if "sbin" in path else 0o644)
        if path.startswith("/etc/systemd"):
            names.append(place.name)
    for name in ("usr/bin/docker", "etc/systemd/system/sysinit.target"):
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("#!/bin/sh\n" if "bin" in name else "[Unit]\n", encoding="utf-8")
        place.chmod(0o755)
    words = [tool("systemd-analyze"), "verify", f"--root={tmp_path}", "--man=no", "--recursive-errors=no"]
    done = subprocess.run([*words, *names], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr + done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("answers", "restarts"),
    [("yyyy", 0), ("nn", 0), ("nnn", 1), ("nnynn", 0), ("nnnnnn", 2)],
)
def test_three_failed_checks_in_a_row_restart_the_container(
    answers: str, restarts: int, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    health = tmp_path / "health"
    health.write_text(files()["/usr/local/sbin/notebook-health"], encoding="utf-8")
    stand_in = tmp_path / "systemctl"
    stand_in.write_text(CALLS.format(name="systemctl", end="exit 0"), encoding="utf-8")
    stand_in.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "CALLS": str(calls),
        "HEALTH_COUNT": str(tmp_path / "n"),
    }
    for answer in answers:
        curl = tmp_path / "curl"
        curl.write_text(f"#!/bin/sh\nexit {0 if answer == 'y' else 7}\n", encoding="utf-8")
        curl.chmod(0o755)
        done = subprocess.run(["/bin/sh", str(health)], env=environment, timeout=20, check=False)
        assert done.returncode == 0
    assert calls.read_text(encoding="utf-8").count("restart notebook.service") == restarts
