"""The keys of a plan: those that follow from its seed, the same to the byte every time."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from io import StringIO

import paramiko
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.guest import DERIVED
from vgpu_cfg.shells.keys import Ed25519Pair, PlanKeyRing

SEED, OTHER = bytes(range(32)), bytes(40)
Ask = Callable[[PlanKeyRing], Ed25519Pair]


def by_hand(seed: bytes, info: str) -> bytes:
    """Derive a public key by RFC 5869, with one block of output."""
    root = hmac.digest(b"vgpu-cfg ssh keys 1", seed, "sha256")
    raw = hmac.digest(root, info.encode() + b"\x01", "sha256")
    return Ed25519PrivateKey.from_private_bytes(raw).public_key().public_bytes_raw()


@pytest.mark.parametrize(
    ("ask", "info", "comment"),
    [
        (lambda keys: keys.login_key(), "login", "vgpu-cfg-login"),
        (lambda keys: keys.mesh_key(), "mesh", "vgpu-cfg-mesh"),
        (lambda keys: keys.host_key("train-01"), "host:train-01", "train-01"),
        (lambda keys: keys.host_key("Zug 1/ä.b_c"), "host:Zug 1/ä.b_c", "Zug_1__.b_c"),
    ],
    ids=["login", "mesh", "host", "host of a name with other signs"],
)
def test_a_key_is_derived_from_the_seed_and_its_purpose(ask: Ask, info: str, comment: str) -> None:
    pair = ask(PlanKeyRing(SEED))
    assert pair == ask(PlanKeyRing(SEED)), "the whole file is repeatable"
    assert pair.public != ask(PlanKeyRing(OTHER)).public
    assert pair.private not in repr(pair)
    kind, public, said = pair.public.split(" ")
    assert (kind, said) == ("ssh-ed25519", comment)
    key = paramiko.Ed25519Key.from_private_key(StringIO(pair.private))
    assert key.get_base64() == public
    assert key.asbytes().endswith(by_hand(SEED, info))
    assert pair.private.splitlines()[0] == "-----BEGIN OPENSSH PRIVATE KEY-----"
    assert max(map(len, pair.private.splitlines())) == 70


def test_a_guest_may_have_the_key_of_a_former_seed() -> None:
    found = [ring.login_key() for ring in PlanKeyRing(SEED, [OTHER]).by_age()]
    assert found == [PlanKeyRing(seed).login_key() for seed in (SEED, OTHER)]


@pytest.mark.parametrize("known", ["", "ssh-ed25519 AAAA"])
def test_a_guest_with_a_host_key_of_its_own_keeps_it(known: str) -> None:
    keys = PlanKeyRing(SEED)
    assert keys.public_host_key("a", known) == known
    assert keys.public_host_key("a", DERIVED) == keys.host_key("a").public.removesuffix(" a")


def test_a_short_seed_is_refused() -> None:
    with pytest.raises(GuestError, match="has 31 bytes; at least 32 are required") as caught:
        PlanKeyRing(SEED[:31])
    assert (caught.value.subject, "openssl rand" in caught.value.remedy) == ("training.keys", True)
