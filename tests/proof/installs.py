"""Run the install lines of the pages in a minimal Debian: script/check-installs.

Each page gets a fresh root folder with a copy of the checkout in /src. Its lines run there in order, those of
pip in an activated virtual environment. KNOWN has the projects of a package index that lines may name.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.proof.image import LENT_CERTIFICATES, ROOT, Stage, run

PAGES = ("README.md", "docs/how-to/*.md", "docs/reference/*.md", "docs/tutorial/*.md", "examples/*/README.md")
LINE = re.compile(
    r"script/bootstrap\b.*|(?:/opt/vgpu-cfg/bin/)?pip (?:install|wheel) .*|python3 -m venv .*"
    r"|uv tool install .*|pipx install .*|ansible-galaxy collection .*|apt-get install .*"
    r"|cd \.\./site|cd /path/to/copy"
)
KNOWN = {"pytest"}
"""Projects of a package index that the pages may name; vgpu-cfg is not in one."""
CHECKOUT = (
    *("pyproject.toml", "constraints.txt", "README.md", "LICENSE"),
    *("vgpu_cfg", "profiles", "docs", "script", "ansible_collection"),
)
PREPARED = """
apt-get update -qq
export DEBIAN_FRONTEND=noninteractive
apt-get install -y -qq --no-install-recommends python3 python3-venv pipx >/dev/null
python3 -m venv /venv
/venv/bin/pip install --quiet uv ansible-core
mkdir -p /site /path/to/copy
"""


def lines_of(text: str) -> list[str]:
    """List a page's install lines, in blocks and in sentences, each once."""
    blocks = [
        line.strip()
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        for line in block.splitlines()
    ]
    spans = re.findall(r"(?<!`)`([^`]+)`(?!`)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    spoken = [" ".join(span.split()) for span in spans]
    offered = [one.strip() for line in [*blocks, *spoken] for one in re.split(r"# or:", line)]
    return list(dict.fromkeys(line for line in offered if LINE.fullmatch(line)))


def named(line: str) -> set[str]:
    """Name the projects of a package index that a line installs."""
    verb = re.search(r"(?:pip|pipx|uv tool) install (.*)", line)
    words = re.sub(r"--\S+ \S+", "", verb[1]).split() if verb else []
    return {word for word in words if re.fullmatch(r"[\w-]+", word.strip('"'))}


def pages() -> dict[tuple[str, ...], str]:
    """Map install lines to the first page that has them."""
    files = [path for pattern in PAGES for path in sorted(ROOT.glob(pattern)) if path.name != "explain.md"]
    found: dict[tuple[str, ...], str] = {}
    for path in files:
        lines = lines_of(path.read_text(encoding="utf-8"))
        if any(not line.startswith("cd ") for line in lines):
            found.setdefault(tuple(lines), str(path.relative_to(ROOT)))
    return found


def try_page(lines: Sequence[str], prepared: Path, place: Path) -> list[tuple[str, str, float]]:
    """Run a page's lines in a copy of a root folder; return each with its error and seconds."""
    subprocess.run(
        ["/usr/bin/cp", "-a", "--reflink=auto", str(prepared), str(place)], check=True, timeout=600
    )
    path = "/venv/bin:/root/.local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    stage = Stage(place, workdir="/src", env={"PATH": path, "SSL_CERT_FILE": LENT_CERTIFICATES})
    told = []
    for line in lines:
        began = time.monotonic()
        if line.startswith("cd "):
            stage.workdir = "/site" if line.endswith("site") else "/path/to/copy"
            continue
        words = line.replace("apt-get install", "apt-get install -y -qq")
        try:
            run(stage, ["/bin/sh", "-c", f"exec 2>&1; {words}"], lends=True)
            error = ""
        except subprocess.CalledProcessError as failed:
            error = failed.stdout.strip().splitlines()[-1]
        told.append((line, error, time.monotonic() - began))
    subprocess.run(["/usr/bin/rm", "-rf", str(place)], check=True, timeout=600)
    return told


def main() -> int:
    """Try all pages on the root folder `argv[1]`, in the folder `argv[2]`."""
    base, places = map(Path, sys.argv[1:3])
    prepared = places / "prepared"
    subprocess.run(["/usr/bin/cp", "-a", str(base), str(prepared)], check=True, timeout=600)
    run(Stage(prepared), ["/bin/sh", "-ec", PREPARED], lends=True)
    (prepared / "src").mkdir()
    for name in CHECKOUT:
        subprocess.run(
            ["/usr/bin/cp", "-a", str(ROOT / name), str(prepared / "src")], check=True, timeout=600
        )
    failed = 0
    for lines, page in pages().items():
        print(page)  # noqa: T201 - a command prints
        for line, error, seconds in try_page(lines, prepared, places / "page"):
            failed += bool(error)
            print(f"  {error or 'ok'}: {line} ({seconds:.0f} s)", flush=True)  # noqa: T201 - as above
    print(f"{failed} failed")  # noqa: T201 - as above
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
