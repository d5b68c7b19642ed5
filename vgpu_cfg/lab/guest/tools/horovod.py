"""Which Horovod an image holds, and what its horovodrun says of its words.

NVIDIA's TensorFlow images hold what their release notes list ("TensorFlow Release 20.10" and so on, Horovod);
of a month between, it is taken that it holds what the one before does. What horovodrun knows, and how it
complains, is what `horovod/runner/launch.py` of the releases does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

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
