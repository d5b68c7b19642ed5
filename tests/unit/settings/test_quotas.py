"""A file of shares: how it is read, where its faults are, and which files hold at a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.model.reservations import LicencePool, Quotas, Share
from vgpu_cfg.settings.connection import resolve_connection
from vgpu_cfg.settings.flags import ConnectionFlags
from vgpu_cfg.settings.quotas import read_quotas


def read(folder: Path, text: str) -> Quotas:
    path = folder / "quotas.yaml"
    path.write_text(text, encoding="utf-8")
    return read_quotas(path, load_catalog())


def test_a_number_is_of_gpus_and_a_size_of_framebuffer(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "version: 1\n"
        "pool: {clusters: [gpu-*]}\n"
        "owners:\n  ml-team: {L40S: 2.5}\n"
        "folders:\n  lab/students: {L40S: 96GiB}\n"
        "others: {'*': 0}\n",
    )
    at = tmp_path / "quotas.yaml"
    l40s = tuple(board.key for board in load_catalog().matching("L40S"))
    assert found.clusters == ("gpu-*",)
    assert found.shares == (
        Share(kind="owner", name="ml-team", boards=l40s, called="L40S", gpus=2.5, origin=f"{at}:4"),
        Share(
            kind="folder",
            name="lab/students",
            boards=l40s,
            called="L40S",
            framebuffer_mib=96 * 1024,
            origin=f"{at}:6",
        ),
        Share(kind="others", called="any board", gpus=0, origin=f"{at}:7"),
    )


def test_licenses_are_a_number_or_say_how_they_count(tmp_path: Path) -> None:
    found = read(
        tmp_path, "version: 1\nlicences:\n  nvaie: 16\n  vws: {count: 4, per: gpu, series: [Q, C]}\n"
    )
    at = tmp_path / "quotas.yaml"
    assert found.licences == (
        LicencePool(product="nvaie", count=16, per="vgpu", series=("C",), origin=f"{at}:3"),
        LicencePool(product="vws", count=4, per="gpu", series=("Q", "C"), origin=f"{at}:4"),
    )


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("version: 1\nlicences: {vcs: 1}", "2:17", "vcs"),
        ("version: 1\nlicences: {nvaie: -1}", "2:19", "0"),
        ("version: 1\nlicences: {nvaie: {per: gpu}}", "2:12", "count"),
        ("version: 2\nothers: {A100: 1}", "1:10", "2"),
        ("version: 1", "1:1", "the file does not define any quotas"),
        ("version: 1\nowner: {a: {A100: 1}}", "2:1", "unknown key 'owner'"),
        (
            "version: 1\nowners: {a: {A100: many}}",
            "2:20",
            "'many' is neither a number of GPUs nor a framebuffer",
        ),
        ("version: 1\nowners: {a: {A100: true}}", "2:20", "neither a number of GPUs"),
        ("version: 1\nowners: {a: {A100: -1}}", "2:20", "-1 is not a number of GPUs"),
        ("version: 1\nowners: {a: {A100: .inf}}", "2:20", "neither a number of GPUs"),
        ("version: 1\nowners: {a: {L40Z: 1}}", "2:14", "no board matches 'L40Z'"),
        ("version: 1\nowners: {a: {gpus: 1}}", "2:14", "no board matches 'gpus' (use \"*\" for all boards"),
        ("version: 1\nowners: {a: {}}", "2:13", ""),
        ("version: 1\npool: {clusters: []}\nothers: {A100: 1}", "2:18", ""),
    ],
)
def test_every_fault_has_its_place(tmp_path: Path, text: str, place: str, says: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read(tmp_path, text)
    (fault,) = caught.value.faults
    assert (f"{fault.line}:{fault.column}", says in str(fault)) == (place, True)
    assert caught.value.remedy == "correct the quota file"


def test_the_files_of_a_server_are_those_of_its_contexts_and_the_one_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "contexts:\n"
        "  a: {server: vc01.example.com, user: u, quotas: shares/a.yaml}\n"
        "  b: {server: VC01.example.com, user: u, quotas: /srv/b.yaml}\n"
        "  c: {server: vc02.example.com, user: u, quotas: c.yaml}\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("VGPU_CFG_CONFIG", str(config))
    of_contexts = (tmp_path / "shares/a.yaml", Path("/srv/b.yaml"))
    named = ConnectionFlags(server="vc01.example.com", user="u", quotas=Path("mine.yaml"))
    assert resolve_connection(named).quotas == (*of_contexts, Path("mine.yaml"))
    monkeypatch.setenv("VGPU_CFG_QUOTAS", "theirs.yaml")
    assert resolve_connection(named).quotas == (*of_contexts, Path("mine.yaml"))
    unnamed = ConnectionFlags(server="vc01.example.com", user="u")
    assert resolve_connection(unnamed).quotas == (*of_contexts, Path("theirs.yaml"))
    monkeypatch.delenv("VGPU_CFG_QUOTAS")
    assert resolve_connection(ConnectionFlags(server="vc03.example.com", user="u")).quotas == ()
