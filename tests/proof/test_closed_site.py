"""A guest in a site without a way out: real apt and curl, a proxy that wants a login, and nobody else.

The same watch sees what is planted: package sources of the template, and an address beyond the site.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proof.hosts import NotPermitted, check_permitted
from tests.proof.site import Site, make_flat_repository, make_repository, open_site
from tests.unit.staging.sandbox import context, spec_of
from vgpu_cfg.model.guests.modules import AptMirror, GuestModule, SiteModule, SiteProxy
from vgpu_cfg.model.guests.training_modules import ToolkitModule
from vgpu_cfg.staging.bundle import RUNNER, bundle_files

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
MIRROR = AptMirror(url="http://mirror.example.com/debian", suites=("stable",))
PROXY = SiteProxy(http="http://proxy.example.com:3128", user="guests", password="proxy")
PASSWORD = "p@ss:w/rd %$"
VERSION = "1.18.1-1"
WITH_IT = ("nvidia-container-toolkit-base", "libnvidia-container-tools", "libnvidia-container1")
TOOLKIT = ToolkitModule(repository="http://mirror.example.com/libnvidia-container", version=VERSION)
CTK = """#!/bin/sh
# As nvidia-ctk runtime configure --runtime=docker --config=FILE: it makes the file.
for word in "$@"; do
    case $word in
    --config=*)
        mkdir -p "$(dirname "${word#*=}")"
        echo '{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}' >"${word#*=}"
        ;;
    esac
done
"""
OUTSIDE = "Types: deb\nURIs: http://deb.example.net/debian\nSuites: stable\nComponents: main\nTrusted: yes\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that the mirror serves."""
    return tmp_path_factory.mktemp("mirror")


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[Site]:
    """Open the site; its mirror has NVIDIA's repository of the toolkit, and another package by its name."""
    for tool in ("apt-get", "curl", "dpkg-deb", "gpg"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not on this machine")
    key = make_repository(folder, {"nvidia-container-toolkit": {"usr/bin/nvidia-ctk": "#!/bin/sh\nexit 1\n"}})
    toolkit = folder / "libnvidia-container"
    packages: dict[str, dict[str, str]] = {name: {} for name in WITH_IT}
    packages["nvidia-container-toolkit"] = {"usr/bin/nvidia-ctk": CTK}
    (toolkit / "gpgkey").parent.mkdir()
    (toolkit / "gpgkey").write_bytes(make_flat_repository(toolkit / "stable/deb/amd64", VERSION, packages))
    try:
        check_permitted()
        with open_site(folder, f"{PROXY.user}:{PASSWORD}") as made:
            program = f"open({KEYRING!r}, 'wb').write(bytes.fromhex({key.hex()!r}))"
            done = made.guest.execute("python3", "-c", program)
            assert done.returncode == 0, done.stderr
            # No service is to be started anew here.
            made.guest.write("/usr/local/sbin/systemctl", "#!/bin/sh\nexit 0\n", 0o755)
            made.guest.write("/etc/apt/sources.list.d/outside.sources", OUTSIDE)
            yield made
    except NotPermitted as reason:
        pytest.skip(f"no site can be made of namespaces here: {reason}")


def stage(site: Site, *modules: GuestModule) -> None:
    """Bring modules into the guest as the runner does, and let all of them come true."""
    spec = spec_of(*modules)
    for one in bundle_files(context(spec, proxy=PASSWORD), [module.kind for module in modules]):
        site.guest.write(one.path, one.content, one.mode)
    done = site.guest.execute(RUNNER)
    log = site.guest.execute("tail", "-n", "40", "/var/log/vgpu-cfg.log").stdout
    assert done.returncode == 0, done.stdout + log


def closed(*no_proxy: str) -> SiteModule:
    """Return the closed site, by its proxy but for some names."""
    proxy = PROXY.model_copy(update={"no_proxy": no_proxy})
    return SiteModule(proxy=proxy, apt=MIRROR, runtime="docker", closed=True, hosts=("mirror.example.com",))


def test_the_watch_sees_a_planted_source(site: Site) -> None:
    site.guest.execute("apt-get", "-qq", "update")
    seen = site.seen()
    assert "asks for deb.example.net" in seen
    assert len(seen) > 1, "this machine's own sources are the template's"


def test_the_watch_sees_an_address_beyond_the_site(site: Site) -> None:
    site.guest.execute("curl", "-s", "--max-time", "2", "http://198.51.100.7/driver.run")
    assert site.seen() == ["turns to 198.51.100.7:80"]


def test_all_comes_by_the_proxy_and_nothing_else_is_contacted(site: Site, folder: Path) -> None:
    key = (folder / "libnvidia-container/gpgkey").read_bytes()
    pinned = TOOLKIT.model_copy(update={"key_sha256": hashlib.sha256(key).hexdigest()})
    stage(site, closed(), pinned)
    assert site.seen() == []
    assert site.guest.execute("nvidia-ctk").returncode == 0
    asked = site.proxied()
    assert "http://mirror.example.com/debian/dists/stable/InRelease" in asked, "apt"
    assert "http://mirror.example.com/libnvidia-container/gpgkey" in asked, "curl"
    query = ("dpkg-query", "--show", "--showformat=${Version}", "nvidia-container-toolkit")
    assert site.guest.execute(*query).stdout == VERSION
    # A second run finds all of it, and contacts nobody.
    site.mirror.execute("rm", "/tmp/proxied")
    stage(site, closed(), TOOLKIT)
    assert (site.seen(), site.proxied()) == ([], [])


def test_what_needs_no_proxy_is_reached_without_it(site: Site) -> None:
    stage(site, closed(".example.com"))
    site.mirror.execute("rm", "-f", "/tmp/proxied")
    site.guest.execute("rm", "-rf", "/var/lib/apt/lists")
    head = "set -a; . /etc/vgpu-cfg/proxy.env; set +a; "
    for words in ("apt-get update", "curl -fsS http://mirror.example.com/libnvidia-container/gpgkey"):
        done = site.guest.execute("sh", "-c", head + words)
        assert done.returncode == 0, done.stdout + done.stderr
    assert (site.seen(), site.proxied()) == ([], [])


def test_a_wrong_password_is_noticed(site: Site) -> None:
    stage(site, closed())
    said = site.guest.read("/etc/vgpu-cfg/proxy.env").replace("guests:", "nobody:")
    site.guest.write("/etc/vgpu-cfg/proxy.env", said, 0o600)
    script = "set -a; . /etc/vgpu-cfg/proxy.env; set +a; curl -fsS http://mirror.example.com/"
    assert "407" in site.guest.execute("sh", "-c", script).stderr
    assert site.seen() == []
