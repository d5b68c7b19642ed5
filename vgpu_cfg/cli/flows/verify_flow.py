"""Check hosts and guests: from a plan file to checks inside them, or to their stacks next to a driver branch.

Hosts are read from vCenter; guests are asked. Nothing is changed there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows import flow
from vgpu_cfg.cli.flows.preparing.guest_access import login_shells
from vgpu_cfg.cli.flows.preparing.host_facts import host_secrets
from vgpu_cfg.errors import GuestError, NotFound
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.planning.findings.options import PlanOptions, matches_any

if TYPE_CHECKING:
    from datetime import datetime

    from vgpu_cfg.cli.compose import Estate
    from vgpu_cfg.cli.flows.preparing.request import PlanRequest
    from vgpu_cfg.model.desired import DesiredPlan, DesiredVm
    from vgpu_cfg.model.guest_looks import BranchPlan
    from vgpu_cfg.model.guests.guest import GuestSpec
    from vgpu_cfg.model.observed.inventory import Host, Inventory
    from vgpu_cfg.model.plan_file import AccessEntry
    from vgpu_cfg.model.verification import Baseline, CheckResult, Verification
    from vgpu_cfg.planning.guests.compatibility import StackFacts
    from vgpu_cfg.ports import GuestShell, GuestShells, HostShell
    from vgpu_cfg.settings.flags import ConnectionFlags
    from vgpu_cfg.settings.secrets import SecretStore
    from vgpu_cfg.verification import Choice, GuestView, HostView

_START_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """The parts of a plan to verify. `vms` and `hosts` are globs, empty for all.

    `all_licences` also checks the licenses of VMs outside the plan, as its hosts report them. Figures are
    compared with a `baseline`. `targets` are hosts and GPUs, as `cordon` names them, to check instead of VMs.
    """

    choice: Choice
    vms: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    all_licences: bool = False
    baseline: Baseline | None = None
    targets: tuple[str, ...] = ()

    def meant(self, desired: DesiredPlan, observed: Inventory) -> Wanted:
        """Return the same with its VMs and hosts in names of this estate."""
        from vgpu_cfg.planning.estate.named import host_names, vm_names

        vms = vm_names(self.vms, observed, [vm.name for vm in desired.vms])
        return replace(self, vms=vms, hosts=host_names(self.hosts, observed))

    def checked(self, observed: Inventory) -> dict[str, frozenset[str]] | None:
        """Return the addresses of the GPUs to check by their host's moid, None without targets."""
        from vgpu_cfg.planning.upkeep.targets import targets_of

        found: dict[str, frozenset[str]] = {}
        for one in targets_of(self.targets, observed):
            gpus = {one.pci_id} if one.pci_id else {gpu.pci_id for gpu in one.host.gpus}
            found[one.host.moid] = found.get(one.host.moid, frozenset()) | gpus
        return found if self.targets else None


def verify_plan(
    request: PlanRequest,
    flags: ConnectionFlags,
    wanted: Wanted,
    on_result: Callable[[CheckResult], None],
    *,
    make_command: str = "vgpu-cfg apply",
) -> Verification:
    """Read the estate, log in where that is needed, and make the checks.

    Raises NotFound where no VM of the plan is there to be verified; `make_command` is what makes them.
    """
    connection, desired = flow.locate(request, flags)
    secrets = request.secrets()
    secrets.allow_commands()  # whoever verifies logs in
    with compose.connect_writer(connection) as estate:
        return verify_in(
            desired, estate, wanted, secrets, on_result, server=connection.server, make_command=make_command
        )


def verify_in(
    desired: DesiredPlan,
    estate: Estate,
    wanted: Wanted,
    secrets: SecretStore,
    on_result: Callable[[CheckResult], None] = lambda _: None,
    *,
    server: str,
    make_command: str = "vgpu-cfg apply",
) -> Verification:
    """Verify a plan on an estate that is logged in to; `apply` may call it after its last wave."""
    from vgpu_cfg.catalog.nic import load_nics
    from vgpu_cfg.verification import Channels, make_guest_views, make_host_views, verify

    begun, clock = estate.clock.now(), _vcenter_clock(estate)
    observed = read_plan(desired, estate, wanted)
    wanted = wanted.meant(desired, observed)
    checked = wanted.checked(observed)
    specs = specs_of(desired, observed)
    rates = {model.device_id: model.line_gbps for model in load_nics().models if model.line_gbps}
    open_shells = _open_shells(desired, observed)
    hosts = make_host_views(
        desired,
        observed,
        open_shells=frozenset(open_shells),
        licence_of_all=wanted.all_licences,
        checked=checked,
    )
    guests = make_guest_views(
        desired,
        observed,
        specs,
        now=clock(),
        rates_gbps=rates,
        framebuffers_mib=_framebuffers(desired, observed),
    )
    host_names = [host.name for host in hosts]
    hosts, guests = _selected(hosts, guests, wanted)
    if wanted.choice.watches and wanted.choice.shows("host-alarms"):
        alarms = estate.reader.read_alarms([view.host.moid for view in hosts])
        hosts = tuple(replace(view, alarms=alarms.get(view.host.moid)) for view in hosts)
    if checked is not None:
        gpus = {(host.name, pci) for host in observed.hosts for pci in checked.get(host.moid, ())}
        guests = tuple(
            guest for guest in guests if guest.runs and gpus & {(guest.host, pci) for pci in guest.host_gpus}
        )
    if not any(guest.is_there for guest in guests) and not hosts:
        if host_names and (wanted.vms or wanted.hosts):
            _refuse_choice(desired, host_names, observed, wanted)
        raise NotFound(
            "none of the plan's VMs exist yet",
            subject=observed.vcenter.address,
            remedy=f"create them first: {make_command}",
        )
    ways = Ways(desired, observed, estate, specs, open_shells, secrets)
    channels = Channels(
        guest=ways.guest, host=ways.host, pause=estate.clock.pause, now=clock, on_result=on_result
    )
    # The lab is one process with one clock: its machines are asked one after the other.
    choice = replace(wanted.choice, parallel=1) if estate.is_lab else wanted.choice
    return verify(
        hosts,
        guests,
        channels,
        choice,
        plan=desired.name,
        server=server,
        begun=begun,
        baseline=wanted.baseline,
        vms=_chosen_vms(desired, observed, wanted) if checked is None else [one.name for one in guests],
    )


def _chosen_vms(desired: DesiredPlan, observed: Inventory, wanted: Wanted) -> list[str]:
    """Return the plan's VMs that `--vm` and `--host` mean, with a guest to ask or without."""
    from vgpu_cfg.planning.estate.ownership import own_vms

    hosts = {name: vm.host_moid or "" for name, vm in own_vms(desired, observed).items()}
    names = {host.moid: host.name for host in observed.hosts}
    return [
        vm.name
        for vm in desired.vms
        if (not wanted.vms or matches_any(vm.name, wanted.vms))
        and (not wanted.hosts or matches_any(names.get(hosts.get(vm.name, ""), ""), wanted.hosts))
    ]


def _vcenter_clock(estate: Estate) -> Callable[[], datetime]:
    """Return a clock of vCenter's time; this machine's, if the difference is unknown.

    vCenter is asked once, and this machine's clock counts on from there; the lab's is asked each time.
    """

    def read() -> datetime | None:
        locks = estate.reader.read_locks()
        return locks.now if locks is not None else None

    def of_the_lab() -> datetime:
        return read() or estate.clock.now()

    if estate.is_lab:
        return of_the_lab
    before = estate.clock.now()
    seen = read()
    after = estate.clock.now()
    off = seen - (before + (after - before) / 2) if seen is not None else timedelta()
    return lambda: estate.clock.now() + off


def _framebuffers(desired: DesiredPlan, observed: Inventory) -> Mapping[str, int]:
    """Return the framebuffer of each profile of the plan file and its VMs, as far as the catalog knows it."""
    from vgpu_cfg.catalog import load_catalog

    catalog = load_catalog()
    names = {str(profile) for vm in desired.vms for gpu in vm.gpus for profile in gpu.profile}
    own = {vm.name for vm in desired.vms}
    details = [vm.detail for vm in observed.vms if vm.name in own and vm.detail is not None]
    names |= {vgpu.profile for detail in details for vgpu in detail.vgpus}
    entries = {name: catalog.by_profile(name) for name in names}
    return {name: found[0].framebuffer_mib for name, found in entries.items() if found}


def specs_of(desired: DesiredPlan, observed: Inventory) -> Mapping[str, GuestSpec]:
    """Return the wanted state of each guest of a plan, as planning sees it at the VMs' present places."""
    from vgpu_cfg.changes.severity import Severity
    from vgpu_cfg.planning.addresses import AddressBook
    from vgpu_cfg.planning.estate.ownership import own_vms
    from vgpu_cfg.planning.findings.codes import Code
    from vgpu_cfg.planning.findings.collection import Findings
    from vgpu_cfg.planning.guests.drivers import guest_drivers, host_branches
    from vgpu_cfg.planning.guests.specs import guest_specs
    from vgpu_cfg.planning.guests.wiring import observed_wirings

    branches = host_branches(desired, observed)
    existing = own_vms(desired, observed)
    running = {name: vm.host_moid or "" for name, vm in existing.items()}
    is_strict = Findings.for_plan(desired).severity_of(Code.GUEST_DRIVER_BRANCH) is Severity.ERROR
    takes = {
        name: guest_drivers(branches.get(moid, ""), is_strict=is_strict) for name, moid in running.items()
    }
    wirings = observed_wirings(desired, observed, existing)
    return guest_specs(desired, AddressBook(desired, observed).nics_of_all(), takes, wirings=wirings)


def read_plan(desired: DesiredPlan, estate: Estate, wanted: Wanted | None = None) -> Inventory:
    """Read the estate, with the facts for checks of the hosts that run the plan's VMs or are targets."""
    from vgpu_cfg.model.observed.host_facts import FactGroup
    from vgpu_cfg.planning.estate.ownership import own_vms

    observed = flow.read_for(desired, estate.reader)
    moids = dict.fromkeys(vm.host_moid for vm in own_vms(desired, observed).values() if vm.host_moid)
    moids |= dict.fromkeys(wanted.checked(observed) or () if wanted is not None else ())
    groups = {FactGroup.BASE, FactGroup.KERNEL, FactGroup.MODULES, FactGroup.SOFTWARE}
    facts = estate.reader.read_facts(tuple(moids), frozenset(groups))
    return observed.model_copy(update={"facts": facts})


def _open_shells(desired: DesiredPlan, observed: Inventory) -> dict[str, AccessEntry]:
    """Return, by moid, the hosts whose SSH service runs and whose shell the plan file lets be used."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.planning.hosts.needed import shell_access

    access = shell_access(desired, observed, load_catalog(), PlanOptions())
    return {
        moid: one
        for moid, one in access.items()
        if one.ssh != "off" and (facts := observed.facts.hosts.get(moid)) is not None and facts.is_ssh_running
    }


def _selected(
    hosts: Sequence[HostView], guests: Sequence[GuestView], wanted: Wanted
) -> tuple[tuple[HostView, ...], tuple[GuestView, ...]]:
    """Leave out what `--vm` and `--host` do not mean; each of them means the other's too."""
    kept_guests = tuple(
        guest
        for guest in guests
        if (not wanted.vms or matches_any(guest.name, wanted.vms))
        and (not wanted.hosts or matches_any(guest.host, wanted.hosts))
    )
    kept_hosts = tuple(
        host
        for host in hosts
        if (not wanted.hosts or matches_any(host.name, wanted.hosts))
        and (not wanted.vms or any(matches_any(vm.name, wanted.vms) for vm in host.vms))
    )
    return kept_hosts, kept_guests


def _refuse_choice(
    desired: DesiredPlan, host_names: Sequence[str], observed: Inventory, wanted: Wanted
) -> None:
    known = [f"its VMs are {fold_names(vm.name for vm in desired.vms)}"] if wanted.vms else []
    known += [f"they run on {fold_names(host_names)}"] if wanted.hosts else []
    raise NotFound(
        f"nothing in the plan matches {' '.join([*wanted.vms, *wanted.hosts])}",
        subject=observed.vcenter.address,
        remedy="; ".join(known),
    )


class Ways:
    """Logs in to the plan's hosts and guests when a check first needs them."""

    def __init__(
        self,
        desired: DesiredPlan,
        observed: Inventory,
        estate: Estate,
        specs: Mapping[str, GuestSpec],
        open_shells: Mapping[str, AccessEntry],
        secrets: SecretStore,
    ) -> None:
        from vgpu_cfg.planning.estate.ownership import own_vms

        self._desired, self._observed, self._estate = desired, observed, estate
        self._own = own_vms(desired, observed)
        self._specs, self._open_shells, self._secrets = specs, open_shells, secrets
        self._guest_shells: GuestShells | None = None
        self._lock = Lock()

    def guest(self, name: str) -> GuestShell:
        """Log in to a guest. Raises GuestError."""
        from vgpu_cfg.execution.guests.session import target_of

        vm = self._own.get(name)
        if vm is None or not vm.is_on:
            raise GuestError(f"{name} is powered off", subject=name, remedy="power it on: vgpu-cfg apply")
        with self._lock:
            if self._guest_shells is None:
                self._guest_shells = login_shells(self._desired, self._observed, self._estate, self._secrets)
        spec = self._specs[name]
        return self._guest_shells.connect(target_of(spec, vm), spec.login)

    def host(self, name: str) -> HostShell:
        """Log in to a host. Raises HostShellError."""
        host = next(one for one in self._observed.hosts if one.name == name)
        secrets = host_secrets(self._desired, self._secrets, is_lab=self._estate.is_lab)
        return self._estate.logins(secrets).connect(name, self._open_shells[host.moid])


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
    secrets.allow_commands()  # guests are asked over a login
    with compose.connect_writer(connection) as estate:
        begun = estate.clock.now()
        observed = read_plan(desired, estate)
        specs = specs_of(desired, observed)
        ways = Ways(desired, observed, estate, specs, {}, secrets)
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
            else "specify a different plan",
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


def _asked(facts: StackFacts, spec: GuestSpec | None, ways: Ways) -> StackFacts:
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
