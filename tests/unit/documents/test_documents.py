"""Documents: what is read, what is refused, and where each complaint points."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator

from tests.extent import examples
from vgpu_cfg.documents import Document, build, did_you_mean, dump, parse_text, read_document
from vgpu_cfg.documents import text as reading
from vgpu_cfg.errors import DocumentError


class Gpu(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: Literal["gpu"] = "gpu"
    board: str
    count: int = Field(default=1, ge=1)


class Nic(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: Literal["nic"]
    speed: Literal["slow", "fast"] = "slow"


class Host(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    cores: int | Literal["all"] = 1
    devices: tuple[Annotated[Gpu | Nic, Field(discriminator="kind")], ...] = ()
    labels: dict[str, str] = {}

    @field_validator("name")
    @classmethod
    def _no_space(cls, name: str) -> str:
        if " " in name:
            message = "a name holds no space\nwrite it with a dash"
            raise ValueError(message)
        return name


class Estate(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    hosts: list[Host] = []


def faults(text: str) -> list[str]:
    with pytest.raises(DocumentError) as caught:
        parse_text(text, "a.yaml")
    return [str(fault) for fault in caught.value.faults]


def complaints(text: str, *, lenient: bool = False) -> list[str]:
    with pytest.raises(DocumentError) as caught:
        build(parse_text(text, "a.yaml", lenient=lenient), Estate)
    return [str(fault) for fault in caught.value.faults]


def test_plain_data_of_yaml_1_2() -> None:
    document = parse_text(
        "a: 1\nb: off\nc: 2027-03-31\nd: true\ne:\nf: 1.5\ng: '7'\nh: 0x1f\ni: 010\nj: [x, {k: v}]\n1: one\n"
        "l: !!str 5\nm: |\n  two\n  lines\n",
        "a.yaml",
    )
    assert document.data == {
        "a": 1, "b": "off", "c": "2027-03-31", "d": True, "e": None, "f": 1.5, "g": "7", "h": 31, "i": 10,
        "j": ["x", {"k": "v"}], "1": "one", "l": "5", "m": "two\nlines\n",
    }  # fmt: skip


PIECES = (
    "a", "a:", "b: ", "- ", "\n", "\n  ", "\n    ", ": ", "{", "}", "[", "]", ", ", "'x'", '"y z"', " # c",
    "&k ", "*k", "!!str ", "! ", "|\n", "|+\n", ">-\n", " off", "0x1f", "~", "ü", "<<: ", "? ", "---\n",
    "...\n", "1:2", "a:b", "\\", '"\\/\\u00e9"', "\r\n", "@", "x: y\n", "{a: 1}", "http://x:1/y", "-",
    "😀", "\x85", "\u2028",
)  # fmt: skip
"""Of which texts are made that parsers of YAML 1.1 and 1.2 could read differently."""


@settings(max_examples=examples(400, 8_000))
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_libyaml_reads_what_a_parser_of_yaml_1_2_reads(text: str) -> None:
    try:
        data = parse_text(text, "a.yaml").data
    except DocumentError:
        return  # what is refused has no meaning
    with pytest.MonkeyPatch.context() as without_libyaml:
        without_libyaml.setattr(reading, "_QUICK", None)
        assert parse_text(text, "by ruamel.yaml").data == data


def test_a_version_directive_changes_nothing() -> None:
    assert parse_text("%YAML 1.1\n---\na: off\n", "a.yaml").data == {"a": "off"}


def test_anchors_merges_and_the_x_keys_that_hold_them() -> None:
    document = parse_text(
        "x-small: &small {cpus: 4, disk: 1}\nx-fast: &fast {disk: 2, gpu: a}\n"
        "one: {<<: *small, cpus: 8}\ntwo:\n  <<: [*small, *fast]\nthree: *small\n",
        "a.yaml",
    )
    assert document.data == {
        "one": {"cpus": 8, "disk": 1},
        "two": {"cpus": 4, "disk": 1, "gpu": "a"},
        "three": {"cpus": 4, "disk": 1},
    }
    assert str(document.fault(("two", "gpu"), "bad")) == "a.yaml:2:30: bad"
    assert str(document.fault(("three",), "bad")) == "a.yaml:6:1: bad"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["a.yaml:1:1: the document is empty"]),
        ("# only a comment\n", ["a.yaml:1:1: the document is empty"]),
        ("---\n", ["a.yaml:1:1: the document is empty"]),
        ("- a\n- b\n", ["a.yaml:1:1: the document must be a mapping of keys to values"]),
        ("just text\n", ["a.yaml:1:1: the document must be a mapping of keys to values"]),
        ("a: 1\na: 2\nb:\n  c: 1\n  c: 2\n", [
            "a.yaml:2:1: the key 'a' is repeated (first on line 1) (keep one of them)",
            "a.yaml:5:3: the key 'c' is repeated (first on line 4) (keep one of them)",
        ]),
        ("a:\n\tb: 1\n", ["a.yaml:2:1: tabs cannot be used for YAML indentation (indent with spaces)"]),
        ("a: *x\n", ["a.yaml:1:4: the alias *x is used before it is defined"]),
        ("a: &x [*x]\n", ["a.yaml:1:8: the anchor &x contains itself"]),
        ("a: 1\n---\nb: 2\n", [
            "a.yaml:2:1: a second document starts here (a file must contain a single document)"]),
        ("a: !!python/name:os.system x\n", [
            "a.yaml:1:4: the tag tag:yaml.org,2002:python/name:os.system is not supported (remove it)"]),
        ("a: !!int '5'\n", ["a.yaml:1:4: the tag tag:yaml.org,2002:int is not supported (remove it)"]),
        ("? [a, b]\n: 1\n", ['a.yaml:1:3: a key must be text (quote it, as in "{n}": 1)']),
        (
            "a: {<<: 5}\n",
            ["a.yaml:1:5: << requires an alias for a mapping, or a list of aliases for mappings"],
        ),
        ("a: 'open\n", ["a.yaml:1:4: this quoted text is not closed (close the quote)"]),
        ("a: @x\n", ["a.yaml:1:4: a value cannot begin with this character (quote the value)"]),
        ("a: \x07\n", ["a.yaml:1:4: the character U+0007 is not allowed in YAML (delete it)"]),
        ("a: [1,\n", ["a.yaml:2:1: the file ends inside [] or {} (close the bracket)"]),
        ("a: {n: vm-{01..02}}\n", [
            "a.yaml:1:11: missing comma or closing bracket "
            "(inside [] and {}, quote text that contains any of []{},)"]),
        ("a: b: c\n", [
            "a.yaml:1:5: a second ': ' on this line, or the line is indented too far "
            "(quote text that contains ': ', and align keys)"]),
        ("a:\n    b: 1\n  c: 2\n", [
            "a.yaml:3:3: this line is not aligned with the lines above (fix its indentation)"]),
        ("a: 1\nb\n", ["a.yaml:3:1: this key is not followed by ': ' (write it as key: value)"]),
    ],
)  # fmt: skip
def test_faults_of_the_text(text: str, expected: list[str]) -> None:
    assert faults(text) == expected


def test_deep_nesting_and_alias_bombs_are_refused() -> None:
    assert "nested deeper" in faults("a: " + "[" * 200 + "]" * 200 + "\n")[0]
    lines = ["x0: &x0 [1,1,1,1,1,1,1,1,1,1]"]
    lines += [f"x{n}: &x{n} [{','.join([f'*x{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "beyond the limit" in faults("\n".join(lines))[0]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    binary = tmp_path / "latin.yaml"
    binary.write_bytes(b"a: 1\nb: M\xfcnster\n")
    for path, expected in [
        (tmp_path / "absent.yaml", "x.yaml:1:1: cannot read the file: No such file or directory"),
        (tmp_path, "x.yaml:1:1: cannot read the file: Is a directory"),
        (binary, "x.yaml:2:5: the file is not UTF-8 text (save it as UTF-8)"),
    ]:
        with pytest.raises(DocumentError) as caught:
            read_document(path, name="x.yaml")
        assert [str(fault) for fault in caught.value.faults] == [expected]
    good = tmp_path / "bom.yaml"
    good.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    assert read_document(good).data == {"a": 1, "b": 2}


def test_build_gives_the_model() -> None:
    text = "name: e\nhosts:\n- name: h\n  cores: all\n  devices: [{kind: gpu, board: a100}, {kind: nic}]\n"
    estate = build(parse_text(text, "a.yaml"), Estate)
    assert estate.hosts[0].devices == (Gpu(board="a100"), Nic(kind="nic"))
    assert build(parse_text(text, "a.yaml"), Host, loc=("hosts", 0)) == estate.hosts[0]


def test_build_tells_every_fault_where_it_stands() -> None:
    text = (
        "nme: e\n"
        "hosts:\n"
        "- name: a b\n"
        "  cores: many\n"
        "  devices:\n"
        "  - {kind: gpu, board: 7, count: 0}\n"
        "  - {kind: nic, speed: fats, colour: red}\n"
        "  - {kind: gpo}\n"
        "  - {board: x}\n"
        "- {cores: 2, labels: {a: {n}, b: 1}}\n"
    )
    assert complaints(text) == [
        "a.yaml:1:1: missing key 'name'",
        "a.yaml:1:1: unknown key 'nme' (did you mean 'name'?)",
        "a.yaml:3:9: a name holds no space (write it with a dash)",
        "a.yaml:4:10: 'cores' must be a whole number or all, not 'many'",
        "a.yaml:6:24: 'board' must be text, not 7 (quote it: \"7\")",
        "a.yaml:6:34: 'count' must be at least 1, not 0",
        "a.yaml:7:24: 'speed' must be slow or fast, not 'fats' (did you mean 'fast'?)",
        "a.yaml:7:30: unknown key 'colour' (available keys: kind, speed)",
        "a.yaml:8:12: 'kind' must be gpu or nic, not 'gpo' (did you mean 'gpu'?)",
        "a.yaml:9:5: missing key 'kind' in item 4 of 'devices'",
        "a.yaml:10:3: missing key 'name' in item 2 of 'hosts'",
        "a.yaml:10:23: 'a' must be text, not a mapping (quote it: \"{n}\")",
        "a.yaml:10:34: 'b' must be text, not 1 (quote it: \"1\")",
    ]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("cores: 2", "unknown key 'cores' (did you mean 'cores' in 'hosts'?)"),
        ("core: 2", "unknown key 'core' (did you mean 'cores' in 'hosts'?)"),
        ("hots: 2", "unknown key 'hots' (did you mean 'hosts'?)"),
        ("colour: 2", "unknown key 'colour' (available keys: hosts, name)"),
        ("hosts: [{name: a, kind: gpu}]", "unknown key 'kind' (did you mean 'kind' in 'devices'?)"),
        ("hosts: [{name: a, board: x}]", "unknown key 'board' (did you mean 'board' in 'devices'?)"),
        ("hosts: [{name: a, boards: x}]", "unknown key 'boards' (did you mean 'board' in 'devices'?)"),
        (
            "hosts: [{name: a, devices: [{kind: nic, cores: 2}]}]",
            "unknown key 'cores' (did you mean 'cores' at the same level as 'devices', not inside it?)",
        ),
    ],
)
def test_a_key_of_what_stands_below_or_above_is_said_to_be_one(keys: str, expected: str) -> None:
    (found,) = complaints(f"name: e\n{keys}\n")
    assert found.endswith(f": {expected}")


def test_a_lenient_reading_adds_its_faults_to_those_of_the_content() -> None:
    assert complaints("name: 1\nname: 2\n", lenient=True) == [
        "a.yaml:1:7: 'name' must be text, not 1 (quote it: \"1\")",
        "a.yaml:2:1: the key 'name' is repeated (first on line 1) (keep one of them)",
    ]
    assert complaints("name: a\nname: b\n", lenient=True) == [
        "a.yaml:2:1: the key 'name' is repeated (first on line 1) (keep one of them)"
    ]


def test_data_in_place_of_the_documents_own_keeps_its_positions() -> None:
    document = parse_text("name: ${who}\n", "a.yaml")
    assert build(document, Estate, data={"name": "me"}).name == "me"
    with pytest.raises(DocumentError) as caught:
        build(document, Estate, data={"name": 5})
    assert str(caught.value.faults[0]) == "a.yaml:1:7: 'name' must be text, not 5 (quote it: \"5\")"


def test_a_fault_at_an_unknown_place_goes_to_its_nearest_ancestor() -> None:
    document: Document = parse_text("vms:\n- name: a\n  nics:\n  - x\n", "a.yaml")
    places = {
        ("vms",): (1, 1),
        ("vms", 0): (2, 3),
        ("vms", 0, "name"): (2, 9),
        ("vms", 0, "nics"): (3, 3),
        ("vms", 0, "nics", 0): (4, 5),
        ("vms", 0, "cpus"): (2, 3),
        ("vms", 7): (1, 1),
        ("hosts",): (1, 1),
    }
    for loc, (line, column) in places.items():
        fault = document.fault(loc, "m")
        assert (fault.line, fault.column) == (line, column), loc
    at_key = document.fault(("vms", 0, "name"), "m", at_key=True)
    assert (at_key.line, at_key.column) == (2, 3)


def test_suggestions() -> None:
    assert did_you_mean("memroy", ["memory", "cpus"]) == "did you mean 'memory'?"
    assert did_you_mean("MEMORY", ["memory"]) == "did you mean 'memory'?"
    assert did_you_mean("zzz", ["b", "a"], noun="keys") == "available keys: a, b"
    assert did_you_mean("zzz", ["b", "a"]) == ""
    assert did_you_mean("owner", ["power", "place"]) == ""
    assert did_you_mean("ds-*", ["ds-6"]) == ""


_text = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"], exclude_characters="\u2028\u2029\ufeff"),
    max_size=12,
)
_tricky = st.sampled_from(
    [
        "off",
        "2027-03-31",
        "1_000",
        "0b1",
        ".5e3",
        "1e3",
        "12:30",
        "=",
        "<<",
        "~",
        "a: b",
        "# c",
        "\ttab",
        "two\nlines",
    ]
)
_numbers = st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)
_plain = st.recursive(
    st.none() | st.booleans() | _numbers | _text | _tricky,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abcxyz-{}1<", min_size=1, max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("abc"), _plain, min_size=1))
def test_what_is_dumped_reads_back_the_same(data: dict[str, object]) -> None:
    assert parse_text(dump(data), "a.yaml").data == data
