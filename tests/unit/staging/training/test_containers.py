"""Runtime, toolkit, registry and image: what is done, in which order, and what is said where it fails."""

from __future__ import annotations

import hashlib
from typing import Literal

import pytest

from tests.unit.staging.training.sandbox import Sandbox, context_for
from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.training_modules import (
    ContainersModule,
    ImageModule,
    RegistryModule,
    ToolkitModule,
    WorkerModule,
)
from vgpu_cfg.staging.modules.containers import pulled_name

IMAGE = "nvcr.io/nvidia/tensorflow:21.07-tf1-py3"
Runtime = Literal["docker", "containerd", "apptainer"]
APT = 'case "$*" in *" install "*) for last; do :; done; {then} ;; esac'


def lacks(guest: Sandbox, *names: str) -> None:
    """Make a guest that has nothing of the tools of this machine by these names."""
    for name in names:
        guest.hide(name)


# ---- the runtime ----


@pytest.mark.parametrize(
    ("runtime", "command", "package"),
    [("docker", "docker", "docker.io"), ("apptainer", "apptainer", "apptainer")],
)
def test_a_runtime_is_installed_and_started(
    guest: Sandbox, runtime: Runtime, command: str, package: str
) -> None:
    module = ContainersModule(runtime=runtime)
    lacks(guest, "docker", "containerd", "nerdctl", "apptainer")
    guest.stand_in("systemctl")
    guest.stand_in(
        "apt-get",
        f'case "$*" in *" install "*) printf "#!/bin/sh\\n" >{guest.commands}/{command}; '
        f"chmod 755 {guest.commands}/{command} ;; esac",
    )
    context = context_for(module)
    guest.bring(module, context)
    assert guest.run(module.kind, "check") != 0
    assert guest.run(module.kind, "apply") == 0, guest.output
    assert any(call.endswith(f"install -- {package}") for call in guest.calls)
    assert guest.run(module.kind, "check") == 0


def test_docker_whose_command_is_a_package_of_its_own(guest: Sandbox) -> None:
    """Debian 13: docker.io 26.1 has dockerd, and only recommends docker-cli (tests/proof installs both)."""
    module = ContainersModule()
    lacks(guest, "docker")
    guest.stand_in("systemctl")
    program = f"{guest.commands}/docker"
    guest.stand_in(
        "apt-get",
        f'case "$*" in *" docker-cli") printf "#!/bin/sh\\n" >{program}; chmod 755 {program} ;; esac',
    )
    guest.bring(module, context_for(module))
    assert guest.run(module.kind, "apply") == 0, guest.output
    installed = [call.rpartition(" -- ")[2] for call in guest.calls if " install -- " in call]
    assert installed == ["docker.io", "docker-cli"]


def test_a_template_that_has_the_runtime_skips_it(guest: Sandbox) -> None:
    guest.stand_in("docker")
    guest.stand_in("systemctl")
    module = ContainersModule()
    guest.bring(module, context_for(module))
    assert guest.run(module.kind, "check") == 0


def test_too_little_room_is_told_with_numbers(guest: Sandbox) -> None:
    lacks(guest, "docker")
    guest.stand_in(
        "df", "printf 'Filesystem 1024-blocks Used Available Capacity Mounted\\nx 1 1 3145728 1%% /\\n'"
    )
    module = ContainersModule(minimum_free_gib=20)
    assert guest.apply(module, context_for(module)) == 1
    assert guest.why.startswith("/var/lib/docker has 3 GiB free, but 20 GiB are required")


def test_containerd_without_nerdctl_asks_for_a_hand(guest: Sandbox) -> None:
    lacks(guest, "nerdctl")
    guest.stand_in("containerd")
    guest.stand_in("systemctl")
    guest.stand_in("apt-get", 'case "$*" in *" install "*) exit 100 ;; esac')
    module = ContainersModule(runtime="containerd")
    assert guest.apply(module, context_for(module)) == 20
    assert "add nerdctl-full to the template" in guest.why


# ---- NVIDIA Container Toolkit ----

NVIDIA = "https://nvidia.github.io/libnvidia-container"
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n"
CURL = f"""
while [ "$#" -gt 0 ]; do
    [ "$1" != -o ] || to=$2
    shift
done
echo '{KEY.strip()}' >"$to"
"""
CTK = """
mkdir -p "$VGPU_CFG_ROOT/etc/docker"
echo '{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}' >"$VGPU_CFG_ROOT/etc/docker/daemon.json"
"""
INSTALL = """
case "$*" in *nvidia-container-toolkit*) cp "${0%/*}/ctk-to-be" "${0%/*}/nvidia-ctk" ;; esac
"""


def with_toolkit(guest: Sandbox) -> None:
    guest.stand_in("systemctl")
    guest.stand_in("curl", CURL)
    lacks(guest, "nvidia-ctk")
    guest.stand_in("ctk-to-be", CTK)
    guest.stand_in("apt-get", INSTALL)


@pytest.mark.parametrize("repository", [NVIDIA, "https://mirror.lab/nvidia/"])
def test_the_toolkit_comes_from_its_repository_with_its_key(guest: Sandbox, repository: str) -> None:
    with_toolkit(guest)
    module = ToolkitModule(
        repository=repository, version="1.18.1-1", key_sha256=hashlib.sha256(KEY.encode()).hexdigest()
    )
    guest.bring(module, context_for(module))
    assert guest.run("toolkit", "check") != 0
    assert guest.run("toolkit", "apply") == 0, guest.output
    base = repository.rstrip("/")
    lines = guest.read("/etc/apt/sources.list.d/nvidia-container-toolkit.list").splitlines()
    key = "/usr/share/keyrings/nvidia-container-toolkit-keyring.asc"
    assert lines == [f"deb [signed-by={key}] {base}/stable/deb/$(ARCH) /"]
    assert guest.read(key) == KEY
    (install,) = (call for call in guest.calls if call.startswith("apt-get") and " install " in call)
    assert install.endswith(
        "-- nvidia-container-toolkit=1.18.1-1 nvidia-container-toolkit-base=1.18.1-1 "
        "libnvidia-container-tools=1.18.1-1 libnvidia-container1=1.18.1-1"
    )
    assert any("--url " + base + "/gpgkey" in call for call in guest.calls)
    assert "systemctl restart docker.service" in guest.calls
    assert guest.run("toolkit", "check") == 0
    # Another time nothing is restarted: containers run.
    guest.forget_calls()
    assert guest.run("toolkit", "apply") == 0
    assert not [call for call in guest.calls if "restart" in call]


def test_another_key_installs_nothing(guest: Sandbox) -> None:
    with_toolkit(guest)
    module = ToolkitModule(repository="https://mirror.lab/nvidia", key_sha256="0" * 64)
    assert guest.apply(module, context_for(module)) == 1
    assert guest.why == "the SHA-256 of https://mirror.lab/nvidia/gpgkey is not the expected one"
    assert not [call for call in guest.calls if call.startswith("apt-get")]


def test_dnf_gets_a_repository_file(guest: Sandbox) -> None:
    with_toolkit(guest)
    lacks(guest, "apt-get")
    guest.stand_in("dnf", f"cp {guest.commands}/ctk-to-be {guest.commands}/nvidia-ctk")
    module = ToolkitModule(repository="https://mirror.lab/nvidia", version="1.18.1-1")
    assert guest.apply(module, context_for(module)) == 0, guest.output
    lines = guest.read("/etc/yum.repos.d/nvidia-container-toolkit.repo").splitlines()
    key = "/etc/pki/rpm-gpg/RPM-GPG-KEY-nvidia-container-toolkit"
    assert "baseurl=https://mirror.lab/nvidia/stable/rpm/$basearch" in lines
    assert {"repo_gpgcheck=1", f"gpgkey=file://{key}"} < set(lines)
    assert guest.read(key) == KEY
    (install,) = (call for call in guest.calls if call.startswith("dnf"))
    assert " nvidia-container-toolkit-1.18.1-1 " in install


@pytest.mark.parametrize(
    "url", ["https://x/$(reboot)", "file:///etc", "https://x y", "https://x#y", "https://a'b"]
)
def test_a_repository_that_is_no_plain_url_is_refused(guest: Sandbox, url: str) -> None:
    module = ToolkitModule(repository=url)
    with pytest.raises(GuestError):
        guest.bring(module, context_for(module))


# ---- the registry ----

TOKEN = "nvapi-$(reboot) 'x' %s"
LOGIN = """
read -r password
printf '%s' "$password" >"$VGPU_CFG_ROOT/given"
[ ! -e "$VGPU_CFG_ROOT/answer" ] || { cat "$VGPU_CFG_ROOT/answer" >&2; exit 1; }
mkdir -p "$DOCKER_CONFIG"
echo '{"auths": {"nvcr.io": {"auth": "eA=="}}}' >"$DOCKER_CONFIG/config.json"
"""


def registry(**more: object) -> RegistryModule:
    return RegistryModule.model_validate({"server": "nvcr.io", "password": "ngc", **more})


def test_the_password_goes_in_by_standard_input_and_nowhere_else(guest: Sandbox) -> None:
    guest.stand_in("docker", LOGIN)
    module = registry()
    context = context_for(module, secrets={"ngc": TOKEN})
    guest.bring(module, context)
    script = guest.read("/scripts/registry.sh")
    assert TOKEN not in script
    assert guest.run("registry", "check") != 0
    assert guest.run("registry", "apply") == 0, guest.output
    assert guest.read("/given") == TOKEN
    assert guest.calls == ["docker login --username $oauthtoken --password-stdin nvcr.io"]
    assert guest.mode("/root/.docker/config.json") == "600"
    assert list((guest.root / "var/lib/vgpu-cfg/secrets").iterdir()) == []
    assert guest.run("registry", "check") == 0
    # Another password is another login.
    guest.bring(module, context)
    assert guest.run("registry", "check") != 0


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            'Error response from daemon: Get "https://nvcr.io/v2/": unauthorized: authentication required',
            "nvcr.io rejected the login: the password or token is wrong or has expired",
        ),
        (
            "Error: Get https://nvcr.io/v2/: denied: requested access to the resource is denied",
            "nvcr.io rejected",
        ),
        (
            'Error response from daemon: Get "https://nvcr.io/v2/": dial tcp: lookup nvcr.io: no such host',
            "nvcr.io cannot be reached from the guest",
        ),
        ("net/http: TLS handshake timeout", "nvcr.io cannot be reached from the guest"),
        ("x509: certificate signed by unknown authority", "nvcr.io cannot be reached from the guest"),
        (f"something else, and {TOKEN}", "login to nvcr.io failed: see /var/log/vgpu-cfg.log"),
    ],
)
def test_a_failed_login_names_the_registry_and_not_the_secret(guest: Sandbox, answer: str, why: str) -> None:
    guest.stand_in("docker", LOGIN)
    guest.write("/answer", f"{answer}\n")
    module = registry()
    assert guest.apply(module, context_for(module, secrets={"ngc": TOKEN})) == 1
    assert guest.why.startswith(why)
    assert TOKEN not in guest.output
    assert TOKEN not in guest.why
    assert guest.run("registry", "check") != 0


def test_apptainer_logs_in_by_the_command_that_it_has(guest: Sandbox) -> None:
    guest.stand_in(
        "apptainer", 'case "$*" in "registry login --help") exit 1 ;; esac\ncat >"$VGPU_CFG_ROOT/given"'
    )
    module = registry(runtime="apptainer", user="it's-me")
    assert guest.apply(module, context_for(module, secrets={"ngc": TOKEN})) == 0, guest.output
    assert guest.calls[-1] == "apptainer remote login --username it's-me --password-stdin docker://nvcr.io"
    assert guest.read("/given") == TOKEN
    assert guest.run("registry", "check") == 0


@pytest.mark.parametrize(
    "more",
    [
        {"server": "-x"},
        {"server": "a b"},
        {"server": "$(reboot)"},
        {"user": "-u"},
        {"user": "a\nb"},
        {"user": ""},
    ],
)
def test_a_login_that_no_command_line_can_carry_is_refused(guest: Sandbox, more: dict[str, object]) -> None:
    with pytest.raises(GuestError):
        guest.bring(registry(**more), context_for(registry(**more), secrets={"ngc": TOKEN}))


def test_a_password_that_is_not_known_is_asked_for(guest: Sandbox) -> None:
    with pytest.raises(GuestError, match=r"the password for nvcr\.io has no value"):
        guest.bring(registry(), context_for(registry()))


# ---- the image ----

GOOD = "Horovod v0.28.1:\\n\\nAvailable Frameworks:\\n    [X] TensorFlow\\n    [ ] PyTorch\\n"
# run: the probe is executed with the image's own commands.
DIGEST = "sha256:" + "00" * 32
DOCKER = (
    f"digest={DIGEST}"
    """
case "$1 $2" in
"image inspect")
    [ -e "$VGPU_CFG_ROOT/pulled" ] || exit 1
    case "$*" in
    *RepoDigests*) echo "[\\\"nvcr.io/nvidia/tensorflow@$digest\\\"]" ;;
    *) cat "$VGPU_CFG_ROOT/pulled" ;;
    esac ;;
"pull "*)
    [ ! -e "$VGPU_CFG_ROOT/answer" ] || { cat "$VGPU_CFG_ROOT/answer" >&2; exit 1; }
    echo sha256:1111 >"$VGPU_CFG_ROOT/pulled" ;;
"load --input") [ -e "$VGPU_CFG_ROOT/other" ] || echo sha256:2222 >"$VGPU_CFG_ROOT/pulled" ;;
"run --rm") PATH=$VGPU_CFG_ROOT/image-bin sh "$VGPU_CFG_ROOT/var/lib/vgpu-cfg/files/image/probe" ;;
esac
"""
)


def image(**more: object) -> ImageModule:
    return ImageModule.model_validate({"image": IMAGE, "minimum_free_gib": 0, **more})


def furnished(guest: Sandbox, *, horovod: str | None = f"printf '{GOOD}'", sshd: bool = True) -> None:
    guest.stand_in("docker", DOCKER)
    folder = guest.root / "image-bin"
    folder.mkdir()
    for name in ("sh", "cat", "tail", "grep"):
        (folder / name).symlink_to(f"/bin/{name}" if name != "tail" else "/usr/bin/tail")
    for name in ("ssh", *(("sshd",) if sshd else ())):
        guest.write(f"/image-bin/{name}", "#!/bin/sh\n", 0o755)
    if horovod is not None:
        guest.write("/image-bin/horovodrun", f"#!/bin/sh\n{horovod}\n", 0o755)


def test_an_image_is_pulled_proven_and_recorded(guest: Sandbox) -> None:
    furnished(guest)
    module = image()
    context = context_for(module, WorkerModule(image=IMAGE))
    guest.bring(module, context)
    assert guest.run("image", "check") != 0
    assert guest.run("image", "apply") == 0, guest.output
    assert f"docker pull {IMAGE}" in guest.calls
    probe = next(call for call in guest.calls if call.startswith("docker run"))
    assert probe.startswith("docker run --rm --network=none --gpus all --volume ")
    assert guest.read("/var/lib/vgpu-cfg/image.digests") == f'["nvcr.io/nvidia/tensorflow@{DIGEST}"]\n'
    assert guest.run("image", "check") == 0
    # Another image by the same name has to be proven anew, and is not pulled again.
    guest.write("/pulled", "sha256:9999\n")
    assert guest.run("image", "check") != 0
    guest.forget_calls()
    assert guest.run("image", "apply") == 0
    assert not [call for call in guest.calls if call.startswith("docker pull")]


def test_an_image_comes_by_its_digest_and_keeps_its_name(guest: Sandbox) -> None:
    furnished(guest)
    module = image(digest_pin=DIGEST)
    guest.bring(module, context_for(module, WorkerModule(image=IMAGE)))
    assert guest.run("image", "apply") == 0, guest.output
    assert f"docker pull nvcr.io/nvidia/tensorflow@{module.digest_pin}" in guest.calls
    assert f"docker tag nvcr.io/nvidia/tensorflow@{module.digest_pin} {IMAGE}" in guest.calls
    # An image by the same name with another digest is in the template: it does not count.
    guest.stand_in("docker", DOCKER.replace(DIGEST, "sha256:9999"))
    assert guest.run("image", "check") != 0


@pytest.mark.parametrize(
    ("image", "digest", "pulled"),
    [
        ("ubuntu", "", "ubuntu"),
        ("reg.lab:5000/a/b:1", "", "reg.lab:5000/a/b:1"),
        ("reg.lab:5000/a/b:1", "sha256:" + "1" * 64, "reg.lab:5000/a/b@sha256:" + "1" * 64),
        ("reg.lab:5000/a/b", "sha256:" + "1" * 64, "reg.lab:5000/a/b@sha256:" + "1" * 64),
        ("a/b:1@sha256:" + "2" * 64, "", "a/b@sha256:" + "2" * 64),
    ],
)
def test_a_digest_takes_the_place_of_the_tag(image: str, digest: str, pulled: str) -> None:
    assert pulled_name(image, digest) == pulled


@pytest.mark.parametrize(
    ("horovod", "sshd", "why"),
    [
        (None, True, f"{IMAGE} does not contain Horovod (no horovodrun in its PATH)"),
        ("echo ImportError >&2; exit 1", True, f"{IMAGE} contains a Horovod that does not work"),
        ("echo '    [ ] TensorFlow'", True, f"{IMAGE} contains a Horovod that was built without a framework"),
        (f"printf '{GOOD}'", False, f"{IMAGE} does not contain sshd: build it with openssh-server"),
    ],
)
def test_an_image_that_lacks_something_is_not_relied_upon(
    guest: Sandbox, horovod: str | None, sshd: bool, why: str
) -> None:
    furnished(guest, horovod=horovod, sshd=sshd)
    module = image()
    assert guest.apply(module, context_for(module, WorkerModule(image=IMAGE))) == 1
    assert guest.why.startswith(why)
    assert guest.run("image", "check") != 0


def test_without_a_framework_nothing_is_asked_of_the_image(guest: Sandbox) -> None:
    furnished(guest, horovod=None)
    module = image(framework="none")
    assert guest.apply(module, context_for(module)) == 0, guest.output
    assert guest.run("image", "check") == 0


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("failed to register layer: write /x: no space left on device", "/var/lib/docker has no space left"),
        ("Error: manifest for x not found: manifest unknown", f"nvcr.io has no image {IMAGE}"),
        (
            "pull access denied for x, unauthorized",
            f"nvcr.io rejected the request for {IMAGE}: the login has expired",
        ),
        ("dial tcp 1.2.3.4:443: i/o timeout", "nvcr.io cannot be reached from the guest"),
        ("something else", f"{IMAGE} could not be pulled: see /var/log/vgpu-cfg.log in the guest"),
    ],
)
def test_why_an_image_did_not_come(guest: Sandbox, answer: str, why: str) -> None:
    furnished(guest)
    guest.write("/answer", f"{answer}\n")
    module = image(server="nvcr.io")
    assert guest.apply(module, context_for(module)) == 1
    assert guest.why.startswith(why)


def test_too_little_room_for_the_image(guest: Sandbox) -> None:
    furnished(guest)
    guest.stand_in(
        "df", "printf 'Filesystem 1024-blocks Used Available Capacity Mounted\\nx 1 1 3145728 1%% /\\n'"
    )
    module = image(minimum_free_gib=40)
    assert guest.apply(module, context_for(module)) == 1
    assert guest.why.startswith(f"/var/lib/docker has 3 GiB free, but {IMAGE} may require 40 GiB")


def test_an_archive_is_loaded_from_where_it_lies(guest: Sandbox) -> None:
    furnished(guest)
    module = image(archive="/srv/it's an image $(x).tar")
    context = context_for(module)
    assert guest.apply(module, context) == 1
    assert guest.why == "there is no file /srv/it's an image $(x).tar in the guest"
    guest.write("/srv/it's an image $(x).tar", "tar")
    assert guest.run("image", "apply") == 0, guest.output
    assert f"docker load --input {guest.root}/srv/it's an image $(x).tar" in guest.calls
    (guest.root / "pulled").unlink()
    guest.write("/other", "")
    assert guest.run("image", "apply") == 1
    assert guest.why.endswith(f"does not contain an image named {IMAGE}")


@pytest.mark.parametrize(
    "name", ["--privileged", "a b", "a$(reboot)", "a`x`", "A", "a\nb", "a'b", "a%b", "", "a:b:c"]
)
def test_a_name_that_is_no_image_is_refused(guest: Sandbox, name: str) -> None:
    with pytest.raises(GuestError):
        guest.bring(image(image=name), context_for(image(image=name)))


@pytest.mark.parametrize(
    "name",
    [
        "ubuntu",
        "horovod/horovod:0.28.1",
        "nvcr.io/nvaie/tensorflow:21.02-tf2-py3",
        "registry.lab:5000/a/b_c:x@sha256:" + "0" * 64,
    ],
)
def test_a_name_of_an_image_is_taken(guest: Sandbox, name: str) -> None:
    guest.bring(image(image=name), context_for(image(image=name)))


@pytest.mark.parametrize("folder", ["conf.d", "config.d"])
def test_a_toolkit_that_writes_beside_containerds_own_file_is_well_configured(
    guest: Sandbox, folder: str
) -> None:
    guest.stand_in("systemctl")
    beside = f"{guest.root}/etc/containerd/{folder}"
    line = 'BinaryName = "/usr/bin/nvidia-container-runtime"'
    guest.stand_in("nvidia-ctk", f"mkdir -p {beside}; echo '{line}' >{beside}/99-nvidia.toml")
    module = ToolkitModule(runtime="containerd")
    guest.bring(module, context_for(module))
    assert guest.run("toolkit", "check") != 0
    assert guest.run("toolkit", "apply") == 0, guest.output
    assert "systemctl restart containerd.service" in guest.calls
    assert guest.run("toolkit", "check") == 0
    guest.forget_calls()
    assert guest.run("toolkit", "apply") == 0
    assert not [call for call in guest.calls if "restart" in call]
