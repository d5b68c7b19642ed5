"""Wordings, desired VMs and networks, reservations, freezes, verdicts and results of `verify`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from vgpu_cfg.model.choices import NO_OCCASION, Occasion
from vgpu_cfg.model.desired import (
    DesiredNetwork,
    DesiredNic,
    DesiredPlan,
    DesiredVm,
    asks_gpudirect,
    asks_rdma,
    mtu_of,
    network_mtu,
    network_of,
    with_nearness,
)
from vgpu_cfg.model.frozen import Frozen, in_utc
from vgpu_cfg.model.guest_looks import BranchPlan, TemplateLooks
from vgpu_cfg.model.host_list import HostList
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.locks import Freeze, KeptFreeze, Lock, LockName, Locks, parse_freeze, thaw_command
from vgpu_cfg.model.plan_values import Limits, SecretReference
from vgpu_cfg.model.reservations import (
    KeptReservation,
    Reservation,
    Reservations,
    Share,
    parse_reservation,
)
from vgpu_cfg.model.verdicts import TriedVCenter, VerdictFile
from vgpu_cfg.model.verification import (
    CheckResult,
    CheckState,
    CheckSubject,
    Sign,
    Verification,
    Watch,
    Watched,
)
from vgpu_cfg.model.wording import (
    age,
    as_counted,
    as_json,
    counted,
    duration,
    gib,
    is_at_least,
    is_obeyed,
    listed,
    node_list,
    shortened,
    shown,
    version_tuple,
    whole_gib,
)

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
UUID = "50010203-1234-1234-1234-123456789abc"


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            gib,
            {
                0: "0 GiB",
                1023: "1023 MiB",
                1024: "1 GiB",
                1025: "1025 MiB",
                1 << 20: "1 TiB",
                3 << 19: "1536 GiB",
            },
        ),
        (whole_gib, {-5: "0 GiB", 1023: "0 GiB", 1024: "1 GiB", 4095: "3 GiB"}),
        (
            duration,
            {
                0: "0 s",
                0.44: "0.4 s",
                9.96: "10 s",
                10: "10 s",
                32.4: "32 s",
                59.6: "1 min",
                60: "1 min",
                250: "4 min 10 s",
                3599: "59 min 59 s",
                3600: "1 h",
                3900: "1 h 5 min",
                7199: "1 h 59 min",
            },
        ),
        (
            age,
            {
                -1: "0 min",
                59: "0 min",
                60: "1 min",
                7199: "119 min",
                7200: "2 h",
                172799: "47 h",
                172800: "2 d",
                259199: "2 d",
                259200: "3 d",
            },
        ),
        (version_tuple, {"8.0.3": (8, 0, 3), "9.x.1": (9, 0, 1), "": ()}),
        (as_counted, {"a2": (("a", 2), ("", -1)), "a10b": (("a", 10), ("b", -1)), "": (("", -1),)}),
        (
            shown,
            {"a b": "a b", "a\nb\x9b\u202e": r"a\nb\x9b\u202e", "é\u3000": "é\u3000", "\ud800": r"\ud800"},
        ),
        (is_obeyed, {"a": False, "\n": True, "\u3000": False, "\u2028": True, "\u200b": True}),
        (shortened, {"x" * 200: "x" * 200, "x" * 201: f"{'x' * 199}…", 5: 5}),
        (as_json, {"\x7f\n": '"\\u007f\\n"'}),
    ],
)
def test_a_value_in_words(function: Any, words: dict[Any, Any]) -> None:
    assert {value: function(value) for value in words} == words


def test_lists_in_words() -> None:
    assert [counted(number, "host") for number in (0, 1, 2)] == ["0 hosts", "1 host", "2 hosts"]
    assert [counted(number, "policy", "policies") for number in (1, 2)] == ["1 policy", "2 policies"]
    assert [listed("abc"), listed("abcd"), listed([])] == ["a, b, c", "a, b, c and 1 more", ""]
    assert listed("abcde", shown=2, separator="; ") == "a; b and 3 more"
    assert node_list([3, 0, 3]) == "0,3"
    assert [is_at_least(version, (8, 0, 2)) for version in ("8.0.2", "8.0", "9", "")] == [
        True,
        False,
        True,
        True,
    ]
    assert shortened({"a": ["x" * 300], "b": list(range(300))}) == {
        "a": [f"{'x' * 199}…"],
        "b": list(range(200)),
    }
    assert as_json({"a": 1}, indent=1) == '{\n "a": 1\n}'


def vm(name: str, *nics: dict[str, Any], **more: Any) -> DesiredVm:
    return DesiredVm.model_validate({"name": name, "line": name, "source": None, "nics": nics, **more})


def nic(**words: Any) -> DesiredNic:
    return DesiredNic.model_validate({"network": None, **words})


FUNCTION = {"kind": "passthrough", "near_gpu": True}
DIRECT = {"network": "roce", "rdma": "gpudirect", "function": FUNCTION}
PLAN = DesiredPlan.model_validate(
    {
        "name": "p",
        "id": UUID,
        "vcenter": "v",
        "networks": [
            {"name": "/dc/network/Roce/"},
            {"name": "/dc/network/storage", "mtu": 1400},
            {"name": "twice"},
            {"name": "/dc/network/twice"},
            {"name": "idle"},
        ],
        "vms": [vm("a", DIRECT, {"network": "idle"}), vm("b", {"network": "storage", "rdma": "host"})],
    }
)


@pytest.mark.parametrize(
    ("network", "found"),
    [
        ("/DC/network/roce", 0),
        ("roce/", 0),
        ("/other/roce", 0),
        ("twice", 2),
        ("/x/twice", None),
        ("none", None),
        (None, None),
    ],
)
def test_a_nic_finds_its_network(network: str | None, found: int | None) -> None:
    entry = network_of(PLAN, nic(network=network))
    assert entry == (None if found is None else PLAN.networks[found])


def test_mtus() -> None:
    assert [network_mtu(PLAN, one) for one in PLAN.networks] == [9000, 1400, None, None, None]
    without = DesiredNetwork(name="x")
    assert [mtu_of(nic(rdma=rdma), one) for rdma in (None, "host") for one in (None, without)] == [
        None,
        None,
        9000,
        9000,
    ]
    assert mtu_of(nic(rdma="host"), PLAN.networks[1]) == 1400


@pytest.mark.parametrize(
    ("words", "is_rdma", "is_direct"),
    [
        ({}, False, False),
        ({"rdma": "host", "function": FUNCTION}, True, False),
        ({"rdma": "gpudirect"}, True, False),
        ({"rdma": "gpudirect", "function": FUNCTION}, True, True),
    ],
)
def test_rdma_is_asked_of_a_nic(words: dict[str, Any], is_rdma: bool, is_direct: bool) -> None:
    asked = vm("a", {"network": "n"}, {"network": "n", **words})
    assert (asks_rdma(asked), asks_gpudirect(asked)) == (is_rdma, is_direct)
    near = with_nearness(PLAN.model_copy(update={"vms": (asked,)}))
    must = [one.function.must_be_near for one in near.vms[0].nics if one.function is not None]
    assert must == ([is_direct] if "function" in words else [])


def test_nearness_is_a_must_for_gpudirect_alone() -> None:
    anywhere = {**DIRECT, "function": {**FUNCTION, "near_gpu": False}}
    plan = PLAN.model_copy(
        update={"vms": (vm("a", DIRECT, anywhere, {**DIRECT, "rdma": "host"}), *PLAN.vms[1:])}
    )
    near = with_nearness(plan)
    assert [one.function.must_be_near for one in near.vms[0].nics if one.function] == [True, False, False]
    assert near.vms[1] == PLAN.vms[1]
    assert with_nearness(near.model_copy(update={"vms": PLAN.vms[1:]})).vms == PLAN.vms[1:]


def test_a_desired_vm() -> None:
    disks = [{"kind": "new", "size_mib": 1, "storage_policy": name} for name in ("gold", None, "silver")]
    found = vm(
        "a",
        storage_policy="home",
        disks=disks,
        managed=["cpus", "power"],
        ignore=["power"],
        expires="2026-11-30",
    )
    assert found.storage_policies == {"home", "gold", "silver"}
    assert [found.is_managed(key) for key in ("cpus", "power", "memory")] == [True, False, False]
    assert [found.is_expired(date(2026, 11, day)) for day in (29, 30)] == [False, False]
    assert found.is_expired(date(2026, 12, 1))
    assert not vm("a").is_expired(date(2026, 12, 1))
    sources = [{"kind": "template", "path_or_name": "t", "linked": linked} for linked in (True, False)]
    sources.append({"kind": "scratch", "guest_id": "x"})
    assert [vm("a", source=source).is_linked for source in sources] == [True, False, False]
    assert (found.model_dump()["managed"], PLAN.identity) == (
        ["cpus", "power"],
        PlanIdentity(name="p", id=UUID),
    )


@pytest.mark.parametrize(
    ("kind", "value", "folder", "seen"),
    [
        ("age", "a.age", "sub", "sub/a.age"),
        ("sops", "a.yaml", ".", "a.yaml"),
        ("age", "/etc/a.age", "sub", "/etc/a.age"),
        ("age", "~/a.age", "sub", "~/a.age"),
        ("sops", "C:\\a.yaml", "sub", "C:\\a.yaml"),
        ("file", "a", "sub", "a"),
    ],
)
def test_a_secret_is_found_from_another_folder(kind: Any, value: str, folder: str, seen: str) -> None:
    assert str(SecretReference(kind=kind, value=value).seen_from(folder)) == f"{kind}:{seen}"
    assert Limits(answer_mib=3).answer_bytes == 3 << 20


HOLDS = [
    {"cluster": "c1", "label": "gpu", "board": "l40s", "gpus": 2},
    {"cluster": "c2", "board": "h100", "gpus": 1},
]
RESERVATION = Reservation.model_validate(
    {"plan": "p", "id": UUID, "begins": NOON, "ends": NOON + timedelta(days=1), "holds": HOLDS}
)


def test_a_reservation_reads_back() -> None:
    name, text = RESERVATION.alarm_name, RESERVATION.text
    assert name == "vgpu-cfg reservation: p"
    assert text.startswith('GPUs reserved by a vgpu-cfg plan {"plan":"p",')
    assert parse_reservation(name, text) == RESERVATION
    backwards = RESERVATION.model_copy(update={"ends": NOON})
    wrong = [(f"{name}q", text), (name, backwards.text), (name, "{"), (name, "edited"), (name, "{}")]
    assert [parse_reservation(*one) for one in wrong] == [None] * 5
    words = "2 GPUs of l40s in gpu, 1 GPU of h100 in c2, 2026-11-30 12:00 to 2026-12-01 12:00 UTC"
    assert RESERVATION.words == words


def test_a_reservation_holds_gpus() -> None:
    asked = [("c1", "l40s"), ("c2", "l40s"), ("c2", "h100")]
    assert [RESERVATION.gpus_of(*one) for one in asked] == [2, 0, 1]
    hours = [timedelta(hours=one) for one in (-1, 0, 23, 24)]
    assert [RESERVATION.is_on(NOON + one) for one in hours] == [False, True, True, False]
    plans = [PlanIdentity(name="p"), PlanIdentity(name="q", id=UUID), PlanIdentity(name="p", id="x")]
    assert [RESERVATION.is_of(one) for one in plans] == [True, True, False]
    assert not RESERVATION.is_of(PlanIdentity(name="q"))
    kept = [
        KeptReservation(moid="1", name="a", reservation=None),
        KeptReservation(moid="2", name="b", reservation=RESERVATION),
    ]
    found = Reservations(now=NOON, kept=tuple(kept))
    assert [found.named("b"), found.named("x")] == [kept[1], None]
    assert [found.of_plan(one) for one in plans[1:]] == [kept[1], None]
    shares = [Share(kind="others"), Share(kind="folder", name="/dc/vm/x"), Share(kind="owner", name="anna")]
    assert [one.holder for one in shares] == ["all others", "folder /dc/vm/x", "owner anna"]


FREEZE = Freeze(
    until=NOON, reason="audit", change="CHG1", user="anna", machine="m", since=NOON - timedelta(hours=2)
)


def test_a_freeze_reads_back() -> None:
    assert parse_freeze(FREEZE.text) == FREEZE
    assert FREEZE.text.startswith("frozen by vgpu-cfg; to end the freeze, run `vgpu-cfg freeze --thaw` {")
    assert [parse_freeze(text) for text in ("", "x {", "{}")] == [None] * 3
    kept = KeptFreeze(moid="1", freeze=FREEZE, account="admin")
    assert kept.words == (
        "until 2026-11-30 12:00 UTC by anna on m (admin), since 2026-11-30 10:00 UTC: CHG1: audit"
    )
    edited = kept.model_copy(update={"freeze": None})
    assert edited.words == "admin's alarm 'vgpu-cfg freeze' does not show when the freeze ends or why"
    assert [one.is_on(NOON) for one in (kept, edited)] == [False, True]
    locks = Locks(now=NOON - timedelta(seconds=1), freezes=(kept,))
    assert [locks.freeze, locks.model_copy(update={"now": NOON}).freeze] == [kept, None]
    assert [thaw_command(server) for server in ("", "v")] == [
        "vgpu-cfg freeze --thaw",
        "vgpu-cfg freeze --thaw --server v",
    ]


def lock(kind: str, key: str, run: str, minutes: int) -> Lock:
    holder = {
        "run": run,
        "since": NOON,
        "user": "anna",
        "machine": "m",
        "command": "apply",
        "plan": "p",
        "pid": 7,
    }
    name = {"kind": kind, "key": key, "label": "esx" if kind == "host" else "p" if kind == "id" else ""}
    return Lock.model_validate(
        {
            "moid": key,
            "name": name,
            "holder": holder if run else None,
            "beat_at": NOON - timedelta(minutes=minutes),
        }
    )


def test_the_locks_of_runs() -> None:
    held = (
        lock("plan", "p", "r1", 20),
        lock("host", "h1", "r2", 15),
        lock("id", "i", "r1", 14),
        lock("cluster", "c", "", 0),
    )
    kept = KeptReservation(moid="1", name="a", reservation=None)
    locks = Locks(now=NOON, held=held, server="v", reserved=(kept,))
    assert (locks.runs, locks.unknown, locks.of_run("r1")) == (("r1", "r2"), held[3:], (held[0], held[2]))
    assert (locks.beat_of("r1"), locks.is_silent("r1"), locks.is_silent("r2")) == (
        held[2].beat_at,
        False,
        True,
    )
    assert (locks.named(LockName(kind="host", key="h1")), locks.named(LockName(kind="host", key="p"))) == (
        held[1],
        None,
    )
    assert locks.unlock_command("r1") == "vgpu-cfg unlock r1 --server v"
    assert locks.model_copy(update={"server": ""}).unlock_command("r1") == "vgpu-cfg unlock r1"
    assert locks.reservations == Reservations(now=NOON, kept=(kept,))
    assert [str(one.name) for one in held] == ["plan p", "host esx", "plan p", "cluster c"]
    assert [one.name.plan for one in held] == ["p", "", "p", ""]
    assert str(held[0].holder) == "anna on m, `apply` of p, process 7"


def test_occasions_and_moments() -> None:
    asked = [NO_OCCASION, Occasion("CHG1"), Occasion("", "why"), Occasion("CHG1", "why")]
    assert [one.text for one in asked] == ["", "CHG1", "why", "CHG1: why"]
    assert in_utc(datetime(2026, 1, 1)) == datetime(2026, 1, 1, tzinfo=UTC)  # noqa: DTZ001 - without a zone
    for year in (1969, 9001):
        with pytest.raises(ValueError, match=f"^{year} is not a valid year$"):
            in_utc(datetime(year, 6, 1, tzinfo=UTC))

    class Pair(Frozen):
        a: int = 0
        b: int = 0

    many = [Pair.one_of_many(a=1), Pair.one_of_many(a=2), Pair.one_of_many(b=1)]
    assert many == [Pair(a=1), Pair(a=2), Pair(b=1)]
    assert many[0].model_fields_set is many[1].model_fields_set
    assert many[2].model_fields_set == {"b"}


def result(state: str, **more: Any) -> CheckResult:
    return CheckResult(
        subject=CheckSubject(kind="vm", name="a"), check="c", title="t", state=CheckState(state), **more
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"observed": "2 GPUs"}, "2 GPUs"),
        ({"observed": "2 GPUs", "expected": "4"}, "2 GPUs, expected 4"),
        (
            {"observed": "2 GPUs", "expected": "4", "meaning": "two are gone"},
            "2 GPUs, expected 4: two are gone",
        ),
    ],
)
def test_a_failure_in_one_sentence(words: dict[str, str], message: str) -> None:
    assert result("failed", **words).message == message


@pytest.mark.parametrize(
    ("states", "passes"),
    [
        (["passed", "skipped", "not_asked"], True),
        (["passed", "failed"], False),
        (["passed", "unproven"], False),
        (["skipped"], False),
        ([], False),
    ],
)
def test_a_verification_passes(states: Sequence[str], passes: bool) -> None:
    results = tuple(map(result, states))
    found = Verification(plan="p", server="s", begun=NOON, results=results)
    assert found.passes is passes
    assert found.failed == tuple(one for one in results if one.state is CheckState.FAILED)
    assert found.unproven == tuple(one for one in results if one.state is CheckState.UNPROVEN)


def test_signs_over_time() -> None:
    signs = [
        Sign(rule="r", host="h", vm="v", gpu="g"),
        Sign(rule="r", host="", vm="v"),
        Sign(rule="r", host="h"),
    ]
    assert [one.place for one in signs] == ["host h, VM v, GPU g", "VM v", "host h"]
    assert signs[0].key == ("r", "h", "v", "g")
    watched = [
        Watched(sign=signs[0], since=NOON, held_since=NOON, seen_at=NOON, is_told=told)
        for told in (True, False)
    ]
    assert watched[0].held(NOON + timedelta(hours=1)) == timedelta(hours=1)
    assert Watch(plan="p", server="s", at=NOON, due=tuple(watched)).new == (watched[1],)


def test_names_and_counts() -> None:
    file = VerdictFile(vcenter=TriedVCenter(instance_uuid=UUID, build="123", tried_at=NOON), program="1")
    assert file.file_name == f"vcenter-{UUID}-123.yaml"
    gpus = [{"profile": "l40s-8c", "board": "l40s"}, {"board": "l40s"}, {"profile": "l40s-8c"}]
    workers = [
        {
            "vm": "a",
            "host_name": "a",
            "domain": "lab",
            "training_address": "10.0.0.1",
            "slots": 2,
            "gpus": gpus,
        },
        {"vm": "b", "host_name": "b", "slots": 1},
    ]
    hosts = HostList.model_validate(
        {"plan": "p", "workers": workers, "head": {"vm": "h", "host_name": "h", "slots": 5}}
    )
    assert [one.full_name for one in hosts.everyone] == ["h", "a.lab", "b"]
    assert [one.peer_address for one in hosts.workers] == ["10.0.0.1", "b"]
    assert (hosts.workers[0].gpu_kinds, hosts.processes) == ({"l40s-8c": 2, "l40s": 1}, 3)
    assert hosts.model_copy(update={"head": None}).everyone == hosts.workers


def test_what_guests_lack() -> None:
    rows = [{"name": name, "state": name} for name in ("has", "lacks", "unknown", "not_asked")]
    looks = [{"template": "t", "vms": "a", "clone": "c", "rows": one} for one in (rows[:1] + rows[2:], rows)]
    found = [
        TemplateLooks.model_validate({"plan": "p", "server": "s", "begun": NOON, "looks": one})
        for one in (looks[:1], looks)
    ]
    assert [one.lacks for one in found] == [False, True]
    assert found[1].looks[1].lacks == ("lacks",)
    parts = [
        {"name": f"{today}-{target}", "today": {"fits": today}, "target": {"fits": target}}
        for today in ("yes", "no", "unknown")
        for target in ("yes", "no", "unknown")
    ]
    branches = [
        BranchPlan.model_validate(
            {
                "plan": "p",
                "server": "s",
                "begun": NOON,
                "branch": "580",
                "about": (),
                "stacks": [{"vm": "a", "host": "h", "parts": one}],
            }
        )
        for one in (parts, parts[1:3])
    ]
    assert branches[0].lacks == tuple(
        f"a: {part['name']}" for part in parts if "no" in str(part["name"]).split("-")
    )
    assert [one.is_known for one in branches] == [True, False]
