"""What cloud-init is given: user data, metadata, their size, and the user's own #cloud-config beneath."""

from __future__ import annotations

import base64
import gzip
import random
from typing import Any

import pytest

from tests.unit.staging.sandbox import SEED, context, spec_of
from vgpu_cfg.documents.foreign import read_foreign
from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.base import PLAN_KEYS, GuestNic
from vgpu_cfg.model.guests.guest import GUEST_MARK_KEY, GuestFile, GuestSpec, parse_mark
from vgpu_cfg.model.guests.guestinfo import LEAST_OWN_BYTES, MOST_BYTES, pack
from vgpu_cfg.model.guests.modules import (
    HostEntry,
    HostNameModule,
    HostsModule,
    LicenceModule,
    LimitsModule,
    NetworkModule,
    UsersModule,
)
from vgpu_cfg.model.plan_file import UserEntry
from vgpu_cfg.planning.guests.plan_keys import keys_in, word_of_keys
from vgpu_cfg.ports import GuestStager
from vgpu_cfg.staging.bundle import bundle_files
from vgpu_cfg.staging.cloud_init import guest_info, metadata, user_data
from vgpu_cfg.staging.stager import Stager

TOKEN = "the-token-itself"
MODULES = (
    HostNameModule(host_name="hvd-01", domain="example.com"),
    UsersModule(users=(UserEntry(name="ada", sudo=False),)),
    HostsModule(entries=(HostEntry(address="10.111.0.11", names=("hvd-01",)),)),
    NetworkModule(nics=(GuestNic(mac="00:50:56:00:00:01", dhcp=True),)),
    LicenceModule(token="lic"),
)
FINGERPRINTS = {"lic": "aaaa", PLAN_KEYS: "bbbb"}


def stager() -> GuestStager:
    return Stager(SEED, {"lic": TOKEN}, FINGERPRINTS)


def spec(user_data: str = "", vm: str = "hvd-01") -> GuestSpec:
    return spec_of(*MODULES, vm=vm, user_data=user_data)


def unpack(text: str) -> str:
    return gzip.decompress(base64.b64decode(text, validate=True)).decode()


def seeded(one: GuestSpec) -> dict[str, Any]:
    text = unpack(stager().seed(one)["guestinfo.userdata"])
    assert text.startswith("#cloud-config\n")
    return read_foreign(text, "userdata")


def test_the_keys_of_guestinfo() -> None:
    seed = stager().seed(spec())
    assert {key: value for key, value in seed.items() if key.endswith("encoding")} == {
        "guestinfo.userdata.encoding": "gzip+base64",
        "guestinfo.metadata.encoding": "gzip+base64",
    }
    assert set(seed) == {
        *(f"guestinfo.{name}{end}" for name in ("userdata", "metadata") for end in ("", ".encoding")),
        GUEST_MARK_KEY,
    }


def test_a_clone_says_which_keys_it_brings() -> None:
    assert keys_in(stager().seed(spec())[GUEST_MARK_KEY]) == {word_of_keys(FINGERPRINTS[PLAN_KEYS])}
    without = spec_of(*(one for one in MODULES if PLAN_KEYS not in one.secrets))
    assert GUEST_MARK_KEY not in stager().seed(without)


def test_what_cloud_init_does_first() -> None:
    data = seeded(spec())
    assert data["users"][0] == "default"
    assert [one["name"] for one in data["users"][1:]] == ["ada", "vgpu-cfg"]
    assert "sudo" not in data["users"][1]
    assert data["users"][2]["sudo"] == "ALL=(ALL) NOPASSWD:ALL"
    carried = ["host-name", "users", "hosts", "network"]
    assert data["runcmd"] == [["/usr/local/sbin/vgpu-cfg-stage", "--run", "first", *carried]]
    assert data["ssh_deletekeys"] is True
    assert data["manage_etc_hosts"] is False
    files = {one["path"]: one for one in data["write_files"]}
    assert files["/usr/local/sbin/vgpu-cfg-stage"]["permissions"] == "0755"
    assert {one["owner"] for one in data["write_files"]} == {"root:root"}


def test_a_clone_carries_no_secret_and_no_private_key() -> None:
    text = unpack(stager().seed(spec())["guestinfo.userdata"])
    assert TOKEN not in text
    assert "PRIVATE" not in text
    assert "ssh_keys" not in text
    assert "/var/lib/vgpu-cfg/secrets" not in "".join(one["path"] for one in seeded(spec())["write_files"])


def test_an_exposed_guest_gets_everything_and_a_host_key() -> None:
    data = seeded(spec().model_copy(update={"is_exposed": True}))
    assert data["runcmd"][0][-1] == "licence"
    assert data["ssh_keys"]["ed25519_private"].startswith("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    assert data["ssh_keys"]["ed25519_public"].endswith(" hvd-01")
    files = {one["path"]: one for one in data["write_files"]}
    assert files["/var/lib/vgpu-cfg/secrets/licence-token"]["permissions"] == "0600"


def test_metadata_holds_no_secret_and_names_the_guest_for_good() -> None:
    text = unpack(stager().seed(spec())["guestinfo.metadata"])
    assert TOKEN not in text
    assert "PRIVATE" not in text
    data = read_foreign(text, "metadata")
    assert data["local-hostname"] == "hvd-01"
    assert data["redact"] == ["userdata"]
    assert data["network"]["version"] == 2
    other = read_foreign(metadata(spec_of(LimitsModule())), "metadata")
    assert other["instance-id"] == data["instance-id"]
    assert "network" not in other
    assert read_foreign(metadata(spec(vm="hvd-02")), "")["instance-id"] != data["instance-id"]


def test_the_same_guest_gets_the_same_bytes() -> None:
    assert stager().seed(spec()) == stager().seed(spec())
    assert stager().bundle(spec(), ["users"], "r1", {}) == stager().bundle(spec(), ["users"], "r1", {})


def test_too_much_is_refused_and_the_largest_named() -> None:
    noise = random.Random(1).randbytes(70_000).hex()  # noqa: S311 - text that does not pack, no secret
    files = [GuestFile(path="/srv/large", content=noise), GuestFile(path="/srv/small", content="x")]
    with pytest.raises(
        GuestError, match=r"guestinfo accepts only 65,535. The largest files: /srv/large \([\d,]+ bytes\)"
    ) as caught:
        guest_info(context(spec_of(LimitsModule())), files)
    assert caught.value.subject == "hvd-01"
    assert noise[:20] not in str(caught.value)


def test_staging_adds_at_least_what_loading_counts_for_it() -> None:
    one = spec_of(LimitsModule())
    own = user_data(context(one), bundle_files(context(one), one.carried))
    assert len(pack(own)) >= LEAST_OWN_BYTES


def test_just_enough_is_taken() -> None:
    one = spec_of(LimitsModule(), user_data="#cloud-config\n")
    noise = random.Random(1)  # noqa: S311 - text that does not pack, no secret
    sizes = []
    for count in range(40_000, 52_000, 250):
        try:
            info = guest_info(context(one), [GuestFile(path="/x", content=noise.randbytes(count).hex())])
        except GuestError:
            break
        sizes.append(len(info["guestinfo.userdata"]))
    assert MOST_BYTES - 800 < max(sizes) <= MOST_BYTES


THEIRS = """#cloud-config
package_update: yes
users:
- name: bob
  lock_passwd: no
write_files:
- path: /etc/motd
  permissions: 0644
runcmd:
- [touch, /srv/x]
- echo hello
ssh_deletekeys: true
"""


def test_the_users_own_is_beneath() -> None:
    data = seeded(spec(THEIRS))
    assert data["package_update"] is True
    assert data["users"][0] == {"name": "bob", "lock_passwd": False}
    assert "default" not in data["users"]
    assert data["write_files"][0] == {"path": "/etc/motd", "permissions": 0o644}
    assert data["runcmd"] == [
        ["touch", "/srv/x"],
        "echo hello",
        ["/usr/local/sbin/vgpu-cfg-stage", "--run", "first", "host-name", "users", "hosts", "network"],
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ssh_deletekeys: false", "it sets ssh_deletekeys, which vgpu-cfg also sets"),
        ("ssh_keys: {rsa_private: x}", "it sets ssh_keys"),
        ("manage_etc_hosts: true", "it sets manage_etc_hosts"),
        ("users: [{name: vgpu-cfg}]", "its users contain vgpu-cfg, which vgpu-cfg also creates"),
        ("write_files: [{path: /usr/local/sbin/vgpu-cfg-stage}]", "its write_files contain /usr/local/sbin"),
        ("runcmd: reboot", "its runcmd is not a list"),
    ],
)
def test_a_clash_is_refused(text: str, told: str) -> None:
    with pytest.raises(GuestError, match="the user data cannot be merged: ") as caught:
        stager().seed(spec(f"#cloud-config\n{text}\n"))
    assert told in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("#!/bin/sh\necho\n", "does not begin with #cloud-config"),
        ("a: 1\n", "does not begin with #cloud-config"),
        ("#cloud-config\na: 1\na: 2\n", "user_data:3:1: invalid YAML: found duplicate key"),
        ("#cloud-config\n- a\n", "the content must be a mapping"),
        ("#cloud-config\na: [1\n", "user_data:3:1: invalid YAML"),
        ("#cloud-config\na: !!python/name:os.system x\n", "invalid YAML"),
    ],
)
def test_user_data_that_cannot_be_read(text: str, told: str) -> None:
    with pytest.raises(GuestError) as caught:
        stager().seed(spec(text))
    assert told in caught.value.message
    assert caught.value.subject == "hvd-01"


def test_user_data_without_content() -> None:
    assert seeded(spec("#cloud-config\n")) == seeded(spec()) == seeded(spec("\n"))


NASTY = "a b'\"`$(reboot)`\n%s\\ \t: - #x\n\n  yes\u0085\u2028é😀"


def test_whatever_a_file_holds_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [GuestFile(path="/srv/x y", content=NASTY), GuestFile(path="/yes", content="no\n")]
    data = read_foreign(user_data(context(spec_of(LimitsModule())), files), "userdata")
    assert [one["content"] for one in data["write_files"]] == [NASTY, "no\n"]
    assert [one["path"] for one in data["write_files"]] == ["/srv/x y", "/yes"]


# ---------------------------------------------------------------- bundle and mark


def test_a_bundle_brings_the_named_modules_alone() -> None:
    bundle = stager().bundle(spec(), ["hosts"], "r1", {})
    assert bundle.command == ("/usr/local/sbin/vgpu-cfg-stage", "--run", "r1", "hosts")
    paths = [one.path for one in bundle.files]
    assert "/var/lib/vgpu-cfg/modules/03-hosts.sh" in paths
    assert not any("users" in path or "secret" in path for path in paths)
    assert '"name":"licence"' in bundle.files[0].content
    assert bundle.spec == spec().digest


def test_secrets_of_other_modules_need_not_be_known() -> None:
    Stager(SEED, {}, {}).bundle(spec(), ["hosts", "users"], "r1", {})
    with pytest.raises(GuestError, match="the client configuration token has no value"):
        Stager(SEED, {}, {}).bundle(spec(), ["licence"], "r1", {})


def test_a_module_that_the_guest_shall_not_have() -> None:
    with pytest.raises(GuestError, match="this guest has no module worker"):
        stager().bundle(spec(), ["worker"], "r1", {})


def test_no_secret_is_outside_the_secrets_folder() -> None:
    bundle = stager().bundle(spec(), [one.kind for one in MODULES], "r1", {})
    assert [one.path for one in bundle.files if TOKEN in one.content] == [
        "/var/lib/vgpu-cfg/secrets/licence-token"
    ]
    assert all("PRIVATE KEY" not in one.content for one in bundle.files if one.mode != 0o600)
    assert TOKEN not in repr(bundle)


def test_the_mark() -> None:
    first = stager().mark(spec(), ["users", "hosts"], "gone:0123456789 licence:abc:def", {})
    staged = parse_mark(first)
    assert set(staged) == {"users", "hosts", "licence"}
    assert staged["licence"].digest == "abc"
    assert staged["users"].digest == MODULES[1].digest
    assert staged["users"].fingerprint
    assert staged["hosts"].fingerprint == ""
    again = parse_mark(stager().mark(spec(), ["licence"], first, {}))
    assert again["licence"].digest == MODULES[4].digest
    assert again["users"] == staged["users"]


def test_a_short_seed_is_refused() -> None:
    with pytest.raises(GuestError, match="has 5 bytes; at least 32 are required"):
        Stager(b"short", {}, {})
