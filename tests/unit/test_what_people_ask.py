"""The page of what people ask claims nothing that is not there."""

from __future__ import annotations

import re

from tests.architecture.sources import ROOT
from tests.unit.test_docs import COMMANDS, options_of
from vgpu_cfg.knowledge.faults import explanation_of

PAGE = (ROOT / "docs" / "explanation" / "what-people-ask.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, re.MULTILINE)
KEYS = re.findall(r"keys? ((?:`[a-z_: ]+`(?:, | and | with | of )?)+)", PAGE)


def test_it_lists_the_twenty_five_and_says_how_far_each_is_served() -> None:
    assert [int(number) for number, _ in ROWS] == list(range(1, 26))
    for number, row in ROWS:
        asked, read, served, by = row.split(" | ")
        assert served in {"yes", "partly", "not"}, number
        assert all((asked, read, by))


def test_every_command_that_it_names_is_there_with_its_options() -> None:
    named = re.findall(r"`(vgpu-cfg [a-z-]+(?: list)?)([^`]*)`", PAGE)
    assert len(named) > 15
    for name, rest in named:
        assert name in COMMANDS, name
        assert set(re.findall(r"--[a-z-]+", rest)) <= options_of(COMMANDS[name]), name
        if name == "vgpu-cfg explain" and re.fullmatch(r" [a-z][a-z-]+", rest):
            assert explanation_of(rest.strip()) is not None, rest


def test_every_key_that_it_names_is_one_of_the_plan_file() -> None:
    reference = (ROOT / "docs" / "reference" / "plan-file.md").read_text(encoding="utf-8")
    keys = {key.partition(":")[0] for group in KEYS for key in re.findall(r"`([a-z_: ]+)`", group)}
    assert {"gpus", "numa", "nvlink", "cluster_options", "training"} <= keys
    for key in keys:
        assert re.search(rf"^\| (`\w+`, )*`{key}`", reference, re.MULTILINE), key


def test_it_is_found_from_the_list_of_pages() -> None:
    assert "(explanation/what-people-ask.md)" in (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
