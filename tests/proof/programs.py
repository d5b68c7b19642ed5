"""What is trained in the proof: small programs that say who they are, and sums that are exact."""

from __future__ import annotations

TORCH_SUM = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
own = torch.arange(1_000_003, dtype=torch.float64) * (rank + 1)
dist.all_reduce(own)
whole = torch.arange(1_000_003, dtype=torch.float64) * sum(range(1, size + 1))
assert (own == whole).all(), "the sum is not exact"
print("SUMMED", rank, size, os.uname().nodename, os.environ["MASTER_ADDR"], flush=True)
"""
"""It says its rank, how many there are, its host, and where all meet."""

FAILS_ONCE = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
again = os.path.exists("/tmp/has-failed")
open("/tmp/has-failed", "w").close()
print("ATTEMPT", 2 if again else 1, flush=True)
if not again and os.uname().nodename == "hvd-02":
    os._exit(7)
dist.all_reduce(torch.ones(1000))
print("DONE", dist.get_rank(), flush=True)
"""
"""Its second rank goes at its first start; the other waits for it in a sum."""

WAITS = """
import os, signal, subprocess, sys, time
child = subprocess.Popen(["sleep", "600"])
print("UP", flush=True)
time.sleep(600)
"""
"""It has a child of its own, and ends only when it is ended."""

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("UP", flush=True)
time.sleep(600)
"""
"""It passes over what asks it to end."""

TELLS_TENSORFLOW = """
import os, sys
print(os.environ["NODE_RANK"], os.environ["TF_CONFIG"])
sys.exit(7 * int(os.environ["NODE_RANK"]))
"""
"""It prints what TensorFlow would read, and fails on all but the first host."""

FAILS_AT_FIRST = """
import os, sys
again = os.path.exists("/tmp/again")
open("/tmp/again", "w").close()
sys.exit(0 if again else 3)
"""

TELLS_HOW_IT_STARTED = """
import os
def words(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read().replace(chr(0), " ")
    except OSError:
        return ""
if os.environ["RANK"] == "1":
    print("DAEMON", words(os.getppid()))
for line in map(words, filter(str.isdigit, os.listdir("/proc"))):
    if os.environ["RANK"] == "0" and line.startswith("/usr/bin/ssh ") and "rted" in line:
        print("SSH", line)
"""
"""Rank 0 prints the ssh by which mpirun reaches the other host, rank 1 the daemon that started it."""

RAY_NODES = """
import os, time, ray
ray.init()
@ray.remote(scheduling_strategy="SPREAD", num_cpus=1)
def where():
    time.sleep(0.5)
    return os.uname().nodename
nodes = sorted(one["NodeManagerAddress"] for one in ray.nodes() if one["Alive"])
seen = sorted(set(ray.get([where.remote() for _ in range(8)])))
print("NODES", *nodes, *seen, flush=True)
"""
"""It lists the addresses of Ray's nodes, and the hosts on which tasks ran."""

RAY_WAITS = """
import time, ray
ray.init()
@ray.remote(scheduling_strategy="SPREAD", num_cpus=1)
def wait():
    print("RUNS", flush=True)
    time.sleep(600)
tasks = [wait.remote() for _ in range(4)]
for _ in range(2):
    print("UP", flush=True)
ray.get(tasks)
"""
"""It has tasks on both hosts that end only when they are ended, and says twice that it is up."""

TRAINS = """
import os, sys, time, torch, torch.distributed as dist
torch.manual_seed(7)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
assert size == 4, size
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
first = 0
if os.path.exists("state.pt"):
    state = torch.load("state.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["step"]
for step in range(first, int(sys.argv[1])):
    random = torch.Generator().manual_seed(step * size + rank)
    given = torch.randn(16, 8, generator=random)
    loss = ((model(given) - given.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    for one in model.parameters():
        dist.all_reduce(one.grad)
        one.grad /= size
    optimizer.step()
    whole = loss.detach().clone()
    dist.all_reduce(whole)
    if rank == 0:
        with open("losses", "a") as file:
            print(step, float(whole).hex(), file=file)
    wanted = torch.tensor(float(os.path.exists("save")))
    dist.all_reduce(wanted, op=dist.ReduceOp.MAX)
    if wanted:
        if os.environ["LOCAL_RANK"] == "0":
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
            torch.save(state, "new.pt")
            os.replace("new.pt", "state.pt")
            with open("saved", "w") as file:
                file.write(str(step + 1))
        dist.barrier()
        if os.environ["LOCAL_RANK"] == "0" and os.path.exists("save"):
            os.remove("save")
    time.sleep(0.05)
dist.barrier()
"""
"""It trains a small model for so many steps, writes each loss, saves when asked, and continues from there."""
