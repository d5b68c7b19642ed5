"""What a guest is told of its site: proxy, mirrors, certificates, and package sources that are set aside."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.staging.sandbox import Sandbox, context, spec_of, tool
from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.modules import AptMirror, SiteModule, SiteProxy
from vgpu_cfg.model.plan_file.site_values import parse_certificates
from vgpu_cfg.staging.bundle import stage_module

PROXY = SiteProxy(
    http="http://proxy.example.com:3128", https="http://proxy.example.com:3128", no_proxy=(".example.com",)
)
LOGIN = PROXY.model_copy(update={"user": "guests", "password": "proxy"})
PASSWORD = "p@ss:w/rd %$'\""
ENVIRONMENT = "/etc/vgpu-cfg/proxy.env"
APT_PROXY = "/etc/apt/apt.conf.d/90vgpu-cfg-proxy"
SOURCES = "/etc/apt/sources.list.d/vgpu-cfg-site.sources"
REPOSITORIES = "/etc/yum.repos.d/vgpu-cfg-site.repo"
DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nVERSION_CODENAME=trixie\nID=debian\n'
UBUNTU = 'PRETTY_NAME="Ubuntu 24.04 LTS"\nVERSION_CODENAME=noble\nID=ubuntu\nID_LIKE=debian\n'
MIRROR = AptMirror(url="http://mirror.example.com/debian")
CLOSED = SiteModule(apt=MIRROR, closed=True, hosts=(".example.com", "10.0.0.5"))
OWN_DEB822 = "Types: deb\nURIs: http://deb.debian.org/debian\nSuites: trixie\nComponents: main\n"


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    made = Sandbox(tmp_path)
    made.real("python3")
    made.stand_in("apt-get")
    made.write("/etc/os-release", DEBIAN)
    (made.root / "etc/ssl/certs").mkdir(parents=True)
    made.stand_in(
        "update-ca-certificates",
        'cd "$ROOT" && cat usr/local/share/ca-certificates/*.crt >etc/ssl/certs/ca-certificates.crt || :',
    )
    made.stand_in("systemctl")
    return made


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("ca") / "ca.crt"
    words = [
        tool("openssl"),
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
    ]
    words += ["-keyout", "/dev/null", "-out", str(path), "-days", "1", "-subj", "/CN=the site's CA"]
    subprocess.run(words, check=True, capture_output=True, timeout=120)
    return path.read_text()


def read_as_sh(path: Path) -> dict[str, str]:
    """Return the proxy's variables as a shell reads them."""
    done = subprocess.run(
        [tool("dash"), "-c", 'set -a; . "$1"; env -0', "sh", str(path)],
        env={}, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    pairs = (line.partition("=") for line in done.stdout.split("\0") if "proxy" in line.lower())
    return {name: value for name, _, value in pairs}


def test_a_proxy_is_told_to_all_that_fetch(sandbox: Sandbox) -> None:
    sandbox.bring(sandbox.stage(SiteModule(proxy=PROXY, runtime="docker")))
    url, direct = PROXY.http, "localhost,127.0.0.1,::1,.example.com"
    named = read_as_sh(sandbox.path(ENVIRONMENT))
    assert named == {
        name: value
        for lower, value in (("http_proxy", url), ("https_proxy", url), ("no_proxy", direct))
        for name in (lower, lower.upper())
    }
    assert sandbox.mode(ENVIRONMENT) == 0o644
    drop_in = sandbox.read("/etc/systemd/system/docker.service.d/50-vgpu-cfg-proxy.conf")
    assert f"EnvironmentFile=-{ENVIRONMENT}" in drop_in
    assert 'Acquire::https::Proxy "http://proxy.example.com:3128";' in sandbox.read(APT_PROXY)


def test_scripts_of_modules_take_the_proxy(sandbox: Sandbox) -> None:
    sandbox.bring(sandbox.stage(SiteModule(proxy=PROXY)))
    head = sandbox.stage(SiteModule(closed=True)).partition("\ncheck() {")[0] + "\n"
    assert "http_proxy=http://proxy.example.com:3128" in sandbox.run(head + "env\n").output


def test_a_password_is_readable_by_root_alone_and_lies_nowhere_else(sandbox: Sandbox) -> None:
    module = SiteModule(proxy=LOGIN, runtime="containerd")
    script = sandbox.stage(module, proxy=PASSWORD)
    sandbox.bring(script)
    url = "http://guests:p%40ss%3Aw%2Frd%20%25%24%27%22@proxy.example.com:3128"
    assert read_as_sh(sandbox.path(ENVIRONMENT))["https_proxy"] == url
    holding = [
        str(path.relative_to(sandbox.root))
        for path in sandbox.root.rglob("*")
        if path.is_file() and "p%40ss" in path.read_text(errors="replace")
    ]
    assert sorted(holding) == sorted(path.lstrip("/") for path in (ENVIRONMENT, APT_PROXY))
    assert {sandbox.mode(ENVIRONMENT), sandbox.mode(APT_PROXY)} == {0o600}
    assert PASSWORD not in script
    assert "p%40ss" not in script
    # Another password is brought, and noticed.
    again = sandbox.stage(module, proxy="other")
    assert sandbox.run(again, "check").why == "the proxy's login was updated"
    assert sandbox.run(again, "apply").status == 0
    assert "guests:other@" in sandbox.read(ENVIRONMENT)
    sandbox.write(ENVIRONMENT, 'http_proxy="http://elsewhere:1"\n', 0o600)
    assert sandbox.run(again, "check").status != 0


def test_a_password_that_nobody_knows() -> None:
    module = SiteModule(proxy=LOGIN)
    with pytest.raises(GuestError, match="the proxy password has no value"):
        stage_module(module, context(spec_of(module)))


def test_the_clone_carries_nothing_from_the_password_on() -> None:
    assert spec_of(SiteModule(proxy=LOGIN)).carried == ()
    assert spec_of(SiteModule(proxy=PROXY)).carried == ("site",)


def test_apts_sources_of_debian(sandbox: Sandbox) -> None:
    sandbox.write("/etc/apt/sources.list.d/debian.sources", OWN_DEB822)
    sandbox.write("/etc/apt/sources.list", "# deb http://deb.debian.org/debian trixie main\n")
    sandbox.write("/etc/apt/sources.list.d/tools.list", "deb https://tools.example.org/apt stable main\n")
    module = SiteModule(
        apt=MIRROR.model_copy(update={"security": "http://mirror.example.com/debian-security"})
    )
    sandbox.bring(sandbox.stage(module))
    assert sandbox.read(SOURCES).splitlines() == [
        "# Written by vgpu-cfg.",
        "Types: deb",
        "URIs: http://mirror.example.com/debian",
        "Suites: trixie trixie-updates",
        "Components: main",
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg",
        "",
        "Types: deb",
        "URIs: http://mirror.example.com/debian-security",
        "Suites: trixie-security",
        "Components: main",
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg",
        "",
    ]
    there = sorted(path.name for path in sandbox.path("/etc/apt/sources.list.d").iterdir())
    # A mirror takes the place of the distribution's own; what somebody added stays.
    assert there == ["debian.sources.disabled", "tools.list", "vgpu-cfg-site.sources"]
    assert sandbox.path("/etc/apt/sources.list").exists()


def test_apts_sources_of_ubuntu(sandbox: Sandbox) -> None:
    sandbox.write("/etc/os-release", UBUNTU)
    sandbox.write("/etc/apt/sources.list", "deb http://archive.ubuntu.com/ubuntu noble main\n")
    sandbox.bring(sandbox.stage(SiteModule(apt=AptMirror(url="https://mirror.example.com/ubuntu"))))
    said = sandbox.read(SOURCES)
    assert "Suites: noble noble-updates noble-security\n" in said
    assert "Components: main restricted universe multiverse\n" in said
    assert "ubuntu-archive-keyring.gpg" in said
    assert not sandbox.path("/etc/apt/sources.list").exists()


def test_a_mirror_with_other_suites(sandbox: Sandbox) -> None:
    apt = AptMirror(url="http://mirror.example.com/d", suites=("stable",), components=("main", "contrib"))
    sandbox.bring(sandbox.stage(SiteModule(apt=apt)))
    assert "Suites: stable\nComponents: main contrib\n" in sandbox.read(SOURCES)


@pytest.mark.parametrize(
    ("line", "stays"),
    [
        ("deb [arch=amd64 signed-by=/k.gpg] https://download.docker.com/linux/debian trixie stable", False),
        ("deb http://user:word@repo.example.org/x y z", False),
        ("deb mirror://mirrors.ubuntu.com/mirrors.txt noble main", False),
        ("deb http://repo.example.com:8080/x y z", True),
        ("deb http://10.0.0.5/x y z", True),
        ("deb http://example.com.evil.test/x y z", False),
        ("deb http://notexample.com/x y z", False),
        ("deb file:/srv/repo ./", True),
        ("deb [trusted=yes] file:///srv/repo ./", True),
        ("#deb http://elsewhere.test/x y z", True),
    ],
)
def test_a_closed_site_sets_aside_what_leads_out(sandbox: Sandbox, line: str, stays: bool) -> None:
    path = "/etc/apt/sources.list.d/some.list"
    sandbox.write(path, f"{line}\n")
    sandbox.bring(sandbox.stage(CLOSED))
    assert sandbox.path(path).exists() is stays


def test_what_was_set_aside_comes_back(sandbox: Sandbox) -> None:
    path = "/etc/apt/sources.list.d/debian.sources"
    sandbox.write(path, OWN_DEB822)
    sandbox.bring(sandbox.stage(CLOSED))
    assert not sandbox.path(path).exists()
    script = sandbox.stage(SiteModule())
    assert sandbox.run(script, "check").why == f"a previous site configuration left {SOURCES}"
    sandbox.bring(script)
    assert sandbox.read(path) == OWN_DEB822
    assert not sandbox.path(SOURCES).exists()


def test_what_the_site_does_not_ask_for_any_more_goes(sandbox: Sandbox, authority: str) -> None:
    full = SiteModule(
        proxy=PROXY, runtime="docker", certificates=parse_certificates(authority),
        registry_mirrors={"docker.io": "https://mirror.example.com"},
    )  # fmt: skip
    sandbox.bring(sandbox.stage(full))
    sandbox.bring(sandbox.stage(SiteModule(runtime="docker")))
    assert [str(path) for path in sandbox.path("/etc").rglob("*proxy*") if path.is_file()] == []
    assert list(sandbox.path("/usr/local/share/ca-certificates").iterdir()) == []
    assert json.loads(sandbox.read("/etc/docker/daemon.json")) == {}


def test_dnfs_repositories(sandbox: Sandbox) -> None:
    sandbox.without("apt-get")
    sandbox.stand_in("dnf")
    sandbox.write("/etc/pki/rpm-gpg/RPM-GPG-KEY-Rocky-9", "a key\n")
    sandbox.write("/etc/yum.repos.d/rocky.repo", "[baseos]\nmirrorlist=https://mirrors.rockylinux.org/x\n")
    sandbox.write("/etc/yum.repos.d/own.repo", "[own]\nbaseurl=https://own.example.org/x\n")
    base = "https://mirror.example.com/rocky/$releasever/{}/$basearch/os"
    sandbox.bring(sandbox.stage(SiteModule(dnf=tuple(base.format(one) for one in ("BaseOS", "AppStream")))))
    said = sandbox.read(REPOSITORIES)
    assert (
        f"[vgpu-cfg-site-2]\nname=the site, 2\nbaseurl={base.format('AppStream')}\nenabled=1\ngpgcheck=1\n"
        in said
    )
    assert "gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-Rocky-9\n" in said
    there = sorted(path.name for path in sandbox.path("/etc/yum.repos.d").iterdir())
    assert there == ["own.repo", "rocky.repo.disabled", "vgpu-cfg-site.repo"]


def test_dockers_file_keeps_what_else_stands_in_it(sandbox: Sandbox) -> None:
    path = "/etc/docker/daemon.json"
    sandbox.write(
        path,
        '{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}, "registry-mirrors": ["https://x"]}',
    )
    mirrors = {"docker.io": "https://mirror.example.com:5000", "nvcr.io": "https://ngc.example.com"}
    sandbox.bring(sandbox.stage(SiteModule(runtime="docker", registry_mirrors=mirrors)))
    said = json.loads(sandbox.read(path))
    assert said["registry-mirrors"] == ["https://mirror.example.com:5000"]
    assert said["runtimes"] == {"nvidia": {"path": "nvidia-container-runtime"}}
    assert "systemctl restart docker.service" in sandbox.calls("systemctl")


def test_dockers_file_is_left_where_no_mirror_is_asked_for(sandbox: Sandbox) -> None:
    text = '{"registry-mirrors": ["https://template.example.com"]}'
    sandbox.write("/etc/docker/daemon.json", text)
    sandbox.bring(sandbox.stage(SiteModule(runtime="docker", proxy=PROXY)))
    assert sandbox.read("/etc/docker/daemon.json") == text


def test_a_daemon_file_that_is_none(sandbox: Sandbox) -> None:
    sandbox.write("/etc/docker/daemon.json", "{")
    script = sandbox.stage(
        SiteModule(runtime="docker", registry_mirrors={"docker.io": "https://m.example.com"})
    )
    assert "the file may be invalid" in sandbox.run(script, "apply").why


@pytest.mark.parametrize(("closed", "server"), [(True, "https://m.example.com"), (False, "https://nvcr.io")])
def test_containerds_hosts(sandbox: Sandbox, closed: bool, server: str) -> None:
    module = SiteModule(
        runtime="containerd",
        registry_mirrors={"nvcr.io": "https://m.example.com"},
        closed=closed,
        hosts=("m.example.com",),
    )
    sandbox.bring(sandbox.stage(module))
    said = tomllib.loads(sandbox.read("/etc/containerd/certs.d/nvcr.io/hosts.toml"))
    assert said == {
        "server": server,
        "host": {"https://m.example.com": {"capabilities": ["pull", "resolve"]}},
    }


def test_apptainers_registries(sandbox: Sandbox) -> None:
    mirrors = {"docker.io": "http://m.example.com:5000", "nvcr.io": "https://n.example.com"}
    sandbox.bring(sandbox.stage(SiteModule(runtime="apptainer", registry_mirrors=mirrors)))
    said = tomllib.loads(sandbox.read("/etc/containers/registries.conf.d/50-vgpu-cfg.conf"))
    assert [(one["location"], one["mirror"]) for one in said["registry"]] == [
        ("docker.io", [{"location": "m.example.com:5000", "insecure": True}]),
        ("nvcr.io", [{"location": "n.example.com", "insecure": False}]),
    ]


def test_certificates_are_trusted_by_system_and_docker(sandbox: Sandbox, authority: str) -> None:
    module = SiteModule(
        runtime="docker",
        certificates=parse_certificates(authority),
        registry_mirrors={"docker.io": "https://m.example.com:5000"},
    )
    sandbox.bring(sandbox.stage(module))
    assert sandbox.read("/usr/local/share/ca-certificates/vgpu-cfg-1.crt") == authority
    assert sandbox.read("/etc/docker/certs.d/m.example.com:5000/ca.crt") == authority
    sandbox.write("/etc/ssl/certs/ca-certificates.crt", "somebody made it anew\n")
    assert (
        sandbox.run(sandbox.stage(module), "check").why
        == "the site's certificate vgpu-cfg-1.crt is not trusted"
    )


@pytest.fixture
def systems_own(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder in which the real update-ca-certificates works."""
    for name in ("local", "etc", "share"):
        (tmp_path / name).mkdir()
    (tmp_path / "ca-certificates.conf").write_text("")
    yield tmp_path
    shutil.rmtree(tmp_path / "etc")


def test_the_real_update_ca_certificates_takes_what_is_written(systems_own: Path, authority: str) -> None:
    (systems_own / "local/vgpu-cfg-1.crt").write_text(parse_certificates(authority)[0])
    words = [
        tool("update-ca-certificates"), "--localcertsdir", str(systems_own / "local"),
        "--etccertsdir", str(systems_own / "etc"), "--certsdir", str(systems_own / "share"),
        "--certsconf", str(systems_own / "ca-certificates.conf"), "--hooksdir", "/nonexistent",
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    bundle = (systems_own / "etc/ca-certificates.crt").read_text()
    # The line by which the module's check knows the certificate.
    assert parse_certificates(authority)[0].splitlines()[-3] in bundle.splitlines()


@pytest.mark.parametrize(
    "text",
    ["", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "-----BEGIN PRIVATE KEY-----"],
)
def test_what_is_no_certificate(text: str) -> None:
    with pytest.raises(ValueError, match=r"certificate|private key"):
        parse_certificates(text)
