"""Known failures of training over several VMs: NCCL, its RDMA, mlx5, Horovod and Open MPI."""

from __future__ import annotations

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow

TRAINING_ROWS = (
    FaultRow(
        "nccl-no-interface",
        (r"no socket interface found", r"NCCL_SOCKET_IFNAME[^\n]*(not found|no (such )?interface)"),
        sample="NCCL WARN Bootstrap : no socket interface found",
        symptom="NCCL finds no network interface to begin with",
        cause=(
            "NCCL_SOCKET_IFNAME names an interface that this guest or container does not have, or only lo"
            " and docker0 are left"
        ),
        check=("ip -br address in every guest, and in the container: the interface and its address",),
        remedy=(
            "name the interface as it is in every guest (training.environment), and start containers with"
            " --network host"
        ),
        source="github.com/NVIDIA/nccl/issues/210 and 1837",
        words="bootstrap ifname",
    ),
    FaultRow(
        "nccl-connect-failed",
        (
            r"call to connect (to [^\n]* )?(failed|returned)",
            r"socketStartConnect[^\n]*fail",
            r"connect to [^\n]* failed : (connection refused|no route to host|connection timed out)",
        ),
        sample="NCCL WARN Call to connect failed : Connection refused",
        symptom="an NCCL worker cannot connect to another",
        cause=(
            "the workers chose interfaces that do not reach each other (docker0 has the same address"
            " everywhere), or a firewall is between"
        ),
        check=(
            "ping and ssh from each VM's training address to each other one",
            "NCCL_DEBUG=INFO: the line 'Bootstrap : Using'; ip -br address: whose it is",
        ),
        remedy=(
            "set NCCL_SOCKET_IFNAME to the training interface, or ^docker0,lo; open ports between the guests"
        ),
        source="github.com/NVIDIA/nccl/issues/111 and 697",
        words="bootstrap unreachable worker",
    ),
    FaultRow(
        "nccl-ib-completion",
        (
            r"got completion\b[^\n]*\bwith (status|error)[ =]*12\b",
            r"\bIB transport\b[^\n]*(error|fail|retry|timeout)",
            r"transport retry counter exceeded",
            r"IBV_WC_RETRY_EXC_ERR",
            r"local_ack(?!\w*\W{0,4}0\b)",
        ),
        sample=(
            "NCCL WARN NET/IB : Got completion from peer 192.168.7.12<55921> with status=12 opcode=0 len=0"
            " vendor err 129 (Send)"
        ),
        symptom="an RDMA message got no answer (status 12, retry counter exceeded, local_ack_timeout)",
        cause=(
            "in this order: the GID index is not the RoCE v2 one on each side, the peers' networks do not"
            " route to each other, packets are lost (PFC, MTU), a link is down"
        ),
        check=(
            "show_gids in both guests: the index of the RoCE v2 GID with the IPv4 address; NCCL_IB_GID_INDEX",
            "ib_write_bw -x INDEX between the two guests: whether RDMA works at all",
            "ethtool -S INTERFACE | grep -E 'discard|pause|local_ack'; rdma statistic show: what grows",
        ),
        remedy=(
            "set NCCL_IB_GID_INDEX and NCCL_IB_HCA, PFC and MTU alike on every hop; only then raise"
            " NCCL_IB_TIMEOUT"
        ),
        source="github.com/NVIDIA/nccl/issues/426, 902 and 1664",
        words="timeout RoCE IB transport error mlx5 ack",
    ),
    FaultRow(
        "nccl-modify-qp",
        (r"ibv_modify_qp failed", r"failed to modify QP to RT[RS]"),
        sample="NCCL WARN Call to ibv_modify_qp failed with error Connection timed out",
        symptom="two RDMA devices cannot be joined to a connection",
        cause=(
            "the GID of one side does not reach the other's: another subnet, a wrong GID index, or NICs of"
            " rails that are not joined"
        ),
        check=(
            "show_gids in both guests: GIDs of one network",
            "ping -I INTERFACE PEER between the addresses of these GIDs",
        ),
        remedy="set NCCL_IB_GID_INDEX and NCCL_IB_HCA; where each rail is its own network, NCCL_CROSS_NIC=0",
        source="github.com/NVIDIA/nccl/issues/2013; github.com/NVIDIA/nccl-tests/issues/185 and 227",
        words="queue pair unreachable",
    ),
    FaultRow(
        "nccl-reg-mr",
        (r"call to ibv_(exp_)?reg_mr\w* failed", r"ibv_reg_(dmabuf_)?mr\w*[^\n]*(fail|cannot allocate)"),
        sample="NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
        symptom="memory cannot be registered for RDMA",
        cause="the limit of locked memory is too low; with GPU memory: nvidia-peermem is not loaded",
        check=(
            "ulimit -l in the container, as the job sees it: unlimited",
            "lsmod | grep nvidia_peermem in the guest",
        ),
        remedy=(
            "docker run --ulimit memlock=-1 (or LimitMEMLOCK=infinity in the unit); modprobe nvidia-peermem"
        ),
        source="github.com/NVIDIA/nccl-tests/issues/206; NCCL user guide: troubleshooting, InfiniBand",
        words="locked memory limit memlock ulimit register",
    ),
    FaultRow(
        "nccl-no-ib",
        (r"NET/IB : No device found", r"NCCL INFO Using network Socket"),
        sample="NCCL INFO NET/IB : No device found.",
        symptom="NCCL sees no RDMA device and uses TCP",
        cause=(
            "the container has no /dev/infiniband, the RDMA libraries are not in the image, NCCL_IB_DISABLE"
            " is set, or the guest has no such NIC"
        ),
        check=(
            "ibv_devinfo in the guest, and in the container: the devices",
            "docker inspect CONTAINER: /dev/infiniband among its devices",
        ),
        remedy=(
            "give the container /dev/infiniband (and --cap-add IPC_LOCK), and an image with libibverbs and"
            " its mlx5 provider"
        ),
        source="github.com/Oneflow-Inc/oneflow/issues/3586 (the lines as NCCL writes them); NCCL user guide",
        words="falls back to TCP sockets slow",
    ),
    FaultRow(
        "nccl-peer-closed",
        (r"connection closed by remote peer", r"ncclRemoteError"),
        sample="NCCL WARN socketProgress: Connection closed by remote peer 10.10.1.3<36138>",
        symptom="another worker has gone",
        cause=(
            "this worker only says so: another one died first (out of memory, an Xid, killed), and its log"
            " has the reason"
        ),
        check=(
            (
                "the log of the worker whose address it names: its last lines; dmesg | grep -iE 'xid|oom' in"
                " its guest"
            ),
        ),
        remedy="explain the first error of all workers, by time; not this one",
        source="github.com/NVIDIA/nccl/issues/1612",
        words="worker died exited",
    ),
    FaultRow(
        "nccl-watchdog",
        (r"watchdog caught collective operation timeout", r"collective operation timeout"),
        sample=(
            "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=129, OpType=ALLREDUCE,"
            " Timeout(ms)=600000) ran for 600410 milliseconds before timing out."
        ),
        symptom="a collective did not end in time",
        cause=(
            "one worker does not take part: it hangs, reads data, died, or calls something else than the"
            " others"
        ),
        check=(
            "py-spy dump --pid PID, in each worker: where it stands",
            "nvidia-smi in each guest: which GPU is idle",
        ),
        remedy=(
            "find the worker that is elsewhere; where all wait in NCCL, `vgpu-cfg verify` finds the pair"
            " that does not talk"
        ),
        source="github.com/pytorch/pytorch: ProcessGroupNCCL; the causes are recalled",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "nccl-system-error",
        (r"unhandled system error", r"ncclSystemError"),
        sample="NCCL error in: ProcessGroupNCCL.cpp:1201, unhandled system error, NCCL version 2.14.3",
        symptom="NCCL reports a system error, and no more",
        cause=(
            "a call to the system failed: sockets, memory that may not be locked or shared, or an RDMA"
            " device; the line WARN before it says which"
        ),
        check=("NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET for every worker: the first line with NCCL WARN",),
        remedy="explain that line: `vgpu-cfg explain - < job.log`",
        source="github.com/NVIDIA/nccl/issues/975 and 697",
        is_general=True,
    ),
    FaultRow(
        "mlx5-command-timeout",
        (r"will cause a leak of a command resource", r"mlx5\w*\b[^\n]*time(d )?out"),
        sample=(
            "mlx5_core 0000:03:00.0: wait_func:1151:(pid 1203): CREATE_CQ(0x400) timeout. Will cause a leak"
            " of a command resource"
        ),
        symptom="the NIC's firmware does not answer a command of its driver",
        cause=(
            "the NIC hangs: firmware, a passthrough device without working interrupts in the guest, or PCIe"
            " errors"
        ),
        check=(
            "dmesg | grep mlx5_core in the guest: the first line of it",
            "ethtool -i INTERFACE: its firmware; esxcli network nic get -n VMNIC on the host",
        ),
        remedy=(
            "power the VM off and on; update the NIC's firmware; where it comes back, switch the host's"
            " power off and on"
        ),
        source="the Linux kernel: drivers/net/ethernet/mellanox/mlx5/core/cmd.c; the causes are recalled",
        confidence=Confidence.INFERRED,
        words="NIC firmware hang",
    ),
    FaultRow(
        "mlx5-health",
        (r"health compromised", r"mlx5_core[^\n]*assert_var"),
        sample=(
            "mlx5_core 0000:0d:00.0: poll_health:801:(pid 0): device's health compromised - reached miss"
            " count"
        ),
        symptom="the NIC's firmware has stopped",
        cause="the NIC no longer counts its heartbeat: its firmware crashed, or PCIe to it is gone",
        check=("dmesg | grep -E 'print_health_info|mlx5_core' in the guest: the firmware's own state",),
        remedy=(
            "power the VM off and on, then the host; update the NIC's firmware, have it replaced where it"
            " repeats"
        ),
        source="the Linux kernel: drivers/net/ethernet/mellanox/mlx5/core/health.c",
        words="NIC firmware crashed",
    ),
    FaultRow(
        "horovod-stalled",
        (
            r"one or more tensors were submitted to be reduced",
            r"subset of ranks and are waiting for remainder",
        ),
        sample=(
            "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks"
            " and are waiting for remainder of ranks for more than 60 seconds."
        ),
        symptom="Horovod waits for workers that do not take part",
        cause="some ranks are behind, died, or run another branch of the program",
        check=("the lines after it: the missing ranks; nvidia-smi in their guests",),
        remedy="see the missing ranks' logs; where none of them lives, start the job again",
        source="github.com/horovod/horovod: its stall inspector, recalled",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "workers-ssh",
        (
            r"ssh not successful for hosts",
            r"ORTE was unable to reliably start one or more daemons",
            r"host key verification failed",
        ),
        sample="ssh not successful for hosts: hvd-02:2",
        symptom="the first worker cannot log in to another",
        cause=(
            "the worker container's sshd does not run, its port is closed, or its key or host key is not"
            " known"
        ),
        check=(
            "ssh -p PORT OTHER true, in the first VM's container: what it says",
            "systemctl status vgpu-cfg-worker in the other guest",
        ),
        remedy="`vgpu-cfg apply` writes keys and known hosts again; `vgpu-cfg verify` tries every pair",
        source="github.com/horovod/horovod and Open MPI's own words, recalled",
        confidence=Confidence.INFERRED,
        words="login workers keys",
    ),
)
