"""What a VM's guest is given, and what is waited for in it.

How a guest is set up by hand, module by module, for a colleague who is logged in to it as root.

Secrets are told of by their names in the plan file, never by their values.

How the guest of a new VM is customised: vCenter's specification, and what a plan fills into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, assert_never

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.base import ChangeBase, Face
from vgpu_cfg.changes.by_hand import Part, command
from vgpu_cfg.changes.need import Needed
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.reach import Disturbed, Experience, Reach
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import Edit, Placement, Row, VmRef, plain
from vgpu_cfg.model.approvals import Approval
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.guests.base import Ends, GuestNic
from vgpu_cfg.model.guests.guest import (
    BEGUN,
    GUEST_MARK_KEY,
    REPORT_KEY,
    GuestSpec,
    is_expected,
    parse_mark,
    parse_report,
)
from vgpu_cfg.model.guests.modules import (
    CudaModule,
    DriverModule,
    GuestModule,
    HostNameModule,
    HostsModule,
    LicenceModule,
    LimitsModule,
    NcclModule,
    NetworkModule,
    NicFirmwareModule,
    NouveauModule,
    OfedModule,
    PeermemModule,
    RoceModule,
    SharedFolderModule,
    SiteModule,
    TimeModule,
    TrafficModule,
    UsersModule,
)
from vgpu_cfg.model.guests.training_modules import (
    ContainersModule,
    ImageModule,
    LauncherModule,
    MonitoringModule,
    RankModule,
    RegistryModule,
    SshMeshModule,
    ToolkitModule,
    WorkerModule,
)
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.plan_file import UserEntry
from vgpu_cfg.model.wording import duration

GUEST = "guest"
"""What differs of a VM whose guest lacks modules."""
_NAMED_ANYWAY = "host-name"
"""The module whose words only repeat the VM's name."""

_PROOFS = {
    "torchrun": "; python3 in it imports torch",
    "horovod": "; horovodrun --check-build in it lists Horovod",
    "mpi": "; mpirun --version in it answers",
    "none": "",
}
_LAUNCHERS = {
    "torchrun": "torchrun",
    "horovod": "horovodrun",
    "mpi": "mpirun",
    "none": "the command itself, once on each worker",
}


class AwaitCustomization(ChangeBase):
    """Wait until vCenter tells how a guest's customisation has ended, which its first start begins."""

    face = Face("set", "guest customised", done="customised", sign=" ", is_task=False)
    for_good = (
        "what a customisation set in the guest stays there",
        "a snapshot or a backup from before has the guest as it was",
    )

    kind: Literal["await_customization"] = "await_customization"
    vm: VmRef
    wait_seconds: int

    def spares_pool(self, observed: Inventory) -> bool:
        return True

    def head(self, place: Placement | None) -> Row:
        return "customise", plain(f"until it is done, {duration(self.wait_seconds)} at most", "dim")

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        name = self.vm.name
        return (
            Part(
                what=f"Wait until the guest of {name} is customised, {duration(self.wait_seconds)} at most.",
                client=f"{name} > Monitor > Events",
                expected=f'the events have "Customization of VM {name} succeeded"',
                verify=(command("govc", "events", name), command("govc", "vm.info", name)),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield from ()

    def no_way_back(self, tables: Tables) -> Iterator[str]:
        if self.vm.moid is not None:
            yield "what a customisation sets in the guest stays there"


class StageGuest(ChangeBase):
    """Bring the named modules into a VM's guest, see that they are there, and mark the VM with them.

    With `with_clone` cloud-init brings all of it at the first boot, and this change waits for its report.
    `rest` are modules that another change brings once this one is done: what nobody may read in the VM's
    configuration, and what rests on that. `peers` are the VMs whose guests' host keys are written; `after`
    names changes that must have ended before, well or not: by then those guests have told theirs.
    """

    face = Face("set", "guest set up", done="staged")
    for_good = (
        "what was brought into the guest stays there",
        "`apply` completes it; a snapshot or a backup from before has the guest as it was",
    )

    kind: Literal["stage_guest"] = "stage_guest"
    vm: VmRef
    spec: GuestSpec
    modules: tuple[str, ...]
    with_clone: bool = False
    rest: tuple[str, ...] = ()
    peers: tuple[VmRef, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def staged(self) -> tuple[str, ...]:
        return self.modules

    @property
    def behind(self) -> tuple[str, ...]:
        return self.after

    @property
    def differing(self) -> tuple[Edit, ...]:
        return (Edit(key=GUEST, before="", after=", ".join(self.modules)),)

    def spares_pool(self, observed: Inventory) -> bool:
        return True

    @property
    def sign(self) -> str:
        return "+" if self.with_clone else "~"

    @property
    def way(self) -> str:
        """Which way it comes into the guest."""
        if self.with_clone:
            return "cloud-init at the first boot; the run waits for its report"
        way = "guest operations" if self.spec.login.password else "ssh"
        return f"{way}, once the others have told their host keys" if self.after else way

    @property
    def done(self) -> str:
        """Nothing if another change brings the rest: that one counts."""
        return "" if self.rest else self.face.done

    def head(self, place: Placement | None) -> Row:
        """Say what is brought: the words of each module, a default marked, and why it is brought again."""
        return "guest", plain(", ".join(map(_edit_text, self.edits)))

    def rows(self, place: Placement | None, tables: Tables) -> Iterator[Row]:
        yield "by", plain(self.way, "dim")

    @property
    def in_short(self) -> tuple[str, ...]:
        return (f"guest {', '.join(self.modules)}",)

    @property
    def compared(self) -> tuple[Edit, ...]:
        """No edit: guests may be given different modules and read alike."""
        return ()

    def differs_from(self, other: ChangeBase) -> Iterator[str]:
        """Yield in words what this guest is given and another is not, but for their names."""
        before = {edit.key: _edit_text(edit) for edit in other.edits}
        after = {edit.key: _edit_text(edit) for edit in self.edits}
        words = [text for key, text in after.items() if before.get(key) != text and key != _NAMED_ANYWAY]
        yield from (*words, *(f"no {key}" for key in before if key not in after))

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        """Tell how its modules are brought into the guest, in their order."""
        rows = tuple(
            (module.kind, "", by_hand_text(module))
            for module in self.spec.modules
            if module.kind in self.modules
        )
        return (
            Part(
                what=f"Log in to the guest of {self.vm.name} as root and bring what the table says, from top "
                "to bottom; what is there already stays. Secrets are told by their names in the plan file.",
                why="`vgpu-cfg apply` does the same with scripts that check first, and marks the VM with "
                "what was staged: a guest that was set up by hand is checked by the next run, which finds "
                "everything there",
                expected="the guest has all of it, and still has it after its next restart",
                rows=rows,
            ),
        )

    def ended_in(self, vm: Vm | None) -> Mapping[str, frozenset[Ends]]:
        """Return what it ends in its guest, by the module that does; `vm` is as it was read.

        Nothing in a guest that is new, starts in this run, or was never set up whole: no work can run there.
        What the guest reports to have is not applied again. If the VM's settings were not read, all of it
        counts.
        """
        if vm is None or not vm.is_on or self.with_clone or f"power on {self.vm.name}" in self.needs:
            return {}
        settings = vm.detail.extra_config if vm.detail is not None else {}
        mark = settings.get(GUEST_MARK_KEY, "")
        if BEGUN in mark.split():
            return {}
        report, marked = parse_report(settings.get(REPORT_KEY, "")), parse_mark(mark)
        return {
            module.kind: module.ends
            for module in self.spec.modules
            if module.kind in self.modules and module.ends and not is_expected(module, report, marked)
        }

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        """Say what work ends: it is its users', and is asked for before the guest is touched."""
        vm = reach.observed.vm_by_moid.get(self.vm.moid or "")
        ended = self.ended_in(vm)
        if vm is not None and ended:
            note = f"{ended_text(ended)}; a guest at work is held back unless approved"
            yield reach.vm(vm, Experience.TRAINING_ENDED, note=note, needs=Approval.TRAINING)

    def privileges(self, at: Places) -> Iterator[Needed]:
        moid = at.vm(self.vm)
        yield Needed(privileges.ADVANCED, moid)
        if self.spec.login.password:
            yield Needed(privileges.GUEST_OPERATIONS, moid)

    def no_way_back(self, tables: Tables) -> Iterator[str]:
        if self.vm.moid is not None:
            yield "what is brought into the guest stays there"


def _edit_text(edit: Edit) -> str:
    note = f" ({edit.note})" if edit.note else ""
    return f"{edit.after or edit.key}{'*' if edit.is_default else ''}{note}"


def ended_text(ended: Mapping[str, frozenset[Ends]]) -> str:
    """Say what ends, and by which modules: "containers (site)"."""
    by_what: dict[Ends, list[str]] = {}
    for kind, what in ended.items():
        for one in sorted(what):
            by_what.setdefault(one, []).append(kind)
    return ", ".join(f"{what} ({', '.join(kinds)})" for what, kinds in by_what.items())


def by_hand_text(module: GuestModule) -> str:
    """Say what is done in the guest for one module."""
    match module:
        case HostNameModule():
            full = f"{module.host_name}.{module.domain}" if module.domain else module.host_name
            return f"set the host name to {full} (hostnamectl)"
        case UsersModule():
            users = [_user_text(user) for user in module.users]
            users += [f"{module.machine_user}, by which vgpu-cfg logs in"] if module.machine_user else []
            return f"make the accounts {'; '.join(users)}" if users else "no account is made"
        case HostsModule():
            lines = (f"{entry.address} {' '.join(entry.names)}" for entry in module.entries)
            return f"write into /etc/hosts: {'; '.join(lines)}"
        case NetworkModule():
            nics = "; ".join(_nic_text(nic) for nic in module.nics)
            return f"write a file in /etc/netplan for {nics}; then netplan apply"
        case SiteModule():
            return _site_text(module)
        case TimeModule():
            servers = ", ".join(module.servers)
            return f"let chronyd, or systemd-timesyncd where that is there, follow {servers} and nobody else"
        case NouveauModule():
            return (
                "write `blacklist nouveau` and `options nouveau modeset=0` into a file in /etc/modprobe.d, "
                "rebuild the initramfs, and restart if nouveau is loaded"
            )
        case DriverModule():
            branches = " or ".join(module.branches)
            fits = f", of branch {branches}" if branches else ""
            where = f"install {module.package}" if module.package else "see that the driver is installed"
            return f"{where}{fits}; nvidia-smi lists the GPUs"
        case CudaModule():
            source = module.package or f"the package cuda-toolkit-{module.version.replace('.', '-')}"
            where = "" if module.package else f" of {module.repository}"
            return f"install {source}{where}, never `cuda`, which brings a driver; put it on the PATH"
        case LicenceModule():
            return (
                f"write FeatureType={module.feature_type} into /etc/nvidia/gridd.conf, put the token "
                f"({module.token}) into /etc/nvidia/ClientConfigToken with mode 0744, restart nvidia-gridd"
            )
        case OfedModule():
            stack = {"mlnx": "MLNX_OFED", "doca": "DOCA-OFED", "inbox": "the distribution's RDMA packages"}
            source = f" from {module.package}" if module.package else ""
            return f"install {stack[module.stack]}{source}"
        case PeermemModule():
            return (
                "load nvidia-peermem now and at boot, unless the open kernel modules and Linux 5.12 or later "
                "make it needless; where the driver was there before the RDMA stack, build its modules anew"
            )
        case NicFirmwareModule():
            values = " ".join(f"{key}={value}" for key, value in module.parameters.items())
            return f"mlxconfig -y set {values} on the NIC; in force once the host has restarted"
        case RoceModule():
            return _roce_text(module)
        case NcclModule():
            return _nccl_text(module)
        case LimitsModule():
            shared = f", and /dev/shm of {module.shared_memory}" if module.shared_memory else ""
            return f"let containers and logins lock memory without limit{shared}"
        case SharedFolderModule():
            if module.role == "server":
                return f"export {module.path} over NFS to {', '.join(module.clients)}"
            return f"mount {module.server}:{module.path} at {module.path}, at boot too"
        case TrafficModule():
            return (
                f"by tc, keep {module.control_mbps} of {module.link_mbps} Mbit/s for the control plane on "
                f"{_nic_text(module.nic)}"
            )
        case _:
            return _training_text(module)


def _site_text(module: SiteModule) -> str:
    """Say what is written for the site; no password is repeated."""
    proxy, words = module.proxy, []
    if proxy is not None:
        login = f", as {proxy.user} with {proxy.password}" if proxy.password else ""
        direct = f", but for {', '.join(proxy.no_proxy)}" if proxy.no_proxy else ""
        words.append(
            f"write the proxy {proxy.http or proxy.https}{login}{direct} into /etc/vgpu-cfg/proxy.env and "
            "apt's settings"
        )
    if module.apt is not None:
        words.append(f"have apt take packages from {module.apt.url} alone")
    if module.dnf:
        words.append(f"have dnf take packages from {', '.join(module.dnf)} alone")
    words += [
        f"have {module.runtime} ask {url} for images of {name}"
        for name, url in module.registry_mirrors.items()
    ]
    if module.certificates:
        words.append("have the system trust the site's CA")
    if module.closed:
        hosts = ", ".join(module.hosts) or "nowhere"
        words.append(f"set package sources aside that lead elsewhere than to {hosts}")
    return "; ".join(words) or "nothing"


def _training_text(
    module: ContainersModule
    | ToolkitModule
    | RegistryModule
    | ImageModule
    | SshMeshModule
    | WorkerModule
    | RankModule
    | LauncherModule
    | MonitoringModule,
) -> str:
    match module:
        case ContainersModule():
            return f"install {module.runtime} from the distribution, and start it at boot"
        case ToolkitModule():
            return (
                f"install the NVIDIA Container Toolkit from {module.repository}, then "
                f"nvidia-ctk runtime configure --runtime={module.runtime}"
            )
        case RegistryModule():
            return f"log {module.runtime} in to {module.server} as {module.user}, with {module.password}"
        case ImageModule():
            source = f"load {module.archive}" if module.archive else f"pull {module.image}"
            proof = _PROOFS[module.framework]
            return f"{source}; it needs {module.minimum_free_gib} GiB{proof}"
        case SshMeshModule():
            peers = ", ".join(peer.vm for peer in module.peers)
            return (
                f"give {module.user} a key that {peers} all take, on port {module.port} where training runs, "
                "and the host keys of all in known_hosts"
            )
        case WorkerModule():
            return (
                f"run {module.image} as a service at boot, with the host's network and GPUs"
                f"{f', and in it an sshd on port {module.port}' if module.sshd else ''}"
            )
        case RankModule():
            values = " ".join(f"{key}={value}" for key, value in sorted(module.environment.items()))
            return f"start every process of a training by /opt/vgpu-cfg/rank, with {values or 'no variables'}"
        case LauncherModule():
            workers = ", ".join(f"{one.name} slots={one.slots}" for one in module.workers)
            return f"write a host file ({workers}), and start training with {_LAUNCHERS[module.framework]}"
        case MonitoringModule():
            if module.role == "exporter":
                return f"run the {module.exporter} exporter as a service"
            targets = ", ".join(f"{one.address}:{one.port}" for one in module.targets)
            return f"run Prometheus, reading {targets}, and Grafana beside it"
        case _:
            assert_never(module)


def _user_text(user: UserEntry) -> str:
    keys = "1 ssh key" if len(user.keys) == 1 else f"{len(user.keys)} ssh keys"
    return f"{user.name} with {keys}{' and sudo without a password' if user.sudo else ''}"


def _roce_text(module: RoceModule) -> str:
    marks = f"mark RoCE packets with DSCP {module.dscp} (traffic class {module.traffic_class})"
    if not module.owns_port:
        return f"{marks}, by a unit at every boot; the port's own settings are the host's"
    return (
        f"trust {module.trust}, turn PFC on for priority {module.priority} alone and ECN with it; {marks}; "
        "all of it by a unit, since no restart keeps it"
    )


def _nccl_text(module: NcclModule) -> str:
    nics = ", ".join(nic.mac or nic.driver for nic in module.nics) or "the training network"
    wired = (
        "; NCCL_TOPO_FILE tells how the host wires GPUs and NICs"
        if module.gpu_wires
        else "; how the host wires GPUs and NICs is not known beforehand"
    )
    return f"write NCCL's variables for {nics} into /opt/vgpu-cfg/nccl.env, by a unit at every boot{wired}"


def _nic_text(nic: GuestNic) -> str:
    which = f"the NIC {nic.mac}" if nic.mac else f"the {nic.driver} NIC"
    address = ", ".join(nic.addresses) or ("DHCP" if nic.dhcp else "no address")
    return f"{which}: {address}{f', MTU {nic.mtu}' if nic.mtu is not None else ''}"


class NicCustomization(Frozen):
    """What is filled in for a NIC, in the order of its adapters; nothing is where `ip` is "".

    `ip` is "dhcp" or an address with its prefix length; `network` is for a reader.
    """

    network: str = ""
    ip: str = ""
    gateway: str = ""


class Customization(Frozen):
    """A specification by its name, as it was read: `change_version` refuses another one.

    `domain` is what its guest gets, from the plan file where `sets_domain`. `dns` replaces the name servers
    where it is not empty.
    """

    spec: str
    change_version: str
    kind: Literal["linux", "windows"]
    host_name: str
    domain: str = ""
    sets_domain: bool = False
    dns: tuple[str, ...] = ()
    nics: tuple[NicCustomization, ...] = ()
