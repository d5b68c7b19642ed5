"""Compare an older version of the package with the working tree: `script/same-as OLD`.

OLD is a wheel or a commit. Both versions get the same files and commands on the lab. Each exit code, output,
request to the lab and file that differs is printed, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

from tests.same_as.comparison import Difference, differences
from tests.same_as.jobs import ROOT, Job, jobs

PLAYER = Path(__file__).with_name("player.py")
PACKED = ("vgpu_cfg", "profiles", "docs/reference/checks")
"""What a wheel is made of: the package reads the boards and the pages of checks, too."""
COUNT, MOST_SHOWN = 8, 20
START_SECONDS, COMMAND_SECONDS = 300, 20
"""How long both versions may take at most, on average over their commands."""


def main() -> int:
    """Run both versions, and print where they differ."""
    parser = argparse.ArgumentParser("script/same-as", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", metavar="OLD", help="a wheel, or a commit")
    parser.add_argument(
        "--count", type=int, default=COUNT, help=f"cases, and random plans, to draw ({COUNT})"
    )
    parser.add_argument("--seed", type=int, default=1, help="the seed that they are drawn by (1)")
    parser.add_argument("--only", metavar="WORD", default="", help="only jobs that have this in their names")
    parser.add_argument("--list", action="store_true", help="print the names of the jobs; run nothing")
    parser.add_argument("--most", type=int, default=MOST_SHOWN, help=f"differences to show ({MOST_SHOWN})")
    asked = parser.parse_args()
    chosen = [job for job in jobs(asked.count, asked.seed) if asked.only in job.name]
    if asked.list:
        print(*(job.name for job in chosen), sep="\n")
        return 0
    if not chosen:
        sys.exit(
            f"no job has {asked.only!r} in its name; --list prints all names, of --count and --seed, too"
        )
    begun = time.monotonic()
    with unpacked(asked.old) as folder:
        found = list(compared(chosen, folder, ROOT))
    for one in found[: asked.most]:
        print(f"{one.job}: {one.what}", *(f"    {line}" for line in one.lines), sep="\n")
    counts = f"{len(chosen)} jobs, {sum(len(job.commands) for job in chosen)} commands"
    print(f"{counts}, {len(found)} differences in {time.monotonic() - begun:.0f} s")
    if len(found) > asked.most:
        jobs_of = sorted({one.job for one in found})
        print(f"{asked.most} of them are shown; --most shows more. They are in: {', '.join(jobs_of)}")
    return int(bool(found))


@contextmanager
def unpacked(old: str) -> Iterator[Path]:
    """Yield a folder with the package of a wheel or a commit. Exits with a message if there is none."""
    with tempfile.TemporaryDirectory(prefix="same-as-") as name:
        folder = Path(name).resolve()
        if old.endswith(".whl"):
            if not Path(old).is_file():
                sys.exit(f"there is no wheel {old}")
            zipfile.ZipFile(old).extractall(folder)
        else:
            command = ["git", "archive", old, *PACKED]
            packed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=60)
            if packed.returncode:
                sys.exit(f"{old!r} is neither a wheel nor a commit: {packed.stderr.decode().strip()}")
            command = ["tar", "--extract", "--directory", str(folder)]
            subprocess.run(command, input=packed.stdout, check=True, timeout=60)
        yield folder


def compared(chosen: Sequence[Job], old: Path, new: Path) -> Iterator[Difference]:
    """Let the packages in two folders run all jobs, one process beside the other; yield where they differ.

    Exits with a message if one of them cannot be run at all.
    """
    with ExitStack() as closing:
        place = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="same-as-")))
        given = place / "jobs.json"
        given.write_text(json.dumps([asdict(job) for job in chosen]), encoding="utf-8")
        outs = [place / "old.jsonl", place / "new.jsonl"]
        running = []
        for folder, out in zip((old, new), outs, strict=True):
            command = [sys.executable, str(PLAYER), str(folder)]
            environment = os.environ | {"PYTHONHASHSEED": "0"}
            with given.open() as stdin, out.open("w") as stdout:
                running.append(
                    subprocess.Popen(command, stdin=stdin, stdout=stdout, cwd=ROOT, env=environment)
                )
        limit = START_SECONDS + COMMAND_SECONDS * sum(len(job.commands) for job in chosen)
        codes = [process.wait(timeout=limit) for process in running]
        if any(codes):
            sys.exit("a version of the package could not be run at all")
        lines = (closing.enter_context(out.open()) for out in outs)
        for before, after in zip(*lines, strict=True):
            yield from differences(json.loads(before), json.loads(after))


if __name__ == "__main__":
    sys.exit(main())
