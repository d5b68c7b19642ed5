"""A VM's guestinfo, as its guest reads and writes it: encodings, redaction, and rules for its documents.

The texts for nothing, and for redacted values, are cloud-init's own (its VMware datasource).

Documents given to a guest (cloud-config, netplan) are mappings without unknown keys.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import zlib
from collections.abc import Mapping
from typing import Any

from vgpu_cfg.lab.state.vm import VirtualMachine

PREFIX = "guestinfo."
REDACTED, NO_ENCODING = "---", " "
PLAIN = frozenset({"", "plain"})
BASE64 = frozenset({"base64", "b64"})
GZIPPED = frozenset({"gzip+base64", "gz+b64"})
LONGEST = 65_535
"""Bytes of one value that VMware's tools hand over."""


class BadGuestinfoError(Exception):
    """A value cannot be read; the text says why."""


def read(vm: VirtualMachine, name: str) -> str:
    """Return a decoded value, "" where there is none. Raises BadGuestinfoError."""
    value = vm.extra_config.get(f"{PREFIX}{name}", "")
    if not value.strip() or value == REDACTED:
        return ""
    if len(value.encode()) > LONGEST:
        raise BadGuestinfoError(f"guestinfo.{name} is longer than {LONGEST} bytes")
    return decoded(value, vm.extra_config.get(f"{PREFIX}{name}.encoding", ""), f"guestinfo.{name}")


def decoded(value: str, encoding: str, where: str) -> str:
    """Return the text of a value that was encoded. Raises BadGuestinfoError."""
    word = encoding.strip().lower()
    try:
        if word in PLAIN:
            return value
        if word not in BASE64 | GZIPPED:
            raise BadGuestinfoError(f"{where} has the unknown encoding {encoding!r}")
        content = base64.b64decode(value, validate=True)
        return (gzip.decompress(content) if word in GZIPPED else content).decode()
    except (binascii.Error, EOFError, OSError, UnicodeDecodeError, ValueError, zlib.error) as error:
        raise BadGuestinfoError(f"{where} is not valid {word}") from error


def write(vm: VirtualMachine, name: str, value: str) -> None:
    """Set a value, as `vmtoolsd --cmd "info-set …"` does. The caller touches the VM."""
    vm.extra_config[f"{PREFIX}{name}"] = value


def redact(vm: VirtualMachine, name: str) -> None:
    """Leave nothing of a value, nor of its encoding."""
    vm.extra_config[f"{PREFIX}{name}"] = REDACTED
    vm.extra_config[f"{PREFIX}{name}.encoding"] = NO_ENCODING


class BadDocumentError(Exception):
    """A document is none that the lab's guests know; the text says why."""


def mapping(value: Any, where: str) -> Mapping[str, Any]:
    """Return a mapping. Raises BadDocumentError."""
    if not isinstance(value, dict):
        raise BadDocumentError(f"{where} is not a mapping")
    return value


def check_keys(part: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    """Raise BadDocumentError for a key that is not known."""
    unknown = sorted(set(part) - known)
    if unknown:
        raise BadDocumentError(f"{where}: unknown key {unknown[0]!r}")
