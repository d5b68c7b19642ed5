"""The table of versions, and the page that is written from it. `REWRITE_PAGES=1` writes it anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.architecture.sources import ROOT
from tests.page_tables import hold_table
from vgpu_cfg.catalog.version_pairs import (
    Effect,
    VersionPair,
    contents_of,
    load_version_pairs,
    version_number,
    version_pair,
)

PAGE = ROOT / "docs" / "reference" / "versions.md"


def span(least: str, most: str) -> str:
    if least == most or not most:
        return f"{least} and later" if not most and least else least
    return f"{least} to {most}" if least else f"up to {most}"


def lines(pair: VersionPair) -> Iterator[str]:
    where = f" in {pair.where}" if pair.where else ""
    yield f"\n## {pair.what} {pair.effect} {pair.other}{where}\n"
    source = "from memory" if pair.source == pair.basis else pair.source
    yield f"{pair.means[0].upper()}{pair.means[1:]}. Source ({pair.basis}, {pair.read}): {source}.\n"
    if pair.rows[0].model_dump(exclude_defaults=True):
        yield f"| {pair.what} | {pair.other} | Source |\n|---|---|---|"
    for row in pair.rows:
        if row.model_dump(exclude_defaults=True):
            basis = f"{row.source} ({row.basis})" if row.source else ""
            exact = pair.effect in (Effect.CONTAINS, Effect.RELEASED_WITH)
            other = row.needs if exact else span(row.needs, row.needs_until)
            yield f"| {span(row.since, row.until) or 'all'} | {other} | {basis} |".replace("  |", " |")


def test_the_page() -> None:
    hold_table(PAGE, "\n".join(line for pair in load_version_pairs() for line in lines(pair)).strip())


def test_rows_are_in_order_and_each_pair_is_there_once() -> None:
    names = [(pair.what, pair.effect, pair.other) for pair in load_version_pairs()]
    assert len(set(names)) == len(names)
    for pair in load_version_pairs():
        starts = [version_number(row.since) for row in pair.rows]
        assert starts == sorted(set(starts)), pair.what
        assert all((row.source == "") == (row.basis is None) for row in pair.rows), pair.what


@pytest.mark.parametrize(
    ("what", "effect", "other", "version", "needs"),
    [
        ("CUDA", Effect.REQUIRES, "guest driver", "12.9.1", "525"),
        ("CUDA", Effect.REQUIRES, "guest driver", "14.0", None),
        ("CUDA", Effect.RELEASED_WITH, "guest driver", "12.8", "570"),
        ("CUDA", Effect.RELEASED_WITH, "guest driver", "12.7", None),
        ("NCCL", Effect.REQUIRES, "unified memory", "2.23.4", ""),
        ("NCCL", Effect.REQUIRES, "unified memory", "2.22.3", None),
        ("PyTorch", Effect.EXCLUDES, "Horovod", "2.1.0", ""),
        ("PyTorch", Effect.EXCLUDES, "Horovod", "2.0.1", None),
    ],
)
def test_the_row_of_a_version(what: str, effect: Effect, other: str, version: str, needs: str | None) -> None:
    row = version_pair(what, effect, other).at(version)
    assert (row.needs if row is not None else None) == needs


def test_which_versions_a_row_accepts() -> None:
    (horovod,) = version_pair("PyTorch", Effect.EXCLUDES, "Horovod").rows
    (operator,) = version_pair("gpu-operator", Effect.TESTED_WITH, "NVIDIA driver").rows
    assert [one for one in ("0.28.0", "0.28.1", "0.29.0") if horovod.accepts(one)] == ["0.28.0", "0.28.1"]
    assert [one for one in ("550", "570", "580", "595") if operator.accepts(one)] == ["570", "580"]


@pytest.mark.parametrize(
    ("image", "cuda", "nccl"),
    [
        ("nvcr.io/nvidia/pytorch:25.06-py3", "12.9.1", "2.27.3"),
        ("nvcr.io/nvidia/pytorch:25.07-py3", "12.9.1", "2.27.3"),
        ("mirror.corp:5000/nvidia/pytorch:24.10-py3", "12.6.2", "2.22.3"),
        ("nvcr.io/nvidia/tensorflow:21.07-tf1-py3", "11.3.1", "2.9.9"),
        ("nvcr.io/nvidia/tensorflow:20.10-tf1-py3", "", ""),
        ("nvcr.io/nvidia/pytorch:25.06-py3@sha256:0b1c", "12.9.1", "2.27.3"),
        ("pytorch/pytorch:2.7.0-cuda12.6-cudnn9-runtime", "12.6", "2.26.2"),
        ("docker.io/pytorch/pytorch:2.2.1-cuda11.8-cudnn8-devel", "11.8", "2.19.3"),
        ("registry.corp/train:25.06-py3", "", ""),
        ("nvcr.io/nvidia/pytorch", "", ""),
    ],
)
def test_what_a_tag_tells(image: str, cuda: str, nccl: str) -> None:
    found = contents_of(image)
    assert (found.cuda, found.nccl) == (cuda, nccl)
    assert found.torch == (
        "" if "pytorch/pytorch" not in image else image.partition(":")[2].partition("-")[0]
    )
