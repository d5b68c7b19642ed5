"""How NICs are found by their ids and names, and what a broken NIC file says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.catalog.nic import MELLANOX, NicCatalog, NicModel, load_nics
from vgpu_cfg.errors import DocumentError

NICS = Path(__file__).resolve().parents[3] / "profiles" / "nics"
STEMS = sorted(path.stem for path in NICS.glob("*.yaml"))


@pytest.fixture(params=STEMS)
def nic(request: pytest.FixtureRequest) -> NicModel:
    (found,) = [one for one in load_nics().models if one.key.lower().replace(" ", "-") == request.param]
    return found


def test_every_model_is_there_once() -> None:
    models = load_nics().models
    assert len(models) == len(STEMS) == 9
    assert len({model.device_id for model in models}) == 9


def test_its_ids_lead_to_a_model(nic: NicModel) -> None:
    assert load_nics().by_pci(MELLANOX, nic.device_id) is nic
    assert load_nics().names_of(MELLANOX, nic.device_id) == nic.names


def test_its_name_leads_to_a_model_in_any_case(nic: NicModel) -> None:
    assert load_nics().model(nic.key.upper()) is nic
    assert nic.names[0] == nic.key


def test_signed_shorts_are_ids_too() -> None:
    found = load_nics().by_pci(MELLANOX, 0xA2D6 - 0x10000)
    assert found is not None
    assert found.key == "BlueField-2"


def test_what_is_not_known_has_no_model_and_no_names() -> None:
    nics = load_nics()
    assert nics.by_pci(MELLANOX, 0x1003) is None
    assert nics.by_pci(0x14E4, 0x101D) is None
    assert nics.by_pci(MELLANOX, 0x101E) is None
    assert nics.names_of(MELLANOX, 0x1003) == ()
    assert nics.model("ConnectX") is None


def test_a_file_says_where_it_is_from_and_when(nic: NicModel) -> None:
    assert {"pci", "driver"} <= set(nic.sources)
    assert re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", nic.date)
    assert nic.vf_device_id is not None
    assert nic.vf_device_id != nic.device_id


def test_the_boards_know_nothing_of_the_nics() -> None:
    assert not {model.key for model in load_nics().models} & set(load_catalog().boards)


def test_only_the_file_that_is_needed_is_taken_apart(tmp_path: Path) -> None:
    good = (NICS / "connectx-7.yaml").read_text(encoding="utf-8")
    (tmp_path / "connectx-7.yaml").write_text(good, encoding="utf-8")
    (tmp_path / "connectx-9.yaml").write_text("key: [", encoding="utf-8")
    nics = NicCatalog(tmp_path)
    assert nics.by_pci(MELLANOX, 0x1021) is not None
    with pytest.raises(DocumentError):
        _ = nics.models


def test_finding_a_board_reads_no_nic() -> None:
    code = (
        "import sys; from vgpu_cfg.catalog import load_catalog; load_catalog().board('A100');"
        "assert 'vgpu_cfg.catalog.nic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('device: "1021"', "device: 1021"), "device"),
        (("driver: nmlx5_core", "drivers: nmlx5_core"), "drivers"),
        (("key: ConnectX-7", "key: ConnectX-70"), "connectx-70.yaml"),
        (("unproven:", "unproven:\n  colour: guessed"), "'colour' is not a valid key for a NIC file"),
    ],
)
def test_a_broken_file_is_told_where(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    text = (NICS / "connectx-7.yaml").read_text(encoding="utf-8").replace(*change, 1)
    (tmp_path / "connectx-7.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        _ = NicCatalog(tmp_path).models
    assert any(message in str(fault) for fault in caught.value.faults)
    assert all(fault.line > 0 for fault in caught.value.faults)
