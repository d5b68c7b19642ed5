"""Tests of bandwidth: perftest's ib_write_bw between two guests, and trainings over all workers.

Tables are perftest's and nccl-tests'. A server without a client waits; a client meets it by address.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vgpu_cfg.lab.guest.shell import Result, Session, StillRunning, finish_process
from vgpu_cfg.lab.guest.staging.modules_training import OPT, TRAIN
from vgpu_cfg.lab.guest.system import files
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.guest.system.gpus import driven_gpus, why_no_cuda
from vgpu_cfg.lab.guest.system.nics import SeenNic, reach
from vgpu_cfg.lab.guest.system.rdma import (
    Endpoint,
    active_mtu,
    bandwidth_gbps,
    count_transfer,
    has_peermem,
    is_carried,
    is_lossless,
    rdma_nics,
)
from vgpu_cfg.lab.guest.system.workloads import begin_training, end_training
from vgpu_cfg.lab.guest.tools.base import WRONG_USE, fail, out
from vgpu_cfg.lab.guest.tools.containers import complaint_about_script, version_of
from vgpu_cfg.lab.guest.tools.peers import why_no_ssh, worker_of
from vgpu_cfg.lab.guest.tools.rdma import nic_for
from vgpu_cfg.lab.state.guest import Workload, fault_of
from vgpu_cfg.lab.state.inventory import VirtualMachine

PAUSED = "/var/log/vgpu-cfg/paused"
TRAINING = "train"


def pause(session: Session, arguments: Sequence[str]) -> Result:
    """Have all workers of a running training save, then end it; if one cannot, it continues."""
    found = [(name, vm) for name, vm in _workers(session) if vm is not None]
    work = {
        name: [(one.name, one.runtime, one.container) for one in guest_of(vm).workloads if is_training(one)]
        for name, vm in found
    }
    if not any(work.values()):
        is_paused = PAUSED in session.guest.files
        return Result(err=b"train: already paused\n" if is_paused else b"train: no training is running\n")
    for name, vm in found:
        answer = fault_of(guest_of(vm), "checkpoint")
        if answer == "fails":
            return fail(f"train: {name} did not save: it exited with status 1", _GOES_ON)
        if answer:
            seconds = float(arguments[arguments.index("--timeout") + 1])
            clock = session.lab.clock
            clock.wait(clock.now() + clock.scaled(seconds), session.lab.changed)
            return fail(
                f"train: {name} did not save: it did not finish within {seconds:.0f} seconds", _GOES_ON
            )
    now = session.lab.clock.now()
    files.write(session.guest, PAUSED, json.dumps(work).encode(), now=now, parents=True)
    for _, vm in found:
        end_training(session.lab, vm, is_training)
    return Result(err=b"train: paused on a checkpoint\n")


_GOES_ON = "train: training was not paused and continues"


def resume(session: Session, arguments: Sequence[str]) -> Result:
    """Start the paused training again on all workers, but for those to be left out."""
    kept = session.guest.files.get(PAUSED)
    if kept is None:
        return Result(err=b"train: no training is paused\n")
    without = arguments[2].split(",") if "--without" in arguments else []
    used = [(name, vm) for name, vm in _workers(session) if name not in without]
    for name, _ in used:
        refusal = why_no_ssh(session, name)
        if refusal is not None:
            return fail(f"train: {name} does not respond over SSH on port 2222: {refusal}")
    work = json.loads(kept.content)
    for name, vm in used:
        if vm is not None:
            begin_training(session.lab, vm, [Workload(*one) for one in work.get(name, ())], len(used))
    del session.guest.files[PAUSED]
    return Result(err=b"train: resumed\n")


def is_training(one: Workload) -> bool:
    """Whether work is a training that `train` has started."""
    return one.name.partition(" ")[0] == TRAINING


def _workers(session: Session) -> Iterator[tuple[str, VirtualMachine | None]]:
    hosts = session.guest.files["/opt/vgpu-cfg/hostfile"]
    for line in hosts.content.splitlines():
        name = line.split()[0]
        yield name, worker_of(session, name)


PORT = "18515"
VALUED = frozenset(
    {"-d", "-x", "-T", "-p", "-s", "-n", "-D", "-i", "-m", "-q", "-t", "--tclass", "--gid-index"}
)
SIZE, ITERATIONS, SECONDS = 65536, 5000, 6.0
RULE = "-" * 87
HEADING = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
CLIENT = "client"
COMPLETION = "NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129"
"""NCCL's wording for the same."""
LOST_FOR_GOOD = (" Failed status 12: wr_id 0 syndrom 0x81", "scnt=128, ccnt=0")
"""perftest's message on a transfer whose packets are never acknowledged (IBV_WC_RETRY_EXC_ERR)."""
BUS_SHARE = 0.97
SOCKETS_GB_S = 1.1
"""The bandwidth of sockets without RDMA: a number of the lab's own."""
PROBE_MARK, PROBE_BYTES = "VGPU-CFG-ALLREDUCE ", 256 * 1024 * 1024
"""How the line begins that the probe of `verify` prints, and how much it sums."""
TORCH_PROBE = "import torch.distributed"
"""The text in the probe that sums with PyTorch alone."""


@dataclass(frozen=True, slots=True)
class BandwidthTest:
    """A command line of ib_write_bw."""

    device: str = ""
    port: str = PORT
    server: str = ""
    uses_gpu: bool = False


def _read(words: Sequence[str]) -> BandwidthTest:
    device, port, server, uses_gpu = "", PORT, "", False
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name.startswith("--use_cuda"):
            uses_gpu = True
        elif name in ("-d", "--ib-dev"):
            device = value if equals else next(rest, "")
        elif name in ("-p", "--port"):
            port = value if equals else next(rest, "")
        elif name in VALUED:
            next(rest, "")
        elif not name.startswith("-"):
            server = word
    return BandwidthTest(device, port, server, uses_gpu)


def ib_write_bw(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Wait for a client, or measure against a server. Raises StillRunning for a server that waits."""
    if session.guest.ofed == "none":
        return Result(127, err=b"sh: 1: ib_write_bw: not found\n")
    test = _read(arguments)
    nic = nic_for(session, test.device)
    if nic is None:
        return fail(
            f" IB device {test.device or '(null)'} not found\n Unable to find the Infiniband/RoCE device"
        )
    if test.uses_gpu and fault_of(session.guest, "perftest"):
        return fail(" Parser function exited with Error", " Unsupported memory type")
    refusal = _why_no_gpu(session.vm, session, nic) if test.uses_gpu else None
    if refusal is not None:
        return fail(refusal)
    if not test.server:
        return _serve(session, test, nic, " ".join(arguments))
    return _measure(session, test, nic)


def _why_no_gpu(vm: VirtualMachine, session: Session, nic: SeenNic) -> str | None:
    if not driven_gpus(session.lab.state, vm):
        return "CUDA error: no CUDA-capable device is detected"
    if why_no_cuda(session.guest):
        return f"CUDA error: {why_no_cuda(session.guest)}"
    if not has_peermem(session.lab.state, vm):
        return "Couldn't allocate MR\n failed to create mr\nFailed to create MR"
    return None


def _serve(session: Session, test: BandwidthTest, nic: SeenNic, line: str) -> Result:
    """Listen until a client came: the result of the meeting replaces the port."""
    listening = session.guest.listening
    found = listening.get(test.port, "")
    if session.history.resumes:
        if not found.startswith(CLIENT):
            raise StillRunning("client")
        del listening[test.port]
        session.lab.state.touch(session.vm)
        return _table(nic, float(found.split()[1]), uses_gpu=test.uses_gpu)
    listening[test.port] = f"server {nic.rdma} {int(test.uses_gpu)} {line} #{session.unit}"
    session.lab.state.touch(session.vm)
    raise StillRunning("client")


def _measure(session: Session, test: BandwidthTest, nic: SeenNic) -> Result:
    state = session.lab.state
    end = reach(state, session.vm, test.server)
    waiting = guest_of(end[0]).listening.get(test.port, "") if end is not None else ""
    if end is None or not waiting.startswith("server"):
        return fail(
            f"Couldn't connect to {test.server}:{test.port}",
            "Unable to open file descriptor for socket connection",
        )
    vm, _ = end
    _, device, uses_gpu, *_ = waiting.split()
    other = next((one for one in rdma_nics(state, vm) if one.rdma == device), end[1])
    ends = Endpoint(session.vm, nic, test.uses_gpu), Endpoint(vm, other, uses_gpu == "1")
    if not is_carried(*ends):
        return fail(" Completion with error at client", *LOST_FOR_GOOD)
    rate = bandwidth_gbps(state, *ends)
    amount = int(rate * 1e9 / 8 * SECONDS)
    count_transfer(session.guest, nic, guest_of(vm), other, amount, is_lossless=is_lossless(*ends))
    state.touch(session.vm)
    guest_of(vm).listening[test.port] = f"{CLIENT} {rate}"
    finish_process(session.lab, vm, "client", session.find)
    state.touch(vm)
    session.lab.clock.wait(session.lab.clock.now() + session.lab.clock.scaled(SECONDS), session.lab.changed)
    return _table(nic, rate, uses_gpu=test.uses_gpu)


def _table(nic: SeenNic, rate: float, *, uses_gpu: bool) -> Result:
    rate_of_messages = rate * 1e9 / 8 / SIZE / 1e6
    buffers = (
        "initializing CUDA",
        "Listing all CUDA devices in system:",
        "CUDA device 0: PCIe address is 02:01",
        "cuMemAlloc() of a 131072 bytes GPU buffer",
        "allocated GPU buffer address at 00007f2a5ea00000 pointer=0x7f2a5ea00000",
    )
    return out(
        *(buffers if uses_gpu else ()),
        RULE,
        "                    RDMA_Write BW Test",
        f" Dual-port       : OFF\t\tDevice         : {nic.rdma}",
        " Number of qps   : 1\t\tTransport type : IB",
        f" Mtu             : {active_mtu(nic)}[B]",
        " Link type       : Ethernet",
        " GID index       : 3",
        RULE,
        HEADING,
        f" {SIZE:<10} {ITERATIONS:<14} {rate:<18.2f} {rate - 0.03:<20.2f} {rate_of_messages:.6f}",
        RULE,
    )


@dataclass(frozen=True, slots=True)
class BusBandwidth:
    """An allreduce over all workers: its bus bandwidth in GB/s, its ranks, and by what NCCL goes."""

    gb_s: float
    ranks: int
    via: str
    is_exact: bool = True
    """Whether its sums are right."""


def bus_bandwidth_of(session: Session) -> BusBandwidth | str:
    """Return what an allreduce over the launcher's workers reaches, or why there is none."""
    hosts = session.guest.files.get("/opt/vgpu-cfg/hostfile")
    if hosts is None:
        return "no host file found"
    names = [line.split()[0].partition(":")[0] for line in hosts.content.splitlines() if line.strip()]
    ends: list[Endpoint] = []
    for name in names:
        refusal = why_no_ssh(session, name)
        vm = worker_of(session, name)
        if refusal is not None or vm is None:
            return refusal or f"ssh: Could not resolve hostname {name}"
        if not driven_gpus(session.lab.state, vm):
            return f"{name}: CUDA failure 100 'no CUDA-capable device is detected'"
        if why_no_cuda(guest_of(vm)):
            return f"{name}: CUDA failure '{why_no_cuda(guest_of(vm))}'"
        nics = rdma_nics(session.lab.state, vm)
        if nics:
            ends.append(Endpoint(vm, nics[0], uses_gpu=has_peermem(session.lab.state, vm)))
    if len(names) < 2:
        return BusBandwidth(100.0, len(names), "SHM/direct/direct")
    if len(ends) < len(names):
        return BusBandwidth(SOCKETS_GB_S, len(names), "NET/Socket/0")
    ring = list(zip(ends, [*ends[1:], ends[0]], strict=True))
    if not all(is_carried(one, other) for one, other in ring):
        return f"{names[0]}:4242:4260 [0] NCCL WARN {COMPLETION}"
    rate = min(bandwidth_gbps(session.lab.state, one, other) for one, other in ring)
    direct = all(end.uses_gpu for end in ends)
    is_exact = not any(fault_of(guest_of(end.vm), "sums") for end in ends)
    via = "NET/IB/0/GDRDMA" if direct else "NET/IB/0"
    return BusBandwidth(rate / 8 * BUS_SHARE, len(names), via, is_exact)


def _nccl_lines(session: Session, bus: BusBandwidth) -> list[str]:
    """Return what NCCL says of its channels where it is asked to."""
    wrong = fault_of(session.guest, "nccl")
    if session.variables.get("NCCL_DEBUG") != "INFO" or wrong == "silent":
        return []
    via = "NET/Socket/0" if wrong == "socket" else bus.via
    return [
        f"[1,{rank}]<stdout>:{session.guest.host_name}:4242:4250 [0] NCCL INFO Channel 00/0 : "
        f"{rank}[0] -> {(rank + 1) % bus.ranks}[0] [send] via {via}"
        for rank in range(bus.ranks)
    ]


TABLE_HEAD = (
    f"#{'out-of-place':>75}{'in-place':>35}",
    f"#{'size':>11}{'count':>14}{'type':>10}{'redop':>8}{'root':>8}" + 2 * "     time   algbw   busbw #wrong",
    f"#{'(B)':>11}{'(elements)':>14}{'':26}" + 2 * "     (us)  (GB/s)  (GB/s)       ",
)


def all_reduce_perf(session: Session, _arguments: Sequence[str], _stdin: bytes) -> Result:
    """Print nccl-tests' table of an allreduce."""
    bus = bus_bandwidth_of(session)
    if isinstance(bus, str):
        return fail(bus)
    algorithm = bus.gb_s / (2 * (bus.ranks - 1) / bus.ranks) if bus.ranks > 1 else bus.gb_s
    rows = []
    for power in (20, 24, 27, 30):
        size = 1 << power
        share = min(1.0, 0.4 + 0.2 * (power - 20) / 3.0)
        rate = algorithm * share
        wrong = 0 if bus.is_exact else size // 4
        half = f"{size / (rate * 1e3):>8.1f} {rate:>7.2f} {bus.gb_s * share:>7.2f} {wrong:>6}"
        rows.append(f"{size:>12} {size // 4:>13}     float     sum      -1 {half} {half}")
    name = session.guest.host_name
    ranks = [f"#  Rank {rank:>2} Group  0 Pid   4242 on {name} device  0" for rank in range(bus.ranks)]
    return out(
        "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20",
        "#",
        "# Using devices",
        *ranks,
        "#",
        *_nccl_lines(session, bus),
        *TABLE_HEAD,
        *rows,
        f"# Out of bounds values : {'0 OK' if bus.is_exact else '8 FAILED'}",
        f"# Avg bus bandwidth    : {bus.gb_s * 0.8:.4f}",
        "#",
    )


def train(session: Session, arguments: Sequence[str], stdin: bytes) -> Result:
    """Run something on all workers: a collective test by its name, a probe, else what each says for itself.

    Of a program in Python the lab knows one: the probe that prints its mark, once a file holds that.
    """
    if TRAIN not in session.guest.files:
        return Result(127, err=b"sh: 1: train: not found\n")
    if arguments and arguments[0] in ("--pause", "--resume"):
        return pause(session, arguments) if arguments[0] == "--pause" else resume(session, arguments)
    session.lab.clock.wait(session.lab.clock.now() + session.lab.clock.scaled(SECONDS), session.lab.changed)
    if any(word.endswith("all_reduce_perf") for word in arguments):
        return all_reduce_perf(session, arguments, stdin)
    bus = bus_bandwidth_of(session)
    if isinstance(bus, str):
        return fail(bus)
    if session.guest.images:
        script = session.guest.files.get(f"{OPT}/train")
        complaint = complaint_about_script(
            version_of(session.guest.images[0]), script.content if script is not None else ""
        )
        if complaint:
            return fail("usage: horovodrun [-h] [-v] -np NP", complaint, status=WRONG_USE)
    lines = _nccl_lines(session, bus)
    for word in arguments:
        script = session.guest.files.get(word)
        if script is not None and PROBE_MARK in script.content:
            result: dict[str, object] = {
                "v": 1,
                "ranks": bus.ranks,
                "size_bytes": PROBE_BYTES,
                "busbw_gigabytes": round(bus.gb_s, 3),
                "is_exact": bus.is_exact,
                "is_on_gpu": True,
                "framework": "tensorflow",
            }
            if TORCH_PROBE in script.content:
                result |= {"by": "torch", "framework": "pytorch"}
            return out(*lines, f"[1,0]<stdout>:{PROBE_MARK}{json.dumps(result)}")
    return out(*lines, *(f"[1,{rank}]<stdout>:rank {rank} of {bus.ranks}" for rank in range(bus.ranks)))
