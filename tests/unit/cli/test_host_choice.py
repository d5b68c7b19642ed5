"""The hosts that `--host` and `--cluster` name."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.plans.estate import make_inventory
from vgpu_cfg.cli.options.hosts import HostChoice, cluster_names, wanted_hosts
from vgpu_cfg.errors import NotFound

CLUSTERS = {"esx-01": "gpu", "esx-02": "gpu", "web-01": "web"}
OBSERVED = make_inventory(
    {"clusters": {"gpu": {}, "web": {}}, "hosts": {name: {"cluster": one} for name, one in CLUSTERS.items()}}
)
OTHER = make_inventory({"hosts": {"far-01": {}}})
LISTING = "run `vgpu-cfg inventory` to list them all"


@pytest.mark.parametrize(
    ("hosts", "clusters", "wanted"),
    [
        ([], [], ["esx-01", "esx-02", "web-01"]),
        (["esx-*"], [], ["esx-01", "esx-02"]),
        (["esx-01", "web-*"], [], ["esx-01", "web-01"]),
        ([], ["web"], ["web-01"]),
        ([], ["w*", "gpu"], ["esx-01", "esx-02", "web-01"]),
        (["*-01"], ["gpu"], ["esx-01"]),
    ],
)
def test_words_name_hosts(hosts: Sequence[str], clusters: Sequence[str], wanted: list[str]) -> None:
    is_wanted = wanted_hosts(OBSERVED, hosts=hosts, clusters=clusters)
    assert [name for name in CLUSTERS if is_wanted(name)] == wanted


@pytest.mark.parametrize(
    ("hosts", "clusters", "message", "remedy"),
    [
        (["esx-03"], [], "no host matches esx-03", "did you mean"),
        (["zzz*"], [], "no host matches zzz*", "available hosts: esx-01, esx-02, web-01"),
        ([], ["gpus"], "no cluster matches gpus", "did you mean"),
        (["web-01"], ["gpu"], "no host matches gpu web-01", LISTING),
    ],
)
def test_words_that_name_no_host(hosts: list[str], clusters: list[str], message: str, remedy: str) -> None:
    with pytest.raises(NotFound) as caught:
        wanted_hosts(OBSERVED, hosts=hosts, clusters=clusters)
    assert (caught.value.message, caught.value.subject) == (message, "vc.example")
    assert caught.value.remedy.startswith(remedy)


def test_a_word_must_match_at_one_of_several_vcenters() -> None:
    choice = HostChoice(["far-*", "web-*"], [])
    assert choice.at(OTHER)("far-01")
    with pytest.raises(NotFound, match=r"no host matches web-\*"):
        choice.refuse_vain("2 vCenters")
    assert choice.at(OBSERVED)("web-01")
    choice.refuse_vain("2 vCenters")


def test_the_clusters_of_hosts() -> None:
    assert cluster_names(OBSERVED) == {f"host-{name}": one for name, one in CLUSTERS.items()}
    alone = [
        host.model_copy(update={"cluster_moid": moid})
        for host, moid in zip(OBSERVED.hosts, (None, "x"), strict=False)
    ]
    assert cluster_names(OBSERVED.model_copy(update={"hosts": (*alone, OBSERVED.hosts[2])})) == {
        "host-web-01": "web"
    }
