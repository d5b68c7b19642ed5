"""What a plan file could ever need, whatever a vCenter holds: more than any one run does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

from vgpu_cfg.changes import privileges as table
from vgpu_cfg.changes.need import Need
from vgpu_cfg.model.desired import DesiredPlan, TemplateSource
from vgpu_cfg.planning.privileges.commands import Command

_OF_CLONES = frozenset({table.CLONE_TEMPLATE, table.CLONE_VM, table.CREATE_FROM_EXISTING, table.NEW_TPM})
_OF_SCRATCH = frozenset({table.CREATE, table.FIRST_TPM})
_OF_TPMS = frozenset({table.NEW_TPM, table.FIRST_TPM})
_OF_SWITCHES = frozenset(
    {table.MAKE_SWITCH, table.EDIT_SWITCH, table.SWITCH_MEMBERS, table.MAKE_PORTGROUP, table.EDIT_PORTGROUP}
)
_OF_ATTRIBUTES = frozenset({table.SET_ATTRIBUTES, table.DEFINE_ATTRIBUTES})


def could_need(command: Command, desired: DesiredPlan) -> tuple[Need, ...]:
    """Return the needs that a command could come to with a plan file, reading among them."""
    return tuple(dict.fromkeys((*_reading(command, desired), *_of(command, desired))))


def _of(command: Command, desired: DesiredPlan) -> Iterator[Need]:
    match command:
        case Command.READ:
            return
        case Command.APPLY:
            yield from _of_vms(desired)
            yield from _of_hosts(desired)
            yield from table.OF_RUNS
        case Command.VERIFY:
            if _takes_passwords(desired):
                yield from table.TO_VERIFY
        case Command.DESTROY:
            yield from (*table.TO_DESTROY, *table.OF_RUNS)
        case Command.IMPORT | Command.FORGET:
            yield from (table.ADVANCED, *table.OF_RUNS)
        case Command.CORDON:
            yield from (table.CORDON, table.DEFINE_ATTRIBUTES, *table.OF_RUNS)
        case Command.DRAIN | Command.UNCORDON:
            yield from (*table.TO_WORK_ON_HOSTS, *table.OF_RUNS)
        case _:
            assert_never(command)


def _reading(command: Command, desired: DesiredPlan) -> Iterator[Need]:
    yield table.READING
    yield table.READ_LOG
    if desired.hosts and command.reads_host_facts:
        yield from (table.READ_MODULES, table.READ_PACKAGES)
    if any(vm.vtpm for vm in desired.vms):
        yield table.READ_KEY_PROVIDERS
    if any(vm.storage_policies for vm in desired.vms):
        yield table.READ_STORAGE_POLICIES
    if any(isinstance(vm.source, TemplateSource) and vm.source.library is not None for vm in desired.vms):
        yield table.READ_LIBRARY
    if any(vm.guest is not None and vm.guest.spec for vm in desired.vms):
        yield table.READ_CUSTOMIZATION_SPECS


def _of_vms(desired: DesiredPlan) -> Iterator[Need]:
    if not desired.vms:
        return
    sources = {vm.source.kind for vm in desired.vms if vm.source is not None}
    applies: Mapping[frozenset[Need], bool] = {
        _OF_CLONES: "template" in sources,
        _OF_SCRATCH: "scratch" in sources,
        _OF_TPMS: any(vm.vtpm for vm in desired.vms),
        frozenset({table.CUSTOMIZE}): any(vm.guest is not None and vm.guest.spec for vm in desired.vms),
        frozenset({table.DISK_POLICY}): any(vm.storage_policies for vm in desired.vms),
        _OF_ATTRIBUTES: any(vm.attributes for vm in desired.vms),
        frozenset({table.SET_TAGS}): any(vm.tags for vm in desired.vms),
        frozenset({table.GUEST_OPERATIONS}): _takes_passwords(desired),
    }
    for need in table.OF_VMS:
        if all(holds for needs, holds in applies.items() if need in needs):
            yield need


def _of_hosts(desired: DesiredPlan) -> Iterator[Need]:
    has_switches = any(network.switch for network in desired.networks)
    for need in table.OF_HOSTS:
        if (desired.hosts and need not in _OF_SWITCHES) or (has_switches and need in _OF_SWITCHES):
            yield need
    if has_switches:
        yield table.HOST_NETWORK


def _takes_passwords(desired: DesiredPlan) -> bool:
    return any(vm.guest is not None and vm.guest.login.password for vm in desired.vms)
