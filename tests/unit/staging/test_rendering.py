"""Quoting, keys and foreign YAML: what goes in comes out, or is refused."""

from __future__ import annotations

import datetime as dt
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import UndefinedError

from tests.unit.staging.sandbox import SEED, Sandbox, tool
from vgpu_cfg.documents.foreign import read_foreign, write_foreign
from vgpu_cfg.errors import DocumentError, GuestError
from vgpu_cfg.model.guests.modules import MODULE_ORDER
from vgpu_cfg.shells.keys import PlanKeyRing
from vgpu_cfg.staging.rendering import (
    Staged,
    compose,
    environment,
    quote_sh,
    quote_systemd,
    render,
    script_path,
    secret_file,
    source_file,
)

NASTY = [
    "a b",
    "$(reboot)",
    "`reboot`",
    "a\nb",
    "-rf",
    "a'b",
    'a"b',
    "a%b",
    "",
    "ä€😀",
    "\\",
    "*",
    "~",
    "a;b&c|d",
    "!x",
]


@pytest.mark.parametrize("text", NASTY)
def test_sh_takes_a_word_as_it_is(text: str) -> None:
    done = subprocess.run(
        [tool("dash"), "-c", f"printf %s {quote_sh(text)}"], capture_output=True, check=True, timeout=120
    )
    assert done.stdout.decode() == text


def test_a_nul_byte_is_refused() -> None:
    with pytest.raises(GuestError, match="NUL byte"):
        quote_sh("a\0b")


@pytest.mark.parametrize(
    ("text", "quoted"),
    [("a b", '"a b"'), ('a"b', '"a\\"b"'), ("100%", '"100%%"'), ("$HOME", '"$$HOME"'), ("a\\b", '"a\\\\b"')],
)
def test_systemd_takes_a_word_as_it_is(text: str, quoted: str) -> None:
    assert quote_systemd(text) == quoted


@pytest.mark.parametrize("text", ["a\nb", "a\tb", "\x7f", "\0"])
def test_what_a_unit_cannot_carry_is_refused(text: str) -> None:
    with pytest.raises(GuestError, match="control character"):
        quote_systemd(text)


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        render("vgpu-cfg-roce.service.j2")


def test_every_template_is_read() -> None:
    for name in environment().list_templates():
        environment().get_template(name)


# ---------------------------------------------------------------- scripts


def test_a_script_has_two_halves_and_drops_its_secrets(guest: Sandbox) -> None:
    staged = Staged(
        check='cmp -s "$(secret "a b")" "$ROOT/etc/there"',
        apply='write_if_changed "$(secret "a b")" "$ROOT/etc/there" 600',
        files=(secret_file("a b", "the secret"), source_file("x", "y")),
    )
    guest.put(staged.files)
    script = compose("limits", staged)
    assert guest.run(script, "check").status != 0
    assert guest.path("/var/lib/vgpu-cfg/secrets/a b").exists()
    assert guest.run(script, "apply").status == 0
    assert guest.run(script, "check").status == 0
    assert not guest.path("/var/lib/vgpu-cfg/secrets/a b").exists()
    assert guest.path("/var/lib/vgpu-cfg/files/x").exists()
    assert guest.read("/etc/there") == "the secret"
    assert guest.mode("/etc/there") == 0o600
    assert guest.run(script, "other").status == 2


def test_a_command_that_fails_ends_its_half(guest: Sandbox) -> None:
    script = compose("limits", Staged(check="", apply='false\n: >"$ROOT/etc/after"'))
    assert guest.run(script, "apply").status == 1
    assert not guest.path("/etc/after").exists()
    assert guest.run(script, "check").status == 0


def test_scripts_are_numbered_in_their_order() -> None:
    assert script_path("host-name") == "/var/lib/vgpu-cfg/modules/01-host-name.sh"
    paths = [script_path(kind) for kind in MODULE_ORDER]
    assert paths == sorted(paths)


@pytest.mark.parametrize(
    ("apply", "status", "why"),
    [
        ("pkg_install jq", 1, "neither apt-get nor dnf is available, so jq cannot be installed"),
        (
            'fetch https://x/y "$STATE/y"',
            1,
            "neither curl nor wget is available, so https://x/y cannot be downloaded",
        ),
        ('[ "$(free_gib "$ROOT/not/there/yet")" -ge 0 ]', 0, ""),
        ("fail no", 1, "no"),
        ("why a; why b; exit 20", 20, "b"),
        ("nic_by 00:50:56:00:00:01 ''", 1, ""),
        ("rdma_of ens192", 1, ""),
    ],
)
def test_the_heads_functions(guest: Sandbox, apply: str, status: int, why: str) -> None:
    ran = guest.run(compose("limits", Staged(check="false", apply=apply)), "apply")
    assert (ran.status, ran.why) == (status, why)


def test_packages_are_installed_without_questions(guest: Sandbox) -> None:
    guest.stand_in("apt-get", 'echo "$DEBIAN_FRONTEND" >"$ROOT/frontend"')
    guest.run(compose("limits", Staged(check="", apply="pkg_install a -b\npkg_install c")), "apply")
    assert guest.read("/frontend") == "noninteractive\n"
    update, first, second = guest.calls("apt-get")
    assert update.endswith("-qq update")
    assert first.endswith("install -- a -b")
    assert second.endswith("install -- c")


# ---------------------------------------------------------------- keys


def test_keys_follow_from_the_seed_to_the_byte() -> None:
    ring, again, other = PlanKeyRing(SEED), PlanKeyRing(SEED), PlanKeyRing(SEED + b"x")
    assert ring.host_key("a") == again.host_key("a")
    pairs = [ring.host_key("a"), ring.host_key("b"), ring.mesh_key(), ring.login_key(), other.host_key("a")]
    assert len({one.private for one in pairs}) == len({one.public.split()[1] for one in pairs}) == 5
    assert ring.host_key("a").public.split()[2] == "a"
    assert "PRIVATE" not in repr(ring.host_key("a"))


def test_keys_stay_what_they_were_in_the_first_release() -> None:
    """Another derivation would lock the tool out of every guest that it staged."""
    ring = PlanKeyRing(b"0123456789abcdef0123456789abcdef")
    assert [one.public for one in (ring.host_key("hvd-01"), ring.mesh_key(), ring.login_key())] == [
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMO5tIKaQfvpM2tZdUaiyOaByTBGkjyoHVxV3aS3/saO hvd-01",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOBB4AfGs7WsZ3WyPD41i/w5Hn3uvmxdNlTc41YicPHb vgpu-cfg-mesh",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKTIcwUBWaWGxVWSiER/xY9YX72D0CHt7PqnqKIZRHNZ vgpu-cfg-login",
    ]


def test_the_name_of_a_vm_makes_one_word_of_comment() -> None:
    assert PlanKeyRing(SEED).host_key("a b\nssh-rsa x").public.split()[2:] == ["a_b_ssh-rsa_x"]


# ---------------------------------------------------------------- foreign YAML


def test_foreign_yaml_means_what_its_readers_take_it_for() -> None:
    text = "a: yes\nb: 0644\nc: off\nd: 2027-03-31\ne: '0644'\nf: {x: [1, ~]}\n"
    data = {
        "a": True,
        "b": 0o644,
        "c": False,
        "d": dt.date(2027, 3, 31),
        "e": "0644",
        "f": {"x": [1, None]},
    }
    assert read_foreign(text, "x") == data
    assert read_foreign(write_foreign(data), "x") == data
    assert read_foreign("", "x") == {}


@pytest.mark.parametrize("text", ["a: 1\na: 2\n", "- 1\n", "1: 2\n", "a: [\n", "a: !x y\n", "a: \x07\n"])
def test_foreign_yaml_that_cannot_be_read(text: str) -> None:
    with pytest.raises(DocumentError):
        read_foreign(text, "x")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=40)  # ruamel is slow
@given(st.dictionaries(st.text(max_size=6), VALUES, max_size=5))
def test_what_is_written_is_read_as_the_same(data: dict[str, object]) -> None:
    assert read_foreign(write_foreign(data), "x") == data


@pytest.mark.parametrize(
    "text", ["yes", "0644", "12:30", "1e3", "null", "~", "2027-03-31", "<<", "=", "- a", "a\nb\n"]
)
def test_text_stays_text_for_readers_of_any_version(text: str) -> None:
    assert read_foreign(write_foreign({text: text}), "x") == {text: text}


@pytest.mark.parametrize("odd", ["\x1b[31m", "\x00", "\x7f", "\x85", "\u2028", "\ufeff", "\x0b"])
def test_text_of_several_lines_that_cannot_be_printed_is_read_as_it_was_written(odd: str) -> None:
    data = {"write_files": [{"path": "/a", "content": f"one\ntwo {odd} three\nfour\n"}]}
    assert read_foreign(write_foreign(data), "a") == data
    assert odd not in write_foreign(data)
