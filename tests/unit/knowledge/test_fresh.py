"""What `explain` answers to texts that were collected from reports: nothing wrong, and much right."""

from __future__ import annotations

from tests.architecture.sources import ROOT
from tests.unit.knowledge.fresh import SETS, measured, summary, texts, unrelated
from vgpu_cfg.knowledge.collecting import WHERE_TO_LOOK, what_to_collect
from vgpu_cfg.knowledge.faults import count_known, explain_text, explanation_of

README = ROOT / "tests" / "README.md"


def test_answers_are_right_and_recall_is_not_lost() -> None:
    wrong = [(one.says, one.cause) for name in SETS for one in texts(name) if one.answer == "wrong"]
    assert wrong == []
    assert measured("first")[1] >= 0.95
    assert measured("held_out")[1] >= 0.6
    assert all(measured(name)[1] >= 0.95 for name in ("third", "fourth", "fifth"))
    assert measured("sixth")[1] >= 0.75
    for name in ("seventh", "eighth", "ninth", "tenth", "twelfth", "thirteenth", "fourteenth"):
        assert measured(name)[1] >= 0.95, name
    assert measured("eleventh")[1] >= 0.9
    assert [key for name in SETS for one in texts(name) for key in one.rows if not explanation_of(key)] == []


def test_enough_was_measured_and_the_docs_have_the_figures() -> None:
    least = {
        "first": 60,
        "held_out": 30,
        "third": 40,
        "fourth": 40,
        "fifth": 40,
        "sixth": 50,
        "seventh": 60,
        "eighth": 60,
        "ninth": 45,
        "tenth": 30,
        "eleventh": 18,
        "twelfth": 40,
        "thirteenth": 40,
        "fourteenth": 40,
    }
    assert [name for name in SETS if len(texts(name)) < least[name]] == []
    assert count_known() >= 400
    page = README.read_text(encoding="utf-8")
    assert [line for line in summary() if f"\n* {line}\n" not in page] == []


def test_lines_of_other_things_stay_unknown() -> None:
    lines = unrelated()
    assert len(lines) >= 200
    assert {line: found for line in lines if (found := explain_text(line))} == {}


def test_what_is_unknown_says_what_to_collect_by_its_kind() -> None:
    kinds = {
        "NVRM: something new 0x4711": "dmesg",
        "NCCL WARN something new": "NCCL_DEBUG=INFO",
        "slurmd: error: something new": "scontrol show node",
        "nvidia-container-cli: something new": "nvidia-container-cli -k -d /dev/tty info",
        "vim.fault.SomethingNew": "error stack",
        "无法执行某个新操作": "English",
    }
    assert [text for text, word in kinds.items() if word not in " ".join(what_to_collect(text)[1])] == []
    assert what_to_collect("The flux capacitor is empty.") == ("", WHERE_TO_LOOK)


def test_an_unknown_number_has_no_other_numbers_meaning() -> None:
    for text in (
        "NCCL WARN NET/IB : Got completion with status=77 opcode=0",
        "NCCL WARN NET/IB : Got completion with error 120, opcode 0",
        "CUDA error 70199",
        "VIX error code 2999",
    ):
        assert explain_text(text) == (), text
