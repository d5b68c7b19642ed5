"""Secrets in files that age and sops have encrypted, for whoever has the identity, and for nobody else."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyrage
import pytest

from vgpu_cfg.errors import LoginFailed
from vgpu_cfg.settings.secrets import resolve_reference

SECRET = "a-SECRET-of-many-words"


@pytest.fixture(autouse=True)
def surroundings(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VGPU_CFG_AGE_IDENTITY", "SOPS_AGE_KEY_FILE", "SOPS_AGE_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))


@pytest.fixture
def anna() -> pyrage.x25519.Identity:
    return pyrage.x25519.Identity.generate()


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed here, so it was not compared")
    return found


def run(*words: str | Path, told: str = "") -> str:
    done = subprocess.run(
        list(map(str, words)), input=told, capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def keep(path: Path, *identities: pyrage.x25519.Identity) -> Path:
    """Write identities down as age-keygen does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"# public key: {one.to_public()}\n{one}\n" for one in identities]
    path.write_text("".join(lines), encoding="ascii")
    return path


def encrypt(path: Path, *identities: pyrage.x25519.Identity, text: str = f"{SECRET}\n") -> Path:
    path.write_bytes(pyrage.encrypt(text.encode(), [one.to_public() for one in identities]))
    return path


# ---------------------------------------------------------------- age


def test_a_file_is_read_with_the_identity_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anna: pyrage.x25519.Identity
) -> None:
    encrypt(tmp_path / "demo.keys.age", anna)
    ben = pyrage.x25519.Identity.generate()
    monkeypatch.setenv("VGPU_CFG_AGE_IDENTITY", str(keep(tmp_path / "key.txt", ben, anna)))
    assert resolve_reference("age:demo.keys.age", tmp_path) == SECRET
    assert resolve_reference(f"age:{tmp_path / 'demo.keys.age'}", Path("elsewhere")) == SECRET


@pytest.mark.parametrize("place", [".config/sops/age/keys.txt", ".ssh/id_ed25519"])
def test_an_account_need_not_name_its_identity(
    tmp_path: Path, home: Path, anna: pyrage.x25519.Identity, place: str
) -> None:
    path = home / place
    if path.name == "keys.txt":
        keep(path, anna)
        encrypt(tmp_path / "token.age", anna)
    else:
        path.parent.mkdir()
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path)
        public = path.with_name("id_ed25519.pub").read_text(encoding="ascii").strip()
        recipient = pyrage.ssh.Recipient.from_str(public)
        (tmp_path / "token.age").write_bytes(pyrage.encrypt(SECRET.encode(), [recipient]))
    assert resolve_reference("age:token.age", tmp_path) == SECRET


def test_a_passphrase_of_ssh_is_asked_of_nobody(
    tmp_path: Path, home: Path, anna: pyrage.x25519.Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home / ".ssh" / "id_ed25519"
    path.parent.mkdir()
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "a passphrase", "-f", path)
    keep(home / ".config/sops/age/keys.txt", anna)
    encrypt(tmp_path / "token.age", anna)
    assert resolve_reference("age:token.age", tmp_path) == SECRET
    monkeypatch.setenv("VGPU_CFG_AGE_IDENTITY", str(path.rename(tmp_path / "named")))
    with pytest.raises(LoginFailed, match="this identity cannot be used") as caught:
        resolve_reference("age:token.age", tmp_path)
    assert caught.value.subject == str(tmp_path / "named")


def test_an_identity_that_is_not_there_is_not_taken_for_the_encrypted_file(
    tmp_path: Path, anna: pyrage.x25519.Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    encrypt(tmp_path / "token.age", anna)
    monkeypatch.setenv("VGPU_CFG_AGE_IDENTITY", str(tmp_path / "nobody"))
    with pytest.raises(LoginFailed, match="your age identity cannot be read: No such file") as caught:
        resolve_reference("age:token.age", tmp_path)
    assert caught.value.subject == str(tmp_path / "nobody")
    assert "VGPU_CFG_AGE_IDENTITY" in caught.value.remedy


def test_what_cannot_be_decrypted_is_named_with_what_was_tried(
    tmp_path: Path, home: Path, anna: pyrage.x25519.Identity
) -> None:
    encrypt(tmp_path / "token.age", anna)
    with pytest.raises(LoginFailed, match="with no identity") as caught:
        resolve_reference("age:token.age", tmp_path)
    assert "VGPU_CFG_AGE_IDENTITY" in caught.value.remedy
    keys = keep(home / ".config/sops/age/keys.txt", pyrage.x25519.Identity.generate())
    with pytest.raises(LoginFailed, match="no matching keys") as caught:
        resolve_reference("age:token.age", tmp_path)
    assert (str(keys) in caught.value.message, caught.value.subject) == (True, str(tmp_path / "token.age"))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "cannot be read: No such file"),
        (Path.mkdir, "cannot be read: Is a directory"),
        (lambda path: path.write_text("in the clear"), "cannot be decrypted"),
    ],
)
def test_a_file_that_is_none_of_ages(
    tmp_path: Path, home: Path, anna: pyrage.x25519.Identity, make: Callable[[Path], object], says: str
) -> None:
    keep(home / ".config/sops/age/keys.txt", anna)
    make(tmp_path / "token.age")
    with pytest.raises(LoginFailed, match=says):
        resolve_reference("age:token.age", tmp_path)


def test_a_file_of_the_program_age_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    age, keygen = program("age"), program("age-keygen")
    key = tmp_path / "key.txt"
    run(keygen, "-o", key)
    recipient = run(keygen, "-y", key).strip()
    monkeypatch.setenv("VGPU_CFG_AGE_IDENTITY", str(key))
    for more in ([], ["--armor"]):
        run(age, *more, "-r", recipient, "-o", tmp_path / "token.age", told=f"{SECRET}\n")
        assert resolve_reference("age:token.age", tmp_path) == SECRET


# ---------------------------------------------------------------- sops


def test_a_value_of_a_file_of_sops_is_read(tmp_path: Path, home: Path, anna: pyrage.x25519.Identity) -> None:
    sops = program("sops")
    keep(home / ".config/sops/age/keys.txt", anna)
    (tmp_path / "clear.yaml").write_text(f"ngc: {SECRET}\nlab: {{'it''s # 1': other}}\n", encoding="utf-8")
    words = (sops, "--encrypt", "--age", str(anna.to_public()), tmp_path / "clear.yaml")
    (tmp_path / "secrets.yaml").write_text(run(*words), encoding="utf-8")
    assert SECRET not in (tmp_path / "secrets.yaml").read_text(encoding="utf-8")
    assert resolve_reference("sops:secrets.yaml#ngc", tmp_path) == SECRET
    assert resolve_reference("sops:secrets.yaml#lab/it's # 1", tmp_path) == "other"
    with pytest.raises(LoginFailed, match="sops could not decrypt 'none'") as caught:
        resolve_reference("sops:secrets.yaml#none", tmp_path)
    assert caught.value.subject == str(tmp_path / "secrets.yaml")
    (home / ".config/sops/age/keys.txt").unlink()
    with pytest.raises(LoginFailed, match="could not decrypt"):
        resolve_reference("sops:secrets.yaml#ngc", tmp_path)


def test_without_the_program_sops_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LoginFailed, match=r"sops, .* is not installed"):
        resolve_reference("sops:secrets.yaml#ngc", tmp_path)


def test_an_identity_that_others_may_read_is_named(
    anna: pyrage.x25519.Identity,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "secret.age").write_bytes(pyrage.encrypt(b"word", [anna.to_public()]))
    for name, mode in (("open.txt", 0o644), ("closed.txt", 0o600)):
        file = tmp_path / name
        file.write_text(str(anna), encoding="ascii")
        file.chmod(mode)
        monkeypatch.setenv("VGPU_CFG_AGE_IDENTITY", str(file))
        assert resolve_reference("age:secret.age", tmp_path) == "word"
    told = capsys.readouterr().err
    assert told.count("WARNING") == 1
    assert "open.txt: your age identity: other users can access it (mode 0644); run chmod 600 on it" in told
