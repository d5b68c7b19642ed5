"""Evidence that users sent gives the verdicts that it came with, and fills the page of builds and boards."""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.cli.command_line import CommandLine
from tests.recorded.make import EVIDENCE
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows.doctor_flow import read_to_examine
from vgpu_cfg.model.verdicts import Verdict, VerdictFile
from vgpu_cfg.plan_loading.side_files import read_verdicts, verdicts_text
from vgpu_cfg.planning.doctor.patient import Patient
from vgpu_cfg.planning.doctor.tried import try_beliefs
from vgpu_cfg.recording import PlayingTransport, RecordingTransport, load_recording, save_recording
from vgpu_cfg.recording.anonymous import Anonymous
from vgpu_cfg.settings.connection import resolve_connection
from vgpu_cfg.settings.flags import ConnectionFlags
from vgpu_cfg.testing import RecordedVCenter
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.leaves import api_words
from vgpu_cfg.vsphere.wire.session import Session

FOLDERS = sorted(path for path in EVIDENCE.iterdir() if path.is_dir())
PAGE = ROOT / "docs/reference/evidence.md"
LARGEST = 300_000
READ_AT = datetime(2026, 11, 20, tzinfo=UTC)
HEAD = """# Evidence

This page lists the builds and boards on which vgpu-cfg's [assumptions](beliefs.md) were tested, from
[evidence](../how-to/send-evidence.md) that the test suite replays. **All of it is from the lab, a simulator.
There is no evidence from a real vCenter yet.**

A test generates this page from `tests/recorded/evidence/`.

| Source | vCenter | ESXi | Drivers | Boards | Hold | Do not | Not tried |
|---|---|---|---|---|---|---|---|
"""


@pytest.fixture
def vgpu_cfg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch)


def recording(folder: Path) -> Path:
    return folder / "recording.json.gz"


def by_reading(found: VerdictFile) -> dict[str, tuple[Verdict, str]]:
    return {key: (row.verdict, row.seen) for key, row in found.beliefs.items() if row.by == "reading"}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_recording_gives_the_verdicts_that_it_came_with(folder: Path, vgpu_cfg: CommandLine) -> None:
    sent = read_verdicts(folder / "verdicts.yaml")
    vgpu_cfg.done("doctor", "--from", recording(folder), "--save", "again.yaml")
    again = read_verdicts(Path("again.yaml"))
    if os.environ.get("REWRITE_PAGES"):
        rows = {**again.beliefs} | {key: row for key, row in sent.beliefs.items() if row.by != "reading"}
        sent = sent.model_copy(update={"beliefs": dict(sorted(rows.items())), "hosts": again.hosts})
        (folder / "verdicts.yaml").write_text(verdicts_text(sent), encoding="utf-8")
    found = by_reading(again)
    assert {key: found[key] for key in by_reading(sent)} == by_reading(sent)
    assert (again.vcenter, again.hosts) == (sent.vcenter, sent.hosts)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_evidence_is_two_small_files_that_pytest_can_play(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["recording.json.gz", "verdicts.yaml"]
    assert recording(folder).stat().st_size < LARGEST
    assert RecordedVCenter(recording(folder)).name == "recording.json.gz"


def row_of(folder: Path) -> str:
    found = read_verdicts(folder / "verdicts.yaml")
    counts = Counter(row.verdict for row in found.beliefs.values())
    hosts = found.hosts
    cells = [
        f"`{folder.name}`",
        f"{found.vcenter.version} ({found.vcenter.build})",
        ", ".join(sorted({f"{one.esxi} ({one.build})" for one in hosts})),
        ", ".join(sorted({one.driver.partition("-")[0] for one in hosts if one.driver})),
        ", ".join(sorted({board for one in hosts for board in one.boards})),
        *(str(counts[verdict]) for verdict in Verdict),
    ]
    return f"| {' | '.join(cells)} |"


def test_the_page_lists_all_evidence() -> None:
    wanted = HEAD + "\n".join(map(row_of, FOLDERS)) + "\n"
    if os.environ.get("REWRITE_PAGES"):
        PAGE.write_text(wanted, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == wanted


def test_the_page_calls_evidence_a_simulators_only_if_it_is() -> None:
    assert all(folder.name.startswith("lab-") for folder in FOLDERS), "say in HEAD what is real now"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "tests/recorded/recordings").iterdir()), ids=lambda path: path.name
)
def test_any_recording_gives_the_same_verdicts_without_its_names(path: Path, tmp_path: Path) -> None:
    anonymous = RecordingTransport(PlayingTransport(load_recording(path)), "vcenter", Anonymous(api_words()))
    with Session(anonymous, "vcenter", "reader", "secret") as session:
        VCenterReader(session, compose.SystemClock()).read_everything()
    kept = tmp_path / "kept.json"
    save_recording(anonymous.recording(READ_AT), kept)
    assert verdicts_on(kept) == verdicts_on(path)


def verdicts_on(path: Path) -> dict[str, Verdict]:
    observed = read_to_examine(resolve_connection(ConnectionFlags(recording=path)))
    return {one.belief: one.verdict for one in try_beliefs(Patient(observed, load_catalog()))}
