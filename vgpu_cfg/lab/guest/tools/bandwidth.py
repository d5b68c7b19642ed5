"""Tests of bandwidth: perftest's ib_write_bw between two guests, and collective operations over all workers.

Tables are perftest's and nccl-tests'. A server that nobody has come to waits; a client meets it by address.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpu_cfg.lab.guest.gpus import driven
from vgpu_cfg.lab.guest.making import guest_of
from vgpu_cfg.lab.guest.nics import SeenNic
from vgpu_cfg.lab.guest.rdma import End, active_mtu, bandwidth_gbps, find_end, has_peermem, rdma_nics
from vgpu_cfg.lab.guest.sh import Result, Session, StillRunning
from vgpu_cfg.lab.guest.tools.base import fail, out
from vgpu_cfg.lab.guest.tools.rdma import nic_for
from vgpu_cfg.lab.state import VirtualMachine

PORT = "18515"
VALUED = frozenset(
    {"-d", "-x", "-T", "-p", "-s", "-n", "-D", "-i", "-m", "-q", "-t", "--tclass", "--gid-index"}
)
SIZE, ITERATIONS, SECONDS = 65536, 5000, 6.0
RULE = "-" * 87
HEADING = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
CLIENT = "client"


@dataclass(frozen=True, slots=True)
class Asked:
    """A command line of ib_write_bw."""

    device: str = ""
    port: str = PORT
    server: str = ""
    uses_gpu: bool = False


def _read(words: Sequence[str]) -> Asked:
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
    return Asked(device, port, server, uses_gpu)


def ib_write_bw(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Wait for a client, or measure against a server. Raises StillRunning for a server that waits."""
    if session.guest.ofed == "none":
        return Result(127, err=b"sh: 1: ib_write_bw: not found\n")
    asked = _read(arguments)
    nic = nic_for(session, asked.device)
    if nic is None:
        return fail(
            f" IB device {asked.device or '(null)'} not found\n Unable to find the Infiniband/RoCE device"
        )
    refusal = _why_no_gpu(session.vm, session, nic) if asked.uses_gpu else None
    if refusal is not None:
        return fail(refusal)
    if not asked.server:
        return _serve(session, asked, nic, " ".join(arguments))
    return _measure(session, asked, nic)


def _why_no_gpu(vm: VirtualMachine, session: Session, nic: SeenNic) -> str | None:
    if not driven(session.lab.state, vm):
        return "CUDA error: no CUDA-capable device is detected"
    if not has_peermem(session.lab.state, vm):
        return "Couldn't allocate MR\n failed to create mr\nFailed to create MR"
    return None


def _serve(session: Session, asked: Asked, nic: SeenNic, line: str) -> Result:
    """Listen until a client came: the answer of the meeting stands where the port was."""
    listening = session.guest.listening
    found = listening.get(asked.port, "")
    if session.history.resumes:
        if not found.startswith(CLIENT):
            raise StillRunning("client")
        del listening[asked.port]
        session.lab.state.touch(session.vm)
        return _table(nic, float(found.split()[1]))
    listening[asked.port] = f"server {nic.rdma} {int(asked.uses_gpu)} {line}"
    session.lab.state.touch(session.vm)
    raise StillRunning("client")


def _measure(session: Session, asked: Asked, nic: SeenNic) -> Result:
    from vgpu_cfg.lab.guest.processes import finish

    state = session.lab.state
    end = find_end(state, asked.server)
    waiting = guest_of(end[0]).listening.get(asked.port, "") if end is not None else ""
    if end is None or not waiting.startswith("server"):
        return fail(
            f"Couldn't connect to {asked.server}:{asked.port}",
            "Unable to open file descriptor for socket connection",
        )
    vm, _ = end
    _, device, uses_gpu, *_ = waiting.split()
    other = next((one for one in rdma_nics(state, vm) if one.rdma == device), end[1])
    rate = bandwidth_gbps(state, End(session.vm, nic, asked.uses_gpu), End(vm, other, uses_gpu == "1"))
    guest_of(vm).listening[asked.port] = f"{CLIENT} {rate}"
    finish(session.lab, vm, "client")
    state.touch(vm)
    session.lab.clock.wait(session.lab.clock.now() + session.lab.clock.scaled(SECONDS), session.lab.changed)
    return _table(nic, rate)


def _table(nic: SeenNic, rate: float) -> Result:
    rate_of_messages = rate * 1e9 / 8 / SIZE / 1e6
    return out(
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


def bus_gb_s(session: Session) -> tuple[float, int] | str:
    """Return the bus bandwidth of an allreduce over the launcher's workers, and how many they are.

    Returns why there is none where a worker cannot take part.
    """
    hosts = session.guest.files.get("/opt/vgpu-cfg/hostfile")
    if hosts is None:
        return "there is no host file"
    names = [line.split()[0].partition(":")[0] for line in hosts.content.splitlines() if line.strip()]
    ends: list[End] = []
    for name in names:
        vm = _worker(session, name)
        if vm is None or not guest_of(vm).is_up:
            return f"ssh: connect to host {name} port 2222: Connection refused"
        if not guest_of(vm).services.get("vgpu-cfg-worker", False):
            return f"ssh: connect to host {name} port 2222: Connection refused"
        if not driven(session.lab.state, vm):
            return f"{name}: CUDA failure 100 'no CUDA-capable device is detected'"
        nics = rdma_nics(session.lab.state, vm)
        if nics:
            ends.append(End(vm, nics[0], uses_gpu=has_peermem(session.lab.state, vm)))
    if len(ends) < len(names) or len(names) < 2:
        return (1.1 if len(names) > 1 else 100.0), len(names)
    rate = min(bandwidth_gbps(session.lab.state, ends[0], end) for end in ends[1:])
    return rate / 8 * 0.97, len(names)


def _worker(session: Session, name: str) -> VirtualMachine | None:
    for vm in session.lab.state.all(VirtualMachine):
        if vm.is_on and name in (guest_of(vm).host_name, vm.name):
            return vm
    return None


def all_reduce_perf(session: Session, _arguments: Sequence[str], _stdin: bytes) -> Result:
    """Print nccl-tests' table of an allreduce."""
    found = bus_gb_s(session)
    if isinstance(found, str):
        return fail(found)
    bus, ranks = found
    algorithm = bus / (2 * (ranks - 1) / ranks) if ranks > 1 else bus
    rows = []
    for power in (20, 24, 27, 30):
        size = 1 << power
        share = min(1.0, 0.4 + 0.2 * (power - 20) / 3.0)
        rows.append(
            f"{size:>12} {size // 4:>13}     float     sum      -1 "
            f"{size / (algorithm * share * 1e3):>8.1f} {algorithm * share:>7.2f} {bus * share:>7.2f}      0"
        )
    return out(
        "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20",
        "#",
        "#                                                              out-of-place",
        "#       size         count      type   redop    root     time   algbw   busbw #wrong",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)",
        *rows,
        "# Out of bounds values : 0 OK",
        f"# Avg bus bandwidth    : {bus * 0.8:.4f}",
        "#",
    )


def train(session: Session, arguments: Sequence[str], stdin: bytes) -> Result:
    """Run something on all workers: a collective test by its name, else say that each worker did it."""
    if "/usr/local/bin/train" not in session.guest.files:
        return Result(127, err=b"sh: 1: train: not found\n")
    session.lab.clock.wait(session.lab.clock.now() + session.lab.clock.scaled(SECONDS), session.lab.changed)
    if any(word.endswith("all_reduce_perf") for word in arguments):
        return all_reduce_perf(session, arguments, stdin)
    found = bus_gb_s(session)
    if isinstance(found, str):
        return fail(found)
    bus, ranks = found
    return out(
        *(f"[1,{rank}]<stdout>:rank {rank} of {ranks}" for rank in range(ranks)),
        f"[1,0]<stdout>:allreduce ok: {ranks} ranks, busbw {bus:.2f} GB/s",
    )
