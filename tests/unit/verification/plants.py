"""Faults that look like health: each planted into two sound workers, and by which code verify tells it.

The page docs/explanation/verify-plants.md is written from this table. A plant says what is wrong in an
admin's words; `code` "" marks what is not proven rather than failed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.fakes.answering_guests import Answer
from tests.unit.parsers.printed import printed
from tests.unit.verification import cases
from tests.unit.verification.two_workers import (
    GPU,
    IMAGE,
    INODES,
    LINK,
    MOVED,
    NCCL_SETTINGS,
    NOW,
    PCIE,
    PROBE,
    RUN_IMAGE,
    VIA,
    WRITES,
    Counting,
    Scene,
    failing,
)
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.parsers.frameworks import SETTINGS
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.verification.checks.training_checks import HOST_FILE

QUERY = "guest-query-a100-40c-licensed.txt"
SMALL_SHM = """\
Filesystem 1024-blocks Used Available Capacity Mounted on
shm 65536 0 65536 0% /dev/shm
"""
FINDMNT = ("findmnt", "-n", "-o", "FSTYPE,SOURCE", "-T", "/srv/training")
ENABLED = ("systemctl", "is-enabled", "vgpu-cfg-worker.service")
FIRMWARE = """\
Device #1:
----------

Device type:        ConnectX6DX
Device:             0000:0b:00.0

Configurations:                          Default             Current             Next Boot
*       ATS_ENABLED                      False(0)            False(0)            True(1)
The '*' shows parameters with next value different from default/current value.
"""
"""As mstconfig prints it, by the source of its columns (Mellanox/mstflint)."""
IN_WORKER = ("docker", "exec", "vgpu-cfg-worker")


@dataclass(frozen=True, slots=True)
class Plant:
    """One fault: what is wrong, how the scene shows it, and by which check and code it is told."""

    what: str
    change: Callable[[Scene], object]
    check: str
    code: str


def _said(name: str, *words: str, by: Answer) -> Callable[[Scene], object]:
    return lambda scene: scene.answer(*words, by=by, of=name)


def _rises(counter: str, by: int) -> Callable[[Scene], object]:
    """Let a counter of a NIC rise; each scene counts from the start."""
    return lambda scene: scene.answer("ethtool", "-S", "ens192", by=cases.rising(counter, by), of="hvd-02")


def _query(before: str, after: str, name: str = "hvd-01") -> Callable[[Scene], object]:
    return _said(name, "nvidia-smi", "-q", by=printed(QUERY).replace(before, after))


def _log(line: str) -> Callable[[Scene], object]:
    return _said("hvd-02", "dmesg", by=f"{printed('dmesg-sound.txt')}[ 9000.000001] {line}\n")


def _whole(before: str, after: str) -> Callable[[Scene], object]:
    def change(scene: Scene) -> None:
        text = printed("guest-query-a100-whole-sound.txt")
        changed = [after if before in line else line for line in text.splitlines()]
        scene.answer("nvidia-smi", "-q", by="\n".join(changed))
        scene.change(vgpus=0, wanted=(("A100",),), profiles=())

    return change


def _one_way(scene: Scene) -> None:
    """The way back reaches 20 Gb/s."""
    slow = printed("ib-write-bw-by-time.txt").replace("94.80", "20.10")
    scene.answer(*cases.RATE, by=slow, of="hvd-02")


def _over_the_line(scene: Scene) -> None:
    fast = printed("ib-write-bw-by-time.txt").replace("94.80", "380.10")
    gpu = printed("ib-write-bw-gpu-memory.txt").replace("47.00", "94.10")
    scene.answer(*cases.RATE, by=lambda words: gpu if "--use_cuda=0" in words else fast)


def _wrong_package(scene: Scene) -> None:
    """The module is there and drives nothing; the kernel log has NVRM's words (gpu-operator issue 1371)."""
    scene.answer("nvidia-smi", "-q", by=failing("No devices were found", 6))
    lines = (
        "NVRM: The NVIDIA GPU 0000:02:01.0 (PCI ID: 10de:20b0)",
        "NVRM: installed in this system is not supported by the",
        "NVRM: NVIDIA 570.86.15 driver release.",
    )
    scene.answer("dmesg", by="".join(f"[   99.966246] {line}\n" for line in lines))


def _no_driver(module: str) -> Callable[[Scene], object]:
    """nvidia-smi fails; lsmod tells another's module, modinfo that NVIDIA's is not there."""

    def change(scene: Scene) -> None:
        said = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
        scene.answer("nvidia-smi", "-q", by=failing(said, 9))
        lines = printed("lsmod-with-peermem.txt").splitlines()
        kept = [line for line in lines if not line.startswith("nvidia")]
        own = [f"{module}  2306048  0"] if module else []
        scene.answer("lsmod", by="\n".join([*kept, *own]))
        scene.answer("modinfo", by=failing("modinfo: ERROR: Module nvidia not found."))

    return change


def _no_gridd(scene: Scene) -> None:
    text = re.sub(r"(License Status +: ).*", r"\g<1>Unlicensed (Unrestricted)", printed(QUERY))
    scene.answer("nvidia-smi", "-q", by=text)
    scene.answer("systemctl", "is-active", "nvidia-gridd", by=ShellResult(status=3, stdout="inactive\n"))


def _ats_waits_for_power(scene: Scene) -> None:
    text = re.sub(r"Enable\+", "Enable-", printed("lspci-ats-on-tabs.txt"))
    scene.answer("lspci", "-vvv", "-s", "0000:0b:00.0", by=text)
    scene.answer("mstconfig", by=FIRMWARE)


def _tenant(scene: Scene) -> None:
    (host,) = scene.hosts
    scene.hosts = [replace(host, tenants={GPU: ("desktop-07",)})]


def _with_ecc(scene: Scene) -> None:
    for name, mode in (("hvd-01", "Enabled"), ("hvd-02", "Disabled")):
        ecc = f"    ECC Mode\n        Current                           : {mode}\n    Processes"
        scene.answer("nvidia-smi", "-q", by=printed(QUERY).replace("    Processes", ecc, 1), of=name)


def _paused(scene: Scene) -> None:
    text = printed("ethtool-statistics-of-a-whole-nic.txt")
    scene.answer("ethtool", "-S", "ens192", by=Counting(text, {**MOVED, "rx_prio3_pause": 9_000_000}))
    slow = printed("ib-write-bw-by-time.txt").replace("94.80", "31.00")
    scene.answer(*cases.RATE, by=slow)


def _stalled(scene: Scene) -> None:
    rising = cases.rising("outbound_pci_stalled_wr_events", 3)
    scene.answer("ethtool", "-S", "ens192", by=rising, of="hvd-02")
    scene.answer(*cases.RATE, by=printed("ib-write-bw-by-time.txt").replace("94.80", "31.00"))


def _own_name_at_the_loopback(scene: Scene) -> None:
    sound = scene.guest("hvd-02").answers["getent", "ahosts"]
    assert callable(sound)
    own = "127.0.1.1       STREAM hvd-02\n"
    scene.answer(
        "getent", "ahosts", by=lambda words: own if words[-1] == "hvd-02" else sound(words), of="hvd-02"
    )


def _training(by: str) -> Callable[[Scene], object]:
    return _said("hvd-01", *cases.TRAIN, by=by)


def _one_address(scene: Scene) -> None:
    words = ("ip", "-json", "address", "show")
    text = scene.guest("hvd-02").answers[words]
    assert isinstance(text, str)
    scene.answer(*words, by=text.replace("192.168.10.22", "192.168.10.21"), of="hvd-02")


def _only_ipv6(scene: Scene) -> None:
    """The router of the network announces IPv6 prefixes, and nothing answers DHCP for IPv4."""
    words = ("ip", "-json", "address", "show")
    text = scene.guest("hvd-01").answers[words]
    assert isinstance(text, str)
    text, count = re.subn(
        r'"family": ?"inet", ?"local": ?"192.168.10.21", ?"prefixlen": ?24',
        '"family":"inet6","local":"fd00:1::21","prefixlen":64',
        text,
    )
    assert count
    scene.answer(*words, by=text)


def _swapped(scene: Scene) -> None:
    """The training address on the NIC of management."""
    text = printed("ip-address-two-up-one-down.txt")
    text = (
        text.replace("192.168.10.21", "X").replace("10.111.0.11", "192.168.10.21").replace("X", "10.111.0.11")
    )
    scene.answer("ip", "-json", "address", "show", by=text)


def _no_room(scene: Scene) -> None:
    rows = printed("df-posix.txt").splitlines()
    words = rows[1].split()
    words[3], words[4] = "1048576", "99%"
    scene.answer("df", "-Pk", by="\n".join([rows[0], " ".join(words)]))


def _stale_share(scene: Scene) -> None:
    answer = scene.guest("hvd-01").answers
    key = next(words for words in answer if words[0] == "cat" and "vgpu-cfg-verify" in words[-1])
    scene.answer(*key, by="hvd-01", of="hvd-02")


def _fewer_gpus_in_worker(scene: Scene) -> None:
    scene.answer(*IN_WORKER, "nvidia-smi", "-L", by=failing("Failed to initialize NVML: Unknown Error", 255))


def _half_gpu_listed(scene: Scene) -> None:
    scene.change(gpus=2, vgpus=2, wanted=())


def _silent_rate(scene: Scene) -> None:
    """Nobody knows what the port shall run at."""
    for name in ("hvd-01", "hvd-02"):
        scene.answer("ethtool", "ens192", by=printed("ethtool-virtual-not-reported.txt"), of=name)
        scene.change(name, rates_gbps={})


def _slower_board(scene: Scene) -> None:
    text = printed("ethtool-100g.txt")
    text = "\n".join(line for line in text.splitlines() if "50000" not in line and "100000base" not in line)
    text = text.replace("40000base", "10000base").replace("Speed: 100000", "Speed: 25000")
    for name in ("hvd-01", "hvd-02"):
        scene.answer("ethtool", "ens192", by=text, of=name)


def _no_cuda_anywhere(scene: Scene) -> None:
    """Neither perftest nor a framework tells of GPU memory."""
    cuda = printed("ib-write-bw-unsupported-memory-25.01.txt")
    host = printed("ib-write-bw-by-time.txt")
    for name in ("hvd-01", "hvd-02"):
        scene.answer(*cases.RATE, by=lambda words: cuda if "--use_cuda=0" in words else host, of=name)
    launcher = next(one for one in scene.views["hvd-01"].spec.modules if one.kind == "launcher")
    spec = scene.views["hvd-01"].spec
    other = launcher.model_copy(update={"framework": "none"})
    modules = tuple(other if one is launcher else one for one in spec.modules)
    scene.change("hvd-01", spec=spec.model_copy(update={"modules": modules}))


def _drivers_of_tomorrow(scene: Scene) -> None:
    for name in ("hvd-01", "hvd-02"):
        _query("580.95.05", "999.10.02", name)(scene)


def _no_boot_id(scene: Scene) -> None:
    for name in ("hvd-01", "hvd-02"):
        scene.answer("cat", "/proc/sys/kernel/random/boot_id", by=failing("cat: No such file"), of=name)


def _planned_nic_of_another(scene: Scene) -> None:
    view = scene.views["hvd-01"]
    nics = tuple(replace_nic(nic) if "10.111.0.11/24" in nic.addresses else nic for nic in view.nics)
    network = next(one for one in view.spec.modules if one.kind == "network")
    modules = tuple(
        network.model_copy(update={"nics": nics}) if one is network else one for one in view.spec.modules
    )
    scene.views["hvd-01"] = replace(view, spec=view.spec.model_copy(update={"modules": modules}))


def replace_nic(nic: GuestNic) -> GuestNic:
    return nic.model_copy(update={"mac": "04:3f:72:aa:ff:ff", "addresses": ("10.111.0.99/24",)})


PLANTS: tuple[Plant, ...] = (
    Plant("both ports negotiated only 25 Gb/s", cases._trained_down, "port", "VG700"),
    Plant(
        "the NIC's PCIe link has 4 of 16 lanes",
        _said("hvd-01", *LINK, by=PCIE.replace(":16\n", ":4\n", 1)),
        "pcie",
        "VG701",
    ),
    Plant(
        "the NIC's PCIe link runs at 2.5 GT/s",
        _said("hvd-01", *LINK, by=PCIE.replace(":16.0 GT", ":2.5 GT", 1)),
        "pcie",
        "VG701",
    ),
    Plant(
        "the NIC uses 8 of 16 lanes at 16.0 GT/s",
        _said("hvd-01", *LINK, by=PCIE.replace(":16\n", ":8\n", 1)),
        "pcie",
        "VG701",
    ),
    Plant("the return direction reaches only 20 Gb/s", _one_way, "bandwidth", "VG676"),
    Plant(
        "GPU memory reaches half of the line rate because ATS is off",
        cases._half_from_gpu,
        "bandwidth-gpu",
        "VG677",
    ),
    Plant("the guest has a profile that was not planned", _query("A100-40C", "A100-20C"), "gpus", "VG702"),
    Plant(
        "the profile has the right name but half the framebuffer",
        _query("40960 MiB", "20480 MiB"),
        "gpus",
        "VG702",
    ),
    Plant(
        "a whole GPU instead of a vGPU",
        _query("GRID A100-40C", "NVIDIA A100-PCIE-40GB"),
        "gpus",
        "VG702",
    ),
    Plant("one of two GPUs is missing", _half_gpu_listed, "gpus", "VG661"),
    Plant("a licence expires in two hours", cases._ends_in_two_hours, "licence", "VG717"),
    Plant("a licence has expired", cases._expired, "licence", "VG682"),
    Plant(
        "Unlicensed (Restricted)",
        _query("Licensed (Expiry: 2026-12-3 5:2:12 GMT)", "Unlicensed (Restricted)"),
        "licence",
        "VG662",
    ),
    Plant(
        "Unlicensed (Unrestricted), in the grace period",
        _query("Licensed (Expiry: 2026-12-3 5:2:12 GMT)", "Unlicensed (Unrestricted)"),
        "licence",
        "VG662",
    ),
    Plant("Unlicensed", _query("Licensed (Expiry: 2026-12-3 5:2:12 GMT)", "Unlicensed"), "licence", "VG662"),
    Plant(
        "a licence state of N/A", _query("Licensed (Expiry: 2026-12-3 5:2:12 GMT)", "N/A"), "licence", "VG662"
    ),
    Plant(
        "a clock 400 s behind",
        _said("hvd-02", "date", "+%s.%N", by=f"{NOW.timestamp() - 400:.9f}\n"),
        "clock",
        "VG704",
    ),
    Plant(
        "a clock 5 s ahead",
        _said("hvd-02", "date", "+%s.%N", by=f"{NOW.timestamp() + 5:.9f}\n"),
        "clock",
        "VG704",
    ),
    Plant(
        "chronyd has no time source",
        _said("hvd-02", "chronyc", "-n", "tracking", by=printed("chronyc-tracking-follows-nobody.txt")),
        "clock",
        "VG704",
    ),
    Plant(
        "workers have different driver versions from the same branch",
        _query("580.95.05", "580.65.06", "hvd-02"),
        "same-driver",
        "VG705",
    ),
    Plant(
        "a guest's driver is from a branch that its host does not support",
        _query("580.95.05", "535.183.01"),
        "driver",
        "VG660",
    ),
    Plant(
        "no document states whether the host supports the guests' driver",
        _drivers_of_tomorrow,
        "driver",
        "",
    ),
    Plant("one tag refers to two images", cases._another_image, "same-image", "VG706"),
    Plant(
        "the image was updated, but the container uses the old one",
        _said("hvd-02", *cases.RUNNING_ID, by=f"sha256:{'7c' * 32}\n"),
        "same-image",
        "VG706",
    ),
    Plant(
        "the image is missing on one worker",
        _said("hvd-02", *cases.IMAGE_ID, by=failing(f"Error: No such image: {IMAGE}")),
        "same-image",
        "VG706",
    ),
    Plant(
        "the shared folder is not mounted on one worker",
        _said("hvd-02", "findmnt", "-n", "-o", "FSTYPE,SOURCE", "-T", "/srv/training", by="ext4 /dev/sda1\n"),
        "shared-folder",
        "VG707",
    ),
    Plant(
        "the shared folder's server is down, and access hangs",
        _said(
            "hvd-02",
            *("timeout", "--kill-after=5", "30", "ls", "/srv/training/"),
            by=ShellResult(status=124, stdout=""),
        ),
        "shared-folder",
        "VG707",
    ),
    Plant(
        "the shared folder is read-only",
        _said("hvd-02", "sh", "-c", WRITES, by=failing("sh: 1: cannot create: Read-only file system", 2)),
        "shared-folder",
        "VG707",
    ),
    Plant("a worker sees outdated content in the shared folder", _stale_share, "shared-folder", "VG707"),
    Plant(
        "the DCGM exporter does not run",
        _said(
            "hvd-01",
            "curl",
            "-fsS",
            "--max-time",
            "20",
            "http://127.0.0.1:9400/metrics",
            by=failing("curl: (7) Connection refused", 7),
        ),
        "metrics",
        "VG708",
    ),
    Plant(
        "the DCGM exporter responds but reports no GPU",
        _said("hvd-01", "curl", "-fsS", "--max-time", "20", "http://127.0.0.1:9400/metrics", by="# EOF\n"),
        "metrics",
        "VG708",
    ),
    Plant(
        "another program responds on the node exporter's port",
        _said(
            "hvd-01", "curl", "-fsS", "--max-time", "20", "http://127.0.0.1:9100/metrics", by="other_up 1\n"
        ),
        "metrics",
        "VG708",
    ),
    Plant("five percent less bandwidth than the baseline", cases._slower_than_before, "bandwidth", "VG709"),
    Plant("NCCL does not report its transport", _training(PROBE), "allreduce", "VG703"),
    Plant(
        "NCCL uses TCP, regardless of speed",
        _training(VIA.replace("NET/IB/0/GDRDMA", "NET/Socket/0") + PROBE),
        "allreduce",
        "VG703",
    ),
    Plant(
        "one channel of NCCL uses TCP",
        _training(VIA + VIA.replace("NET/IB/0/GDRDMA", "NET/Socket/0") + PROBE),
        "allreduce",
        "VG703",
    ),
    Plant(
        "NCCL uses RDMA through host memory",
        _training(VIA.replace("/GDRDMA", "") + PROBE),
        "allreduce",
        "VG683",
    ),
    Plant(
        "the sums are slightly wrong",
        _training(VIA + PROBE.replace('"is_exact": true', '"is_exact": false')),
        "allreduce",
        "VG680",
    ),
    Plant(
        "the sums were computed on CPUs",
        _training(VIA + PROBE.replace('"is_on_gpu": true', '"is_on_gpu": false')),
        "allreduce",
        "VG678",
    ),
    Plant(
        "only one of two ranks participated",
        _training(VIA + PROBE.replace('"ranks": 2', '"ranks": 1')),
        "allreduce",
        "VG678",
    ),
    Plant(
        "the allreduce reaches half of the line rate",
        _training(VIA + PROBE.replace("11.2", "5.6")),
        "allreduce",
        "VG679",
    ),
    Plant(
        "uncorrectable GPU memory errors",
        _whole("DRAM Uncorrectable", "            DRAM Uncorrectable : 2"),
        "gpu-health",
        "VG710",
    ),
    Plant("remapped rows are pending a reset", cases._pending_rows, "gpu-health", "VG710"),
    Plant(
        "the GPU is throttled by a power brake",
        _whole("HW Power Brake Slowdown", "            HW Power Brake Slowdown : Active"),
        "gpu-health",
        "VG710",
    ),
    Plant(
        "the GPU is throttled because of high temperature",
        _whole("SW Thermal Slowdown", "        SW Thermal Slowdown : Active"),
        "gpu-health",
        "VG710",
    ),
    Plant(
        "Xid 79: the GPU has fallen off the bus",
        _log("NVRM: Xid (PCI:0000:02:01): 79, pid=1, GPU has fallen off the bus."),
        "kernel-log",
        "VG711",
    ),
    Plant(
        "Xid 63: a row was remapped",
        _log("NVRM: Xid (PCI:0000:02:01): 63, pid=1, Row Remapper: New row marked"),
        "kernel-log",
        "VG711",
    ),
    Plant(
        "an uncorrected PCIe error",
        _log("pcieport 0000:00:15.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal)"),
        "kernel-log",
        "VG711",
    ),
    Plant(
        "the NIC's firmware has stopped",
        _log("mlx5_core 0000:0b:00.0: device's health compromised - reached miss count"),
        "kernel-log",
        "VG711",
    ),
    Plant(
        "a disk with read errors",
        _log("I/O error, dev sda, sector 4096 op 0x0:(READ)"),
        "kernel-log",
        "VG711",
    ),
    Plant("a full disk", _no_room, "room", "VG712"),
    Plant(
        "a disk without inodes",
        _said("hvd-01", "df", "-Pi", by=INODES.replace("16672359    1%", "12 100%")),
        "room",
        "VG712",
    ),
    Plant(
        "a root file system that the kernel made read-only",
        _said("hvd-01", "grep", " / ", "/proc/mounts", by="/dev/sda1 / ext4 ro,relatime 0 0\n"),
        "room",
        "VG712",
    ),
    Plant(
        "the worker can lock only 64 KiB of memory",
        _said("hvd-02", *IN_WORKER, "sh", "-c", "ulimit -l", by="64\n"),
        "worker-limits",
        "VG713",
    ),
    Plant(
        "the worker has Docker's default of 64 MiB for /dev/shm",
        _said("hvd-02", *IN_WORKER, "df", "-Pk", "/dev/shm", by=SMALL_SHM),
        "worker-limits",
        "VG713",
    ),
    Plant(
        "the worker lost its GPU, but a new container has it", _fewer_gpus_in_worker, "worker-limits", "VG713"
    ),
    Plant(
        "the worker has no /dev/infiniband",
        _said(
            "hvd-02",
            *IN_WORKER,
            "ls",
            "/dev/infiniband",
            by=failing("ls: cannot access '/dev/infiniband': No such file or directory", 2),
        ),
        "worker-limits",
        "VG713",
    ),
    Plant(
        "a container has no GPU because the runtime lacks NVIDIA's hook",
        _said(
            "hvd-01",
            *RUN_IMAGE,
            "--gpus",
            "all",
            IMAGE,
            "nvidia-smi",
            "-L",
            by=failing('docker: Error: could not select device driver "" with capabilities: [[gpu]].', 125),
        ),
        "container-gpus",
        "VG671",
    ),
    Plant(
        "the name of a worker resolves to another machine",
        _said("hvd-01", "ssh", by="0f3c2a9e-ffff-4fff-8fff-ffffffffffff\n"),
        "ssh",
        "VG714",
    ),
    Plant("two machines have the same address", _one_address, "addresses", "VG714"),
    Plant(
        "the mesh's host key belongs to a previous machine",
        _said("hvd-01", "ssh", by=failing("Host key verification failed.", 255)),
        "ssh",
        "VG674",
    ),
    Plant(
        "the mesh's key is not authorized",
        _said("hvd-02", "ssh", by=failing("root@hvd-01: Permission denied (publickey).", 255)),
        "ssh",
        "VG674",
    ),
    Plant("GPU and NIC are on different NUMA nodes", cases._far_apart, "near", "VG715"),
    Plant("an RDMA port is down", cases._port_down, "rdma", "VG665"),
    Plant("the RDMA device has no GID for the address", cases._no_ipv4_gid, "gid", "VG666"),
    Plant("MTU 1500 on one side", cases._small_mtu, "nics", "VG664"),
    Plant("the addresses of two NICs are swapped", _swapped, "nics", "VG664"),
    Plant(
        "large packets are dropped",
        lambda scene: scene.answer("ping", by=cases.only_small),
        "path-mtu",
        "VG675",
    ),
    Plant("nvidia-peermem is missing on one worker", cases._no_peermem, "peermem", "VG668"),
    Plant("ATS is off in one NIC", cases._ats_off, "ats", "VG669"),
    Plant(
        "PFC protects no priority",
        _said("hvd-01", "mlnx_qos", "-i", "ens192", by=printed("mlnx-qos-pcp-nothing-protected.txt")),
        "roce",
        "VG667",
    ),
    Plant("the guest has a NIC that was not planned", _planned_nic_of_another, "nics", "VG664"),
    Plant(
        "two GPUs that should be peers are connected only by PCIe",
        cases._two_peers_over_pcie,
        "nvlink",
        "VG663",
    ),
    Plant("one NVLink of three is down", cases._lanes_down, "nvlink", "VG716"),
    Plant(
        "a whole GPU is still in MIG mode",
        _whole(
            "GPU Virtualization Mode", "    MIG Mode\n        Current : Enabled\n    GPU Virtualization Mode"
        ),
        "gpus",
        "VG702",
    ),
    Plant(
        "a GPU prohibits compute processes",
        _query("    FB Memory Usage", "    Compute Mode : Prohibited\n    FB Memory Usage"),
        "gpus",
        "VG702",
    ),
    Plant(
        "a GPU is waiting for the NVSwitch fabric",
        _whole("Performance State", "    Fabric\n        State : In Progress\n    Performance State : P0"),
        "gpu-health",
        "VG710",
    ),
    Plant(
        "the RoCE v2 GID has a different index than when NCCL's settings were computed",
        _said("hvd-02", "cat", SETTINGS, by=NCCL_SETTINGS.replace("GID_INDEX=3", "GID_INDEX=1")),
        "nccl",
        "VG687",
    ),
    Plant(
        "NCCL's settings refer to a device that was renamed",
        _said("hvd-01", "cat", SETTINGS, by=NCCL_SETTINGS.replace("mlx5_0", "mlx5_2")),
        "nccl",
        "VG687",
    ),
    Plant(
        "NCCL uses a packet marking that is not lossless",
        _said("hvd-01", "cat", SETTINGS, by=NCCL_SETTINGS.replace("TC=106", "TC=0")),
        "nccl",
        "VG687",
    ),
    Plant(
        "NCCL's settings refer to a missing topology file",
        _said("hvd-01", "cat", SETTINGS, by=f"{NCCL_SETTINGS}export NCCL_TOPO_FILE=/opt/vgpu-cfg/gone.xml\n"),
        "nccl",
        "VG687",
    ),
    Plant(
        "the shared folder of one worker is on another server",
        _said("hvd-02", *FINDMNT, by="autofs systemd-1\nnfs4 10.0.0.9:/srv/training\n"),
        "shared-folder",
        "VG707",
    ),
    Plant("the worker does not start at boot", _said("hvd-01", *ENABLED, by="disabled\n"), "worker", "VG673"),
    Plant("nouveau is using the GPU", _no_driver("nouveau"), "driver", "VG659"),
    Plant("no driver was built for the running kernel", _no_driver(""), "driver", "VG659"),
    Plant(
        "the driver's libraries are newer than its module",
        _said(
            "hvd-01",
            *("nvidia-smi", "-q"),
            by=failing("Failed to initialize NVML: Driver/library version mismatch", 18),
        ),
        "driver",
        "VG659",
    ),
    Plant("nvidia-gridd does not run", _no_gridd, "licence", "VG662"),
    Plant("ATS is set in the NIC's firmware but not in force", _ats_waits_for_power, "ats", "VG669"),
    Plant(
        "a leftover process holds GPU memory",
        _said("hvd-02", "nvidia-smi", "-q", by=cases.held_query()),
        "gpu-memory",
        "VG693",
    ),
    Plant("another tenant's VM shares the GPU", _tenant, "tenants", "VG693"),
    Plant(
        "ECC is off on one worker",
        _with_ecc,
        "same-setup",
        "VG692",
    ),
    Plant(
        "a cable corrupts packets",
        _rises("rx_pcs_symbol_err_phy", 12),
        "congestion",
        "VG691",
    ),
    Plant("the switch pauses one worker continuously", _paused, "bandwidth", "VG676"),
    Plant(
        "the switch port of one worker is in another VLAN",
        _said("hvd-01", "ping", by=failing("", 1)),
        "path-mtu",
        "VG649",
    ),
    Plant(
        "a name resolves to the management network",
        _said("hvd-01", "getent", "ahosts", by="192.168.10.22  STREAM hvd-02\n"),
        "names",
        "VG714",
    ),
    Plant(
        "a worker is missing from the host file",
        _said("hvd-01", "cat", HOST_FILE, by="hvd-01 slots=1\n"),
        "names",
        "VG658",
    ),
    Plant("bandwidth was measured within one machine", _over_the_line, "bandwidth", ""),
    Plant("the expected speed of the port is unknown", _silent_rate, "port", ""),
    Plant("the port supports less than most boards of its model", _slower_board, "port", ""),
    Plant("neither perftest with CUDA nor an allreduce is available", _no_cuda_anywhere, "bandwidth-gpu", ""),
    Plant(
        "the kernel's log is not readable",
        _said("hvd-01", "dmesg", by=failing("dmesg: read kernel buffer failed: Operation not permitted")),
        "kernel-log",
        "",
    ),
    Plant("the driver reports no name for its GPU", _query("GRID A100-40C", "N/A"), "gpus", ""),
    Plant("the guests report no boot id", _no_boot_id, "ssh", ""),
    Plant("the network has only IPv6", _only_ipv6, "nics", "VG664"),
    Plant("the data center driver is in a vGPU guest", _wrong_package, "driver", "VG659"),
    Plant(
        "the environment of the training job turns RDMA off",
        _said("hvd-01", "grep", "-HsE", by="/opt/vgpu-cfg/training.env:export NCCL_IB_DISABLE='1'\n"),
        "nccl",
        "VG687",
    ),
    Plant(
        "the image turns RDMA off",
        _said("hvd-02", *RUN_IMAGE, IMAGE, "env", by="PATH=/usr/bin\nNCCL_IB_DISABLE=1\n"),
        "nccl",
        "VG687",
    ),
    Plant(
        "a worker's own name resolves to 127.0.1.1",
        _own_name_at_the_loopback,
        "names",
        "VG714",
    ),
    Plant(
        "a NIC stopped sending pauses after a pause storm",
        _rises("tx_pause_storm_error_events", 2),
        "congestion",
        "VG689",
    ),
    Plant("a slow PCIe link delays a NIC", _stalled, "bandwidth", "VG676"),
    Plant(
        "the NVSwitch fabric is complete but unhealthy",
        _whole(
            "Performance State",
            "    Fabric\n        State : Completed\n        Status : Success\n        Health\n"
            "            Summary : Unhealthy\n            Route Unhealthy : True\n    Performance State : P0",
        ),
        "gpu-health",
        "VG710",
    ),
    Plant(
        "the driver requests a GPU reset",
        _whole("Performance State", "    GPU Recovery Action : Reset\n    Performance State : P0"),
        "gpu-health",
        "VG710",
    ),
    Plant(
        "an error message instead of a GPU memory counter",
        _whole("DRAM Uncorrectable", "            DRAM Uncorrectable : Unknown Error"),
        "gpu-health",
        "VG710",
    ),
    Plant(
        "the driver has lost the GPU",
        _said(
            "hvd-01",
            *("nvidia-smi", "-q"),
            by=failing("Unable to determine the device handle for GPU0000:02:01.0: GPU is lost.", 15),
        ),
        "driver",
        "VG710",
    ),
)
