"""The picture of an estate: strips without a gap, sums as the pool has them, names that stay text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.plans.estate import make_inventory
from tests.unit.render.page_data import data_in
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.planning.pool.gpus import pooled_gpus
from vgpu_cfg.render.page.estate import render_inventory_page
from vgpu_cfg.render.views.pictures.estate_map import EstateMap, MapGpu, view_map

HOSTILE = "</script><script>alert(1)</script>&amp;\u202ex"


def drawn(gpu: dict[str, Any], *profiles: str, **host: Any) -> EstateMap:
    names = {f"vm-{number}": [profile] for number, profile in enumerate(profiles)}
    pci = "0000:21:00.0"
    estate = {
        "hosts": {"esx-a": {"gpus": [{"board": "A100", "pci": pci, "node": 0} | gpu], **host}},
        "vms": {name: {"gpus": one, "on": [pci], "host": "esx-a"} for name, one in names.items()},
    }
    return view_map(make_inventory(estate), load_catalog())


def only(found: EstateMap) -> MapGpu:
    ((_, (host,)),) = found.clusters
    (gpu,) = (gpu for node in host.nodes for gpu in node.gpus)
    return gpu


def strip(found: EstateMap) -> list[tuple[str, float, float]]:
    return [(one.kind, round(one.start, 1), round(one.size, 1)) for one in only(found).pieces]


@pytest.mark.parametrize(
    ("gpu", "profiles", "expected"),
    [
        ({}, [], [("free", 0, 40)]),
        ({}, ["grid_a100-40c"], [("used", 0, 40)]),
        ({}, ["grid_a100-20c"], [("used", 0, 20), ("bound", 20, 20)]),
        ({"mode": "mixed_size"}, ["grid_a100-20c"], [("used", 0, 20), ("free", 20, 20)]),
        ({"sharing": "mig"}, ["grid_a100-3-20c"], [("free", 0, 4), ("used", 4, 4)]),
        ({"passthrough": True}, [], [("free", 0, 40)]),
    ],
)
def test_a_strip_has_its_vgpus_to_scale_and_where_they_stand(
    gpu: dict[str, Any], profiles: list[str], expected: list[tuple[str, float, float]]
) -> None:
    assert strip(drawn(gpu, *profiles)) == expected


def test_a_gpu_that_takes_nothing_is_closed_and_not_free() -> None:
    assert strip(drawn({}, maintenance=True)) == [("closed", 0, 40)]


@pytest.mark.parametrize("mode", ["same_size", "mixed_size", "mig"])
def test_pieces_fill_a_gpu_without_gap_or_overlap(mode: str) -> None:
    profiles = ["grid_a100-3-20c"] * 2 if mode == "mig" else ["grid_a100-8c"] * 3
    gpu = only(drawn({"sharing": "mig"} if mode == "mig" else {"mode": mode}, *profiles))
    end = 0.0
    for piece in gpu.pieces:
        assert piece.start == pytest.approx(end, abs=gpu.units / 500)
        end = piece.start + piece.size
    assert end == pytest.approx(gpu.units, abs=gpu.units / 500)
    assert sum(piece.kind == "used" for piece in gpu.pieces) == len(profiles)


def test_the_sums_are_those_of_the_pool() -> None:
    found = drawn({}, "grid_a100-4c", "grid_a100-4c")
    observed = make_inventory({"hosts": {}})
    assert view_map(observed, load_catalog()).totals.gpus == len(pooled_gpus(observed, load_catalog())) == 0
    gpu = only(found)
    sums = found.totals
    assert (sums.hosts, sums.gpus, sums.idle, sums.closed, sums.vms) == (1, 1, 0, 0, 2)
    assert (sums.free_mib, sums.lost_mib, sums.bound_mib) == (gpu.free_mib, gpu.lost_mib, gpu.bound_mib)
    assert sums.free_mib > 0


def test_a_hostile_name_is_text_in_the_page_and_whole_in_its_data() -> None:
    observed = make_inventory(
        {
            "hosts": {"esx-a": {"gpus": [{"board": "A100", "pci": "0000:21:00.0", "node": 0}]}},
            "vms": {"bad": {"name": HOSTILE, "gpus": ["grid_a100-20c"], "on": ["0000:21:00.0"]}},
        }
    )
    page = render_inventory_page(view_map(observed, load_catalog()))
    assert page.count("<script") == page.count("</script>") == 2
    assert "alert(1)</script>" not in page
    data = data_in(page)
    assert [vm["name"] for vm in data["vms"]] == [HOSTILE]
    assert (data["kind"], data["format"], data["totals"]["vms"]) == ("inventory-map", 1, 1)


def test_hostile_names_of_devices_are_text_in_the_drawing_of_the_wiring() -> None:
    gpu = {"board": "A100", "pci": "0000:21:00.0", "node": 0}
    nic = {"pci": "0000:24:00.0", "node": 0, "name": HOSTILE, "label": HOSTILE}
    observed = make_inventory({"hosts": {"esx-a": {"gpus": [gpu], "nics": [nic]}}})
    (host,) = observed.hosts
    (found,) = host.gpus
    named = host.model_copy(update={"gpus": (found.model_copy(update={"name": HOSTILE}),)})
    page = render_inventory_page(view_map(observed.model_copy(update={"hosts": (named,)}), load_catalog()))
    assert page.count("<script") == page.count("</script>") == 2
    assert "alert(1)</script>" not in page
    assert HOSTILE in set(texts_of(data_in(page)))


def texts_of(value: object) -> Iterator[str]:
    """Yield every text within lists and mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from texts_of(part)
    elif isinstance(value, list):
        for part in value:
            yield from texts_of(part)
