"""Every lie of the lab: no command does harm, and each does what the table of the reference says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import CommandLine
from tests.extent import each
from tests.lies.acts import ACTS, APART, act_of
from tests.lies.judge import ASKED, cells, honest_run, play
from tests.lies.stage import Stage
from vgpu_cfg.documents import dump, parse_text
from vgpu_cfg.lab.estates.lies import LIES
from vgpu_cfg.settings.connection import LAB_PASSWORD

OUTCOMES = Path(__file__).parent / "outcomes.yaml"
WHY = "every lie of the lab, and every scene: tests/lies"
SHORT = (
    "clone-honours-config-spec",
    "disabled-alarm-expression",
    "graphics-info-shows-the-gpu",
    "vmx-options-ignore-case",
)
QUICK = ("history", "at once", "own folder", "other GPU")


@pytest.fixture
def vgpu_cfg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("ESXI_PASSWORD", LAB_PASSWORD)
    return CommandLine(folder, monkeypatch)


def outcomes() -> dict[str, dict[str, str]]:
    found: Any = parse_text(OUTCOMES.read_text(encoding="utf-8"), OUTCOMES.name).root.value
    return dict(found)


def hold(belief: str, found: dict[str, str]) -> None:
    """Compare a row with the stored one, or store it."""
    if not os.environ.get("REWRITE_PAGES"):
        assert outcomes().get(belief, {}) | found == outcomes()[belief]
        return
    kept = outcomes()
    kept[belief] = kept.get(belief, {}) | found
    kept = {lie: kept[lie] for lie in LIES if lie in kept}
    OUTCOMES.write_text(dump(kept), encoding="utf-8")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "belief", each(((lie,) for lie in LIES if lie not in APART), WHY, lambda lie: lie in SHORT, one_of=48)
)
def test_no_lie_does_harm(belief: str, vgpu_cfg: CommandLine) -> None:
    stage = Stage.build(vgpu_cfg, belief)
    played = play(stage)
    hold(belief, cells(played, honest_run(), stage, belief))
    assert not ASKED & {*APART, "software.sources.vib.list", "software.vib.install"}, "a lie is not apart"


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("act", "belief"),
    each(
        ((act, belief) for act in ACTS for belief in ACTS[act].beliefs),
        WHY,
        lambda act, belief: belief == ACTS[act].beliefs[0] and act in QUICK,
        one_of=15,
    ),
)
def test_nor_where_it_matters_most(
    act: str, belief: str, vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stage = Stage.build(vgpu_cfg, belief)
    hold(belief, {act: act_of(act, stage, monkeypatch, tmp_path)})
    stage.look()
    stage.see_no_harm()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("act", each(((act,) for act in ACTS), WHY, lambda act: act in QUICK, one_of=3))
def test_an_honest_lab_is_judged_right(
    act: str, vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert act_of(act, Stage.build(vgpu_cfg), monkeypatch, tmp_path) == "right"
