"""Containers in a guest, run by docker, nerdctl and the rest, and the launchers in their images.

Containers run in the guest itself, with its GPUs. The PyTorch and the Open MPI of an image answer with their
own output. Versions are those of PyTorch's own wheel 2.6.0 (CUDA 12.6, NCCL 2.21.5), and of an Open MPI of
that year: what NVIDIA's images of a month hold, the lab does not know.

NVIDIA's TensorFlow images hold the Horovod of their release notes ("TensorFlow Release 20.10" and so on); a
month between is assumed to hold that of the one before. The options and error messages of horovodrun are
those of `horovod/runner/launch.py` of the releases.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Sequence

from vgpu_cfg.lab.estates.guests import ImagePart
from vgpu_cfg.lab.guest.shell import Result, Session, run_words
from vgpu_cfg.lab.guest.staging.modules_training import WORKER
from vgpu_cfg.lab.guest.staging.work import Work, contents_of, environment_of
from vgpu_cfg.lab.guest.system.gpus import driven_gpus, newer_library
from vgpu_cfg.lab.guest.tools.base import WRONG_USE, fail, out
from vgpu_cfg.lab.state.guest import fault_of

_LISTED = (
    ((20, 10), "0.20.0"),
    ((21, 4), "0.21.3"),
    ((21, 5), "0.21.3"),
    ((21, 6), "0.22.0"),
    ((21, 10), "0.22.0"),
)
"""Releases whose notes were read, the oldest first."""


_LAST = "0.28.1"
"""The last release of Horovod: what images hold of which nothing else is known."""


_TENSORFLOW = re.compile(r"nvidia/tensorflow:(\d\d)\.(\d\d)-")


_VALUED = {
    *("-np", "--num-proc", "-p", "--ssh-port", "-i", "--ssh-identity-file", "--start-timeout"),
    *("-H", "--hosts", "-hostfile", "--hostfile", "--output-filename", "--network-interface"),
}
"""Options with a value, of all versions; of the many more the lab knows none."""


_FLAGS = {"--disable-cache", "--verbose", "--gloo", "--mpi", "-h", "--help"}


_RENAMED = "--network-interfaces"
"""Since 0.25.0; the older word stayed."""


_ELASTIC = {"--host-discovery-script", "--min-np", "--max-np", "--reset-limit"}
"""Since 0.20.0."""


BUILD = """\
Horovod v{version}:

Available Frameworks:
    [X] TensorFlow
    [ ] PyTorch
    [ ] MXNet

Available Controllers:
    [X] MPI
    [X] Gloo

Available Tensor Operations:
    [X] NCCL
    [ ] DDL
    [ ] CCL
    [X] MPI
    [X] Gloo"""
"""What `horovodrun --check-build` prints."""


VALUED = frozenset(
    {
        "-v", "--volume", "-e", "--env", "--name", "--gpus", "--network", "--net", "--ipc", "--ulimit",
        "--device", "--cap-add", "--shm-size", "-w", "--workdir", "-u", "--user", "--entrypoint",
        "--env-file", "--mount",
        "--pull", "--runtime", "--hostname", "--format", "-f", "--filter",
    }
)  # fmt: skip
NO_RUNTIME = 'could not select device driver "" with capabilities: [[gpu]]'
DAEMON = "docker: Error response from daemon:"
DAEMON_FAILED = 125

TORCH = ("torch 2.6.0+cu126", "cuda 12.6", "nccl 2.21.5", "distributed yes")
MPIRUN = "mpirun (Open MPI) 4.1.7\n\nReport bugs to http://www.open-mpi.org/community/help/"
_ABSENT = 127


def docker(session: Session, arguments: Sequence[str], stdin: bytes) -> Result:
    """Answer docker's commands, as far as clients need them."""
    guest = session.guest
    if not {"docker", "containerd"} & set(guest.runtimes):
        return Result(127, err=b"sh: 1: docker: not found\n")
    words = list(arguments)
    match words[:2]:
        case ["info", *_]:
            runtimes = ["io.containerd.runc.v2", *(["nvidia"] if guest.toolkit else []), "runc"]
            if any("Runtimes" in word for word in words):
                return out(" ".join(runtimes))
            return out(
                "Server:", f" Images: {len(guest.images)}", " Server Version: 26.1.3",
                f" Runtimes: {' '.join(runtimes)}", " Default Runtime: runc", f" Name: {guest.host_name}",
            )  # fmt: skip
        case ["ps", *_]:
            return _listed(session, words)
        case ["images", *_]:
            return out(*guest.images)
        case ["image", "inspect"] | ["inspect", *_]:
            return _inspect(session, words)
        case ["container", "inspect"]:
            return _inspect(session, words)
        case ["run", *_]:
            return _run(session, words[1:], stdin)
        case ["exec", *_]:
            return _exec(session, words[1:], stdin)
        case ["version" | "--version", *_]:
            return out("Docker version 26.1.3")
        case _:
            return fail(f"docker: '{words[0] if words else ''}' is not a docker command.")


def _listed(session: Session, words: Sequence[str]) -> Result:
    """List containers by name, and by a format with their images: the worker's, and those of workloads."""
    guest = session.guest
    image = guest.images[0] if guest.images else "<none>"
    names = [WORKER] if guest.services.get(WORKER) else []
    names += [one.container for one in guest.workloads if one.container]
    form = words[words.index("--format") + 1] if "--format" in words else "{{.Names}}"
    rows = (form.replace("{{.Names}}", name).replace("{{.Image}}", image) for name in dict.fromkeys(names))
    return out(*rows)


def _inspect(session: Session, words: Sequence[str]) -> Result:
    """Inspect an image, or the container that trains: everything as nothing, or its id by a format."""
    guest, name = session.guest, words[-1]
    if name not in guest.images and not (name == WORKER and guest.services.get(WORKER)):
        return fail(f"Error: No such object: {name}")
    if not any(word in ("{{.Id}}", "{{.Image}}") for word in words):
        return out("[{}]")
    image = guest.images[0] if name == WORKER and guest.images else name
    content = f"{image}{fault_of(guest, 'image')}"
    return out(f"sha256:{hashlib.sha256(content.encode()).hexdigest()}")


def apptainer(session: Session, arguments: Sequence[str], stdin: bytes) -> Result:
    """Answer Apptainer: its version, and what runs in the file of an image."""
    guest, words = session.guest, list(arguments)
    if "apptainer" not in guest.runtimes:
        return Result(127, err=b"sh: 1: apptainer: not found\n")
    if words == ["--version"]:
        return out("apptainer version 1.3.4")
    if words[:1] != ["exec"]:
        return fail("apptainer: unknown command")
    options, path, command = _split(words[1:])
    files = {hashlib.sha256(image.encode()).hexdigest()[:16]: image for image in guest.images}
    image = files.get(posixpath.basename(path).removesuffix(".sif"))
    if image is None:
        return fail(f"FATAL:   could not open image {path}: no such file or directory", status=255)
    return _inside(session, image, "", command, stdin, gpus="--nv" in options)


def _split(words: Sequence[str]) -> tuple[dict[str, str], str, list[str]]:
    """Return the options, the image or container, and the command in it."""
    options: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).partition("=")
        options[name] = value if equals else rest.pop(0) if name in VALUED and rest else ""
    return options, rest[0] if rest else "", rest[1:]


def _run(session: Session, words: Sequence[str], stdin: bytes) -> Result:
    options, image, command = _split(words)
    guest = session.guest
    if image not in guest.images:
        return fail(f"Unable to find image '{image}' locally", status=DAEMON_FAILED)
    if "--gpus" in options:
        if "docker" not in guest.toolkit and "containerd" not in guest.toolkit:
            return fail(f"{DAEMON} {NO_RUNTIME}.", status=DAEMON_FAILED)
        if not driven_gpus(session.lab.state, session.vm):
            text = "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown."
            return fail(f"{DAEMON} failed to create task for container: {text}", status=DAEMON_FAILED)
        if newer_library(guest):
            reason = "nvml error: driver/library version mismatch: unknown."
            text = f"nvidia-container-cli: initialization error: {reason}"
            return fail(f"{DAEMON} failed to create task for container: {text}", status=DAEMON_FAILED)
    return _inside(session, image, options.get("--entrypoint", ""), command, stdin, gpus="--gpus" in options)


def _exec(session: Session, words: Sequence[str], stdin: bytes) -> Result:
    _, container, command = _split(words)
    if container != WORKER or not session.guest.services.get(WORKER):
        return fail(f"Error response from daemon: No such container: {container}")
    image = session.guest.images[0] if session.guest.images else ""
    return _inside(session, image, "", command, stdin, gpus=True)


def _inside(
    session: Session,
    image: str,
    entry: str,
    command: Sequence[str],
    stdin: bytes,
    *,
    gpus: bool,
) -> Result:
    words = [*([entry] if entry else []), *command]
    line = " ".join(words)
    holds = contents_of(Work(session.lab, session.vm, "image", {}, ""), image)
    if "horovodrun --check-build" in line or "import horovod" in line:
        if holds.horovod:
            return out(BUILD.format(version=version_of(image))) if "horovodrun" in line else Result()
        if "horovodrun" in line:
            return fail('exec: "horovodrun": executable file not found in $PATH: unknown.', status=127)
        return fail("ModuleNotFoundError: No module named 'horovod'")
    if (answer := answer_of(holds, words)) is not None:
        return answer
    if words[:1] == ["horovodrun"]:
        return horovodrun(version_of(image), words[1:])
    if words == ["env"]:
        stated = environment_of(session.lab.state.internet, image)
        return out("PATH=/usr/local/bin:/usr/bin:/bin", *(f"{key}={value}" for key, value in stated.items()))
    if not gpus and words[:1] == ["nvidia-smi"]:
        return fail('exec: "nvidia-smi": executable file not found in $PATH: unknown.', status=127)
    return run_words(session, words, stdin) if words else Result()


def horovodrun(version: str, words: Sequence[str]) -> Result:
    """Answer the questions to a version of horovodrun; its started processes print nothing."""
    if words[:1] in (["-v"], ["--version"]):
        return out(version)
    complaint = complaint_about(version, words)
    return fail("usage: horovodrun [-h] [-v] -np NP", complaint, status=WRONG_USE) if complaint else Result()


def answer_of(image: ImagePart, words: Sequence[str]) -> Result | None:
    """Answer what an image's PyTorch or mpirun is asked; None where the question is about neither."""
    line = " ".join(words)
    if "import torch" in line:
        if not image.torch:
            return fail("ModuleNotFoundError: No module named 'torch'", status=1)
        found = out(*TORCH) if 'print("torch"' in line else out("True")
        return Result(found.status, found.out, b"/usr/local/bin/torchrun\n")
    if words[:1] == ["mpirun"]:
        if not image.mpi:
            return fail('exec: "mpirun": executable file not found in $PATH: unknown.', status=_ABSENT)
        return out(MPIRUN)
    return None


def version_of(image: str) -> str:
    """Return the version of Horovod in an image."""
    found = _TENSORFLOW.search(image)
    if found is None:
        return _LAST
    release = int(found[1]), int(found[2])
    if release > _LISTED[-1][0]:
        return _LAST
    return next((version for listed, version in reversed(_LISTED) if listed <= release), _LISTED[0][1])


def complaint_about(version: str, words: Sequence[str]) -> str:
    """Return what horovodrun of a version finds wrong with its words, "" where it starts."""
    number = _numbers(version)
    knows = (
        _VALUED | (_ELASTIC if number >= (0, 20) else set()) | ({_RENAMED} if number >= (0, 25) else set())
    )
    rest, unknown, given = list(words), [], set()
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        name, equals, _ = word.partition("=")
        given.add(name)
        if name in knows:
            rest = rest if equals else rest[1:]
        elif name not in _FLAGS:
            unknown.append(word)
    if not given & {"-np", "--num-proc"}:
        return "horovodrun: error: the following arguments are required: -np/--num-proc"
    return f"horovodrun: error: unrecognized arguments: {' '.join(unknown)}" if unknown else ""


def complaint_about_script(version: str, text: str) -> str:
    """Return what horovodrun finds wrong with a script that starts it, "" where the script has a word for it.

    The lab runs no scripts. It looks for the word that changed; a script that has both is taken to know when.
    """
    words = sorted(set(re.findall(r"--network-interfaces?\b", text)))
    complaints = [complaint_about(version, ("-np", "1", word, "eth0", "true")) for word in words]
    return complaints[0] if complaints and all(complaints) else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
