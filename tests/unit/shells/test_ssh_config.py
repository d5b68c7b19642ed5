from __future__ import annotations

from pathlib import Path

import pytest

from vgpu_cfg.errors import HostShellError
from vgpu_cfg.shells.ssh import HostOptions, options_for


def written(folder: Path, text: str) -> Path:
    path = folder / "config"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", [None, "absent"])
def test_without_a_file_the_name_stands(tmp_path: Path, name: str | None) -> None:
    path = tmp_path / name if name is not None else None
    assert options_for("esx01", path, HostShellError) == HostOptions(host="esx01", port=22)


def test_four_options_are_honoured(tmp_path: Path) -> None:
    key = tmp_path / "id_lab"
    key.touch()
    path = written(
        tmp_path,
        "Host esx*\n  HostName 192.0.2.7\n  Port 2222\n  User admin\n"
        f"  IdentityFile {key}\n  IdentityFile {tmp_path}/absent\n  ForwardAgent yes\n",
    )
    assert options_for("esx01", path, HostShellError) == HostOptions(
        host="192.0.2.7", port=2222, user="admin", key_files=(str(key),)
    )
    assert options_for("other", path, HostShellError) == HostOptions(host="other")


@pytest.mark.parametrize("line", ["ProxyJump bastion", "ProxyCommand ssh -W %h:%p bastion"])
def test_a_jump_host_is_refused_and_not_left_out(tmp_path: Path, line: str) -> None:
    path = written(tmp_path, f"Host esx*\n  {line}\n")
    with pytest.raises(HostShellError, match="proxy") as caught:
        options_for("esx01", path, HostShellError)
    assert caught.value.subject == str(path)


def test_no_jump_host_is_none(tmp_path: Path) -> None:
    assert (
        options_for("esx01", written(tmp_path, "Host *\n  ProxyCommand none\n"), HostShellError).host
        == "esx01"
    )


@pytest.mark.parametrize("text", ["Host *\n  Port many\n", "nonsense\n"])
def test_a_file_that_is_broken_is_named(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(HostShellError, match="cannot be read") as caught:
        options_for("esx01", path, HostShellError)
    assert caught.value.subject == str(path)
