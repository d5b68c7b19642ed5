from __future__ import annotations

import pytest

from tests.plans.estate import make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.suggestions.added_hosts import add_hosts

A100 = {"board": "A100", "pci": "0000:21:00.0", "node": 0}
L40S = {"board": "L40S", "pci": "0000:22:00.0", "node": 0}
RUNS = {"host": "esx-01.lab", "gpus": ["grid_a100-20c"], "on": [A100["pci"]], "memory_gib": 16}
OBSERVED = make_inventory(
    {
        "hosts": {"esx-01.lab": {"gpus": [A100]}, "esx-02.lab": {"gpus": [A100, L40S]}, "esx-03.lab": {}},
        "vms": {"a": RUNS},
    }
)
OLD = "A100 PCIe 40GB time_sliced same_size"


def words_of(host: Host) -> list[str]:
    return [f"{gpu.name} {gpu.sharing} {gpu.vgpu_mode}" for gpu in host.gpus]


@pytest.mark.parametrize(
    ("text", "count", "gpus"),
    [
        ("esx-01", 1, [OLD]),
        ("2 x esx-01.lab", 2, [OLD]),
        ("1000×esx-01", 1000, [OLD]),
        ("esx-01 with 2 x L40S, mixed size", 1, ["L40S time_sliced mixed_size"] * 2),
        ("1 x esx-02 with 32 x l40s", 1, ["L40S time_sliced same_size"] * 32),
        ("esx-01, mig", 1, ["A100 PCIe 40GB mig same_size"]),
        ("esx-01,  MIXED SIZE", 1, ["A100 PCIe 40GB time_sliced mixed_size"]),
    ],
)
def test_hosts_are_added_in_the_cluster_of_the_one_they_are_like(
    text: str, count: int, gpus: list[str]
) -> None:
    grown = add_hosts(OBSERVED, [text], load_catalog())
    added = grown.observed.hosts[len(OBSERVED.hosts) :]
    assert grown.added == {text: tuple(host.name for host in added)}
    like = "esx-02" if "esx-02" in text else "esx-01"
    assert [host.name for host in added] == [f"{like}-new{number + 1}.lab" for number in range(count)]
    assert {(*words_of(host),) for host in added} == {tuple(gpus)}
    assert {host.cluster_moid for host in added} == {OBSERVED.hosts[0].cluster_moid}
    assert not any(gpu.vm_moids for host in added for gpu in host.gpus)
    assert {host.moid for host in added} <= set(grown.observed.clusters[0].host_moids)


def test_hosts_of_several_words_have_names_of_their_own() -> None:
    grown = add_hosts(OBSERVED, ["esx-01", "2 x esx-01", "esx-01"], load_catalog())
    assert grown.added == {
        "esx-01": ("esx-01-new1.lab", "esx-01-new4.lab"),
        "2 x esx-01": ("esx-01-new2.lab", "esx-01-new3.lab"),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("esx-01 with 1 x L40S, MIG", "L40S does not support MIG mode"),
        ("esx-02, mixed size", "the boards in esx-02.lab are A100, L40S; specify the board and number"),
        ("esx-03, mig", "the boards in esx-03.lab are none that are in the catalog"),
        ("esx-1", "host 'esx-1' not found, .*did you mean 'esx-01.lab'"),
        ("0 x esx-01", "requests 0 hosts; specify 1 to 1000"),
        ("1001 x esx-01", "requests 1001 hosts; specify 1 to 1000"),
        ("esx-01 with 33 x L40S", "requests 33 GPUs; specify 1 to 32"),
        ("esx-01 with 0 x L40S", "requests 0 GPUs"),
        ("two esx-01", "does not match COUNT x HOST"),
        ("esx-01 with 1 x B9", "board 'B9' is not in the catalog"),
    ],
)
def test_words_that_add_no_host_say_what_to_write(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        add_hosts(OBSERVED, [text], load_catalog())
