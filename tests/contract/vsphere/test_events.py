"""Who did what, read of the events of the lab and of vcsim."""

from __future__ import annotations

import pytest

from tests.contract.conftest import NEEDS_GO, running_vcsim
from tests.contract.vcenters import VCenter, fresh, lab_vcenter
from vgpu_cfg.changes.kinds.vm_spec import VmSpec
from vgpu_cfg.model.observed.past import PastScope
from vgpu_cfg.vsphere.wire.transport import HttpsTransport, Trust


def test_a_reconfiguration_is_told_with_who_and_what() -> None:
    check_who_and_what(lab_vcenter("two-a100"))


@pytest.mark.long(NEEDS_GO)
@pytest.mark.enable_socket
def test_so_it_is_on_vcsim() -> None:
    """One of its own: where others have made disks it has tasks about what no vCenter has tasks about."""
    with running_vcsim() as server:
        transport = HttpsTransport(f"{server.host}:{server.port}", trust=Trust(thumbprint=server.thumbprint))
        check_who_and_what(VCenter("vcsim", server.user, server.password, lambda: transport, ""))


def check_who_and_what(vcenter: VCenter) -> None:
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
