"""Known failures of training over several VMs: NCCL, its RDMA, mlx5, Horovod and Open MPI."""

from __future__ import annotations

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow

TRAINING_ROWS = (
    FaultRow(
        "nccl-no-interface",
        (r"no socket interface found", r"NCCL_SOCKET_IFNAME[^\n]*(not found|no (such )?interface)"),
        sample="NCCL WARN Bootstrap : no socket interface found",
        symptom="NCCL cannot find a network interface for its bootstrap",
        cause=(
            "NCCL_SOCKET_IFNAME specifies an interface that does not exist in this guest or container,"
            " or only lo and docker0 are available"
        ),
        check=("ip -br address in every guest and in the container: the interface and its address",),
        remedy=(
            "specify the interface name that all guests use (training.environment), and start"
            " containers with --network host"
        ),
        source="github.com/NVIDIA/nccl/issues/210 and 1837",
        words="bootstrap ifname",
    ),
    FaultRow(
        "nccl-connect-failed",
        (
            r"call to connect (to [^\n]* )?(failed|returned)",
            r"socket(Start|Poll)Connect[^\n]*(fail|returned)",
            r"connect to [^\n]* failed : (connection (refused|timed out)|no route to host)",
            r"connect to [^\n]* failed : (network is unreachable|software caused)",
        ),
        sample="NCCL WARN Call to connect failed : Connection refused",
        symptom="an NCCL worker cannot connect to another worker",
        cause=(
            "the workers chose interfaces that cannot reach each other (docker0 has the same address"
            " everywhere), or a firewall blocks the connection"
        ),
        check=(
            "ping and ssh from each VM's training address to every other one",
            (
                "NCCL_DEBUG=INFO: the line 'Bootstrap : Using'; ip -br address: the interface that has"
                " this address"
            ),
        ),
        remedy=(
            "set NCCL_SOCKET_IFNAME to the training interface or to ^docker0,lo, and open ports between"
            " the guests"
        ),
        source="github.com/NVIDIA/nccl/issues/111 and 697",
        words="bootstrap unreachable worker",
    ),
    FaultRow(
        "nccl-ib-completion",
        (
            r"got completion\b[^\n]*\bwith (status|error)[ =]*12\b",
            r"\bIB transport\b[^\n]*(error|fail|retry|timeout)",
            r"transport retry count(er)? exceeded",
            r"syndrome 0x15,|failed status 12:",
            r"IBV_WC_RETRY_EXC_ERR",
            r"local_ack(?!\w*\W{0,4}0\b)",
        ),
        sample=(
            "NCCL WARN NET/IB : Got completion from peer 192.168.7.12<55921> with status=12 opcode=0 len=0"
            " vendor err 129 (Send)"
        ),
        symptom="an RDMA message received no response (status 12, retry counter exceeded, local_ack_timeout)",
        cause=(
            "check in this order: the GID index is not the RoCE v2 index on both sides, there is no"
            " route between the peers' networks, packets are lost (PFC, MTU), or a link is down"
        ),
        check=(
            "show_gids in both guests: the index of the RoCE v2 GID with the IPv4 address; NCCL_IB_GID_INDEX",
            "ib_write_bw -x INDEX between the two guests: whether RDMA works at all",
            (
                "ethtool -S INTERFACE | grep -E 'discard|pause|local_ack'; rdma statistic show: which"
                " counters increase"
            ),
        ),
        remedy=(
            "set NCCL_IB_GID_INDEX and NCCL_IB_HCA, and use the same PFC and MTU settings on every hop;"
            " increase NCCL_IB_TIMEOUT only after that"
        ),
        source="github.com/NVIDIA/nccl/issues/426, 902 and 1664",
        words="timeout RoCE IB transport error mlx5 ack",
    ),
    FaultRow(
        "nccl-modify-qp",
        (r"ibv_modify_qp failed", r"failed to modify QP (\d+ )?to RT[RS]"),
        sample="NCCL WARN Call to ibv_modify_qp failed with error Connection timed out",
        symptom="two RDMA devices cannot establish a connection",
        cause=(
            "the GIDs of the two sides cannot reach each other because the subnets differ, a GID index"
            " is wrong, or the NICs are on rails that are not connected"
        ),
        check=(
            "show_gids in both guests: the GIDs must be from the same network",
            "ping -I INTERFACE PEER between the IP addresses of these GIDs",
        ),
        remedy=(
            "set NCCL_IB_GID_INDEX and NCCL_IB_HCA; if each rail is a separate network, also set"
            " NCCL_CROSS_NIC=0"
        ),
        source="github.com/NVIDIA/nccl/issues/2013; github.com/NVIDIA/nccl-tests/issues/185 and 227",
        words="queue pair unreachable",
    ),
    FaultRow(
        "nccl-reg-mr",
        (
            r"call to ibv_(exp_)?reg_mr\w* failed",
            r"ibv_reg_mr\w*[^\n]*(fail|cannot allocate)",
            r"ibv_reg_dmabuf_mr[^\n]*cannot allocate",
            r"couldn't allocate MR with error=14\b",
        ),
        sample="NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
        symptom="memory cannot be registered for RDMA",
        cause="the locked memory limit is too low, or, for GPU memory, nvidia-peermem is not loaded",
        check=(
            "ulimit -l in the container, in the job's environment: the limit must be unlimited",
            "lsmod | grep nvidia_peermem in the guest",
        ),
        remedy=(
            "use docker run --ulimit memlock=-1 (or LimitMEMLOCK=infinity in the unit), and run"
            " modprobe nvidia-peermem"
        ),
        source="github.com/NVIDIA/nccl-tests/issues/206; NCCL user guide: troubleshooting, InfiniBand",
        words="locked memory limit memlock ulimit register",
    ),
    FaultRow(
        "nccl-no-ib",
        (r"NET/IB : No device found", r"NCCL INFO Using network Socket"),
        sample="NCCL INFO NET/IB : No device found.",
        symptom="NCCL cannot find an RDMA device and uses TCP instead",
        cause=(
            "/dev/infiniband is not available in the container, the image does not include the RDMA"
            " libraries, NCCL_IB_DISABLE is set, or the guest has no RDMA NIC"
        ),
        check=(
            "ibv_devinfo in the guest and in the container: the RDMA devices",
            "docker inspect CONTAINER: /dev/infiniband must be listed among the devices",
        ),
        remedy=(
            "start the container with /dev/infiniband and --cap-add IPC_LOCK, and use an image that"
            " includes libibverbs and its mlx5 provider"
        ),
        source="github.com/Oneflow-Inc/oneflow/issues/3586 (the messages as logged by NCCL); NCCL user guide",
        words="falls back to TCP sockets slow",
    ),
    FaultRow(
        "nccl-peer-closed",
        (
            r"connection closed by remote peer",
            r"socket (recv|send) failed while polling",
            r"call to (recv|send)\w* (from|to) [^\n]*failed : (connection reset|broken pipe)",
            r"ncclRemoteError|NCCL error: remote process exited",
        ),
        sample="NCCL WARN socketProgress: Connection closed by remote peer 10.10.1.3<36138>",
        symptom="the connection to another worker was closed",
        cause=(
            "this worker only reports the closed connection; another worker stopped first (out of"
            " memory, an Xid, or killed), and its log shows the reason"
        ),
        check=(
            "the last log lines of the worker with that address; dmesg | grep -iE 'xid|oom' in its guest",
        ),
        remedy="look up the earliest error of any worker instead of this one",
        source="github.com/NVIDIA/nccl/issues/1612",
        words="worker died exited",
    ),
    FaultRow(
        "nccl-watchdog",
        (r"collective operation timeout", r"detected by watchdog at work", r"timed out in blocking wait"),
        sample=(
            "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=129, OpType=ALLREDUCE,"
            " Timeout(ms)=600000) ran for 600410 milliseconds before timing out."
        ),
        symptom="a collective operation did not complete in time",
        cause=(
            "one worker is not participating because it hangs, is reading data, has stopped, or called"
            " a different operation than the others"
        ),
        check=(
            "py-spy dump --pid PID in each worker: the current call stack",
            "nvidia-smi in each guest: which GPU is idle",
        ),
        remedy=(
            "find the worker that is not participating; if all workers wait in NCCL, run `vgpu-cfg"
            " verify` to find the pair that cannot communicate"
        ),
        source="github.com/pytorch/pytorch: ProcessGroupNCCL (causes from memory, not verified)",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "nccl-system-error",
        (r"unhandled system error", r"ncclSystemError"),
        sample="NCCL error in: ProcessGroupNCCL.cpp:1201, unhandled system error, NCCL version 2.14.3",
        symptom="NCCL reports a system error without details",
        cause=(
            "a system call failed for a socket, for memory that cannot be locked or shared, or for an"
            " RDMA device; the preceding WARN line shows which"
        ),
        check=("NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET on every worker: the first line with NCCL WARN",),
        remedy="look up that line with `vgpu-cfg explain - < job.log`",
        source="github.com/NVIDIA/nccl/issues/975 and 697",
        is_general=True,
    ),
    FaultRow(
        "mlx5-command-timeout",
        (
            r"will cause a leak of a command resource",
            r"mlx5\w*\b(?![^\n]*(transmit queue|TX timeout))[^\n]*time(d )?out",
        ),
        sample=(
            "mlx5_core 0000:03:00.0: wait_func:1151:(pid 1203): CREATE_CQ(0x400) timeout. Will cause a leak"
            " of a command resource"
        ),
        symptom="the NIC's firmware did not respond to a driver command",
        cause=(
            "the NIC is hung because of its firmware, missing interrupts for a passthrough device, or"
            " PCIe errors"
        ),
        check=(
            "dmesg | grep mlx5_core in the guest: the first line",
            "ethtool -i INTERFACE: the firmware version; esxcli network nic get -n VMNIC on the host",
        ),
        remedy=(
            "power-cycle the VM and update the NIC's firmware; if the problem recurs, power-cycle the host"
        ),
        source=(
            "the Linux kernel: drivers/net/ethernet/mellanox/mlx5/core/cmd.c (causes from memory, not"
            " verified)"
        ),
        confidence=Confidence.INFERRED,
        words="NIC firmware hang",
        kernel=(r"mlx5_core .*Will cause a leak of a command resource",),
    ),
    FaultRow(
        "mlx5-health",
        (
            r"health compromised",
            r"mlx5_core[^\n]*(assert_var|Health issue observed)",
            r"mlx5_core[^\n]*(Fatal error \d+ detected|PCI slot is unavailable|handling bad device here)",
            r"mlx5_core[^\n]*(health recovery (flow aborted|failed)|\bsynd 0x[1-9a-f]\b)",
        ),
        sample=(
            "mlx5_core 0000:0d:00.0: poll_health:801:(pid 0): device's health compromised - reached miss"
            " count"
        ),
        symptom="the NIC's firmware has stopped",
        cause=(
            "the NIC's heartbeat has stopped because its firmware crashed or its PCIe connection was lost"
        ),
        check=(
            (
                "dmesg | grep -E 'print_health_info|mlx5_core' in the guest: the state that the"
                " firmware reports"
            ),
        ),
        remedy=(
            "power-cycle the VM and then the host, and update the NIC's firmware; if the problem"
            " recurs, have the NIC replaced"
        ),
        source="the Linux kernel: drivers/net/ethernet/mellanox/mlx5/core/health.c",
        words="NIC firmware crashed",
        kernel=(
            r"mlx5_core .*(health compromised|assert_var|Fatal error \d+ detected|PCI slot is unavailable)",
            r"mlx5_core .*(handling bad device here|\bsynd 0x[1-9a-f]\b)",
            r"mlx5_core .*(Health issue observed, .*severity\([0-3]\)|health recovery (flow aborted|failed))",
        ),
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
        symptom="Horovod is waiting for workers that are not participating",
        cause="some ranks are behind, have stopped, or are running a different branch of the program",
        check=("the lines that follow: the missing ranks; nvidia-smi in the guests of these ranks",),
        remedy=(
            "check the logs of the missing ranks, and restart the job if these ranks are no longer running"
        ),
        source="github.com/horovod/horovod: its stall inspector (from memory)",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "workers-ssh",
        (
            r"ssh not successful for hosts",
            r"could not connect to some hosts via ssh",
            r"ORTE was unable to reliably start one or more daemons",
            r"host key verification failed",
        ),
        sample="ssh not successful for hosts: hvd-02:2",
        symptom="the first worker cannot log in to another worker",
        cause=(
            "sshd is not running in the worker container, its port is closed, or its key or host key is"
            " unknown"
        ),
        check=(
            "ssh -p PORT OTHER true, in the first VM's container: the error message",
            "systemctl status vgpu-cfg-worker in the other guest",
        ),
        remedy=(
            "run `vgpu-cfg apply` to rewrite keys and known hosts, and `vgpu-cfg verify` to test every pair"
        ),
        source="github.com/horovod/horovod and Open MPI's own messages (from memory)",
        confidence=Confidence.INFERRED,
        words="login workers keys",
    ),
)
