"""Several contexts in one view: the numbers of each alone, their sums, and what fails beside what answers."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.conftest import Serve
from vgpu_cfg.cli import compose
from vgpu_cfg.lab.soap.server import LabServer

LABS = {"prod-a": "two-a100", "prod-b": "mixed-fleet", "prod-c": "mig-a100"}
CONFIG = "contexts:\n" + "".join(f"  {name}: {{server: 'lab:{estate}'}}\n" for name, estate in LABS.items())
PLAN = "examples/full-vgpu.yaml"
QUESTIONS = {
    "inventory": ["inventory"],
    "pool": ["inventory", "--gpus"],
    "fit": ["fit", "grid_a100-10c"],
    "fit a VM": ["fit", "--plan", PLAN, "--vm", "big-01", "--cluster", "gpu"],
    "status": ["status", PLAN],
}


@pytest.fixture
def contexts(vgpu_cfg: CommandLine) -> CommandLine:
    vgpu_cfg.write("config.yaml", CONFIG)
    return vgpu_cfg


def told(ran_out: str) -> Any:
    """Read a document without the moments of its readings."""

    def without(value: Any) -> Any:
        match value:
            case dict():
                return {key: without(inner) for key, inner in value.items() if key not in ("read_at", "at")}
            case list():
                return [without(inner) for inner in value]
            case _:
                return value

    return without(json.loads(ran_out))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["inventory", "pool", "fit", "status"])
def test_each_answers_what_it_answers_alone_and_the_sums_are_theirs(name: str, contexts: CommandLine) -> None:
    words = [*QUESTIONS[name], "--output", "json"]
    document = told(contexts(*words, "--context", "prod-*").out)
    alone = [told(contexts(*words, "--context", context).out) for context in LABS]
    assert [row["name"] for row in document["contexts"]] == list(LABS)
    assert [row["answer"] for row in document["contexts"]] == alone
    assert all(row["error"] is None for row in document["contexts"])
    assert (
        document["total"]
        == {
            "inventory": lambda: {
                "hosts": sum(len(one["hosts"]) for one in alone),
                "gpus": sum(len(one["gpus"]) for one in alone),
                "vms": sum(host["vms"] for one in alone for host in one["hosts"]),
                "vms_on": sum(host["vms_on"] for one in alone for host in one["hosts"]),
            },
            "pool": lambda: {
                "hosts": sum(len({gpu["host"] for gpu in one["gpus"]}) for one in alone),
                "gpus": sum(len(one["gpus"]) for one in alone),
                "idle_gpus": sum(gpu["is_idle"] for one in alone for gpu in one["gpus"]),
            },
            "fit": lambda: {
                "fit": sum(one["total"] for one in alone),
                "hosts": sum(host["count"] > 0 for one in alone for host in one["hosts"]),
            },
            "status": lambda: {
                "hosts": sum(len(one["hosts"]) for one in alone),
                "vms": sum(len(one["vms"]) for one in alone),
                "differ": sum(not row["is_in_sync"] for one in alone for row in one["vms"]),
                "errors": sum(found["severity"] == "error" for one in alone for found in one["findings"]),
            },
        }[name]()
    )
    if name == "pool":
        assert {(row["board"], row["mode"]): (row["gpus"], row["room"]) for row in document["pool"]} == {
            key: (
                sum(row["gpus"] for row in rows),
                dict(sum((Counter(row["room"]) for row in rows), Counter())),
            )
            for key, rows in _by_kind(alone).items()
        }


def _by_kind(alone: list[Any]) -> dict[tuple[str, str], list[Any]]:
    found: dict[tuple[str, str], list[Any]] = {}
    for row in (row for one in alone for row in one["pool"]):
        found.setdefault((row["board"], row["mode"]), []).append(row)
    return found


def test_as_text_each_stands_under_its_name_and_the_sums_at_the_end(contexts: CommandLine) -> None:
    done = contexts.done("inventory", "--gpus", "--context", "prod-a", "--context", "prod-c")
    headings = [line for line in done.out.splitlines() if line.startswith("== ")]
    assert headings == ["== context prod-a", "== context prod-c"]
    assert "TOTAL POOL" in done.out
    assert done.out.splitlines()[-1].split() == ["all", "2", "4", "4"]
    alone = contexts.done("inventory", "--gpus", "--context", "prod-c").out
    assert alone in done.out
    assert "== " not in alone


def test_a_vm_of_a_plan_that_has_no_place_at_one_fits_at_another(contexts: CommandLine) -> None:
    ran = contexts("fit", "--plan", PLAN, "--vm", "big-01", "--context", "prod-*", "--output", "json")
    document = json.loads(ran.out)
    assert [row["exit_code"] for row in document["contexts"]] == [0, 4, 0]
    assert document["contexts"][1]["error"]["code"] == "VG425"
    assert document["total"]["fit"] > 0
    assert ran.code == 4
    assert json.loads(ran.err)["subject"].endswith("(context prod-b)")


# ---------------------------------------------------------------- exit codes


def test_where_one_fits_anywhere_something_fits(contexts: CommandLine) -> None:
    only_in_b = ("fit", "nvidia_l40s-12c", "--exit-code", "--context")
    assert contexts(*only_in_b, "prod-*").code == 0
    assert contexts(*only_in_b, "prod-a", "--context", "prod-c").code == 10


def test_what_differs_anywhere_differs(contexts: CommandLine) -> None:
    contexts.done("apply", "--yes", PLAN, "--context", "prod-a")
    both = ("status", PLAN, "--context", "prod-a", "--context", "prod-c")
    assert contexts(*both).code == 0
    ran = contexts(*both, "--exit-code", "--output", "json")
    assert ran.code == 10
    assert [row["exit_code"] for row in json.loads(ran.out)["contexts"]] == [0, 10]


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["inventory", "--html", "page.html"], "requires a single vCenter; specify one context"),
        (["inventory", "--gpus", "--watch"], "terminal"),
        (["inventory", "--compare", "old.json"], "requires a single vCenter; specify one context"),
        (["inventory", "--server", "lab:bare"], "omit it when --context selects several"),
        (["inventory", "--thumbprint", "aa"], "omit it when --context selects several"),
        (["inventory", "--from", "old.json"], "omit it when --context selects several"),
        (
            ["fit", "grid_a100-10c", "--add", "1 x esx-a100-01"],
            "requires a single vCenter; specify one context",
        ),
        (["fit", "--without", "host:esx-a100-01"], "requires a single vCenter; specify one context"),
        (["status", PLAN, "--html", "page.html"], "requires a single vCenter; specify one context"),
        (["status", PLAN, "--output", "junit"], "requires a single vCenter; specify one context"),
    ],
)
def test_what_is_of_one_vcenter_is_refused_for_several(
    words: list[str], said: str, contexts: CommandLine
) -> None:
    ran = contexts(*words, "--context", "prod-*")
    assert (ran.code, ran.out) == (2, "")
    assert said in " ".join(ran.err.replace("│", "").split())


def test_one_vcenter_is_not_counted_twice(contexts: CommandLine) -> None:
    contexts.write("config.yaml", CONFIG + "  prod-a2: {server: 'lab:two-a100'}\n")
    ran = contexts("inventory", "--context", "prod-*")
    assert ran.code == 2
    assert "prod-a and prod-a2 are contexts of the same vCenter" in " ".join(ran.err.replace("│", "").split())


def test_a_glob_that_means_none_names_those_that_there_are(contexts: CommandLine) -> None:
    ran = contexts("inventory", "--context", "prd-*")
    assert ran.code == 3
    assert "no context matches 'prd-*'" in ran.told
    assert "available: prod-a, prod-b, prod-c" in ran.told


def test_a_command_for_one_says_which_take_several(contexts: CommandLine) -> None:
    ran = contexts("plan", PLAN, "--context", "prod-*")
    assert ran.code == 3
    assert "`inventory`, `fit` and `status` accept several" in ran.told


def test_a_glob_of_hosts_must_name_something_somewhere(contexts: CommandLine) -> None:
    done = contexts.done("inventory", "--context", "prod-*", "--host", "esx-t4-*")
    assert done.out.splitlines()[-1].split()[:3] == ["all", "1", "2"]
    ran = contexts("inventory", "--context", "prod-*", "--host", "esx-t5-*")
    assert (ran.code, ran.out) == (5, "")
    assert "no host matches esx-t5-*" in ran.told


# ---------------------------------------------------------------- what fails


@pytest.fixture
def nobody() -> Iterator[int]:
    """Yield a port at which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def at(server: LabServer) -> dict[str, str]:
    return {
        "server": f"127.0.0.1:{server.port}",
        "user": "administrator@vsphere.local",
        "password": "env:GOOD",
        "thumbprint": server.thumbprint,
    }


@pytest.mark.enable_socket
def test_one_that_is_down_or_refuses_or_is_not_trusted_hides_nobody(
    serve: Serve, vgpu_cfg: CommandLine, nobody: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compose.SystemClock, "pause", lambda _self, _seconds: None)
    monkeypatch.setenv("VGPU_CFG_OUTAGE_SECONDS", "0")
    server, other = serve("two-a100"), serve("mig-a100")
    good = at(server)
    vgpu_cfg.write(
        "config.yaml",
        json.dumps(
            {
                "contexts": {
                    "prod-cert": good | {"server": f"localhost:{server.port}", "thumbprint": "00" * 32},
                    "prod-down": good | {"server": f"127.0.0.1:{nobody}"},
                    "prod-good": good,
                    "prod-word": at(other) | {"password": "env:BAD"},
                    "prod-none": good | {"server": "127.0.0.3", "password": "env:NOT_SET"},
                }
            }
        ),
    )
    words = ("inventory", "--context", "prod-*")
    as_text = vgpu_cfg(*words, GOOD="lab", BAD="nope")
    as_json = vgpu_cfg(*words, "--output", "json", GOOD="lab", BAD="nope")
    assert (as_text.code, as_json.code) == (5, 5)
    document = json.loads(as_json.out)
    assert {row["name"]: row["error"] and row["error"]["code"] for row in document["contexts"]} == {
        "prod-cert": "CertificateRejected",
        "prod-down": "NotSent",
        "prod-good": None,
        "prod-word": "LoginFailed",
        "prod-none": "LoginFailed",
    }
    assert document["total"] == {"hosts": 1, "gpus": 2, "vms": 0, "vms_on": 0}
    errors = [json.loads(line) for line in as_json.err.splitlines()]
    assert [error["subject"].rpartition("(")[2] for error in errors] == [
        f"context {name})" for name in ("prod-cert", "prod-down", "prod-word", "prod-none")
    ]
    assert [as_text.err.count(f"\n{label}") for label in ("WHERE", "DO")] == [4, 4]
    assert "1 of 5" in as_text.out
    assert "== context prod-good" in as_text.out
    assert "== context prod-down" not in as_text.out
