"""One case per code: what is changed in two healthy workers, and what then fails. The pages quote them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from tests.fakes.answering_guests import FakeGuest
from tests.unit.parsers.printed import printed
from tests.unit.verification.two_workers import (
    FACTS,
    HW_COUNTERS,
    IMAGE,
    LINK,
    MOVED,
    NCCL_SETTINGS,
    NIC,
    NOW,
    PCIE,
    PROBE,
    RUN_IMAGE,
    VIA,
    Counting,
    Scene,
    failing,
    host_of,
    host_view,
    make_scene,
    trains_by,
)
from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.model.guests.guest import GuestReport, ModuleState
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.model.observed.host_facts import KernelSetting
from vgpu_cfg.model.observed.inventory import Connection
from vgpu_cfg.model.verification import Baseline, CheckResult, Figure
from vgpu_cfg.model.vgpu import Sharing
from vgpu_cfg.parsers.frameworks import SETTINGS
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.verification.views import WantedVm

RATE = ("timeout",)
SYSFS = "/sys/class/infiniband/mlx5_0"
IMAGE_ID = ("docker", "image", "inspect", "--format", "{{.Id}}", IMAGE)
RUNNING_ID = ("docker", "container", "inspect", "--format", "{{.Image}}", "vgpu-cfg-worker")
TRAIN = ("env", "NCCL_DEBUG=INFO", "/usr/local/bin/train")


@dataclass(frozen=True, slots=True)
class Case:
    """A change that makes one check of one subject fail with a code."""

    code: VerifyCode
    check: str
    subject: str
    change: Callable[[Scene], object]

    def result(self) -> CheckResult:
        """Make the change, run everything, and return the failure."""
        scene = make_scene()
        self.change(scene)
        report = scene.run()
        (result,) = [
            one for one in report.results if (one.check, one.subject.name) == (self.check, self.subject)
        ]
        return result


def _with_shell(scene: Scene, answers: dict[tuple[str, ...], object]) -> None:
    scene.hosts[0] = replace(scene.hosts[0], has_shell=True)
    scene.host_shells.guests = {"esx-01": FakeGuest("esx-01", answers)}  # type: ignore[arg-type]  # a test's table


def _host(scene: Scene, **fields: object) -> None:
    scene.hosts[0] = replace(scene.hosts[0], host=host_of().model_copy(update=fields))


def _facts(scene: Scene, **fields: object) -> None:
    scene.hosts[0] = replace(scene.hosts[0], facts=FACTS.model_copy(update=fields))


def _time_sliced_on_mig(scene: Scene) -> None:
    gpu = host_of().gpus[0].model_copy(update={"sharing": Sharing.MIG})
    _host(scene, gpus=(gpu,))


def _gpu_is_shared(scene: Scene) -> None:
    gpu = host_of().gpus[0].model_copy(update={"graphics_type": GraphicsType.SHARED})
    _host(scene, gpus=(gpu,))


def _host_owned(scene: Scene) -> None:
    vm = WantedVm("hvd-01", {}, ("sriov",), gpudirect=True)
    scene.hosts[0] = replace(host_view(), vms=(vm,))
    _facts_of(
        scene,
        modules={
            "nmlx5_core": "pfctx=0x08 pfcrx=0x00 trust_state=2",
            "nmlx5_rdma": "pcp_force=3 dscp_force=26",
        },
    )


def _facts_of(scene: Scene, **fields: object) -> None:
    view = scene.hosts[0]
    scene.hosts[0] = replace(view, facts=view.facts.model_copy(update=fields))


def _firmware_off(scene: Scene) -> None:
    host = host_of()
    nic = host.pci_devices[1].model_copy(update={"passthrough_active": False})
    scene.hosts[0] = replace(
        host_view(), host=host.model_copy(update={"pci_devices": (host.pci_devices[0], nic)})
    )
    told = printed("mlxconfig-query-e-cx6dx.txt").splitlines()
    table = "\n".join(line.replace("True(1)", "False(0)") if "ATS_ENABLED" in line else line for line in told)
    _with_shell(
        scene,
        {
            ("nvidia-smi", "-q"): printed("query-2xa100-esxi-mig-pending.txt").replace(
                "00000000:36:00.0", "00000000:3B:00.0"
            ),
            ("/opt/mellanox/bin/mlxconfig", "-d", NIC): table,
            ("nvidia-smi", "vgpu", "-q"): printed("vgpu-q-t4.txt"),
        },
    )


def _unlicensed(scene: Scene) -> None:
    text = printed("guest-query-a100-40c-licensed.txt")
    scene.answer(
        "nvidia-smi",
        "-q",
        by=text.replace("Licensed (Expiry: 2026-12-3 5:2:12 GMT)", "Unlicensed (Restricted)"),
    )


def _expired(scene: Scene) -> None:
    text = printed("guest-query-a100-40c-licensed.txt")
    scene.answer("nvidia-smi", "-q", by=text.replace("2026-12-3 5:2:12", "2026-11-20 5:2:12"))


def _ends_in_two_hours(scene: Scene) -> None:
    text = printed("guest-query-a100-40c-licensed.txt")
    ends = NOW + timedelta(hours=2)
    moment = f"{ends.year}-{ends.month}-{ends.day} {ends.hour}:{ends.minute}:{ends.second}"
    scene.answer("nvidia-smi", "-q", by=text.replace("2026-12-3 5:2:12", moment))


def _trained_down(scene: Scene) -> None:
    """Both ends at 25 Gb/s, as both say themselves."""
    slow = printed("ethtool-100g.txt").replace("Speed: 100000Mb/s", "Speed: 25000Mb/s")
    for name in ("hvd-01", "hvd-02"):
        scene.answer("ethtool", "ens192", by=slow, of=name)
        scene.answer("cat", f"{SYSFS}/ports/1/rate", by="25 Gb/sec (1X EDR)\n", of=name)
        scene.answer(*RATE, by=printed("ib-write-bw-by-time.txt").replace("94.80", "24.10"), of=name)


def only_small(words: tuple[str, ...]) -> str | ShellResult:
    """Answer a ping that may not be cut with what Linux says to a large one, any other with success."""
    if "-M" in words:
        return failing("ping: local error: message too long, mtu=1500")
    return "3 packets transmitted, 3 received, 0% packet loss\n"


def rising(counter: str, by: int) -> Counting:
    """Return a NIC's statistics, in which one counter more rises with each reading."""
    text = printed("ethtool-statistics-of-a-whole-nic.txt")
    line = "" if f" {counter}:" in text else f"     {counter}: 0\n"
    return Counting(f"{text.rstrip()}\n{line}", {**MOVED, counter: by})


def held_query() -> str:
    """Return a vGPU's report with a process that was left behind; its lines as in a recorded one."""
    text = printed("guest-query-a100-40c-licensed.txt")
    process = """    Processes
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 2211
            Type                          : C
            Name                          : python3
            Used GPU Memory               : 36000 MiB
"""
    text = re.sub(r"( {8}Used +: )0 MiB", r"\g<1>36864 MiB", text, count=1)
    return re.sub(r" {4}Processes +: None\n", process, text)


def _capped(scene: Scene) -> None:
    text = printed("guest-query-a100-whole-sound.txt")
    power = """    GPU Power Readings
        Power Draw                        : 43.91 W
        Current Power Limit               : 150.00 W
        Requested Power Limit             : 150.00 W
        Default Power Limit               : 250.00 W
        Max Power Limit                   : 250.00 W
"""
    scene.answer("nvidia-smi", "-q", by=re.sub(r"( {4}Processes +: None\n)", rf"{power}\g<1>", text))
    scene.change(vgpus=0, wanted=(("A100",),), profiles=())


def _pending_rows(scene: Scene) -> None:
    text = printed("guest-query-a100-whole-sound.txt")
    scene.answer(
        "nvidia-smi", "-q", by=text.replace("Pending                           : No", "Pending : Yes")
    )
    scene.change(vgpus=0, wanted=(("A100",),), profiles=())


def _far_apart(scene: Scene) -> None:
    host = host_of()
    gpu, nic = (
        pci.model_copy(update={"numa_node": node}) for pci, node in zip(host.pci_devices, (0, 1), strict=True)
    )
    shared = host.gpus[0].model_copy(update={"pci": gpu})
    _host(scene, pci_devices=(gpu, nic), gpus=(shared,))


def _slower_than_before(scene: Scene) -> None:
    scene.baseline = Baseline(
        plan="horovod-a100",
        server="vc01.example.com",
        begun=NOW - timedelta(days=30),
        figures=(Figure(check="bandwidth", subject=PAIR, name="gbps", value=99.8),),
    )


def _another_image(scene: Scene) -> None:
    for words in (IMAGE_ID, RUNNING_ID):
        scene.answer(*words, by=f"sha256:{'6b' * 32}\n", of="hvd-02")


def _two_peers_over_pcie(scene: Scene) -> None:
    text = printed("guest-query-one-of-two-restricted.txt").replace("550.127.05", "580.95.05")
    scene.answer("nvidia-smi", "-q", by=text)
    scene.answer(
        "nvidia-smi",
        "topo",
        "-m",
        by="\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-15\nGPU1\tPIX\t X \t0-15\n",
    )
    scene.change(gpus=2, vgpus=2, peers=2, wanted=())


def _lanes_down(scene: Scene) -> None:
    _two_peers_over_pcie(scene)
    topology = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV12\t0-15\nGPU1\tNV12\t X \t0-15\n"
    scene.answer("nvidia-smi", "topo", "-m", by=topology)
    scene.answer("nvidia-smi", "nvlink", "--status", by=printed("nvlink-status-one-inactive.txt"))


def _small_mtu(scene: Scene) -> None:
    text = printed("ip-address-two-up-one-down.txt").replace('"mtu":9000', '"mtu":1500')
    scene.answer("ip", "-json", "address", "show", by=text)


def _port_down(scene: Scene) -> None:
    scene.answer(
        "ibv_devinfo",
        by=printed("ibv-devinfo-one-up-one-down.txt").replace("PORT_ACTIVE (4)", "PORT_DOWN (1)"),
    )


def _no_ipv4_gid(scene: Scene) -> None:
    lines = printed("show-gids-tabs.txt").splitlines()
    scene.answer("show_gids", by="\n".join(line for line in lines if "10.111" not in line))


def _torch_for_cpus(scene: Scene) -> None:
    scene.views.update(trains_by("torchrun").views)
    printed_by_torch = "torch 2.6.0+cpu\ncuda none\nnccl none\ndistributed yes\n"
    scene.answer(*RUN_IMAGE, "--gpus", "all", IMAGE, "sh", by=printed_by_torch)


def _no_peermem(scene: Scene) -> None:
    text = printed("lsmod-with-peermem.txt")
    scene.answer("lsmod", by="\n".join(line for line in text.splitlines() if "peermem" not in line))
    scene.answer(
        "cat", "/proc/driver/nvidia/version", by="NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05\n"
    )


def _ats_off(scene: Scene) -> None:
    text = printed("lspci-ats-on-tabs.txt").replace("Enable+", "Enable-")
    scene.answer("lspci", "-vvv", "-s", "0000:0b:00.0", by=text)


def _half_from_gpu(scene: Scene) -> None:
    _ats_off(scene)
    slow = printed("ib-write-bw-gpu-memory.txt")
    fast = printed("ib-write-bw-by-time.txt")
    scene.answer(*RATE, by=lambda words: slow if "--use_cuda=0" in words else fast)


def _no_tool(scene: Scene) -> None:
    scene.answer("mlnx_qos", "-i", "ens192", by=failing("sh: 1: mlnx_qos: not found", 127))
    scene.answer(
        "timeout", "20", "dcb", by=failing("timeout: failed to run command 'dcb': No such file", 127)
    )


def _counting(scene: Scene, **rising: int) -> None:
    """Let counters rise with every reading on both NICs."""
    statistics = printed("ethtool-statistics-of-a-whole-nic.txt")
    hardware = printed("hw-counters-of-a-busy-port.txt")
    scene.answer("ethtool", "-S", "ens192", by=Counting(statistics, rising))
    scene.answer("sh", "-c", HW_COUNTERS, by=Counting(hardware, rising))


def _slow(scene: Scene) -> None:
    scene.answer(*RATE, by=printed("ib-write-bw-by-time.txt").replace("94.80", "61.30"))


def _stuck(scene: Scene) -> None:
    modules = (
        ModuleState(name="users", state="done"),
        ModuleState(name="driver", state="failed", why="no package fits kernel 6.8.0-49-generic"),
        ModuleState(name="licence", state="waiting"),
    )
    report = GuestReport(spec="a1b2c3d4e5", state="failed", modules=modules)
    scene.answer("cat", "/var/lib/vgpu-cfg/report.json", by=report.model_dump_json())


def _gone(scene: Scene) -> None:
    guests = dict(scene.guests.guests)
    del guests["hvd-01"]
    scene.guests.guests = guests


C = VerifyCode
PAIR = "hvd-01 -> hvd-02"
ALL = "hvd-01, hvd-02"

CASES: tuple[Case, ...] = (
    Case(
        C.HOST_SILENT,
        "connected",
        "esx-01",
        lambda scene: _host(scene, connection=Connection.NOT_RESPONDING),
    ),
    Case(C.HOST_DRIVER, "host-driver", "esx-01", lambda scene: _facts(scene, software=())),
    Case(C.HOST_GRAPHICS, "graphics", "esx-01", _gpu_is_shared),
    Case(C.HOST_MIG, "mig", "esx-01", _time_sliced_on_mig),
    Case(
        C.HOST_ATS,
        "host-ats",
        "esx-01",
        lambda scene: _facts(scene, kernel={"atsSupport": KernelSetting(configured="TRUE", runtime="FALSE")}),
    ),
    Case(C.HOST_ROCE, "host-roce", "esx-01", _host_owned),
    Case(C.HOST_NIC_FIRMWARE, "nic-firmware", "esx-01", _firmware_off),
    Case(C.GUEST_UNREACHED, "reached", "hvd-01", _gone),
    Case(C.GUEST_UNSTAGED, "staged", "hvd-01", _stuck),
    Case(
        C.DRIVER_ABSENT,
        "driver",
        "hvd-01",
        lambda scene: scene.answer("nvidia-smi", "-q", by=failing(printed("query-driver-not-loaded.txt"), 9)),
    ),
    Case(
        C.DRIVER_BRANCH,
        "driver",
        "hvd-01",
        lambda scene: scene.answer(
            "nvidia-smi",
            "-q",
            by=printed("guest-query-a100-40c-licensed.txt").replace("580.95.05", "535.183.01"),
        ),
    ),
    Case(C.GPUS_MISSING, "gpus", "hvd-01", lambda scene: scene.change(gpus=2, vgpus=2)),
    Case(C.UNLICENSED, "licence", "hvd-01", _unlicensed),
    Case(C.NO_NVLINK, "nvlink", "hvd-01", _two_peers_over_pcie),
    Case(C.NIC_WRONG, "nics", "hvd-01", _small_mtu),
    Case(C.RDMA_DOWN, "rdma", "hvd-01", _port_down),
    Case(C.NO_GID, "gid", "hvd-01", _no_ipv4_gid),
    Case(
        C.ROCE_UNSET,
        "roce",
        "hvd-01",
        lambda scene: scene.answer(
            "mlnx_qos", "-i", "ens192", by=printed("mlnx-qos-pcp-nothing-protected.txt")
        ),
    ),
    Case(C.ROCE_UNKNOWN, "roce", "hvd-01", _no_tool),
    Case(C.RDMA_LOSS, "congestion", PAIR, lambda scene: _counting(scene, packet_seq_err=812)),
    Case(
        C.WRONG_PRIORITY,
        "congestion",
        PAIR,
        lambda scene: _counting(scene, tx_prio0_bytes=8_000_000_000, tx_prio3_bytes=1_000),
    ),
    Case(
        C.NCCL_SETTINGS,
        "nccl",
        "hvd-01",
        lambda scene: scene.answer(
            "cat",
            SETTINGS,
            by=NCCL_SETTINGS.replace("GID_INDEX=3", "GID_INDEX=1").replace("mlx5_0", "mlx5_2"),
        ),
    ),
    Case(C.NO_PEERMEM, "peermem", "hvd-01", _no_peermem),
    Case(C.ATS_OFF, "ats", "hvd-01", _ats_off),
    Case(
        C.RUNTIME_DOWN,
        "runtime",
        "hvd-01",
        lambda scene: scene.answer(
            "systemctl", "is-active", "docker", by=ShellResult(status=3, stdout="inactive\n")
        ),
    ),
    Case(
        C.NO_GPU_IN_CONTAINER,
        "container-gpus",
        "hvd-01",
        lambda scene: scene.answer(
            *RUN_IMAGE,
            *("--gpus", "all", IMAGE, "nvidia-smi", "-L"),
            by=failing(
                'docker: Error: could not select device driver "" with capabilities: [[gpu]].',
                125,
            ),
        ),
    ),
    Case(
        C.NO_HOROVOD,
        "horovod",
        "hvd-01",
        lambda scene: scene.answer(
            *RUN_IMAGE,
            "--gpus",
            "all",
            IMAGE,
            "horovodrun",
            by=printed("horovod-check-build-without-nccl.txt"),
        ),
    ),
    Case(C.NO_FRAMEWORK, "framework", "hvd-01", _torch_for_cpus),
    Case(
        C.WORKER_DOWN,
        "worker",
        "hvd-01",
        lambda scene: scene.answer("systemctl", "is-active", "vgpu-cfg-worker.service", by="activating\n"),
    ),
    Case(
        C.NO_SSH,
        "ssh",
        PAIR,
        lambda scene: scene.answer("ssh", by=failing("Host key verification failed.", 255)),
    ),
    Case(
        C.PATH_MTU,
        "path-mtu",
        PAIR,
        lambda scene: scene.answer("ping", by=only_small),
    ),
    Case(C.SLOW_HOST_MEMORY, "bandwidth", PAIR, _slow),
    Case(C.SLOW_GPU_MEMORY, "bandwidth-gpu", PAIR, _half_from_gpu),
    Case(
        C.ALLREDUCE_FAILED,
        "allreduce",
        ALL,
        lambda scene: scene.answer(
            *TRAIN, by=failing("train: hvd-02 does not respond over SSH on port 2222: Connection refused")
        ),
    ),
    Case(
        C.NO_WAY,
        "path-mtu",
        PAIR,
        lambda scene: scene.answer(
            "ping", by=ShellResult(status=1, stdout="3 packets transmitted, 0 received, 100% packet loss\n")
        ),
    ),
    Case(
        C.LINK_ERRORS,
        "congestion",
        PAIR,
        lambda scene: scene.answer("ethtool", "-S", "ens192", by=rising("rx_symbol_err_phy", 8456)),
    ),
    Case(
        C.WORKERS_DIFFER,
        "same-setup",
        ALL,
        lambda scene: scene.answer(
            "ibv_devinfo",
            by=re.sub(r"(fw_ver:\s+)\S+", r"\g<1>20.29.1016", printed("ibv-devinfo-one-up-one-down.txt")),
            of="hvd-02",
        ),
    ),
    Case(
        C.GPU_TAKEN,
        "gpu-memory",
        "hvd-01",
        lambda scene: scene.answer("nvidia-smi", "-q", by=held_query()),
    ),
    Case(C.GPU_CAPPED, "gpu-health", "hvd-01", _capped),
    Case(
        C.ALLREDUCE_SLOW,
        "allreduce",
        ALL,
        lambda scene: scene.answer(*TRAIN, by=VIA + PROBE.replace("11.2", "5.6")),
    ),
    Case(
        C.ALLREDUCE_WRONG,
        "allreduce",
        ALL,
        lambda scene: scene.answer(*TRAIN, by=VIA + PROBE.replace('"is_exact": true', '"is_exact": false')),
    ),
    Case(
        C.NOT_UNDERSTOOD,
        "rdma",
        "hvd-01",
        lambda scene: scene.answer("ibv_devinfo", by=failing("sh: 1: ibv_devinfo: not found", 127)),
    ),
    Case(C.PORT_SLOW, "port", "hvd-01", _trained_down),
    Case(
        C.PCIE_NARROW,
        "pcie",
        "hvd-01",
        lambda scene: scene.answer(*LINK, by=PCIE.replace(":16\n", ":4\n", 1)),
    ),
    Case(
        C.OTHER_GPU,
        "gpus",
        "hvd-01",
        lambda scene: scene.answer(
            "nvidia-smi",
            "-q",
            by=printed("guest-query-a100-40c-licensed.txt").replace("40C", "20C").replace("40960", "20480"),
        ),
    ),
    Case(C.NO_TRANSPORT, "allreduce", ALL, lambda scene: scene.answer(*TRAIN, by=PROBE)),
    Case(
        C.CLOCK_OFF,
        "clock",
        "hvd-01",
        lambda scene: scene.answer("date", "+%s.%N", by=f"{NOW.timestamp() - 400:.9f}\n"),
    ),
    Case(
        C.DRIVERS_DIFFER,
        "same-driver",
        ALL,
        lambda scene: scene.answer(
            "nvidia-smi",
            "-q",
            by=printed("guest-query-a100-40c-licensed.txt").replace("580.95.05", "580.65.06"),
            of="hvd-02",
        ),
    ),
    Case(
        C.IMAGES_DIFFER,
        "same-image",
        ALL,
        _another_image,
    ),
    Case(
        C.NOT_SHARED,
        "shared-folder",
        ALL,
        lambda scene: scene.answer(
            "findmnt", "-n", "-o", "FSTYPE,SOURCE", "-T", "/srv/training", by="ext4 /dev/sda1\n", of="hvd-02"
        ),
    ),
    Case(
        C.EXPORTER_SILENT,
        "metrics",
        "hvd-01",
        lambda scene: scene.answer(
            "curl",
            "-fsS",
            *("--max-time", "20", "http://127.0.0.1:9400/metrics"),
            by=failing("curl: (7) Failed to connect to 127.0.0.1 port 9400: Connection refused", 7),
        ),
    ),
    Case(C.BEHIND_BASELINE, "bandwidth", PAIR, _slower_than_before),
    Case(C.GPU_UNSOUND, "gpu-health", "hvd-01", _pending_rows),
    Case(
        C.KERNEL_COMPLAINS,
        "kernel-log",
        "hvd-01",
        lambda scene: scene.answer(
            "dmesg",
            by=printed("dmesg-sound.txt").replace(": 31, pid=4711", ": 79, pid=4711"),
        ),
    ),
    Case(
        C.NO_ROOM,
        "room",
        "hvd-01",
        lambda scene: scene.answer("df", "-Pk", by=printed("df-posix.txt").replace("76424012", "102400")),
    ),
    Case(
        C.WORKER_SHORT,
        "worker-limits",
        "hvd-01",
        lambda scene: scene.answer(
            *("docker", "exec", "vgpu-cfg-worker", "sh", "-c", "ulimit -l"), by="64\n"
        ),
    ),
    Case(C.OTHER_MACHINE, "ssh", PAIR, lambda scene: scene.answer("ssh", by="some-other-boot\n")),
    Case(C.FAR_APART, "near", "esx-01", _far_apart),
    Case(C.NVLINK_LANES, "nvlink", "hvd-01", _lanes_down),
    Case(C.LICENCE_SOON, "licence", "hvd-01", _ends_in_two_hours),
    Case(C.LICENCE_ENDS, "licence", "hvd-01", _expired),
    Case(
        C.NO_GPUDIRECT,
        "allreduce",
        ALL,
        lambda scene: scene.answer(*TRAIN, by=VIA.replace("/GDRDMA", "") + PROBE),
    ),
)
