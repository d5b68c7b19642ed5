from __future__ import annotations

import builtins
import io
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from vgpu_cfg.errors import LoginFailed
from vgpu_cfg.model.plan_values import SecretReference
from vgpu_cfg.settings.secrets import SecretStore, ask_password, read_keyring, resolve_reference

SECRET = "hunter2"
HERE = Path()


class Store(KeyringBackend):
    """A key store in memory."""

    priority = 1

    def __init__(self) -> None:
        self.works = True
        self.entries: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        if not self.works:
            raise KeyringLocked
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password


@pytest.fixture
def store() -> Iterator[Store]:
    before = keyring.get_keyring()
    made = Store()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


def python(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


# ---------------------------------------------------------------- env


@pytest.mark.parametrize(("value", "found"), [(SECRET, SECRET), ("", None), (None, None)])
def test_a_variable(monkeypatch: pytest.MonkeyPatch, value: str | None, found: str | None) -> None:
    if value is not None:
        monkeypatch.setenv("A_KEY", value)
    assert resolve_reference("env:A_KEY", HERE) == found


# ---------------------------------------------------------------- file


@pytest.mark.parametrize(
    ("content", "found"),
    [(f"{SECRET}\n", SECRET), (f"{SECRET}\r\n", SECRET), (f" {SECRET} ", f" {SECRET} "), ("a\nb\n", "a\nb")],
)
def test_a_file_without_the_line_break_at_its_end(tmp_path: Path, content: str, found: str) -> None:
    path = tmp_path / "key"
    path.write_bytes(content.encode())
    assert resolve_reference(f"file:{path}", HERE) == found


def test_a_file_in_the_home_folder(home: Path) -> None:
    (home / "key").write_text(SECRET, encoding="utf-8")
    assert resolve_reference("file:~/key", HERE) == SECRET


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{SECRET}\n"))
    assert resolve_reference("file:-", HERE) == SECRET


@pytest.mark.parametrize("make", [lambda path: None, Path.mkdir, lambda path: path.write_bytes(b"\xff\xfe")])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, make: Callable[[Path], object]) -> None:
    path = tmp_path / "key"
    make(path)
    with pytest.raises(LoginFailed) as caught:
        resolve_reference(f"file:{path}", HERE)
    assert caught.value.subject == str(path)


posix = pytest.mark.skipif(os.name != "posix", reason="such pipes and devices are POSIX's")


@posix
@pytest.mark.parametrize("kind", ["file", "age"])
def test_a_plans_file_that_never_ends_is_not_read(tmp_path: Path, kind: Literal["file", "age"]) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (str(tmp_path / "pipe"), "/dev/zero"):
        store = SecretStore({"mine": SecretReference(kind=kind, value=path)}, tmp_path)
        with pytest.raises(LoginFailed, match="it is a pipe, socket or device"):
            store.find("mine")


def test_a_plans_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    with (tmp_path / "key").open("wb") as file:
        file.truncate((1 << 19) + 1)
    reference = SecretReference(kind="file", value=str(tmp_path / "key"))
    with pytest.raises(LoginFailed, match="exceeds 524,288 bytes"):
        SecretStore({"mine": reference}, tmp_path).find("mine")


@posix
def test_a_pipe_of_ones_own_shell_is_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, f"{SECRET}\n".encode())
    os.close(writing)
    assert resolve_reference(f"file:/dev/fd/{reading}", HERE) == SECRET
    os.close(reading)


# ---------------------------------------------------------------- keyring


def test_an_entry_by_name_and_the_account_of_a_server(store: Store) -> None:
    store.set_password("vgpu-cfg", "vc01", SECRET)
    store.set_password("vgpu-cfg:vc01.example.com", "me", "other")
    assert resolve_reference("keyring:vc01", HERE) == SECRET
    assert read_keyring("vc01.example.com", "me") == "other"
    assert resolve_reference("keyring:vc02", HERE) is None
    assert read_keyring("vc01.example.com", "you") is None


def test_a_key_store_that_does_not_work_has_nothing(store: Store) -> None:
    store.set_password("vgpu-cfg", "vc01", SECRET)
    store.works = False
    assert resolve_reference("keyring:vc01", HERE) is None


def test_without_the_extra_there_is_no_key_store(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_keyring(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "keyring":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_keyring)
    assert resolve_reference("keyring:vc01", HERE) is None


# ---------------------------------------------------------------- command


def test_a_command_gives_its_first_line() -> None:
    assert resolve_reference("command:" + python(f"print('{SECRET}'); print('more')"), HERE) == SECRET


def test_a_command_does_not_get_the_login_at_vcenter(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VGPU_CFG_PASSWORD", "VGPU_CFG_TOKEN", "A_KEY"):
        monkeypatch.setenv(name, SECRET)
    asked = python(f"import os; print([name for name in os.environ if os.environ[name] == '{SECRET}'])")
    assert resolve_reference(f"command:{asked}", HERE) == "['A_KEY']"


def test_a_command_is_given_to_no_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("A_KEY", SECRET)
    told = "command:" + python("import sys; print(sys.argv[1:])") + " $A_KEY ; touch made > made '*' `id`"
    words = ["$A_KEY", ";", "touch", "made", ">", "made", "*", "`id`"]
    assert resolve_reference(told, HERE) == str(words)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "words",
    [
        f"no-such-program-anywhere {SECRET}",
        python(f"import sys; print('{SECRET}'); sys.exit('{SECRET}')"),
        f"{sys.executable} 'never closed {SECRET}",
        " ",
    ],
)
def test_a_command_that_fails_is_named_without_what_it_was_told_or_said(words: str) -> None:
    with pytest.raises(LoginFailed) as caught:
        resolve_reference(f"command:{words}", HERE)
    error = caught.value
    assert error.subject == words.strip().partition(" ")[0]
    assert SECRET not in f"{error.message} {error.subject} {error.remedy}"


def test_a_plans_command_is_run_once_and_only_where_it_is_asked_for(tmp_path: Path) -> None:
    counted = python(f"print(open({str(tmp_path / 'runs')!r}, 'a').write('x'))")
    references = {
        "told": SecretReference(kind="command", value=counted),
        "absent": SecretReference(kind="env", value="NO_SUCH_VARIABLE"),
    }
    store = SecretStore(references, tmp_path)
    assert store.find("told") is None
    with pytest.raises(LoginFailed, match="does not run commands from a plan file"):
        store.get("told")
    assert not (tmp_path / "runs").exists()
    store.allow_commands()
    assert (store.find("told"), store.get("told"), store.find("absent")) == ("1", "1", None)
    assert (tmp_path / "runs").read_text(encoding="ascii") == "x"
    for name, place in (("absent", "env:NO_SUCH_VARIABLE"), ("unknown", "unknown")):
        with pytest.raises(LoginFailed, match=f"secret '{name}' not found") as caught:
            store.get(name)
        assert caught.value.subject == place


# ---------------------------------------------------------------- prompt


def test_a_prompt_that_nobody_answers_says_what_else_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_its_end(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("getpass.getpass", at_its_end)
    with pytest.raises(LoginFailed) as caught:
        ask_password("me", "vc01")
    assert "VGPU_CFG_PASSWORD" in caught.value.remedy


def test_a_prompt_names_the_account_and_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return SECRET

    monkeypatch.setattr("getpass.getpass", answer)
    assert ask_password("me", "vc01") == SECRET
    assert asked == ["Password for me on vc01: "]
