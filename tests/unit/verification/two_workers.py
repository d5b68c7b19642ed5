"""Two workers that are as the plan wants them, told by recorded outputs; tests change one thing at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from tests.fakes.answering_guests import Answer, FakeGuest, FakeGuests
from tests.unit.parsers.printed import printed
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.model.guests.guest import GuestReport, GuestSpec, ModuleState
from vgpu_cfg.model.guests.modules import (
    DriverModule,
    GuestModule,
    LicenceModule,
    LimitsModule,
    NcclModule,
    NetworkModule,
    NicFirmwareModule,
    OfedModule,
    RoceModule,
    SharedFolderModule,
    TimeModule,
)
from vgpu_cfg.model.guests.training_modules import (
    ContainersModule,
    ImageModule,
    LauncherModule,
    MeshPeer,
    MonitoringModule,
    SshMeshModule,
    TrainWorker,
    WorkerModule,
)
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.model.observed.host_facts import FactGroup, HostFacts, KernelSetting, SoftwarePackage
from vgpu_cfg.model.observed.inventory import Gpu, Host, PciDevice
from vgpu_cfg.model.plan_file.training_entries import Framework
from vgpu_cfg.model.verification import Baseline, CheckResult, CheckState, Verification
from vgpu_cfg.model.vgpu import Sharing, VgpuProfile
from vgpu_cfg.parsers.frameworks import SETTINGS
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.verification import Channels, Choice, GuestView, HostView, verify
from vgpu_cfg.verification.checks.link_checks import pcie_files
from vgpu_cfg.verification.checks.training_checks import HOST_FILE
from vgpu_cfg.verification.views import WantedVm

NOW = datetime(2026, 11, 22, 7, 20, tzinfo=UTC)
IMAGE = "nvcr.io/nvidia/tensorflow:21.07-tf1-py3"
GPU = "0000:3b:00.0"
NIC = "0000:3c:00.0"
RUN_IMAGE = ("docker", "run", "--rm", "--pull", "never")
PROBE = (
    'VGPU-CFG-ALLREDUCE {"v": 1, "ranks": 2, "size_bytes": 268435456, "busbw_gigabytes": 11.2, '
    '"is_exact": true, "is_on_gpu": true, "framework": "tensorflow"}\n'
)
BY_TORCH = PROBE.replace('"framework": "tensorflow"', '"by": "torch", "framework": "pytorch"')
TORCH = "torch 2.6.0+cu126\ncuda 12.6\nnccl 2.21.5\ndistributed yes\n"
TABLE = printed("nccl-tests-two-ranks.txt")
NCCL_SETTINGS = """# Written by /opt/vgpu-cfg/nccl-env, at every boot: NCCL's settings for this guest.
export NCCL_SOCKET_IFNAME='=ens192'
export NCCL_IB_HCA='=mlx5_0:1'
export NCCL_IB_GID_INDEX=3
export NCCL_IB_TC=106
export NCCL_NET_GDR_LEVEL=SYS
# NCCL_TOPO_FILE: the connections between the host's GPUs and NICs are not known before the VM starts
"""
VIA = "hvd-01:310:355 [0] NCCL INFO Channel 00 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n"
GPU_BANDWIDTH = printed("ib-write-bw-gpu-memory.txt").replace("47.00", "94.10")


INODES = """\
Filesystem      Inodes  IUsed   IFree IUse% Mounted on
/dev/sda1     16777216 104857 16672359    1% /
"""
STAMP = f"{NOW:%Y%m%d%H%M%S%f}"
WRITES = 'printf "%s" "$0" > "$1"'
DIGEST = f"sha256:{'5a' * 32}"
LINK = pcie_files("ens192")
PCIE = "".join(
    f"/sys/class/net/ens192/device/{name}:{value}\n"
    for name, value in (
        ("current_link_speed", "16.0 GT/s PCIe"),
        ("current_link_width", "16"),
        ("max_link_speed", "16.0 GT/s PCIe"),
        ("max_link_width", "16"),
    )
)


def boot_id(vm: str) -> str:
    return f"0f3c2a9e-0000-4000-8000-0000000000{vm[-2:]}"


def failing(text: str, status: int = 1) -> ShellResult:
    return ShellResult(status=status, stderr=text)


def nic_of(number: int) -> GuestNic:
    return GuestNic(mac=f"04:3f:72:aa:00:{number:02x}", addresses=(f"10.111.0.{10 + number}/24",), mtu=9000)


HW_COUNTERS = "grep -s . /sys/class/infiniband/mlx5_0/ports/1/hw_counters/*"
MOVED = {"tx_prio3_bytes": 8_000_000_000, "rx_prio3_bytes": 8_000_000_000, "rx_prio3_pause": 4}
"""What each reading of a healthy NIC's statistics adds to the one before."""


class Counting:
    """A tool's counters, some of which rise with every reading."""

    def __init__(self, text: str, rising: Mapping[str, int]) -> None:
        self.text = text
        self.rising = rising
        self.readings = 0

    def __call__(self, _words: tuple[str, ...]) -> str:
        lines = []
        for line in self.text.splitlines():
            name, colon, value = line.rpartition(":")
            key = name.strip().rpartition("/")[2]
            if key in self.rising:
                blank = " " if value.startswith(" ") else ""
                value = f"{blank}{int(value) + self.readings * self.rising[key]}"
            lines.append(f"{name}{colon}{value}")
        self.readings += 1
        return "\n".join(lines) + "\n"


def spec_of(number: int, count: int = 2) -> GuestSpec:
    """Return what a worker shall have: RDMA from GPU memory over a NIC that is passed through."""
    names = [f"hvd-{n:02}" for n in range(1, count + 1)]
    nics = (nic_of(number),)
    peers = tuple(
        MeshPeer(vm=name, names=(name,), addresses=(f"10.111.0.{11 + n}",)) for n, name in enumerate(names)
    )
    modules: list[GuestModule] = [
        NetworkModule(nics=(GuestNic(mac=f"00:50:56:aa:00:{number:02x}", dhcp=True), *nics)),
        SshMeshModule(vm=names[number - 1], peers=peers),
        DriverModule(branches=("580", "570"), refused=("550", "535")),
        LicenceModule(token="lic"),
        OfedModule(stack="mlnx"),
        NicFirmwareModule(nics=nics, parameters={"ATS_ENABLED": "True"}),
        RoceModule(nics=nics),
        NcclModule(nics=nics, address=f"10.111.0.{10 + number}", traffic_class=106, is_direct=True),
        TimeModule(servers=("ntp.example.com",)),
        LimitsModule(shared_memory="16384m"),
        SharedFolderModule(role="server" if number == 1 else "client", server="10.0.0.1"),
        MonitoringModule(role="exporter"),
        ContainersModule(),
        ImageModule(image=IMAGE),
        WorkerModule(image=IMAGE, rdma=True),
    ]
    if number == 1:
        workers = tuple(TrainWorker(name=name) for name in names)
        modules.append(LauncherModule(image=IMAGE, workers=workers, nics=nics))
    return GuestSpec(plan="horovod-a100", vm=names[number - 1], modules=tuple(modules))


def report_of(spec: GuestSpec) -> str:
    states = tuple(ModuleState(name=module.kind, state="done") for module in spec.modules)
    return GuestReport(spec=spec.digest, state="done", modules=states).model_dump_json()


def answers_of(number: int, spec: GuestSpec) -> dict[tuple[str, ...], Answer]:
    """Return what a healthy worker answers."""

    def own(text: str) -> str:
        text = text.replace("192.168.10.21", f"192.168.10.{20 + number}")
        text = text.replace("10.111.0.11", f"10.111.0.{10 + number}").replace(
            "0a6f:000b", f"0a6f:{10 + number:04x}"
        )
        return text.replace("aa:00:01", f"aa:00:{number:02x}").replace("AA:00:01", f"AA:00:{number:02x}")

    sysfs = "/sys/class/infiniband/mlx5_0"
    worker = ("docker", "exec", "vgpu-cfg-worker")
    return {
        ("cat", "/proc/sys/kernel/random/boot_id"): f"{boot_id(spec.vm)}\n",
        ("date", "+%s.%N"): f"{NOW.timestamp():.9f}\n",
        ("chronyc", "-n", "tracking"): printed("chronyc-tracking-follows.txt"),
        ("dmesg",): printed("dmesg-sound.txt"),
        ("df", "-Pk"): printed("df-posix.txt"),
        ("df", "-Pi"): INODES,
        ("grep", " / ", "/proc/mounts"): "/dev/sda1 / ext4 rw,relatime 0 0\n",
        ("ethtool", "ens192"): printed("ethtool-100g.txt"),
        LINK: PCIE,
        (*worker, "sh", "-c", "ulimit -l"): "unlimited\n",
        (*worker, "df", "-Pk", "/dev/shm"): printed("df-posix.txt").replace("/dev/vda", "shm"),
        (*worker, "nvidia-smi", "-L"): printed("guest-list-after-a-greeting.txt"),
        (*worker, "ls", "/dev/infiniband"): "rdma_cm\nuverbs0\n",
        ("curl", "-fsS", "--max-time", "20", "http://127.0.0.1:9100/metrics"): printed("metrics-node.txt"),
        ("curl", "-fsS", "--max-time", "20", "http://127.0.0.1:9400/metrics"): printed("metrics-dcgm.txt"),
        ("docker", "image", "inspect", "--format", "{{.Id}}", IMAGE): f"{DIGEST}\n",
        ("docker", "container", "inspect", "--format", "{{.Image}}", "vgpu-cfg-worker"): f"{DIGEST}\n",
        ("timeout", "--kill-after=5", "30", "ls", "/srv/training/"): "",
        ("findmnt", "-n", "-o", "FSTYPE,SOURCE", "-T", "/srv/training"): "nfs4 10.0.0.1:/srv/training\n",
        ("sh", "-c", WRITES): "",
        ("cat", f"/srv/training/.vgpu-cfg-verify-{STAMP}-hvd-01"): lambda words: "".join(
            word.partition(f"{STAMP}-")[2] for word in words[1:]
        ),
        ("uname", "-r"): "5.15.0-91-generic\n",
        ("cat", "/var/lib/vgpu-cfg/report.json"): report_of(spec),
        ("nvidia-smi", "-q"): printed("guest-query-a100-40c-licensed.txt"),
        ("ip", "-json", "address", "show"): own(printed("ip-address-two-up-one-down.txt")),
        ("ibv_devinfo",): printed("ibv-devinfo-one-up-one-down.txt"),
        ("show_gids",): own(printed("show-gids-tabs.txt")),
        ("cat", f"{sysfs}/ports/1/rate"): "100 Gb/sec (4X EDR)\n",
        ("mlnx_qos", "-i", "ens192"): printed("mlnx-qos-dscp-with-buffers.txt"),
        ("grep", "-s", "."): "".join(
            f"/sys/class/net/ens192/ecn/roce_{side}/enable/3:1\n" for side in ("np", "rp")
        ),
        ("ethtool", "-S", "ens192"): Counting(printed("ethtool-statistics-of-a-whole-nic.txt"), MOVED),
        ("sh", "-c", HW_COUNTERS): printed("hw-counters-of-a-busy-port.txt"),
        ("cat", f"{sysfs}/tc/1/traffic_class"): "Global tclass=106\n",
        ("cat", SETTINGS): NCCL_SETTINGS,
        ("lsmod",): printed("lsmod-with-peermem.txt"),
        ("ethtool", "-i", "ens192"): "driver: mlx5_core\nversion: 5.9\nbus-info: 0000:0b:00.0\n",
        ("lspci", "-vvv", "-s", "0000:0b:00.0"): printed("lspci-ats-on-tabs.txt"),
        ("systemctl", "is-active", "docker"): "active\n",
        ("systemctl", "is-active", "vgpu-cfg-worker.service"): "active\n",
        ("systemctl", "is-enabled", "vgpu-cfg-worker.service"): "enabled\n",
        ("cat", HOST_FILE): "".join(f"hvd-{n:02} slots=1\n" for n in range(1, 10)),
        ("getent", "ahosts"): lambda words: f"10.111.0.{10 + int(words[-1][-2:])}  STREAM {words[-1]}\n",
        (*RUN_IMAGE, "--gpus", "all", IMAGE, "nvidia-smi", "-L"): printed("guest-list-after-a-greeting.txt"),
        (*RUN_IMAGE, "--gpus", "all", IMAGE, "horovodrun"): printed(
            "horovod-check-build-after-a-greeting.txt"
        ),
        (*RUN_IMAGE, "--gpus", "all", IMAGE, "sh"): ShellResult(
            status=0, stdout=TORCH, stderr="/usr/local/bin/torchrun\n"
        ),
        (*RUN_IMAGE, "--gpus", "all", IMAGE, "mpirun"): "mpirun (Open MPI) 4.1.7\n",
        (*RUN_IMAGE, IMAGE, "sh"): failing("", 127),
        ("ssh",): lambda words: f"{boot_id(words[-3])}\n",
        ("ping",): "3 packets transmitted, 3 received, 0% packet loss\n",
        ("systemd-run",): "",
        ("systemctl", "stop"): "",
        ("timeout",): lambda words: (
            GPU_BANDWIDTH if "--use_cuda=0" in words else printed("ib-write-bw-by-time.txt")
        ),
        ("env", "NCCL_DEBUG=INFO", "/usr/local/bin/train"): VIA + PROBE,
        ("rm", "-f"): "",
    }


def host_of(name: str = "esx-01") -> Host:
    gpu = PciDevice(pci_id=GPU, vendor_id=0x10DE, device_id=0x20F1, class_id=0x0302)
    nic = PciDevice(pci_id=NIC, vendor_id=0x15B3, device_id=0x101D, class_id=0x0200, passthrough_active=True)
    direct = GraphicsType.SHARED_DIRECT
    shared = Gpu(pci=gpu, name="A100", graphics_type=direct, sharing=Sharing.TIME_SLICED, vm_moids=("vm-1",))
    return Host(
        moid=f"host-{name}",
        name=name,
        gpus=(shared,),
        pci_devices=(gpu, nic),
        graphics_type=direct,
        creatable_profiles=("grid_a100-40c",),
    )


FACTS = HostFacts(
    groups=frozenset({FactGroup.BASE, FactGroup.KERNEL, FactGroup.SOFTWARE, FactGroup.MODULES}),
    kernel={"atsSupport": KernelSetting(configured="TRUE", runtime="TRUE")},
    software=(SoftwarePackage(name="NVD-AIE-800", version="580.95.02-1OEM.800.1.0.20613240"),),
    modules={"nmlx5_core": "pfctx=0x08 pfcrx=0x08 trust_state=2", "nmlx5_rdma": "pcp_force=3 dscp_force=26"},
)


def host_view(vm: str = "hvd-01", name: str = "esx-01") -> HostView:
    wanted = WantedVm(vm, {GPU: (VgpuProfile.parse("grid_a100-40c"),)}, ("passthrough",), True, (NIC,))
    return HostView(host=host_of(name), facts=FACTS, vms=(wanted,), roce=(26, 3))


@dataclass
class Scene:
    """Hosts and guests of a run; `pauses` counts what was waited for."""

    views: dict[str, GuestView]
    guests: FakeGuests
    hosts: list[HostView] = field(default_factory=list)
    host_shells: FakeGuests = field(default_factory=lambda: FakeGuests({}))
    pauses: list[float] = field(default_factory=list)
    baseline: Baseline | None = None

    def guest(self, name: str = "hvd-01") -> FakeGuest:
        return self.guests.guests[name]

    def answer(self, *words: str, by: Answer, of: str = "hvd-01") -> None:
        """Let a guest answer otherwise."""
        self.guest(of).answers[words] = by

    def change(self, name: str = "hvd-01", **fields: object) -> None:
        """Change what is known of a guest."""
        self.views[name] = replace(self.views[name], **fields)  # type: ignore[arg-type]  # a test names them

    def run(self, choice: Choice | None = None) -> Verification:
        guest: Any = self.guests.connect
        host: Any = self.host_shells.connect  # a fake reads no facts
        channels = Channels(guest=guest, host=host, pause=self.pauses.append, now=lambda: NOW)
        return verify(
            self.hosts,
            tuple(self.views.values()),
            channels,
            choice or Choice(),
            plan="horovod-a100",
            server="vc01.example.com",
            begun=NOW,
            baseline=self.baseline,
        )


def make_scene(count: int = 2) -> Scene:
    views: dict[str, GuestView] = {}
    guests: dict[str, FakeGuest] = {}
    for number in range(1, count + 1):
        spec = spec_of(number, count)
        views[spec.vm] = GuestView(
            name=spec.vm,
            spec=spec,
            host=f"esx-{number:02}",
            gpus=1,
            vgpus=1,
            wanted=(("grid_a100-40c",),),
            framebuffers_mib={"grid_a100-40c": 40960},
            gpudirect=True,
            profiles=("grid_a100-40c",),
            rates_gbps={0x101D: 100},
            now=NOW,
        )
        guests[spec.vm] = FakeGuest(spec.vm, answers_of(number, spec))
    return Scene(views, FakeGuests(guests), [host_view()])


def trains_by(framework: Framework) -> Scene:
    """Return two healthy workers of a plan that trains by a framework; the image holds all of them."""
    scene = make_scene()
    for name, view in scene.views.items():
        modules = tuple(
            module.model_copy(update={"framework": framework})
            if module.kind in ("image", "launcher")
            else module
            for module in view.spec.modules
        )
        scene.views[name] = replace(view, spec=view.spec.model_copy(update={"modules": modules}))
        scene.answer("env", "NCCL_DEBUG=INFO", "/usr/local/bin/train", by=VIA + BY_TORCH, of=name)
    return scene


def found_in(report: Verification, check: str, subject: str) -> CheckResult:
    """Return the one result of a check and a subject."""
    (result,) = [one for one in report.results if (one.check, one.subject.name) == (check, subject)]
    return result


def states(report: Verification) -> set[CheckState]:
    return {one.state for one in report.results}
