"""Who is called at the end of a long command, and where it asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.cli.notice import call_for_an_answer, calling

CALLED = '#!/bin/sh\necho "$VGPU_CFG_EVENT|$VGPU_CFG_EXIT_CODE|$*" >> called.txt\n'


@pytest.fixture
def caller(vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a command that writes down how it was called."""
    monkeypatch.chdir(vgpu_cfg.folder)
    path = vgpu_cfg.folder / "caller"
    path.write_text(CALLED, encoding="utf-8")
    path.chmod(0o700)
    return path


def called(caller: Path) -> list[str]:
    written = caller.with_name("called.txt")
    return written.read_text(encoding="utf-8").splitlines() if written.exists() else []


def test_somebody_is_called_once_it_is_done(vgpu_cfg: CommandLine, caller: Path) -> None:
    vgpu_cfg.done("apply", "examples/four-10c.yaml", "--yes", "--notify", f"{caller} --urgent")
    (line,) = called(caller)
    assert line.startswith("ended|0|--urgent ")
    assert line.endswith(": done")


def test_an_error_is_told_in_its_own_words(vgpu_cfg: CommandLine, caller: Path) -> None:
    ran = vgpu_cfg("apply", "no.yaml", "--yes", "--notify", str(caller))
    (line,) = called(caller)
    assert ran.code == 3
    assert line.startswith("ended|3|")
    assert "no.yaml" in line


def test_the_bell_rings_at_the_question_and_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    with calling("bell", "vgpu-cfg apply"):
        call_for_an_answer("Go on?")
        assert capsys.readouterr().err == "\a"
    assert capsys.readouterr().err == "\a"


def test_nobody_is_called_who_did_not_ask(capsys: pytest.CaptureFixture[str]) -> None:
    with calling(None, "vgpu-cfg apply"):
        call_for_an_answer("Go on?")
    call_for_an_answer("And now?")
    assert capsys.readouterr().err == ""


def test_who_is_called_does_not_get_the_login(caller: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGPU_CFG_PASSWORD", "secret")
    caller.write_text("#!/bin/sh\nenv > called.txt\n", encoding="utf-8")
    with calling(str(caller), "vgpu-cfg apply"):
        pass
    given = "\n".join(called(caller))
    assert "VGPU_CFG_EVENT=ended" in given
    assert "secret" not in given


def test_ctrl_c_is_told_and_goes_on(caller: Path) -> None:
    with pytest.raises(KeyboardInterrupt), calling(str(caller), "vgpu-cfg apply"):
        raise KeyboardInterrupt
    assert called(caller) == ["ended|130|vgpu-cfg apply: interrupted"]


@pytest.mark.parametrize("notify", ["no-such-command", "false"])
def test_one_who_cannot_be_called_changes_nothing(notify: str, capsys: pytest.CaptureFixture[str]) -> None:
    with calling(notify, "vgpu-cfg apply"):
        pass
    assert "--notify: the command could not be run" in capsys.readouterr().err


@pytest.mark.parametrize("notify", ["", "it's"])
def test_what_is_no_command_line_is_refused_before_anything(
    notify: str, vgpu_cfg: CommandLine, caller: Path
) -> None:
    assert vgpu_cfg("apply", "examples/four-10c.yaml", "--yes", "--notify", notify).code == 2
    assert called(caller) == []
