"""Doctor is judged by sick and healthy estates, planted by a writer who has not read its rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.sections import section
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.cli.flows.doctor_flow import read_to_examine
from vgpu_cfg.planning.doctor.ailments import Ailment
from vgpu_cfg.planning.doctor.examine import Health, examine
from vgpu_cfg.render.text.doctor import render_health
from vgpu_cfg.settings.connection import resolve_connection
from vgpu_cfg.settings.flags import ConnectionFlags

HERE = Path(__file__).parent
UNTIL_NOW = re.compile(r"for \d+ h( \d+ min)?")
EXAMINED = HERE / "examined.txt"
SICK = sorted(path for path in (HERE / "sick").glob("*.yaml") if ".truth" not in path.name)
HEALTHY = sorted(path for path in (HERE / "healthy").glob("*.yaml") if ".truth" not in path.name)
MISSED = {
    "bank-14": {"ATS off on the host"},
    "provider-40": {"promised more than there is"},
}
"""Planted, and not found: the list only gets shorter."""


@cache
def health_of(estate: str) -> Health:
    observed = read_to_examine(resolve_connection(ConnectionFlags(server=f"lab:{estate}")))
    return examine(observed, load_catalog(), ("--server", f"lab:{estate}"))


def load(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


def truth_of(path: Path) -> dict[str, Any]:
    truth: dict[str, Any] = load(path.with_suffix(".truth.yaml"))
    return truth


def clusters_of(path: Path) -> dict[str, str]:
    """Return the cluster of each host."""
    return {
        name: cluster["name"]
        for cluster in load(path)["clusters"]
        for host in cluster["hosts"]
        for name in host.get("names", [host.get("name")])
    }


def about(ailment: Ailment, clusters: Mapping[str, str]) -> Iterator[str]:
    """Yield the names that an ailment is about: of its subject, host and cluster, and those it mentions."""
    host = ailment.name.partition("/")[0]
    yield from (ailment.name, host, clusters.get(host, ""))
    yield from (word.strip(",;:") for word in ailment.says.split())


def is_of(ailment: Ailment, entry: dict[str, Any], clusters: Mapping[str, str]) -> bool:
    name = entry["object"].partition(":")[2] or entry["object"]
    return name in set(about(ailment, clusters)) or ailment.name in entry.get("what", "")


@pytest.mark.parametrize("path", SICK, ids=lambda path: path.stem)
def test_what_was_planted_is_found(path: Path) -> None:
    found, clusters = health_of(str(path)).ailments, clusters_of(path)
    sick = truth_of(path)["sick"]
    missed = {entry["kind"] for entry in sick if not any(is_of(one, entry, clusters) for one in found)}
    assert missed == MISSED.get(path.stem, set())


@pytest.mark.parametrize("path", SICK, ids=lambda path: path.stem)
def test_nothing_is_invented(path: Path) -> None:
    truth, clusters, found = truth_of(path), clusters_of(path), health_of(str(path)).ailments
    known = [*truth["sick"], *truth.get("follows", ())]
    invented = [one.subject for one in found if not any(is_of(one, each, clusters) for each in known)]
    healthy = {entry if isinstance(entry, str) else entry["object"] for entry in truth["not"]}
    assert not healthy & {one.subject for one in found}
    assert not invented


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.stem)
def test_a_healthy_estate_has_nothing(path: Path) -> None:
    assert health_of(str(path)).ailments == ()


@pytest.mark.parametrize("path", [*SICK, *HEALTHY], ids=lambda path: path.stem)
def test_the_examination_is_as_it_is_stored(path: Path) -> None:
    """Compare all that is found and counted; REWRITE_TRANSCRIPTS=1 writes it anew."""
    health = health_of(str(path))
    counts = f"{health.hosts} hosts, {health.gpus} GPUs, {health.vms} VMs; unread: {'; '.join(health.unread)}"
    rows = [
        f"{one.kind.name} {one.subject}: {one.says} | {one.owner} | {one.command}" for one in health.ailments
    ]
    beliefs = [f"{one.verdict.value}: {one.belief}: {one.seen}" for one in health.tried if one.seen]
    text = "\n".join([counts, *rows, *beliefs]).replace(str(path), "ESTATE")
    text = UNTIL_NOW.sub("for a time", text)
    assert text == section(EXAMINED, path.stem, text)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("estate", [*map(str, SICK), "mixed-fleet", "bare", "fleet-300x5-1200vms"])
@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_one_screen(estate: str, width: int) -> None:
    assert len(render_health(health_of(estate), "vc01.example.com", width)) <= 50
