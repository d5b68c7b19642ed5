"""Addresses, variables, config files and state folders that cannot be used: told, and nothing is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine, Ran
from tests.fakes.fake_locks import FakeLocks, FakeRunLog, FixedClock
from tests.fakes.fake_vcenter import START
from vgpu_cfg.errors import CertificateRejected, DocumentError, Unreachable
from vgpu_cfg.execution import RunLocks
from vgpu_cfg.lab.soap.server import CERTIFICATE_FILE, keep_certificate
from vgpu_cfg.model.locks import LockHolder
from vgpu_cfg.settings.connection import resolve_connection
from vgpu_cfg.settings.flags import ConnectionFlags
from vgpu_cfg.vsphere.wire.transport import Trust, split_address

PLAN = "plans/pair.yaml"
LAB = "lab:two-a100"


def is_stated(ran: Ran, code: int) -> bool:
    """Whether an error came with its code, and with what to do."""
    return ran.code == code and "DO     " in ran.err and "bug in vgpu-cfg" not in ran.told


# ---------------------------------------------------------------- addresses and variables


@pytest.mark.parametrize(
    "address", ["a b", " ", "a%00b.c", "vc\u00f6.example", "a\nb.c", "vc01.example.com%eth0"]
)
def test_what_no_host_can_be_called_is_no_address(address: str) -> None:
    with pytest.raises(Unreachable) as caught:
        split_address(address)
    assert caught.value.subject.strip()


@pytest.mark.parametrize(
    ("address", "host"),
    [("VC-01.example.com", "vc-01.example.com"), ("vc_1", "vc_1"), ("[fe80::1%eth0]:8443", "fe80::1%eth0")],
)
def test_what_a_host_can_be_called_is_one(address: str, host: str) -> None:
    assert split_address(address)[0] == host


def test_a_plan_that_names_an_impossible_address_is_told_so(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("p.yaml", 'version: 1\nname: p\nvcenter: "a b.c"\nvms: []\n')
    ran = vgpu_cfg("plan", "p.yaml", VGPU_CFG_USER="me", VGPU_CFG_PASSWORD="x")
    assert is_stated(ran, 5)
    assert "WHERE  a b.c" in ran.err


def test_an_authority_with_an_impossible_path_is_told() -> None:
    with pytest.raises(CertificateRejected):
        Trust(ca_file=Path("a\0b")).context()


@pytest.mark.parametrize("seconds", ["inf", "1e30", "3601"])
def test_a_time_limit_that_no_clock_holds_is_refused(seconds: str, vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("inventory", "--server", LAB, VGPU_CFG_TIMEOUT_SECONDS=seconds)
    assert is_stated(ran, 3)
    assert "VGPU_CFG_TIMEOUT_SECONDS" in ran.err


def test_an_hour_is_a_time_limit(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("inventory", "--server", LAB, VGPU_CFG_TIMEOUT_SECONDS="3600")


def test_the_account_in_the_environment_is_not_for_the_lab(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has set up a vCenter of their own can still try the lab."""
    vgpu_cfg.done("plan", PLAN, VGPU_CFG_USER="anna@example.com", VGPU_CFG_PASSWORD="hers")
    assert vgpu_cfg("plan", PLAN, "--user", "anna@example.com").code == 5
    monkeypatch.setenv("VGPU_CFG_USER", "anna@example.com")
    assert resolve_connection(ConnectionFlags(server="vc01.example.com")).user == "anna@example.com"


@pytest.mark.parametrize("columns", ["0", "1", "-5", "many"])
def test_an_error_is_shown_whatever_the_width(columns: str, vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("plan", PLAN, "--server", "lab:", COLUMNS=columns)
    assert is_stated(ran, 5)


# ---------------------------------------------------------------- the config file


def test_a_context_needs_a_server(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("config.yaml", 'current: a\ncontexts: {a: {server: "", user: u}}\n')
    ran = vgpu_cfg("inventory")
    assert is_stated(ran, 3)
    assert "config.yaml:2:" in ran.err


@pytest.mark.parametrize("variable", ["VGPU_CFG_CONFIG", "VGPU_CFG_STATE_FOLDER"])
def test_a_home_that_nobody_has_is_told(variable: str, vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("inventory", "--server", LAB, **{variable: "~nobody-of-this-name/x"})
    assert is_stated(ran, 3)
    assert variable in ran.err


def test_a_config_file_that_cannot_be_reached_is_not_taken_for_none(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("inventory", "--server", LAB, VGPU_CFG_CONFIG="a" * 5000)
    assert is_stated(ran, 3)


def test_a_config_file_that_is_not_there_is_none(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("file", "")
    vgpu_cfg.done("inventory", "--server", LAB, VGPU_CFG_CONFIG="file/config.yaml")


# ---------------------------------------------------------------- the state folder


@pytest.mark.parametrize("folder", ["file", "file/below", "a" * 5000])
@pytest.mark.parametrize("command", [["inventory", "--server", LAB], ["apply", "--yes", PLAN]])
def test_a_state_folder_that_is_none_is_told(folder: str, command: list[str], vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("file", "precious")
    ran = vgpu_cfg(*command, VGPU_CFG_STATE_FOLDER=folder)
    assert is_stated(ran, 3)
    assert "VGPU_CFG_STATE_FOLDER" in ran.told
    assert (vgpu_cfg.folder / "file").read_text(encoding="utf-8") == "precious"


def test_without_a_place_for_the_lock_nothing_is_begun(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("")
    with (
        pytest.raises(DocumentError) as caught,
        RunLocks(FakeLocks(), FakeRunLog(), FixedClock(), place / "locks", LockHolder(run="1", since=START)),
    ):
        raise AssertionError("the lock was not held")
    assert "nothing was changed" in caught.value.remedy


def test_a_lab_that_cannot_be_saved_says_so_and_keeps_what_it_had(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", "plans/before.yaml")
    before = vgpu_cfg.look("two-a100")
    in_the_way = vgpu_cfg.state_folder / "lab" / "two-a100" / "state.new"
    in_the_way.mkdir()
    ran = vgpu_cfg("destroy", "--yes", "plans/before.yaml")
    assert is_stated(ran, 3) or ran.code == 6
    assert "the lab cannot keep its state here" in ran.told
    assert "bug in vgpu-cfg" not in ran.told
    in_the_way.rmdir()
    assert vgpu_cfg.look("two-a100").vms == before.vms


def test_a_damaged_certificate_of_the_lab_is_made_anew(tmp_path: Path) -> None:
    kept = keep_certificate(tmp_path)
    assert keep_certificate(tmp_path) == kept
    (tmp_path / CERTIFICATE_FILE).write_text("garbage", encoding="utf-8")
    made = keep_certificate(tmp_path)
    assert made.is_usable()
    assert made != kept


@pytest.mark.parametrize("name", ["fleet-10001x8", "fleet-1x65", "fleet-1x1-200001vms", "fleet-999999999x8"])
def test_a_fleet_that_no_memory_holds_is_refused(name: str, vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg("inventory", "--server", f"lab:{name}")
    assert is_stated(ran, 3)
    assert "10000 hosts" in ran.told


def test_what_the_system_refuses_is_no_bug(vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    (vgpu_cfg.folder / "state").mkdir()
    (vgpu_cfg.folder / "state" / "lab").write_text("", encoding="utf-8")
    ran = vgpu_cfg("lab", "serve", "--port", "0")
    assert is_stated(ran, 3)
    assert os.fspath(Path("state", "lab")) in ran.err
