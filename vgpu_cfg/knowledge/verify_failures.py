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
        "one worker cannot reach another over the training network",
        "documented",
        (
            "even small packets do not get through because of a wrong VLAN on a switch port, a missing"
            " link, or a wrong address"
        ),
        "check the VLAN on both switch ports; in the guests, check `ip neigh` and `ethtool` for the NIC",
    ),
    Failure(
        _C.HOST_DRIVER,
        "the NVIDIA host driver does not detect the GPUs",
        "documented",
        "vGPUs cannot run on this host without the host driver",
        "install the host driver, reboot the host, and check `vmkload_mod -l | grep nvidia`",
    ),
    Failure(
        _C.HOST_GRAPHICS,
        "a GPU's graphics type does not allow vGPUs",
        "documented",
        (
            "vGPUs start only on GPUs with the active graphics type sharedDirect, which is set for the"
            " GPU or for the host"
        ),
        "run `vgpu-cfg apply` to set the graphics type, which takes effect after the host reboots",
    ),
    Failure(
        _C.HOST_MIG,
        "a GPU is not in the mode required by its VM's profile",
        "documented",
        (
            "MIG-backed vGPUs require MIG mode to be on, and time-sliced vGPUs require it to be off; on"
            " Hopper and later, each host reboot resets the mode"
        ),
        "run `vgpu-cfg apply`, which sets the mode again before VMs start",
    ),
    Failure(
        _C.HOST_ATS,
        "ATS is not active in the host's kernel settings",
        "documented",
        "data between the GPU and the NIC passes through the root port at about half the rate",
        "run `vgpu-cfg apply` to set atsSupport; if it is configured but not active, reboot the host",
    ),
    Failure(
        _C.HOST_ROCE,
        "the host's RDMA driver does not have the planned RoCE settings",
        "documented",
        "packets from VMs are dropped when the link is full, because their priority is never paused",
        "run `vgpu-cfg apply` to set the module parameters, which take effect after the host reboots",
    ),
    Failure(
        _C.HOST_NIC_FIRMWARE,
        "ATS is disabled in the firmware of a NIC",
        "documented",
        "the NIC never requests address translations, regardless of the host and VM settings",
        (
            "run `vgpu-cfg apply` to set ATS_ENABLED, which takes effect after a host reboot or, if"
            " that is not enough, after a cold boot"
        ),
    ),
    Failure(
        _C.GUEST_UNREACHED,
        "a guest cannot be reached",
        "observed",
        "nothing inside the guest can be verified",
        "check that the VM is powered on and VMware Tools is running, or that its address accepts SSH "
        "connections",
    ),
    Failure(
        _C.GUEST_UNSTAGED,
        "guest staging is incomplete",
        "observed",
        "the modules that come after the failed module have not been staged",
        (
            "fix the error that the module reports, then run `vgpu-cfg apply`; for details, see"
            " /var/log/vgpu-cfg.log in the guest"
        ),
    ),
    Failure(
        _C.DRIVER_ABSENT,
        "the NVIDIA driver is not loaded in the guest",
        "documented",
        "the guest does not see any GPUs",
        (
            "check `dmesg | grep -i nvidia` to see whether the driver is missing, was built for a"
            " different kernel, or was blocked by nouveau"
        ),
    ),
    Failure(
        _C.DRIVER_BRANCH,
        "the guest driver is not compatible with the host driver",
        "documented",
        (
            "a vGPU requires a guest driver from the host driver's branch or the previous one, and"
            " other drivers do not load"
        ),
        "set `guest.driver` to a package from a compatible branch, then run `vgpu-cfg apply`",
    ),
    Failure(
        _C.GPUS_MISSING,
        "the guest sees fewer GPUs than are assigned to the VM",
        "documented",
        "a GPU failed to start in the guest",
        (
            "run `dmesg | grep NVRM` in the guest to identify the GPU; the usual cause is insufficient"
            " 64-bit MMIO space"
        ),
    ),
    Failure(
        _C.UNLICENSED,
        "a vGPU has no license",
        "documented",
        "the vGPU runs at full speed for 20 minutes, then at idle speed",
        (
            "if the token has expired, put a new one into the plan's secret and run `vgpu-cfg apply`;"
            " otherwise, check `journalctl -u nvidia-gridd` for a wrong clock or no access to the"
            " license server (ports 443 and 80)"
        ),
    ),
    Failure(
        _C.NO_NVLINK,
        "vGPUs requested with NVLink communicate over PCIe",
        "documented",
        "peer transfers are limited to PCIe speed or do not work at all",
        (
            "check whether enable_uvm is set on a VM with several vGPUs, and whether ESXi has split up"
            " a device group"
        ),
    ),
    Failure(
        _C.NIC_WRONG,
        "a guest NIC is not configured as planned",
        "documented",
        "the training network does not work over this NIC",
        "run `vgpu-cfg apply` to rewrite the netplan file, and then `netplan apply` in the guest",
    ),
    Failure(
        _C.RDMA_DOWN,
        "a NIC's RDMA device is missing or inactive",
        "documented",
        "training falls back to TCP",
        "check `dmesg | grep mlx5` in the guest, and check the cable and the switch port",
    ),
    Failure(
        _C.NO_GID,
        "an RDMA device has no RoCE v2 GID with the NIC's address",
        "documented",
        "other workers on the network cannot be reached over RDMA",
        "assign an IPv4 address to the interface, because the GID is derived from that address",
    ),
    Failure(
        _C.ROCE_UNSET,
        "the NIC's RoCE settings differ from the plan",
        "documented",
        "packets are dropped when the link is full, and any packet loss slows down RoCE",
        "run `systemctl restart vgpu-cfg-roce` in the guest, or `vgpu-cfg apply`",
    ),
    Failure(
        _C.NO_PEERMEM,
        "the NIC cannot access GPU memory directly",
        "documented",
        "every message is copied through the guest's memory",
        (
            "run `modprobe nvidia-peermem`; if it fails, install the RDMA stack before you build the"
            " NVIDIA driver"
        ),
    ),
    Failure(
        _C.ATS_OFF,
        "ATS is disabled on the guest's NIC",
        "documented",
        "data between the GPU and the NIC passes through the root port at about half the rate",
        (
            "run `vgpu-cfg plan` to show all required settings; new firmware settings require a host"
            " reboot or a cold boot"
        ),
    ),
    Failure(
        _C.RUNTIME_DOWN,
        "the container runtime is not running",
        "documented",
        "containers cannot start",
        "run `systemctl status` in the guest to see the reason",
    ),
    Failure(
        _C.NO_GPU_IN_CONTAINER,
        "a container cannot see the guest's GPUs",
        "documented",
        "training in the container runs on the CPU or does not run at all",
        "run `nvidia-ctk runtime configure`, restart the runtime, and check that the image is present",
    ),
    Failure(
        _C.NO_HOROVOD,
        "the image cannot train on its GPUs with Horovod",
        "documented",
        "training does not start, or its allreduce operations use TCP",
        "use an image that includes Horovod built for NCCL, such as NVIDIA's TensorFlow images up to 23.03",
    ),
    Failure(
        _C.WORKER_DOWN,
        "the worker container is not running",
        "documented",
        "the worker does not respond when training starts",
        "check `systemctl status vgpu-cfg-worker` and `journalctl -u vgpu-cfg-worker` in the guest",
    ),
    Failure(
        _C.NO_SSH,
        "a worker cannot log in to another worker",
        "documented",
        "Horovod hangs at startup because every worker must be able to connect to every other worker",
        (
            "run `vgpu-cfg apply` to rewrite keys and known hosts, and check that the address and port"
            " are reachable"
        ),
    ),
    Failure(
        _C.PATH_MTU,
        "large packets do not get through between two VMs",
        "documented",
        "a port on the path has a smaller MTU, so large messages stall even though pings succeed",
        "set the MTU on the switch ports (9216), the port group, and both NICs",
    ),
    Failure(
        _C.SLOW_HOST_MEMORY,
        "RDMA between two VMs is slower than the line rate",
        "recalled",
        (
            "the network is the bottleneck because of dropped packets, a link with reduced speed, or a"
            " busy switch"
        ),
        (
            "check `ethtool -S` for discards and pauses, and `ethtool` for the link speed, and look for"
            " other traffic on the link"
        ),
        "host_memory",
    ),
    Failure(
        _C.SLOW_GPU_MEMORY,
        "RDMA from GPU memory is slower than the line rate",
        "recalled",
        "the path between the GPU and the NIC is the bottleneck",
        (
            "the GPU and the NIC must be on the same NUMA node and root complex; `vgpu-cfg inventory`"
            " shows their locations"
        ),
        "gpu_memory",
    ),
    Failure(
        _C.ALLREDUCE_FAILED,
        "the allreduce across all workers did not complete",
        "documented",
        "training on these workers would fail in the same way",
        "run `train` manually on the first VM with NCCL_DEBUG=INFO, and check the first error",
    ),
    Failure(
        _C.ALLREDUCE_SLOW,
        "the allreduce across all workers is slower than the line rate allows",
        "recalled",
        "the slowest worker or link sets the pace for all workers",
        (
            "compare the pairs of workers; if all pairs are fast, try NCCL_NET_GDR_LEVEL=SYS in"
            " `training.environment`"
        ),
        "busbw",
    ),
    Failure(
        _C.ALLREDUCE_WRONG,
        "the allreduce across all workers returned wrong results",
        "documented",
        "a GPU, its memory, or a link corrupts data, so no training results can be trusted",
        "remove the workers one at a time; check `nvidia-smi -q -d ECC` and the NICs' error counters",
    ),
    Failure(
        _C.NOT_UNDERSTOOD,
        "a check could not be performed",
        "observed",
        "the state of the component is unknown",
        "run the command manually on the machine, and check its output",
    ),
    Failure(
        _C.LICENCE_ENDS,
        "a vGPU's license has expired",
        "documented",
        "the license was not renewed in time, so the vGPU will soon run at idle speed",
        "check `journalctl -u nvidia-gridd`, and whether the guest's clock is correct",
    ),
    Failure(
        _C.NO_GPUDIRECT,
        "NCCL does not send directly from GPU memory",
        "documented",
        "every message is copied through the guests' memory, even though GPUDirect was requested",
        "check nvidia-peermem in every guest, and NCCL_NET_GDR_LEVEL in `training.environment`",
    ),
    Failure(
        _C.HOST_SILENT,
        "a host that runs the plan's VMs is not responding",
        "documented",
        (
            "the host and its guests cannot be checked; the guests may still be running, or may have"
            " gone down with the host"
        ),
        "check the host's console; in the meantime, run `vgpu-cfg plan` to see where its VMs could start",
    ),
    Failure(
        _C.NO_FRAMEWORK,
        "the training environment does not contain the training launcher or framework",
        "documented",
        "training does not start, or it runs on CPUs",
        (
            "use an image that contains the launcher and the framework (NVIDIA's PyTorch images contain"
            " both), or train with a different framework"
        ),
    ),
    Failure(
        _C.NCCL_SETTINGS,
        "NCCL settings do not match the guest's hardware",
        "documented",
        "NCCL looks for a device, GID, or interface that does not exist, or chooses one itself",
        (
            "run `systemctl restart vgpu-cfg-nccl` in the guest to recalculate the settings; if they"
            " are still wrong, run `vgpu-cfg apply`"
        ),
    ),
    Failure(
        _C.ROCE_UNKNOWN,
        "vgpu-cfg cannot determine whether a port is lossless",
        "documented",
        (
            "no tool in the guest reports this, and a port that is not configured drops packets when"
            " the link is full"
        ),
        "install iproute2 5.11 or later and mstflint in the guest, or set `guest.ofed` to `mlnx` or `doca`",
    ),
    Failure(
        _C.RDMA_LOSS,
        "RDMA packets were lost or arrived out of order",
        "documented",
        (
            "after each loss, everything sent since then is retransmitted, so even a few losses use up much"
            " of the bandwidth"
        ),
        (
            "check that every switch port on the path trusts DSCP, and that PFC and ECN are enabled for"
            " the priority"
        ),
    ),
    Failure(
        _C.WRONG_PRIORITY,
        "RDMA traffic does not use the priority protected by PFC",
        "documented",
        "RDMA packets may be dropped, or all other traffic may be paused along with RDMA traffic",
        (
            "check the senders' DSCP value and each port's trust mode, and make sure that no switch"
            " rewrites the DSCP value"
        ),
    ),
    Failure(
        _C.LINK_ERRORS,
        "a port's link corrupts packets",
        "documented",
        (
            "a faulty cable, transceiver, or port corrupts data on the link, and packets that contain"
            " corrupted data are lost"
        ),
        (
            "clean or replace the cable and transceiver at the end that reports errors, and then check"
            " its switch port"
        ),
    ),
    Failure(
        _C.WORKERS_DIFFER,
        "workers that must be identical are configured differently",
        "documented",
        "the mismatched worker fails, slows down, or stops, seemingly at random",
        (
            "configure this worker like the others, using `mstflint` for NIC firmware and `nvidia-smi"
            " -e` for ECC"
        ),
    ),
    Failure(
        _C.GPU_TAKEN,
        "part of a worker's GPU is already in use",
        "documented",
        "training runs out of memory or gets only part of the GPU's time",
        "stop the listed processes or VMs, or wait until they finish",
    ),
    Failure(
        _C.GPU_CAPPED,
        "a GPU's power limit is below its board's default",
        "documented",
        "the GPU's clock speeds drop under load, and all workers wait for the slowest one",
        (
            "run `nvidia-smi -pl WATTS` on the machine where the limit was set (for a vGPU, on the"
            " host), and check for a server power cap"
        ),
    ),
    Failure(
        _C.PORT_SLOW,
        "a NIC's port runs below its rated speed",
        "recalled",
        "all traffic over this port is slowed down, and both ends may be equally slow",
        "check the cable, transceiver, and switch port; if this speed is intended, set `verify.line_gbps`",
        "line_gbps",
    ),
    Failure(
        _C.PCIE_NARROW,
        "a NIC's PCIe link is too narrow or too slow for its port",
        "documented",
        "the port cannot reach its full rate, regardless of the network",
        (
            "reseat the board, and check the slot's lanes and the link speed in the BIOS; in the guest,"
            " compare LnkCap and LnkSta in `lspci -vv`"
        ),
    ),
    Failure(
        _C.OTHER_GPU,
        "a guest's GPU is not the one in the plan",
        "documented",
        "jobs that are sized for the planned GPU run out of memory or take longer",
        (
            "run `vgpu-cfg plan` to see the differences, and `vgpu-cfg apply` to correct them while the"
            " VM is powered off"
        ),
    ),
    Failure(
        _C.NO_TRANSPORT,
        "NCCL does not report RDMA as its transport",
        "documented",
        "an allreduce over TCP or an unknown transport does not test the training network",
        (
            "run `train` manually with NCCL_DEBUG=INFO and look for NET/IB, and check /dev/infiniband"
            " in the container"
        ),
    ),
    Failure(
        _C.CLOCK_OFF,
        "a guest's clock is wrong or not synchronized",
        "documented",
        "license tokens and certificates are rejected, and the workers' logs cannot be compared",
        "set `guest.time` to NTP servers that the guests can reach; if all guests are off by the same "
        "amount, check vCenter's clock",
        "clock_seconds",
    ),
    Failure(
        _C.DRIVERS_DIFFER,
        "workers have different versions of the NVIDIA driver",
        "observed",
        (
            "one driver may not have CUDA features that the other workers use, and measurements on one"
            " worker do not apply to the others"
        ),
        "set the same `guest.driver` for all workers, or clone them from one template",
    ),
    Failure(
        _C.IMAGES_DIFFER,
        "workers run different versions of the same image",
        "documented",
        (
            "the tag was pulled at different times, and ranks with different versions hang or compute"
            " different results"
        ),
        "specify the image by digest (IMAGE@sha256:...), then run `vgpu-cfg apply`",
    ),
    Failure(
        _C.NOT_SHARED,
        "the shared folder is not the same on all machines",
        "documented",
        "checkpoints and data that one machine writes are missing on the others",
        (
            "check `systemctl status` for the mount in the listed guest, and check the server, its"
            " export, and its disk"
        ),
    ),
    Failure(
        _C.EXPORTER_SILENT,
        "metrics are missing",
        "documented",
        "dashboards and alarms show outdated values or none",
        (
            "check `systemctl status 'vgpu-cfg-*'` in the guest, and check whether another process uses"
            " the port"
        ),
    ),
    Failure(
        _C.BEHIND_BASELINE,
        "a measurement is worse than the baseline",
        "recalled",
        "earlier measurements on the same machines were better, so something has changed or is wearing out",
        (
            "check what has changed since then (`vgpu-cfg history`); if the new value is expected, save"
            " a new baseline with `verify --save`"
        ),
        "loss",
    ),
    Failure(
        _C.GPU_UNSOUND,
        "a GPU has errors or is throttled",
        "documented",
        "training on this GPU stops, returns wrong results, or delays all other workers",
        (
            "drain the host, take the recovery action that the driver requests or reset the GPU, and"
            " then reboot; for throttling, check cooling and power; for failed rows, contact the vendor"
        ),
    ),
    Failure(
        _C.KERNEL_COMPLAINS,
        "the guest's kernel log reports hardware errors",
        "documented",
        "hardware that failed once under load will fail again during training",
        "use `vgpu-cfg explain` on Xids and other messages; restarting the guest clears the log",
    ),
    Failure(
        _C.NO_ROOM,
        "a disk in the guest is full",
        "documented",
        "images cannot be pulled, containers do not start, and logs and checkpoints are truncated",
        "run `docker system prune`, or increase `disk` in the plan file",
    ),
    Failure(
        _C.WORKER_SHORT,
        "the worker container does not have the resources that training requires",
        "documented",
        "RDMA cannot register memory, data loaders stop with bus errors, or ranks cannot find a GPU",
        (
            "run `systemctl restart vgpu-cfg-worker`, then `vgpu-cfg apply`; check whether something"
            " else starts containers in the guest"
        ),
    ),
    Failure(
        _C.OTHER_MACHINE,
        "an address or name points to the wrong machine",
        "documented",
        (
            "two machines share an address, or a name is outdated, so ranks sometimes connect to the"
            " wrong machine"
        ),
        (
            "check `ip neigh` and /etc/hosts in the guests, find out which machine has the address, and"
            " then run `vgpu-cfg apply`"
        ),
    ),
    Failure(
        _C.FAR_APART,
        "the NIC of a VM with GPUDirect is on a different NUMA node than its GPUs",
        "documented",
        "data between the GPU and the NIC crosses CPU sockets, at a fraction of the rate",
        "set `near: gpu` for the NIC; `vgpu-cfg inventory` shows the NUMA nodes",
    ),
    Failure(
        _C.NVLINK_LANES,
        "some NVLinks of a GPU are inactive",
        "documented",
        (
            "transfers between GPUs are slower than they should be, and one failed link often causes"
            " others to fail"
        ),
        (
            "check `nvidia-smi nvlink --errorcounters`, the host's log for Xid 74, and the bridge or"
            " the NVSwitches"
        ),
    ),
    Failure(
        _C.LICENCE_SOON,
        "a vGPU's license expires soon",
        "recalled",
        "the license should have been renewed by now, and when it expires, the vGPU runs at idle speed",
        "check `journalctl -u nvidia-gridd`, and whether the license server responds and has licenses "
        "available",
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
