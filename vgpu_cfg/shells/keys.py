"""The ssh keys of a plan, derived from its seed: HKDF-SHA256 to ed25519, written as OpenSSH writes keys.

The same seed gives the same keys to the byte, so that a key that is already there is seen to be the same.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.guest import DERIVED

SHORTEST_SEED = 32
_SALT = b"vgpu-cfg ssh keys 1"
_ARMOUR = ("-----BEGIN OPENSSH PRIVATE KEY-----", "-----END OPENSSH PRIVATE KEY-----")


@dataclass(frozen=True, slots=True)
class Ed25519Pair:
    """An ed25519 key: `private` a whole file, `public` one line of it without a newline."""

    private: str = field(repr=False)
    public: str


class PlanKeyRing:
    """The keys that follow from a seed, and those from the seeds before it, which guests may still have.

    Raises `GuestError` for a seed of less than 32 bytes.
    """

    def __init__(self, seed: bytes, former: Sequence[bytes] = ()) -> None:
        if len(seed) < SHORTEST_SEED:
            raise GuestError(
                f"the seed for the plan's SSH keys has {len(seed)} bytes; at least {SHORTEST_SEED} are "
                "required",
                subject="training.keys",
                remedy="store at least 32 random bytes, such as the output of `openssl rand -hex 32`",
            )
        self._seed = seed
        self._former = tuple(former)

    def by_age(self) -> Iterator[PlanKeyRing]:
        """Yield the keys of each seed, beginning with the one that holds."""
        yield self
        yield from map(PlanKeyRing, self._former)

    def host_key(self, vm: str) -> Ed25519Pair:
        """Return the host key of a VM whose guest does not make its own: see `model.guests.host_keys`."""
        return self._pair(f"host:{vm}", vm)

    def public_host_key(self, vm: str, known: str) -> str:
        """Return the public host key, without a comment, that `known` describes; "" if there is none."""
        return " ".join(self.host_key(vm).public.split()[:2]) if known == DERIVED else known

    def mesh_key(self) -> Ed25519Pair:
        """Return the key by which workers log in to each other."""
        return self._pair("mesh", "vgpu-cfg-mesh")

    def login_key(self) -> Ed25519Pair:
        """Return the key by which this tool logs in."""
        return self._pair("login", "vgpu-cfg-login")

    def _pair(self, info: str, comment: str) -> Ed25519Pair:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        raw = HKDF(algorithm=SHA256(), length=32, salt=_SALT, info=info.encode()).derive(self._seed)
        key = Ed25519PrivateKey.from_private_bytes(raw)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
        public = key.public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
        return Ed25519Pair(_repeatable(private.decode()), f"{public.decode()} {_word(comment)}")


def _word(comment: str) -> str:
    """Return a comment that a line of authorized_keys can carry as one word."""
    return "".join(sign if sign.isascii() and (sign.isalnum() or sign in "-_.") else "_" for sign in comment)


def _repeatable(text: str) -> str:
    """Put zeros where OpenSSH's format has a random number, twice, by which a passphrase is checked.

    It is at the head of the private section, which is the last part of the file (PROTOCOL.key).
    """
    content = bytearray(base64.b64decode("".join(text.splitlines()[1:-1])))
    at = len(b"openssh-key-v1\0")
    for _ in range(3):  # cipher, key derivation, its options
        at += 4 + int.from_bytes(content[at : at + 4], "big")
    at += 4  # number of keys
    at += 4 + int.from_bytes(content[at : at + 4], "big")  # the public key
    at += 4  # length of the private section
    if content[at : at + 4] != content[at + 4 : at + 8]:
        raise AssertionError("not in the PROTOCOL.key format")
    content[at : at + 8] = bytes(8)
    body = base64.b64encode(bytes(content)).decode()
    lines = [body[start : start + 70] for start in range(0, len(body), 70)]
    return "\n".join([_ARMOUR[0], *lines, _ARMOUR[1], ""])
