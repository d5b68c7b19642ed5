"""Every govc command that vgpu-cfg prints exists in govc, with its flags."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.architecture.sources import ROOT
from tests.contract.conftest import NEEDS_GO, built

COMMAND = re.compile(r"\bgovc ([a-z]+(?:\.[a-z]+)+|events|tasks|find)\b([^`&;\n]*)")
FLAG = re.compile(r"(?<=\s)-[a-z][a-zA-Z.-]*")


def texts_of(tree: ast.AST) -> Iterator[str]:
    """Return the strings of a module, with X for inserted values, and words for govc as a line."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr():
                yield text_of(node)
            case ast.Tuple(elts=[ast.Constant(value="govc"), *words]):
                yield " ".join(("govc", *map(text_of, words)))
            case ast.keyword(arg="govc", value=ast.Lambda(body=ast.Tuple(elts=words))):
                yield " ".join(("govc", *map(text_of, words)))
            case _:
                pass


def text_of(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=value):
            return str(value)
        case ast.JoinedStr(values=values):
            return "".join(map(text_of, values))
        case _:
            return "X"


def commands() -> dict[str, set[str]]:
    """Return the commands of govc that the program's texts contain, with their flags."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "vgpu_cfg").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "govc" not in source:
            continue
        for text in texts_of(ast.parse(source)):
            for command, rest in COMMAND.findall(text):
                found.setdefault(command, set()).update(FLAG.findall(rest))
    return found


@pytest.mark.long(NEEDS_GO)
def test_govc_knows_the_commands_and_flags_that_are_printed() -> None:
    binary = built("govc")
    known = commands()
    assert len(known) >= 30
    unknown = []
    for command, flags in known.items():
        done = subprocess.run(
            [str(binary), command, "-h"], capture_output=True, text=True, timeout=120, check=False
        )
        told = done.stdout + done.stderr
        if f" {command} [OPTIONS]" not in told:
            unknown.append(command)
        unknown += [f"{command} {flag}" for flag in sorted(flags) if f"\n  {flag}=" not in told]
    assert unknown == []
