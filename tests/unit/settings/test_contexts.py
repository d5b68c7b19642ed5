"""Several contexts: which ones words mean, and how their logins are fetched before anything is read."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from vgpu_cfg.errors import LoginFailed, NotFound, VgpuCfgError
from vgpu_cfg.settings.connection import Connection, FetchedLogins, servers_of_contexts

CONFIG = """
contexts:
  prod-b: {server: vc02.example.com}
  prod-a: {server: vc01.example.com}
  campus: {server: vc.uni.example}
  "odd[1]": {server: vc09.example.com}
"""


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    monkeypatch.setenv("VGPU_CFG_CONFIG", str(path))
    return path


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["prod-*"], ["prod-b", "prod-a"]),
        (["campus", "prod-*"], ["campus", "prod-b", "prod-a"]),
        (["prod-a", "prod-*"], ["prod-a", "prod-b"]),
        (["PROD-?"], ["prod-b", "prod-a"]),
        (["odd[1]"], ["odd[1]"]),
        (["*"], ["prod-b", "prod-a", "campus", "odd[1]"]),
    ],
)
def test_words_mean_contexts_each_once(words: list[str], meant: list[str]) -> None:
    assert list(servers_of_contexts(words)) == meant


def test_each_has_its_server() -> None:
    assert servers_of_contexts(["prod-*"]) == {"prod-b": "vc02.example.com", "prod-a": "vc01.example.com"}


@pytest.mark.parametrize(("word", "close"), [("prd-*", ""), ("prod-c", "prod-"), ("zz*", "")])
def test_a_word_that_means_none_is_told_with_those_that_there_are(word: str, close: str) -> None:
    with pytest.raises(VgpuCfgError, match=r"no context matches") as refused:
        servers_of_contexts(["campus", word])
    error = refused.value
    assert (error.exit_code, error.remedy) == (3, "available: prod-b, prod-a, campus, odd[1]")
    assert ("did you mean 'prod-" in str(error.faults[0])) == bool(close)  # type: ignore[attr-defined]  # a DocumentError


def test_without_a_config_file_there_is_none(config: Path) -> None:
    config.unlink()
    with pytest.raises(NotFound, match="no context matches 'prod-"):
        servers_of_contexts(["prod-*"])


# ---------------------------------------------------------------- their logins


def at(server: str, *sources: str, user: str = "me") -> Connection:
    return Connection(server=server, user=user, password_sources=sources)


def test_standard_input_is_read_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("hunter2\n"))
    fetched: FetchedLogins = {}
    found = [at(server, "file:-").with_login(fetched) for server in ("vc01", "vc02")]
    assert [one.password() for one in found] == ["hunter2", "hunter2"]


def test_one_is_asked_for_each_server_and_user_and_not_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return f"secret {len(asked)}"

    monkeypatch.setattr("getpass.getpass", answer)
    fetched: FetchedLogins = {}
    first = at("vc01", "prompt")
    others = [replace(first, datacenter="dc2"), at("vc02", "prompt"), at("vc01", "prompt", user="you")]
    found = [one.with_login(fetched) for one in (first, *others)]
    assert [one.password() for one in found] == ["secret 1", "secret 1", "secret 2", "secret 3"]
    assert [one.password() for one in found] == ["secret 1", "secret 1", "secret 2", "secret 3"]
    assert len(asked) == 3


def test_what_is_not_fetched_before_is_fetched_when_it_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("A_PASSWORD", "old")
    late, early = at("vc01", "env:A_PASSWORD"), at("vc01", "env:A_PASSWORD").with_login({})
    monkeypatch.setenv("A_PASSWORD", "new")
    assert (late.password(), early.password()) == ("new", "old")
    assert "old" not in repr(early)


def test_a_token_is_fetched_before_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "saml")
    connection = Connection(server="vc01", token_source="env:A_TOKEN").with_login({})
    monkeypatch.delenv("A_TOKEN")
    assert connection.token() == "saml"
    with pytest.raises(LoginFailed, match="token not found"):
        Connection(server="vc01", token_source="env:A_TOKEN").with_login({})
