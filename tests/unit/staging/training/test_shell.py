"""Every script that is staged for training: dash parses it, and shellcheck finds nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.staging.training.sandbox import context_for
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.model.guests.guest import GuestFile
from vgpu_cfg.model.guests.modules import (
    GuestModule,
    RoceModule,
    SharedFolderModule,
    TrafficModule,
)
from vgpu_cfg.model.guests.training_modules import (
    ContainersModule,
    ImageModule,
    LauncherModule,
    MeshPeer,
    MonitoringModule,
    RankModule,
    RegistryModule,
    ScrapeTarget,
    SshMeshModule,
    ToolkitModule,
    TrainWorker,
    WorkerModule,
)
from vgpu_cfg.staging.bundle import stage_module
from vgpu_cfg.staging.rendering import compose

IMAGE = "nvcr.io/nvidia/tensorflow:21.07-tf1-py3"
NIC = GuestNic(mac="00:50:56:aa:00:01", name="ens224")
ODD = "a'b'\"c\"$(reboot)`reboot`%n${HOME}\\;&|>-x"
SECRET = "nvapi-0123456789"
MESH = SshMeshModule(
    vm="hvd-01",
    peers=(
        MeshPeer(vm="hvd-01", names=("hvd-01",), addresses=("10.111.0.11",)),
        MeshPeer(vm="hvd-02", names=("hvd-02",)),
    ),
)


def modules(runtime: str) -> list[GuestModule]:
    """All modules, with as odd texts as they take."""
    shared = SharedFolderModule(role="client", server="10.0.0.1")
    found: list[GuestModule] = [
        MESH,
        MESH.model_copy(update={"user": "trainer"}),
        RoceModule(nics=(NIC,)),
        TrafficModule(nic=NIC, link_mbps=10000, control_mbps=500),
        shared,
        shared.model_copy(update={"role": "server", "clients": ("10.0.0.5/24", "fd00::/64")}),
        ContainersModule.model_validate({"runtime": runtime, "minimum_free_gib": 9}),
        ToolkitModule.model_validate({"runtime": runtime}),
        RegistryModule.model_validate(
            {"runtime": runtime, "server": "nvcr.io", "user": ODD, "password": "ngc"}
        ),
        ImageModule.model_validate(
            {"runtime": runtime, "image": IMAGE, "archive": f"/srv/{ODD}", "server": "x"}
        ),
        ImageModule.model_validate({"runtime": runtime, "image": IMAGE, "archive": "https://x/y.tar"}),
        ImageModule.model_validate({"runtime": runtime, "image": IMAGE}),
        WorkerModule.model_validate(
            {"runtime": runtime, "image": IMAGE, "rdma": True, "mounts": (f"/srv/{ODD}:/data",)}
        ),
        LauncherModule.model_validate(
            {
                "runtime": runtime,
                "image": IMAGE,
                "workers": (TrainWorker(name="hvd-01"), TrainWorker(name="hvd-02", address="10.111.0.12")),
                "nics": (NIC, GuestNic(driver="mlx5_core")),
                "control_nics": (GuestNic(mac="00:50:56:aa:00:02"),),
            }
        ),
        RankModule(environment={"NOTE": ODD}),
        LauncherModule(framework="none", workers=(TrainWorker(name="hvd-01"),)),
    ]
    if runtime != "apptainer":
        targets = (ScrapeTarget(vm=ODD, address="10.0.0.1", port=9400),)
        common = {"runtime": runtime, "targets": targets, "grafana_password": "ngc"}
        found += [
            MonitoringModule.model_validate({**common, "role": "server"}),
            MonitoringModule.model_validate({**common, "role": "exporter"}),
            MonitoringModule.model_validate({**common, "role": "exporter", "exporter": "nvidia-smi"}),
        ]
    return found


def shell_texts(runtime: str) -> dict[str, str]:
    """Return every script by what it is."""
    listed = modules(runtime)
    worker = next(one for one in listed if isinstance(one, WorkerModule))
    found: dict[str, str] = {}
    for number, module in enumerate(listed):
        others = (worker, MESH) if isinstance(module, (LauncherModule, SshMeshModule, ImageModule)) else ()
        context = context_for(module, *others, secrets={"ngc": SECRET})
        staged = stage_module(module, context)
        found[f"{number} {module.kind}"] = compose(module.kind, staged)
        for one in staged.files:
            if one.content.startswith("#!/bin/sh") or one.path.endswith(("/probe", "/launcher/look")):
                found[f"{number} {module.kind} {one.path}"] = one.content
    return found


def all_texts() -> dict[str, str]:
    """Return every script once: most are the same for all runtimes."""
    by_text = {
        text: f"{runtime} {name}"
        for runtime in ("docker", "containerd", "apptainer")
        for name, text in shell_texts(runtime).items()
    }
    return {name: text for text, name in by_text.items()}


def test_dash_parses_every_script() -> None:
    dash = shutil.which("dash") or shutil.which("sh")
    assert dash is not None
    texts = all_texts()
    assert len(texts) > 40
    for name, text in texts.items():
        done = subprocess.run(
            [dash, "-n"], input=text, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, f"{name}: {done.stderr}"
    broken = subprocess.run(
        [dash, "-n"], input="if x; then", capture_output=True, text=True, check=False, timeout=120
    )
    assert broken.returncode != 0


@pytest.mark.exhaustive("shellcheck on modules of every kind; test_validators.py has those of a whole plan")
def test_shellcheck_finds_nothing(tmp_path: Path) -> None:
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("shellcheck is not here: apt-get install shellcheck")
    # SC1091: what is sourced is on the guest. SC2016: texts with dollars are meant to stay so.
    # SC2034: CHANGED is set for modules that ask. SC2154: what a file that is sourced sets.
    words = [shellcheck, "--shell=sh", "--exclude=SC1091,SC2016,SC2034,SC2154", "--severity=warning"]
    for name, text in all_texts().items():
        # The head, which all have, is looked at in one of them.
        body = text if "ssh-mesh" in name else text.partition("# ---- the module itself ----")[2] or text
        (tmp_path / f"{name.replace('/', '-')}.sh").write_text(body, encoding="utf-8")
    paths = sorted(map(str, tmp_path.iterdir()))
    done = subprocess.run([*words, *paths], capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout == ""
    faulty = tmp_path / "faulty"
    faulty.write_text("[ $x == 1 ]\n", encoding="utf-8")
    done = subprocess.run([*words, str(faulty)], capture_output=True, text=True, check=False, timeout=120)
    assert "SC3014" in done.stdout


@pytest.mark.parametrize("runtime", ["docker", "containerd", "apptainer"])
def test_no_secret_stands_in_a_script_or_a_public_file(runtime: str) -> None:
    for module in modules(runtime):
        context = context_for(module, secrets={"ngc": SECRET})
        staged = stage_module(module, context)
        assert SECRET not in staged.check + staged.apply
        for one in staged.files:
            hidden = is_secret(one)
            assert hidden == (one.mode == 0o600), one.path
            assert hidden or (SECRET not in one.content and "PRIVATE KEY" not in one.content), one.path


def is_secret(one: GuestFile) -> bool:
    return one.path.startswith("/var/lib/vgpu-cfg/secrets/")
