"""What is said decides in this order: flags, environment, the plan's vcenter, the config file."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from vgpu_cfg.errors import DocumentError, LoginFailed, NotFound
from vgpu_cfg.model.plan_values import Limits
from vgpu_cfg.settings.connection import Connection, resolve_connection
from vgpu_cfg.settings.flags import ConnectionFlags

CONFIG = """
current: prod
contexts:
  prod:
    server: vc01.example.com
    user: prod-user
    password: env:PROD_PASSWORD
    datacenter: dc-prod
    ca_file: /etc/prod.pem
    thumbprint: "aa:bb"
    insecure: true
    timeout_seconds: 11
  campus: {server: vc.uni.example, user: campus-user}
  try: {server: "lab:two-a100"}
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    monkeypatch.setenv("VGPU_CFG_CONFIG", str(path))
    return path


def set_variables(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"VGPU_CFG_{name}", value)


# ---------------------------------------------------------------- which server


def test_the_config_files_current_context_holds_where_nothing_else_is_said(config: Path) -> None:
    assert resolve_connection(ConnectionFlags()).server == "vc01.example.com"


def test_the_plans_vcenter_goes_before_it(config: Path) -> None:
    assert resolve_connection(ConnectionFlags(), plan_server="campus").server == "vc.uni.example"


@pytest.mark.parametrize("prefix", ["", "recording:"])
def test_a_file_is_no_server_and_the_option_for_recordings_is_named(config: Path, prefix: str) -> None:
    with pytest.raises(NotFound, match="is a file, not a server") as raised:
        resolve_connection(ConnectionFlags(server=f"{prefix}{config}"))
    assert raised.value.remedy == f"to read a recording, use --from {config}"


def test_a_file_that_is_named_as_a_server_hides_none(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(config.parent)
    Path("vc01.example.com").touch()
    assert resolve_connection(ConnectionFlags()).server == "vc01.example.com"


@pytest.mark.parametrize("variable", [{"SERVER": "vc02.example.com", "USER": "me"}, {"CONTEXT": "campus"}])
def test_the_environment_goes_before_the_plan(
    config: Path, monkeypatch: pytest.MonkeyPatch, variable: dict[str, str]
) -> None:
    set_variables(monkeypatch, **variable)
    found = resolve_connection(ConnectionFlags(), plan_server="prod")
    assert found.server == {"SERVER": "vc02.example.com", "CONTEXT": "vc.uni.example"}[next(iter(variable))]


@pytest.mark.parametrize("flags", [{"server": "vc03.example.com"}, {"context": "try"}])
def test_a_flag_goes_before_everything(
    config: Path, monkeypatch: pytest.MonkeyPatch, flags: dict[str, Any]
) -> None:
    set_variables(monkeypatch, SERVER="vc02.example.com", CONTEXT="campus", USER="me")
    found = resolve_connection(ConnectionFlags(**flags), plan_server="prod")
    assert found.server == {"server": "vc03.example.com", "context": "lab:two-a100"}[next(iter(flags))]


def test_a_recording_goes_before_even_that(config: Path) -> None:
    flags = ConnectionFlags(recording=Path("vc.json"), server="vc03.example.com")
    found = resolve_connection(flags)
    assert found == Connection(server="vc.json", recording=Path("vc.json"))


@pytest.mark.parametrize("server", ["vc9.example.com", "localhost", "vc9:8443", "lab:mig-a100", "::1"])
def test_a_plan_may_name_an_address(server: str) -> None:
    assert resolve_connection(ConnectionFlags(user="me"), plan_server=server).server == server


def test_a_word_in_a_plan_that_is_no_context_is_no_address_either(config: Path) -> None:
    with pytest.raises(NotFound) as caught:
        resolve_connection(ConnectionFlags(user="me"), plan_server="porcelain")
    assert "porcelain" in caught.value.message
    assert "--server" in caught.value.remedy


@pytest.mark.parametrize("where", ["flag", "environment", "plan"])
def test_a_context_that_is_nearly_right_gets_a_suggestion(
    config: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    if where == "environment":
        set_variables(monkeypatch, CONTEXT="campsu")
    flags = ConnectionFlags(context="campsu") if where == "flag" else ConnectionFlags()
    with pytest.raises((NotFound, DocumentError)) as caught:
        resolve_connection(flags, plan_server="campsu" if where == "plan" else None)
    error = caught.value
    told = error.faults[0].hint if isinstance(error, DocumentError) else error.remedy
    assert told == "did you mean 'campus'?"


def test_a_context_without_a_config_file_says_where_it_would_be(home: Path) -> None:
    with pytest.raises(NotFound) as caught:
        resolve_connection(ConnectionFlags(context="prod"))
    assert caught.value.subject == str(home / ".config/vgpu-cfg/config.yaml")


def test_no_server_at_all_says_how_to_name_one() -> None:
    with pytest.raises(NotFound) as caught:
        resolve_connection(ConnectionFlags())
    assert "lab:two-a100" in caught.value.remedy


# ---------------------------------------------------------------- the rest of a connection

SETTINGS: list[tuple[str, Any, str, Any, Any]] = [
    ("user", "flag-user", "USER", "env-user", "prod-user"),
    ("datacenter", "dc-flag", "DATACENTER", "dc-env", "dc-prod"),
    ("ca_file", Path("/flag.pem"), "CA_FILE", Path("/env.pem"), Path("/etc/prod.pem")),
    ("thumbprint", "11", "THUMBPRINT", "22", "aa:bb"),
    ("timeout_seconds", 1.0, "TIMEOUT_SECONDS", 2.0, 11.0),
]


def setting_of(connection: Connection, name: str) -> object:
    return getattr(connection.limits if name in Limits.model_fields else connection, name)


@pytest.mark.parametrize(("name", "flag", "variable", "value", "in_context"), SETTINGS)
def test_each_setting_comes_from_flag_then_environment_then_context(
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    flag: object,
    variable: str,
    value: object,
    in_context: object,
) -> None:
    flags: dict[str, Any] = {"context": "prod"}
    assert setting_of(resolve_connection(ConnectionFlags(**flags)), name) == in_context
    set_variables(monkeypatch, **{variable: str(value)})
    assert setting_of(resolve_connection(ConnectionFlags(**flags)), name) == value
    flags[name] = flag
    assert setting_of(resolve_connection(ConnectionFlags(**flags)), name) == flag


def test_limits_that_no_flag_sets_come_from_the_environment_then_the_context(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text(
        "contexts:\n"
        "  prod: {server: vc01, user: me, outage_seconds: 5, answer_mib: 6, answer_pages: 7, in_flight: 8}\n",
        encoding="utf-8",
    )

    def found() -> Limits:
        return resolve_connection(ConnectionFlags(context="prod")).limits

    assert found() == Limits(outage_seconds=5.0, answer_mib=6, answer_pages=7, in_flight=8)
    set_variables(monkeypatch, OUTAGE_SECONDS="0", ANSWER_MIB="16", ANSWER_PAGES="17", IN_FLIGHT="1")
    assert found() == Limits(outage_seconds=0.0, answer_mib=16, answer_pages=17, in_flight=1)


@pytest.mark.parametrize(
    ("context", "variable", "flag", "expected"),
    [
        ("prod", "", False, True),
        ("prod", "false", False, False),
        ("prod", "0", True, True),
        ("campus", "", False, False),
        ("campus", "true", False, True),
        ("campus", "", True, True),
    ],
)
def test_verification_is_off_only_where_the_first_to_speak_says_so(
    config: Path, monkeypatch: pytest.MonkeyPatch, context: str, variable: str, flag: bool, expected: bool
) -> None:
    set_variables(monkeypatch, INSECURE=variable)
    assert resolve_connection(ConnectionFlags(context=context, insecure=flag)).insecure is expected


def test_a_context_says_nothing_of_a_server_that_is_given_by_address(config: Path) -> None:
    found = resolve_connection(ConnectionFlags(server="vc7.example.com", user="me"))
    assert found == Connection(server="vc7.example.com", user="me", password_sources=found.password_sources)
    assert found.password_sources == ("keyring",)


def test_a_plans_datacenter_goes_before_the_contexts_and_after_the_environments(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> str | None:
        return resolve_connection(ConnectionFlags(), plan_server="prod", plan_datacenter="dc-plan").datacenter

    assert found() == "dc-plan"
    set_variables(monkeypatch, DATACENTER="dc-env")
    assert found() == "dc-env"


def test_a_plans_datacenter_holds_on_a_recording_too() -> None:
    def found(named: str | None = None) -> str | None:
        flags = ConnectionFlags(recording=Path("vc.json"), datacenter=named)
        return resolve_connection(flags, plan_server="prod", plan_datacenter="dc-plan").datacenter

    assert (found(), found("dc-flag")) == ("dc-plan", "dc-flag")


def test_the_lab_needs_no_user_and_another_server_does() -> None:
    lab = resolve_connection(ConnectionFlags(server="lab:two-a100"))
    assert (lab.is_lab, lab.lab_estate, lab.user) == (True, "two-a100", "administrator@vsphere.local")
    with pytest.raises(LoginFailed) as caught:
        resolve_connection(ConnectionFlags(server="vc.example.com"))
    assert "--user" in caught.value.remedy


def test_an_empty_variable_counts_as_unset(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_variables(monkeypatch, SERVER="", USER="", TIMEOUT_SECONDS="", PASSWORD="")
    found = resolve_connection(ConnectionFlags())
    assert (found.server, found.user, found.limits.timeout_seconds) == ("vc01.example.com", "prod-user", 11.0)
    assert "env:VGPU_CFG_PASSWORD" not in found.password_sources


def test_variables_that_cannot_be_used_are_all_named(monkeypatch: pytest.MonkeyPatch) -> None:
    set_variables(monkeypatch, INSECURE="perhaps", TIMEOUT_SECONDS="-1")
    with pytest.raises(DocumentError) as caught:
        resolve_connection(ConnectionFlags(server="vc.example.com"))
    assert [fault.file for fault in caught.value.faults] == ["VGPU_CFG_INSECURE", "VGPU_CFG_TIMEOUT_SECONDS"]


# ---------------------------------------------------------------- the config file


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("contexts:\n  prod: {sever: vc01}\n", ":2:10:", "did you mean 'server'?"),
        ("curent: prod\n", ":1:1:", "did you mean 'current'?"),
        ("contexts:\n  prod: {server: vc01, timeout_seconds: 0}\n", ":2:41:", "0"),
        ("contexts: [\n", ":2:1:", "end"),
    ],
)
def test_a_fault_in_the_config_file_has_its_place(config: Path, text: str, place: str, words: str) -> None:
    config.write_text(text, encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        resolve_connection(ConnectionFlags(server="vc.example.com", user="me"))
    told = "\n".join(str(fault) for fault in caught.value.faults)
    assert place in told
    assert words in told


def test_a_password_in_the_config_file_is_refused_and_not_repeated(config: Path) -> None:
    config.write_text("contexts:\n  prod: {server: vc01, password: hunter2}\n", encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        resolve_connection(ConnectionFlags())
    told = f"{caught.value.faults[0]} {caught.value.message} {caught.value.remedy}"
    assert "config.yaml:2:34: " in told
    assert "env:NAME" in told
    assert "hunter2" not in told


# ---------------------------------------------------------------- the password


def test_the_password_comes_from_the_first_source_that_has_one(
    config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text("from-file\n", encoding="utf-8")
    monkeypatch.setenv("PROD_PASSWORD", "from-context")
    assert resolve_connection(ConnectionFlags()).password() == "from-context"
    set_variables(monkeypatch, PASSWORD="from-environment")
    assert resolve_connection(ConnectionFlags()).password() == "from-environment"
    assert resolve_connection(ConnectionFlags(password_file=str(file))).password() == "from-file"


def test_where_no_source_has_one_the_error_names_them(config: Path) -> None:
    with pytest.raises(LoginFailed) as caught:
        resolve_connection(ConnectionFlags()).password()
    assert "VGPU_CFG_PASSWORD" in caught.value.remedy
    assert "keyring set vgpu-cfg:vc01.example.com prod-user" in caught.value.remedy


def test_somebody_at_a_terminal_is_asked_last(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert resolve_connection(ConnectionFlags()).password_sources == (
        "env:PROD_PASSWORD",
        "keyring",
        "prompt",
    )
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert "prompt" not in resolve_connection(ConnectionFlags()).password_sources


def test_the_lab_has_its_own_password(monkeypatch: pytest.MonkeyPatch) -> None:
    set_variables(monkeypatch, PASSWORD="mine")
    assert resolve_connection(ConnectionFlags(server="lab:two-a100")).password() == "lab"


def test_a_connection_shows_no_password(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_variables(monkeypatch, PASSWORD="hunter2")
    connection = resolve_connection(ConnectionFlags())
    assert connection.password() == "hunter2"
    assert "hunter2" not in repr(connection)
