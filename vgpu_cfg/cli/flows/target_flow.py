"""How `verify --target-branch` learns of each VM's stack: of hosts from vCenter, of guests by asking them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows import flow, verify_flow
from vgpu_cfg.errors import GuestError, NotFound
from vgpu_cfg.planning.findings.options import matches_any

if TYPE_CHECKING:
    from vgpu_cfg.cli.flows.preparing.request import PlanRequest
    from vgpu_cfg.model.desired import DesiredVm
    from vgpu_cfg.model.guest_looks import BranchPlan
    from vgpu_cfg.model.guests.guest import GuestSpec
    from vgpu_cfg.model.observed.inventory import Host
    from vgpu_cfg.planning.guests.compatibility import StackFacts
    from vgpu_cfg.ports import GuestShell
    from vgpu_cfg.settings.flags import ConnectionFlags

_START_SECONDS = 180.0


def plan_branch(
    request: PlanRequest,
    flags: ConnectionFlags,
    branch: str,
    *,
    vms: tuple[str, ...] = (),
    hosts: tuple[str, ...] = (),
) -> BranchPlan:
    """Judge the stack of every VM of a plan that has GPUs, today and with a host driver of `branch`.

    An unreachable guest is judged by the plan's data; the rest of it is unknown. Raises NotFound if no VM
    with GPUs is selected.
    """
    from vgpu_cfg.model.guest_looks import BranchPlan
    from vgpu_cfg.planning.estate.named import host_names, vm_names
    from vgpu_cfg.planning.estate.ownership import own_vms
    from vgpu_cfg.planning.guests.compatibility import about_branch, stack_of
    from vgpu_cfg.planning.host_settings.gpus.driver import driver_version

    connection, desired = flow.locate(request, flags)
    secrets = request.secrets()
    secrets.allow_commands()  # whoever asks guests logs in
    with compose.connect_writer(connection) as estate:
        begun = estate.clock.now()
        observed = verify_flow.read_plan(desired, estate)
        specs = verify_flow.specs_of(desired, observed)
        ways = verify_flow.Ways(desired, observed, estate, specs, {}, secrets)
        own = own_vms(desired, observed)
        vms, hosts = vm_names(vms, observed, [vm.name for vm in desired.vms]), host_names(hosts, observed)
        stacks = []
        for vm in desired.vms:
            there = own.get(vm.name)
            host = observed.host_by_moid.get(there.host_moid or "") if there is not None else None
            if not vm.gpus or (vms and not matches_any(vm.name, vms)):
                continue
            if hosts and (host is None or not matches_any(host.name, hosts)):
                continue
            found = observed.facts.hosts.get(host.moid) if host is not None else None
            version = driver_version(host, found.software) if host is not None and found is not None else ""
            facts = _of_plan(vm, specs.get(vm.name), host, version)
            stacks.append(stack_of(_asked(facts, specs.get(vm.name), ways), branch))
    if not stacks:
        chosen = " ".join([*vms, *hosts])
        raise NotFound(
            f"no VM with GPUs matches {chosen}" if chosen else "no VM in the plan has GPUs",
            subject=desired.name,
            remedy="use --vm with VMs in the plan, or omit --vm and --host"
            if chosen
            else "specify another plan",
        )
    return BranchPlan(
        plan=desired.name,
        server=connection.server,
        begun=begun,
        branch=branch,
        about=about_branch(branch),
        stacks=tuple(stacks),
    )


def _of_plan(vm: DesiredVm, spec: GuestSpec | None, host: Host | None, version: str) -> StackFacts:
    """Return the facts of vCenter and the plan file on a VM's stack."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.model.guests.modules import DriverModule, branch_of_package
    from vgpu_cfg.model.guests.training_modules import ImageModule
    from vgpu_cfg.planning.guests.compatibility import StackFacts
    from vgpu_cfg.planning.host_settings.gpus.driver import branch_of

    catalog = load_catalog()
    driver = spec.get(DriverModule) if spec is not None else None
    image = spec.get(ImageModule) if spec is not None else None
    package = driver.package if driver is not None else ""
    return StackFacts(
        vm=vm.name,
        host=host.name if host is not None else "",
        host_driver=version.partition("-")[0],
        host_branch=branch_of(version),
        boards=tuple(
            (gpu.name, catalog.of_device(gpu.pci))
            for gpu in (host.gpus if host is not None else ())
            if not gpu.is_passthrough
        ),
        has_vgpus=any(gpu.kind == "vgpu" for gpu in vm.gpus),
        lacks_uvm=any(gpu.kind == "vgpu" and not gpu.uvm for gpu in vm.gpus),
        guest_driver=f"R{branch_of_package(package)}, based on its package name"
        if branch_of_package(package)
        else "",
        guest_branch=branch_of_package(package),
        image=image.image if image is not None else "",
    )


def _asked(facts: StackFacts, spec: GuestSpec | None, ways: verify_flow.Ways) -> StackFacts:
    """Return the known facts of a stack with those of its guest."""
    from dataclasses import replace

    if spec is None:
        return replace(facts, unread="the plan defines no `guest` for this VM, so vgpu-cfg cannot log in")
    try:
        shell = ways.guest(facts.vm)
        return _told(facts, spec, shell)
    except GuestError as error:
        return replace(facts, unread=error.message)


def _told(facts: StackFacts, spec: GuestSpec, shell: GuestShell) -> StackFacts:
    from dataclasses import replace

    from vgpu_cfg.model.guests.training_modules import ImageModule
    from vgpu_cfg.parsers.frameworks import parse_image_env
    from vgpu_cfg.parsers.nvidia.guest_gpus import parse_guest_query
    from vgpu_cfg.parsers.text import UnreadableOutput
    from vgpu_cfg.verification.checks.container_checks import in_image

    answer = shell.run(("nvidia-smi", "-q"))
    try:
        seen = parse_guest_query(answer.stdout)
    except UnreadableOutput:
        seen = None  # no driver answers: what the plan says of it stays
    if seen is not None and seen.driver_version:
        licences = {gpu.licence.partition(" ")[0] for gpu in seen.gpus if gpu.licence}
        facts = replace(
            facts,
            guest_driver=seen.driver_version,
            guest_branch=seen.branch,
            licence=", ".join(sorted(licences)),
        )
    image = spec.get(ImageModule)
    if image is None:
        return facts
    command = in_image(image.runtime, image.image, ("env",), gpus=False)
    told = shell.run(command, timeout_seconds=_START_SECONDS)
    if told.status != 0:
        return facts
    versions = parse_image_env(told.stdout)
    framework = versions.framework
    if image.framework == "horovod":
        asked = in_image(image.runtime, image.image, ("horovodrun", "--version"), gpus=False)
        answer = shell.run(asked, timeout_seconds=_START_SECONDS)
        horovod = f"Horovod {answer.stdout.strip()}" if answer.status == 0 else ""
        framework = " with ".join(one for one in (horovod, framework) if one)
    return replace(facts, cuda=versions.cuda, nccl=versions.nccl, framework=framework)
