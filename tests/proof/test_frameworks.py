"""`train` starts TensorFlow, Ray, DeepSpeed and Lightning on two hosts, by the files of the guide.

TensorFlow 2.12 is that of the proof with Horovod. `script/build-frameworks` fetches Ray, and with `--all`
what takes gigabytes, too: PyTorch with DeepSpeed, Lightning and Ray Train, and a later TensorFlow.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from signal import SIGINT

import pytest

from tests.proof.conftest import ENVIRONMENT
from tests.proof.guests import Guests
from tests.proof.programs import RAY_NODES, RAY_WAITS, TORCH_SUM

ROOT = Path(__file__).resolve().parents[2]
FRAMEWORKS = ROOT / ".cache" / "frameworks"
HOSTS = ("hvd-01", "hvd-02")
pytestmark = [
    pytest.mark.long("frameworks take long to import"),
    pytest.mark.timeout(1200),
]


def programs_of(name: str) -> Path:
    """Return the folder of a framework's programs; skip where it was not fetched."""
    folder = ENVIRONMENT / "bin" if name == "tensorflow-2.12" else FRAMEWORKS / name / "bin"
    if not (folder / "python").exists():
        pytest.skip(f"{name} is not there: script/build-frameworks, or with --all, or script/build-proof")
    return folder


def in_guide(section: str, fence: str) -> str:
    """Return the first block of this kind in a section of the guide."""
    text = (ROOT / "docs" / "how-to" / "train-on-several-vms.md").read_text(encoding="utf-8")
    _, found, after = text.partition(f"# {section}\n")
    assert found, section
    block = re.search(rf"^```{fence}\n(.*?)^```$", after.partition("\n#")[0], re.MULTILINE | re.DOTALL)
    assert block is not None, section
    return block[1]


def train(guests: Guests, by: str, folder: Path, program: str, *before: str, **environment: str) -> list[str]:
    """Start a program by `train`, as far as it ends well, and leaves nothing; return what each rank said."""
    done = guests.launch(by, program, programs=str(folder), before=before, environment=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert guests.left() == []
    logs = guests.logs()
    return [logs["rank-0.log"], logs["rank-1.log"]]


def with_ray_script(guests: Guests) -> tuple[str, ...]:
    """Put ray.sh of the guide on both hosts; return what starts it."""
    for one in guests.hosts:
        one.write("/tmp/ray.sh", in_guide("Ray", "sh"))
    return ("sh", "/tmp/ray.sh")


@pytest.mark.parametrize("release", ["tensorflow-2.12", "tensorflow"])
def test_tensorflow_trains_on_both(guests: Guests, release: str) -> None:
    program = in_guide("TensorFlow", "python")
    for number, said in enumerate(train(guests, "none", programs_of(release), program)):
        # Either host alone would come to another weight.
        assert f"worker {number}, 2 GPUs or hosts in all: -16.25\n" in said


def test_ray_has_a_node_on_each(guests: Guests) -> None:
    folder = programs_of("ray")
    script = with_ray_script(guests)
    first, _ = train(guests, "none", folder, RAY_NODES, *script)
    assert f"NODES 10.111.0.11 10.111.0.12 {' '.join(HOSTS)}\n" in first
    assert_ray_goes(guests)


def test_ray_is_ended_everywhere(guests: Guests) -> None:
    folder = programs_of("ray")
    script = with_ray_script(guests)
    ended, said = guests.interrupt("none", RAY_WAITS, SIGINT, programs=str(folder), before=script)
    assert (ended, guests.left()) == (130, []), said
    assert_ray_goes(guests)


def test_ray_train_trains_on_both(guests: Guests) -> None:
    folder = programs_of("torch")
    program = in_guide("Ray", "python")
    first, _ = train(guests, "none", folder, program, *with_ray_script(guests))
    assert_weights_agree(first)


@pytest.mark.parametrize("by", ["torchrun", "mpi"])
@pytest.mark.parametrize("section", ["DeepSpeed", "Lightning and NeMo"])
def test_deepspeed_and_lightning_train_on_both(guests: Guests, section: str, by: str) -> None:
    folder = programs_of("torch")
    said = train(
        guests,
        by,
        folder,
        in_guide(section, "python"),
        TORCH_EXTENSIONS_DIR=str(folder.parent / "extensions"),
    )
    assert_weights_agree("".join(said))


def assert_ray_goes(guests: Guests) -> None:
    """Ray's agents hide their environment, so nobody ends them: they go by themselves, after their node."""
    look = "cat /proc/[0-9]*/cmdline 2>/dev/null | grep -qaE '[/]raylet|[/]gcs_server|ray[:][:]'"
    for one in guests.hosts:
        done = one.execute("sh", "-c", f"for n in $(seq 1200); do {look} || exit 0; sleep 0.1; done; exit 1")
        assert done.returncode == 0, one.name


def assert_weights_agree(said: str) -> None:
    """Each host has a rank, and both have come to one weight though their data differ."""
    found = re.findall(r"rank (\d) of 2 on (\S+): (-?\d+\.\d+)", said)
    assert sorted({one[0] for one in found}) == ["0", "1"], said
    assert sorted({one[1] for one in found}) == [*HOSTS], said
    assert len({one[2] for one in found}) == 1


@pytest.mark.parametrize("by", ["torchrun", "mpi"])
def test_a_later_torch_sums_exactly(guests: Guests, by: str) -> None:
    for number, said in enumerate(train(guests, by, programs_of("torch"), TORCH_SUM)):
        assert f"SUMMED {number} 2 {HOSTS[number]} 10.111.0.11\n" in said


def test_deepspeed_reads_the_host_file(guests: Guests) -> None:
    folder = programs_of("torch")
    read = (
        "from deepspeed.launcher import runner; print(dict(runner.fetch_hostfile('/opt/vgpu-cfg/hostfile')))"
    )
    done: subprocess.CompletedProcess[str] = guests["hvd-01"].execute(str(folder / "python"), "-c", read)
    assert done.stdout.splitlines()[-1] == "{'hvd-01': 1, 'hvd-02': 1}", done.stderr
