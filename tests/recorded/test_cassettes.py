"""Sessions over HTTPS as they were recorded, played to the real transport, session and reader."""

from __future__ import annotations

from pathlib import Path

import pytest
from vcr.errors import CannotOverwriteExistingCassetteException

from tests.recorded.cassettes import FOLDER, USER, cassette, read
from vgpu_cfg.errors import LoginFailed, VersionTooOld
from vgpu_cfg.model.observed.inventory import Inventory


def gpus(inventory: Inventory) -> dict[str, list[tuple[str, int | None]]]:
    return {host.name: [(gpu.pci_id, gpu.numa_node) for gpu in host.gpus] for host in inventory.hosts}


def test_the_lab() -> None:
    with cassette("lab-two-a100"):
        inventory, session = read()
    assert (inventory.vcenter.api_version, inventory.vcenter.user) == ("8.0.3.0", USER)
    assert gpus(inventory) == {"esx-a100-01.lab": [("0000:21:00.0", 0), ("0000:e2:00.0", 1)]}
    assert "grid_a100-40c" in {profile.name for profile in inventory.hosts[0].profiles or ()}
    template = next(vm for vm in inventory.vms if vm.name == "ubuntu-22.04-efi")
    assert template.detail is not None
    assert template.detail.firmware == "efi"
    assert session.renewals == 0


def test_a_session_that_ends_midway_is_renewed_once_and_reads_the_same() -> None:
    with cassette("lab-session-ends"):
        broken, session = read()
    with cassette("lab-two-a100"):
        whole, _ = read()
    assert session.renewals == 1
    assert broken.model_copy(update={"read_at": whole.read_at}) == whole


def test_a_wrong_password() -> None:
    with cassette("lab-wrong-password"), pytest.raises(LoginFailed) as caught:
        read()
    assert USER in caught.value.message


def test_an_old_api_is_read_as_far_as_it_goes() -> None:
    with cassette("lab-old-api"):
        inventory, session = read()
    assert session.api_version == "7.0.2.0"
    assert gpus(inventory) == {"esx-old-01.lab": [("0000:21:00.0", 0)]}
    assert inventory.hosts[0].device_groups == ()


def test_vcsim_has_hosts_and_vms_and_no_gpu() -> None:
    with cassette("vcsim-no-gpu"):
        inventory, _ = read()
    assert {host.name for host in inventory.hosts} == {"DC0_H0", *(f"DC0_C0_H{n}" for n in range(3))}
    assert {vm.name for vm in inventory.vms} == {"DC0_C0_RP0_VM0", "DC0_H0_VM0"}
    assert not any(host.gpus or host.profiles for host in inventory.hosts)


def test_a_server_that_is_too_old_is_refused() -> None:
    with cassette("vcsim-too-old"), pytest.raises(VersionTooOld, match=r"it supports API 6\.0"):
        read()


def test_a_cassette_answers_nothing_that_was_not_asked_then() -> None:
    with cassette("lab-wrong-password"):
        with pytest.raises(LoginFailed):
            read()
        with pytest.raises(CannotOverwriteExistingCassetteException):
            read()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_cassette_is_played_by_a_test(path: Path) -> None:
    told = Path(__file__).read_text(encoding="utf-8")
    assert f'cassette("{path.stem}")' in told
