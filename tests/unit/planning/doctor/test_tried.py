"""Each belief that a reading tries holds on the lab, and is found false where the estate contradicts it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cli.locks import ANNA
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.cli.flows.doctor_flow import read_to_examine
from vgpu_cfg.knowledge.beliefs import load_beliefs
from vgpu_cfg.model.locks import Lock, LockHolder, LockName, Locks
from vgpu_cfg.model.observed.host_facts import ClusterFacts, SoftwarePackage
from vgpu_cfg.model.observed.inventory import Connection, DeviceGroupInfo, Gpu, GroupPart, Host, Inventory
from vgpu_cfg.model.observed.vm import AFFINITY_KEY, Manager, Vm, VmDetail
from vgpu_cfg.model.verdicts import Verdict
from vgpu_cfg.planning.doctor.patient import Patient
from vgpu_cfg.planning.doctor.tried import TRIALS, try_beliefs
from vgpu_cfg.settings.connection import resolve_connection
from vgpu_cfg.settings.flags import ConnectionFlags


@cache
def estate() -> Inventory:
    return read_to_examine(resolve_connection(ConnectionFlags(server="lab:mixed-fleet")))


def verdicts(observed: Inventory) -> dict[str, Verdict]:
    return {one.belief: one.verdict for one in try_beliefs(Patient(observed, load_catalog()))}


def running(observed: Inventory) -> Vm:
    """Return a VM that runs with a vGPU."""
    return next(
        vm for vm, detail, _ in Patient(observed, load_catalog()).gpu_vms if vm.is_on and detail.vgpus
    )


def detail_of(observed: Inventory) -> VmDetail:
    detail = running(observed).detail
    assert detail is not None
    return detail


def with_vm(observed: Inventory, **values: Any) -> Inventory:
    """Return the estate with other values of the details of one running VM with a vGPU."""
    chosen = running(observed)
    assert chosen.detail is not None
    changed = chosen.model_copy(update={"detail": chosen.detail.model_copy(update=values)})
    return observed.model_copy(
        update={"vms": tuple(changed if vm.moid == chosen.moid else vm for vm in observed.vms)}
    )


def with_hosts(observed: Inventory, change: Callable[[Host], Host]) -> Inventory:
    return observed.model_copy(update={"hosts": tuple(change(host) for host in observed.hosts)})


def with_gpus(observed: Inventory, change: Callable[[Gpu], Gpu]) -> Inventory:
    return with_hosts(
        observed, lambda host: host.model_copy(update={"gpus": tuple(change(gpu) for gpu in host.gpus)})
    )


def with_function(observed: Inventory, **values: Any) -> Inventory:
    return with_gpus(observed, lambda gpu: gpu.model_copy(update={"pci": gpu.pci.model_copy(update=values)}))


def powered_off(observed: Inventory) -> Inventory:
    chosen = running(observed)
    return observed.model_copy(
        update={
            "vms": tuple(
                vm.model_copy(update={"power_state": "poweredOff"}) if vm.moid == chosen.moid else vm
                for vm in observed.vms
            )
        }
    )


def several(observed: Inventory, count: int, **values: Any) -> Inventory:
    detail = running(observed).detail
    assert detail is not None
    return with_vm(observed, vgpus=detail.vgpus[:1] * count, **values)


def two_sizes(observed: Inventory) -> Inventory:
    """Put a vGPU of another size on a GPU in same-size mode on which several run."""
    patient = Patient(observed, load_catalog())
    for host in patient.gpu_hosts:
        for gpu in host.gpus:
            if len(gpu.vm_moids) > 1 and gpu.vgpu_mode == "same_size":
                vm = observed.vm_by_moid[gpu.vm_moids[0]]
                assert vm.detail is not None
                old = vm.detail.vgpus[0].profile
                other = next(
                    name
                    for name in host.creatable_profiles
                    if name.startswith(old.split("-")[0]) and name.rstrip("acqb") != old.rstrip("acqb")
                )
                vgpu = vm.detail.vgpus[0].model_copy(update={"profile": other})
                changed = vm.model_copy(update={"detail": vm.detail.model_copy(update={"vgpus": (vgpu,)})})
                return observed.model_copy(
                    update={"vms": tuple(changed if one.moid == vm.moid else one for one in observed.vms)}
                )
    raise AssertionError("no GPU is shared")


def twin(observed: Inventory) -> Inventory:
    """Add an idle host, and one like it that offers other profiles."""
    idle = next(host for host in observed.hosts if host.gpus and not any(gpu.vm_moids for gpu in host.gpus))
    other = idle.model_copy(
        update={"moid": "host-x", "name": "x", "creatable_profiles": idle.creatable_profiles[1:]}
    )
    return observed.model_copy(update={"hosts": (*observed.hosts, other)})


def busy_but_free(observed: Inventory) -> Inventory:
    """Let a VM hold each GPU of the hosts that offer whole ones."""
    return with_gpus(observed, lambda gpu: gpu.model_copy(update={"vm_moids": gpu.vm_moids or ("vm-1",)}))


def with_locks(observed: Inventory, *holders: LockHolder | None) -> Inventory:
    held = tuple(
        Lock(
            moid=f"alarm-{number}",
            name=LockName(kind="plan", key="demo"),
            holder=holder,
            beat_at=observed.read_at,
            account="",
        )
        for number, holder in enumerate(holders)
    )
    return observed.model_copy(update={"locks": Locks(now=observed.read_at, held=held)})


def unanswered(observed: Inventory) -> Inventory:
    """Return the estate with a host without a driver that does not answer with its profiles."""
    bare = next(host for host in observed.hosts if host.gpus and host.connection is Connection.CONNECTED)
    bare = bare.model_copy(update={"profiles": None})
    software = (SoftwarePackage(name="esx-base", version="8.0"),)
    facts = observed.facts.hosts[bare.moid].model_copy(update={"software": software})
    known = observed.facts.model_copy(update={"hosts": {**observed.facts.hosts, bare.moid: facts}})
    hosts = tuple(bare if host.moid == bare.moid else host for host in observed.hosts)
    return observed.model_copy(update={"hosts": hosts, "facts": known})


FALSE: dict[str, Callable[[Inventory], Inventory]] = {
    "vgpu-needs-efi-memory-mmio": lambda seen: with_vm(seen, firmware="bios"),
    "mmio-of-one-gpu": lambda seen: with_vm(
        seen, memory_mib=1 << 20, extra_config={"pciPassthru.use64bitMMIO": "FALSE"}
    ),
    "mmio-of-several-gpus": lambda seen: several(
        seen, 2, memory_mib=1 << 20, extra_config={"pciPassthru.use64bitMMIO": "FALSE"}
    ),
    "vgpus-for-each-hardware-version": lambda seen: several(seen, 17, hardware_version=21),
    "graphics-info-shows-the-gpu": lambda seen: with_gpus(
        seen, lambda gpu: gpu.model_copy(update={"vm_moids": ()})
    ),
    "graphics-info-forgets-stopped-vms": powered_off,
    "parent-bridge-is-an-address": lambda seen: with_hosts(
        with_function(seen, parent_bridge="0000:ff:00.0"),
        lambda host: host.model_copy(
            update={
                "pci_devices": tuple(
                    device.model_copy(update={"pci_id": "0000:ff:00.0", "class_id": 0x0300})
                    for device in host.pci_devices[:1]
                )
            }
        ),
    ),
    "root-ports-share-a-bus": lambda seen: with_function(seen, parent_bridge=None),
    "profile-prefixes-by-rule": lambda seen: with_hosts(
        seen, lambda host: host.model_copy(update={"creatable_profiles": ("nvidia_x900-9c",)})
    ),
    "c-series-profiles": lambda seen: with_function(seen, device_id=0xFFFE),
    "one-framebuffer-size-in-same-size-mode": two_sizes,
    "same-build-same-profiles": twin,
    "generated-mac-ranges": lambda seen: with_vm(
        seen,
        nics=(detail_of(seen).nics[0].model_copy(update={"mac": "00:50:56:ff:00:01"}),),
    ),
    "disk-uuid-exists": lambda seen: with_vm(
        seen,
        disks=(detail_of(seen).disks[0].model_copy(update={"uuid": ""}),),
    ),
    "nics-are-class-02": lambda seen: with_hosts(
        seen,
        lambda host: host.model_copy(
            update={
                "nics": tuple(
                    nic.model_copy(update={"pci": nic.pci.model_copy(update={"class_id": 0x0C06})})
                    for nic in host.nics
                    if nic.pci is not None
                )
            }
        ),
    ),
    "groups-need-version-20": lambda seen: with_vm(seen, device_groups={1: "g"}, hardware_version=19),
    "numa-affinity-format": lambda seen: with_vm(seen, extra_config={AFFINITY_KEY: "node0"}),
    "groups-are-read-back": lambda seen: with_vm(
        seen, vgpus=(detail_of(seen).vgpus[0].model_copy(update={"group_key": 7}),)
    ),
    "shared-types-are-fresh": busy_but_free,
    "alarm-names-are-unique": lambda seen: with_locks(seen, ANNA, ANNA),
    "alarm-description-400": lambda seen: with_locks(seen, None),
    "native-key-provider-is-listed": lambda seen: with_vm(
        seen.model_copy(update={"vcenter": seen.vcenter.model_copy(update={"key_providers": ()})}),
        tpm_key=11000,
    ),
    "no-driver-no-fault": unanswered,
    "vmotion-cost-units": lambda seen: with_hosts(
        seen,
        lambda host: host.model_copy(
            update={
                "profiles": tuple(
                    one.model_copy(update={"stun_ms": {mbit: 1000 * ms for mbit, ms in one.stun_ms.items()}})
                    for one in host.profiles or ()
                )
            }
        ),
    ),
    "group-nic-component-type": lambda seen: with_hosts(
        seen,
        lambda host: host.model_copy(
            update={"device_groups": (DeviceGroupInfo(name="g", parts=(GroupPart(kind="nic"),)),)}
        ),
    ),
    "eam-marks-agents": lambda seen: seen.model_copy(
        update={
            "vms": tuple(
                vm.model_copy(update={"manager": Manager(product="the extension com.vmware.eam")})
                for vm in seen.vms
            )
        }
    ),
    "empty-option-removes-it": lambda seen: seen.model_copy(
        update={
            "facts": seen.facts.model_copy(
                update={"clusters": {one.moid: ClusterFacts(drs_options={"x": ""}) for one in seen.clusters}}
            )
        }
    ),
    "licenses-name-their-end": lambda seen: seen.model_copy(
        update={
            "licences": {
                moid: tuple(one.model_copy(update={"ends": None}) for one in found)
                for moid, found in (seen.licences or {}).items()
            }
        }
    ),
}
"""An estate that contradicts each belief."""


def test_each_trial_is_of_a_belief_and_has_its_contradiction() -> None:
    assert set(TRIALS) <= set(load_beliefs())
    assert set(FALSE) == set(TRIALS)


def test_the_lab_contradicts_none() -> None:
    assert Verdict.FAILS not in verdicts(estate()).values()


@pytest.mark.parametrize("belief", FALSE)
def test_a_contradiction_is_seen(belief: str) -> None:
    assert verdicts(FALSE[belief](estate()))[belief] is Verdict.FAILS


def test_nothing_is_said_of_an_empty_estate() -> None:
    empty = estate().model_copy(update={"hosts": (), "vms": (), "clusters": ()})
    assert set(verdicts(empty).values()) == {Verdict.OPEN}


LIAR = """
about: An agent, a host without a driver, and a device group with a NIC.
clusters:
- name: gpu
  hosts:
  - &host
    name: esx-1.lab
    gpus: [{board: A100}]
    nics: [{vmnic: vmnic0}]
    device_groups: [{name: pair, profile: grid_a100-40c, nic: ConnectX-6 Dx}]
  - {<<: *host, name: esx-2.lab, driver: none, device_groups: []}
networks: [{name: prod}]
datastores: [{name: vsan}]
vms: [{name: agent, host: esx-1.lab, managed_by: {extension: com.vmware.vim.eam, type: agent}}]
"""
LIES = ("group-nic-component-type", "eam-marks-agents", "no-driver-no-fault")


@pytest.mark.parametrize(("lies", "verdict"), [((), Verdict.HOLDS), (LIES, Verdict.FAILS)])
def test_lies_are_found_where_their_objects_are(
    tmp_path: Path, lies: tuple[str, ...], verdict: Verdict
) -> None:
    estate = tmp_path / "estate.yaml"
    estate.write_text(f"{LIAR}lies: [{', '.join(lies)}]\n", encoding="utf-8")
    found = verdicts(read_to_examine(resolve_connection(ConnectionFlags(server=f"lab:{estate}"))))
    assert {found[one] for one in LIES} == {verdict}
