"""The logs and commands that help with an unknown text, by the program that wrote it.

A text is recognized by words that only one program writes, such as `NVRM:` or `nvidia-container-cli`.
The lists name what NVIDIA, Broadcom, and the projects ask for in reports.
"""

from __future__ import annotations

import re

__all__ = ["WHERE_TO_LOOK", "what_to_collect"]

WHERE_TO_LOOK = (
    "the task's error stack (VM > Monitor > Tasks and Events), which shows a reason for each host",
    "vmware.log in the VM's folder: the lines with vmiop_log, and the last lines before the failure",
    "/var/log/vmkernel.log and hostd.log on the host, from the same time; dmesg | grep -E 'NVRM|Xid'",
    "nvidia-smi -q; nvidia-smi vgpu; /etc/init.d/nvdGpuMgmtDaemon status on the host",
    "in the guest: dmesg | grep -iE 'nvidia|nvrm|nouveau|mlx5'; journalctl -u nvidia-gridd; nvidia-smi -q",
    "containers: docker logs and docker info; training: the first NCCL WARN line with NCCL_DEBUG=INFO",
    "nvidia-bug-report.sh, on the host and in the guest, for NVIDIA support; vm-support for Broadcom support",
)
"""Further sources for a text of an unknown program, from vCenter down to the training."""

_BY_PROGRAM = (
    (
        r"vmiop|nvidia-vgpu-mgr|\bvGPU\b[^\n]*plugin",
        "a line from the vGPU manager",
        "vmware.log in the VM's folder: all lines with vmiop_log since the VM was started",
        "nvidia-smi, nvidia-smi vgpu -q, and dmesg | grep NVRM on the host; nvidia-smi -q in the guest",
        "nvidia-bug-report.sh on the host, for NVIDIA support",
    ),
    (
        r"\bNVRM\b|nvidia-(modeset|uvm|drm|nvlink|nvswitch)\w*:|\bXid\b",
        "a kernel log line from NVIDIA's driver",
        "dmesg -T | grep -iE 'nvrm|xid|nvidia': the first line about the GPU, not the last one",
        "nvidia-smi -q; cat /proc/driver/nvidia/version; lspci -vv -d 10de:",
        "nvidia-bug-report.sh on the machine with the driver; for a guest, also the VM's vmware.log",
    ),
    (
        r"mlx5|ibv_|\bRoCE\b|\bib_(write|read|send)_|infiniband|rdma",
        "a line about a NIC or RDMA",
        "dmesg -T | grep mlx5; ethtool -i INTERFACE; ethtool -S INTERFACE, on both sides",
        "ibv_devinfo -v; show_gids; mlxconfig -d DEVICE query",
        "esxcli network nic get -n VMNIC on the host; the counters of the switch port",
    ),
    (
        r"\bNCCL\b|\bnccl\w*Error",
        "a line of NCCL",
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV on all workers: the earliest WARN line",
        "nvidia-smi topo -m and ibv_devinfo in each worker; NCCL_TOPO_DUMP_FILE=topo.xml",
        "dmesg -T | grep -iE 'xid|mlx5' in each guest, from the same time",
    ),
    (
        r"torch\.distributed|\bc10d\b|\bgloo\b|torchrun|elastic|horovod|\bORTE\b|\bPRTE\b|mpirun|ray\.",
        "a line from a training framework",
        "the complete log of every rank: the earliest error (torchrun --tee 3 --log-dir LOGS)",
        "TORCH_DISTRIBUTED_DEBUG=DETAIL and NCCL_DEBUG=INFO; ip -brief address; getent hosts for each worker",
        "py-spy dump --pid PID on ranks that hang; dmesg -T | grep -iE 'oom|xid'",
    ),
    (
        r"slurm|\bsbatch\b|\bsrun\b|\bsalloc\b|gres[/.]",
        "a line of Slurm",
        "scontrol show node NODE; sinfo -R; scontrol show job JOB",
        "slurmd.log on the node and slurmctld.log on the controller (SlurmdDebug=debug2)",
        "slurmd -C, slurmd -G, and nvidia-smi -L on the node; gres.conf and slurm.conf",
    ),
    (
        r"nvidia-container|nvidia-ctk|\bOCI runtime\b|\bdocker\b|containerd|podman|runc",
        "a line from a container runtime",
        "docker info; docker inspect CONTAINER; journalctl -u docker -u containerd",
        "nvidia-container-cli -k -d /dev/tty info; nvidia-ctk --version",
        "/etc/nvidia-container-runtime/config.toml; /etc/docker/daemon.json; /etc/cdi",
        "nvidia-smi in the guest, outside the container",
    ),
    (
        r"gridd|licen[sc]e",
        "a line about licenses",
        "journalctl -u nvidia-gridd, from the service's last start; nvidia-smi -q | grep -A3 -i license",
        "ls -l /etc/nvidia/ClientConfigToken; cat /etc/nvidia/gridd.conf; timedatectl",
        "curl -v https://LICENSE-SERVER from the guest; the server's own events",
    ),
    (
        r"cloud-?init|DataSource|guestinfo|customiz",
        "a line from the guest's first boot",
        "cloud-init status --long; /var/log/cloud-init.log; cloud-init collect-logs",
        "vmware-rpctool 'info-get guestinfo.metadata'; /var/log/vmware-imc/toolsDeployPkg.log",
    ),
    (
        r"dcgm|nv-hostengine",
        "a line of DCGM",
        "nv-hostengine --version; dcgmi discovery -l; dcgmi modules -l; /var/log/nv-hostengine.log",
        "dcgmi diag -r 1; nvidia-smi -q",
    ),
    (
        r"esxcli|esxupdate|\bVIB\b|ImageProfile",
        "a line from ESXi's package manager",
        "/var/log/esxupdate.log on the host: the last lines with ERROR; vmware -v; esxcli software vib list",
    ),
    (
        r"vmkernel|\bvmk\w*:|cpu\d+:\d+\)|\bPSOD\b",
        "a line from the VMkernel",
        "/var/log/vmkernel.log, vobd.log, and hostd.log from the same time; esxcli hardware ipmi sel list",
        "vm-support on the host, for Broadcom support",
    ),
    (
        r"ServerFaultCode|vim\.fault|vmodl\.|vCenter|vSphere|hostd|vpxd|virtual machine|\bVM\b|datastore",
        "a vCenter or VM fault",
        "VM > Monitor > Tasks and Events: the task's error stack, with the fault's type",
        "vmware.log in the VM's folder; hostd.log on the host and vpxd.log on vCenter, from the same time",
        "`vgpu-cfg explain --vm NAME`: the VM's last failed task, with its log",
    ),
    (
        r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]",
        "text in another language",
        (
            "set the vSphere Client (or the browser) to English and repeat the task, because `explain`"
            " recognizes most messages in English"
        ),
        (
            "the fault's type (vim.fault.…) in the error stack or hostd.log, which is the same in every"
            " language"
        ),
    ),
)
"""Words of a program, its name, and the sources to collect; specific programs come before general ones."""


def what_to_collect(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the kind of an unknown text, "" if it is not recognized, and the sources to collect."""
    for pattern, kind, *lines in _BY_PROGRAM:
        if re.search(pattern, text, re.IGNORECASE):
            return kind, tuple(lines)
    return "", WHERE_TO_LOOK
