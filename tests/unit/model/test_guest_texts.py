"""Guests: a user's own #cloud-config beside vgpu-cfg's, and modules in words."""

from __future__ import annotations

from typing import Any

import pytest

from vgpu_cfg.model.guests.base import Description, ModuleBase
from vgpu_cfg.model.guests.guest import clashes
from vgpu_cfg.model.guests.training_modules import (
    ImageModule,
    LauncherModule,
    MonitoringModule,
    RankModule,
    ScrapeTarget,
    TrainWorker,
)

OURS: dict[str, Any] = {
    "timezone": "UTC",
    "users": [{"name": "vgpu"}, "default"],
    "write_files": [{"path": "/etc/a"}],
    "runcmd": ["true"],
    "ssh_keys": {},
}


@pytest.mark.parametrize(
    ("theirs", "places"),
    [
        ({}, []),
        ({"timezone": "UTC", "packages": ["vim"]}, []),
        ({"timezone": "CET"}, [("timezone",)]),
        ({"runcmd": ["false"]}, []),
        ({"runcmd": "false"}, [("runcmd",)]),
        ({"users": "anna"}, [("users",)]),
        ({"users": ["anna", {"name": "ben"}, {"name": "vgpu"}]}, [("users", 2)]),
        ({"users": [7, {"uid": 7}]}, []),
        ({"write_files": [{"path": "/etc/b"}, {"path": "/etc/a"}]}, [("write_files", 1)]),
        ({"write_files": [{"path": "/etc/vgpu-cfg/own"}]}, [("write_files", 0)]),
        ({"ssh_keys": {"rsa_private": "x"}}, [("ssh_keys",)]),
    ],
)
def test_own_user_data_may_not_contradict(
    theirs: dict[str, Any], places: list[tuple[str | int, ...]]
) -> None:
    found = list(clashes(theirs, OURS))
    assert [one.loc for one in found] == places
    for one in found:
        assert one.message.startswith("it")
        assert str(one.loc[0]) in f"{one.message} {one.remedy}"


@pytest.mark.parametrize(
    ("module", "words", "by_hand"),
    [
        (
            LauncherModule(workers=(TrainWorker(name="a", slots=2), TrainWorker(name="b"))),
            "`train` over 2 workers, 3 slots",
            "write a host file (a slots=2, b slots=1), and start",
        ),
        (
            MonitoringModule(role="server", targets=(ScrapeTarget(vm="a", address="10.0.0.1", port=9400),)),
            "Prometheus and Grafana",
            "with the targets 10.0.0.1:9400",
        ),
        (MonitoringModule(role="exporter"), "dcgm exporter", "run the dcgm exporter as a service"),
        (RankModule(), "ranks", "through /opt/vgpu-cfg/rank, with no variables"),
        (RankModule(environment={"B": "2", "A": "1"}), "ranks with 2 variables", "rank, with A=1 B=2"),
        (RankModule(environment={"A": "1"}), "ranks with 1 variable", "rank, with A=1"),
        (
            ImageModule(image="nvcr.io/nvidia/pytorch:1", framework="torchrun"),
            "pytorch:1",
            "pull nvcr.io/nvidia/pytorch:1; it requires",
        ),
        (
            ImageModule(image="a/b:1", archive="/mnt/b.tar", framework="torchrun"),
            "b:1",
            "load /mnt/b.tar; it",
        ),
    ],
)
def test_a_module_is_a_line_of_a_plan_and_a_step(module: ModuleBase, words: str, by_hand: str) -> None:
    found: Description = module.describe()
    assert found.words == words
    assert by_hand in found.by_hand
