"""Every module of a guest answers every question as stored; and marks, reports and keys of guests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.sections import left_over, section
from tests.unit.answers import own_properties, samples, told
from vgpu_cfg.model.guests.base import KeptAddress, parse_addresses, print_addresses
from vgpu_cfg.model.guests.downloads import MONITORING_IMAGES, Download, check_pin, short_pin
from vgpu_cfg.model.guests.guest import (
    DERIVED,
    HOST_KEY_KEY,
    GuestSpec,
    StagedModule,
    fingerprint_of,
    host_keys_fingerprint,
    is_expected,
    kept_host_key,
    outdated,
    parse_mark,
    parse_report,
    print_mark,
)
from vgpu_cfg.model.guests.modules import (
    MODULE_ORDER,
    GuestModule,
    LicenceModule,
    LimitsModule,
    RoceModule,
    branch_of_package,
    kind_of_package,
)

HERE = Path(__file__).parent
ANSWERS = HERE / "modules.txt"
SAMPLES = samples(HERE / "modules.yaml")
ADAPTER: TypeAdapter[Any] = TypeAdapter(GuestModule)
KEY = f"ssh-ed25519 {'A' * 68}"


def module_of(name: str) -> Any:
    return ADAPTER.validate_python({"kind": name.partition(" ")[0], **(SAMPLES[name] or {})})


def answers(module: Any) -> Iterator[tuple[str, object]]:
    for name in own_properties(type(module)):
        yield name, getattr(module, name)
    found = module.describe()
    for name, value in found._asdict().items():
        yield name, [one._asdict() for one in value] if name == "fetched" else value


@pytest.mark.parametrize("name", SAMPLES)
def test_a_module_answers_every_question(name: str) -> None:
    text = told(answers(module_of(name)))
    assert text == section(ANSWERS, name, text)


def test_every_kind_has_a_sample() -> None:
    assert left_over(ANSWERS, SAMPLES) == []
    assert {name.partition(" ")[0] for name in SAMPLES} == set(MODULE_ORDER)


def test_monitoring_has_images_of_its_own() -> None:
    module = module_of("monitoring by nvidia-smi").model_copy(update={"images": {}})
    assert module.used_images == {"node-exporter": MONITORING_IMAGES["node-exporter"]}


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("driver", "driver of known branches", True),
        ("toolkit", "toolkit of containerd", False),
        ("limits", "limits of shared memory", False),
    ],
)
def test_a_digest_is_of_what_a_module_writes(one: str, other: str, is_same: bool) -> None:
    assert (module_of(one).digest == module_of(other).digest) is is_same


@pytest.mark.parametrize(
    ("package", "branch", "kind"),
    [
        ("/opt/NVIDIA-Linux-x86_64-580.95.05-grid.run", "580", "guest"),
        ("https://x.io/nvidia-linux-grid-570_1_amd64.deb/", "570", "guest"),
        ("NVIDIA-Linux-x86_64-580.95.05-vgpu-kvm.run", "580", "host"),
        ("nvidia-driver-550", "550", "data center"),
        ("cuda-drivers", "", "data center"),
        ("a/1580.95/x.deb", "", ""),
        ("driver_5800.run", "", ""),
    ],
)
def test_a_package_names_its_branch_and_its_kind(package: str, branch: str, kind: str) -> None:
    assert (branch_of_package(package), kind_of_package(package)) == (branch, kind)


LIMITS, ROCE, LICENCE = LimitsModule(), RoceModule(nics=()), LicenceModule(token="t")
MESH = module_of("ssh-mesh")
SPEC = GuestSpec.model_validate(
    {"plan": "p", "vm": "a", "modules": (LIMITS, LICENCE, ROCE, MESH), "login": {"password": "t", "key": "k"}}
)


def test_a_guest_carries_what_is_public() -> None:
    assert SPEC.public == SPEC.carried == ("limits",)
    exposed = SPEC.model_copy(update={"is_exposed": True})
    assert exposed.carried == ("limits", "licence", "roce", "ssh-mesh")
    assert SPEC.secrets == ("t", "plan-keys", "k")
    assert (SPEC.get(RoceModule), SPEC.module("licence")) == (ROCE, LICENCE)
    none = SPEC.model_copy(update={"modules": (ROCE, LIMITS)})
    assert (none.get(LicenceModule), none.module("licence"), none.public) == (None, None, ("roce", "limits"))
    assert len({SPEC.digest, none.digest, none.model_copy(update={"modules": (LIMITS, ROCE)}).digest}) == 3
    assert len(SPEC.digest) == 10


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("", {}),
        ("a:1", {"a": StagedModule(digest="1")}),
        (
            "a:1:fp b:2:fp-hk",
            {
                "a": StagedModule(digest="1", fingerprint="fp"),
                "b": StagedModule(digest="2", fingerprint="fp", host_keys="hk"),
            },
        ),
    ],
)
def test_a_mark_reads_back(text: str, mark: dict[str, StagedModule]) -> None:
    assert parse_mark(text) == mark
    assert print_mark(dict(reversed(mark.items()))) == text


def test_words_that_are_no_mark_are_left_out() -> None:
    assert set(parse_mark("begun keys=x a:1 :2 b: c:1:2:3 d:1:")) == {"a"}


def test_what_is_outdated() -> None:
    known = {"t": "1111", "plan-keys": "2222"}
    host_keys = {"a": KEY, "b": DERIVED}
    mark: dict[str, Any] = {
        one.kind: StagedModule(
            digest=one.digest,
            fingerprint=fingerprint_of(one, known) or "",
            host_keys=host_keys_fingerprint(one, host_keys),
        )
        for one in SPEC.modules
    }

    def old(
        known: Mapping[str, str] = known, keys: Mapping[str, str] | None = None, **staged: Any
    ) -> tuple[str, ...]:
        changed = {name: value for name, value in (mark | staged).items() if value}
        return outdated(SPEC.modules, changed, known, keys)

    assert old() == old(keys=host_keys) == old(known={}) == ()
    assert old(limits=None, roce=StagedModule(digest="x")) == ("limits", "roce")
    assert old(known={"t": "3333"}) == ("licence",)
    assert old(keys={"a": KEY, "b": KEY}) == ("ssh-mesh",)
    assert old(keys={"a": KEY, "b": ""}) == ("ssh-mesh",)
    assert [fingerprint_of(one, {}) for one in (LIMITS, LICENCE)] == ["", None]
    assert (
        host_keys_fingerprint(MESH, {"a": DERIVED, "b": DERIVED}) == host_keys_fingerprint(LIMITS, {}) == ""
    )
    assert len(mark["ssh-mesh"].host_keys) == len(mark["licence"].fingerprint) == 8


def report(state: str, digest: str = LIMITS.digest) -> Any:
    words = f'{{"state":"done","modules":[{{"name":"limits","state":"{state}","digest":"{digest}"}}]}}'
    return parse_report(words)


@pytest.mark.parametrize(
    ("state", "digest", "marked", "is_there"),
    [
        ("present", LIMITS.digest, ["limits"], True),
        ("done", LIMITS.digest, [], True),
        ("warned", LIMITS.digest, ["limits"], True),
        ("done", "other", ["limits"], False),
        ("waiting", "other", [], True),
        ("reboot", "other", [], True),
        ("failed", "other", ["limits"], False),
        ("hand", LIMITS.digest, [], False),
    ],
)
def test_a_module_is_there_by_its_report(state: str, digest: str, marked: list[str], is_there: bool) -> None:
    assert is_expected(LIMITS, report(state, digest), marked) is is_there
    assert not is_expected(ROCE, report(state, digest), marked)
    assert not is_expected(LIMITS, None, marked)


def test_a_report_is_one_of_a_guest() -> None:
    module = f'{{"name":"a","state":"failed","why":"x \\n {"y" * 900}"}}'
    long = f'{{"state":"failed","host_key":"{KEY}","modules":[{module}]}}'
    found = parse_report(long)
    assert found is not None
    assert (found.host_key, found.modules[0].why, found.first_in("done")) == (KEY, f"x {'y' * 198}", None)
    assert found.first_in("failed") == found.modules[0]
    other = parse_report('{"state":"done","host_key":"ssh-rsa x"}')
    assert other is not None
    assert other.host_key == ""
    assert [parse_report(text) for text in ("", "x", "{}", '{"state":"odd"}')] == [None] * 4


@pytest.mark.parametrize(
    ("kept", "is_staged", "is_exposed", "key"),
    [
        (KEY, True, True, KEY),
        ("", True, False, DERIVED),
        ("", False, False, ""),
        ("", False, True, DERIVED),
        ("awaited", True, False, ""),
        (f"{KEY} comment", True, False, ""),
    ],
)
def test_the_host_key_of_a_guest(kept: str, is_staged: bool, is_exposed: bool, key: str) -> None:
    settings = {HOST_KEY_KEY: kept} if kept else {}
    assert kept_host_key(settings, is_staged=is_staged, is_exposed=is_exposed) == key


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("nic2=10.0.0.1/24", {1: KeptAddress(address="10.0.0.1/24")}),
        (
            "nic1=@00:50:56:00:00:0a nic3=fd00::1/64@00:50:56:00:00:01",
            {
                0: KeptAddress(mac="00:50:56:00:00:0a"),
                2: KeptAddress(address="fd00::1/64", mac="00:50:56:00:00:01"),
            },
        ),
        ("", {}),
    ],
)
def test_kept_addresses_read_back(text: str, kept: dict[int, KeptAddress]) -> None:
    assert parse_addresses(text) == kept
    assert print_addresses({**dict(reversed(kept.items())), 9: KeptAddress()}) == text
    assert parse_addresses(f"{text.upper()} nic0=10.0.0.1/24 nic9= nic8=10.0.0.300/24 x") == kept


@pytest.mark.parametrize("pin", ["a" * 64, f"sha256:{'b' * 64}", "1.18.1-1"])
def test_pins(pin: str) -> None:
    assert check_pin(pin) == pin
    assert short_pin(pin) == pin.removeprefix("sha256:")[:12]
    downloads: list[dict[str, Any]] = [{}, {"pin": pin}, {"is_signed": True}]
    assert [Download.model_validate({"key": "k", "address": "a", **one}).is_pinned for one in downloads] == [
        0,
        1,
        1,
    ]
    for wrong in (f"{pin}!", f"x{pin}"):
        with pytest.raises(
            ValueError, match="is not a pin\nuse 64 hex digits, sha256: and 64 hex digits, or a version"
        ):
            check_pin(wrong)
