from __future__ import annotations

import stat
from pathlib import Path

import pytest

from vgpu_cfg.errors import LoginFailed
from vgpu_cfg.settings.plan_keys import fingerprint, new_seed, read_seed, seed_file, seed_of_secret


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return seed_file(tmp_path / "state", "horovod-a100", "1234-ab")


def test_the_file_is_named_by_plan_and_vcenter_whatever_they_are_called(tmp_path: Path) -> None:
    assert seed_file(tmp_path, "demo", "1234").relative_to(tmp_path) == Path("keys/demo-1234.seed")
    assert seed_file(tmp_path, "../it's", "").parent == tmp_path / "keys"
    # Names that a file's name cannot tell apart are not one plan.
    assert len({seed_file(tmp_path, name, "1") for name in ("a b", "a_b", "a/b")}) == 3


def test_a_seed_is_made_once_and_read_by_every_later_run(path: Path) -> None:
    assert read_seed(path) is None
    made = new_seed(path)
    assert not path.exists()
    made.keep()
    made.keep()
    found = read_seed(path)
    assert found is not None
    assert found.value == made.value
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_seed_never_replaces_another(path: Path) -> None:
    first, second = new_seed(path), new_seed(path)
    first.keep()
    with pytest.raises(LoginFailed, match="meanwhile"):
        second.keep()
    found = read_seed(path)
    assert found is not None
    assert found.value == first.value


def test_no_seed_is_shown(path: Path) -> None:
    made = new_seed(path)
    assert made.value.hex() not in repr(made)
    assert str(made.value) not in repr(made)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_refused(path: Path, mode: int) -> None:
    new_seed(path).keep()
    path.chmod(mode)
    with pytest.raises(LoginFailed, match=f"{mode:04o}") as caught:
        read_seed(path)
    assert "chmod 600" in caught.value.remedy


@pytest.mark.parametrize("content", ["", "no hex", "ab" * 31, "\N{SNOWMAN}"])
def test_a_file_that_holds_no_seed_is_refused_and_not_shown(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(content, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(LoginFailed, match="no seed") as caught:
        read_seed(path)
    assert not content or content not in caught.value.message


def test_a_folder_in_its_place(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(LoginFailed, match="cannot be read"):
        read_seed(path)


def test_a_state_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(LoginFailed, match="cannot be kept") as caught:
        new_seed(seed_file(tmp_path / "state", "demo", "1")).keep()
    assert "training.keys" in caught.value.remedy


def test_a_secret_for_a_seed_must_be_long_enough_and_is_kept_nowhere() -> None:
    seed = seed_of_secret("KEYS", "x" * 32)
    seed.keep()
    assert (seed.value, seed.path) == (b"x" * 32, None)
    with pytest.raises(LoginFailed, match="31 of at least 32") as caught:
        seed_of_secret("KEYS", "y" * 31)
    assert "yyy" not in caught.value.message


def test_a_fingerprint_tells_values_apart_and_nothing_else() -> None:
    one, other = seed_of_secret("KEYS", "x" * 32), seed_of_secret("KEYS", "z" * 32)
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
