"""Who did what, read of the events of the lab and of vcsim."""

from __future__ import annotations

from tests.contract.vcenters import VCenter, fresh
from vgpu_cfg.model.observed.past import PastScope
from vgpu_cfg.model.plan.vm_spec import VmSpec


def test_a_reconfiguration_is_told_with_who_and_what(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        inventory = desk.inventory()
        vm = inventory.vms[0]
        host = inventory.hosts[0]
        name = fresh("a.key")
        desk.done(desk.writer.reconfigure_vm(vm.moid, VmSpec(extra_config={name: "b"})))
        for scope in (PastScope(), PastScope(host_moids=(host.moid,))):
            past = desk.reader.read_past(scope.model_copy(update={"vm_moids": (vm.moid,)}))
            assert past.unread == ""
            assert past.since is not None
            (event,) = [one for one in past.events if f"extraConfig[{name}]" in one.sets]
            assert (event.kind, event.moid, event.name) == ("VmReconfiguredEvent", vm.moid, vm.name)
            assert event.sets[f"extraConfig[{name}]"] == "b"
            assert event.by
