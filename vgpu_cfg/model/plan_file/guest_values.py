"""Values of `guest` and `training` as written, and their types: hosts, accounts, images, packages, durations.

Values for guests end up in shell scripts, units and configuration files: each of these is checked by
the rules of what reads it, so that no quoting has to save it. Every parser raises ValueError; where there
is a suggestion, it is on the message's second line.

The types that only these keys have carry their form in the JSON schema.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from vgpu_cfg.model.plan_file.fields import Text
from vgpu_cfg.model.plan_file.host_values import if_text, one_or_list

LONGEST_LABEL = 63
_LONGEST_DOMAIN = 189
"""With a label and a dot before it, a full name has at most the 253 characters that DNS allows."""
LABEL_PATTERN = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
DOMAIN_PATTERN = rf"{LABEL_PATTERN}(\.{LABEL_PATTERN})*"
USER_PATTERN = "[a-z_][a-z0-9_-]{0,31}"
SHELL_VARIABLE_PATTERN = "[A-Za-z_][A-Za-z0-9_]*"
SHA256_PATTERN = "[0-9A-Fa-f]{64}"
_URL = r"https?://[!-~]+"
PACKAGE_PATTERN = rf"({_URL}|/.+)"
DURATION_PATTERN = "[0-9]{1,6} ?(s|m|h)"
RATE_PATTERN = r"[0-9]{1,6}(\.[0-9]{1,3})? ?(Mbps|Gbps)"
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_MBPS = {"Mbps": 1, "Gbps": 1000}
_SHORTEST_WAIT, _LONGEST_WAIT = 60, 24 * 3600
_KEY_KINDS = re.compile(
    r"ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com"
)
_REGISTRY = rf"{LABEL_PATTERN}(\.{LABEL_PATTERN})*(:[0-9]{{1,5}})?"
_PLAIN_LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DOTTED = rf"({_PLAIN_LABEL}\.)+{_PLAIN_LABEL}"
_PORT = ":[0-9]{1,5}"
_NAMED_REGISTRY = rf"(({_DOTTED})({_PORT})?|{_PLAIN_LABEL}{_PORT}|localhost)"
"""Before a path, only a name with a dot or a port, or localhost, is a registry."""
_PATH = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
_TAG = r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
_DIGEST = "(@sha256:[0-9a-f]{64})?"
IMAGE_PATTERN = rf"({_NAMED_REGISTRY}/)?{_PATH}(/{_PATH})*{_TAG}{_DIGEST}"
"""The grammar of image references of the distribution project (github.com/distribution/reference)."""
_LONGEST_IMAGE = 500
ELASTIC_PATTERN = r"([1-9][0-9]{0,2}):([1-9][0-9]{0,2})"
SHELL_PATTERN = "(/[A-Za-z0-9_.+-]+)+"
FOLDER_PATTERN = "(/[A-Za-z0-9._+@-]+)+/?"
"""The characters that an exports file and a unit's name accept without escaping."""
PLAIN_URL_PATTERN = "https?://[A-Za-z0-9._~:/%-]+"
"""The characters that package sources of apt and yum accept without escaping."""
DRIVER_PACKAGES = (".deb", ".rpm", ".run")
OFED_PACKAGES = {"mlnx": (".tgz",), "doca": (".deb", ".rpm"), "inbox": ("",)}
CUDA_PATTERN = "[0-9]{1,2}[.][0-9]{1,2}"
CUDA_PACKAGES = (".deb", ".rpm", ".run")
FEATURE_TYPES = (1, 2, 4)
"""Those of gridd.conf that are licensed: vGPU, RTX Virtual Workstation, compute."""
DEFAULT_REGISTRY = "docker.io"
_NAMES_OF_DEFAULT = ("index.docker.io", "registry-1.docker.io")
NVIDIA_REGISTRY = "nvcr.io"
_OF_THE_SYSTEM = frozenset({"bin", "boot", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys"})
_WITH_OTHERS_IN_THEM = frozenset({"home", "opt", "root", "usr", "var"})
"""Folders of every guest: nothing of the first ones can be shared, and not the whole of the second ones."""


def check_host_name(name: str) -> str:
    """Return a host name of one label (RFC 1123), which is no number: that would be read as an address."""
    if "." in name and re.fullmatch(DOMAIN_PATTERN, name):
        first, _, rest = name.partition(".")
        raise ValueError(f"{name!r} includes a domain\nset hostname: {first} and domain: {rest}")
    if re.fullmatch(LABEL_PATTERN, name) is None:
        hint = f"use at most {LONGEST_LABEL} letters, digits and '-', for example hvd-01"
        raise ValueError(f"{name!r} is not a valid host name\n{hint}")
    if name.isdecimal():
        raise ValueError(f"the host name {name!r} could be mistaken for an address\nexample: node-{name}")
    return name


def host_name_of(vm_name: str) -> str:
    """Make a host name of a VM's name: lower case, other signs as hyphens; "" where nothing is left."""
    name = re.sub("[^a-z0-9]+", "-", vm_name.casefold()).strip("-")[:LONGEST_LABEL].strip("-")
    return f"vm-{name}" if name.isdecimal() else name


def check_domain(name: str) -> str:
    """Return the domain that makes a host name a full one."""
    if len(name) > _LONGEST_DOMAIN or re.fullmatch(DOMAIN_PATTERN, name) is None:
        raise ValueError(f"{name!r} is not a valid domain\nexample: example.com")
    return name


def check_time_server(name: str) -> str:
    """Return the name or address of an NTP server."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        pass
    if len(name) > _LONGEST_DOMAIN or re.fullmatch(DOMAIN_PATTERN, name) is None:
        raise ValueError(f"{name!r} is not a valid NTP server\nexample: ntp.example.com or 10.0.0.1")
    return name


def check_user(name: str) -> str:
    """Return the name of an account as useradd takes it."""
    if re.fullmatch(USER_PATTERN, name) is None:
        hint = "use at most 32 of a-z, 0-9, '_' and '-', beginning with a letter or '_'"
        raise ValueError(f"{name!r} is not a valid Linux account name\n{hint}")
    return name


def check_public_key(text: str) -> str:
    """Return a public key as a line of authorized_keys: its kind, its content, a comment.

    No message repeats it, because it may be a private one.
    """
    words = text.split()
    shape = "example: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5... anna@example.com"
    if "PRIVATE KEY" in text:
        raise ValueError(
            "this is a private key, but a public key is required\nuse the file with the extension .pub"
        )
    if len(words) < 2 or _KEY_KINDS.fullmatch(words[0]) is None or not is_printed(text):
        raise ValueError(f"this is not a valid public key on a single line\n{shape}")
    try:
        content = base64.b64decode(words[1], validate=True)
    except (binascii.Error, ValueError):
        content = b""
    if not content[4:].startswith(words[0].encode()):
        raise ValueError(f"the text after {words[0]} is not a valid key of that type\n{shape}")
    return " ".join(words)


def is_printed(text: str) -> bool:
    """Whether a text fits on one line."""
    return text.isprintable()


def _is_path(text: str) -> bool:
    """Whether a text is a path from a root that mounts and exports can carry too."""
    return (
        text.startswith("/")
        and is_printed(text)
        and not {":", ","} & set(text)
        and ".." not in text.split("/")
    )


def check_shell(text: str) -> str:
    """Return an account's shell; passwd divides its fields by colons, and useradd takes no blank there."""
    if re.fullmatch(SHELL_PATTERN, text) is None or ".." in text.split("/"):
        raise ValueError(f"{text!r} is not a valid login shell\nuse its full path, for example /bin/bash")
    return text


def parse_elastic(text: str) -> tuple[int, int]:
    """Read `MIN:MAX`, how few and how many workers a training may go on with. Raises ValueError."""
    found = re.fullmatch(ELASTIC_PATTERN, text)
    if found is None:
        raise ValueError(f"{text!r} is not a valid range of workers\nexample: 2:4 for two to four")
    least, most = int(found[1]), int(found[2])
    if least > most:
        raise ValueError(f"{text!r} has a minimum that is greater than its maximum\nexample: {most}:{least}")
    return least, most


def check_elastic(text: str) -> str:
    """Return a range of workers unchanged. Raises ValueError if it is invalid."""
    parse_elastic(text)
    return text


def check_folder(text: str) -> str:
    """Return a folder that the head can share with its workers: none that a system needs for itself."""
    if text.strip("/") and (re.fullmatch(FOLDER_PATTERN, text) is None or ".." in text.split("/")):
        hint = "use an absolute path that contains only letters, digits and . _ + @ -, for example "
        hint += "/srv/training"
        raise ValueError(f"{text!r} is not a valid shared folder\n{hint}")
    first, *below = [part for part in text.split("/") if part] or [""]
    if not first or first in _OF_THE_SYSTEM or (first in _WITH_OTHERS_IN_THEM and not below):
        raise ValueError(f"{text!r} is a system folder in every guest\nexample: /srv/training")
    return text


def check_registry_user(text: str) -> str:
    """Return the user of a registry; the login joins it to the password by a colon."""
    if not text or text.startswith("-") or not is_printed(text) or set(text) & set(": \u00a0"):
        hint = "do not use spaces, line breaks, colons or a leading '-'"
        raise ValueError(f"{text!r} is not a valid registry user\n{hint}")
    return text


def check_cuda_version(text: str) -> str:
    """Return a release of the CUDA Toolkit, major and minor: its packages are named by these."""
    if re.fullmatch(CUDA_PATTERN, text) is None:
        raise ValueError(f'{text!r} is not a valid CUDA Toolkit release\nuse MAJOR.MINOR, as in "12.8"')
    return text


def check_feature_type(number: int) -> int:
    """Return a FeatureType of gridd.conf that is licensed."""
    if number not in FEATURE_TYPES:
        message = f"{number} is not a valid FeatureType for licensing a vGPU"
        raise ValueError(f"{message}\nuse 4 for compute, 1 for vGPU, 2 for RTX Virtual Workstation")
    return number


def check_package(text: str) -> str:
    """Return where a package is: an address, or a path in the guest."""
    if re.match("https?://", text):
        if re.fullmatch(_URL, text):
            return _without_login(text)
    elif text.strip("/") != "" and text.startswith("/") and is_printed(text) and ".." not in text.split("/"):
        return text
    hint = "use an https:// address, or the full path in the guest"
    raise ValueError(f"{text!r} is not a valid package location\n{hint}")


def package_kind(text: str) -> str:
    """Return the extension that identifies a package's type: ".deb", or "" without one."""
    return PurePosixPath(text.partition("?")[0]).suffix


def check_url(text: str) -> str:
    """Return the address of a package source."""
    if re.fullmatch(_URL, text):
        _without_login(text)
    if re.fullmatch(PLAIN_URL_PATTERN, text.rstrip("/")) is None:
        hint = "example: https://packages.example.com/toolkit"
        raise ValueError(f"{text!r} is not a valid package source address\n{hint}")
    return text.rstrip("/")


def _without_login(url: str) -> str:
    """Reject an address that contains a login: plans and readable files would show it."""
    if "@" in url.partition("://")[2].partition("/")[0]:
        message = "a URL with a login would be visible in plans and guests"
        raise ValueError(f"{message}\nuse a URL without a login, or include the file in the template")
    return url


def check_sha256(text: str) -> str:
    """Return a checksum in lower case."""
    if re.fullmatch(SHA256_PATTERN, text) is None:
        raise ValueError("a sha256 must have 64 hexadecimal digits\nuse the output of sha256sum")
    return text.lower()


def check_image(text: str) -> str:
    """Return a reference to a container image."""
    if len(text) > _LONGEST_IMAGE or re.fullmatch(IMAGE_PATTERN, text) is None:
        hint = "example: nvcr.io/nvidia/tensorflow:21.07-tf1-py3"
        raise ValueError(f"{text!r} is not a valid image name\n{hint}")
    return text


def split_image(image: str) -> tuple[str, str]:
    """Split an image's name into its registry, "" if it has none, and the rest.

    The part before the first slash is a registry if it has a dot or a port, or is localhost, as for docker.
    """
    first, slash, rest = image.partition("/")
    is_registry = slash and ("." in first or ":" in first or first == "localhost")
    return (first, rest) if is_registry else ("", image)


def registry_of(image: str) -> str:
    """Name the registry that an image is pulled from; docker's if the name has none."""
    registry, _ = split_image(image)
    return DEFAULT_REGISTRY if registry in ("", *_NAMES_OF_DEFAULT) else registry


def check_registry(text: str) -> str:
    """Return a registry's address: a name and perhaps a port, without https://."""
    if re.fullmatch(_REGISTRY, text) is None:
        bare = re.sub("^https?://", "", text).partition("/")[0]
        hint = f"use {bare}" if bare != text and re.fullmatch(_REGISTRY, bare) else "example: nvcr.io"
        raise ValueError(f"{text!r} is not a valid registry address\n{hint}")
    return text


def check_shell_variable(name: str) -> str:
    """Return the name of an environment variable."""
    if re.fullmatch(SHELL_VARIABLE_PATTERN, name) is None:
        raise ValueError(f"{name!r} is not a valid environment variable name\nexample: NCCL_DEBUG")
    return name


def parse_variable_value(value: object) -> str:
    """Return an environment variable's value as text; a file of the guest holds one on each line."""
    match value:
        case bool():
            raise ValueError('an environment variable must be text\nquote it, for example "1" or "true"')
        case int() | float():
            return str(value)
        case str() if is_printed(value):
            return value
        case _:
            raise ValueError("an environment variable must be a single line of text\nremove its line breaks")


def check_mount(text: str) -> str:
    """Return `source:target`, two paths."""
    source, colon, target = text.partition(":")
    if not colon or not target.strip("/") or not (_is_path(source) and _is_path(target)):
        hint = "use two paths, for example /srv/data:/data"
        raise ValueError(f"{text!r} is not a valid container mount of a guest folder\n{hint}")
    for own in ("/etc/vgpu-cfg", "/opt/vgpu-cfg", "/etc/hosts"):
        if target.rstrip("/") == own or target.startswith(f"{own}/"):
            raise ValueError(f"{own} in the container is reserved for vgpu-cfg\nuse another target")
    return text


def parse_duration(value: object) -> int:
    """Return the seconds of `30m`; at least a minute, at most a day."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    found = re.fullmatch(r"([0-9]{1,6}) ?([a-z]*)", text)
    if found is None or (found[2] and found[2] not in _SECONDS):
        raise ValueError("a duration must be a number followed by s, m or h\nexample: 30m")
    if not found[2]:
        raise ValueError(f"the duration {text} has no unit\nexample: {text}s or {text}m")
    seconds = int(found[1]) * _SECONDS[found[2]]
    if not _SHORTEST_WAIT <= seconds <= _LONGEST_WAIT:
        raise ValueError(f"{text} is out of range\nuse 1m to 24h")
    return seconds


def parse_rate(value: object) -> int:
    """Return the Mbps of `10Gbps`, bits as networks count them: in powers of 1000."""
    text = value if isinstance(value, str) else ""
    found = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) ?(Mbps|Gbps)", text)
    mbps = float(found[1]) * _MBPS[found[2]] if found is not None else 0.0
    if mbps < 1 or mbps != int(mbps):
        raise ValueError("a rate must be in whole Mbps, or in Gbps\nexample: 10Gbps or 500Mbps")
    return int(mbps)


def _patterned(pattern: str, *, or_empty: bool = False) -> Any:
    return Annotated[str, Field(pattern=f"^({pattern})?$" if or_empty else f"^{pattern}$")]


def _checked(check: Callable[[str], str], written: Any) -> BeforeValidator:
    """Apply a check to text; the empty one is an absent key."""
    return BeforeValidator(if_text(check), json_schema_input_type=written)


def word_or_mapping(short: str, words: tuple[str, ...], written: Any) -> BeforeValidator:
    """Accept one of the words, and convert any other text to a mapping with only the key `short`."""

    def unfold(value: object) -> object:
        return {short: value} if isinstance(value, str) and value not in words else value

    return BeforeValidator(unfold, json_schema_input_type=written)


def flag_or_mapping(written: Any) -> BeforeValidator:
    """Take `true` for an empty mapping, and `false` for an absent key."""

    def unfold(value: object) -> object:
        if value is True or value == "true":
            return {}
        return None if value is False or value == "false" else value

    return BeforeValidator(unfold, json_schema_input_type=written)


HostName = Annotated[str | None, _checked(check_host_name, _patterned(LABEL_PATTERN, or_empty=True))]
Domain = Annotated[str | None, _checked(check_domain, _patterned(DOMAIN_PATTERN, or_empty=True))]
UserName = Annotated[str, _checked(check_user, _patterned(USER_PATTERN))]
PublicKeys = Annotated[
    tuple[Annotated[Text, AfterValidator(check_public_key)], ...],
    one_or_list("a public key", str, Text | list[Text]),
]
TimeServers = Annotated[
    tuple[Annotated[Text, AfterValidator(check_time_server)], ...],
    one_or_list("an NTP server", str, Text | list[Text]),
]
Shell = Annotated[str, _checked(check_shell, _patterned(SHELL_PATTERN))]
SharedPath = Annotated[str, _checked(check_folder, _patterned(FOLDER_PATTERN))]
Package = Annotated[str | None, _checked(check_package, _patterned(PACKAGE_PATTERN, or_empty=True))]
CudaVersion = Annotated[str, _checked(check_cuda_version, _patterned(CUDA_PATTERN))]
Url = Annotated[str | None, _checked(check_url, _patterned(PLAIN_URL_PATTERN, or_empty=True))]
Sha256 = Annotated[str | None, _checked(check_sha256, _patterned(SHA256_PATTERN, or_empty=True))]
Image = Annotated[str | None, _checked(check_image, _patterned(IMAGE_PATTERN, or_empty=True))]
NeededImage = Annotated[str, _checked(check_image, _patterned(IMAGE_PATTERN))]
Registry = Annotated[str | None, _checked(check_registry, str)]
RegistryUser = Annotated[str | None, _checked(check_registry_user, str)]
Elastic = Annotated[str | None, _checked(check_elastic, _patterned(ELASTIC_PATTERN, or_empty=True))]
Port = Annotated[int, Field(ge=1, le=65535)]
Duration = Annotated[
    int, BeforeValidator(parse_duration, json_schema_input_type=_patterned(DURATION_PATTERN))
]
Rate = Annotated[int, BeforeValidator(parse_rate, json_schema_input_type=_patterned(RATE_PATTERN))]
Mounts = Annotated[
    tuple[Annotated[Text, AfterValidator(check_mount)], ...],
    one_or_list("a mount", str, Text | list[Text]),
]
ShellVariable = Annotated[str, AfterValidator(check_shell_variable)]
SHELL_VARIABLES = {"pattern": f"^{SHELL_VARIABLE_PATTERN}$"}
VariableValue = Annotated[
    str, BeforeValidator(parse_variable_value, json_schema_input_type=str | int | float)
]
FeatureType = Annotated[
    int, AfterValidator(check_feature_type), Field(json_schema_extra={"enum": list(FEATURE_TYPES)})
]
Containers = Literal["docker", "containerd", "apptainer", "leave"]
