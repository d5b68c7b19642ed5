"""The meaning and remedy of a failed check of `verify`, by its code.

Each has a page in docs/reference/checks, like the findings of planning; no code is used twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from vgpu_cfg.changes.severity import Severity


class VerifyCode(StrEnum):
    """The codes of failed checks, VG649 and VG651 to VG719."""

    NO_WAY = "VG649"
    HOST_DRIVER = "VG651"
    HOST_GRAPHICS = "VG652"
    HOST_MIG = "VG653"
    HOST_ATS = "VG654"
    HOST_ROCE = "VG655"
    HOST_NIC_FIRMWARE = "VG656"
    GUEST_UNREACHED = "VG657"
    GUEST_UNSTAGED = "VG658"
    DRIVER_ABSENT = "VG659"
    DRIVER_BRANCH = "VG660"
    GPUS_MISSING = "VG661"
    UNLICENSED = "VG662"
    NO_NVLINK = "VG663"
    NIC_WRONG = "VG664"
    RDMA_DOWN = "VG665"
    NO_GID = "VG666"
    ROCE_UNSET = "VG667"
    NO_PEERMEM = "VG668"
    ATS_OFF = "VG669"
    RUNTIME_DOWN = "VG670"
    NO_GPU_IN_CONTAINER = "VG671"
    NO_HOROVOD = "VG672"
    WORKER_DOWN = "VG673"
    NO_SSH = "VG674"
    PATH_MTU = "VG675"
    SLOW_HOST_MEMORY = "VG676"
    SLOW_GPU_MEMORY = "VG677"
    ALLREDUCE_FAILED = "VG678"
    ALLREDUCE_SLOW = "VG679"
    ALLREDUCE_WRONG = "VG680"
    NOT_UNDERSTOOD = "VG681"
    LICENCE_ENDS = "VG682"
    NO_GPUDIRECT = "VG683"
    HOST_SILENT = "VG684"
    NO_FRAMEWORK = "VG685"
    NCCL_SETTINGS = "VG687"
    ROCE_UNKNOWN = "VG688"
    RDMA_LOSS = "VG689"
    WRONG_PRIORITY = "VG690"
    LINK_ERRORS = "VG691"
    WORKERS_DIFFER = "VG692"
    GPU_TAKEN = "VG693"
    GPU_CAPPED = "VG694"
    PORT_SLOW = "VG700"
    PCIE_NARROW = "VG701"
    OTHER_GPU = "VG702"
    NO_TRANSPORT = "VG703"
    CLOCK_OFF = "VG704"
    DRIVERS_DIFFER = "VG705"
    IMAGES_DIFFER = "VG706"
    NOT_SHARED = "VG707"
    EXPORTER_SILENT = "VG708"
    BEHIND_BASELINE = "VG709"
    GPU_UNSOUND = "VG710"
    KERNEL_COMPLAINS = "VG711"
    NO_ROOM = "VG712"
    WORKER_SHORT = "VG713"
    OTHER_MACHINE = "VG714"
    FAR_APART = "VG715"
    NVLINK_LANES = "VG716"
    LICENCE_SOON = "VG717"


@dataclass(frozen=True, slots=True)
class Failure:
    """The known facts of a failed check before it fails.

    `basis` is as of planning's findings. `threshold` names what `--threshold` can lower, "" for nothing.
    """

    code: VerifyCode
    summary: str
    basis: Literal["documented", "observed", "recalled", "field"]
    meaning: str
    remedy: str
    threshold: str = ""

    @property
    def severity(self) -> Severity:
        """A check that failed is an error: `verify` ends with exit code 8."""
        return Severity.ERROR


_C = VerifyCode
_ROWS: tuple[Failure, ...] = (
    Failure(
        _C.NO_WAY,
        "nothing gets from one worker to another over the training network",
        "documented",
        "small packets do not get through either: another VLAN at a switch port, no link, or a wrong address",
        "see the VLAN of both switch ports, and in the guests `ip neigh` and `ethtool` of the NIC",
    ),
    Failure(
        _C.HOST_DRIVER,
        "the NVIDIA host driver does not serve the GPUs",
        "documented",
        "without it no vGPU of this host runs",
        "install the host driver, reboot the host, and see `vmkload_mod -l | grep nvidia`",
    ),
    Failure(
        _C.HOST_GRAPHICS,
        "a GPU's graphics type is not the one that vGPUs need",
        "documented",
        "vGPUs start only on a GPU whose graphics type in force is sharedDirect: its own, or its host's",
        "`vgpu-cfg apply` sets it; a change waits for a restart of the host",
    ),
    Failure(
        _C.HOST_MIG,
        "a GPU is not in the mode that the profile of its VM needs",
        "documented",
        "a MIG-backed vGPU starts only on a GPU in MIG mode, a time-sliced one only on a GPU that is not; "
        "from Hopper on the mode is lost with every restart of the host",
        "`vgpu-cfg apply` sets it again before VMs start",
    ),
    Failure(
        _C.HOST_ATS,
        "the host's ATS kernel setting is not in force",
        "documented",
        "data between GPU and NIC goes over the root port, at about half the rate",
        "`vgpu-cfg apply` sets atsSupport; where it is configured and not in force, restart the host",
    ),
    Failure(
        _C.HOST_ROCE,
        "the host's RDMA driver is not set for RoCE as planned",
        "documented",
        "packets of VMs are dropped where the link is full, since nothing pauses their priority",
        "`vgpu-cfg apply` sets the module's parameters; they are in force after a restart of the host",
    ),
    Failure(
        _C.HOST_NIC_FIRMWARE,
        "ATS is off in the firmware of a NIC",
        "documented",
        "the NIC never asks for translations, whatever host and VM allow",
        "`vgpu-cfg apply` sets ATS_ENABLED; it is in force after the host's restart, or else its cold boot",
    ),
    Failure(
        _C.GUEST_UNREACHED,
        "a guest cannot be reached",
        "observed",
        "nothing inside it can be verified",
        "see whether the VM is on and its tools run, or whether its address answers to ssh",
    ),
    Failure(
        _C.GUEST_UNSTAGED,
        "the staging of a guest has not ended well",
        "observed",
        "what comes after the module that failed is not there yet",
        "fix what the module says, then `vgpu-cfg apply`; /var/log/vgpu-cfg.log in the guest tells more",
    ),
    Failure(
        _C.DRIVER_ABSENT,
        "the NVIDIA driver is not loaded in the guest",
        "documented",
        "the guest sees no GPU",
        "see `dmesg | grep -i nvidia`: not installed, built for another kernel, or nouveau came first",
    ),
    Failure(
        _C.DRIVER_BRANCH,
        "the guest's driver does not fit the host's",
        "documented",
        "a vGPU takes a guest driver of the host's branch or of the one before; others fail to load",
        "set `guest.driver` to a package of a branch that fits, then `vgpu-cfg apply`",
    ),
    Failure(
        _C.GPUS_MISSING,
        "the guest sees fewer GPUs than it was given",
        "documented",
        "a GPU failed to start in the guest",
        "`dmesg | grep NVRM` in the guest names it; 64-bit MMIO that is too small is the common reason",
    ),
    Failure(
        _C.UNLICENSED,
        "a vGPU has no licence",
        "documented",
        "it runs at full speed for 20 minutes, then at idle speed",
        "see `journalctl -u nvidia-gridd`: token, clock, or no way to the licence server (ports 443 and 80)",
    ),
    Failure(
        _C.NO_NVLINK,
        "vGPUs that were asked for with NVLink reach each other over PCIe",
        "documented",
        "peers are as slow as PCIe, or cannot reach each other at all",
        "look for enable_uvm on a VM with several vGPUs, and for a device group that ESXi broke up",
    ),
    Failure(
        _C.NIC_WRONG,
        "a NIC of the guest is not as planned",
        "documented",
        "the training network does not work over it",
        "`vgpu-cfg apply` writes its netplan again; then `netplan apply` in the guest",
    ),
    Failure(
        _C.RDMA_DOWN,
        "a NIC's RDMA device is missing or not active",
        "documented",
        "training falls back to TCP",
        "see `dmesg | grep mlx5` in the guest, the cable, and the switch's port",
    ),
    Failure(
        _C.NO_GID,
        "an RDMA device has no RoCE v2 GID with the NIC's address",
        "documented",
        "peers cannot be reached by RDMA through the network",
        "give the interface its IPv4 address; the GID follows from it",
    ),
    Failure(
        _C.ROCE_UNSET,
        "the NIC does not treat RDMA traffic as planned",
        "documented",
        "packets are dropped where the link is full, and RoCE is slow when it loses any",
        "`systemctl restart vgpu-cfg-roce` in the guest, or `vgpu-cfg apply`",
    ),
    Failure(
        _C.NO_PEERMEM,
        "nothing lets the NIC reach GPU memory",
        "documented",
        "every message is copied through the guest's memory",
        "`modprobe nvidia-peermem`; it needs the RDMA stack to be there before the NVIDIA driver is built",
    ),
    Failure(
        _C.ATS_OFF,
        "ATS is off in the NIC that the guest has",
        "documented",
        "data between GPU and NIC goes over the root port, at about half the rate",
        "`vgpu-cfg plan` shows the chain; changed firmware needs the host's restart, or else its cold boot",
    ),
    Failure(
        _C.RUNTIME_DOWN,
        "the container runtime does not run",
        "documented",
        "no container starts",
        "`systemctl status` in the guest says why",
    ),
    Failure(
        _C.NO_GPU_IN_CONTAINER,
        "a container does not see the guest's GPUs",
        "documented",
        "training in it runs on the CPU, or not at all",
        "`nvidia-ctk runtime configure`, restart the runtime, and see whether the image is there",
    ),
    Failure(
        _C.NO_HOROVOD,
        "the image cannot train with Horovod over its GPUs",
        "documented",
        "training does not start, or its sums go over TCP",
        "name an image with Horovod built with NCCL (NVIDIA's TensorFlow images up to 23.03 have it)",
    ),
    Failure(
        _C.WORKER_DOWN,
        "the worker container does not run",
        "documented",
        "nothing answers when training starts",
        "`systemctl status vgpu-cfg-worker` and `journalctl -u vgpu-cfg-worker` in the guest",
    ),
    Failure(
        _C.NO_SSH,
        "a worker cannot log in to another",
        "documented",
        "Horovod hangs at its start: every worker must reach every other",
        "`vgpu-cfg apply` writes keys and known hosts again; see also whether port and address are open",
    ),
    Failure(
        _C.PATH_MTU,
        "large packets do not get through between two VMs",
        "documented",
        "a port on the way has a smaller MTU: large messages stall while pings work",
        "set the MTU on switch ports (9216), portgroup and both NICs",
    ),
    Failure(
        _C.SLOW_HOST_MEMORY,
        "RDMA between two VMs is slower than the line",
        "recalled",
        "the network itself is the brake: drops, a link that came up slower, or a busy switch",
        "see `ethtool -S` for discards and pauses, `ethtool` for the speed, and what else is on the link",
        "host_memory",
    ),
    Failure(
        _C.SLOW_GPU_MEMORY,
        "RDMA from GPU memory is slower than the line",
        "recalled",
        "the path between GPU and NIC is the brake",
        "GPU and NIC belong on one NUMA node and root complex; `vgpu-cfg inventory` shows where they are",
        "gpu_memory",
    ),
    Failure(
        _C.ALLREDUCE_FAILED,
        "the allreduce over all workers did not end",
        "documented",
        "training over these workers would fail in the same way",
        "run `train` on the first VM by hand with NCCL_DEBUG=INFO and read its first error",
    ),
    Failure(
        _C.ALLREDUCE_SLOW,
        "the allreduce over all workers is slower than the line allows",
        "recalled",
        "the slowest worker or link sets the pace of all",
        "compare the pairs; where all are fast, try NCCL_NET_GDR_LEVEL=SYS in `training.environment`",
        "busbw",
    ),
    Failure(
        _C.ALLREDUCE_WRONG,
        "the allreduce over all workers gave wrong numbers",
        "documented",
        "a GPU, its memory or a link corrupts data: no result of training can be trusted",
        "take the workers out one by one; see `nvidia-smi -q -d ECC` and the NICs' error counters",
    ),
    Failure(
        _C.NOT_UNDERSTOOD,
        "a check could not be made",
        "observed",
        "nothing is known of what it is about",
        "run the command by hand on the machine and compare",
    ),
    Failure(
        _C.LICENCE_ENDS,
        "a vGPU's licence has ended",
        "documented",
        "it was not renewed in time, so that the vGPU runs at idle speed soon",
        "see `journalctl -u nvidia-gridd`, and whether the guest's clock is right",
    ),
    Failure(
        _C.NO_GPUDIRECT,
        "NCCL does not send from GPU memory",
        "documented",
        "every message is copied through the guests' memory, though GPUDirect was asked for",
        "see nvidia-peermem in every guest, and NCCL_NET_GDR_LEVEL in `training.environment`",
    ),
    Failure(
        _C.HOST_SILENT,
        "a host with VMs of the plan does not respond",
        "documented",
        "nothing can be asked of it or of the guests on it, which may run on or be gone with it",
        "look at its console whether it runs; `vgpu-cfg plan` says where its VMs could start meanwhile",
    ),
    Failure(
        _C.NO_FRAMEWORK,
        "what training is started by is not where it trains",
        "documented",
        "training does not start, or computes on CPUs",
        "name an image that holds it (NVIDIA's PyTorch images have both), or train by another framework",
    ),
    Failure(
        _C.NCCL_SETTINGS,
        "NCCL's settings do not say what is in the guest",
        "documented",
        "what reads them looks for a device, a GID or an interface that is not there, or chooses by itself",
        "`systemctl restart vgpu-cfg-nccl` in the guest computes them anew; else `vgpu-cfg apply`",
    ),
    Failure(
        _C.ROCE_UNKNOWN,
        "whether a port is lossless cannot be told",
        "documented",
        "no tool in the guest shows it, and an unconfigured port drops packets when the link is full",
        "bring iproute2 5.11 or later and mstflint into the guest, or name `guest.ofed: mlnx` or `doca`",
    ),
    Failure(
        _C.RDMA_LOSS,
        "RDMA packets were lost or came out of order",
        "documented",
        "each loss is sent again from there on, so a few take much of the bandwidth",
        "see that every switch port between them trusts DSCP, pauses the priority (PFC) and marks it (ECN)",
    ),
    Failure(
        _C.WRONG_PRIORITY,
        "RDMA traffic does not run on the priority that PFC protects",
        "documented",
        "nothing keeps its packets from being dropped, or all other traffic stops with it",
        "see the DSCP that senders mark with, each port's trust, and that no switch marks packets anew",
    ),
    Failure(
        _C.LINK_ERRORS,
        "a port's link damages what comes over it",
        "documented",
        "a bad cable, transceiver or port: symbols arrive wrong, and what they were part of is lost",
        "clean or change cable and transceiver at the end that counts, then its switch port",
    ),
    Failure(
        _C.WORKERS_DIFFER,
        "workers that shall be alike are set differently",
        "documented",
        "the odd one out fails, slows or ends in ways that look like chance",
        "bring the odd one to what the others have: NIC firmware by `mstflint`, ECC by `nvidia-smi -e`",
    ),
    Failure(
        _C.GPU_TAKEN,
        "something else has a part of a worker's GPU",
        "documented",
        "training runs out of memory, or gets only a share of the GPU's time",
        "end what is named there, or wait for it",
    ),
    Failure(
        _C.GPU_CAPPED,
        "a GPU may draw less power than its board is made for",
        "documented",
        "its clocks fall under load, and all workers wait for the slowest",
        "`nvidia-smi -pl WATTS` where it was set, on the host of a vGPU; see who caps the server, too",
    ),
    Failure(
        _C.PORT_SLOW,
        "a NIC's port runs slower than its board is made for",
        "recalled",
        "everything that goes over it takes as much longer, and both ends may be slow alike",
        "see the cable, the transceiver and the switch's port; where it shall run so, set `verify.line_gbps`",
        "line_gbps",
    ),
    Failure(
        _C.PCIE_NARROW,
        "a NIC's PCIe link is narrower or slower than its port needs",
        "documented",
        "the port cannot be filled, whatever the network does",
        "reseat the board, see the slot's lanes and the BIOS' link speed; `lspci -vv` shows LnkCap "
        "and LnkSta",
    ),
    Failure(
        _C.OTHER_GPU,
        "a guest has another GPU than the plan asks for",
        "documented",
        "work that was sized for the planned one runs out of memory, or takes longer",
        "`vgpu-cfg plan` shows what differs, `vgpu-cfg apply` changes it with the VM off",
    ),
    Failure(
        _C.NO_TRANSPORT,
        "NCCL does not say that it goes over RDMA",
        "documented",
        "a sum over TCP, or over an unknown transport, proves nothing about the network that training uses",
        "run `train` by hand with NCCL_DEBUG=INFO and look for NET/IB; see /dev/infiniband in the container",
    ),
    Failure(
        _C.CLOCK_OFF,
        "a guest's clock is off, or nothing keeps it right",
        "documented",
        "licence tokens and certificates are refused, and the logs of several workers cannot be compared",
        "set `guest.time` to NTP servers that guests reach; where all guests are off alike, see "
        "vCenter's clock",
        "clock_seconds",
    ),
    Failure(
        _C.DRIVERS_DIFFER,
        "workers have different versions of the NVIDIA driver",
        "observed",
        "one may lack what the others' CUDA uses, and what is measured on one says nothing of another",
        "give all of them one `guest.driver`, or clone them from one template",
    ),
    Failure(
        _C.IMAGES_DIFFER,
        "workers run different contents of the image",
        "documented",
        "one tag was pulled at different times: ranks of different versions hang or compute other numbers",
        "name the image by its digest (IMAGE@sha256:...), then `vgpu-cfg apply`",
    ),
    Failure(
        _C.NOT_SHARED,
        "the shared folder is not one folder",
        "documented",
        "checkpoints and data that one machine writes are not there on the others",
        "`systemctl status` of the mount in the guest that is named; the server, its export and its disk",
    ),
    Failure(
        _C.EXPORTER_SILENT,
        "metrics are not there",
        "documented",
        "dashboards and alarms show nothing, or yesterday's",
        "`systemctl status 'vgpu-cfg-*'` in the guest, and whether something else has the port",
    ),
    Failure(
        _C.BEHIND_BASELINE,
        "a figure is behind that of the baseline",
        "recalled",
        "it was better before, on the same machines: something has changed, or something wears out",
        "look what changed since then (`vgpu-cfg history`); where it is meant so, `verify --save` "
        "takes it anew",
        "loss",
    ),
    Failure(
        _C.GPU_UNSOUND,
        "a GPU is not sound, or is slowed down",
        "documented",
        "training on it breaks off, gives wrong numbers, or holds up all others",
        "drain the host; cooling and power for slowdowns, a reset for pending rows, the vendor for "
        "failed ones",
    ),
    Failure(
        _C.KERNEL_COMPLAINS,
        "the guest's kernel tells of failing hardware",
        "documented",
        "what failed once under load fails again under training",
        "`vgpu-cfg explain` knows Xids and other lines; a restart of the guest empties the log",
    ),
    Failure(
        _C.NO_ROOM,
        "a disk of the guest is full",
        "documented",
        "images cannot be pulled, containers do not start, logs and checkpoints break off",
        "`docker system prune`, or a larger `disk` in the plan file",
    ),
    Failure(
        _C.WORKER_SHORT,
        "the worker container lacks what training needs",
        "documented",
        "RDMA cannot register memory, data loaders die with bus errors, or ranks find no GPU",
        "`systemctl restart vgpu-cfg-worker`, then `vgpu-cfg apply`; see what else starts containers there",
    ),
    Failure(
        _C.OTHER_MACHINE,
        "an address or a name leads to another machine",
        "documented",
        "two machines share it, or a name is out of date: ranks meet the wrong one, now and then",
        "see `ip neigh` and /etc/hosts in the guests, and who else has the address; then `vgpu-cfg apply`",
    ),
    Failure(
        _C.FAR_APART,
        "the NIC of a VM with GPUDirect is on another NUMA node than its GPUs",
        "documented",
        "data between GPU and NIC crosses the sockets, at a fraction of the rate",
        "write `near: gpu` for the NIC; `vgpu-cfg inventory` shows the nodes",
    ),
    Failure(
        _C.NVLINK_LANES,
        "some NVLinks of a GPU carry nothing",
        "documented",
        "peers are slower than they should be, and a link that is down often takes others along",
        "see `nvidia-smi nvlink --errorcounters`, Xid 74 on the host, the bridge or the NVSwitches",
    ),
    Failure(
        _C.LICENCE_SOON,
        "a vGPU's licence ends soon",
        "recalled",
        "it should have been renewed by now: when it ends, the vGPU runs at idle speed",
        "see `journalctl -u nvidia-gridd`, and on the licence server whether it answers and has "
        "licences left",
        "licence_hours",
    ),
)

FAILURES: dict[VerifyCode, Failure] = {row.code: row for row in _ROWS}


def failure_of(code: str) -> Failure | None:
    """Return a code's failure, whatever its case; None where there is none."""
    try:
        return FAILURES[VerifyCode(code.upper())]
    except ValueError:
        return None
