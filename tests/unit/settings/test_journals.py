"""Where journals go besides this machine, and which contexts want a change to be named."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from vgpu_cfg.cli.options.running import refuse_unstated
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.model.choices import Occasion
from vgpu_cfg.settings.connection import resolve_connection
from vgpu_cfg.settings.flags import ConnectionFlags
from vgpu_cfg.settings.journals import JournalSettings, SyslogTarget, journal_settings

CONTEXTS = r"""
contexts:
  prod: {server: vc01.example.com, user: me, require_change: true, change_pattern: 'CHG\d+'}
  form: {server: vc02.example.com, user: me, change_pattern: 'CHG\d+'}
  free: {server: vc03.example.com, user: me}
"""


def configure(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    monkeypatch.setenv("VGPU_CFG_CONFIG", str(path))
    for name in ("JOURNAL_FOLDER", "SYSLOG"):
        monkeypatch.delenv(f"VGPU_CFG_{name}", raising=False)
    return path


def test_journals_stay_here_unless_somebody_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure("{}", tmp_path, monkeypatch)
    assert journal_settings() == JournalSettings()


def test_a_variable_goes_before_the_config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure("journal_folder: /mnt/runs\nsyslog: tcp://loghost\n", tmp_path, monkeypatch)
    assert journal_settings() == JournalSettings(Path("/mnt/runs"), SyslogTarget("tcp", "loghost", 514))
    monkeypatch.setenv("VGPU_CFG_JOURNAL_FOLDER", "/other")
    monkeypatch.setenv("VGPU_CFG_SYSLOG", "unix:/dev/log")
    assert journal_settings() == JournalSettings(Path("/other"), SyslogTarget("unix", "/dev/log"))


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("udp://10.0.0.7:1514", SyslogTarget("udp", "10.0.0.7", 1514)),
        ("tcp://[fd00::1]:601", SyslogTarget("tcp", "fd00::1", 601)),
        ("udp://loghost/", SyslogTarget("udp", "loghost", 514)),
    ],
)
def test_a_syslog_server_is_an_address(
    text: str, target: SyslogTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("{}", tmp_path, monkeypatch)
    monkeypatch.setenv("VGPU_CFG_SYSLOG", text)
    assert journal_settings().syslog == target


@pytest.mark.parametrize(
    "text", ["loghost", "tls://loghost:6514", "udp://loghost:0", "udp://a b", "unix:log"]
)
def test_what_is_none_is_told_with_its_place(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = configure(f"current: prod\nsyslog: {text!r}\n", tmp_path, monkeypatch)
    with pytest.raises(DocumentError, match="is not a valid syslog address") as met:
        journal_settings()
    assert met.value.subject == f"{path}:2:9"
    monkeypatch.setenv("VGPU_CFG_SYSLOG", text)
    with pytest.raises(DocumentError) as met:
        journal_settings()
    assert met.value.subject.startswith("VGPU_CFG_SYSLOG:")


def test_a_pattern_that_is_none_is_a_fault_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "contexts:\n  prod: {server: vc01.example.com, change_pattern: 'CHG('}\n"
    configure(text, tmp_path, monkeypatch)
    with pytest.raises(DocumentError, match="this is not a valid regular expression"):
        resolve_connection(ConnectionFlags(context="prod"))


@pytest.mark.parametrize(
    ("server", "change", "refusal"),
    [
        ("vc01.example.com", "", "the context prod .* requires a change ID; .* matching CHG"),
        ("VC01.example.com:443", "CHGx", "'CHGx' does not match the change pattern .* of the context prod"),
        ("vc01.example.com", "CHG42 and more", "does not match the change pattern"),
        ("vc01.example.com", "CHG42", ""),
        ("vc02.example.com", "", ""),
        ("vc02.example.com", "42", "does not match the change pattern .* of the context form"),
        ("vc03.example.com", "", ""),
    ],
)
def test_every_context_of_a_server_counts_however_it_is_named(
    server: str, change: str, refusal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(CONTEXTS, tmp_path, monkeypatch)
    connection = resolve_connection(ConnectionFlags(server=server, user="me"))
    if not refusal:
        refuse_unstated(connection, Occasion(change))
        return
    with pytest.raises(typer.BadParameter, match=refusal):
        refuse_unstated(connection, Occasion(change))
