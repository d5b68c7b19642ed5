"""Pins: the SHA-256 or version that guests require of downloads, known to vgpu-cfg or stated by a site.

A pin's key is the address of a file, the name of an image as the plan file has it, or the name of a package.
Its value is 64 hex digits for a file, `sha256:…` for an image, a version for a package.

Sources, read in November 2026 in several public repositories each: the digests of the four images (of their
indexes; DCGM exporter's is that of NVIDIA's own bundle of GPU Operator 26.7.0), and the SHA-256 of the key of
NVIDIA's repository of the container toolkit, with the fingerprint C95B321B61E88C1809C4F759DDCAE044F796ECB0.
The toolkit's version is one that the repository serves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from vgpu_cfg.model.frozen import Frozen

PIN_FILE = "downloads.lock.yaml"
"""The file next to plan files with a site's own pins."""

TOOLKIT = "nvidia-container-toolkit"
TOOLKIT_REPOSITORY = "https://nvidia.github.io/libnvidia-container"
TOOLKIT_KEY = f"{TOOLKIT_REPOSITORY}/gpgkey"
CUDA_REPOSITORY = "https://developer.download.nvidia.com/compute/cuda/repos"

MONITORING_IMAGES = {
    "dcgm-exporter": "nvcr.io/nvidia/k8s/dcgm-exporter:4.6.0-4.8.3-distroless",
    "node-exporter": "docker.io/prom/node-exporter:v1.12.1",
    "prometheus": "docker.io/prom/prometheus:v3.5.0",  # a release with long support
    "grafana": "docker.io/grafana/grafana:12.1.1",
}
"""The images of monitoring unless the plan file names others."""

_VENDOR = (TOOLKIT_REPOSITORY, CUDA_REPOSITORY, "nvcr.io/nvidia/")

PINS: Mapping[str, str] = {
    TOOLKIT: "1.18.1-1",
    TOOLKIT_KEY: "c880576d6cf75a48e5027a871bac70fd0421ab07d2b55f30877b21f1c87959c9",
    MONITORING_IMAGES["dcgm-exporter"]: (
        "sha256:613ab03c11d442fd960ff515f547e9921537454a712d08160bc8f677f89f1c35"
    ),
    MONITORING_IMAGES["node-exporter"]: (
        "sha256:1b4e4438faca4dd7e001dd445d161a4a2091b0fededa84093b3a8dfeae1f1be0"
    ),
    MONITORING_IMAGES["prometheus"]: (
        "sha256:63805ebb8d2b3920190daf1cb14a60871b16fd38bed42b857a3182bc621f4996"
    ),
    MONITORING_IMAGES["grafana"]: "sha256:a1701c2180249361737a99a01bc770db39381640e4d631825d38ff4535efa47d",
}
"""Of downloads that no plan file names; the pins of a site come first."""

CUDA_KEYRINGS = {
    "debian11/x86_64": "dfc6e5cdbfc9b4cd1ca8bf6b6eda5d8582ca50d51b7e64ba049b935d52325d58",
    "debian12/x86_64": "e7f219eab6fe4819cdb5c15b98233dc3420302d9c00883219cd3d896857cf48d",
    "debian12/sbsa": "bf2f53b1a19259501119f732bdef2699f8c80c69a18e6a78dad78d67d96766dc",
    "debian13/x86_64": "dd28f1f6ba0038180d6b23f846cefca1e3de4c9327751665241370bacea452a1",
    "ubuntu2004/x86_64": "cf5ca9853118b9fb2b78dd2708786e1eb5ab14e39d8738539281429428eb4efe",
    "ubuntu2204/x86_64": "d93190d50b98ad4699ff40f4f7af50f16a76dac3bb8da1eaaf366d47898ff8df",
    "ubuntu2204/sbsa": "36d1aed84dfcf93ee9a0212d149f1c4187db92e03ab96a759ec0689aa438fd9e",
    "ubuntu2404/x86_64": "d2a6b11c096396d868758b86dab1823b25e14d70333f1dfa74da5ddaf6a06dba",
    "ubuntu2404/sbsa": "6ea7d2737648936820e85677177957a0f6521b840d98eb0bbae0a4f003fa7249",
}
"""The SHA-256 of cuda-keyring_1.1-1_all.deb in NVIDIA's repositories, as installers in public use have it.

Read in November 2026: GoogleCloudPlatform/compute-gpu-installation (x86_64); a second source for ubuntu2204,
ubuntu2404, debian12 and for sbsa. Which of them a guest requires is known in the guest.
"""

CUDA_RPM_KEYS = (
    (
        "rhel8|rhel9|fedora*",
        "D42D0685.pub",
        "d0664fbbdb8c32356d45de36c5984617217b2d0bef41b93ccecd326ba3b80c87",
    ),
    ("rhel10", "CDF6BA43.pub", "afbea87d3b979b3788ef34223aeeb323ade481128e2c133723ae99b8a51368bb"),
)
"""NVIDIA's rpm repositories, their signing key, and its SHA-256 without lines that start with Version.

Read in November 2026 in the container files of NVIDIA's CUDA images; for rhel10 in one of them only. Fedora's
repositories name the same key as rhel9's.
"""

_VALUE = re.compile(r"(?:sha256:)?[0-9a-f]{64}|[0-9][0-9A-Za-z.+~:-]{0,60}")


def check_pin(text: str) -> str:
    """Return a pin's value."""
    if _VALUE.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a pin\nuse 64 hex digits, sha256: and 64 hex digits, or a version")
    return text


def is_public(address: str) -> bool:
    """Whether an address or image is the vendor's or a default, so that it names nothing of a site."""
    return not address or address.startswith(_VENDOR) or address in MONITORING_IMAGES.values()


def short_pin(pin: str) -> str:
    """Return the first digits of a pin, for people."""
    return pin.removeprefix("sha256:")[:12]


class Download(Frozen):
    """One download of a plan's guests.

    key: the key of the plan file that causes it.
    address: a file's address, an image's name, or the address of a package repository.
    via: the mirror of the site that guests ask for an image, "" for none.
    pin: the SHA-256 (`sha256:…` for an image), "" if the address is all that is known.
    package, version: those installed from a repository.
    is_signed: whether the package manager checks its signature, by a key with a pin.
    vms: the VMs that download it.
    """

    key: str
    address: str
    via: str = ""
    pin: str = ""
    package: str = ""
    version: str = ""
    is_signed: bool = False
    vms: tuple[str, ...] = ()

    @property
    def is_pinned(self) -> bool:
        """Whether a guest rejects other content."""
        return bool(self.pin) or self.is_signed
