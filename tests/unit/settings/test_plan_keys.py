from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from vgpu_cfg.errors import LoginFailed
from vgpu_cfg.settings.plan_keys import fingerprint, new_seeds, read_seeds, seed_file, seeds_of_secret


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return seed_file(tmp_path / "state", "horovod-a100", "1234-ab")


def test_the_file_is_named_by_plan_and_vcenter_whatever_they_are_called(tmp_path: Path) -> None:
    assert seed_file(tmp_path, "demo", "1234").relative_to(tmp_path) == Path("keys/demo-1234.seed")
    assert seed_file(tmp_path, "../it's", "").parent == tmp_path / "keys"
    # Names that a file's name cannot tell apart are not one plan.
    assert len({seed_file(tmp_path, name, "1") for name in ("a b", "a_b", "a/b")}) == 3


def test_a_seed_is_made_once_and_read_by_every_later_run(path: Path) -> None:
    assert read_seeds(path) is None
    made = new_seeds(path)
    assert not path.exists()
    made.keep()
    made.keep()
    found = read_seeds(path)
    assert found is not None
    assert found.value == made.value
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_seed_never_replaces_another(path: Path) -> None:
    first, second = new_seeds(path), new_seeds(path)
    first.keep()
    with pytest.raises(LoginFailed, match="another run has changed the plan's keys since this run read them"):
        second.keep()
    found = read_seeds(path)
    assert found is not None
    assert found.value == first.value


def test_no_seed_is_shown(path: Path) -> None:
    made = new_seeds(path)
    assert made.value.hex() not in repr(made)
    assert str(made.value) not in repr(made)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_refused(path: Path, mode: int) -> None:
    new_seeds(path).keep()
    path.chmod(mode)
    with pytest.raises(LoginFailed, match=f"{mode:04o}") as caught:
        read_seeds(path)
    assert "chmod 600" in caught.value.remedy


@pytest.mark.parametrize(
    "content", ["", "no hex", "ab" * 31, "\N{SNOWMAN}", f"hex:{'ab' * 32}\nhex:{'ab' * 31}\n"]
)
def test_a_file_that_holds_no_seed_is_refused_and_not_shown(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(content, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(LoginFailed, match="the file does not contain a valid key seed") as caught:
        read_seeds(path)
    assert not content or content not in caught.value.message


def test_a_folder_in_its_place(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(LoginFailed, match="cannot be read"):
        read_seeds(path)


def test_a_state_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(LoginFailed, match="cannot save") as caught:
        new_seeds(seed_file(tmp_path / "state", "demo", "1")).keep()
    assert "training.keys" in caught.value.remedy


def test_a_secret_for_a_seed_must_be_long_enough_and_is_kept_nowhere() -> None:
    seed = seeds_of_secret("KEYS", "x" * 32)
    seed.keep()
    assert (seed.value, seed.path, seed.former) == (b"x" * 32, None, ())
    with pytest.raises(LoginFailed, match="too short to derive keys: 31 of 32 bytes") as caught:
        seeds_of_secret("KEYS", "y" * 31)
    assert "yyy" not in caught.value.message


def test_a_fingerprint_tells_values_apart_and_nothing_else() -> None:
    one, other = b"x" * 32, b"z" * 32
    told = fingerprint(one, "TOKEN", "secret")
    assert told == fingerprint(one, "TOKEN", "secret")
    different = {
        told,
        fingerprint(one, "TOKEN", "secret2"),
        fingerprint(one, "OTHER", "secret"),
        fingerprint(other, "TOKEN", "secret"),
    }
    assert len(different) == 4
    assert (len(told), "secret" in told) == (16, False)


# ---------------------------------------------------------------- new seeds before old ones


def test_a_new_seed_stands_before_the_old_one_until_that_is_forgotten(path: Path) -> None:
    first = new_seeds(path)
    first.keep()
    known = read_seeds(path)
    assert known is not None
    renewed = known.renewed()
    found = read_seeds(path)
    assert found is not None
    assert (found.value, found.former) == (first.value, ())  # nothing is written before it is to be kept
    renewed.keep()
    found = read_seeds(path)
    assert found is not None
    assert (found.value, found.former) == (renewed.value, (first.value,))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    # Whoever goes on with a rotation that broke off begins no other.
    assert found.renewed() is found
    found.settle()
    found = read_seeds(path)
    assert found is not None
    assert (found.value, found.former) == (renewed.value, ())
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_what_was_kept_meanwhile_is_not_written_over(path: Path) -> None:
    new_seeds(path).keep()
    known = read_seeds(path)
    assert known is not None
    known.renewed().keep()
    with pytest.raises(LoginFailed, match="another run has changed the plan's keys since this run read them"):
        known.renewed().keep()


def test_the_folder_is_its_users_alone(path: Path) -> None:
    path.parent.mkdir(parents=True, mode=0o755)
    new_seeds(path).keep()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_what_the_file_holds_can_be_a_secret_and_an_earlier_releases_file_is_read(path: Path) -> None:
    new_seeds(path).keep()
    known = read_seeds(path)
    assert known is not None
    known.renewed().keep()
    kept = read_seeds(path)
    shared = seeds_of_secret("KEYS", path.read_text(encoding="ascii"))
    assert kept is not None
    assert (shared.value, shared.former) == (kept.value, kept.former)
    path.write_text(f"{kept.value.hex()}\n", encoding="ascii")
    earlier = read_seeds(path)
    assert earlier is not None
    assert (earlier.value, earlier.former) == (kept.value, ())


LONG, OTHER = "a" * 64, "b" * 43


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        (LONG, [LONG]),
        (f"{LONG}\n{OTHER}\n", [LONG, OTHER]),
        (f"{LONG} {OTHER} {LONG}", [LONG, OTHER]),
        ("four words of a passphrase that is long", ["four words of a passphrase that is long"]),
        (f"{LONG} short", [f"{LONG} short"]),
    ],
)
def test_each_long_word_of_a_secret_is_a_seed(text: str, seeds: list[str]) -> None:
    found = seeds_of_secret("KEYS", text)
    assert [found.value, *found.former] == [one.encode() for one in seeds]
    assert LONG not in repr(found)


def test_a_pipe_in_its_place_is_refused_and_not_waited_for(path: Path) -> None:
    path.parent.mkdir(parents=True)
    os.mkfifo(path, 0o600)
    with pytest.raises(LoginFailed, match="it is a pipe"):
        read_seeds(path)
