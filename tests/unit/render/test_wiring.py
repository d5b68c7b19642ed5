"""How hosts are wired, as rows: what is told, what is not, and the ATS chains of VMs."""

from __future__ import annotations

from tests.plans.estate import make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.render.layout.console import plain
from vgpu_cfg.render.text.estate.inventory import render_inventory
from vgpu_cfg.render.views.estate.inventory import view_inventory
from vgpu_cfg.render.views.estate.topology import WiredRow, above_text
from vgpu_cfg.render.views.pictures.estate_map import view_map

GPU, NIC = "0000:21:00.0", "0000:24:00.0"


def wired(observed: Inventory) -> dict[str, WiredRow]:
    return {row.pci_id: row for row in view_inventory(observed, load_catalog()).wiring}


def one_host(nic: dict[str, object], **vm: object) -> Inventory:
    host = {"gpus": [{"board": "A100", "pci": GPU, "node": 0}], "nics": [nic]}
    vms = {"a": {"gpus": ["grid_a100-40c"], "on": [GPU], **vm}}
    return make_inventory({"hosts": {"esx-a": host}, "vms": vms})


def with_bridges(observed: Inventory, above: dict[str, str], listed: tuple[str, ...]) -> Inventory:
    """Have vCenter tell bridges: `above` names the one above each function, `listed` those that it lists."""
    (host,) = observed.hosts
    own = next(one for one in host.pci_devices if one.pci_id == NIC)
    changed = tuple(
        one.model_copy(update={"parent_bridge": above.get(one.pci_id)}) for one in host.pci_devices
    )
    bridges = tuple(
        own.model_copy(update={"pci_id": pci_id, "class_id": 0x0604, "parent_bridge": above.get(pci_id)})
        for pci_id in listed
    )
    gpus = tuple(
        gpu.model_copy(update={"pci": gpu.pci.model_copy(update={"parent_bridge": above.get(gpu.pci_id)})})
        for gpu in host.gpus
    )
    found = host.model_copy(update={"pci_devices": (*changed, *bridges), "gpus": gpus})
    return observed.model_copy(update={"hosts": (found,)})


def test_what_nobody_tells_stays_unknown() -> None:
    observed = one_host({"pci": NIC, "node": None})
    rows = wired(with_bridges(observed, {}, ()))
    assert (rows[NIC].bridges, rows[NIC].has_root, rows[NIC].numa_node) == ((), False, None)
    assert above_text(rows[NIC]) == "unknown"
    assert rows[GPU].nvlink is None
    assert rows[GPU].vms == ("a",)
    assert view_inventory(observed, load_catalog()).ats == ()  # its NIC is the host's


def test_a_chain_of_bridges_ends_at_a_root_port_only_where_the_host_lists_it() -> None:
    above = {GPU: "0000:03:00.0", NIC: "0000:03:00.0", "0000:03:00.0": "0000:02:01.0"}
    observed = one_host({"pci": NIC, "node": 0})
    whole = wired(with_bridges(observed, above, ("0000:03:00.0", "0000:02:01.0")))
    assert above_text(whole[GPU]) == above_text(whole[NIC]) == "03:00.0 < 02:01.0 (root port)"
    cut = wired(with_bridges(observed, above, ("0000:03:00.0",)))
    assert above_text(cut[NIC]) == "03:00.0 < 02:01.0 < unknown"


def test_text_and_picture_tell_the_same_wiring() -> None:
    observed = one_host({"pci": NIC, "node": 0})
    view = view_inventory(observed, load_catalog())
    ((_, (drawn,)),) = view_map(observed, load_catalog()).clusters
    assert drawn.wiring == view.wiring
    assert drawn.ats == view.ats
    text = plain(render_inventory(view, 100, with_all=True))
    for row in view.wiring:
        assert above_text(row) in text
    assert "WIRING" not in plain(render_inventory(view, 100))
